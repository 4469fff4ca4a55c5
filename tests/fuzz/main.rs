//! Bytes that nobody would send, and payloads with one field that is not as it should be.
//!
//! `cargo test --test fuzz` runs a fixed number of inputs made with a fixed seed; `-- --ignored`
//! goes on for `FUZZ_SECONDS` with `FUZZ_SEED`. docs/TESTING.md says more.

// Clippy lets helpers unwrap only where it sees that they are tests' own.
#![cfg(test)]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test that fails here says where; the exemptions of clippy.toml stop at helpers"
)]

mod corpus;
mod fields;
#[path = "../long_form.rs"]
mod long_form;
mod mutate;
mod naming;
mod runner;
#[path = "../it/support/mod.rs"]
#[allow(unused_imports, reason = "these tests use their part of it")]
mod support;
mod targets;

use long_form::number_of;

/// What this run is seeded with.
fn seed() -> u64 {
    number_of("FUZZ_SEED", 20_261_130)
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
