//! What becomes of an arrival: seen before, resolved, routed, held, kept in grace, revived.

use super::support::{DAY, SECOND, TestStore, about, by, event, head_commit, in_thread, of_commit};
use crate::domain::{DedupKey, DropReason, OnUnresolved, Provider, Reference, Source};
use crate::store::{Appended, Expire, LearnCommits};

#[test]
fn an_event_goes_to_every_claimant_of_its_subject() {
    let mut store = TestStore::new();
    store.claim("a", "github:octo/repo#1");
    store.claim("b", "github:Octo/Repo#1");
    store.claim("c", "github:octo/repo#2");
    assert_eq!(
        store.appended_to(about("github:octo/repo#1", "g1")),
        ["a", "b"]
    );
    assert_eq!(
        store.number("SELECT sum(backlog) FROM instances"),
        store.number("SELECT count(*) FROM deliveries")
    );
}

#[test]
fn an_actor_decides_only_where_nobody_claims() {
    let mut store = TestStore::new();
    store.register("a", &[(Provider::GitHub, "Octocat")]);
    let arrival = by(about("github:octo/repo#1", "g1"), "octoCAT");
    assert_eq!(store.appended_to(arrival), ["a"]);
    store.claim("b", "github:octo/repo#1");
    let arrival = by(about("github:octo/repo#1", "g2"), "octocat");
    assert_eq!(store.appended_to(arrival), ["b"]);
}

#[test]
fn slack_and_jira_actors_are_compared_exactly() {
    let mut store = TestStore::new();
    store.register("a", &[(Provider::Slack, "U01")]);
    store.bind("x", (Provider::Slack, "1.1"), "github:octo/repo#1");
    for (name, to) in [("U01", vec!["a"]), ("u01", vec![])] {
        assert_eq!(store.appended_to(by(in_thread("1.1", name), name)), to);
    }
}

#[test]
fn a_pull_request_also_reaches_the_claimants_of_its_tickets_but_not_the_other_way() {
    let mut store = TestStore::new();
    let (pull_request, ticket) = ("github:octo/repo#2", "jira:acme.atlassian.net/PROJ-1");
    store.claim("driver", ticket);
    store.claim("reviewer", pull_request);
    store.bind("driver", (Provider::GitHub, pull_request), ticket);
    assert_eq!(
        store.appended_to(about(pull_request, "g1")),
        ["reviewer", "driver"]
    );
    assert_eq!(store.appended_to(about(ticket, "g2")), ["driver"]);
}

#[test]
fn the_first_pull_request_of_a_ci_event_is_the_work_item_and_the_others_are_linked() {
    let mut store = TestStore::new();
    store.claim("a", "github:octo/repo#1");
    store.claim("b", "github:octo/repo#2");
    let mut arrival = about("github:octo/repo#1", "g1");
    arrival.also = vec![super::support::work_item("github:octo/repo#2")];
    assert_eq!(store.appended_to(arrival), ["a", "b"]);
    assert_eq!(
        store.texts("SELECT why FROM deliveries ORDER BY seq"),
        ["claim:driver", "link:loop-github-octo-repo-2:driver"]
    );
}

#[test]
fn any_seen_key_makes_a_duplicate() {
    let mut store = TestStore::new();
    store.append(about("github:octo/repo#1", "g1"));
    for (kept, what) in [(0, "the delivery"), (1, "the object")] {
        let mut again = about("github:octo/repo#1", "g1");
        again.dedup_keys = vec![again.dedup_keys[kept].clone()];
        assert_eq!(
            store.append(again),
            Appended::Duplicate { event: event(1) },
            "{what}"
        );
    }
    assert_eq!(store.number("SELECT count(*) FROM events"), 1);
}

#[test]
fn what_is_dropped_marks_no_key_as_seen() {
    let mut store = TestStore::new();
    let mut arrival = in_thread("1.1", "m1");
    arrival.on_unresolved = OnUnresolved::Drop(DropReason::Unbound);
    let dropped = Appended::Dropped {
        reason: DropReason::Unbound,
    };
    assert_eq!(store.append(arrival.clone()), dropped);
    store.bind("a", (Provider::Slack, "1.1"), "github:octo/repo#1");
    assert!(matches!(store.append(arrival), Appended::Stored { .. }));
}

#[test]
fn the_first_reference_that_names_a_work_item_wins() {
    let mut store = TestStore::new();
    store.bind("a", (Provider::Slack, "C1/1.1"), "github:octo/repo#1");
    store.bind("a", (Provider::Slack, "1.1"), "github:octo/repo#2");
    store.publish_rooms("a", &[("C1", "github:octo/repo#3")]);
    let bound = |key: &str| Reference::Bound {
        provider: Provider::Slack,
        key: key.to_owned(),
    };
    let room = Reference::Room {
        channel: "C1".to_owned(),
    };
    let declared = Reference::DeclaredRoom(super::support::work_item("github:octo/repo#4"));
    for (keys, work_item) in [
        (vec![bound("C1/1.1"), bound("1.1"), room.clone()], 1),
        (vec![bound("C1/9.9"), bound("1.1"), room.clone()], 2),
        (vec![bound("9.9"), room, declared.clone()], 3),
        (vec![bound("9.9"), declared], 4),
    ] {
        let mut arrival = in_thread("", &format!("m{work_item}"));
        arrival.keys = keys;
        store.append(arrival);
        let resolved = store.texts("SELECT work_item FROM events ORDER BY id DESC LIMIT 1");
        assert_eq!(resolved, [format!("github:octo/repo#{work_item}")]);
    }
}

