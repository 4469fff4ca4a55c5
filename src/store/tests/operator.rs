//! Redrive, replay and release, as an operator asks for them.

use serde_json::json;

use super::support::{
    DAY, SECOND, TestStore, about, in_thread, instance, names, record, registration, subject,
};
use crate::domain::{EventId, Provider, Role, Seq, Timestamp};
use crate::store::{
    Appended, DeadSelection, EventSelection, Expire, NoSuchInstance, OperatorRelease, Period,
    Position, PutClaim, Redrive, Redriven, Released, Replay, SubjectFilter,
};

const ISSUE: &str = "github:octo/repo#1";

fn redrive(selection: DeadSelection) -> Redrive {
    Redrive {
        selection,
        after: Position::START,
        dry_run: false,
    }
}

fn the_delivery(seq: i64) -> DeadSelection {
    DeadSelection {
        seqs: vec![Seq(seq)],
        ..DeadSelection::default()
    }
}

fn on_subject(work_item: &str) -> DeadSelection {
    DeadSelection {
        subject: SubjectFilter::Is(subject(work_item)),
        ..DeadSelection::default()
    }
}

fn replay(selection: EventSelection, onto: &str) -> Replay {
    Replay {
        selection,
        instance: instance(onto),
        is_listed: true,
        after: Position::START,
        dry_run: false,
    }
}

fn the_event(id: i64) -> EventSelection {
    EventSelection {
        events: vec![EventId(id)],
        ..EventSelection::default()
    }
}

fn events_of(work_item: &str) -> EventSelection {
    EventSelection {
        subject: SubjectFilter::Is(subject(work_item)),
        ..EventSelection::default()
    }
}

