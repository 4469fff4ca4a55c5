//! What goes, when, and what is said of it.

use serde_json::json;

use super::support::{
    DAY, HOUR, SECOND, TestStore, about, by, head_commit, identity, in_thread, names, of_commit,
    record, registration, subject, work_item,
};
use crate::domain::Provider;
use crate::store::{
    Appended, Expire, ExpireGrace, Expired, LearnCommits, NoteUnattended, ReleaseClaim, Settings,
    used_bytes,
};

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
        seen_keys_min: 4,
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
        store.texts("SELECT event_id FROM seen_keys ORDER BY id"),
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

#[test]
fn at_the_end_of_its_grace_an_event_is_dropped_as_unbound_and_may_come_again() {
    let mut store = TestStore::new();
    store.append(in_thread("1.1", "m1"));
    store.clock.advance(60 * SECOND);
    store.append(in_thread("1.1", "m2"));
    let due = store.now().plus(60 * SECOND);
    store.clock.advance(59 * SECOND);
    assert_eq!(store.write(ExpireGrace).next_due_at, Some(due));
    store.clock.advance(SECOND);
    let (done, events) = store.recorded(ExpireGrace);
    assert_eq!(done.dropped, 1);
    assert_eq!(done.next_due_at, Some(due.plus(60 * SECOND)));
    assert_eq!(
        record(&events, "gateway.dropped"),
        json!({"provider": "slack", "transport": "webhook", "reason": "unbound",
               "kind": "issue_comment", "delivery_id": "m1", "gateway_event_id": 1})
    );
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'held'"),
        1
    );
    assert_eq!(store.number("SELECT count(*) FROM event_references"), 1);
    assert!(matches!(
        store.append(in_thread("1.1", "m1")),
        Appended::Stored { .. }
    ));
}

#[test]
fn what_can_be_resolved_at_the_end_of_its_grace_is_routed_instead() {
    let mut store = TestStore::new();
    store.claim("a", "standing:ops");
    store.append_all((0..600).map(|number| in_thread("1.1", &format!("m{number}"))));
    assert!(
        store
            .bind("x", (Provider::Slack, "1.1"), "standing:ops")
            .more
    );
    // The gateway was down until long after the grace.
    store.clock.advance(HOUR);
    store.restart();
    assert_eq!(store.write(ExpireGrace).dropped, 0);
    assert_eq!(store.queue("a").len(), 600);
    store.route_all();
    assert_eq!(store.queue("a").len(), 600);
}

#[test]
fn a_clock_set_back_prolongs_no_grace_beyond_its_length() {
    let mut store = TestStore::new();
    store.append(in_thread("1.1", "m1"));
    store.clock.advance(-DAY);
    let due = store.now().plus(120 * SECOND);
    assert_eq!(store.write(ExpireGrace).next_due_at, Some(due));
}

#[test]
fn a_name_that_asks_for_nothing_is_forgotten_with_its_claims_and_actors() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.register("a", &[(Provider::GitHub, "octocat")]);
    store.publish_rooms("a", &[("C1", ISSUE)]);
    store.append(about(ISSUE, "g1"));
    store.settle_all("a@ann/r1");
    store.clock.advance(7 * DAY);
    assert_eq!(sweep(&mut store), Expired::default());
    store.clock.advance(1);
    let (_, events) = store.recorded(Expire { wal_bytes: 0 });
    assert_eq!(names(&events), ["gateway.released", "gateway.registered"]);
    assert_eq!(store.number("SELECT count(*) FROM claims"), 0);
    assert_eq!(store.number("SELECT count(*) FROM actors"), 0);
    assert_eq!(store.number("SELECT count(*) FROM rooms"), 1);
    assert_eq!(store.number("SELECT count(*) FROM instances"), 1);
    assert!(store.recorded(Expire { wal_bytes: 0 }).1.is_empty());
    store.clock.advance(14 * DAY + 1);
    sweep(&mut store);
    assert_eq!(store.number("SELECT count(*) FROM instances"), 0);
}

#[test]
fn a_forgotten_name_that_comes_back_is_like_a_new_one() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.clock.advance(8 * DAY);
    sweep(&mut store);
    assert_eq!(store.number("SELECT forgotten_at_ms > 0 FROM instances"), 1);
    store.claim("a", ISSUE);
    assert!(store.recorded(Expire { wal_bytes: 0 }).1.is_empty());
    assert_eq!(store.number("SELECT forgotten_at_ms FROM instances"), 0);
    assert_eq!(store.number("SELECT count(*) FROM claims"), 1);
}

#[test]
fn a_name_with_something_on_its_queue_or_a_live_lease_is_not_forgotten() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.claim("b", "github:octo/repo#2");
    store.clock.advance(7 * DAY);
    store.append(about(ISSUE, "g1"));
    store.write(registration("b@bob/r1", &[]));
    store.clock.advance(1);
    sweep(&mut store);
    assert_eq!(store.number("SELECT count(*) FROM claims"), 2);
}

