//! A response that never arrived costs nobody anything.

use std::io::Write;

use serde_json::json;

use super::gateway_with;
use crate::support::consumer::{NONE, all_with, seqs, shown};
use crate::support::gateway::wait_until;

#[test]
fn a_lost_response_comes_again_as_the_same_attempt() {
    let (gateway, mut laptop) = gateway_with(3);
    assert_eq!(seqs(&laptop.lose(&gateway, 2, &[])), [1, 2]);
    assert_eq!(
        shown(&laptop.fetch(&gateway, 9, &[])),
        [(1, 1), (2, 1), (3, 1)]
    );
    assert_eq!(
        gateway.number("SELECT max(strikes + suspect) FROM deliveries"),
        0
    );
}

#[test]
fn what_a_lost_response_was_to_confirm_is_confirmed() {
    let (gateway, mut laptop) = gateway_with(2);
    laptop.fetch(&gateway, 1, &[]);
    // The outcome arrived; the answer did not. The client says it all again.
    for _ in 0..3 {
        let answer = laptop.lose(&gateway, 9, &[(1, "delivered")]);
        assert_eq!(answer["committed"], 1);
    }
    assert_eq!(gateway.records("subject.committed").len(), 1);
}

#[test]
fn a_failure_that_is_said_again_after_a_lost_response_is_one_strike() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 1, &[]);
    for _ in 0..3 {
        laptop.lose(&gateway, 9, &[(1, "failed")]);
    }
    assert_eq!(gateway.number("SELECT strikes FROM deliveries"), 1);
    gateway.clock.advance(30_000);
    // Handed out in a response that is lost, with the old outcome said once more.
    assert_eq!(shown(&laptop.lose(&gateway, 9, &[(1, "failed")])), [(1, 2)]);
    assert_eq!(shown(&laptop.lose(&gateway, 9, &[(1, "failed")])), [(1, 2)]);
    assert_eq!(gateway.number("SELECT strikes FROM deliveries"), 1);
}

#[test]
fn a_lost_response_with_a_retried_delivery_keeps_its_attempt() {
    let (gateway, mut laptop) = gateway_with(2);
    laptop.fetch(&gateway, 1, &[]);
    laptop.fetch(&gateway, 0, &[(1, "failed")]);
    gateway.clock.advance(30_000);
    assert_eq!(shown(&laptop.lose(&gateway, 9, &[])), [(1, 2), (2, 1)]);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 2), (2, 1)]);
    assert_eq!(gateway.number("SELECT sum(strikes) FROM deliveries"), 1);
}

#[test]
fn what_is_lost_three_times_running_goes_alone_and_from_the_fourth_loss_on_waits() {
    let (gateway, mut laptop) = gateway_with(2);
    for _ in 0..3 {
        assert_eq!(shown(&laptop.lose(&gateway, 9, &[])), [(1, 1), (2, 1)]);
    }
    // Both are suspected of being too big for something on the way.
    assert_eq!(shown(&laptop.lose(&gateway, 9, &[])), [(1, 1)]);
    // The fourth loss of the first: it waits, so that the second has its turn.
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(2, 1)]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(2, "delivered")])), NONE);
    gateway.clock.advance(30_000);
    assert_eq!(shown(&laptop.lose(&gateway, 9, &[])), [(1, 1)]);
    // The fifth loss waits longer.
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    gateway.clock.advance(119_000);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    gateway.clock.advance(1_000);
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(shown(&answer), [(1, 1)]);
    laptop.fetch(&gateway, 9, &all_with(&answer, "delivered"));
    assert_eq!(gateway.number("SELECT sum(strikes) FROM deliveries"), 0);
    assert_eq!(gateway.records("subject.dead-lettered").len(), 0);
}

#[test]
fn a_response_that_arrives_ends_the_run_of_losses() {
    let (gateway, mut laptop) = gateway_with(2);
    for _ in 0..2 {
        laptop.lose(&gateway, 9, &[]);
    }
    laptop.fetch(&gateway, 9, &[]);
    laptop.fetch(&gateway, 9, &[(1, "released"), (2, "released")]);
    gateway.clock.advance(2_000);
    for _ in 0..3 {
        assert_eq!(shown(&laptop.lose(&gateway, 9, &[])), [(1, 1), (2, 1)]);
    }
}

#[test]
fn a_caller_that_hangs_up_after_it_was_handed_something_has_lost_it() {
    let (gateway, mut laptop) = gateway_with(1);
    let call = laptop.fetch_call(&gateway, &json!({}));
    let mut stream = call.open();
    stream.write_all(call.sent_body()).unwrap();
    wait_until("the hand-out", || {
        gateway.number("SELECT ever_handed FROM deliveries") == 1
    });
    drop(stream);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 1)]);
    assert_eq!(gateway.number("SELECT strikes FROM deliveries"), 0);
}