fn release_claims(who: &str) -> OperatorRelease {
    OperatorRelease {
        instance: instance(who),
        lease: false,
        claims: true,
        actors: false,
        subject: None,
        dry_run: false,
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

/// What a piece did: deliveries made, events held, what was skipped.
fn counted(done: &Redriven) -> (usize, u64, u64) {
    (done.deliveries.len(), done.held, done.skipped)
}

#[test]
fn a_redriven_delivery_is_a_new_row_that_names_the_old_one() {
    let mut store = with_dead(1);
    let (done, events) = store.recorded(redrive(the_delivery(1)));
    assert_eq!(counted(&done), (1, 0, 0));
    let made = &done.deliveries[0];
    assert_eq!(
        (made.seq, made.event, made.redrive_of),
        (Some(Seq(2)), EventId(1), Some(Seq(1)))
    );
    assert_eq!(names(&events), ["subject.routed", "gateway.operator"]);
    assert_eq!(
        record(&events, "gateway.operator"),
        json!({"verb": "redrive", "target": "dead deliveries 1", "changed": 1})
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
    store.write(redrive(the_delivery(1)));
    let again = store.write(redrive(the_delivery(1)));
    assert_eq!(counted(&again), (0, 0, 1));
    store.kill_first("a@ann/r1");
    let again = store.write(redrive(the_delivery(1)));
    assert_eq!(counted(&again), (0, 0, 1));
    let done = store.write(redrive(on_subject(ISSUE)));
    assert_eq!(counted(&done), (1, 0, 0));
    assert_eq!(
        store.texts("SELECT redrive_of FROM deliveries ORDER BY seq"),
        ["0", "1", "2"]
    );
}

#[test]
fn a_number_of_nothing_is_told_apart_from_what_cannot_be_done() {
    let mut store = with_dead(1);
    store.claim("a", "github:octo/repo#2");
    store.append(about("github:octo/repo#2", "waits"));
    let seqs = |numbers: [i64; 4]| DeadSelection {
        seqs: numbers.map(Seq).to_vec(),
        ..DeadSelection::default()
    };
    let done = store.write(redrive(seqs([99, 1, 2, 99])));
    assert_eq!((counted(&done), done.unknown), ((1, 0, 1), vec![99]));
    let events = EventSelection {
        events: [98, 1, 2, 97].map(EventId).to_vec(),
        ..EventSelection::default()
    };
    let done = store.write(replay(events, "a")).unwrap();
    assert_eq!((counted(&done), done.unknown), ((0, 0, 2), vec![97, 98]));
}

#[test]
fn an_outcome_for_the_old_row_settles_the_new_one() {
    let mut store = with_dead(1);
    store.write(redrive(the_delivery(1)));
    store.commit("a@ann/r1", &[(1, "delivered")]);
    assert_eq!(store.states(), [0, 0, 2, 0, 0]);
}

#[test]
fn a_subject_is_redriven_in_the_order_of_its_events() {
    let mut store = with_dead(3);
    let done = store.write(redrive(on_subject("github:OCTO/Repo#1")));
    assert_eq!(counted(&done), (3, 0, 0));
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
fn what_is_given_narrows_together() {
    let mut store = with_dead(2);
    let died = store.texts("SELECT ended_at_ms FROM deliveries ORDER BY seq");
    let [first, second] = [0, 1].map(|row| Timestamp(died[row].parse::<i64>().unwrap()));
    let all = DeadSelection::default;
    let between = |since, until| DeadSelection {
        died: Period { since, until },
        ..all()
    };
    let of_queue = |name| DeadSelection {
        instance: Some(instance(name)),
        ..all()
    };
    let unassigned = DeadSelection {
        subject: SubjectFilter::Unassigned,
        ..all()
    };
    let wrong_queue = DeadSelection {
        seqs: vec![Seq(1), Seq(2)],
        ..of_queue("b")
    };
    for (selection, expected) in [
        (all(), (2, 0, 0)),
        (of_queue("a"), (2, 0, 0)),
        (of_queue("nobody"), (0, 0, 0)),
        (on_subject("github:octo/repo#2"), (0, 0, 0)),
        (unassigned, (0, 0, 0)),
        (wrong_queue, (0, 0, 2)),
        (between(Timestamp(0), first), (0, 0, 0)),
        (between(first, second), (1, 0, 0)),
        (between(first, second.plus(1)), (2, 0, 0)),
    ] {
        let what = format!("{selection:?}");
        let dry_run = true;
        let done = store.write(Redrive {
            dry_run,
            ..redrive(selection)
        });
        assert_eq!(counted(&done), expected, "{what}");
    }
}

#[test]
fn a_selection_is_recorded_in_words() {
    let mut store = with_dead(1);
    let selection = DeadSelection {
        seqs: vec![Seq(1)],
        instance: Some(instance("a")),
        died: Period {
            since: Timestamp(0),
            ..Period::default()
        },
        ..on_subject(ISSUE)
    };
    let (_, events) = store.recorded(redrive(selection));
    assert_eq!(
        record(&events, "gateway.operator")["target"],
        "dead deliveries 1 of a on loop-github-octo-repo-1 since 1970-01-01T00:00:00.000Z"
    );
}

#[test]
fn a_redrive_goes_to_todays_consumers() {
    let mut store = with_dead(1);
    store.write(release_claims("a"));
    store.claim("b", ISSUE);
    let done = store.write(redrive(the_delivery(1)));
    assert_eq!(counted(&done), (1, 0, 0));
    assert_eq!(store.queue("b"), [1]);
    assert_eq!(
        store.texts("SELECT redrive_of FROM deliveries ORDER BY seq"),
        ["0", "1"]
    );
    let again = store.write(redrive(the_delivery(1)));
    assert_eq!(counted(&again), (0, 0, 1));
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
    let done = store.write(redrive(the_delivery(1)));
    assert_eq!(counted(&done), (1, 0, 0));
    assert_eq!(store.queue("a"), [1]);
    assert_eq!(store.queue("c"), [1]);
}

#[test]
fn two_dead_rows_of_one_event_are_replaced_one_each() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.claim("b", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.kill_first("a@ann/r1");
    store.kill_first("b@bob/r1");
    let done = store.write(redrive(on_subject(ISSUE)));
    assert_eq!(counted(&done), (2, 0, 0));
    assert_eq!(
        store.texts("SELECT instance_id || ' ' || redrive_of FROM deliveries ORDER BY seq"),
        ["1 0", "2 0", "1 1", "2 2"]
    );
}

#[test]
fn without_a_consumer_a_redriven_event_is_held_until_there_is_one() {
    let mut store = with_dead(1);
    store.write(release_claims("a"));
    let done = store.write(redrive(the_delivery(1)));
    assert_eq!(counted(&done), (0, 1, 0));
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'held'"),
        1
    );
    let again = store.write(redrive(the_delivery(1)));
    assert_eq!(counted(&again), (0, 0, 1));
    store.claim("a@ann", ISSUE);
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
        ..redrive(on_subject(ISSUE))
    };
    let (done, events) = store.recorded(dry);
    assert_eq!((counted(&done), events.len()), ((2, 0, 0), 0));
    assert_eq!(done.deliveries[1].seq, None);
    assert_eq!(done.deliveries[1].redrive_of, Some(Seq(2)));
    let dry = Replay {
        dry_run: true,
        ..replay(events_of(ISSUE), "nobody-yet")
    };
    let (done, events) = store.recorded(dry);
    assert_eq!((counted(&done.unwrap()), events.len()), ((2, 0, 0), 0));
    let after = store.texts("SELECT state || ' ' || replaced FROM deliveries ORDER BY seq");
    assert_eq!(before, after);
    assert_eq!(store.number("SELECT count(*) FROM instances"), 1);
}

#[test]
fn much_work_is_done_in_pieces() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append_all((0..1_200).map(|number| about(ISSUE, &format!("g{number}"))));
    for verb in ["redrive", "replay", "replay a subject"] {
        store.run(
            "UPDATE deliveries SET state = 3, ended_at_ms = 5 WHERE state = 0; DELETE FROM lanes;
             UPDATE instances SET backlog = 0",
        );
        let (mut next, mut made) = (Some(Position::START), Vec::new());
        while let Some(after) = next {
            let done = match verb {
                "redrive" => store.write(Redrive {
                    after,
                    ..redrive(DeadSelection::default())
                }),
                "replay" => store
                    .write(Replay {
                        after,
                        ..replay(EventSelection::default(), "a")
                    })
                    .unwrap(),
                _ => store
                    .write(Replay {
                        after,
                        ..replay(events_of(ISSUE), "a")
                    })
                    .unwrap(),
            };
            made.push(done.deliveries.len());
            next = done.next;
        }
        assert_eq!(made, [500, 500, 200], "{verb}");
        assert_eq!(store.queue("a"), (1..=1_200).collect::<Vec<_>>());
    }
}

#[test]
fn a_replay_goes_to_the_named_instance_whatever_it_claims() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.append(about("github:octo/repo#2", "g2"));
    store.settle_all("a@ann/r1");
    let (done, events) = store.recorded(replay(events_of(ISSUE), "b"));
    assert_eq!(counted(&done.unwrap()), (1, 0, 0));
    assert_eq!(
        record(&events, "gateway.operator")["target"],
        "events on loop-github-octo-repo-1 onto b"
    );
    assert_eq!(store.queue("b"), [1]);
    assert_eq!(store.queue("a"), [0; 0]);
    let fetched = store.fetch("b@bob/r1", &[]);
    assert_eq!(fetched.deliveries[0].redrive_of, None, "it never had it");
}

