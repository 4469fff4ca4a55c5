//! What ingest notices of the other work that the store does: its p99 at a fixed load while that
//! work goes on, against that of the same run without.
//!
//! Requests are sent at fixed moments, and a latency counts from the moment at which its request
//! was due: what holds everything up for a while holds up all that came meanwhile.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use the_loop_gateway::app::{Intervals, Parts};
use the_loop_gateway::domain::{Clock, SystemClock};
use the_loop_gateway::store::{CheckpointMode, checkpoint, open_checkpointer, open_reader};

use super::program::{self, Program};
use super::support::api::Api;
use super::support::gateway::Running;
use super::support::load::{self, Sent};
use super::support::stock::{self, Stock};
use super::support::{Samples, payloads};
use super::table::Table;
use super::{Bench, fill, say, store_of};

/// Events a second: about a fifth of what the gateway takes at most.
const RATE: f64 = 2_000.0;
const SUBJECTS: u64 = 100;
const BYTES: usize = 4 * 1024;
/// The work item of the events that wait to be routed.
const LATE: u64 = 5_000;
const LATE_EVENTS: u64 = 100_000;
const SETTLED: u64 = 50_000;
/// Work that is done sooner is done again, for this long.
const SPAN: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);
/// The first sweep comes at the start, the second when all is too old.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
const RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    beside_the_store(bench, table);
    beside_the_configuration(bench, table);
}

/// The work of the store, one after the other.
fn beside_the_store(bench: &Bench, table: &mut Table) {
    let root = bench.root("beside");
    let store = store_of(&root);
    std::fs::create_dir_all(&root).expect("a folder");
    stock_up(bench, &store);
    // What is settled becomes too old while the load goes on.
    let old_from = SystemClock.now().plus(4_000);
    fill::in_bulk(&store, |connection| {
        settle_all(connection, old_from.0 - RETENTION_MS);
    });
    let parts = Parts {
        intervals: Intervals {
            sweep: SWEEP_EVERY,
            ..Intervals::default()
        },
        ..Parts::default()
    };
    let gateway = Running::of(&root, "octo/repo", parts);
    let looking = open_reader(&store).expect("a store");
    let spans = under_load(gateway.address, |spans| {
        spans.measure("steady", || park(SPAN));
        wait("a sweep begins", || {
            !is_any(&looking, "deliveries WHERE seq = 1")
        });
        spans.measure("a retention sweep", || {
            wait("all is swept", || {
                !is_any(&looking, "deliveries WHERE state = 2")
            });
        });
        spans.measure("backups", || again_and_again(|| back_up(bench, &store)));
        let log = open_checkpointer(&store).expect("a store");
        spans.measure("checkpoints", || {
            again_and_again(|| {
                checkpoint(&log, CheckpointMode::Passive).expect("a checkpoint");
                park(Duration::from_millis(10));
            });
        });
        spans.measure("late routing", || {
            Api::new(gateway.address).claim("late", LATE);
            wait("all is routed", || {
                !is_any(&looking, "events WHERE state = 'held'")
            });
        });
    });
    report(&spans, table);
}

/// A configuration that changes several times a second.
fn beside_the_configuration(bench: &Bench, table: &mut Table) {
    let program = Program::start(&bench.root("beside-reload"));
    let spans = under_load(program.address, |spans| {
        spans.measure("steady", || park(SPAN));
        let mut number = 0;
        spans.measure("reloads", || {
            again_and_again(|| {
                number += 1;
                program.reload(number);
                park(Duration::from_millis(100));
            });
        });
    });
    report(&spans, table);
}

/// Events that are consumed, and events that nobody consumes yet.
fn stock_up(bench: &Bench, store: &Path) {
    let mut stock = Stock::open(store);
    for number in 1..=SUBJECTS {
        stock.claim("before", number);
    }
    let count = bench.many(SETTLED);
    stock.submit_all((1..=count).map(|id| {
        let number = id % SUBJECTS + 1;
        stock::append(id, number, &payloads::comment(id, number, BYTES))
    }));
    stock.append(LATE, count + 1, BYTES);
    drop(stock);
    let last = i64::try_from(count + 1).expect("a number");
    fill::held(store, last, bench.many(LATE_EVENTS) - 1);
}

