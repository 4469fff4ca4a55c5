//! What goes, when, and what is said of it.

use serde_json::json;

use super::support::{DAY, SECOND, TestStore, about, names, record, registration};
use crate::store::{Appended, Expire, Expired, Settings, used_bytes};

const ISSUE: &str = "github:octo/repo#1";

fn sweep(store: &mut TestStore) -> Expired {
    let done = store.write(Expire { wal_bytes: 0 });
    assert!(!done.more, "one piece is enough here");
    done
}

/// One event each for two claimants, so that one can end in two ways.
fn shared_event(store: &mut TestStore) {
    store.claim("a", ISSUE);
    store.claim("b", ISSUE);
    store.append(about(ISSUE, "g1"));
}

#[test]
fn settled_deliveries_go_after_the_retention_and_the_event_with_its_last_one() {
    let mut store = TestStore::new();
    shared_event(&mut store);
    store.settle_all("a@ann/r1");
    store.clock.advance(DAY);
    store.settle_all("b@bob/r1");
    store.clock.advance(6 * DAY);
    assert_eq!(sweep(&mut store), Expired::default());
    store.clock.advance(1);
    let done = sweep(&mut store);
    assert_eq!((done.deliveries, done.events), (1, 0));
    store.clock.advance(DAY);
    let done = sweep(&mut store);
    assert_eq!((done.deliveries, done.events), (1, 1));
    for table in ["deliveries", "events", "hand_outs", "lanes"] {
        assert_eq!(store.number(&format!("SELECT count(*) FROM {table}")), 0);
    }
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'events'"),
        0
    );
    assert_eq!(
        store.texts("SELECT orphan || ',' || handled FROM seen_keys"),
        ["1,1", "1,1"]
    );
}

#[test]
fn dead_deliveries_are_kept_twice_as_long_with_their_payload() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.kill_first("a@ann/r1");
    let died = store.number("SELECT ended_at_ms FROM deliveries");
    store.clock.advance(died + 14 * DAY - store.now().0);
    assert_eq!(sweep(&mut store).deliveries, 0);
    assert!(store.number("SELECT length(payload) FROM events") > 0);
    store.clock.advance(1);
    let done = sweep(&mut store);
    assert_eq!((done.deliveries, done.events), (1, 1));
    assert_eq!(store.number("SELECT count(*) FROM hand_outs"), 0);
    assert_eq!(
        store.texts("SELECT DISTINCT orphan || ',' || handled FROM seen_keys"),
        ["1,0"],
        "nobody handled it"
    );
    assert!(matches!(
        store.append(about(ISSUE, "g1")),
        Appended::Stored { .. }
    ));
}

#[test]
fn what_was_settled_once_counts_as_handled_when_only_a_dead_row_is_left() {
    let mut store = TestStore::new();
    shared_event(&mut store);
    store.settle_all("a@ann/r1");
    store.kill_first("b@bob/r1");
    store.clock.advance(8 * DAY);
    assert_eq!(sweep(&mut store).deliveries, 1);
    assert_eq!(store.states(), [0, 0, 0, 1, 0]);
    assert!(matches!(
        store.append(about(ISSUE, "g1")),
        Appended::Duplicate { .. }
    ));
}

#[test]
fn what_nobody_consumed_expires_with_a_record_and_stays_without_its_payload() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.clock.advance(7 * DAY + 1);
    let (done, events) = store.recorded(Expire { wal_bytes: 0 });
    assert_eq!((done.expired, done.deliveries), (1, 0));
    assert_eq!(
        record(&events, "subject.expired"),
        json!({"subject": "loop-github-octo-repo-1", "instance": "a", "seq": 1, "reason": "age",
               "gateway_event_id": 1, "delivery_id": "g1"})
    );
    assert_eq!(
        store.texts("SELECT state || ' ' || length(payload) FROM events"),
        ["expired 0"]
    );
    assert_eq!(store.number("SELECT backlog FROM instances"), 0);
    assert_eq!(store.number("SELECT count(*) FROM lanes"), 0);
    store.clock.advance(7 * DAY);
    assert_eq!(sweep(&mut store), Expired::default());
    store.clock.advance(1);
    let done = sweep(&mut store);
    assert_eq!((done.deliveries, done.events), (1, 1));
}

