//! Every payload of the shared corpus, posted to the real routes: what is answered, what is
//! stored of it or why not, and what comes out at the other end.
//!
//! The tables say what one file does to a fresh store. Files that would be copies of one another
//! go to different gateways.

mod github;
mod jira;
mod slack;
mod slack_socket;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{Consumer, TestGateway};

/// One row of a table with the payload that it names.
#[derive(Debug)]
struct Case {
    cells: BTreeMap<String, String>,
    bytes: Vec<u8>,
}

impl Case {
    /// A cell; `-` is none.
    fn get(&self, column: &str) -> Option<&str> {
        Some(self.cells[column].as_str()).filter(|cell| *cell != "-")
    }

    fn file(&self) -> &str {
        &self.cells["file"]
    }

    fn is_form(&self) -> bool {
        self.file().ends_with(".txt")
    }

    fn content_type(&self) -> &'static str {
        if self.is_form() {
            "application/x-www-form-urlencoded"
        } else {
            "application/json"
        }
    }

    /// The text of the body.
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    /// The keys, as the table writes them.
    fn keys(&self) -> BTreeSet<String> {
        let keys = self.get("keys").unwrap_or_default().split_whitespace();
        keys.map(str::to_owned).collect()
    }
}

/// A table's first line, and its rows. Nothing where the corpus is absent, and says so.
fn table(name: &str) -> Option<(String, Vec<Case>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let payloads = root.join("../shared/payloads").join(name);
    if !payloads.is_dir() {
        eprintln!("SKIPPED: no payloads at {}", payloads.display());
        return None;
    }
    let expectations = root.join("tests/it/expectations").join(name);
    let text = std::fs::read_to_string(expectations.with_extension("tsv")).unwrap();
    let first = text.lines().next().unwrap().to_owned();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let cases: Vec<Case> = lines.map(|line| case(&names, line, &payloads)).collect();
    let files = std::fs::read_dir(&payloads).unwrap().count();
    assert_eq!(cases.len(), files, "rows and files of {name}");
    Some((first, cases))
}

fn case(names: &[&str], line: &str, payloads: &Path) -> Case {
    let cells: Vec<&str> = line.split('\t').collect();
    assert_eq!(cells.len(), names.len(), "{line}");
    let cells = names.iter().zip(cells);
    let cells: BTreeMap<String, String> = cells
        .map(|(name, cell)| ((*name).to_owned(), cell.to_owned()))
        .collect();
    let bytes = std::fs::read(payloads.join(&cells["file"])).unwrap();
    Case { cells, bytes }
}

/// Splits cases so that no two of a group have something in common.
fn apart(cases: Vec<Case>, things: impl Fn(&Case) -> BTreeSet<String>) -> Vec<Vec<Case>> {
    let mut groups: Vec<(BTreeSet<String>, Vec<Case>)> = Vec::new();
    for case in cases {
        let has = things(&case);
        match groups.iter_mut().find(|(taken, _)| taken.is_disjoint(&has)) {
            Some((taken, group)) => {
                taken.extend(has);
                group.push(case);
            }
            None => groups.push((has, vec![case])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// What the store holds of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    id: i64,
    state: String,
    kind: String,
    delivery_id: String,
    work_item: Option<String>,
    subject: Option<String>,
    actor: Option<String>,
    keys: BTreeSet<String>,
}

/// The events that came after another.
fn stored_after(gateway: &TestGateway, id: i64) -> Vec<Stored> {
    let some = |text: String| (!text.is_empty()).then_some(text);
    let sql = "SELECT id, state, kind, delivery_id, work_item, subject, actor FROM events
               WHERE id > ?1 ORDER BY id";
    let mut events = gateway.rows(sql, [id], |row| {
        Ok(Stored {
            id: row.get(0)?,
            state: row.get(1)?,
            kind: row.get(2)?,
            delivery_id: row.get(3)?,
            work_item: some(row.get(4)?),
            subject: some(row.get(5)?),
            actor: some(row.get(6)?),
            keys: BTreeSet::new(),
        })
    });
    for event in &mut events {
        let keys = "SELECT key FROM seen_keys WHERE event_id = ?1";
        event.keys = gateway
            .rows(keys, [event.id], |row| row.get(0))
            .into_iter()
            .collect();
    }
    events
}

/// What became of a file that was posted.
enum Fate {
    Stored(Stored),
    Dropped(Value),
    /// Neither stored nor dropped: answered, and that is all.
    Answered,
}

/// Watches what becomes of one file after the other.
struct Watch<'g> {
    gateway: &'g TestGateway,
    last: i64,
    dropped: usize,
}

impl<'g> Watch<'g> {
    const fn over(gateway: &'g TestGateway) -> Self {
        Self {
            gateway,
            last: 0,
            dropped: 0,
        }
    }

    /// What became of the file that was just answered; it is known whether a record of a drop is
    /// to be waited for.
    fn fate(&mut self, is_dropped: bool) -> Fate {
        let mut stored = stored_after(self.gateway, self.last);
        assert!(stored.len() <= 1, "{stored:?}");
        if let Some(stored) = stored.pop() {
            self.last = stored.id;
            return Fate::Stored(stored);
        }
        if !is_dropped {
            return Fate::Answered;
        }
        let mut records = self
            .gateway
            .wait_for_records("gateway.dropped", self.dropped + 1);
        self.dropped = records.len();
        Fate::Dropped(records.pop().unwrap())
    }
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    deliveries: Vec<Handed<'a>>,
    cursor: i64,
}

#[derive(Deserialize)]
struct Handed<'a> {
    seq: i64,
    #[serde(borrow)]
    event: HandedEvent<'a>,
}

#[derive(Deserialize)]
struct HandedEvent<'a> {
    id: i64,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// Claims subjects and fetches all that there is: each event's payload, as it was cut out.
fn fetch_all(gateway: &TestGateway, subjects: &BTreeSet<String>) -> BTreeMap<i64, String> {
    let laptop = Consumer::new("laptop");
    for subject in subjects {
        let claim = json!({"subject": subject, "role": "driver"});
        laptop.put(gateway, "/claims", &claim).assert(200);
    }
    let mut payloads = BTreeMap::new();
    let (mut cursor, mut done) = (0, Vec::new());
    loop {
        let more = json!({"cursor": cursor, "commit": done, "max": 256});
        let reply = laptop.fetch_call(gateway, &more).send();
        assert_eq!(reply.status, 200);
        let answer: Answer<'_> = serde_json::from_slice(&reply.body).unwrap();
        cursor = answer.cursor;
        done.clear();
        if answer.deliveries.is_empty() {
            return payloads;
        }
        for delivery in answer.deliveries {
            let payload = delivery.event.payload.get().to_owned();
            assert_eq!(payloads.insert(delivery.event.id, payload), None);
            done.push(json!({"seq": delivery.seq, "outcome": "delivered"}));
        }
    }
}

/// The JSON of a body: of a form, what its `payload` says.
fn json_of(case: &Case) -> String {
    let text = if case.is_form() {
        let mut pairs = form_urlencoded::parse(&case.bytes);
        let payload = pairs.find(|(name, _)| name == "payload");
        payload.unwrap().1.into_owned()
    } else {
        case.text().to_owned()
    };
    text.trim_matches([' ', '\t', '\r', '\n']).to_owned()
}
