//! SIGKILL at moments of chance, again and again, while everybody goes on.

use fastrand::Rng;

use crate::consumers::Temper;
use crate::ledger::Tally;
use crate::world::World;
use crate::{now_ms, number_of, pass, seed};

const SENDERS: u64 = 4;

/// How the program is killed.
struct Plan {
    kills: u64,
    /// The longest that it lives after it listens, in ms.
    life_max_ms: u64,
    /// Kills between two checks of what a crash left.
    check_every: u64,
}

/// Starts the program, lets it live for a while, kills it; one in five does not live to listen.
fn kill_again_and_again(world: &World, plan: &Plan) {
    let mut rng = Rng::with_seed(seed());
    let began = now_ms();
    for kill in 1..=plan.kills {
        pass(rng.u64(5..=plan.life_max_ms));
        world.gateway.kill();
        if kill % plan.check_every == 0 {
            world.gateway.assert_sound_after_a_crash();
        }
        world.gateway.spawn();
        if rng.u32(0..5) > 0 {
            world.gateway.wait_for_listener();
        }
        if kill == plan.kills / 2 {
            world.claim_the_late_item();
        }
        if kill % 500 == 0 {
            let (minutes, acked) = ((now_ms() - began) / 60_000, world.ledger.acked());
            eprintln!("{kill} kills, {acked} acknowledged, {minutes} min");
        }
    }
}

fn run(plan: &Plan) -> Tally {
    eprintln!("seed {}, {} kills", seed(), plan.kills);
    let world = World::new();
    let tally = world.torment(SENDERS, Temper::Wild, || kill_again_and_again(&world, plan));
    assert_eq!(world.ledger.faults(), 0, "answers that a COMMIT failed");
    assert!(tally.acked as u64 > plan.kills, "a load that is one");
    assert!(tally.unanswered > plan.kills, "kills that hit something");
    assert!(tally.dead > 0, "poison that was let through");
    tally
}

#[test]
fn nothing_acknowledged_is_lost_over_50_kills() {
    run(&Plan {
        kills: 50,
        life_max_ms: 600,
        check_every: 10,
    });
}

#[test]
#[ignore = "takes an hour and more; TORTURE_KILLS says how many"]
fn nothing_acknowledged_is_lost_over_10_000_kills() {
    run(&Plan {
        kills: number_of("TORTURE_KILLS", 10_000),
        life_max_ms: 300,
        check_every: 100,
    });
}
