//! What instances publish, and who may.

use serde_json::json;

use super::support::{
    DAY, HOUR, SECOND, TestStore, about, binding, by, claim, identity, names, record, registration,
    room_list, subject,
};
use crate::domain::{ActorConflict, Provider, Refusal, Role};
use crate::store::{DeleteBinding, PutClaim, ReleaseClaim, Routed};

const ISSUE: &str = "github:octo/repo#1";

#[test]
fn a_subject_has_any_number_of_claims_one_of_each_instance_and_role() {
    let mut store = TestStore::new();
    for who in ["a", "b"] {
        for role in [Role::Driver, Role::Reviewer, Role::Driver] {
            store.write(PutClaim {
                role,
                ..claim(who, ISSUE)
            });
        }
    }
    assert_eq!(store.number("SELECT count(*) FROM claims"), 4);
    assert_eq!(store.appended_to(about(ISSUE, "g1")), ["a", "b"]);
}

#[test]
fn a_claim_is_recorded_in_front_of_what_it_routes_and_once() {
    let mut store = TestStore::new();
    store.append(about(ISSUE, "g1"));
    let (_, events) = store.recorded(claim("a", ISSUE));
    assert_eq!(names(&events), ["gateway.claimed", "subject.routed"]);
    assert_eq!(
        record(&events, "gateway.claimed"),
        json!({"instance": "a", "subject": "loop-github-octo-repo-1", "role": "driver",
               "routed": 1})
    );
    let claimed_at = store.number("SELECT claimed_at_ms FROM claims");
    store.clock.advance(HOUR);
    let (routed, events) = store.recorded(claim("a", ISSUE));
    assert_eq!((routed, events.len()), (Routed::default(), 0));
    assert_eq!(
        store.number("SELECT claimed_at_ms FROM claims"),
        claimed_at,
        "a claim that is asserted again keeps its time"
    );
}

#[test]
fn a_release_ends_one_role_or_both_and_may_be_repeated() {
    let mut store = TestStore::new();
    let release = |role| ReleaseClaim {
        identity: identity("a"),
        subject: subject("github:OCTO/repo#1"),
        role,
    };
    store.write(release(None));
    store.claim("a", ISSUE);
    store.write(PutClaim {
        role: Role::Reviewer,
        ..claim("a", ISSUE)
    });
    let (_, events) = store.recorded(release(Some(Role::Driver)));
    assert_eq!(names(&events), ["gateway.released"]);
    assert_eq!(store.texts("SELECT role FROM claims"), ["reviewer"]);
    store.claim("a", ISSUE);
    let (_, events) = store.recorded(release(None));
    assert_eq!(events.len(), 2);
    let (_, events) = store.recorded(release(None));
    assert!(events.is_empty());
}

#[test]
fn what_is_on_a_queue_stays_there_when_the_claim_ends() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.append(about(ISSUE, "g1"));
    store.write(ReleaseClaim {
        identity: identity("a"),
        subject: subject(ISSUE),
        role: None,
    });
    assert_eq!(store.queue("a"), [1]);
}

#[test]
fn every_registration_is_refused_under_a_name_that_another_peer_holds() {
    let mut store = TestStore::new();
    store.write(registration("a@ann/r1", &[]));
    for who in ["a", "a@bob", "a@bob/r1"] {
        store.refused(claim(who, ISSUE));
        store.refused(ReleaseClaim {
            identity: identity(who),
            subject: subject(ISSUE),
            role: None,
        });
        store.refused(registration(who, &[]));
        store.refused(binding(who, (Provider::Slack, "1.1"), ISSUE));
        store.refused(DeleteBinding {
            identity: identity(who),
            binding: binding(who, (Provider::Slack, "1.1"), ISSUE).binding,
        });
        store.refused(room_list(who, &[("C1", ISSUE)]));
    }
    assert_eq!(store.number("SELECT count(*) FROM claims"), 0);
    store.write(claim("a@ann", ISSUE));
}

