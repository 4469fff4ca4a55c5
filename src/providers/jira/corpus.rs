//! Every payload of the corpus, from its signature to its arrival.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::domain::Arrival;
use crate::domain::WorkItemRef;
use crate::providers::Dropped;
use crate::providers::expectations::{Row, damaged, rows, sorted};
use crate::providers::signature::{Secrets, sign_jira, verify_jira};

const SECRET: &str = "corpus";

fn sent(bytes: &[u8], identifier: Option<&str>, declared: &Declared) -> Verdict {
    let secrets = Secrets::new(SECRET.to_owned(), None).unwrap();
    let signature = sign_jira(SECRET, bytes);
    let proof = Some(signature.as_bytes());
    let (body, _) = verify_jira(&secrets, proof, bytes).unwrap();
    let identifier = identifier.map(|id| (IDENTIFIER.to_owned(), id.to_owned()));
    let headers: BTreeMap<String, String> = identifier.into_iter().collect();
    parse(&headers, body, declared, Timestamp(0)).unwrap()
}

fn set_up(row: &Row, bytes: &[u8]) -> Declared {
    let json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    let key = json["issue"]["key"].as_str().unwrap_or("ANY-1");
    let (project, _) = key.split_once('-').unwrap();
    let is_declared = row.get("declared") != Some("no");
    Declared {
        jira_site: Some(row.get("site").unwrap_or("any.example.com").to_owned()),
        jira_projects: BTreeSet::from([if is_declared { project } else { "OTHER" }.to_owned()]),
        ..Declared::default()
    }
}

/// What the store makes of an arrival while nothing is bound.
fn resolved(arrival: &Arrival) -> Result<&WorkItemRef, DropReason> {
    match (arrival.keys.as_slice(), arrival.on_unresolved) {
        ([Reference::Direct(work_item)], _) => Ok(work_item),
        ([Reference::Bound { .. }], OnUnresolved::Drop(reason)) => Err(reason),
        other => panic!("{other:?}"),
    }
}

fn check_stored(row: &Row, bytes: &[u8], arrival: &Arrival, work_item: &WorkItemRef) {
    let file = row.file();
    assert_eq!(row.get("outcome"), Some("stored"), "{file}");
    assert_eq!(
        row.get("work_item"),
        Some(&*work_item.to_string()),
        "{file}"
    );
    assert_eq!(
        row.get("subject"),
        Some(work_item.subject().as_str()),
        "{file}"
    );
    assert_eq!(
        arrival.payload.text().unwrap(),
        bytes.trim_ascii(),
        "{file}"
    );
    let hash = digest::sha256(bytes.trim_ascii());
    let hash = format!("jira:{}:sha256:{hash}", row.get("site").unwrap());
    assert_eq!(texts(arrival), row.keys(&hash), "{file}");
}

fn texts(arrival: &Arrival) -> Vec<String> {
    sorted(arrival.dedup_keys.iter().map(|key| key.text.clone()))
}

#[test]
fn every_payload_becomes_what_its_row_says() {
    for (row, bytes) in rows("jira") {
        let file = row.file();
        let declared = set_up(&row, &bytes);
        match sent(&bytes, None, &declared) {
            Verdict::Append(arrival) => {
                assert_eq!(row.get("kind"), Some(&*arrival.kind), "{file}");
                let actor = arrival.actor.as_ref().map(|actor| actor.name.as_str());
                assert_eq!(row.get("actor"), actor, "{file}");
                assert_eq!(
                    arrival.delivery_id,
                    digest::fallback_delivery_id(&bytes),
                    "{file}"
                );
                match resolved(&arrival) {
                    Ok(work_item) => check_stored(&row, &bytes, &arrival, work_item),
                    Err(reason) => {
                        assert_eq!(row.get("outcome"), Some("dropped"), "{file}");
                        assert_eq!(row.get("reason"), Some(reason.as_str()), "{file}");
                    }
                }
            }
            Verdict::Drop(dropped) => {
                assert_eq!(row.get("outcome"), Some("dropped"), "{file}");
                assert_eq!(row.get("reason"), Some(dropped.reason.as_str()), "{file}");
                assert_eq!(row.get("kind").unwrap_or_default(), dropped.kind, "{file}");
            }
        }
    }
}

#[test]
fn an_identifier_is_a_key_and_replaces_the_hash() {
    for (row, bytes) in rows("jira") {
        let Verdict::Append(arrival) = sent(&bytes, Some("id-1"), &set_up(&row, &bytes)) else {
            continue;
        };
        if row.get("outcome") == Some("dropped") {
            continue;
        }
        assert_eq!(arrival.delivery_id, "id-1");
        let own = format!("jira:{}:delivery:id-1", row.get("site").unwrap());
        assert!(
            arrival
                .dedup_keys
                .contains(&DedupKey::delivery(own.clone()))
        );
        let expected = row
            .keys("")
            .into_iter()
            .filter(|key| !key.is_empty())
            .chain([own]);
        assert_eq!(texts(&arrival), sorted(expected), "{}", row.file());
    }
}

#[test]
fn no_damage_makes_it_panic_or_lose_the_text() {
    for (row, bytes) in rows("jira") {
        let declared = set_up(&row, &bytes);
        for text in damaged(std::str::from_utf8(&bytes).unwrap()) {
            if let Verdict::Append(arrival) = sent(text.as_bytes(), None, &declared) {
                assert_eq!(arrival.payload.text().unwrap(), text.as_bytes());
                assert!(!arrival.dedup_keys.is_empty());
            }
        }
    }
}

#[test]
fn the_keyless_copy_of_a_comment_leaves_the_key_to_its_twin() {
    let rows = rows("jira");
    let bytes_of = |file: &str| rows.iter().find(|(row, _)| row.file() == file);
    let Some((row, keyless)) = bytes_of("server-comment-created.mattermost.json") else {
        return;
    };
    let (_, twin) = bytes_of("server-issue-updated-commented-1.mattermost.json").unwrap();
    let declared = set_up(row, twin);
    assert!(matches!(
        sent(keyless, None, &declared),
        Verdict::Drop(Dropped {
            reason: DropReason::Keyless,
            ..
        })
    ));
    let Verdict::Append(arrival) = sent(twin, None, &declared) else {
        panic!("dropped");
    };
    assert!(texts(&arrival)[0].ends_with(":comment:10082:created"));
}
