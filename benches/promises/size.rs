//! The file for each stored comment of 13 KB, once all of them are settled.

use std::path::Path;

use serde_json::{Value, json};
use the_loop_gateway::app::Parts;
use the_loop_gateway::domain::WorkItemRef;

use super::support::api::Api;
use super::support::gateway::Running;
use super::support::{load, payloads};
use super::table::Table;
use super::{Bench, say, store_of};

const COMMENTS: u64 = 20_000;
const BYTES: usize = 13_000;
const SUBJECTS: u64 = 100;
const CONNECTIONS: usize = 64;
/// Real payloads lie beside the checkout, where there are any: docs/TESTING.md.
const PAYLOADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/payloads/github");

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    let count = bench.many(COMMENTS);
    let made = |id: u64| payloads::comment(id, id % SUBJECTS + 1, BYTES);
    let items = (1..=SUBJECTS)
        .map(|number| item("octo/repo", number))
        .collect();
    let kb = kb_each(&bench.root("size"), "octo/repo", items, (count, &made));
    table.at_most("file for each settled comment of 13 KB", kb, 3.5, "KB");
    let Some(real) = Real::find() else {
        return say("no real payloads beside the checkout");
    };
    let items = vec![item(&real.repository, real.number)];
    let again = |id: u64| real.with_id(id);
    let kb = kb_each(
        &bench.root("size-real"),
        &real.repository,
        items,
        (count, &again),
    );
    let name = format!("the same of a real one of {:.1} KB", real.kb());
    table.note(&name, format!("{kb:.2} KB"));
}

fn item(repository: &str, number: u64) -> WorkItemRef {
    let (owner, name) = repository.split_once('/').expect("a repository");
    WorkItemRef::github(None, owner, name, number).expect("a reference")
}

/// Stores so many by the real path, settles them, and looks at the file that the end leaves.
fn kb_each(
    root: &Path,
    repository: &str,
    items: Vec<WorkItemRef>,
    (count, payload): (u64, &dyn Fn(u64) -> Vec<u8>),
) -> f64 {
    let gateway = Running::of(root, repository, Parts::default());
    let host = gateway.address.to_string();
    let mut api = Api::new(gateway.address);
    for item in items {
        let subject = item.subject().as_str().to_owned();
        let claim = json!({"instance": "bench", "subject": subject, "role": "driver"});
        api.call("PUT", "/claims", &claim);
    }
    let mut done = 0;
    while done < count {
        let until = (done + 2_000).min(count);
        let requests = (done..until)
            .map(|id| payloads::signed("issue_comment", &host, id, &payload(id)))
            .collect();
        load::run(gateway.address, requests, CONNECTIONS);
        done = until;
    }
    assert_eq!(settle(&mut api), count, "each is settled");
    // Its orderly end moves the write-ahead log into the file.
    drop(gateway);
    let bytes = std::fs::metadata(store_of(root)).expect("a store").len();
    let kb = bytes as f64 / 1e3 / count as f64;
    say(&format!("{count} comments, all settled: {kb:.2} KB each"));
    kb
}

/// Fetches all there is and says that it was delivered; tells how many there were.
fn settle(api: &mut Api) -> u64 {
    let (mut cursor, mut commit, mut seen) = (0, json!([]), 0);
    loop {
        let answer = api.fetch("bench", cursor, &json!({"commit": commit}));
        let deliveries = answer["deliveries"].as_array().expect("deliveries");
        if deliveries.is_empty() {
            return seen;
        }
        seen += deliveries.len() as u64;
        cursor = answer["cursor"].as_i64().expect("a cursor");
        commit = deliveries
            .iter()
            .map(|delivery| json!({"seq": delivery["seq"], "outcome": "delivered"}))
            .collect();
    }
}

/// A comment that GitHub sent.
struct Real {
    text: String,
    repository: String,
    number: u64,
    comment: u64,
}

impl Real {
    /// The one whose size is nearest.
    fn find() -> Option<Self> {
        let files = std::fs::read_dir(PAYLOADS).ok()?;
        files
            .filter_map(|file| Self::read(&file.ok()?.path()))
            .min_by_key(|real| real.text.len().abs_diff(BYTES))
    }

    fn read(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        if !name.starts_with("issue_comment.created.") {
            return None;
        }
        let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        Some(Self {
            repository: value["repository"]["full_name"].as_str()?.to_owned(),
            number: value["issue"]["number"].as_u64()?,
            comment: value["comment"]["id"].as_u64()?,
            // As GitHub sends it: without the line breaks of a file for people.
            text: value.to_string(),
        })
    }

    /// The same comment as one of its own.
    fn with_id(&self, id: u64) -> Vec<u8> {
        let other = (1_000_000_000 + id).to_string();
        self.text.replace(&self.comment.to_string(), &other).into()
    }

    fn kb(&self) -> f64 {
        self.text.len() as f64 / 1e3
    }
}
