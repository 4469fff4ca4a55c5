//! SIGSTOP for longer than a lease: of the gateway, and of a consumer.

use serde_json::Value;

use crate::consumers::Temper;
use crate::gateway::Gateway;
use crate::mail::Mail;
use crate::program::{Home, Running};
use crate::world::World;
use crate::{number_of, pass, wait_for};

/// The longest lease that [`World::limits`] allows is 3 s.
const LONGER_THAN_A_LEASE_MS: u64 = 4_500;

fn freeze_again_and_again(times: u64) {
    let world = World::new();
    let tally = world.torment(2, Temper::Tame, || {
        for _ in 0..times {
            world.send_through(30);
            pass(1_000);
            world.gateway.freeze();
            pass(LONGER_THAN_A_LEASE_MS);
            world.gateway.thaw();
        }
        world.send_through(30);
    });
    assert_eq!(world.ledger.faults(), 0);
    assert!(tally.acked > 0);
    // Nobody did anything wrong, and nobody is blamed.
    assert_eq!(tally.dead, 0);
    let struck = "SELECT count(*) FROM deliveries WHERE strikes > 0";
    assert_eq!(world.gateway.number(struck), 0);
}

#[test]
fn a_gateway_that_is_frozen_for_longer_than_a_lease_loses_nothing_and_blames_nobody() {
    freeze_again_and_again(2);
}

#[test]
#[ignore = "the long form; TORTURE_FREEZES says how often"]
fn a_gateway_that_is_frozen_again_and_again_loses_nothing_and_blames_nobody() {
    freeze_again_and_again(number_of("TORTURE_FREEZES", 50));
}

fn signal(running: &Running, signal: rustix::process::Signal) {
    let pid = i32::try_from(running.process()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn send(gateway: &Gateway, mark: u64) {
    let reply = Mail::about(mark, 1).request(gateway.port).send();
    assert_eq!(reply.status, 202);
}

/// The outcome of the delivery of a mark; empty as long as there is none.
fn outcome(gateway: &Gateway, mark: u64) -> String {
    let sql = format!(
        "SELECT d.outcome FROM deliveries d JOIN events e ON e.id = d.event_id
         WHERE e.delivery_id = 'torture-{mark}'"
    );
    gateway.texts(&sql).pop().unwrap_or_default()
}

fn is_of(line: &str, mark: u64) -> bool {
    let event: Value = serde_json::from_str(line).unwrap_or_default();
    event.to_string().contains(&format!("mark-{mark} "))
}

#[test]
fn a_consumer_that_is_frozen_for_longer_than_its_lease_gives_way_and_takes_nothing_back() {
    let gateway = Gateway::new(Home::new(), World::limits());
    gateway.start();
    let first = gateway.consume(gateway.port, "first");
    wait_for("the claim", 30, || {
        gateway.number("SELECT count(*) FROM claims") == 1
    });
    send(&gateway, 1);
    assert!(is_of(&first.line_with("mark-1 "), 1));
    wait_for("the outcome", 30, || outcome(&gateway, 1) == "delivered");

    signal(&first, rustix::process::Signal::STOP);
    pass(LONGER_THAN_A_LEASE_MS);
    send(&gateway, 2);
    let second = gateway.consume(gateway.port, "second");
    assert!(is_of(&second.line_with("mark-2 "), 2));
    wait_for("the outcome", 30, || outcome(&gateway, 2) == "delivered");

    // The first one wakes up: another peer has the name now. The answer to its last poll may have
    // been waiting for it; nothing else comes.
    signal(&first, rustix::process::Signal::CONT);
    for mark in 3..=6 {
        send(&gateway, mark);
        assert!(is_of(&second.line_with(&format!("mark-{mark} ")), mark));
        wait_for("the outcome", 30, || outcome(&gateway, mark) == "delivered");
    }
    for line in first.lines() {
        assert!(is_of(&line, 2), "{line}");
    }

    // Once the second one is gone, the first one has the name again.
    second.terminate();
    send(&gateway, 7);
    assert!(is_of(&first.line_with("mark-7 "), 7));
    wait_for("the outcome", 30, || outcome(&gateway, 7) == "delivered");
    first.terminate();
    // What was in the frozen one's hands alone went with it: that is an attempt, and only that.
    let blamed = "SELECT e.delivery_id FROM deliveries d JOIN events e ON e.id = d.event_id
                  WHERE d.strikes > 0 OR d.attempt > 1";
    assert_eq!(gateway.texts(blamed), ["torture-2"]);
    gateway.end();
    gateway.assert_sound();
    assert_eq!(gateway.number("SELECT count(*) FROM events"), 7);
}
