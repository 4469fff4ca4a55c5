//! `cursor` says what the client has received.

use serde_json::json;

use super::{gateway_claimed, gateway_with};
use crate::support::Consumer;
use crate::support::consumer::{NONE, seqs, shown};

#[test]
fn every_response_with_deliveries_has_the_next_number() {
    let (gateway, mut laptop) = gateway_with(5);
    let mut last = 5;
    for _ in 0..5 {
        let cursor = laptop.fetch(&gateway, 1, &[])["cursor"].as_i64().unwrap();
        assert!(cursor > last, "{cursor} after {last}");
        last = cursor;
    }
}

#[test]
fn an_empty_response_returns_the_cursor_of_the_request() {
    let (gateway, mut laptop) = gateway_with(1);
    assert_eq!(laptop.fetch(&gateway, 0, &[])["cursor"], 0);
    let cursor = laptop.fetch(&gateway, 9, &[])["cursor"].clone();
    assert_eq!(laptop.fetch(&gateway, 9, &[])["cursor"], cursor);
    // Whatever it is: it is the client's.
    laptop.cursor = Some(123_456);
    assert_eq!(laptop.lose(&gateway, 0, &[])["cursor"], 123_456);
}

#[test]
fn a_cursor_that_was_never_given_counts_as_0() {
    for never in [1, 2, 3, 5, 6, 1_000, i64::MAX] {
        let (gateway, mut laptop) = gateway_with(3);
        // The highest number so far is 3, so the first response is number 4.
        assert_eq!(laptop.fetch(&gateway, 9, &[])["cursor"], 4);
        let wrong = Consumer {
            cursor: Some(never),
            ..laptop
        };
        let again = wrong.lose(&gateway, 9, &[]);
        assert_eq!(shown(&again), [(1, 1), (2, 1), (3, 1)], "{never}");
        assert_eq!(again["cursor"], 5);
    }
}

#[test]
fn a_cursor_of_another_queue_counts_as_0() {
    let (gateway, mut laptop) = gateway_with(2);
    gateway.claim("server", 9);
    gateway.comment(9);
    let mut server = Consumer::new("server");
    laptop.fetch(&gateway, 1, &[]);
    let foreign = server.fetch(&gateway, 9, &[])["cursor"].as_i64();
    let wrong = Consumer {
        cursor: foreign.map(|cursor| cursor + 1),
        ..laptop
    };
    assert_eq!(shown(&wrong.lose(&gateway, 9, &[])), [(1, 1), (2, 1)]);
}

#[test]
fn a_cursor_of_an_earlier_run_is_none_of_this_one() {
    let (gateway, mut laptop) = gateway_with(1);
    laptop.fetch(&gateway, 9, &[]);
    let stale = Consumer {
        run: Some("run-2".to_owned()),
        ..laptop
    };
    assert_eq!(shown(&stale.lose(&gateway, 9, &[])), [(1, 2)]);
    assert_eq!(shown(&stale.lose(&gateway, 9, &[])), [(1, 2)]);
}

#[test]
fn pipelined_fetches_keep_what_earlier_ones_brought_in_hand() {
    let (gateway, mut laptop) = gateway_with(6);
    assert_eq!(seqs(&laptop.fetch(&gateway, 2, &[])), [1, 2]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 2, &[])), [3, 4]);
    let answer = laptop.fetch(&gateway, 2, &[(3, "delivered"), (1, "spawned")]);
    assert_eq!(seqs(&answer), [5, 6]);
    assert_eq!(answer["committed"], 1);
    let rest = [
        (2, "delivered"),
        (4, "delivered"),
        (5, "delivered"),
        (6, "delivered"),
    ];
    let answer = laptop.fetch(&gateway, 2, &rest);
    assert_eq!((seqs(&answer), &answer["committed"]), (vec![], &json!(6)));
    assert_eq!(gateway.number("SELECT max(attempt) FROM deliveries"), 1);
}

#[test]
fn an_older_cursor_takes_back_only_what_came_after_it() {
    let (gateway, mut laptop) = gateway_with(4);
    assert_eq!(seqs(&laptop.fetch(&gateway, 2, &[])), [1, 2]);
    assert_eq!(seqs(&laptop.lose(&gateway, 2, &[])), [3, 4]);
    assert_eq!(shown(&laptop.fetch(&gateway, 9, &[])), [(3, 1), (4, 1)]);
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), NONE);
}

#[test]
fn committed_is_one_below_the_lowest_live_delivery_and_never_goes_back() {
    let (gateway, mut laptop) = gateway_claimed([1, 2]);
    gateway.claim("server", 3);
    for number in [1, 3, 2] {
        gateway.comment(number);
    }
    assert_eq!(laptop.fetch(&gateway, 9, &[])["committed"], 0);
    assert_eq!(
        laptop.fetch(&gateway, 9, &[(3, "delivered")])["committed"],
        0
    );
    // Nothing of this queue is live: the highest number of the whole table.
    assert_eq!(
        laptop.fetch(&gateway, 9, &[(1, "delivered")])["committed"],
        3
    );
    gateway.comment(3);
    assert_eq!(laptop.fetch(&gateway, 9, &[])["committed"], 4);
    gateway.comment(1);
    assert_eq!(laptop.fetch(&gateway, 9, &[])["committed"], 4);
    let mut server = Consumer::new("server");
    assert_eq!(server.fetch(&gateway, 9, &[])["committed"], 1);
}
