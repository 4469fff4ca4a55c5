//! How long a restart takes with a long queue.

use super::program::Program;
use super::table::Table;
use super::{Bench, fill, median, say};

const STARTS: usize = 5;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    let root = bench.root("queued");
    fill::million(bench, &root);
    let starts: Vec<f64> = (0..STARTS)
        .map(|_| Program::start(&root).ready_after.as_secs_f64() * 1_000.0)
        .collect();
    say(&format!("ready after {starts:.0?} ms"));
    table.at_most(
        &format!(
            "ready after a restart, {} queued",
            bench.many(fill::MILLION)
        ),
        median(starts),
        200.0,
        "ms",
    );
}
