//! The payloads of Slack, over HTTP.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use the_loop_gateway::digest::sha256_hex;

use super::{Case, Fate, Stored, Watch, apart, fetch_all, json_of, table};
use crate::support::{Consumer, Reply, TestGateway};

#[test]
fn every_slack_payload_becomes_what_its_row_says() {
    let Some((_, mut cases)) = table("slack_http") else {
        return;
    };
    // What is dropped marks no key as seen, so it goes first: ids recur.
    cases.sort_by_key(|case| case.get("outcome") != Some("dropped"));
    let count = cases.len();
    let mut tried = 0;
    for group in apart(cases, things) {
        tried += group.len();
        play(&TestGateway::start(), &group);
    }
    assert_eq!(tried, count);
}

/// What two files of one gateway must not share: a key, and the place that will be bound.
fn things(case: &Case) -> BTreeSet<String> {
    let mut things = case.keys();
    things.remove("sha256");
    things.extend(place(case).map(|place| format!("place {place}")));
    things
}

/// `channel/thread_ts` of what waits for a binding.
fn place(case: &Case) -> Option<String> {
    let is_grace = case.get("outcome") == Some("grace");
    let (channel, thread) = (case.get("channel")?, case.get("thread_ts")?);
    is_grace.then(|| format!("{channel}/{thread}"))
}

fn play(gateway: &TestGateway, group: &[Case]) {
    let users: BTreeSet<&str> = group.iter().filter_map(|case| case.get("user")).collect();
    let laptop = Consumer::new("laptop");
    let actors = json!({"actors": {"slack": users}});
    laptop.put(gateway, "/actors", &actors).assert(200);
    let mut watch = Watch::over(gateway);
    let (mut places, mut expected) = (Vec::new(), BTreeMap::new());
    for (number, case) in (1..).zip(group) {
        let file = case.file();
        let route = case.get("route").unwrap();
        let reply = gateway
            .slack(route, case.content_type(), case.text())
            .send();
        check_answer(case, &reply);
        let outcome = case.get("outcome").unwrap();
        match watch.fate(outcome == "dropped") {
            Fate::Stored(stored) => {
                check_stored(case, &stored);
                if route != "commands" {
                    expected.insert(stored.id, (file, json_of(case)));
                }
                if let Some(place) = place(case) {
                    places.push((place, number));
                } else if outcome == "grace" {
                    // A message without a thread is in a room at best: nothing to bind here.
                    expected.remove(&stored.id);
                }
            }
            Fate::Dropped(record) => {
                assert_eq!(outcome, "dropped", "{file}");
                assert_eq!(record["reason"].as_str(), case.get("reason"), "{file}");
                assert_eq!(record["kind"].as_str(), case.get("kind"), "{file}");
            }
            Fate::Answered => assert_eq!(outcome, "none", "{file}"),
        }
    }
    let bound = places.iter();
    let subjects = bound.map(|(place, number)| bind(gateway, &laptop, place, *number));
    let payloads = fetch_all(gateway, &subjects.collect());
    for (id, (file, text)) in expected {
        assert_eq!(payloads.get(&id), Some(&text), "{file}");
    }
}

fn check_answer(case: &Case, reply: &Reply) {
    let file = case.file();
    assert_eq!(reply.status, 200, "{file}: {}", reply.text());
    match case.get("answer").unwrap() {
        "empty" => assert_eq!(reply.text(), "", "{file}"),
        "options" => assert_eq!(reply.json(), json!({"options": []}), "{file}"),
        "challenge" => {
            let sent: Value = serde_json::from_str(&json_of(case)).unwrap();
            assert_eq!(
                reply.json(),
                json!({"challenge": sent["challenge"]}),
                "{file}"
            );
        }
        other => panic!("{file}: {other}"),
    }
}

fn check_stored(case: &Case, stored: &Stored) {
    let file = case.file();
    let state = match case.get("outcome").unwrap() {
        "by-actor" => "routed",
        other => other,
    };
    assert_eq!(stored.state, state, "{file}");
    assert_eq!(Some(&*stored.kind), case.get("kind"), "{file}");
    assert_eq!(stored.actor.as_deref(), case.get("user"), "{file}");
    assert_eq!(
        (&stored.work_item, &stored.subject),
        (&None, &None),
        "{file}"
    );
    let mut keys = case.keys();
    if keys.remove("sha256") {
        let own = |key: &&String| key.contains(":sha256:");
        let found: Vec<&String> = stored.keys.iter().filter(own).collect();
        assert_eq!(found.len(), 1, "{file}");
        if case.get("route") != Some("commands") {
            let hash = sha256_hex(json_of(case).as_bytes());
            assert!(found[0].ends_with(&format!(":sha256:{hash}")), "{file}");
        }
        keys.extend(found.into_iter().cloned());
    }
    assert_eq!(stored.keys, keys, "{file}");
}

/// Binds a thread to a work item of its own: what waits for it must be routed by that.
fn bind(gateway: &TestGateway, laptop: &Consumer, place: &str, number: u64) -> String {
    let binding = laptop.body(&json!({
        "ref": format!("github:octo/repo#{number}"),
        "provider": "slack",
        "key": place,
    }));
    gateway.api("POST", "/bindings", &binding).assert(200);
    let sql = "SELECT count(*) FROM events WHERE work_item = 'github:octo/repo#' || ?1";
    let found: Vec<i64> = gateway.rows(sql, [number.to_string()], |row| row.get(0));
    assert_eq!(found, [1], "{place}");
    format!("loop-github-octo-repo-{number}")
}
