//! What an instance says of a delivery.

use serde_json::{Value, json};

use super::{gateway_claimed, gateway_with};
use crate::support::clock::DAY_MS;
use crate::support::consumer::{NONE, all_with, seqs, shown};
use crate::support::gateway::wait_until;
use crate::support::{Consumer, Reply, TestGateway};

#[track_caller]
fn assert_undelivered(reply: &Reply, seqs: &[i64]) {
    reply.assert_error(409, "commit-undelivered");
    assert_eq!(reply.json()["seqs"], json!(seqs));
}

fn outcome_of(gateway: &TestGateway, seq: i64) -> (i64, String) {
    let sql = "SELECT state, outcome FROM deliveries WHERE seq = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    gateway.rows(sql, [seq], read).remove(0)
}

#[test]
fn every_word_that_settles_settles() {
    let (gateway, mut laptop) = gateway_with(4);
    laptop.fetch(&gateway, 9, &[]);
    let longest = format!("dropped:{}", "a".repeat(64));
    let said = [
        (1, "delivered"),
        (2, "spawned"),
        (3, "dropped:not-mine"),
        (4, longest.as_str()),
    ];
    let answer = laptop.fetch(&gateway, 9, &said);
    assert_eq!(answer["committed"], 4);
    for (seq, outcome) in said {
        assert_eq!(outcome_of(&gateway, seq), (2, outcome.to_owned()));
    }
    let records = gateway.wait_for_records("subject.committed", 4);
    let logged: Vec<&str> = records
        .iter()
        .map(|record| record["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(logged, said.map(|(_, outcome)| outcome));
}

#[test]
fn a_commit_for_what_was_never_handed_out_is_refused_and_nothing_of_the_request_is_applied() {
    let (gateway, mut laptop) = gateway_with(3);
    laptop.fetch(&gateway, 1, &[]);
    let said = [(1, "delivered"), (3, "delivered"), (2, "failed")];
    assert_undelivered(&laptop.commit(&gateway, &said), &[2, 3]);
    assert_undelivered(&laptop.ask(&gateway, 9, &said), &[2, 3]);
    assert_eq!(outcome_of(&gateway, 1).0, 1);
    assert_eq!(outcome_of(&gateway, 2).0, 0);
    // The client forgets those and repeats the fetch.
    let answer = laptop.fetch(&gateway, 9, &[(1, "delivered")]);
    assert_eq!(seqs(&answer), [2, 3]);
    let refused = gateway.wait_for_records("gateway.refused", 2);
    assert_eq!(refused[0]["seqs"], json!([2, 3]));
}

#[test]
fn a_commit_for_a_delivery_of_another_queue_is_refused() {
    let (gateway, mut laptop) = gateway_with(1);
    gateway.claim("server", 9);
    gateway.comment(9);
    let mut server = Consumer::new("server");
    laptop.fetch(&gateway, 9, &[]);
    assert_eq!(seqs(&server.fetch(&gateway, 9, &[])), [2]);
    assert_undelivered(
        &laptop.commit(&gateway, &[(1, "delivered"), (2, "delivered")]),
        &[2],
    );
    assert_undelivered(&server.ask(&gateway, 9, &[(1, "dropped:mine")]), &[1]);
    assert_eq!(
        (outcome_of(&gateway, 1).0, outcome_of(&gateway, 2).0),
        (1, 1)
    );
}

#[test]
fn a_commit_above_the_highest_number_is_refused_whatever_number_it_is() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    for seq in [2, 1_000_000, i64::MAX] {
        assert_undelivered(&laptop.commit(&gateway, &[(seq, "delivered")]), &[seq]);
    }
    // Below the lowest nothing ever was, and nobody is wedged by it.
    for seq in [0, -1, i64::MIN] {
        laptop.commit(&gateway, &[(seq, "delivered")]).assert(200);
    }
}

#[test]
fn a_commit_for_a_delivery_whose_row_is_gone_changes_nothing() {
    let (gateway, mut laptop) = gateway_with(2);
    laptop.fetch(&gateway, 9, &[]);
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
    for _ in 0..8 {
        gateway.clock.advance(DAY_MS);
        laptop.fetch(&gateway, 0, &[]);
    }
    wait_until("the settled delivery to be swept", || {
        gateway.number("SELECT count(*) FROM deliveries WHERE seq = 1") == 0
    });
    let answer = laptop.fetch(&gateway, 9, &[(1, "spawned"), (2, "delivered")]);
    assert_eq!(answer["committed"], 2);
}

#[test]
fn of_two_outcomes_for_one_delivery_the_last_counts() {
    let (gateway, mut laptop) = gateway_with(2);
    laptop.fetch(&gateway, 9, &[]);
    let said = [
        (2, "delivered"),
        (1, "failed"),
        (1, "dropped:busy"),
        (1, "spawned"),
    ];
    laptop.commit(&gateway, &said).assert(200);
    assert_eq!(outcome_of(&gateway, 1), (2, "spawned".to_owned()));
    assert_eq!(gateway.number("SELECT max(strikes) FROM deliveries"), 0);
}

#[test]
fn a_commit_that_comes_twice_changes_nothing_and_the_first_outcome_stands() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    for late in [
        "dropped:busy",
        "delivered",
        "failed",
        "released",
        "dropped:busy",
    ] {
        let answer = laptop.commit(&gateway, &[(1, late)]).assert(200);
        assert_eq!(answer["committed"], 1);
        assert_eq!(outcome_of(&gateway, 1), (2, "dropped:busy".to_owned()));
    }
    gateway.comment(1);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [2]);
    assert_eq!(gateway.wait_for_records("subject.committed", 1).len(), 1);
}

