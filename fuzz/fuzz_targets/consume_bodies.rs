//! `cargo +nightly fuzz run consume_bodies`
#![no_main]

#[path = "../../tests/fuzz/targets.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::consume_bodies(data));
