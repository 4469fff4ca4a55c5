//! `backup`, `restore` and `verify`, each by itself.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::rows::{execute, number};
use super::scene::Scene;

pub(super) const STORE: &str = ".the-loop/gateway/gateway.db";
pub(super) const RAISED_BY: i64 = 1_000_000;

/// Removes a store with all that belongs to it.
pub(super) fn lose(store: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut path = store.as_os_str().to_owned();
        path.push(end);
        drop(std::fs::remove_file(PathBuf::from(path)));
    }
    assert!(!store.try_exists().unwrap());
}

#[test]
fn a_backup_overwrites_nothing_and_names_itself_in_a_directory() {
    let mut scene = Scene::start();
    scene.comment(15, 1).assert(202);
    let taken = scene.home.write("taken.db", "mine");
    let named = taken.display().to_string();
    let refused = scene.home.run(&["backup", &named]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("taken.db is there already"),
        "{}",
        refused.err
    );
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "mine");
    let directory = scene.home.path("backups");
    std::fs::create_dir(&directory).unwrap();
    let named = directory.display().to_string();
    let done = scene.home.run(&["backup", &named]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        done.out
            .contains("verified\n1 event, 0 deliveries waiting, 1 held"),
        "{}",
        done.out
    );
    let files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert!(
        files[0].starts_with("gateway-2") && files[0].ends_with("Z.db"),
        "{files:?}"
    );
    // While it stands still, too; and a missing store is said.
    scene.stop();
    let again = scene.home.path("again.db").display().to_string();
    assert_eq!(scene.home.run(&["backup", &again]).code, Some(0));
    lose(&scene.home.path(STORE));
    let missing = scene.home.run(&["backup", "other.db"]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.err.contains("there is no store at"),
        "{}",
        missing.err
    );
}

#[test]
fn a_restore_keeps_what_was_there_and_takes_no_unsound_copy() {
    let mut scene = Scene::start();
    scene.comment(15, 1).assert(202);
    let copy = scene.home.path("copy.db");
    let named = copy.display().to_string();
    assert_eq!(scene.home.run(&["backup", &named]).code, Some(0));
    scene.comment(15, 2).assert(202);
    scene.stop();
    let store = scene.home.path(STORE);
    let events = "SELECT count(*) FROM events";
    let unsound = scene.home.path("unsound.db");
    std::fs::copy(&copy, &unsound).unwrap();
    execute(
        &unsound,
        "UPDATE counters SET value = 7 WHERE name = 'events'",
    );
    let foreign = scene.home.write(
        "foreign.db",
        "this is no database, but a text of some length",
    );
    for (source, why) in [
        (
            unsound,
            "the counter of events is their number: 7 counted, 1 stored",
        ),
        (foreign, "is not a store of the-loop gateway"),
        (scene.home.path("absent.db"), "there is no file"),
        (store.clone(), "is the store itself"),
    ] {
        let refused = scene.home.run(&["restore", &source.display().to_string()]);
        assert_eq!(refused.code, Some(1), "{}", source.display());
        assert!(refused.err.contains(why), "{}", refused.err);
        assert_eq!(number(&store, events), 2, "the store stays as it is");
    }
    let restored = scene.home.run(&["restore", &named]);
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    assert!(
        restored.out.contains("numbers raised by 1,000,000"),
        "{}",
        restored.out
    );
    assert_eq!(number(&store, events), 1);
    let (_, kept) = restored.out.split_once("kept as ").unwrap();
    let kept = PathBuf::from(kept.lines().next().unwrap());
    assert_eq!(number(&kept, events), 2);
    let left: Vec<_> = std::fs::read_dir(store.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    scene.start_again();
    scene.comment(15, 3).assert(202);
    assert!(number(&store, "SELECT max(id) FROM events") > RAISED_BY);
}

#[test]
fn verify_names_what_does_not_hold_and_fails() {
    let mut scene = Scene::start();
    scene.claim("laptop", 15);
    scene.comment(15, 1).assert(202);
    // A store in use is verified as it was at one moment.
    let sound = scene.home.run(&["verify"]);
    assert_eq!(sound.code, Some(0), "{}{}", sound.out, sound.err);
    assert!(
        sound
            .out
            .contains("1 event, 1 delivery waiting, 0 held; everything holds"),
        "{}",
        sound.out
    );
    scene.stop();
    let store = scene.home.path(STORE);
    execute(&store, "UPDATE instances SET backlog = 5");
    let unsound = scene.home.run(&["verify"]);
    assert_eq!(unsound.code, Some(1));
    let rule = "a backlog is the number of live deliveries: laptop: 5 counted, 1 stored";
    assert!(unsound.out.contains(rule), "{}", unsound.out);
    let found = scene
        .home
        .run(&["verify", &store.display().to_string(), "--format", "json"]);
    assert_eq!(found.code, Some(1));
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!((&found["ok"], &found["events"]), (&json!(false), &json!(1)));
    assert_eq!(
        found["problems"][0]["rule"],
        "a backlog is the number of live deliveries"
    );
    let absent = scene.home.run(&["verify", "absent.db"]);
    assert_eq!(absent.code, Some(1));
    assert!(
        absent.err.contains("there is no file absent.db"),
        "{}",
        absent.err
    );
}
