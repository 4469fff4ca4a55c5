//! `cargo +nightly fuzz run signatures`
#![no_main]

#[path = "../../tests/fuzz/targets.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::signatures(data));
