//! One instance that fetches 256 at a time and commits what it was given with its next fetch,
//! against SQLite that changes the same rows and does nothing else; and the same over HTTP, where
//! payloads are decompressed, answers written and read.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use rusqlite::params;
use serde::Deserialize;
use serde_json::{Value, json};
use the_loop_gateway::app::Parts;
use the_loop_gateway::store::open_writer;

use super::support::api::Api;
use super::support::gateway::Running;
use super::support::payloads::prose;
use super::support::stock::{self, Stock};
use super::table::Table;
use super::{Bench, median, say, store_of};

const INSTANCE: &str = "consumer";
const BATCH: u64 = 256;
const BATCHES: u64 = 200;
const SUBJECTS: u64 = 100;
const BYTES: usize = 1024;
const ROUNDS: usize = 3;
/// What a machine like that of docs/PERFORMANCE.md should do.
const AIM: f64 = 30_000.0;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    let deliveries = BATCH * bench.many(BATCHES);
    let seed = bench.root("fetch-seed.db");
    stock_up(&seed, deliveries);
    let (mut of_store, mut of_http, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let copy = bench.root("fetch-raw.db");
        std::fs::copy(&seed, &copy).expect("room on the disk");
        let raw = updated_by_sqlite(&copy, deliveries);
        std::fs::copy(&seed, &copy).expect("room on the disk");
        let store = by_the_store(&copy, deliveries);
        let root = bench.root(&format!("fetch-{round}"));
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::copy(&seed, store_of(&root)).expect("room on the disk");
        let ours = fetched_and_committed(&root, deliveries);
        say(&format!(
            "updated by SQLite alone {raw:.0} rows/s; fetched and committed by the store \
             {store:.0}/s, over HTTP {ours:.0}/s"
        ));
        of_store.push(store / raw);
        of_http.push(ours / raw);
        rates.push(ours);
    }
    let name = "fetch(256) + commit of 1 KiB";
    let of_raw = "÷ rows updated by SQLite alone";
    table.at_least(&format!("{name} {of_raw}"), median(of_store), 0.5, "");
    let ratio = format!("{:.2}", median(of_http));
    table.note(&format!("{name} over HTTP {of_raw}"), ratio);
    let rate = format!("{:.0}/s, aim {AIM:.0}/s", median(rates));
    table.note(&format!("{name} over HTTP"), rate);
}

/// Deliveries of 1 KiB each on the queue of one instance.
fn stock_up(path: &Path, deliveries: u64) {
    let mut stock = Stock::open(path);
    for number in 1..=SUBJECTS {
        stock.claim(INSTANCE, number);
    }
    stock.submit_all((1..=deliveries).map(|id| {
        let payload = json!({"id": id, "body": prose(BYTES - 40, id)});
        stock::append(id, id % SUBJECTS + 1, payload.to_string().as_bytes())
    }));
}

/// Each row is changed twice, as a hand-out and an outcome change it, in as many transactions.
fn updated_by_sqlite(path: &Path, deliveries: u64) -> f64 {
    let connection = open_writer(path).expect("a store");
    let mut hand_out = connection
        .prepare(
            "UPDATE deliveries SET state = 1, ever_handed = 1, handed_number = ?2, handed_run = ?3,
                 handed_at_ms = ?4
             WHERE seq = ?1",
        )
        .expect("a statement");
    let mut settle = connection
        .prepare(
            "UPDATE deliveries SET state = 2, suspect = 0, outcome = ?2, detail = '',
                 ended_at_ms = ?3
             WHERE seq = ?1",
        )
        .expect("a statement");
    let began = Instant::now();
    let mut first = 1;
    while first <= deliveries {
        connection
            .execute_batch("BEGIN IMMEDIATE")
            .expect("a store");
        for seq in first.saturating_sub(BATCH).max(1)..first {
            settle
                .execute(params![seq as i64, "delivered", 2_000_000_000_000_i64])
                .expect("a row");
        }
        for seq in first..first + BATCH {
            let run = "run-1@0123456789abcdef";
            hand_out
                .execute(params![
                    seq as i64,
                    first as i64,
                    run,
                    2_000_000_000_000_i64
                ])
                .expect("a row");
        }
        connection.execute_batch("COMMIT").expect("a store");
        first += BATCH;
    }
    deliveries as f64 / began.elapsed().as_secs_f64()
}

/// The store's own writes, without a server before them.
fn by_the_store(path: &Path, deliveries: u64) -> f64 {
    let mut stock = Stock::open(path);
    let began = Instant::now();
    let (mut cursor, mut commit, mut seen) = (0, Vec::new(), 0);
    loop {
        let fetched = stock.fetch(INSTANCE, cursor, commit);
        if fetched.deliveries.is_empty() {
            break;
        }
        seen += fetched.deliveries.len() as u64;
        cursor = fetched.cursor;
        commit = stock::all(&fetched, "delivered");
    }
    let took = began.elapsed();
    assert_eq!(seen, deliveries, "each is handed out once");
    deliveries as f64 / took.as_secs_f64()
}

/// What a consumer needs to know of an answer; the rest is passed over.
#[derive(Deserialize)]
struct Answer {
    cursor: i64,
    deliveries: Vec<Numbered>,
}

#[derive(Deserialize)]
struct Numbered {
    seq: i64,
}

fn fetched_and_committed(root: &Path, deliveries: u64) -> f64 {
    let gateway = Running::of(root, "octo/repo", Parts::default());
    let mut api = Api::new(gateway.address);
    let began = Instant::now();
    let mut answer = Answer {
        cursor: 0,
        deliveries: Vec::new(),
    };
    let mut seen = 0;
    loop {
        let body = request(&answer);
        let bytes = api.send("POST", "/fetch", &body);
        answer = serde_json::from_slice(&bytes).expect("an answer");
        if answer.deliveries.is_empty() {
            break;
        }
        seen += answer.deliveries.len() as u64;
    }
    let took = began.elapsed();
    assert_eq!(seen, deliveries, "each is handed out once");
    deliveries as f64 / took.as_secs_f64()
}

fn request(answer: &Answer) -> String {
    let mut commit = String::new();
    for (position, delivery) in answer.deliveries.iter().enumerate() {
        let comma = if position > 0 { "," } else { "" };
        let seq = delivery.seq;
        write!(commit, r#"{comma}{{"seq":{seq},"outcome":"delivered"}}"#).expect("memory");
    }
    let mut body: Value = json!({
        "instance": INSTANCE, "peer": "peer-1", "run": "run-1", "cursor": answer.cursor,
        "max": BATCH,
    });
    body["commit"] = Value::Null;
    body.to_string()
        .replace(r#""commit":null"#, &format!(r#""commit":[{commit}]"#))
}