#[test]
fn a_late_outcome_settles_what_was_put_back_and_what_is_in_other_hands() {
    let (gateway, mut old) = gateway_with(2);
    old.fetch(&gateway, 9, &[]);
    let mut new = old.restarted("run-2");
    // The first is in the new hands, alone; the second was put back.
    assert_eq!(shown(&new.fetch(&gateway, 9, &[])), [(1, 2)]);
    let said = [(1, "delivered"), (2, "spawned")];
    old.commit(&gateway, &said).assert(200);
    let answer = new.fetch(&gateway, 9, &[(1, "dropped:twice")]);
    assert_eq!((seqs(&answer), &answer["committed"]), (vec![], &json!(2)));
    assert_eq!(outcome_of(&gateway, 1), (2, "delivered".to_owned()));
}

#[test]
fn a_late_outcome_settles_even_the_dead() {
    let (gateway, mut laptop) = gateway_with(1);
    kill(&gateway, &mut laptop, 1);
    laptop.commit(&gateway, &[(1, "delivered")]).assert(200);
    assert_eq!(outcome_of(&gateway, 1), (2, "delivered".to_owned()));
}

/// Lets a delivery fail until it is dead.
fn kill(gateway: &TestGateway, laptop: &mut Consumer, seq: i64) {
    for _ in 0..3 {
        assert_eq!(seqs(&laptop.fetch(gateway, 1, &[])), [seq]);
        laptop.commit(gateway, &[(seq, "failed")]).assert(200);
        gateway.clock.advance(900_000);
    }
    assert_eq!(outcome_of(gateway, seq).0, 3);
}

#[test]
fn an_outcome_settles_the_whole_chain_of_rows_that_replaced_a_delivery() {
    let (gateway, mut laptop) = gateway_with(1);
    kill(&gateway, &mut laptop, 1);
    gateway.comment_again(1, 1).send().assert(202);
    let answer = laptop.fetch(&gateway, 9, &[]);
    assert_eq!(shown(&answer), [(2, 1)]);
    assert_eq!(answer["deliveries"][0]["redriveOf"], 1);
    // It was handled after all, says the run that had it first.
    laptop.commit(&gateway, &[(1, "spawned")]).assert(200);
    for seq in [1, 2] {
        assert_eq!(outcome_of(&gateway, seq), (2, "spawned".to_owned()));
    }
    assert_eq!(laptop.fetch(&gateway, 9, &[])["committed"], 2);
}

