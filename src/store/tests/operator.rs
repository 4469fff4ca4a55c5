//! Redrive, replay and release, as an operator asks for them.

use serde_json::json;

use super::support::{
    DAY, SECOND, TestStore, about, in_thread, instance, names, record, registration, subject,
};
use crate::domain::{Role, Seq, Timestamp};
use crate::store::{
    Appended, ClaimsReleased, Expire, OperatorRelease, Position, PutClaim, Redrive, Redriven,
    Replay, Selection,
};

const ISSUE: &str = "github:octo/repo#1";

fn redrive(selection: Selection) -> Redrive {
    Redrive {
        selection,
        after: Position::default(),
        dry_run: false,
    }
}

fn replay(selection: Selection, onto: &str) -> Replay {
    Replay {
        selection,
        instance: instance(onto),
        after: Position::default(),
        dry_run: false,
    }
}

fn release(who: &str, role: Option<Role>, dry_run: bool) -> OperatorRelease {
    OperatorRelease {
        instance: instance(who),
        subject: subject(ISSUE),
        role,
        dry_run,
    }
}

/// A store whose instance `a` claims the issue and let so many deliveries of it die.
fn with_dead(count: usize) -> TestStore {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    for number in 0..count {
        store.append(about(ISSUE, &format!("g{number}")));
    }
    for _ in 0..count {
        store.kill_first("a@ann/r1");
    }
    store
}

fn deliveries(made: u64) -> Redriven {
    Redriven {
        deliveries: made,
        ..Redriven::default()
    }
}

#[test]
fn a_redriven_delivery_is_a_new_row_that_names_the_old_one() {
    let mut store = with_dead(1);
    let (done, events) = store.recorded(redrive(Selection::Delivery(Seq(1))));
    assert_eq!(done, deliveries(1));
    assert_eq!(names(&events), ["subject.routed", "gateway.operator"]);
    assert_eq!(
        record(&events, "gateway.operator"),
        json!({"verb": "redrive", "target": "delivery 1", "changed": 1})
    );
    assert_eq!(
        store.texts(
            "SELECT seq || ' ' || state || ' ' || attempt || ' ' || strikes || ' ' || redrive_of
             FROM deliveries ORDER BY seq"
        ),
        ["1 3 3 3 0", "2 0 1 0 1"]
    );
    let fetched = store.fetch("a@ann/r1", &[]);
    assert_eq!(fetched.deliveries[0].redrive_of, Some(Seq(1)));
}

#[test]
fn a_row_is_replaced_once() {
    let mut store = with_dead(1);
    store.write(redrive(Selection::Delivery(Seq(1))));
    assert_eq!(
        store.write(redrive(Selection::Delivery(Seq(1)))),
        deliveries(0)
    );
    store.kill_first("a@ann/r1");
    assert_eq!(
        store.write(redrive(Selection::Delivery(Seq(1)))),
        deliveries(0)
    );
    assert_eq!(
        store.write(redrive(Selection::Subject(subject(ISSUE)))),
        deliveries(1)
    );
    assert_eq!(
        store.texts("SELECT redrive_of FROM deliveries ORDER BY seq"),
        ["0", "1", "2"]
    );
}

#[test]
fn an_outcome_for_the_old_row_settles_the_new_one() {
    let mut store = with_dead(1);
    store.write(redrive(Selection::Delivery(Seq(1))));
    store.commit("a@ann/r1", &[(1, "delivered")]);
    assert_eq!(store.states(), [0, 0, 2, 0, 0]);
}

#[test]
fn a_subject_is_redriven_in_the_order_of_its_events() {
    let mut store = with_dead(3);
    let selection = Selection::Subject(subject("github:OCTO/Repo#1"));
    assert_eq!(store.write(redrive(selection)), deliveries(3));
    let fetched = store.fetch("a@ann/r1", &[]);
    let order: Vec<_> = fetched
        .deliveries
        .iter()
        .map(|delivery| (delivery.event.id.0, delivery.redrive_of))
        .collect();
    assert_eq!(
        order,
        [(1, Some(Seq(1))), (2, Some(Seq(2))), (3, Some(Seq(3)))]
    );
}