#[test]
fn a_payload_goes_when_the_last_delivery_that_could_show_it_does() {
    let mut store = TestStore::new();
    shared_event(&mut store);
    store.clock.advance(6 * DAY);
    store.settle_all("a@ann/r1");
    store.clock.advance(2 * DAY);
    assert_eq!(sweep(&mut store).expired, 1);
    assert!(store.number("SELECT length(payload) FROM events") > 0);
    store.clock.advance(6 * DAY);
    assert_eq!(sweep(&mut store).deliveries, 1, "the settled one");
    assert_eq!(store.number("SELECT length(payload) FROM events"), 0);
}

#[test]
fn what_is_in_hand_expires_only_when_the_lease_is_not_live() {
    let mut store = TestStore::with(Settings {
        hand_timeout_ms: 30 * DAY,
        ..Settings::default()
    });
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.append(about(ISSUE, "g2"));
    store.fetch("a@ann/r1", &[]);
    store.append(about(ISSUE, "g3"));
    store.clock.advance(8 * DAY);
    store.write(registration("a@ann/r1", &[]));
    assert_eq!(sweep(&mut store).expired, 1, "what is ready expires");
    assert_eq!(store.states(), [0, 2, 0, 0, 1]);
    store.clock.advance(60 * SECOND);
    assert_eq!(sweep(&mut store).expired, 2);
    assert_eq!(store.states(), [0, 0, 0, 0, 3]);
}

#[test]
fn an_outcome_still_counts_for_an_expired_delivery() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.fetch("a@ann/r1", &[]);
    store.clock.advance(8 * DAY);
    sweep(&mut store);
    store.commit("a@ann/r1", &[(1, "delivered")]);
    assert_eq!(store.states(), [0, 0, 1, 0, 0]);
    assert_eq!(store.number("SELECT backlog FROM instances"), 0);
    store.clock.advance(7 * DAY + 1);
    let done = sweep(&mut store);
    assert_eq!((done.deliveries, done.events), (1, 1));
}

#[test]
fn an_expired_head_lets_the_next_one_go_and_wakes_the_queue() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.clock.advance(4 * DAY);
    store.append(about(ISSUE, "g2"));
    store.fetch("a@ann/r1", &[]);
    store.commit("a@ann/r1", &[(1, "failed")]);
    store.clock.advance(4 * DAY);
    store.run("UPDATE lanes SET state = 1; UPDATE deliveries SET due_at_ms = 9e15 WHERE seq = 1");
    let (_, report) = store.try_write(Expire { wal_bytes: 0 });
    let woken: Vec<_> = report
        .effects
        .wakes
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(woken, ["a"]);
    assert_eq!(
        store.texts("SELECT state || ' ' || head_event_id FROM lanes"),
        ["0 2"]
    );
}

#[test]
fn held_events_expire_and_their_rows_go_as_long_after() {
    let mut store = TestStore::new();
    store.append(about(ISSUE, "g1"));
    store.clock.advance(7 * DAY + 1);
    let (done, events) = store.recorded(Expire { wal_bytes: 0 });
    assert_eq!(done.expired, 1);
    assert_eq!(
        record(&events, "subject.expired"),
        json!({"subject": "loop-github-octo-repo-1", "reason": "age", "gateway_event_id": 1,
               "delivery_id": "g1"})
    );
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'held'"),
        0
    );
    assert_eq!(store.claim("a", ISSUE).deliveries, 0);
    store.clock.advance(7 * DAY);
    assert_eq!(sweep(&mut store).events, 0);
    store.clock.advance(1);
    assert_eq!(sweep(&mut store).events, 1);
}

#[test]
fn a_sweep_goes_on_in_pieces_of_five_hundred_rows() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append_all((0..1_200).map(|number| about(ISSUE, &format!("g{number}"))));
    store.clock.advance(8 * DAY);
    let mut expired = Vec::new();
    loop {
        let done = store.write(Expire { wal_bytes: 0 });
        expired.push(done.expired);
        if !done.more {
            break;
        }
    }
    assert_eq!(expired, [500, 500, 200]);
    assert_eq!(store.states(), [0, 0, 0, 0, 1_200]);
}

