//! Throws mutated inputs at the targets. An input that breaks one is kept as a file, and its bytes
//! go to `fuzz/regressions/<target>` with the fix: they are thrown first from then on.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::corpus::{regressions, seeds};
use crate::mutate::mutated;
use crate::targets::{TARGETS, Target};
use crate::{now_ms, number_of, seed};

/// Inputs that a target gets in the short form.
const INPUTS: u64 = 4_000;
/// Longer ones only take time: what is read of a payload is near nothing.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// When to stop.
enum Until {
    Inputs(u64),
    Ms(i64),
}

fn named(name: &str) -> Target {
    *TARGETS.iter().find(|(known, _)| *known == name).unwrap()
}

fn throw((name, target): Target, input: &[u8]) {
    if catch_unwind(|| target(input)).is_err() {
        let kept = keep(name, input);
        panic!("{name} breaks at {}; seed {}", kept.display(), seed());
    }
}

/// Writes an input where it is found again.
fn keep(name: &str, input: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-failures");
    std::fs::create_dir_all(&folder).unwrap();
    let digest = the_loop_gateway::digest::sha256_hex(input);
    let path = folder.join(format!("{name}-{}", &digest[..12]));
    std::fs::write(&path, input).unwrap();
    path
}

fn fuzz(name: &str, until: &Until) {
    let target = named(name);
    for input in regressions(name) {
        throw(target, &input);
    }
    let seeds = seeds(name);
    for input in &seeds {
        throw(target, input);
    }
    let mut rng = Rng::with_seed(seed());
    let end = now_ms();
    let mut inputs = 0;
    let is_over = |inputs: u64| match until {
        Until::Inputs(count) => inputs >= *count,
        Until::Ms(ms) => now_ms() > end + ms,
    };
    while !is_over(inputs) {
        let mut input = mutated(&seeds, &mut rng);
        input.truncate(INPUT_BYTES_MAX);
        throw(target, &input);
        inputs += 1;
    }
    eprintln!("{name}: {} seeds, {inputs} inputs", seeds.len());
}

fn short(name: &str) {
    fuzz(name, &Until::Inputs(INPUTS));
}

#[test]
fn no_bytes_break_the_reading_of_github() {
    short("github");
}

#[test]
fn no_bytes_break_the_reading_of_jira() {
    short("jira");
}

#[test]
fn no_bytes_break_the_reading_of_slack() {
    short("slack");
}

#[test]
fn no_bytes_break_the_reading_of_socket_frames() {
    short("slack_frame");
}

#[test]
fn no_bytes_pass_for_signed_that_are_not() {
    short("signatures");
}

#[test]
fn no_bytes_break_the_loading_of_a_configuration_or_are_quoted() {
    short("config");
}

#[test]
fn no_bytes_break_the_reading_of_fetches_and_commits() {
    short("consume_bodies");
}

#[test]
#[ignore = "the long form; FUZZ_SECONDS says how long each target gets"]
fn no_bytes_break_any_target_for_long() {
    let ms = i64::try_from(number_of("FUZZ_SECONDS", 600)).unwrap() * 1_000;
    std::thread::scope(|scope| {
        for (name, _) in TARGETS {
            scope.spawn(move || fuzz(name, &Until::Ms(ms)));
        }
    });
}

#[test]
fn an_input_that_breaks_a_target_is_kept_and_told() {
    let broken: Target = ("broken", |input| assert!(input.len() < 3));
    throw(broken, b"ab");
    let told = catch_unwind(|| throw(broken, b"abc")).unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    let path = told.split(' ').nth(3).unwrap().trim_end_matches(';');
    assert_eq!(std::fs::read(path).unwrap(), b"abc");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let seeds = seeds("github");
    let made = || {
        let mut rng = Rng::with_seed(7);
        (0..50)
            .map(|_| mutated(&seeds, &mut rng))
            .collect::<Vec<_>>()
    };
    assert_eq!(made(), made());
}