#[test]
fn what_nothing_resolves_waits_in_grace_until_a_commit_is_learned() {
    let mut store = TestStore::new();
    store.claim("a", "github:octo/repo#7");
    assert!(store.appended_to(of_commit("abc", "ci1")).is_empty());
    assert_eq!(store.texts("SELECT state FROM events"), ["grace"]);
    let routed = store.write(LearnCommits {
        commits: vec![head_commit("abc", "github:octo/repo#7")],
    });
    assert_eq!(routed.deliveries, 1);
    assert_eq!(store.queue("a"), [1]);
    assert_eq!(
        store.texts("SELECT resolved_by || ' ' || state FROM events"),
        ["commit:github.com/octo/repo@abc routed"]
    );
    assert_eq!(store.number("SELECT count(*) FROM event_references"), 0);
}

#[test]
fn a_pull_request_event_teaches_its_commit_whatever_becomes_of_it() {
    let mut store = TestStore::new();
    store.append(about("github:octo/repo#7", "g1"));
    let mut duplicate = about("github:octo/repo#7", "g1");
    duplicate.learns = vec![head_commit("abc", "github:octo/repo#7")];
    assert!(matches!(
        store.append(duplicate),
        Appended::Duplicate { .. }
    ));
    store.claim("a", "github:octo/repo#7");
    assert_eq!(store.appended_to(of_commit("abc", "ci1")), ["a"]);
}

#[test]
fn without_grace_it_is_dropped_at_once() {
    let mut store = TestStore::with(crate::store::Settings {
        grace_ms: 0,
        ..Default::default()
    });
    let dropped = Appended::Dropped {
        reason: DropReason::Unbound,
    };
    assert_eq!(store.append(in_thread("1.1", "m1")), dropped);
}

#[test]
fn an_interaction_without_a_work_item_goes_to_its_users_instance_or_nowhere() {
    let mut store = TestStore::new();
    let interaction = |guid: &str| {
        let mut arrival = by(in_thread("1.1", guid), "U01");
        arrival.keys = Vec::new();
        arrival.on_unresolved = OnUnresolved::ToActor;
        arrival
    };
    let dropped = Appended::Dropped {
        reason: DropReason::Unbound,
    };
    assert_eq!(store.append(interaction("i1")), dropped);
    store.register("a", &[(Provider::Slack, "U01")]);
    assert_eq!(store.appended_to(interaction("i1")), ["a"]);
    assert_eq!(store.appended_to(interaction("i2")), ["a"]);
    assert_eq!(
        store.number("SELECT count(*) FROM lanes"),
        2,
        "no order among events without a work item"
    );
}

#[test]
fn a_requested_redelivery_revives_only_what_nobody_handled() {
    let fate = |store: &mut TestStore, state| match state {
        "ready" => {}
        "handed" => drop(store.fetch("a@ann/r1", &[])),
        "settled" => store.settle_all("a@ann/r1"),
        "dead" => drop(store.kill_first("a@ann/r1")),
        _ => {
            store.clock.advance(8 * DAY);
            let now = store.now().0;
            store.run(&format!("UPDATE instances SET fetched_at_ms = {now}"));
            store.write(Expire { wal_bytes: 0 });
        }
    };
    for (state, revived) in [
        ("ready", false),
        ("handed", false),
        ("settled", false),
        ("dead", true),
        ("expired", true),
    ] {
        let mut store = TestStore::new();
        store.claim("a", "github:octo/repo#1");
        store.append(about("github:octo/repo#1", "g1"));
        fate(&mut store, state);
        let again = store.append(about("github:octo/repo#1", "g1"));
        let is_revived = matches!(again, Appended::Revived { .. });
        assert_eq!(is_revived, revived, "{state}");
        if revived {
            assert!(store.number("SELECT length(payload) FROM events") > 0);
            assert_eq!(store.queue("a"), [1]);
            assert_eq!(
                store.texts("SELECT redrive_of || ',' || replaced FROM deliveries ORDER BY seq"),
                ["0,1", "1,0"]
            );
        }
    }
}

#[test]
fn neither_a_poll_nor_a_retry_nor_another_key_revives() {
    let mut store = TestStore::new();
    store.claim("a", "github:octo/repo#1");
    store.append(about("github:octo/repo#1", "g1"));
    store.kill_first("a@ann/r1");
    let mut poll = about("github:octo/repo#1", "g1");
    poll.source = Source::Poll;
    let mut retry = about("github:octo/repo#1", "g1");
    retry.is_retry = true;
    let mut object = about("github:octo/repo#1", "g1");
    object.dedup_keys = vec![DedupKey::object("object:g1".to_owned())];
    for arrival in [poll, retry, object] {
        assert_eq!(
            store.append(arrival),
            Appended::Duplicate { event: event(1) }
        );
    }
}

#[test]
fn a_revived_event_goes_to_todays_consumers_and_waits_when_there_are_none() {
    let mut store = TestStore::new();
    store.claim("a", "github:octo/repo#1");
    store.append(about("github:octo/repo#1", "g1"));
    store.kill_first("a@ann/r1");
    store.write(crate::store::ReleaseClaim {
        identity: super::support::identity("a"),
        subject: super::support::subject("github:octo/repo#1"),
        role: None,
    });
    assert!(
        store
            .appended_to(about("github:octo/repo#1", "g1"))
            .is_empty()
    );
    assert_eq!(
        store.number("SELECT value FROM counters WHERE name = 'held'"),
        1
    );
    store.clock.advance(SECOND);
    let again = store.append(about("github:octo/repo#1", "g1"));
    assert_eq!(again, Appended::Duplicate { event: event(1) });
    assert_eq!(store.claim("b", "github:octo/repo#1").deliveries, 1);
    assert_eq!(store.queue("b"), [1]);
}