#[test]
fn what_maps_names_goes_some_time_after_its_last_use() {
    let mut store = TestStore::new();
    store.write(LearnCommits {
        commits: vec![
            head_commit("abc", "github:octo/repo#7"),
            head_commit("def", "github:octo/repo#7"),
        ],
    });
    store.bind("a", (Provider::Slack, "1.1"), ISSUE);
    store.bind("a", (Provider::Slack, "2.2"), ISSUE);
    store.publish_rooms("a", &[("C1", ISSUE)]);
    store.clock.advance(5 * DAY);
    store.append(of_commit("abc", "ci"));
    store.clock.advance(5 * DAY);
    sweep(&mut store);
    assert_eq!(store.texts("SELECT sha FROM commits"), ["abc"]);
    store.clock.advance(165 * DAY);
    store.append(in_thread("1.1", "m1"));
    store.clock.advance(10 * DAY);
    sweep(&mut store);
    assert_eq!(store.texts("SELECT key FROM bindings"), ["1.1"]);
    assert_eq!(store.number("SELECT count(*) FROM rooms"), 0);
}

#[test]
fn response_numbers_below_everything_in_hand_go() {
    let mut store = TestStore::new();
    for number in 0..100 {
        let work_item = format!("github:octo/repo#{}", number + 1);
        store.claim("a@ann", &work_item);
        store.append(about(&work_item, &format!("g{number}")));
        // A client that echoes nothing: its numbers would stay for ever.
        let fetched = store.write(crate::store::FetchBatch {
            identity: identity("a@ann/r1"),
            peer: identity("a@ann").peer.unwrap(),
            cursor: None,
            limit: 64,
            lease_ms: 60 * SECOND,
            park_ms: None,
            commit: Vec::new(),
            caller: crate::domain::CallerToken::always(),
        });
        let seqs: Vec<_> = fetched
            .deliveries
            .iter()
            .map(|delivery| (delivery.seq.0, "delivered"))
            .collect();
        store.commit("a@ann/r1", &seqs);
    }
    let thirtieth = store.number("SELECT number FROM response_numbers LIMIT 1 OFFSET 29");
    store.run(&format!(
        "UPDATE deliveries SET state = 1 WHERE handed_number = {thirtieth}"
    ));
    sweep(&mut store);
    assert_eq!(
        store.number("SELECT min(number) FROM response_numbers"),
        thirtieth
    );
    store.run("UPDATE deliveries SET state = 2 WHERE state = 1");
    sweep(&mut store);
    assert_eq!(store.number("SELECT count(*) FROM response_numbers"), 64);
}

#[test]
fn a_claimed_subject_nobody_fetches_for_is_recorded_once_an_outage() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.claim("b", ISSUE);
    store.fetch("a@ann/r1", &[]);
    store.append(about(ISSUE, "g1"));
    store.clock.advance(HOUR);
    assert_eq!(store.write(NoteUnattended).subjects, 0);
    store.clock.advance(1);
    let (noted, events) = store.recorded(NoteUnattended);
    assert_eq!(noted.subjects, 1);
    assert_eq!(
        record(&events, "subject.unattended"),
        json!({"subject": "loop-github-octo-repo-1", "instances": ["a", "b"], "backlog": 2})
    );
    let (noted, events) = store.recorded(NoteUnattended);
    assert_eq!((noted.subjects, events.len()), (1, 0));
    store.settle_all("a@ann/r1");
    assert_eq!(store.write(NoteUnattended).subjects, 0, "a fetched");
    store.append(about(ISSUE, "g2"));
    store.clock.advance(HOUR + 1);
    let (_, events) = store.recorded(NoteUnattended);
    assert_eq!(names(&events), ["subject.unattended"], "another outage");
}

#[test]
fn a_quiet_instance_without_a_backlog_or_a_fresh_claim_is_no_outage() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.clock.advance(2 * HOUR);
    assert_eq!(store.write(NoteUnattended).subjects, 0);
    store.claim("b", "github:octo/repo#2");
    store.append(about("github:octo/repo#2", "g1"));
    store.clock.advance(HOUR / 2);
    assert_eq!(store.write(NoteUnattended).subjects, 0);
    store.clock.advance(HOUR);
    assert_eq!(store.write(NoteUnattended).subjects, 1);
    store.write(ReleaseClaim {
        identity: identity("b"),
        subject: subject("github:octo/repo#2"),
        role: None,
    });
    assert_eq!(store.write(NoteUnattended).subjects, 0);
}

#[test]
fn an_events_links_go_with_it() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    let mut arrival = by(about(ISSUE, "g1"), "octocat");
    arrival.also = vec![work_item("github:octo/repo#2")];
    store.append(arrival);
    store.settle_all("a@ann/r1");
    store.clock.advance(7 * DAY + 1);
    sweep(&mut store);
    assert_eq!(store.number("SELECT count(*) FROM event_links"), 0);
}

#[test]
fn a_checkpoint_empties_the_log_and_unused_pages_are_given_back() {
    use crate::store::{CheckpointMode, checkpoint, give_back_pages, unused_pages};
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append_all((0..500).map(|number| about(ISSUE, &format!("g{number}"))));
    store.run("DELETE FROM events");
    let unused = unused_pages(store.connection()).unwrap();
    assert!(unused > 20, "{unused}");
    assert_eq!(
        give_back_pages(store.connection(), 10).unwrap(),
        unused - 10
    );
    assert_eq!(give_back_pages(store.connection(), 10_000).unwrap(), 0);
    let done = checkpoint(store.connection(), CheckpointMode::Passive).unwrap();
    assert_eq!(done.log_pages, done.moved_pages);
    let done = checkpoint(store.connection(), CheckpointMode::Truncate).unwrap();
    assert!(!done.is_held_up);
    let log = store.path().with_extension("db-wal");
    assert_eq!(std::fs::metadata(log).unwrap().len(), 0);
}
