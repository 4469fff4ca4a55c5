//! Signed comments through the whole gateway: over many connections against the same handler
//! without a store, and over one against the disk's own fdatasync.

use std::net::SocketAddr;

use super::support::api::Api;
use super::support::gateway::{Running, without_store};
use super::support::{load, payloads};
use super::table::Table;
use super::{Bench, say};

const CONNECTIONS: usize = 64;
const EVENTS: u64 = 20_000;
const SUBJECTS: u64 = 100;

/// The three loads of a round, in turn, so that a machine that slows down slows all.
struct Round {
    without: load::Outcome,
    dropped: load::Outcome,
    stored: load::Outcome,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.stored.rate / self.without.rate
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    bench.fdatasync();
    let ceiling = without_store();
    let gateway = started(bench, "ingest");
    let mut next_id = 1;
    for kib in [4, 13] {
        let before = gateway.batches();
        let mut rounds: Vec<Round> = (0..3)
            .map(|_| round(bench, &gateway, ceiling, kib * 1024, &mut next_id))
            .collect();
        let after = gateway.batches();
        rounds.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
        let middle = &rounds[1];
        tell(middle, kib, (after.1 - before.1) / (after.0 - before.0));
        report(middle, kib, table);
    }
}

fn started(bench: &Bench, name: &str) -> Running {
    let gateway = Running::start(&bench.root(name));
    let mut api = Api::new(gateway.address);
    for number in 1..=SUBJECTS {
        api.claim("bench", number);
    }
    gateway
}

fn round(
    bench: &Bench,
    gateway: &Running,
    ceiling: SocketAddr,
    bytes: usize,
    next_id: &mut u64,
) -> Round {
    let host = gateway.address.to_string();
    let count = bench.many(EVENTS) / 3;
    let mut requests = |request: fn(&str, u64, u64, usize) -> Vec<u8>| -> Vec<Vec<u8>> {
        let first = *next_id;
        *next_id += count;
        (first..first + count)
            .map(|id| request(&host, id, id % SUBJECTS + 1, bytes))
            .collect()
    };
    let batch = requests(payloads::request);
    let unstored = requests(payloads::unstored_request);
    Round {
        without: load::run(ceiling, batch.clone(), CONNECTIONS),
        dropped: load::run(gateway.address, unstored, CONNECTIONS),
        stored: load::run(gateway.address, batch, CONNECTIONS),
    }
}

fn tell(round: &Round, kib: usize, writes_a_batch: f64) {
    let line = |what: &str, load: &load::Outcome| {
        say(&format!(
            "{kib:>2} KiB, {what:<31} {:>7.0}/s, {:>4.0} us of processor each, p99 {:>6.2} ms",
            load.rate,
            load.cpu_us,
            load.latency.ms(0.99),
        ));
    };
    line("the handler without a store:", &round.without);
    line("our server, read and dropped:", &round.dropped);
    line("stored:", &round.stored);
    say(&format!("       {writes_a_batch:.1} writes a batch"));
}

fn report(round: &Round, kib: usize, table: &mut Table) {
    let (ratio, p99) = (round.ratio(), round.stored.latency.ms(0.99));
    let name = format!("ingest of {kib} KiB, 64 connections");
    let of_dropped = round.stored.rate / round.dropped.rate;
    let no_store = format!("{name} ÷ without a store");
    if kib == 4 {
        table.at_least(&no_store, ratio, 0.6, "");
        table.at_most(&format!("{name}, p99"), p99, 15.0, "ms");
    } else {
        table.note(&no_store, format!("{ratio:.2}"));
        table.note(&format!("{name}, p99"), format!("{p99:.1} ms"));
    }
    let name = format!("{name} ÷ our server, read and dropped");
    table.note(&name, format!("{of_dropped:.2}"));
}

pub(crate) fn measure_lone(bench: &Bench, table: &mut Table) {
    let gateway = started(bench, "lone");
    let host = gateway.address.to_string();
    let batch = (1..=bench.many(1_000))
        .map(|id| payloads::request(&host, id, id % SUBJECTS + 1, 4 * 1024))
        .collect();
    let lone = load::run(gateway.address, batch, 1).latency;
    let bound = 1.5 * bench.fdatasync().ms(0.5) + 0.3;
    table.at_most("one connection, ack p50", lone.ms(0.5), bound, "ms");
}
