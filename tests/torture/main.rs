//! The real program under load, tormented from outside: killed, frozen, out of disk, its clock
//! moved, its connections cut. What it acknowledged must be there afterwards.
//!
//! `cargo test --test torture` runs the short forms, `-- --ignored` the long ones, which take
//! `TORTURE_KILLS` and `TORTURE_SEED`. docs/TESTING.md says more.

// Clippy lets helpers unwrap only where it sees that they are tests' own.
#![cfg(test)]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that fails here says where; the exemptions of clippy.toml stop at helpers"
)]

mod clock;
mod consumers;
mod crowd;
mod disk;
mod freeze;
mod gateway;
mod kills;
mod ledger;
#[path = "../long_form.rs"]
mod long_form;
mod mail;
#[path = "../it/cli/program.rs"]
mod program;
mod proxy;
mod senders;
#[path = "../it/support/mod.rs"]
#[allow(unused_imports, reason = "these tests use their part of it")]
mod support;
mod world;

use std::time::Duration;

use long_form::number_of;

/// What this run is seeded with; the same seed makes the same choices, though not at the same
/// moments.
fn seed() -> u64 {
    number_of("TORTURE_SEED", 20_261_130)
}

/// Lets time pass in which others do something.
fn pass(ms: u64) {
    std::thread::park_timeout(Duration::from_millis(ms));
}

/// Milliseconds of the machine's clock.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Waits for a condition for so many seconds.
#[track_caller]
fn wait_for(what: &str, seconds: i64, mut is_so: impl FnMut() -> bool) {
    let end = now_ms() + seconds * 1_000;
    while !is_so() {
        assert!(now_ms() < end, "waited {seconds} s in vain for {what}");
        pass(20);
    }
}
