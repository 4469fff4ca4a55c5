//! Every promise about speed and size, measured, in one table.
//!
//! `cargo bench --bench promises` measures all of them; `-- ingest fetch` only the groups with
//! these names, and `--short` less of each, to try it. A rate is told against a ceiling of the
//! same run, because machines differ and are shared.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::string_slice,
    missing_debug_implementations,
    reason = "a benchmark that fails has nothing to print"
)]

mod beside;
mod fetch;
mod fill;
mod ingest;
mod memory;
mod poll;
mod program;
mod restart;
mod size;
mod steps;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::path::{Path, PathBuf};

use support::Samples;
use table::Table;

/// What every group measures with.
struct Bench {
    folder: tempfile::TempDir,
    /// Less of everything: for trying the benchmark, not for its figures.
    is_short: bool,
}

type Group = (&'static str, fn(&Bench, &mut Table));

const GROUPS: [Group; 9] = [
    ("ingest", ingest::measure),
    ("lone", ingest::measure_lone),
    ("poll", poll::measure),
    ("fetch", fetch::measure),
    ("steps", steps::measure),
    ("beside", beside::measure),
    ("restart", restart::measure),
    ("memory", memory::measure),
    ("size", size::measure),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |name: &str| arguments.iter().any(|argument| argument == name);
    let (flags, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|one| one.starts_with('-'));
    for flag in flags {
        // Cargo itself says `--bench`.
        assert!(flag == "--short" || flag == "--bench", "no flag {flag}");
    }
    for name in &names {
        let is_known = GROUPS.iter().any(|(known, _)| known == name);
        assert!(is_known, "no group {name}; there are: {}", known_groups());
    }
    let bench = Bench {
        folder: tempfile::tempdir().expect("a folder"),
        is_short: asked("--short"),
    };
    let mut table = Table::default();
    for (name, measure) in GROUPS {
        if names.is_empty() || asked(name) {
            println!("{name}:");
            measure(&bench, &mut table);
        }
    }
    println!("\n{table}");
}

fn known_groups() -> String {
    GROUPS.map(|(name, _)| name).join(" ")
}

impl Bench {
    /// A folder of its own for a state.
    fn root(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// So many, or a tenth of them when it is only tried.
    fn many(&self, count: u64) -> u64 {
        if self.is_short { count / 10 } else { count }
    }

    /// The disk's own speed at this moment.
    fn fdatasync(&self) -> Samples {
        let disk = support::fdatasync(self.folder.path(), 300);
        say(&format!(
            "fdatasync of 4 KiB: p50 {:.3} ms, p99 {:.3} ms",
            disk.ms(0.5),
            disk.ms(0.99)
        ));
        disk
    }
}

/// A line of progress.
fn say(text: &str) {
    println!("  {text}");
}

/// The store of a state root.
fn store_of(root: &Path) -> PathBuf {
    root.join("gateway.db")
}

/// The middle one.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
