//! What becomes of what nobody takes, and of a clock that jumps.

use serde_json::json;

use super::{gateway_claimed, gateway_with};
use crate::support::clock::DAY_MS;
use crate::support::consumer::{NONE, seqs, shown};
use crate::support::gateway::wait_until;
use crate::support::{Consumer, TestGateway};

fn state_of(gateway: &TestGateway, seq: i64) -> i64 {
    gateway.number(&format!("SELECT state FROM deliveries WHERE seq = {seq}"))
}

/// Lets a delivery fail until it is dead.
fn kill(gateway: &TestGateway, laptop: &mut Consumer, seq: i64) {
    for _ in 0..3 {
        assert_eq!(seqs(&laptop.fetch(gateway, 1, &[])), [seq]);
        laptop.commit(gateway, &[(seq, "failed")]).assert(200);
        gateway.clock.advance(120_000);
    }
    assert_eq!(state_of(gateway, seq), 3);
}

#[test]
fn what_nobody_takes_expires_with_a_record_and_a_late_outcome_still_settles_it() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    laptop.commit(&gateway, &[(1, "released")]).assert(200);
    gateway.clock.advance(7 * DAY_MS + 1);
    let expired = gateway.wait_for_records("subject.expired", 1);
    assert_eq!(expired[0]["seq"], 1);
    assert_eq!(expired[0]["reason"], "age");
    assert_eq!(expired[0]["instance"], "laptop");
    assert_eq!(expired[0]["delivery_id"], "guid-1");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    // The row stays, without its payload.
    assert_eq!(gateway.number("SELECT length(payload) FROM events"), 0);
    let answer = laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
    assert_eq!(answer["committed"], 1);
    assert_eq!(state_of(&gateway, 1), 2);
}

#[test]
fn what_is_in_hand_under_a_live_lease_never_expires() {
    let gateway = TestGateway::with(|config| {
        config.consume.hand_timeout_ms = 30 * DAY_MS;
        config.consume.lease_max_ms = 30 * DAY_MS;
    });
    gateway.clock.stop();
    gateway.claim("laptop", 1);
    gateway.comment(1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    let call = laptop.fetch_call(&gateway, &json!({"max": 1, "lease": 30 * 86_400}));
    let answer = call.send().assert(200);
    laptop.cursor = answer["cursor"].as_i64();
    gateway.clock.advance(7 * DAY_MS + 1);
    // What waits behind it is too old by now, and goes.
    let expired = gateway.wait_for_records("subject.expired", 1);
    assert_eq!(expired[0]["seq"], 2);
    assert_eq!(state_of(&gateway, 1), 1);
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
    assert_eq!(state_of(&gateway, 1), 2);
}

#[test]
fn what_was_in_hand_expires_once_the_lease_has_lapsed() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    gateway.clock.advance(7 * DAY_MS + 1);
    gateway.wait_for_records("subject.expired", 1);
    assert_eq!(state_of(&gateway, 1), 4);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
}

/// Scenario: retention expires committed rows
#[test]
fn what_is_settled_goes_after_the_retention_and_what_is_dead_after_twice_that() {
    let (gateway, mut laptop) = gateway_with(2);
    kill(&gateway, &mut laptop, 1);
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(seqs(&answer), [2]);
    laptop.commit(&gateway, &[(2, "delivered")]).assert(200);
    gateway.clock.advance(7 * DAY_MS + 1);
    wait_until("the settled delivery to go", || gateway.stored() == 1);
    assert_eq!(state_of(&gateway, 1), 3);
    gateway.clock.advance(7 * DAY_MS);
    wait_until("the dead delivery to go", || gateway.stored() == 0);
    // What was consumed goes quietly, and numbers are never used again.
    assert_eq!(gateway.records("subject.expired").len(), 0);
    gateway.claim("laptop", 3);
    gateway.comment(3);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [3]);
}

#[test]
fn an_event_goes_with_its_last_delivery() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    gateway.claim("server", 1);
    gateway.comment(1);
    laptop.fetch(&gateway, 9, &[]);
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
    gateway.clock.advance(4 * DAY_MS);
    let mut server = Consumer::new("server");
    assert_eq!(seqs(&server.fetch(&gateway, 9, &[])), [2]);
    server.commit(&gateway, &[(2, "delivered")]).assert(200);
    gateway.clock.advance(4 * DAY_MS);
    wait_until("the first delivery to go", || {
        gateway.number("SELECT count(*) FROM deliveries") == 1
    });
    assert_eq!(gateway.stored(), 1);
    gateway.clock.advance(4 * DAY_MS);
    wait_until("the event to go", || gateway.stored() == 0);
}

#[test]
fn a_held_event_expires_with_a_record() {
    let (gateway, _) = gateway_claimed([]);
    gateway.comment(1);
    gateway.clock.advance(7 * DAY_MS + 1);
    let expired = gateway.wait_for_records("subject.expired", 1);
    assert_eq!(expired[0]["instance"], serde_json::Value::Null);
    // It is not routed any more.
    assert_eq!(gateway.claim("laptop", 1)["routed"], 0);
}

