//! The machine's clock jumps, by libfaketime; what is measured monotonically goes on as it was.

use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::consumers::Temper;
use crate::gateway::Gateway;
use crate::program::Home;
use crate::world::World;
use crate::{number_of, pass, seed};

/// Nothing here waits longer than its own maximum: leases of 3 s, back-offs of 4 s, and some time
/// for a machine that is busy.
const THROUGH_SECONDS: i64 = 30;

/// Where Debian puts it.
fn libfaketime() -> Option<PathBuf> {
    let library = std::fs::read_dir("/usr/lib")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketime.so.1")))
        .chain(["/usr/lib/faketime/libfaketime.so.1".into()])
        .find(|path| path.is_file());
    if library.is_none() {
        eprintln!("SKIPPED: no libfaketime below /usr/lib; Debian's package is faketime");
    }
    library
}

/// Moves the clock of the program, in seconds from the machine's.
fn set(file: &Path, offset_s: i64) {
    let next = file.with_extension("next");
    std::fs::write(&next, format!("{offset_s:+}")).unwrap();
    std::fs::rename(&next, file).unwrap();
}

fn jump_again_and_again(jumps: usize) {
    let Some(library) = libfaketime() else {
        return;
    };
    let home = Home::new();
    let file = home.write("offset", "+0");
    let variables = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let gateway = Gateway::new(home, World::limits()).in_environment(&variables);
    let mut world = World::over(gateway);
    world.with_slack = false;
    let mut rng = Rng::with_seed(seed());
    // Within a retention of seven days, all in all: what is claimed must not expire.
    let offsets = [0, 2, -2, 45, -45, 3_700, -3_700, 86_500, -86_500, 250_000];
    let mut order: Vec<i64> = std::iter::repeat_n(offsets, jumps.div_ceil(offsets.len()))
        .flatten()
        .collect();
    rng.shuffle(&mut order);
    let tally = world.torment(2, Temper::Tame, || {
        for offset_s in order.into_iter().take(jumps) {
            set(&file, offset_s);
            world.send_through(THROUGH_SECONDS);
            pass(300);
        }
        set(&file, 0);
        world.send_through(THROUGH_SECONDS);
    });
    assert!(tally.acked > jumps);
    assert_eq!((tally.dead, world.ledger.faults()), (0, 0));
    let struck = "SELECT count(*) FROM deliveries WHERE strikes > 0";
    assert_eq!(world.gateway.number(struck), 0);
    let log = world
        .gateway
        .home
        .path(".the-loop/gateway/logs/events.jsonl");
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("subject.expired").count(), tally.expired);
}

#[test]
fn a_clock_that_jumps_delays_nothing_for_long_and_costs_nobody_an_attempt() {
    jump_again_and_again(10);
}

#[test]
#[ignore = "the long form; TORTURE_JUMPS says how many"]
fn a_clock_that_jumps_all_the_time_delays_nothing_for_long() {
    jump_again_and_again(usize::try_from(number_of("TORTURE_JUMPS", 200)).unwrap());
}