#[test]
fn a_time_range_means_when_they_died() {
    let mut store = with_dead(2);
    let died = store.texts("SELECT ended_at_ms FROM deliveries ORDER BY seq");
    let [first, second] = [0, 1].map(|row| Timestamp(died[row].parse::<i64>().unwrap()));
    let between = |since, until| redrive(Selection::Between(since, until));
    assert_eq!(store.write(between(Timestamp(0), first)), deliveries(0));
    assert_eq!(store.write(between(first, second)), deliveries(1));
    assert_eq!(
        store.write(between(first, second.plus(1))),
        deliveries(1),
        "the other one"
    );
}

#[test]
fn a_redrive_goes_to_todays_consumers() {
    let mut store = with_dead(1);
    store.write(release("a", None, false));
    store.claim("b", ISSUE);
    assert_eq!(
        store.write(redrive(Selection::Delivery(Seq(1)))),
        deliveries(1)
    );
    assert_eq!(store.queue("b"), [1]);
    assert_eq!(
        store.texts("SELECT redrive_of FROM deliveries ORDER BY seq"),
        ["0", "1"]
    );
    assert_eq!(
        store.write(redrive(Selection::Delivery(Seq(1)))),
        deliveries(0)
    );
}

#[test]
fn who_has_handled_it_or_has_it_still_gets_no_second_copy() {
    let mut store = TestStore::new();
    for who in ["a", "b", "c"] {
        store.claim(who, ISSUE);
    }
    store.append(about(ISSUE, "g1"));
    store.kill_first("a@ann/r1");
    store.settle_all("b@bob/r1");
    assert_eq!(
        store.write(redrive(Selection::Delivery(Seq(1)))),
        deliveries(1)
    );
    assert_eq!(store.queue("a"), [1]);
    assert_eq!(store.queue("c"), [1]);
}

#[test]
fn without_a_consumer_a_redriven_event_is_held_until_there_is_one() {
    let mut store = with_dead(1);
    store.write(release("a", None, false));
    let done = store.write(redrive(Selection::Delivery(Seq(1))));
    assert_eq!((done.deliveries, done.held), (0, 1));
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'held'"),
        1
    );
    let again = store.write(redrive(Selection::Delivery(Seq(1))));
    assert_eq!((again.held, again.skipped), (0, 1));
    store.claim("a", ISSUE);
    assert_eq!(store.queue("a"), [1]);
    assert_eq!(
        store.texts("SELECT redrive_of FROM deliveries ORDER BY seq"),
        ["0", "1"]
    );
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let mut store = with_dead(2);
    let before = store.texts("SELECT state || ' ' || replaced FROM deliveries ORDER BY seq");
    let dry = Redrive {
        dry_run: true,
        ..redrive(Selection::Subject(subject(ISSUE)))
    };
    let (done, events) = store.recorded(dry);
    assert_eq!((done, events.len()), (deliveries(2), 0));
    let dry = Replay {
        dry_run: true,
        ..replay(Selection::Subject(subject(ISSUE)), "nobody-yet")
    };
    let (done, events) = store.recorded(dry);
    assert_eq!((done, events.len()), (deliveries(2), 0));
    let after = store.texts("SELECT state || ' ' || replaced FROM deliveries ORDER BY seq");
    assert_eq!(before, after);
    assert_eq!(store.number("SELECT count(*) FROM instances"), 1);
}

#[test]
fn much_work_is_done_in_pieces() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append_all((0..1_200).map(|number| about(ISSUE, &format!("g{number}"))));
    for verb in ["redrive", "replay"] {
        store.run(
            "UPDATE deliveries SET state = 3, ended_at_ms = 5 WHERE state = 0; DELETE FROM lanes;
             UPDATE instances SET backlog = 0",
        );
        let (mut after, mut made) = (Some(Position::default()), Vec::new());
        let range = Selection::Between(Timestamp(0), Timestamp(i64::MAX));
        while let Some(position) = after {
            let done = if verb == "redrive" {
                store.write(Redrive {
                    after: position,
                    ..redrive(range.clone())
                })
            } else {
                store.write(Replay {
                    after: position,
                    ..replay(range.clone(), "a")
                })
            };
            made.push(done.deliveries);
            after = done.next;
        }
        assert_eq!(made, [500, 500, 200], "{verb}");
        assert_eq!(store.queue("a").len(), 1_200);
    }
}

