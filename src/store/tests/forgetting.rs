//! Grace that ends, names that nobody uses, subjects that nobody attends to.

use serde_json::json;

use super::support::{
    DAY, HOUR, SECOND, TestStore, about, by, head_commit, identity, in_thread, names, of_commit,
    record, registration, subject, work_item,
};
use crate::domain::Provider;
use crate::store::{
    Appended, Expire, ExpireGrace, Expired, LearnCommits, NoteUnattended, ReleaseClaim,
};

const ISSUE: &str = "github:octo/repo#1";

fn sweep(store: &mut TestStore) -> Expired {
    let done = store.write(Expire { wal_bytes: 0 });
    assert!(!done.more, "one piece is enough here");
    done
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
    store.is_sound = false;
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
