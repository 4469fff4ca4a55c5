//! The payloads of Jira.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use the_loop_gateway::digest::sha256_hex;

use super::{Case, Fate, Watch, apart, fetch_all, json_of, table};
use crate::support::TestGateway;

#[test]
fn every_jira_payload_becomes_what_its_row_says() {
    let Some((_, cases)) = table("jira") else {
        return;
    };
    let count = cases.len();
    let mut by_set_up: BTreeMap<_, Vec<Case>> = BTreeMap::new();
    for case in cases {
        let set_up = ["site", "deployment", "declared"].map(|column| case.cells[column].clone());
        by_set_up.entry(set_up).or_default().push(case);
    }
    let mut tried = 0;
    for ([site, _, declared], cases) in by_set_up {
        for group in apart(cases, Case::keys) {
            tried += group.len();
            let projects = if declared == "no" {
                BTreeSet::from(["OTHER".to_owned()])
            } else {
                group.iter().map(project).collect()
            };
            let site = if site == "-" {
                "any.example.com"
            } else {
                &site
            };
            let gateway = TestGateway::with(|config| {
                config.declared.jira_site = Some(site.to_owned());
                config.declared.jira_projects = projects;
            });
            play(&gateway, &group);
        }
    }
    assert_eq!(tried, count);
}

/// The project of the issue, or any.
fn project(case: &Case) -> String {
    let json: Value = serde_json::from_slice(&case.bytes).unwrap();
    let key = json["issue"]["key"].as_str().unwrap_or("ANY-1");
    key.split_once('-').unwrap().0.to_owned()
}

fn play(gateway: &TestGateway, group: &[Case]) {
    let mut watch = Watch::over(gateway);
    let (mut subjects, mut expected) = (BTreeSet::new(), BTreeMap::new());
    for (number, case) in group.iter().enumerate() {
        let file = case.file();
        let identifier = format!("identifier-{number}");
        let reply = gateway.jira(&identifier, case.text()).send();
        assert_eq!(reply.assert(202), json!({"status": "accepted"}), "{file}");
        let outcome = case.get("outcome").unwrap();
        match watch.fate(outcome == "dropped") {
            Fate::Stored(stored) => {
                assert_eq!((outcome, &*stored.state), ("stored", "held"), "{file}");
                assert_eq!(stored.delivery_id, identifier, "{file}");
                assert_eq!(Some(&*stored.kind), case.get("kind"), "{file}");
                assert_eq!(stored.work_item.as_deref(), case.get("work_item"), "{file}");
                assert_eq!(stored.subject.as_deref(), case.get("subject"), "{file}");
                assert_eq!(stored.actor.as_deref(), case.get("actor"), "{file}");
                assert_eq!(stored.keys, keys(case, &identifier), "{file}");
                subjects.extend(stored.subject);
                expected.insert(stored.id, (file, json_of(case)));
            }
            Fate::Dropped(record) => {
                assert_eq!(outcome, "dropped", "{file}");
                assert_eq!(record["reason"].as_str(), case.get("reason"), "{file}");
                assert_eq!(record["kind"].as_str(), case.get("kind"), "{file}");
            }
            Fate::Answered => panic!("{file} is neither stored nor dropped"),
        }
    }
    let payloads = fetch_all(gateway, &subjects);
    for (id, (file, text)) in expected {
        assert_eq!(payloads.get(&id), Some(&text), "{file}");
    }
}

/// The keys of a delivery that has an identifier, which takes the place of the hash.
fn keys(case: &Case, identifier: &str) -> BTreeSet<String> {
    let mut keys = case.keys();
    keys.remove("sha256");
    let site = case.get("site").unwrap();
    keys.insert(format!("jira:{site}:delivery:{identifier}"));
    keys
}

#[test]
fn a_jira_payload_without_an_identifier_is_known_by_itself() {
    let Some((_, cases)) = table("jira") else {
        return;
    };
    for case in cases
        .iter()
        .filter(|case| case.get("outcome") == Some("stored"))
    {
        if !case.keys().contains("sha256") {
            continue;
        }
        let file = case.file();
        let site = case.get("site").unwrap();
        let gateway = TestGateway::with(|config| {
            config.declared.jira_site = Some(site.to_owned());
            config.declared.jira_projects = BTreeSet::from([project(case)]);
        });
        for _ in 0..2 {
            let reply = gateway.jira("", case.text()).send();
            assert_eq!(reply.status, 202, "{file}");
        }
        let stored = super::stored_after(&gateway, 0);
        assert_eq!(stored.len(), 1, "{file}");
        let hash = sha256_hex(json_of(case).as_bytes());
        let key = format!("jira:{site}:sha256:{hash}");
        assert_eq!(stored[0].keys, BTreeSet::from([key]), "{file}");
        let of_body = sha256_hex(&case.bytes);
        assert_eq!(
            stored[0].delivery_id,
            format!("sha256-{}", &of_body[..16]),
            "{file}"
        );
    }
}
