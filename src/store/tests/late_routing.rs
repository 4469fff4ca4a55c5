//! Events that waited: routed oldest first, in chunks, with nothing overtaking them.

use super::support::{
    TestStore, about, by, head_commit, identity, in_channel, in_thread, of_commit, subject,
    work_item,
};
use crate::domain::Provider;
use crate::store::{LearnCommits, ReleaseClaim, Routed, Settings};

const TICKET: &str = "jira:acme.atlassian.net/PROJ-1";
const PULL_REQUEST: &str = "github:octo/repo#2";

fn hold(store: &mut TestStore, work_item: &str, count: usize) {
    let before = store.number("SELECT count(*) FROM events");
    store.append_all((0..count).map(|number| about(work_item, &format!("{before}-{number}"))));
}

fn held(store: &TestStore) -> i64 {
    let counted = store.number("SELECT count(*) FROM events WHERE state IN ('held', 'grace')");
    let kept = store.number("SELECT value FROM counters WHERE name = 'held'");
    assert_eq!(counted, kept);
    counted
}

#[test]
fn twelve_hundred_held_events_take_three_chunks_and_a_restart_goes_on() {
    let mut store = TestStore::new();
    hold(&mut store, PULL_REQUEST, 1_200);
    let first = store.claim("a", PULL_REQUEST);
    assert_eq!(
        first,
        Routed {
            deliveries: 500,
            more: true
        }
    );
    assert_eq!(store.queue("a"), (1..=500).collect::<Vec<_>>());
    store.restart();
    assert_eq!(store.route_all(), 2);
    assert_eq!(store.queue("a"), (1..=1_200).collect::<Vec<_>>());
    assert_eq!(held(&store), 0);
    assert_eq!(store.number("SELECT count(*) FROM pending_routings"), 0);
}

#[test]
fn an_arrival_is_held_behind_what_is_still_being_routed() {
    let mut store = TestStore::new();
    hold(&mut store, PULL_REQUEST, 600);
    hold(&mut store, "github:octo/repo#9", 1);
    store.claim("a", PULL_REQUEST);
    assert!(
        store.appended_to(about(PULL_REQUEST, "late")).is_empty(),
        "covered by the pending routing"
    );
    store.claim("b", "github:octo/repo#3");
    assert_eq!(
        store.appended_to(about("github:octo/repo#3", "other")),
        ["b"],
        "not covered by it"
    );
    store.route_all();
    let queue = store.queue("a");
    assert_eq!(queue.len(), 601);
    let by_seq = store
        .texts("SELECT event_id FROM deliveries WHERE instance_id = 1 ORDER BY seq DESC LIMIT 2");
    assert_eq!(by_seq, ["602", "600"], "in order");
    assert_eq!(held(&store), 1, "held events that nothing covers stay");
}

#[test]
fn a_chunk_ends_when_its_time_is_over() {
    let mut store = TestStore::new();
    hold(&mut store, PULL_REQUEST, 100);
    store.clock.take_time(1_000);
    let first = store.claim("a", PULL_REQUEST);
    assert!(first.more && first.deliveries < 20, "{first:?}");
    store.route_all();
    assert_eq!(store.queue("a").len(), 100);
}

#[test]
fn a_claim_that_is_asserted_again_meanwhile_loses_and_doubles_nothing() {
    let mut store = TestStore::new();
    hold(&mut store, PULL_REQUEST, 1_200);
    for _ in 0..3 {
        store.claim("a", PULL_REQUEST);
    }
    store.route_all();
    assert_eq!(store.queue("a"), (1..=1_200).collect::<Vec<_>>());
}

#[test]
fn a_claim_on_a_ticket_covers_what_is_held_for_its_pull_requests() {
    let mut store = TestStore::new();
    store.bind("x", (Provider::GitHub, PULL_REQUEST), TICKET);
    hold(&mut store, PULL_REQUEST, 2);
    let mut both = about("github:octo/repo#5", "ci");
    both.also = vec![work_item(PULL_REQUEST)];
    store.append(both);
    hold(&mut store, TICKET, 1);
    assert_eq!(store.claim("a", TICKET).deliveries, 4);
    assert_eq!(store.queue("a"), [1, 2, 3, 4]);
}

#[test]
fn an_arrival_for_a_bound_pull_request_is_not_held_behind_what_only_names_the_ticket() {
    let mut store = TestStore::new();
    store.bind("x", (Provider::GitHub, PULL_REQUEST), TICKET);
    store.append_all((0..600).map(|number| {
        let mut arrival = about("github:octo/repo#5", &format!("g{number}"));
        arrival.also = vec![work_item(TICKET)];
        arrival
    }));
    assert!(store.claim("a", TICKET).more);
    assert_eq!(store.appended_to(about(PULL_REQUEST, "next")), ["a"]);
    store.route_all();
    assert_eq!(held(&store), 0);
}

#[test]
fn a_binding_covers_the_held_events_of_the_object_that_it_binds() {
    let mut store = TestStore::new();
    store.claim("a", TICKET);
    hold(&mut store, PULL_REQUEST, 2);
    let routed = store.bind("x", (Provider::GitHub, PULL_REQUEST), TICKET);
    assert_eq!(routed.deliveries, 2);
    assert_eq!(store.queue("a"), [1, 2]);
}