#[test]
fn a_replay_goes_to_the_named_instance_whatever_it_claims() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.append(about("github:octo/repo#2", "g2"));
    store.settle_all("a@ann/r1");
    let (done, events) = store.recorded(replay(Selection::Subject(subject(ISSUE)), "b"));
    assert_eq!(done, deliveries(1));
    assert_eq!(
        record(&events, "gateway.operator")["target"],
        "loop-github-octo-repo-1 onto b"
    );
    assert_eq!(store.queue("b"), [1]);
    assert_eq!(store.queue("a"), [0; 0]);
    let fetched = store.fetch("b@bob/r1", &[]);
    assert_eq!(fetched.deliveries[0].redrive_of, None, "it never had it");
}

#[test]
fn a_replay_onto_an_instance_that_settled_it_names_that_row() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.settle_all("a@ann/r1");
    for (made, what) in [(1, "once"), (0, "waiting already: not twice")] {
        let done = store.write(replay(Selection::Delivery(Seq(1)), "a"));
        assert_eq!((done.deliveries, done.skipped), (made, 1 - made), "{what}");
        assert_eq!(store.queue("a"), [1]);
    }
    store.commit("a@ann/r1", &[(1, "delivered")]);
    assert_eq!(
        store.queue("a"),
        [1],
        "a repeat about the settled row says nothing of the new one"
    );
    store.settle_all("a@ann/r1");
    store.write(replay(Selection::Delivery(Seq(1)), "a"));
    assert_eq!(
        store.texts("SELECT redrive_of FROM deliveries ORDER BY seq"),
        ["0", "1", "2"]
    );
}

#[test]
fn a_replay_takes_held_events_and_leaves_what_has_no_payload_or_no_subject() {
    let mut store = TestStore::new();
    store.append(about(ISSUE, "expired"));
    store.clock.advance(8 * DAY);
    store.write(Expire { wal_bytes: 0 });
    store.append(about(ISSUE, "held"));
    store.append(in_thread("1.1", "unresolved"));
    let everything = Selection::Between(Timestamp(0), Timestamp(i64::MAX));
    let done = store.write(replay(everything, "b"));
    assert_eq!((done.deliveries, done.skipped), (1, 2));
    assert_eq!(store.queue("b"), [2]);
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'held'"),
        1
    );
    assert_eq!(store.claim("a", ISSUE).deliveries, 0);
}

#[test]
fn a_released_claim_is_recorded_with_the_verb() {
    let mut store = TestStore::new();
    store.write(registration("a@ann/r1", &[]));
    store.write(PutClaim {
        role: Role::Reviewer,
        ..super::support::claim("a@ann", ISSUE)
    });
    store.write(super::support::claim("a@ann", ISSUE));
    let counted = |claims| ClaimsReleased { claims };
    assert_eq!(store.write(release("a", None, true)), counted(2));
    assert_eq!(store.number("SELECT count(*) FROM claims"), 2);
    let (done, events) = store.recorded(release("a", Some(Role::Driver), false));
    assert_eq!(done, counted(1));
    assert_eq!(names(&events), ["gateway.released", "gateway.operator"]);
    assert_eq!(store.write(release("nobody", None, false)), counted(0));
}

#[test]
fn a_redriven_event_can_be_revived_no_more() {
    let mut store = with_dead(1);
    store.write(redrive(Selection::Delivery(Seq(1))));
    store.clock.advance(SECOND);
    assert!(matches!(
        store.append(about(ISSUE, "g0")),
        Appended::Duplicate { .. }
    ));
}
