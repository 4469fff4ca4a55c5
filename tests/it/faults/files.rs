//! Files that a gateway finds and must not use: each is refused with its message, and left as it
//! is.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::Connection;

use crate::support::{Consumer, TestGateway};

/// Why a gateway does not start over a store file that is prepared so; the file is not touched.
#[track_caller]
fn refusal(prepare: impl FnOnce(&Path)) -> String {
    let mut gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    gateway.comment(15);
    gateway.stop();
    let path = gateway.config().store_path.clone();
    prepare(&path);
    let before = std::fs::read(&path).unwrap_or_default();
    let error = gateway.second().expect("it starts").to_string();
    assert_eq!(std::fs::read(&path).unwrap_or_default(), before);
    gateway.leave_broken();
    error
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test makes files of other programs"
)]
fn open(path: &Path) -> Connection {
    Connection::open(path).unwrap()
}

#[test]
fn a_file_that_is_no_database_is_not_ours() {
    for text in [
        "hello, this is a letter and no database at all".repeat(100),
        "xy".to_owned(),
    ] {
        let error = refusal(|path| std::fs::write(path, &text).unwrap());
        assert!(
            error.ends_with("gateway.db is not a store of the-loop gateway"),
            "{error}"
        );
    }
}

#[test]
fn a_database_of_another_program_is_not_ours() {
    for sql in [
        "CREATE TABLE notes (text TEXT)",
        "CREATE TABLE notes (text TEXT); PRAGMA user_version = 1",
        "CREATE TABLE notes (text TEXT); PRAGMA application_id = 1; PRAGMA user_version = 1",
        "PRAGMA user_version = 7",
    ] {
        let error = refusal(|path| {
            std::fs::remove_file(path).unwrap();
            open(path).execute_batch(sql).unwrap();
        });
        assert!(
            error.ends_with("gateway.db is not a store of the-loop gateway"),
            "{sql} {error}"
        );
    }
}

#[test]
fn a_store_of_a_newer_program_is_refused_by_its_version() {
    let error = refusal(|path| {
        open(path).pragma_update(None, "user_version", 99).unwrap();
    });
    let end = "has schema version 99; this program knows up to 3";
    assert!(error.contains(end), "{error}");
}

#[test]
fn a_damaged_store_is_refused_as_damaged() {
    let overwrite = |path: &Path, from: usize, until: usize| {
        let mut bytes = std::fs::read(path).unwrap();
        let until = until.min(bytes.len());
        bytes[from..until].fill(0xa5);
        std::fs::write(path, bytes).unwrap();
    };
    let truncate = |path: &Path, length: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(length).unwrap();
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 4] = [
        ("the first page", &|path| overwrite(path, 100, 4_096)),
        ("all but the header", &|path| {
            overwrite(path, 100, usize::MAX)
        }),
        ("cut after its first page", &|path| truncate(path, 4_096)),
        ("cut in the middle of a page", &|path| {
            truncate(path, 10_000)
        }),
    ];
    for (what, damage) in damages {
        let error = refusal(damage);
        assert!(error.contains("gateway.db is damaged: "), "{what}: {error}");
    }
}

#[test]
fn a_path_that_cannot_be_opened_is_named() {
    let error = refusal(|path| {
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
    });
    assert!(
        error.contains("cannot open ") && error.contains("gateway.db: "),
        "{error}"
    );
}

#[test]
fn an_empty_file_is_a_new_store() {
    let mut gateway = TestGateway::start();
    gateway.stop();
    let path = gateway.config().store_path.clone();
    // A file of its own: readers of the old one may still be open in this process.
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "").unwrap();
    gateway.restart();
    gateway.claim("laptop", 15);
    gateway.comment(15);
    let answer = Consumer::new("laptop").fetch(&gateway, 9, &[]);
    assert_eq!(crate::support::consumer::seqs(&answer), [1]);
}

#[test]
fn a_second_gateway_is_refused_and_the_first_goes_on() {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    for _ in 0..3 {
        let error = gateway.second().unwrap();
        let pid = format!("(process {})", std::process::id());
        assert!(error.to_string().contains(&pid), "{error}");
        assert!(error.is_for_the_operator());
    }
    gateway.comment(15);
    let inode = |name: &str| std::fs::metadata(gateway.root().join(name)).unwrap().ino();
    let (lock, store) = (inode("gateway.pid"), inode("gateway.db"));
    gateway.second().unwrap();
    assert_eq!((inode("gateway.pid"), inode("gateway.db")), (lock, store));
    let answer = Consumer::new("laptop").fetch(&gateway, 9, &[]);
    assert_eq!(crate::support::consumer::seqs(&answer), [1]);
}