#[test]
fn a_replay_makes_no_queue_for_a_name_that_nobody_knows() {
    let mut store = with_dead(1);
    store.claim("b", ISSUE);
    store.write(release_claims("b"));
    store.run("UPDATE instances SET forgotten_at_ms = 5 WHERE name = 'b'");
    for dry_run in [true, false] {
        for unknown in ["aa", "b"] {
            let (done, events) = store.recorded(Replay {
                is_listed: false,
                dry_run,
                ..replay(the_event(1), unknown)
            });
            let known = vec!["a".to_owned()];
            assert_eq!(done, Err(NoSuchInstance { known }), "{unknown}");
            assert_eq!(events.len(), 0);
        }
    }
    assert_eq!(store.number("SELECT count(*) FROM instances"), 2);
    let known = store.write(Replay {
        is_listed: false,
        ..replay(the_event(1), "a")
    });
    assert_eq!(counted(&known.unwrap()), (1, 0, 0));
}

#[test]
fn a_replay_onto_an_instance_that_settled_it_names_that_row() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.settle_all("a@ann/r1");
    for (expected, what) in [
        ((1, 0, 0), "once"),
        ((0, 0, 1), "waiting already: not twice"),
    ] {
        let done = store.write(replay(the_event(1), "a")).unwrap();
        assert_eq!(counted(&done), expected, "{what}");
        assert_eq!(store.queue("a"), [1]);
    }
    store.commit("a@ann/r1", &[(1, "delivered")]);
    assert_eq!(
        store.queue("a"),
        [1],
        "a repeat about the settled row says nothing of the new one"
    );
    store.settle_all("a@ann/r1");
    store.write(replay(the_event(1), "a")).unwrap();
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
    let done = store.write(replay(EventSelection::default(), "b")).unwrap();
    assert_eq!(counted(&done), (1, 0, 2));
    assert_eq!(store.queue("b"), [2]);
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'held'"),
        1
    );
    assert_eq!(store.claim("a", ISSUE).deliveries, 0);
}

#[test]
fn what_a_gone_instance_holds_is_taken_from_it() {
    let mut store = TestStore::new();
    store.write(registration("a@ann/r1", &[(Provider::GitHub, "octocat")]));
    for role in [Role::Reviewer, Role::Driver] {
        store.write(PutClaim {
            role,
            ..super::support::claim("a@ann", ISSUE)
        });
    }
    store.claim("a@ann", "github:octo/repo#2");
    let everything = OperatorRelease {
        lease: true,
        actors: true,
        ..release_claims("a")
    };
    let dry = OperatorRelease {
        dry_run: true,
        ..everything.clone()
    };
    let (lease, claims, actors) = (true, 3, 1);
    let all = Released {
        known: true,
        lease,
        claims,
        actors,
    };
    assert_eq!(store.write(dry), all);
    store.refused(registration("a@bob/r1", &[]));
    let (one, events) = store.recorded(OperatorRelease {
        subject: Some(subject(ISSUE)),
        ..release_claims("a")
    });
    assert_eq!((one.lease, one.claims, one.actors), (false, 2, 0));
    assert_eq!(
        names(&events),
        ["gateway.released", "gateway.released", "gateway.operator"]
    );
    let (rest, events) = store.recorded(everything);
    assert_eq!(rest, Released { claims: 1, ..all });
    assert_eq!(
        record(&events, "gateway.operator"),
        json!({"verb": "release", "target": "lease, claims, actors of a", "changed": 3})
    );
    store.write(registration("a@bob/r1", &[(Provider::GitHub, "octocat")]));
    assert_eq!(store.write(release_claims("nobody")), Released::default());
}

#[test]
fn a_redriven_event_can_be_revived_no_more() {
    let mut store = with_dead(1);
    store.write(redrive(the_delivery(1)));
    store.clock.advance(SECOND);
    assert!(matches!(
        store.append(about(ISSUE, "g0")),
        Appended::Duplicate { .. }
    ));
}