#[test]
fn a_piece_ends_when_its_time_is_over() {
    let mut store = TestStore::new();
    store.append_all((0..100).map(|number| about(ISSUE, &format!("g{number}"))));
    store.clock.advance(8 * DAY);
    store.clock.take_time(1_000);
    let done = store.write(Expire { wal_bytes: 0 });
    assert!(done.more && done.expired < 20, "{done:?}");
}

#[test]
fn a_clock_set_back_does_not_keep_old_deliveries() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.clock.advance(30 * DAY);
    store.append(about(ISSUE, "from the future"));
    store.clock.advance(-30 * DAY);
    store.append(about(ISSUE, "g2"));
    store.clock.advance(8 * DAY);
    assert_eq!(sweep(&mut store).expired, 1, "the one behind it");
}

#[test]
fn seen_keys_outlive_their_event_while_young_or_among_the_newest() {
    let mut store = TestStore::with(Settings {
        seen_keys_min: 2,
        ..Settings::default()
    });
    store.claim("a", ISSUE);
    for number in 0..4 {
        store.append(about(ISSUE, &format!("g{number}")));
    }
    store.settle_all("a@ann/r1");
    store.clock.advance(7 * DAY + 1);
    assert_eq!(sweep(&mut store).events, 4);
    assert_eq!(
        store.texts("SELECT event_id FROM seen_keys ORDER BY event_id"),
        ["3", "3", "4", "4"]
    );
    assert_eq!(
        store.append(about(ISSUE, "g3")),
        Appended::Duplicate {
            event: super::support::event(4)
        }
    );
    assert!(matches!(
        store.append(about(ISSUE, "g0")),
        Appended::Stored { .. }
    ));
}

#[test]
fn above_its_size_settled_deliveries_go_early_then_held_events_expire() {
    let mut store = TestStore::new();
    let big = |work_item: &str, guid: &str| {
        let mut arrival = about(work_item, guid);
        let mut random = fastrand::Rng::with_seed(1);
        let noise: String = (0..20_000).map(|_| random.alphanumeric()).collect();
        let text = format!("{{\"{guid}\":\"{noise}\"}}");
        arrival.payload = crate::domain::Payload::compress(text.as_bytes()).unwrap();
        arrival
    };
    store.claim("a", ISSUE);
    for number in 0..10 {
        store.append(big(ISSUE, &format!("settled{number}")));
    }
    store.settle_all("a@ann/r1");
    for number in 0..10 {
        store.append(big("github:octo/repo#2", &format!("held{number}")));
        store.append(big(ISSUE, &format!("waiting{number}")));
    }
    let full = used_bytes(store.connection()).unwrap();
    let fits = |store: &mut TestStore, bytes| {
        store.settings.store_bytes_max = bytes;
        store.restart();
        sweep(store)
    };
    assert_eq!(fits(&mut store, full), Expired::default());
    let done = fits(&mut store, full - 1);
    assert_eq!(
        (done.deliveries, done.expired),
        (1, 0),
        "no more than needed"
    );
    assert_eq!(
        store.number("SELECT min(event_id) FROM deliveries WHERE state = 2"),
        2,
        "the oldest first"
    );
    let done = store.write(Expire { wal_bytes: full });
    assert_eq!(
        (done.deliveries, done.expired),
        (9, 10),
        "the log counts, and what is on a queue stays"
    );
    assert_eq!(store.states(), [10, 0, 0, 0, 0]);
    let (_, events) = store.recorded(Expire { wal_bytes: full });
    assert!(names(&events).is_empty());
}

#[test]
fn an_event_that_expired_for_space_says_so() {
    let mut store = TestStore::with(Settings {
        store_bytes_max: 1,
        ..Settings::default()
    });
    store.append(about(ISSUE, "g1"));
    let (_, events) = store.recorded(Expire { wal_bytes: 0 });
    assert_eq!(record(&events, "subject.expired")["reason"], "space");
}
