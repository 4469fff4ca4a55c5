//! Every rule finds what breaks it.

use super::support::{SECOND, TestStore, about, by, in_thread, work_item};
use crate::domain::Provider;
use crate::store::{open_reader, verify};

const ISSUE: &str = "github:octo/repo#1";

/// A store with something of everything.
fn busy_store() -> TestStore {
    let mut store = TestStore::new();
    for number in 1..=4 {
        store.claim("a", &format!("github:octo/repo#{number}"));
    }
    store.register("a", &[(Provider::GitHub, "octocat")]);
    store.bind("a", (Provider::Slack, "1.1"), ISSUE);
    let mut linked = about(ISSUE, "g1");
    linked.also = vec![work_item("github:octo/repo#9")];
    store.append(linked);
    store.append(about("github:octo/repo#2", "g2"));
    store.append(by(about("github:octo/repo#3", "g3"), "octocat"));
    store.append(about("github:octo/repo#8", "held"));
    store.append(in_thread("9.9", "grace"));
    store.fetch("a@ann/r0", &[]);
    store.fetch("a@ann/r1", &[]);
    store.commit("a@ann/r1", &[(1, "failed")]);
    store.append(about("github:octo/repo#4", "g4"));
    store.clock.advance(SECOND);
    store.fetch("a@ann/r1", &[]);
    store
}

#[test]
fn a_sound_store_has_no_problem() {
    let store = busy_store();
    let reader = open_reader(&store.path()).unwrap();
    assert_eq!(verify(&reader, store.now()).unwrap(), []);
}

/// What breaks a store, and the rule that finds it.
const BROKEN: &[(&str, &str)] = &[
    (
        "UPDATE counters SET value = value + 1 WHERE name = 'events'",
        "the counter of events is their number",
    ),
    (
        "UPDATE counters SET value = 0 WHERE name = 'held'",
        "the counter of held events is their number",
    ),
    (
        "UPDATE instances SET backlog = 0",
        "a backlog is the number of live deliveries",
    ),
    (
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'deliveries'",
        "numbers are never used again",
    ),
    (
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'events'",
        "numbers of events are never used again",
    ),
    (
        "DELETE FROM deliveries WHERE seq = 4",
        "a routed event has a delivery",
    ),
    (
        "UPDATE events SET state = 'held' WHERE id = 1",
        "only a routed event has live deliveries",
    ),
    (
        "DELETE FROM event_references",
        "an event in grace has references and no subject",
    ),
    (
        "UPDATE event_references SET event_id = 1",
        "only an event in grace has references",
    ),
    (
        "UPDATE events SET payload = x'' WHERE id = 1",
        "a payload is there until its event expires",
    ),
    (
        "UPDATE events SET subject_key = 'Loop-x' WHERE id = 4",
        "a key is its subject in lower case",
    ),
    (
        "UPDATE event_links SET event_id = 99",
        "a link has an event",
    ),
    (
        "UPDATE seen_keys SET orphan = 1 WHERE event_id = 1",
        "a seen key is an orphan when its event is gone, and only then",
    ),
    (
        "DELETE FROM seen_keys WHERE event_id = 1",
        "the keys of an event count as seen",
    ),
    (
        "UPDATE events SET headers = '[]' WHERE id = 1",
        "headers are a JSON object",
    ),
    ("DELETE FROM events WHERE id = 2", "a delivery has an event"),
    (
        "UPDATE deliveries SET instance_id = 99 WHERE seq = 1",
        "a delivery has an instance",
    ),
    (
        "UPDATE deliveries SET lane_id = 1 WHERE seq = 2",
        "a live delivery is in a lane of its queue and subject",
    ),
    (
        "UPDATE deliveries SET event_id = 1 WHERE seq = 2",
        "an event waits once on a queue",
    ),
    (
        "UPDATE deliveries SET ended_at_ms = 1 WHERE seq = 1",
        "a delivery has an end when it is over, and only then",
    ),
    (
        "UPDATE deliveries SET state = 3, suspect = 1 WHERE seq = 1",
        "only a live delivery is a suspect",
    ),
    (
        "UPDATE deliveries SET state = 1, handed_number = 999 WHERE seq = 1",
        "what is in hand was handed out with a number of its queue",
    ),
    (
        "UPDATE deliveries SET redrive_of = 1 WHERE seq = 2",
        "a delivery replaces an older one of its event, which is marked",
    ),
    (
        "UPDATE deliveries SET redrive_of = 1 WHERE seq IN (2, 3)",
        "a delivery is replaced once",
    ),
    (
        "UPDATE hand_outs SET seq = 99",
        "a hand-out belongs to a delivery",
    ),
    (
        "UPDATE response_numbers SET number = number + 999",
        "a number of a response is not above the last one",
    ),
    (
        "UPDATE claims SET instance_id = 99",
        "a claim belongs to an instance that is known",
    ),
    (
        "UPDATE instances SET forgotten_at_ms = 1",
        "an actor belongs to an instance that is known",
    ),
    (
        "INSERT INTO superseded_runs (instance_id, run) VALUES (1, 'r1')",
        "the present run is not superseded",
    ),
    (
        "INSERT INTO bindings SELECT provider, key, 'github:octo/repo#7',
                 'github:octo/repo#7', 'loop-github-octo-repo-7', 1, 0, 0 FROM bindings",
        "a Slack key is bound to one work item",
    ),
    (
        "UPDATE lanes SET state = 0 WHERE state = 2",
        "a lane says what its deliveries say",
    ),
    (
        "UPDATE lanes SET state = 2 WHERE state <> 2",
        "a lane says what its deliveries say",
    ),
    (
        "UPDATE lanes SET head_event_id = 99 WHERE state <> 2",
        "a lane says what its deliveries say",
    ),
    (
        "UPDATE lanes SET head_due_at_ms = 1 WHERE state = 1",
        "a lane says what its deliveries say",
    ),
    (
        "INSERT INTO lanes (instance_id, lane_key, state, head_event_id, head_due_at_ms)
             VALUES (1, 'loop-x', 0, 1, 0)",
        "a lane says what its deliveries say",
    ),
    (
        "UPDATE events SET payload = x'28b52ffd' WHERE id = 1",
        "a payload is what was stored",
    ),
    (
        "UPDATE events SET work_item = 'github:octo/repo#77' WHERE id = 1",
        "a subject is that of its work item",
    ),
];

#[test]
fn each_rule_finds_what_breaks_it() {
    for (broken, rule) in BROKEN {
        let mut store = busy_store();
        store.is_sound = false;
        store.run(broken);
        let reader = open_reader(&store.path()).unwrap();
        let problems = verify(&reader, store.now()).unwrap();
        let rules: Vec<_> = problems.iter().map(|problem| problem.rule).collect();
        assert!(rules.contains(rule), "{broken}: {rules:?}");
    }
}

#[test]
fn a_long_list_of_one_problem_is_cut() {
    let mut store = TestStore::new();
    store.append_all((0..100).map(|number| about(ISSUE, &format!("g{number}"))));
    store.is_sound = false;
    store.run("UPDATE events SET payload = x'00'");
    let problems = verify(store.connection(), store.now()).unwrap();
    assert_eq!(problems.len(), 20);
}