#[test]
fn a_jira_key_in_lower_case_names_its_subject() {
    let mut store = TestStore::new();
    store.claim("a", "github:octo/repo#1");
    hold(&mut store, TICKET, 1);
    let key = work_item(TICKET).key();
    let routed = store.bind("x", (Provider::Jira, &key), "github:octo/repo#1");
    assert_eq!(routed.deliveries, 1);
}

#[test]
fn an_actor_registration_covers_only_what_nobody_claims() {
    let mut store = TestStore::new();
    store.append(by(about("github:octo/repo#1", "g1"), "Octocat"));
    store.append(by(about("github:octo/repo#1", "g2"), "hubot"));
    store.append(by(about(TICKET, "g3"), "octocat"));
    let routed = store.register("a", &[(Provider::GitHub, "octocat")]);
    assert_eq!(routed.deliveries, 2);
    assert_eq!(store.queue("a"), [1, 3]);
    assert_eq!(held(&store), 1);
}

#[test]
fn a_binding_or_a_room_resolves_what_waits_in_grace() {
    let mut store = TestStore::new();
    store.claim("a", "standing:ops");
    store.append(in_thread("1.1", "m1"));
    store.append(in_thread("2.2", "m2"));
    store.append(in_channel("C1", "m3"));
    assert_eq!(
        store
            .bind("x", (Provider::Slack, "1.1"), "standing:ops")
            .deliveries,
        1
    );
    assert_eq!(
        store
            .publish_rooms("x", &[("C1", "standing:ops")])
            .deliveries,
        1
    );
    assert_eq!(store.queue("a"), [1, 3]);
    assert_eq!(held(&store), 1);
}

#[test]
fn what_is_resolved_without_a_consumer_is_held_under_its_subject() {
    let mut store = TestStore::new();
    store.append(in_thread("1.1", "m1"));
    assert_eq!(
        store
            .bind("x", (Provider::Slack, "1.1"), "standing:ops")
            .deliveries,
        0
    );
    assert_eq!(
        store.texts("SELECT state || ' ' || subject_key FROM events"),
        ["held loop-standing-ops"]
    );
    assert_eq!(store.claim("a", "standing:ops").deliveries, 1);
}

#[test]
fn an_arrival_waits_behind_unresolved_ones_under_the_same_key() {
    let mut store = TestStore::new();
    store.claim("a", "standing:ops");
    store.append_all((0..600).map(|number| in_thread("1.1", &format!("m{number}"))));
    assert!(
        store
            .bind("x", (Provider::Slack, "1.1"), "standing:ops")
            .more
    );
    assert!(store.appended_to(in_thread("1.1", "late")).is_empty());
    assert_eq!(
        store.appended_to(about("standing:ops", "direct")),
        ["a"],
        "what names its work item itself asks no key"
    );
    store.route_all();
    assert_eq!(store.queue("a").len(), 602);
}

#[test]
fn a_declared_room_still_resolves_what_waited_behind_a_room_that_is_gone() {
    let mut store = TestStore::new();
    store.append_all((0..600).map(|number| in_channel("C1", &format!("m{number}"))));
    assert!(store.publish_rooms("x", &[("C1", "standing:ops")]).more);
    let mut late = in_channel("C1", "late");
    late.keys
        .push(crate::domain::Reference::DeclaredRoom(work_item(
            "standing:declared",
        )));
    store.append(late);
    store.publish_rooms("x", &[]);
    store.route_all();
    let resolved = store.texts("SELECT work_item FROM events ORDER BY id DESC LIMIT 1");
    assert_eq!(resolved, ["standing:declared"]);
}

#[test]
fn what_is_resolved_late_does_not_overtake_what_is_still_being_routed() {
    let mut store = TestStore::new();
    store.append_all((0..600).map(|number| about("github:octo/repo#7", &format!("g{number}"))));
    store.append(of_commit("abc", "ci"));
    assert!(store.claim("a", "github:octo/repo#7").more);
    let routed = store.write(LearnCommits {
        commits: vec![head_commit("abc", "github:octo/repo#7")],
    });
    assert_eq!(routed.deliveries, 0, "resolved, and held behind the others");
    store.route_all();
    assert_eq!(store.queue("a"), (1..=601).collect::<Vec<_>>());
    let by_seq = store.texts("SELECT event_id FROM deliveries ORDER BY seq DESC LIMIT 1");
    assert_eq!(by_seq, ["601"]);
}

#[test]
fn a_claim_that_ends_while_its_routing_is_unfinished_leaves_the_rest_held() {
    let mut store = TestStore::new();
    hold(&mut store, PULL_REQUEST, 600);
    store.claim("a", PULL_REQUEST);
    store.write(ReleaseClaim {
        identity: identity("a"),
        subject: subject(PULL_REQUEST),
        role: None,
    });
    store.route_all();
    assert_eq!(store.queue("a").len(), 500);
    assert_eq!(held(&store), 100);
    assert_eq!(store.claim("b", PULL_REQUEST).deliveries, 100);
}

#[test]
fn a_zero_grace_does_not_lose_what_waits_behind_a_pending_binding() {
    let mut store = TestStore::new();
    store.append_all((0..600).map(|number| in_thread("1.1", &format!("m{number}"))));
    store.bind("x", (Provider::Slack, "1.1"), "standing:ops");
    store.settings = Settings {
        grace_ms: 0,
        ..Settings::default()
    };
    store.restart();
    assert!(store.appended_to(in_thread("1.1", "late")).is_empty());
    store.route_all();
    assert_eq!(
        store.number("SELECT count(*) FROM events WHERE state = 'held'"),
        601
    );
}