/// Settles whatever is on a queue, at one moment.
fn settle_all(connection: &Connection, at_ms: i64) {
    let sql = "UPDATE deliveries SET state = 2, ever_handed = 1, outcome = 'delivered',
         ended_at_ms = ?1";
    connection.execute(sql, params![at_ms]).expect("deliveries");
    let sql = "DELETE FROM lanes; UPDATE instances SET backlog = 0";
    connection.execute_batch(sql).expect("lanes");
}

fn is_any(looking: &Connection, rows: &str) -> bool {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM {rows})");
    looking
        .query_row(&sql, [], |row| row.get(0))
        .expect("a store")
}

fn back_up(bench: &Bench, store: &Path) {
    // Left where it is: to free the room of a large file holds up the syncs of others.
    let copy = bench.root(&format!("copy-{}.db", SystemClock.now().0));
    let status = program::command()
        .arg("backup")
        .arg(&copy)
        .arg("--store")
        .arg(store)
        .status();
    assert!(status.expect("the program").success(), "no backup");
}

fn again_and_again(mut work: impl FnMut()) {
    let began = Instant::now();
    while began.elapsed() < SPAN {
        work();
    }
}

fn park(span: Duration) {
    let until = Instant::now() + span;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

fn wait(wanted: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {wanted}");
        park(Duration::from_millis(10));
    }
}

/// What went on in which span of the load.
#[derive(Default)]
struct Spans(Vec<(&'static str, Range<Instant>)>);

impl Spans {
    fn measure(&mut self, name: &'static str, work: impl FnOnce()) {
        let began = Instant::now();
        work();
        self.0.push((name, began..Instant::now()));
    }
}

/// Does its work while comments are sent; tells the latencies of each span.
fn under_load(address: SocketAddr, work: impl FnOnce(&mut Spans)) -> Vec<(&'static str, Samples)> {
    let mut api = Api::new(address);
    for number in 1..=SUBJECTS {
        api.claim("bench", number);
    }
    let (next_id, is_over) = (AtomicU64::new(1_000_000), AtomicBool::new(false));
    let host = address.to_string();
    let request = || {
        let id = next_id.fetch_add(1, Ordering::Relaxed);
        payloads::request(&host, id, id % SUBJECTS + 1, BYTES)
    };
    let mut spans = Spans::default();
    let is_over_now = |_: Duration| is_over.load(Ordering::Relaxed);
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| load::at_fixed_moments(address, RATE, &is_over_now, &request));
        park(WARM_UP);
        work(&mut spans);
        is_over.store(true, Ordering::Relaxed);
        sender.join().expect("the load to finish")
    });
    assert!(sent.iter().all(|one| one.is_acknowledged), "all are taken");
    let inside = |span: &Range<Instant>| {
        let due = sent.iter().filter(|one| span.contains(&one.due));
        Samples::new(due.map(|one: &Sent| one.took).collect())
    };
    spans
        .0
        .iter()
        .map(|(name, span)| {
            let samples = inside(span);
            say(&format!(
                "{name:<18} {:>4.1} s: p50 {:>5.2} ms, p99 {:>6.2} ms, longest {:>6.1} ms",
                span.end.duration_since(span.start).as_secs_f64(),
                samples.ms(0.5),
                samples.ms(0.99),
                samples.ms(1.0)
            ));
            (*name, samples)
        })
        .collect()
}

fn report(spans: &[(&'static str, Samples)], table: &mut Table) {
    let Some(((_, steady), beside)) = spans.split_first() else {
        return;
    };
    for (name, samples) in beside {
        let name = format!("ingest p99 beside {name} ÷ steady");
        table.at_most(&name, samples.ms(0.99) / steady.ms(0.99), 2.0, "×");
    }
}