#[test]
fn an_actor_set_replaces_the_one_before() {
    let mut store = TestStore::new();
    let (_, events) = store.recorded(registration(
        "a",
        &[(Provider::GitHub, "Octocat"), (Provider::Slack, "U01")],
    ));
    assert_eq!(
        record(&events, "gateway.registered"),
        json!({"instance": "a", "actors": ["github:Octocat", "slack:U01"], "routed": 0})
    );
    let same = registration(
        "a",
        &[(Provider::Slack, "U01"), (Provider::GitHub, "OCTOCAT")],
    );
    assert!(
        store.recorded(same).1.is_empty(),
        "the same set is no change"
    );
    store.register("a", &[(Provider::Jira, "557058:x")]);
    assert_eq!(
        store.texts("SELECT provider || ':' || actor_key FROM actors"),
        ["jira:557058:x"]
    );
    store.register("a", &[]);
    assert_eq!(store.number("SELECT count(*) FROM actors"), 0);
}

#[test]
fn an_actor_of_a_live_instance_refuses_the_whole_registration() {
    let mut store = TestStore::new();
    store.write(registration(
        "a@ann",
        &[(Provider::GitHub, "octocat"), (Provider::Slack, "U01")],
    ));
    store.register("b", &[(Provider::GitHub, "hubot")]);
    let refusal = store.refused(registration(
        "b",
        &[
            (Provider::Slack, "U01"),
            (Provider::GitHub, "OctoCat"),
            (Provider::Slack, "U02"),
        ],
    ));
    let conflict = |provider, actor: &str| ActorConflict {
        provider,
        actor: actor.to_owned(),
        holder: "a".to_owned(),
    };
    assert_eq!(
        refusal,
        Refusal::DuplicateActor {
            conflicts: vec![
                conflict(Provider::GitHub, "OctoCat"),
                conflict(Provider::Slack, "U01")
            ]
        }
    );
    assert_eq!(
        store.texts("SELECT actor FROM actors WHERE instance_id = 2"),
        ["hubot"],
        "nothing is applied"
    );
}

#[test]
fn an_instance_that_is_not_live_loses_its_actor_and_that_is_recorded() {
    let mut store = TestStore::new();
    store.write(registration("a@ann", &[(Provider::GitHub, "octocat")]));
    store.append(by(about(ISSUE, "g1"), "hubot"));
    store.clock.advance(61 * SECOND);
    let (routed, events) = store.recorded(registration(
        "b@bob",
        &[(Provider::GitHub, "octocat"), (Provider::GitHub, "hubot")],
    ));
    assert_eq!(routed.deliveries, 1);
    assert_eq!(names(&events), ["gateway.registered", "subject.routed"]);
    assert_eq!(
        record(&events, "gateway.registered")["taken"],
        json!(["github:octocat@a"])
    );
    let mine = (Provider::GitHub, "octocat");
    store.refused(registration("a@ann", &[mine]));
}

#[test]
fn a_registration_with_a_peer_holds_the_name_like_a_fetch() {
    let mut store = TestStore::new();
    store.write(registration("a@ann/r1", &[]));
    assert_eq!(
        store.number("SELECT lease_until_ms FROM instances"),
        store.now().0 + 60 * SECOND
    );
    store.write(registration("a@ann/r2", &[]));
    let refusal = store.refused(registration("a@ann/r1", &[]));
    assert!(matches!(
        refusal,
        Refusal::DuplicateInstance {
            superseded: true,
            ..
        }
    ));
    store.write(registration("a@ann", &[]));
    assert_eq!(
        store.texts("SELECT run FROM instances"),
        ["r2"],
        "the present one"
    );
}

#[test]
fn a_registration_shortens_no_lease_and_without_a_peer_takes_none() {
    let mut store = TestStore::new();
    store.write(registration("a", &[]));
    assert_eq!(store.number("SELECT lease_until_ms FROM instances"), 0);
    store.write(registration("a@ann/r1", &[]));
    let longer = store.now().0 + 300 * SECOND;
    store.run(&format!(
        "UPDATE instances SET lease_ms = 300000, lease_until_ms = {longer}"
    ));
    store.clock.advance(SECOND);
    store.write(registration("a@ann/r1", &[]));
    assert!(store.number("SELECT lease_until_ms FROM instances") >= longer);
    assert_eq!(store.number("SELECT lease_ms FROM instances"), 300_000);
}

#[test]
fn a_github_or_jira_key_holds_a_set_and_a_slack_key_one() {
    let mut store = TestStore::new();
    for (provider, key) in [
        (Provider::GitHub, "github:octo/repo#9"),
        (Provider::Jira, "jira:acme.atlassian.net/proj-9"),
        (Provider::Slack, "C1/1.1"),
    ] {
        store.bind("a", (provider, key), "github:octo/repo#1");
        store.bind("b", (provider, key), "github:octo/repo#2");
        store.bind("b", (provider, key), "github:Octo/repo#2");
    }
    assert_eq!(
        store.texts("SELECT provider || ' ' || work_item_key FROM bindings ORDER BY 1"),
        [
            "github github:octo/repo#1",
            "github github:octo/repo#2",
            "jira github:octo/repo#1",
            "jira github:octo/repo#2",
            "slack github:octo/repo#2"
        ]
    );
}