#[test]
fn a_redelivery_revives_what_is_dead() {
    let (gateway, mut laptop) = gateway_with(1);
    kill(&gateway, &mut laptop, 1);
    gateway.comment_again(1, 1).send().assert(202);
    let revived = gateway.wait_for_records("subject.revived", 1);
    assert_eq!(revived[0]["to"], json!(["laptop"]));
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(shown(&answer), [(2, 1)]);
    assert_eq!(answer["deliveries"][0]["redriveOf"], 1);
    assert_eq!(answer["deliveries"][0]["event"]["id"], 1);
    // The old row stays as it is.
    assert_eq!(state_of(&gateway, 1), 3);
    gateway.comment_again(1, 1).send().assert(202);
    gateway.wait_for_records("gateway.dropped", 1);
    laptop.commit(&gateway, &[(2, "delivered")]).assert(200);
    gateway.comment_again(1, 1).send().assert(202);
    let dropped = gateway.wait_for_records("gateway.dropped", 2);
    assert_eq!(dropped[1]["reason"], "duplicate");
    assert_eq!(gateway.number("SELECT count(*) FROM deliveries"), 2);
}

#[test]
fn a_redelivery_revives_what_expired_on_a_queue_and_what_expired_held() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    gateway.comment(1);
    gateway.comment(2);
    gateway.clock.advance(7 * DAY_MS + 1);
    gateway.wait_for_records("subject.expired", 2);
    gateway.claim("laptop", 1);
    gateway.claim("laptop", 2);
    gateway.comment_again(1, 1).send().assert(202);
    gateway.comment_again(2, 2).send().assert(202);
    let answer = laptop.fetch(&gateway, 9, &[]);
    let again: Vec<_> = answer["deliveries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delivery| delivery["event"]["payload"]["comment"]["id"].clone())
        .collect();
    assert_eq!(again, [1, 2]);
}

#[test]
fn a_redelivery_revives_nothing_that_somebody_handled() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    gateway.claim("server", 1);
    gateway.comment(1);
    let mut server = Consumer::new("server");
    assert_eq!(seqs(&server.fetch(&gateway, 9, &[])), [2]);
    server
        .commit(&gateway, &[(2, "dropped:not-mine")])
        .assert(200);
    kill(&gateway, &mut laptop, 1);
    gateway.comment_again(1, 1).send().assert(202);
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "duplicate");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
}

#[test]
fn another_delivery_of_the_same_comment_revives_nothing() {
    let (gateway, mut laptop) = gateway_with(1);
    kill(&gateway, &mut laptop, 1);
    let body = crate::support::comment_on(1, 1, "go on");
    let second_hook = gateway.github("issue_comment", "guid-of-another-hook", &body);
    second_hook.send().assert(202);
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "duplicate");
    assert_eq!(dropped[0]["gateway_event_id"], 1);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
}

#[test]
fn a_clock_set_back_a_day_delays_nothing_for_longer_than_its_maximum() {
    let (gateway, mut laptop) = gateway_with(2);
    laptop.fetch(&gateway, 9, &[]);
    laptop.commit(&gateway, &[(1, "failed")]).assert(200);
    gateway.clock.advance(-DAY_MS);
    // The lease: a rival is refused for at most the longest wait and lease.
    let mut rival = laptop.rival();
    let refused = rival.ask(&gateway, 9, &[]);
    refused.assert_error(409, "duplicate-instance");
    assert_eq!(refused.json()["retryAfter"], 330);
    gateway.comment(1);
    gateway.clock.advance(330_000);
    // The retry: after the longest back-off at most.
    assert_eq!(shown(&rival.fetch(&gateway, 9, &[])), [(2, 2)]);
    gateway.clock.advance(569_999);
    assert_eq!(seqs(&rival.fetch(&gateway, 9, &[])), NONE);
    gateway.clock.advance(1);
    assert_eq!(shown(&rival.fetch(&gateway, 9, &[])), [(1, 2), (3, 1)]);
}

#[test]
fn a_clock_set_back_a_day_while_the_gateway_is_stopped_is_noticed_at_the_start() {
    let (mut gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    laptop.commit(&gateway, &[(1, "failed")]).assert(200);
    gateway.stop();
    gateway.clock.advance(-DAY_MS);
    gateway.restart();
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    gateway.clock.advance(900_000);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 2)]);
}

#[test]
fn a_name_that_nobody_uses_is_forgotten_with_its_claims_and_actors() {
    let (gateway, mut laptop) = gateway_claimed([1]);
    let actors = json!({"actors": {"github": ["octocat"]}});
    laptop.put(&gateway, "/actors", &actors).assert(200);
    laptop.fetch(&gateway, 9, &[]);
    gateway.clock.advance(7 * DAY_MS + 1);
    wait_until("the claim to be forgotten", || {
        gateway.number("SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM actors)") == 0
    });
    gateway.comment(1);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    assert_eq!(gateway.claim("laptop", 1)["routed"], 1);
}
