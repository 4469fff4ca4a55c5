//! Who is to blame: attempts, strikes, suspects.

use crate::store::testing::*;

fn store_with(count: u64) -> (TestStore, Client) {
    let mut store = TestStore::new();
    for number in 1..=count {
        store.claim("laptop", number);
        store.append(number);
    }
    (store, Client::new("laptop"))
}

fn column(store: &TestStore, column: &str, seq: i64) -> i64 {
    store.number(&format!(
        "SELECT {column} FROM deliveries WHERE seq = {seq}"
    ))
}

#[test]
fn a_lost_response_is_no_attempt_and_no_strike() {
    let (mut store, mut laptop) = store_with(2);
    laptop.lose(&mut store, 9, &[]);
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, 1), (2, 1)]);
    assert_eq!(store.number("SELECT max(strikes) FROM deliveries"), 0);
}

#[test]
fn what_is_lost_three_times_running_goes_alone_and_from_the_fourth_waits() {
    let (mut store, mut laptop) = store_with(2);
    for _ in 0..3 {
        assert_eq!(seqs(&laptop.lose(&mut store, 9, &[])), [1, 2]);
    }
    // Both are suspects now: one at a time.
    assert_eq!(shown(&laptop.lose(&mut store, 9, &[])), [(1, 1)]);
    // The fourth loss of 1: it waits, so 2 has its turn.
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(2, 1)]);
    assert_eq!(store.number("SELECT max(strikes) FROM deliveries"), 0);
    assert_eq!(
        seqs(&laptop.fetch(&mut store, 9, &[(2, "delivered")])),
        NONE
    );
    store.clock.advance(30_000);
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, 1)]);
}

#[test]
fn a_received_response_ends_the_run_of_losses() {
    let (mut store, mut laptop) = store_with(1);
    laptop.lose(&mut store, 9, &[]);
    laptop.lose(&mut store, 9, &[]);
    laptop.fetch(&mut store, 9, &[]);
    laptop.fetch(&mut store, 9, &[]);
    assert_eq!(column(&store, "losses", 1), 0);
}

#[test]
fn a_lost_response_with_a_retried_delivery_keeps_its_attempt() {
    let (mut store, mut laptop) = store_with(1);
    laptop.fetch(&mut store, 9, &[]);
    laptop.fetch(&mut store, 9, &[(1, "failed")]);
    store.clock.advance(30_000);
    assert_eq!(shown(&laptop.lose(&mut store, 9, &[])), [(1, 2)]);
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, 2)]);
    assert_eq!(column(&store, "strikes", 1), 1);
}

#[test]
fn what_vanishes_alone_gets_a_strike() {
    let (mut store, mut laptop) = store_with(1);
    laptop.fetch(&mut store, 9, &[]);
    for run in 2..=3 {
        laptop = laptop.restarted(&format!("run-{run}"));
        assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, run)]);
    }
    laptop = laptop.restarted("run-4");
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), NONE);
    assert_eq!(column(&store, "state", 1), 3);
}

#[test]
fn a_consumer_that_dies_on_one_delivery_of_64_kills_that_one_alone() {
    const POISON: i64 = 40;
    let (mut store, mut laptop) = store_with(64);
    let mut run = 1;
    let mut deaths = Vec::new();
    let mut done: Vec<(i64, &str)> = Vec::new();
    for _ in 0..400 {
        let fetched = laptop.fetch(&mut store, 64, &done);
        done = seqs(&fetched)
            .into_iter()
            .map(|seq| (seq, "delivered"))
            .collect();
        if done.is_empty() {
            break;
        }
        if done.iter().any(|(seq, _)| *seq == POISON) {
            // It dies with the whole batch in hand, before it has committed any of it.
            deaths.push(done.len());
            run += 1;
            laptop = laptop.restarted(&format!("run-{run}"));
            done.clear();
        }
    }
    assert_eq!(deaths, [64, 1, 1, 1]);
    assert_eq!(
        store.number("SELECT seq FROM deliveries WHERE state = 3"),
        POISON
    );
    assert_eq!(
        store.number("SELECT count(*) FROM deliveries WHERE state = 2"),
        63
    );
    assert_eq!(
        store.number("SELECT sum(strikes) FROM deliveries WHERE seq <> 40"),
        0
    );
}

#[test]
fn at_a_suspects_turn_nothing_goes_out_until_nothing_is_in_hand() {
    let (mut store, mut laptop) = store_with(2);
    laptop.fetch(&mut store, 9, &[]);
    laptop = laptop.restarted("run-2");
    store.claim("laptop", 3);
    store.append(3);
    // 1 is a suspect and goes alone; 2 and 3 wait for it.
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [1]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), NONE);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[(1, "delivered")])), [2]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[(2, "delivered")])), [3]);
    assert_eq!(store.number("SELECT sum(strikes) FROM deliveries"), 0);
}

#[test]
fn a_failed_suspect_is_a_suspect_no_more() {
    let (mut store, mut laptop) = store_with(2);
    laptop.fetch(&mut store, 9, &[]);
    laptop = laptop.restarted("run-2");
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [1]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[(1, "failed")])), [2]);
    assert_eq!(
        (column(&store, "suspect", 1), column(&store, "suspect", 2)),
        (0, 1)
    );
}

#[test]
fn what_is_overdue_alone_gets_a_strike_while_the_lease_lived() {
    let (mut store, mut laptop) = store_with(1);
    laptop.fetch(&mut store, 9, &[]);
    for _ in 0..72 {
        store.clock.advance(50_000);
        laptop.fetch(&mut store, 0, &[]);
    }
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, 2)]);
    assert_eq!(column(&store, "strikes", 1), 1);
}

#[test]
fn a_laptop_that_slept_is_not_guilty_of_what_is_overdue() {
    let (mut store, mut laptop) = store_with(1);
    laptop.fetch(&mut store, 9, &[]);
    store.clock.advance(4 * 3_600_000);
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, 2)]);
    assert_eq!(column(&store, "strikes", 1), 0);
}

#[test]
fn what_is_overdue_in_company_is_suspected() {
    let (mut store, mut laptop) = store_with(2);
    laptop.fetch(&mut store, 9, &[]);
    for _ in 0..72 {
        store.clock.advance(50_000);
        laptop.fetch(&mut store, 0, &[]);
    }
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, 2)]);
    assert_eq!(store.number("SELECT sum(strikes) FROM deliveries"), 0);
    assert_eq!(store.number("SELECT sum(suspect) FROM deliveries"), 2);
}

#[test]
fn the_newest_sixteen_hand_outs_of_a_delivery_are_remembered() {
    let (mut store, mut laptop) = store_with(1);
    for _ in 0..20 {
        laptop.fetch(&mut store, 9, &[]);
        laptop.fetch(&mut store, 0, &[(1, "released")]);
        store.clock.advance(2_000);
    }
    assert_eq!(store.number("SELECT count(*) FROM hand_outs"), 16);
    assert_eq!(
        store.text("SELECT ended FROM hand_outs ORDER BY id DESC"),
        "released"
    );
}