#[test]
fn a_failure_is_due_again_after_a_back_off_that_follows_the_strikes() {
    let gateway = TestGateway::with(|config| config.store.strikes_max = 6);
    gateway.clock.stop();
    gateway.claim("laptop", 1);
    gateway.comment(1);
    let mut laptop = Consumer::new("laptop");
    for (attempt, seconds) in [(1, 30), (2, 120), (3, 480), (4, 900), (5, 900)] {
        assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, attempt)]);
        assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, "failed")])), NONE);
        gateway.clock.advance(seconds * 1_000 - 1);
        assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE, "{attempt}");
        gateway.clock.advance(1);
    }
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 6)]);
}

#[test]
fn released_is_due_in_two_seconds_as_the_same_attempt_without_a_strike() {
    let (gateway, mut laptop) = gateway_with(1);
    for _ in 0..5 {
        assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 1)]);
        laptop.commit(&gateway, &[(1, "released")]).assert(200);
        gateway.clock.advance(1_999);
        assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
        gateway.clock.advance(1);
    }
    assert_eq!(gateway.number("SELECT strikes FROM deliveries"), 0);
}

#[test]
fn a_clean_stop_costs_nothing() {
    let (gateway, mut laptop) = gateway_with(5);
    let answer = laptop.fetch(&gateway, 9, &[]);
    let released = all_with(&answer, "released");
    laptop.commit(&gateway, &released).assert(200);
    gateway.clock.advance(2_000);
    let mut next = laptop.restarted("run-2");
    let answer = next.fetch(&gateway, 9, &[]);
    assert_eq!(shown(&answer), [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
}

#[test]
fn a_failure_that_is_about_an_earlier_hand_out_changes_nothing() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    let early = laptop.clone();
    laptop.fetch(&gateway, 9, &[(1, "released")]);
    gateway.clock.advance(2_000);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(1, 1)]);
    for word in ["failed", "released"] {
        early.commit(&gateway, &[(1, word)]).assert(200);
        assert_eq!(outcome_of(&gateway, 1).0, 1, "{word}");
    }
    // Who sends no cursor means the hand-out that there is.
    let bold = Consumer {
        cursor: None,
        ..laptop
    };
    bold.commit(&gateway, &[(1, "failed")]).assert(200);
    assert_eq!(outcome_of(&gateway, 1).0, 0);
    assert_eq!(gateway.number("SELECT strikes FROM deliveries"), 1);
}

#[test]
fn a_failure_for_what_is_not_in_hand_is_a_repeat_and_changes_nothing() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    for _ in 0..4 {
        laptop.commit(&gateway, &[(1, "failed")]).assert(200);
    }
    laptop.commit(&gateway, &[(1, "released")]).assert(200);
    assert_eq!(gateway.number("SELECT strikes FROM deliveries"), 1);
    gateway.clock.advance(29_999);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
}

#[test]
fn what_of_the_subject_is_in_hand_goes_back_with_a_failure_without_a_strike() {
    for word in ["failed", "released"] {
        let (gateway, mut laptop) = gateway_claimed([1, 2]);
        for number in [1, 1, 1, 2] {
            gateway.comment(number);
        }
        assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1, 2, 3, 4]);
        // The other subject stays in hand; nothing passes the one that waits.
        assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, word)])), NONE);
        assert_eq!(outcome_of(&gateway, 4).0, 1);
        gateway.clock.advance(30_000);
        let attempt = if word == "failed" { 2 } else { 1 };
        let again = laptop.fetch(&gateway, 9, &[(4, "delivered")]);
        assert_eq!(shown(&again), [(1, attempt), (2, 1), (3, 1)]);
        let sql = "SELECT sum(strikes) FROM deliveries WHERE seq > 1";
        assert_eq!(gateway.number(sql), 0);
    }
}

#[test]
fn a_detail_is_kept_with_its_outcome() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    let detail = "\u{e4}".repeat(250);
    let said = json!({"seq": 1, "outcome": "failed", "detail": detail});
    let body = laptop.body(&json!({"commit": [said]}));
    let answer: Value = gateway.api("POST", "/commit", &body).assert(200);
    assert_eq!(answer["committed"], 0);
    assert_eq!(gateway.texts("SELECT detail FROM deliveries"), [detail]);
}
