//! Who is to blame: attempts, strikes, suspects.

use serde_json::{Value, json};

use super::gateway_with;
use crate::support::consumer::{NONE, all_with, seqs, shown};
use crate::support::{Consumer, TestGateway};

fn column(gateway: &TestGateway, column: &str, seq: i64) -> i64 {
    gateway.number(&format!(
        "SELECT {column} FROM deliveries WHERE seq = {seq}"
    ))
}

/// Renews the lease for longer than the hand timeout.
fn stay_awake(gateway: &TestGateway, laptop: &Consumer) {
    for _ in 0..72 {
        gateway.clock.advance(50_000);
        laptop.commit(gateway, &[]).assert(200);
    }
}

#[test]
fn the_last_strike_kills_a_delivery_and_its_subject_moves_on() {
    let (gateway, mut laptop) = gateway_with(1);
    gateway.comment(1);
    for attempt in 1..=3 {
        assert_eq!(shown(&laptop.fetch(&gateway, 1, &[])), [(1, attempt)]);
        assert_eq!(
            gateway.records("subject.dead-lettered"),
            Vec::<Value>::new()
        );
        laptop.commit(&gateway, &[(1, "failed")]).assert(200);
        gateway.clock.advance(120_000);
    }
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(shown(&answer), [(2, 1)]);
    assert_eq!(answer["committed"], 1);
    let dead = gateway.wait_for_records("subject.dead-lettered", 1);
    assert_eq!(dead[0]["seq"], 1);
    assert_eq!(dead[0]["strikes"], 3);
    assert_eq!(dead[0]["delivery_id"], "guid-1");
    assert_eq!(dead[0]["level"], "error");
    // It is kept for inspection, with its payload.
    assert_eq!(column(&gateway, "state", 1), 3);
    let sql = "SELECT length(payload) FROM events WHERE id = 1";
    assert!(gateway.number(sql) > 0);
}

#[test]
fn the_number_of_strikes_is_configured() {
    let gateway = TestGateway::with(|config| config.store.strikes_max = 1);
    gateway.claim("laptop", 1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    laptop.fetch(&gateway, 9, &[]);
    laptop.commit(&gateway, &[(1, "failed")]).assert(200);
    assert_eq!(column(&gateway, "state", 1), 3);
}

#[test]
fn what_vanishes_alone_gets_a_strike() {
    let (gateway, mut laptop) = gateway_with(1);
    for attempt in 1..=3 {
        laptop = laptop.restarted(&format!("run-{attempt}"));
        assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, attempt)]);
        assert_eq!(column(&gateway, "strikes", 1) + 1, attempt.cast_signed());
    }
    laptop = laptop.restarted("run-4");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    assert_eq!(column(&gateway, "state", 1), 3);
    let dead = gateway.wait_for_records("subject.dead-lettered", 1);
    assert_eq!(dead[0]["after"], "vanished");
}

#[test]
fn what_vanishes_in_company_is_suspected_and_goes_alone() {
    let (gateway, mut laptop) = gateway_with(3);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1, 2, 3]);
    gateway.claim("laptop", 4);
    gateway.comment(4);
    laptop = laptop.restarted("run-2");
    for seq in 1..=3 {
        assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(seq, 2)]);
        // While it is in hand nothing else goes out.
        assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
        laptop.commit(&gateway, &[(seq, "delivered")]).assert(200);
    }
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(4, 1)]);
    assert_eq!(gateway.number("SELECT sum(strikes) FROM deliveries"), 0);
}

#[test]
fn at_a_suspects_turn_nothing_goes_out_until_nothing_is_in_hand() {
    let (gateway, mut laptop) = gateway_with(2);
    laptop.fetch(&gateway, 9, &[]);
    laptop = laptop.restarted("run-2");
    // The first suspect fails and is none any more; the second takes its turn meanwhile.
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, "failed")])), [2]);
    gateway.clock.advance(30_000);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    let answer = laptop.fetch(&gateway, 9, &[(2, "failed")]);
    assert_eq!(shown(&answer), [(1, 3)]);
    gateway.clock.advance(30_000);
    // Neither is a suspect: the second goes out although the first is in hand.
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(2, 3)]);
}

#[test]
fn a_consumer_that_dies_on_one_delivery_of_64_kills_that_one_alone() {
    const POISON: i64 = 40;
    let (gateway, mut laptop) = gateway_with(64);
    let (mut deaths, mut handled) = (Vec::new(), Vec::new());
    let mut done: Vec<(i64, &str)> = Vec::new();
    for run in 2..200 {
        let answer = laptop.fetch(&gateway, 64, &done);
        done = all_with(&answer, "delivered");
        if done.is_empty() {
            break;
        }
        if seqs(&answer).contains(&POISON) {
            // It dies with the whole batch in hand, before it has said a word of it.
            deaths.push(done.len());
            laptop = laptop.restarted(&format!("run-{run}"));
            done.clear();
        }
        handled.extend(done.iter().map(|(seq, _)| *seq));
    }
    // After one death in company and three alone that one is dead.
    assert_eq!(deaths, [64, 1, 1, 1]);
    let others: Vec<i64> = (1..=64).filter(|seq| *seq != POISON).collect();
    handled.sort_unstable();
    assert_eq!(handled, others);
    assert_eq!(column(&gateway, "state", POISON), 3);
    let sql = "SELECT count(*) FROM deliveries WHERE state = 2 AND strikes = 0";
    assert_eq!(gateway.number(sql), 63);
}

#[test]
fn what_is_overdue_alone_gets_a_strike_while_the_lease_lived() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    stay_awake(&gateway, &laptop);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 2)]);
    assert_eq!(column(&gateway, "strikes", 1), 1);
    let again = gateway.wait_for_records("subject.redelivered", 1);
    assert_eq!(again[0]["after"], "overdue");
    assert_eq!(again[0]["attempt"], 2);
}

#[test]
fn a_laptop_that_slept_is_not_guilty_of_what_is_overdue() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    gateway.clock.advance(4 * 3_600_000);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 2)]);
    assert_eq!(column(&gateway, "strikes", 1), 0);
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
}

#[test]
fn what_is_overdue_in_company_is_suspected() {
    let (gateway, mut laptop) = gateway_with(2);
    laptop.fetch(&gateway, 9, &[]);
    stay_awake(&gateway, &laptop);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 2)]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, "delivered")])), [2]);
    assert_eq!(gateway.number("SELECT sum(strikes) FROM deliveries"), 0);
}

#[test]
fn what_is_overdue_three_times_alone_is_dead() {
    let gateway = TestGateway::with(|config| config.consume.hand_timeout_ms = 1_000);
    gateway.clock.stop();
    gateway.claim("laptop", 1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    for attempt in 1..=3 {
        assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, attempt)]);
        gateway.clock.advance(999);
        assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
        gateway.clock.advance(1);
    }
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
    assert_eq!(column(&gateway, "state", 1), 3);
    // It was handled after all: even now that counts.
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
    assert_eq!(column(&gateway, "state", 1), 2);
}

#[test]
fn an_outcome_in_time_is_in_time_although_it_comes_with_the_fetch_that_would_take_back() {
    let gateway = TestGateway::with(|config| config.consume.hand_timeout_ms = 1_000);
    gateway.clock.stop();
    gateway.claim("laptop", 1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    laptop.fetch(&gateway, 9, &[]);
    gateway.clock.advance(5_000);
    let answer = laptop.fetch(&gateway, 9, &[(1, "delivered")]);
    assert_eq!((seqs(&answer), &answer["committed"]), (vec![], &json!(1)));
    assert_eq!(column(&gateway, "strikes", 1), 0);
}
