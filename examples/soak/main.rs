//! Half of what the gateway can do, for a long time, with retention running: does anything grow?
//!
//! `cargo run --release --example soak -- 30` runs for 30 minutes (the usual). It measures how
//! many signed 4 KiB comments a second the gateway takes with its consumers at work, then sends
//! half of that at fixed moments, and compares the last third with the second: memory, file and
//! write-ahead log by their means (at most 2 % more), and the latency that 99 of 100 stay below,
//! counted from the moment at which a request was due (at most 1.2 times).

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "a measurement that fails has nothing to print"
)]

mod gateway;
#[path = "../../benches/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gateway::{Gateway, Sizes};
use serde_json::{Value, json};
use support::api::Api;
use support::{Samples, load, payloads};

const BYTES: usize = 4 * 1024;
const SUBJECTS: u64 = 64;
const INSTANCES: u64 = 4;
/// Connections of the full load.
const CONNECTIONS: usize = 16;
/// Requests by which the full load is measured.
const FULL_LOAD: u64 = 12_000;

/// The first tenth of it fills the store; what grows until retention has work is no leak.
const WARM_UP_SHARE: u32 = 10;

/// What is measured once a second comes later than this only when nothing of ours ran.
const STANDSTILL: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    // The gateway is this program, started by itself: its memory is its own.
    if arguments.iter().any(|argument| argument == "run") {
        return the_loop_gateway::cli::main();
    }
    let minutes: f64 = arguments
        .get(1)
        .map_or(30.0, |text| text.parse().expect("minutes"));
    soak(Duration::from_secs_f64(minutes * 60.0))
}

/// What goes on beside the measuring.
struct Soak {
    address: SocketAddr,
    next_id: AtomicU64,
    consumed: AtomicU64,
    /// Requests that were not acknowledged.
    refused: AtomicU64,
    is_over: AtomicBool,
    /// When a request was due since the start, and how long its answer took from then.
    latencies: Mutex<Vec<(Duration, Duration)>>,
}

fn soak(span: Duration) -> ExitCode {
    let gateway = Gateway::start();
    let soak = Soak {
        address: gateway.address,
        next_id: AtomicU64::new(1),
        consumed: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        latencies: Mutex::default(),
    };
    let mut api = Api::new(soak.address);
    for number in 1..=SUBJECTS {
        api.claim(&instance_of(number), number);
    }
    std::thread::scope(|scope| {
        let _over = Over(&soak.is_over);
        for instance in 0..INSTANCES {
            let soak = &soak;
            scope.spawn(move || soak.consume(&format!("instance-{instance}")));
        }
        let full = soak.full_load();
        let rate = full / 2.0;
        println!(
            "full load {full:.0} events/s; half of it for {:.1} min",
            span.as_secs_f64() / 60.0
        );
        soak.send_all(rate, span / WARM_UP_SHARE);
        soak.latencies.lock().expect("samples").clear();
        let sizes = std::thread::scope(|inner| {
            let soak = &soak;
            let sampler = inner.spawn(|| gateway.sample(span));
            soak.send_all(rate, span);
            sampler.join().expect("sizes")
        });
        soak.report(span, &sizes)
    })
}

/// Ends the consumers, also when something failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn instance_of(number: u64) -> String {
    format!("instance-{}", number % INSTANCES)
}

impl Soak {
    fn consume(&self, instance: &str) {
        let mut api = Api::new(self.address);
        let (mut cursor, mut commit) = (0, json!([]));
        while !self.is_over.load(Ordering::Relaxed) {
            let answer = api.fetch(instance, cursor, &json!({"wait": 1, "commit": commit}));
            cursor = answer["cursor"].as_i64().expect("a cursor");
            let deliveries = answer["deliveries"].as_array().expect("deliveries");
            self.consumed
                .fetch_add(deliveries.len() as u64, Ordering::Relaxed);
            let outcome =
                |delivery: &Value| json!({"seq": delivery["seq"], "outcome": "delivered"});
            commit = deliveries.iter().map(outcome).collect();
        }
    }

    fn request(&self) -> Vec<u8> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        payloads::request(&self.address.to_string(), id, id % SUBJECTS + 1, BYTES)
    }

    /// Events a second when every connection always has a request under way.
    fn full_load(&self) -> f64 {
        let requests = (0..FULL_LOAD).map(|_| self.request()).collect();
        load::run(self.address, requests, CONNECTIONS).rate
    }

    /// Sends at fixed moments, whatever the answers take.
    fn send_all(&self, rate: f64, span: Duration) {
        let began = Instant::now();
        let request = || self.request();
        let sent = load::at_fixed_moments(self.address, rate, &|due| due >= span, &request);
        let refused = sent.iter().filter(|one| !one.is_acknowledged).count();
        self.refused.fetch_add(refused as u64, Ordering::Relaxed);
        let latency = |one: &load::Sent| (one.due.saturating_duration_since(began), one.took);
        let mut latencies = self.latencies.lock().expect("samples");
        latencies.extend(sent.iter().map(latency));
    }

    /// Prints the thirds; fails when the last one is worse than it may be.
    fn report(&self, span: Duration, sizes: &[Sizes]) -> ExitCode {
        let latencies = self.latencies.lock().expect("samples");
        let third = span / 3;
        let p99: Vec<f64> = (0..3)
            .map(|number| {
                let range = third * number..third * (number + 1);
                let inside = latencies.iter().filter(|(due, _)| range.contains(due));
                Samples::new(inside.map(|(_, took)| *took).collect()).ms(0.99)
            })
            .collect();
        let part = sizes.len() / 3;
        let mean = |of: fn(&Sizes) -> f64| -> Vec<f64> {
            let sum = |third: &[Sizes]| third.iter().map(of).sum::<f64>() / third.len() as f64;
            sizes.chunks_exact(part.max(1)).take(3).map(sum).collect()
        };
        let refused = self.refused.load(Ordering::Relaxed);
        println!(
            "{} sent, {} consumed, {refused} not acknowledged",
            latencies.len(),
            self.consumed.load(Ordering::Relaxed)
        );
        let gaps = sizes
            .windows(2)
            .map(|pair| pair[1].at.saturating_sub(pair[0].at));
        let gap = gaps.max().unwrap_or_default();
        if gap > STANDSTILL {
            println!(
                "this machine stood still for {:.1} s: measure again",
                gap.as_secs_f64()
            );
        }
        println!("\n               first     second       last   last : second   bound");
        let rows = [
            ("RSS, MB", mean(|sizes| sizes.rss_mb), 1.02),
            ("file, MB", mean(|sizes| sizes.file_mb), 1.02),
            ("WAL, MB", mean(|sizes| sizes.wal_mb), 1.02),
            ("p99, ms", p99, 1.2),
        ];
        let mut is_good = refused == 0;
        for (name, thirds, bound) in rows {
            let ratio = thirds[2] / thirds[1];
            is_good &= ratio <= bound;
            println!(
                "{name:<10} {:>9.2}  {:>9.2}  {:>9.2}   {ratio:>13.3}   {bound:>5.2}{}",
                thirds[0],
                thirds[1],
                thirds[2],
                if ratio <= bound { "" } else { "  EXCEEDED" },
            );
        }
        if is_good {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
