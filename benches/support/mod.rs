//! What the benchmarks share: a load of ready-made requests, percentiles, the disk's own speed.

#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    reason = "each benchmark uses its part"
)]

pub(crate) mod api;
pub(crate) mod gateway;
pub(crate) mod load;
pub(crate) mod payloads;
pub(crate) mod stock;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Sorted samples of a latency.
#[derive(Debug, Clone)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Sorts the samples.
    pub(crate) fn new(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        Self(samples)
    }

    /// The sample at a share of the whole, 0 to 1.
    pub(crate) fn at(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let index = (share * last as f64).round() as usize;
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Milliseconds at a share of the whole.
    pub(crate) fn ms(&self, share: f64) -> f64 {
        self.at(share).as_secs_f64() * 1_000.0
    }
}

/// How long the disk takes to make 4 KiB durable.
pub(crate) fn fdatasync(folder: &Path, rounds: usize) -> Samples {
    let mut file = File::create(folder.join("fdatasync")).expect("a file to sync");
    let block = [0x5a_u8; 4096];
    let samples = (0..rounds)
        .map(|_| {
            file.write_all(&block).expect("room on the disk");
            let began = Instant::now();
            file.sync_data().expect("a disk that syncs");
            began.elapsed()
        })
        .collect();
    Samples::new(samples)
}

/// Resident memory of a process in MB.
pub(crate) fn resident_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().split(' ').next())
        .and_then(|kib| kib.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// Processor time of this process so far, in seconds; its resolution is a hundredth.
pub(crate) fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, which may hold spaces, ends with the last parenthesis; then utime is the 12th.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum();
    ticks / 100.0
}
