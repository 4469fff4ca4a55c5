//! Signed comments through the whole gateway, as ratios against ceilings of the same run: the
//! same handler without a store, and the disk's own fdatasync.

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

use std::time::{Duration, Instant};

use serde_json::json;
use support::api::Api;
use support::gateway::{Running, without_store};
use support::{Samples, load, payloads};

const CONNECTIONS: usize = 64;
const EVENTS: u64 = 20_000;
const SUBJECTS: u64 = 100;
const POLLS: u64 = 300;

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = support::fdatasync(folder.path(), 300);
    println!(
        "fdatasync of 4 KiB: p50 {:.3} ms, p99 {:.3} ms",
        disk.ms(0.5),
        disk.ms(0.99)
    );
    let ceiling = without_store();
    let gateway = Running::start(&folder.path().join("state"));
    let mut api = Api::new(gateway.address);
    for number in 1..=SUBJECTS {
        api.claim("bench", number);
    }
    let mut next_id = 1;
    println!(
        "\n            without store          stored                     \
         \nsize       rate/s   cpu us   rate/s   cpu us   ratio   p50 ms   p99 ms   writes/batch"
    );
    for bytes in [4 * 1024, 13 * 1024] {
        ingest(&gateway, ceiling, bytes, &mut next_id);
    }
    lone_connection(&gateway, &disk, &mut next_id);
    held_poll(&gateway, &disk, &mut next_id);
    println!("\nidle: {:.1} MB resident; bound 25 MB", idle_mb());
}

/// The memory of a gateway that has just started and has nothing to do.
fn idle_mb() -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gateway-config.yaml");
    let text = format!(
        "version: \"1\"\nstate: {{root: {}}}\nlisten: {{port: {}}}\n",
        folder.path().join("state").display(),
        free_port(),
    );
    std::fs::write(&config, text).expect("a config");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_the-loop-gateway"))
        .arg("--config")
        .arg(&config)
        .arg("run")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program");
    let log = folder.path().join("state/logs/events.jsonl");
    let began = Instant::now();
    while std::fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it does not start"
        );
        std::thread::park_timeout(Duration::from_millis(10));
    }
    // Housekeeping has its first rounds.
    std::thread::park_timeout(Duration::from_secs(3));
    let resident = support::resident_mb(child.id());
    child.kill().expect("to stop it");
    child.wait().expect("its end");
    resident
}

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    socket.local_addr().expect("an address").port()
}

type Request = fn(&str, u64, u64, usize) -> Vec<u8>;

fn requests(
    request: Request,
    host: &str,
    count: u64,
    bytes: usize,
    next_id: &mut u64,
) -> Vec<Vec<u8>> {
    let first = *next_id;
    *next_id += count;
    (first..first + count)
        .map(|id| request(host, id, id % SUBJECTS + 1, bytes))
        .collect()
}

fn ingest(gateway: &Running, ceiling: std::net::SocketAddr, bytes: usize, next_id: &mut u64) {
    let host = gateway.address.to_string();
    // In turn, so that a machine that slows down slows both.
    let before = gateway.batches();
    let mut pairs = Vec::new();
    for _ in 0..3 {
        let batch = requests(payloads::request, &host, EVENTS / 3, bytes, next_id);
        let without = load::run(ceiling, batch.clone(), CONNECTIONS);
        let unstored = requests(
            payloads::unstored_request,
            &host,
            EVENTS / 3,
            bytes,
            next_id,
        );
        let dropped = load::run(gateway.address, unstored, CONNECTIONS);
        let stored = load::run(gateway.address, batch, CONNECTIONS);
        pairs.push((without, stored, dropped));
    }
    pairs.sort_by(|one, other| (one.1.rate / one.0.rate).total_cmp(&(other.1.rate / other.0.rate)));
    let (without, stored, dropped) = &pairs[1];
    let after = gateway.batches();
    println!(
        "{:>4} KiB  {:>8.0}  {:>7.0}  {:>7.0}  {:>7.0}  {:>6.2}  {:>7.2}  {:>7.2}  {:>8.1}",
        bytes / 1024,
        without.rate,
        without.cpu_us,
        stored.rate,
        stored.cpu_us,
        stored.rate / without.rate,
        stored.latency.ms(0.5),
        stored.latency.ms(0.99),
        (after.1 - before.1) / (after.0 - before.0),
    );
    println!(
        "        the same server, a kind that it reads and does not store: {:.0}/s, {:.0} us; ratio {:.2}",
        dropped.rate,
        dropped.cpu_us,
        stored.rate / dropped.rate,
    );
}

fn lone_connection(gateway: &Running, disk: &Samples, next_id: &mut u64) {
    let batch = requests(
        payloads::request,
        &gateway.address.to_string(),
        1_000,
        4 * 1024,
        next_id,
    );
    let lone = load::run(gateway.address, batch, 1).latency;
    println!(
        "\none connection: ack p50 {:.3} ms; bound 1.5 × fdatasync + 0.3 ms = {:.3} ms",
        lone.ms(0.5),
        1.5 * disk.ms(0.5) + 0.3,
    );
}

/// From the first byte of a delivery to the answer of the poll that waited for it.
fn held_poll(gateway: &Running, disk: &Samples, next_id: &mut u64) {
    let mut api = Api::new(gateway.address);
    api.claim("held", 1_000);
    let host = gateway.address.to_string();
    let (began_sender, began) = std::sync::mpsc::channel::<Instant>();
    let (ready, is_ready) = std::sync::mpsc::channel::<()>();
    let address = gateway.address;
    let poller = std::thread::spawn(move || {
        let mut api = Api::new(address);
        let (mut cursor, mut commit) = (0, json!([]));
        let mut samples = Vec::new();
        for _ in 0..POLLS {
            ready.send(()).expect("a sender");
            let answer = api.fetch("held", cursor, &json!({"wait": 20, "commit": commit}));
            let ended = Instant::now();
            samples.push(ended - began.recv().expect("a start"));
            cursor = answer["cursor"].as_i64().expect("a cursor");
            commit = json!([{"seq": answer["deliveries"][0]["seq"], "outcome": "delivered"}]);
        }
        samples
    });
    let requests: Vec<_> = (0..POLLS)
        .map(|_| {
            *next_id += 1;
            payloads::request(&host, *next_id, 1_000, 4 * 1024)
        })
        .collect();
    let mut sender = load::Lone::new(address);
    for request in requests {
        is_ready.recv().expect("a poller");
        // The poll commits the last delivery and is parked: give it the time of a few syncs.
        std::thread::park_timeout(Duration::from_millis(15));
        began_sender.send(Instant::now()).expect("a poller");
        sender.send(&request);
    }
    let samples = Samples::new(poller.join().expect("a poller"));
    let bound = 2.0 * disk.ms(0.5) + 1.0;
    println!(
        "append → answered poll: p50 {:.3} ms, p99 {:.3} ms; bound p50 {bound:.3} ms, p99 {:.3} ms",
        samples.ms(0.5),
        samples.ms(0.99),
        4.0 * bound,
    );
}
