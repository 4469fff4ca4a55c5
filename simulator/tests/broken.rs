//! The simulator notices a gateway that breaks a promise. One test: what is broken is chosen for
//! the whole process.

use simulator::{Plan, play};
use the_loop_gateway::broken::{self, Break};

const SEEDS: u64 = 200;
const STEPS: u32 = 1_000;

/// The first seed that finds something, with what it finds.
fn first_seed(broken: Option<Break>) -> Option<(u64, String)> {
    broken::choose(broken);
    let found = (0..SEEDS).find_map(|seed| {
        let (_, broken) = play(Plan { seed, steps: STEPS }).broken?;
        Some((seed, broken.0))
    });
    broken::choose(None);
    found
}

#[test]
fn each_broken_promise_is_caught_within_200_seeds() {
    for (broken, words) in [
        (Break::SynchronousNormal, "lost"),
        (Break::AckBeforeCommit, "lost"),
        (Break::LostIsAStrike, "a strike for nothing that it did"),
        (Break::OrderIgnoredOnRedelivery, "of its subject"),
    ] {
        let found = first_seed(Some(broken));
        let (seed, how) = found.unwrap_or_else(|| panic!("{} is not noticed", broken.name()));
        println!("{}: seed {seed}: {how}", broken.name());
        assert!(how.contains(words), "{}: {how}", broken.name());
    }
}
