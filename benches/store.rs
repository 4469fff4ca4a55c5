//! The store alone: how fast one writer takes batches of signed comments, beside the raw disk.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "a benchmark that fails has nothing to print"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use the_loop_gateway::domain::*;
use the_loop_gateway::store::{Append, PutClaim, Settings, Writer, open_writer, pending};

/// Events of each size, unless the environment says otherwise (fewer for a profiler).
const EVENTS: u64 = 20_000;
/// About what a batch holds when 64 connections send as fast as they can.
const BATCH: usize = 32;
const SUBJECTS: u64 = 100;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = support::fdatasync(folder.path(), 200);
    println!(
        "fdatasync 4 KiB: p50 {:.2} ms, p99 {:.2} ms",
        disk.ms(0.5),
        disk.ms(0.99)
    );
    let events = std::env::var("BENCH_EVENTS").ok();
    let events = events.map_or(EVENTS, |events| events.parse().expect("a number"));
    for bytes in [4 * 1024, 13 * 1024] {
        let rate = append(&folder.path().join(format!("{bytes}.db")), bytes, events);
        println!("append {bytes} B in batches of {BATCH}: {rate:.0} events/s");
    }
}

fn append(path: &std::path::Path, bytes: usize, events: u64) -> f64 {
    let connection = open_writer(path).expect("a store");
    let mut writer = Writer::new(connection, Settings::default(), Arc::new(SystemClock));
    for number in 1..=SUBJECTS {
        let claimed = writer.commit_one(claim(number)).0;
        claimed.expect("a claim");
    }
    let arrivals: Vec<Arrival> = (0..events).map(|id| arrival(id, bytes)).collect();
    let began = Instant::now();
    let mut arrivals = arrivals.into_iter();
    loop {
        let batch: Vec<_> = arrivals
            .by_ref()
            .take(BATCH)
            .map(|arrival| {
                let write = Append {
                    arrival: Box::new(arrival),
                    caller: CallerToken::always(),
                };
                pending(write, |result| assert!(result.is_ok()))
            })
            .collect();
        if batch.is_empty() {
            return events as f64 / began.elapsed().as_secs_f64();
        }
        let report = writer.commit_batch(batch);
        assert!(report.failure.is_none(), "{:?}", report.failure);
    }
}

fn work_item(number: u64) -> WorkItemRef {
    WorkItemRef::github(None, "octo", "repo", number).expect("a reference")
}

/// One instance drives every subject.
fn claim(number: u64) -> PutClaim {
    PutClaim {
        identity: Identity {
            instance: InstanceName::parse("bench").expect("a name"),
            peer: None,
            run: None,
        },
        subject: work_item(number).subject(),
        role: Role::Driver,
    }
}

fn arrival(id: u64, bytes: usize) -> Arrival {
    let number = id % SUBJECTS + 1;
    let work_item = work_item(number);
    Arrival {
        provider: Provider::GitHub,
        source: Source::Webhook,
        delivery_id: format!("bench-{id}"),
        kind: "issue_comment".to_owned(),
        received_at: Timestamp(0),
        happened_at: None,
        headers: BTreeMap::from([("x-github-event".into(), "issue_comment".into())]),
        payload: Payload::compress(&support::payloads::comment(id, number, bytes)).expect("memory"),
        actor: Some(EventActor {
            provider: Provider::GitHub,
            name: "octocat".into(),
        }),
        keys: vec![Reference::Direct(work_item)],
        also: Vec::new(),
        learns: Vec::new(),
        dedup_keys: vec![
            DedupKey::delivery(format!("github:github.com:delivery:bench-{id}")),
            DedupKey::object(format!("gh:github.com:issue_comment:{id}:created")),
        ],
        on_unresolved: OnUnresolved::Drop(DropReason::NoWorkItem),
        is_retry: false,
    }
}
