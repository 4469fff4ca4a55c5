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

use std::time::Instant;

use support::payloads;
use support::stock::{self, BATCH, Stock};

/// Events of each size, unless the environment says otherwise (fewer for a profiler).
const EVENTS: u64 = 20_000;
/// Work items in turn, all of them driven by one instance.
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
    let mut stock = Stock::open(path);
    for number in 1..=SUBJECTS {
        stock.claim("bench", number);
    }
    let appends: Vec<_> = (0..events)
        .map(|id| {
            let number = id % SUBJECTS + 1;
            stock::append(id, number, &payloads::comment(id, number, bytes))
        })
        .collect();
    let began = Instant::now();
    stock.submit_all(appends);
    events as f64 / began.elapsed().as_secs_f64()
}
