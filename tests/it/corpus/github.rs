//! The payloads of GitHub.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use the_loop_gateway::providers::RepositoryPattern;

use super::{Case, Fate, Watch, apart, fetch_all, json_of, table};
use crate::support::TestGateway;

#[test]
fn every_github_payload_becomes_what_its_row_says() {
    let Some((first, mut cases)) = table("github") else {
        return;
    };
    let repositories: Vec<RepositoryPattern> = first
        .strip_prefix("# repositories: ")
        .unwrap()
        .split(' ')
        .map(|text| RepositoryPattern::parse(text).unwrap())
        .collect();
    // What waits for its commit goes first: a pull request that comes later names some of them.
    cases.sort_by_key(|case| case.get("outcome") != Some("grace"));
    let count = cases.len();
    let mut tried = 0;
    for group in apart(cases, Case::keys) {
        tried += group.len();
        let gateway = TestGateway::with(|config| {
            config.declared.repositories.clone_from(&repositories);
        });
        play(&gateway, &group);
    }
    assert_eq!(tried, count);
}

fn play(gateway: &TestGateway, group: &[Case]) {
    let mut watch = Watch::over(gateway);
    let (mut subjects, mut expected) = (BTreeSet::new(), BTreeMap::new());
    for (number, case) in group.iter().enumerate() {
        let file = case.file();
        let guid = format!("guid-{number}");
        let reply = gateway
            .github(case.get("event").unwrap(), &guid, case.text())
            .header("Content-Type", case.content_type())
            .send();
        assert_eq!(reply.assert(202), json!({"status": "accepted"}), "{file}");
        let outcome = case.get("outcome").unwrap();
        match watch.fate(outcome == "dropped") {
            Fate::Stored(stored) => {
                let state = if outcome == "stored" { "held" } else { outcome };
                assert_eq!(stored.state, state, "{file}");
                assert_eq!(stored.delivery_id, guid, "{file}");
                assert_eq!(Some(&*stored.kind), case.get("event"), "{file}");
                assert_eq!(stored.work_item.as_deref(), case.get("work_item"), "{file}");
                assert_eq!(stored.subject.as_deref(), case.get("subject"), "{file}");
                assert_eq!(stored.actor.as_deref(), case.get("actor"), "{file}");
                let is_own = |key: &&String| key.ends_with(&format!(":delivery:{guid}"));
                assert_eq!(stored.keys.iter().filter(is_own).count(), 1, "{file}");
                let others: BTreeSet<String> = stored
                    .keys
                    .iter()
                    .filter(|key| !is_own(key))
                    .map(|key| key.replace(&guid, "GUID"))
                    .collect();
                assert_eq!(others, case.keys(), "{file}");
                if outcome == "stored" {
                    subjects.extend(stored.subject);
                    expected.insert(stored.id, (file, json_of(case)));
                }
            }
            Fate::Dropped(record) => {
                assert_eq!(outcome, "dropped", "{file}");
                assert_eq!(record["reason"].as_str(), case.get("reason"), "{file}");
                assert_eq!(record["delivery_id"], guid.as_str(), "{file}");
            }
            Fate::Answered => panic!("{file} is neither stored nor dropped"),
        }
    }
    let payloads = fetch_all(gateway, &subjects);
    for (id, (file, text)) in expected {
        assert_eq!(payloads.get(&id), Some(&text), "{file}");
    }
}
