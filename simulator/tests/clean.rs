//! Promises of the simulator itself, and a handful of histories.

use simulator::{Plan, play};

#[test]
fn the_same_seed_gives_the_same_history_byte_for_byte() {
    let plan = Plan {
        seed: 11,
        steps: 600,
    };
    let (first, second) = (play(plan), play(plan));
    assert!(first.history.text().lines().count() > 600);
    assert_eq!(first.history.text(), second.history.text());
    assert_eq!(first.counts, second.counts);
}

#[test]
fn another_seed_gives_another_history() {
    let history = |seed| play(Plan { seed, steps: 100 }).history.text().to_owned();
    assert_ne!(history(1), history(2));
}

#[test]
fn a_handful_of_histories_breaks_no_promise_and_is_full_of_trouble() {
    for seed in 100..104 {
        let report = play(Plan { seed, steps: 400 });
        assert_eq!(report.broken, None, "{}", report.history.tail(40));
        let counts = report.counts;
        assert!(counts.cuts > 3 && counts.faults > 0, "{counts:?}");
        assert!(counts.events > 50 && counts.deliveries > 50, "{counts:?}");
    }
}
