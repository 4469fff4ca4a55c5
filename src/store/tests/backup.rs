//! Copies of a store in use, and what a restored one does with what is stale.

use super::support::{SECOND, TestStore, about, event, in_thread};
use crate::domain::Refusal;
use crate::store::{
    CommitOutcomes, CopyError, NUMBERS_RAISED_BY, OpenError, copy_store, open_reader, open_writer,
    raise_numbers, settle_copy, size_of, verify,
};

const ISSUE: &str = "github:octo/repo#1";

/// A store with something of most things.
fn busy() -> TestStore {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.append(about(ISSUE, "g2"));
    store.append(about("github:octo/repo#2", "held"));
    store.append(in_thread("1.1", "grace"));
    store.fetch("a@ann/r1", &[]);
    store.commit("a@ann/r1", &[(1, "failed")]);
    store.clock.advance(SECOND);
    store
}

#[test]
fn a_copy_is_one_sound_file_that_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt;

    let store = busy();
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.db");
    let mut seen = Vec::new();
    let copied = copy_store(&store.path(), &copy, &mut |copied| seen.push(copied)).unwrap();
    assert_eq!(seen.last(), Some(&copied));
    assert_eq!(copied.bytes, copied.of);
    settle_copy(&copy).unwrap();
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no log beside it");
    let metadata = std::fs::metadata(&copy).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(metadata.len(), copied.bytes);
    let reader = open_reader(&copy).unwrap();
    assert_eq!(verify(&reader, store.now()).unwrap(), []);
    let size = size_of(&reader).unwrap();
    assert_eq!((size.events, size.live, size.held), (4, 2, 2));
    let again = copy_store(&store.path(), &copy, &mut |_| {});
    assert!(matches!(again, Err(CopyError::Write { .. })), "{again:?}");
}

#[test]
fn what_is_written_while_it_is_copied_is_not_in_the_copy_and_does_not_begin_it_again() {
    let mut store = busy();
    // Enough for several steps.
    for batch in 0..20 {
        store.append_all((0..500).map(|number| about(ISSUE, &format!("g{batch}-{number}"))));
    }
    let before = store.number("SELECT count(*) FROM events");
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.db");
    let path = store.path();
    let (mut steps, mut bytes) = (0_u64, 0);
    copy_store(&path, &copy, &mut |copied| {
        store.append(about(ISSUE, &format!("late-{steps}")));
        steps += 1;
        assert!(copied.bytes > bytes, "it goes on where it was");
        bytes = copied.bytes;
    })
    .unwrap();
    assert!(steps > 1, "{steps}");
    settle_copy(&copy).unwrap();
    let reader = open_reader(&copy).unwrap();
    assert_eq!(size_of(&reader).unwrap().events, before.unsigned_abs());
    assert_eq!(verify(&reader, store.now()).unwrap(), []);
    let now = before.unsigned_abs().saturating_add(steps);
    assert_eq!(size_of(store.connection()).unwrap().events, now);
}

#[test]
fn only_a_store_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("notes.db");
    let copy = directory.path().join("copy.db");
    let copied = |source: &std::path::Path| copy_store(source, &copy, &mut |_| {});
    assert!(copied(&source).is_err(), "nothing there");
    std::fs::write(&source, "this is no database, but a text of some length").unwrap();
    let foreign = copied(&source);
    assert!(
        matches!(foreign, Err(CopyError::Source(OpenError::Foreign { .. }))),
        "{foreign:?}"
    );
    std::fs::write(&source, "").unwrap();
    let empty = copied(&source);
    assert!(
        matches!(empty, Err(CopyError::Source(OpenError::Foreign { .. }))),
        "{empty:?}"
    );
    assert!(!copy.try_exists().unwrap(), "nothing is made for it");
}

#[test]
fn a_copy_of_an_older_version_is_brought_to_the_present_one() {
    let store = busy();
    store.run("ALTER TABLE hand_outs DROP COLUMN detail; PRAGMA user_version = 1");
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.db");
    copy_store(&store.path(), &copy, &mut |_| {}).unwrap();
    let older = open_reader(&copy);
    assert!(
        matches!(older, Err(OpenError::Older { found: 1, .. })),
        "{older:?}"
    );
    let migrated = open_writer(&copy).unwrap();
    assert_eq!(verify(&migrated, store.now()).unwrap(), []);
}

#[test]
fn with_raised_numbers_an_outcome_of_the_lost_time_hits_nothing_and_wedges_nobody() {
    let mut store = busy();
    // A number that was given out after the backup.
    let lost = store.number("SELECT seq + 7 FROM sqlite_sequence WHERE name = 'deliveries'");
    let undelivered = store.refused(CommitOutcomes {
        identity: super::support::identity("a@ann/r1"),
        cursor: None,
        commit: super::support::outcomes_with(&[(lost, "delivered", "")]),
    });
    assert!(matches!(undelivered, Refusal::CommitUndelivered { .. }));
    let numbers = "SELECT seq FROM sqlite_sequence WHERE name IN ('events', 'deliveries')";
    let before: Vec<i64> = store
        .texts(numbers)
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    raise_numbers(store.connection()).unwrap();
    let after: Vec<i64> = store
        .texts(numbers)
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let raised: Vec<i64> = before
        .iter()
        .map(|number| number + NUMBERS_RAISED_BY)
        .collect();
    assert_eq!(after, raised);
    store.commit("a@ann/r1", &[(lost, "delivered")]);
    assert_eq!(store.queue("a"), [1, 2], "nothing is settled by it");
    store.append(about(ISSUE, "g9"));
    let newest = store.number("SELECT max(id) FROM events");
    assert!(newest > NUMBERS_RAISED_BY, "{newest}");
    store.clock.advance(60 * SECOND);
    let fetched = store.fetch("a@ann/r1", &[]);
    assert!(fetched.cursor > NUMBERS_RAISED_BY, "{}", fetched.cursor);
    let ids: Vec<_> = fetched
        .deliveries
        .iter()
        .map(|delivery| delivery.event.id)
        .collect();
    assert_eq!(ids, [event(1), event(2), event(newest)]);
}

#[test]
fn a_store_that_gave_out_nothing_yet_has_its_numbers_raised_too() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    raise_numbers(store.connection()).unwrap();
    store.append(about(ISSUE, "g1"));
    assert_eq!(store.number("SELECT id FROM events"), NUMBERS_RAISED_BY + 1);
    assert_eq!(
        store.number("SELECT seq FROM deliveries"),
        NUMBERS_RAISED_BY + 1
    );
}
