//! What a client has received, and clients that say little or nothing of it.

use crate::store::testing::*;

fn store_with(count: u64) -> (TestStore, Client) {
    let mut store = TestStore::new();
    for number in 1..=count {
        store.claim("laptop", number);
        store.append(number);
    }
    (store, Client::new("laptop"))
}

#[test]
fn a_response_with_deliveries_takes_a_number_above_every_number_and_delivery_so_far() {
    let (mut store, mut laptop) = store_with(5);
    let first = laptop.fetch(&mut store, 1, &[]);
    assert!(first.cursor > 5);
    let second = laptop.fetch(&mut store, 1, &[]);
    assert!(second.cursor > first.cursor);
    assert_eq!(laptop.fetch(&mut store, 0, &[]).cursor, second.cursor);
}

#[test]
fn a_cursor_that_was_never_given_counts_as_zero() {
    let (mut store, mut laptop) = store_with(3);
    laptop.fetch(&mut store, 2, &[]);
    // Computed from delivery numbers: nothing of it was ever given, so all in hand is lost.
    let wrong = Client {
        cursor: Some(2),
        ..laptop.clone()
    };
    assert_eq!(
        shown(&wrong.lose(&mut store, 9, &[])),
        [(1, 1), (2, 1), (3, 1)]
    );
    let wild = Client {
        cursor: Some(i64::MAX),
        ..laptop
    };
    assert_eq!(seqs(&wild.lose(&mut store, 9, &[])), [1, 2, 3]);
}

#[test]
fn an_older_cursor_takes_back_only_what_came_after_it() {
    let (mut store, mut laptop) = store_with(4);
    laptop.fetch(&mut store, 2, &[]);
    laptop.lose(&mut store, 2, &[]);
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(3, 1), (4, 1)]);
    laptop.fetch(&mut store, 0, &[(1, "delivered"), (4, "delivered")]);
    assert_eq!(
        store.number("SELECT count(*) FROM deliveries WHERE state = 2"),
        2
    );
}

#[test]
fn pipelined_fetches_keep_what_earlier_ones_brought_in_hand() {
    let (mut store, mut laptop) = store_with(6);
    assert_eq!(seqs(&laptop.fetch(&mut store, 2, &[])), [1, 2]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 2, &[])), [3, 4]);
    assert_eq!(
        seqs(&laptop.fetch(&mut store, 2, &[(1, "delivered")])),
        [5, 6]
    );
    assert_eq!(
        store.number("SELECT count(*) FROM deliveries WHERE state = 1"),
        5
    );
}

#[test]
fn a_client_without_a_run_gets_back_what_it_did_not_commit() {
    let (mut store, laptop) = store_with(2);
    let plain = Client {
        run: None,
        cursor: None,
        ..laptop
    };
    assert_eq!(shown(&plain.lose(&mut store, 1, &[])), [(1, 1)]);
    assert_eq!(shown(&plain.lose(&mut store, 9, &[])), [(1, 2), (2, 1)]);
    assert_eq!(
        shown(&plain.lose(&mut store, 9, &[(1, "delivered")])),
        [(2, 2)]
    );
}

#[test]
fn a_client_without_a_run_that_echoes_its_cursor_keeps_its_run() {
    let (mut store, laptop) = store_with(3);
    let mut plain = Client {
        run: None,
        ..laptop
    };
    assert_eq!(shown(&plain.fetch(&mut store, 1, &[])), [(1, 1)]);
    assert_eq!(shown(&plain.fetch(&mut store, 1, &[])), [(2, 1)]);
    assert_eq!(
        shown(&plain.fetch(&mut store, 1, &[(1, "delivered")])),
        [(3, 1)]
    );
    assert_eq!(
        store.number("SELECT count(*) FROM deliveries WHERE state = 1"),
        2
    );
    // Started again: what it had in hand comes back as a new attempt.
    plain.cursor = Some(0);
    assert_eq!(shown(&plain.fetch(&mut store, 9, &[])), [(2, 2)]);
}

#[test]
fn a_cursor_of_an_earlier_run_is_none_of_this_one() {
    let (mut store, mut laptop) = store_with(2);
    laptop.fetch(&mut store, 1, &[]);
    let stale = Client {
        run: Some("run-2".into()),
        ..laptop
    };
    assert_eq!(shown(&stale.lose(&mut store, 1, &[])), [(1, 2)]);
    assert_eq!(shown(&stale.lose(&mut store, 1, &[])), [(1, 2)]);
}