#[test]
fn a_replaced_slack_binding_is_recorded_with_both() {
    let mut store = TestStore::new();
    let key = (Provider::Slack, "C1/1.1");
    store.bind("a", key, "github:octo/repo#1");
    let (_, events) = store.recorded(binding("b", key, "github:octo/repo#2"));
    assert_eq!(
        record(&events, "gateway.bound"),
        json!({"instance": "b", "provider": "slack", "key": "C1/1.1",
               "work_item": "github:octo/repo#2", "replaced": "github:octo/repo#1", "routed": 0})
    );
    let (_, events) = store.recorded(binding("b", key, "github:octo/repo#2"));
    assert!(events.is_empty());
}

#[test]
fn a_binding_is_withdrawn_by_its_three_parts_and_that_may_be_repeated() {
    let mut store = TestStore::new();
    let key = (Provider::GitHub, "github:octo/repo#9");
    store.bind("a", key, "github:octo/repo#1");
    store.bind("a", key, "github:octo/repo#2");
    let withdraw = || DeleteBinding {
        identity: identity("b"),
        binding: binding("b", key, "github:octo/repo#1").binding,
    };
    store.write(withdraw());
    assert_eq!(
        store.number("SELECT count(*) FROM bindings"),
        2,
        "nobody knows b"
    );
    store.claim("b", ISSUE);
    let (_, events) = store.recorded(withdraw());
    assert_eq!(names(&events), ["gateway.unbound"]);
    assert!(store.recorded(withdraw()).1.is_empty());
    assert_eq!(
        store.texts("SELECT work_item FROM bindings"),
        ["github:octo/repo#2"]
    );
}

#[test]
fn rooms_replace_the_instances_own_and_the_last_publisher_wins() {
    let mut store = TestStore::new();
    store.publish_rooms("a", &[("C1", "github:octo/repo#1"), ("C2", "standing:ops")]);
    let (_, events) = store.recorded(room_list(
        "b",
        &[
            ("C2", "github:octo/repo#2"),
            ("C3", "standing:x"),
            ("C3", "standing:y"),
        ],
    ));
    assert_eq!(
        record(&events, "gateway.roomed"),
        json!({"instance": "b", "rooms": ["C2=github:octo/repo#2", "C3=standing:y"],
               "taken": ["C3@b", "C2@a"], "routed": 0})
    );
    store.publish_rooms("a", &[("C4", "standing:ops")]);
    assert_eq!(
        store.texts("SELECT channel || '=' || work_item FROM rooms ORDER BY channel"),
        ["C2=github:octo/repo#2", "C3=standing:y", "C4=standing:ops"]
    );
    let (_, events) = store.recorded(room_list("a", &[("C4", "standing:ops")]));
    assert!(events.is_empty(), "the same set is no change");
}

#[test]
fn what_is_published_again_counts_as_used() {
    let mut store = TestStore::new();
    let key = (Provider::Slack, "1.1");
    let publish = |store: &mut TestStore| {
        store.bind("a", key, ISSUE);
        store.publish_rooms("a", &[("C1", ISSUE)]);
    };
    publish(&mut store);
    let first = store.now().0;
    let used = "SELECT min(used_at_ms) FROM (SELECT used_at_ms FROM bindings
                                             UNION ALL SELECT used_at_ms FROM rooms)";
    store.clock.advance(HOUR);
    publish(&mut store);
    assert_eq!(store.number(used), first, "noted at most once a day");
    store.clock.advance(2 * DAY);
    publish(&mut store);
    assert_eq!(store.number(used), store.now().0);
}

#[test]
fn registrations_survive_a_restart() {
    let mut store = TestStore::new();
    store.claim("a", ISSUE);
    store.register("b", &[(Provider::GitHub, "octocat")]);
    store.restart();
    assert_eq!(store.appended_to(about(ISSUE, "g1")), ["a"]);
    let arrival = by(about("github:octo/repo#2", "g2"), "octocat");
    assert_eq!(store.appended_to(arrival), ["b"]);
}
