//! Every payload of the corpus against the table of expectations, and damaged copies of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::support::{GUID, NOW, declared, deliver, headers, object_keys};
use crate::domain::{DedupKey, DropReason, OnUnresolved, Reference};
use crate::providers::{Declared, Verdict, Verified};

/// What becomes of one payload, in the words of the table.
#[derive(Debug, PartialEq, Eq)]
struct Fate {
    outcome: &'static str,
    reason: String,
    work_item: String,
    subject: String,
    actor: String,
    keys: String,
}

fn table() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/expectations/github.tsv"
    );
    fs::read_to_string(path).unwrap()
}

fn fleet(table: &str) -> Declared {
    let line = table.lines().next().unwrap();
    let entries = line.strip_prefix("# repositories: ").unwrap();
    declared(&entries.split(' ').collect::<Vec<_>>())
}

/// The folder of the corpus, which is not part of the repository.
fn corpus() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/payloads/github"
    ));
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no payload corpus at {}", folder.display());
    None
}

fn request_headers(file: &str, kind: &str) -> BTreeMap<String, String> {
    let content_type = if file.ends_with(".txt") {
        "application/x-www-form-urlencoded"
    } else {
        "application/json"
    };
    headers(&[
        ("x-github-event", kind),
        ("x-github-delivery", GUID),
        ("content-type", content_type),
    ])
}

fn fate(verdict: &Verdict) -> Fate {
    let none = || "-".to_owned();
    let dropped = |reason: DropReason| Fate {
        outcome: "dropped",
        reason: reason.to_string(),
        work_item: none(),
        subject: none(),
        actor: none(),
        keys: none(),
    };
    let arrival = match verdict {
        Verdict::Drop(what) => return dropped(what.reason),
        Verdict::Append(arrival) => arrival,
    };
    assert!(
        arrival.dedup_keys[0]
            .text
            .ends_with(&format!(":delivery:{GUID}"))
    );
    let item = match &arrival.keys[0] {
        Reference::Direct(item) => Some(item),
        Reference::Commit { .. } => {
            assert_eq!(arrival.on_unresolved, OnUnresolved::Grace);
            None
        }
        // Nothing is bound in a fresh store.
        Reference::Bound { .. } | Reference::Room { .. } | Reference::DeclaredRoom(_) => {
            let OnUnresolved::Drop(reason) = arrival.on_unresolved else {
                panic!("{:?}", arrival.on_unresolved);
            };
            return dropped(reason);
        }
    };
    Fate {
        outcome: if item.is_some() { "stored" } else { "grace" },
        reason: none(),
        work_item: item.map_or_else(none, ToString::to_string),
        subject: item.map_or_else(none, |item| item.subject().to_string()),
        actor: arrival
            .actor
            .as_ref()
            .map_or_else(none, |actor| actor.name.clone()),
        keys: object_keys(arrival),
    }
}

#[test]
fn every_payload_of_the_corpus_meets_its_expectation() {
    let Some(folder) = corpus() else { return };
    let table = table();
    let fleet = fleet(&table);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [file, kind, outcome, reason, work_item, subject, actor, keys] = columns[..] else {
            panic!("{line}");
        };
        let body = fs::read(folder.join(file)).unwrap();
        let verdict = deliver(&request_headers(file, kind), &body, &fleet).unwrap();
        let found = fate(&verdict);
        let expected = Fate {
            outcome: found.outcome,
            reason: reason.to_owned(),
            work_item: work_item.to_owned(),
            subject: subject.to_owned(),
            // The table names the actor of what is dropped, too; nothing is kept of it.
            actor: if outcome == "dropped" { "-" } else { actor }.to_owned(),
            keys: keys.replace("GUID", GUID),
        };
        if found != expected || found.outcome != outcome {
            wrong.push(format!(
                "{file}: expected {outcome} {expected:?}, found {found:?}"
            ));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        seen,
        fs::read_dir(&folder).unwrap().count(),
        "rows and files"
    );
}

#[test]
fn what_is_stored_is_the_json_as_it_came() {
    let Some(folder) = corpus() else { return };
    let fleet = fleet(&table());
    for file in ["issues.opened.heph.json", "issues.opened.heph.form.txt"] {
        let body = fs::read(folder.join(file)).unwrap();
        let Verdict::Append(arrival) =
            deliver(&request_headers(file, "issues"), &body, &fleet).unwrap()
        else {
            panic!("{file}");
        };
        let sent = match form_urlencoded::parse(&body).find(|(name, _)| name == "payload") {
            Some((_, value)) => value.into_owned(),
            None => String::from_utf8(body).unwrap(),
        };
        assert_eq!(arrival.payload.text().unwrap(), sent.trim().as_bytes());
    }
}

/// Each copy of an object with one of its fields gone or of another type.
fn damaged(object: &serde_json::Map<String, Value>) -> Vec<serde_json::Map<String, Value>> {
    let substitutes = [
        Value::Null,
        Value::from(true),
        Value::from(-1),
        Value::from(""),
        Value::from("\u{0} a/b#c:é"),
        Value::Array(vec![Value::Null, Value::from(1)]),
        Value::Object(serde_json::Map::new()),
    ];
    let mut copies = Vec::new();
    for name in object.keys() {
        let mut copy = object.clone();
        copy.remove(name);
        copies.push(copy);
        for substitute in &substitutes {
            let mut copy = object.clone();
            copy.insert(name.clone(), substitute.clone());
            copies.push(copy);
        }
    }
    copies
}

/// The fields that are read, and one that is not: damaging the others only takes time.
fn is_read(name: &str) -> bool {
    name == "zen" || format!("{:?}", super::want::PAYLOAD).contains(&format!("\"{name}\""))
}

fn slim(value: &Value) -> Value {
    if let Some(object) = value.as_object() {
        object
            .iter()
            .filter(|(name, _)| is_read(name))
            .map(|(name, value)| (name.clone(), slim(value)))
            .collect()
    } else if let Some(items) = value.as_array() {
        items.iter().map(slim).collect()
    } else {
        value.clone()
    }
}

fn is_blameless(keys: &[DedupKey]) -> bool {
    keys.iter().all(|key| {
        !key.text.is_empty()
            && !key
                .text
                .contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

#[test]
fn no_damaged_payload_panics_or_is_refused() {
    let Some(folder) = corpus() else { return };
    let table = table();
    let fleet = fleet(&table);
    let mut tried = 0_u32;
    for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (file, kind) = (columns[0], columns[1]);
        if file.ends_with(".txt") {
            continue;
        }
        let text = fs::read(folder.join(file)).unwrap();
        let whole = slim(&serde_json::from_slice(&text).unwrap());
        let whole = whole.as_object().unwrap();
        let mut copies = damaged(whole);
        for (name, value) in whole {
            let Value::Object(inner) = value else {
                continue;
            };
            copies.extend(damaged(inner).into_iter().map(|inner| {
                let mut copy = whole.clone();
                copy.insert(name.clone(), Value::Object(inner));
                copy
            }));
        }
        let sent = request_headers(file, kind);
        for copy in copies {
            let body = serde_json::to_vec(&copy).unwrap();
            let proven = Verified::by_connection(body.as_slice());
            let verdict = super::parse(&sent, proven, &fleet, NOW).unwrap();
            if let Verdict::Append(arrival) = verdict {
                assert!(
                    is_blameless(&arrival.dedup_keys),
                    "{:?}",
                    arrival.dedup_keys
                );
                assert!(!arrival.keys.is_empty());
            }
            tried += 1;
        }
    }
    assert!(tried > 10_000, "{tried}");
}
