//! The restore drill: a store is lost; what the backup had is delivered, and nothing that is stale
//! hits anything.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use super::backups::{RAISED_BY, STORE, lose};
use super::program::mode_of;
use super::rows::number;
use super::scene::{Scene, comment};
use crate::support::gateway::wait_until;

/// Comments from 1 on, sent one after the other.
#[derive(Default)]
struct Ingest {
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

impl Ingest {
    fn run(&self, port: u16) {
        while !self.is_over.load(Ordering::Relaxed) {
            let id = self.count() + 1;
            comment(port, 15, id).send().assert(202);
            self.acknowledged.store(id, Ordering::Relaxed);
        }
    }

    fn count(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn wait_for(&self, count: u64) {
        wait_until("some events", || self.count() >= count);
    }
}

/// Makes a backup while comments come in; tells how many there were before and after it.
fn back_up_during_ingest(scene: &Scene, named: &str) -> (u64, Value, u64) {
    let (ingest, port) = (Ingest::default(), scene.port);
    let (before, backup) = std::thread::scope(|scope| {
        scope.spawn(|| ingest.run(port));
        ingest.wait_for(100);
        let before = ingest.count();
        let backup = scene.home.run(&["backup", named, "--format", "json"]);
        ingest.wait_for(before + 50);
        ingest.is_over.store(true, Ordering::Relaxed);
        (before, backup)
    });
    assert_eq!(backup.code, Some(0), "{}", backup.err);
    let backup = serde_json::from_str(&backup.out).unwrap();
    (before, backup, ingest.count())
}

/// What an instance got, and what it says with its next request.
struct Instance {
    cursor: Value,
    outcomes: Vec<Value>,
    got: Vec<(String, i64)>,
}

impl Instance {
    fn new() -> Self {
        Self {
            cursor: json!(0),
            outcomes: Vec::new(),
            got: Vec::new(),
        }
    }

    /// Says what became of the last deliveries and takes the next ones; false without any.
    fn fetch(&mut self, scene: &Scene) -> bool {
        let more = json!({"max": 256, "cursor": self.cursor, "commit": self.outcomes});
        let fetched = scene.fetch("laptop", &more);
        self.cursor = fetched["cursor"].clone();
        let deliveries = fetched["deliveries"].as_array().unwrap();
        let brought = deliveries.iter().map(|delivery| {
            let id = delivery["event"]["deliveryId"].as_str().unwrap();
            (id.to_owned(), delivery["seq"].as_i64().unwrap())
        });
        let brought: Vec<(String, i64)> = brought.collect();
        let delivered = |(_, seq): &(String, i64)| json!({"seq": seq, "outcome": "delivered"});
        self.outcomes = brought.iter().map(delivered).collect();
        let is_any = !brought.is_empty();
        self.got.extend(brought);
        is_any
    }

    fn highest(&self) -> i64 {
        self.got.iter().map(|(_, seq)| *seq).max().unwrap()
    }
}

/// The process goes on as if nothing had happened, and says what became of lost deliveries.
fn commit_what_is_stale(scene: &Scene, instance: &Instance, in_backup: u64) {
    let store = scene.home.path(STORE);
    let stale = instance
        .got
        .iter()
        .filter(|(_, seq)| u64::try_from(*seq).unwrap() > in_backup)
        .map(|(_, seq)| json!({"seq": seq, "outcome": "delivered"}));
    let stale: Vec<Value> = stale.collect();
    assert!(!stale.is_empty());
    let live = "SELECT count(*) FROM deliveries WHERE state <= 1";
    let before = number(&store, live);
    assert_eq!(before, i64::try_from(in_backup).unwrap());
    let commit = json!({
        "instance": "laptop", "peer": "peer", "run": "run-1", "cursor": instance.cursor,
        "commit": stale,
    });
    scene.api("POST", "/commit", &commit);
    assert_eq!(number(&store, live), before, "they hit nothing");
}

#[test]
fn a_lost_store_is_restored_from_a_backup_that_was_made_during_ingest() {
    let mut scene = Scene::start();
    scene.claim("laptop", 15);
    let destination = scene.home.path("backup.db");
    let named = destination.display().to_string();
    let (before, backup, all) = back_up_during_ingest(&scene, &named);
    assert_eq!(backup["verified"], true);
    assert_eq!(mode_of(&destination), 0o600);
    let in_backup = backup["events"].as_u64().unwrap();
    assert!(
        (before..all).contains(&in_backup),
        "{before} {in_backup} {all}"
    );
    let mut instance = Instance::new();
    while instance.got.len() < usize::try_from(all).unwrap() {
        assert!(instance.fetch(&scene));
    }
    let highest = instance.highest();

    let running = scene.home.run(&["restore", &named]);
    assert_eq!(running.code, Some(1));
    assert!(running.err.contains("is running on"), "{}", running.err);
    scene.kill();
    lose(&scene.home.path(STORE));
    let restored = scene.home.run(&["restore", &named, "--format", "json"]);
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    let restored: Value = serde_json::from_str(&restored.out).unwrap();
    assert_eq!(restored["events"], in_backup);
    assert_eq!(restored["kept"], Value::Null);
    scene.start_again();
    commit_what_is_stale(&scene, &instance, in_backup);

    // What is new gets numbers that nothing was called by before; all of the backup is delivered.
    scene.comment(15, all + 1).assert(202);
    let mut again = Instance {
        cursor: instance.cursor,
        ..Instance::new()
    };
    while again.fetch(&scene) {
        assert!(again.cursor.as_i64().unwrap() > RAISED_BY);
    }
    let newest = format!("guid-{}", all + 1);
    for (id, seq) in &again.got {
        let is_new = *seq > RAISED_BY && *seq > highest;
        assert_eq!(is_new, *id == newest, "{id} {seq}");
    }
    let delivered: BTreeSet<String> = again.got.into_iter().map(|(id, _)| id).collect();
    let expected = (1..=in_backup).chain([all + 1]);
    let expected: BTreeSet<String> = expected.map(|id| format!("guid-{id}")).collect();
    assert_eq!(delivered, expected);
    scene.stop();
    let verified = scene.home.run(&["verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.err);
}
