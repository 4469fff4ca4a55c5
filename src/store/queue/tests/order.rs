//! What goes out, and in which order.

use crate::store::Settings;
use crate::store::testing::*;

fn store_with(items: &[u64]) -> (TestStore, Client) {
    let mut store = TestStore::new();
    for number in 1..=9 {
        store.claim("laptop", number);
    }
    for number in items {
        store.append(*number);
    }
    (store, Client::new("laptop"))
}

#[test]
fn deliveries_go_out_oldest_event_first_over_all_subjects() {
    let (mut store, mut laptop) = store_with(&[1, 2, 1, 3, 2, 1]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 4, &[])), [1, 2, 3, 4]);
    // 1 and 2 are in hand, so nothing of their subjects goes out.
    assert_eq!(seqs(&laptop.fetch(&mut store, 4, &[])), NONE);
    let done = [
        (1, "delivered"),
        (2, "delivered"),
        (3, "delivered"),
        (4, "delivered"),
    ];
    assert_eq!(seqs(&laptop.fetch(&mut store, 4, &done)), [5, 6]);
}

#[test]
fn a_failing_head_holds_up_its_subject_and_no_other() {
    let (mut store, mut laptop) = store_with(&[1, 1, 2, 1, 2]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 1, &[])), [1]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[(1, "failed")])), [3, 5]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), NONE);
    store.clock.advance(30_000);
    let again = laptop.fetch(&mut store, 9, &[]);
    assert_eq!(shown(&again), [(1, 2), (2, 1), (4, 1)]);
}

#[test]
fn what_was_in_hand_behind_a_failure_goes_back_without_a_strike() {
    let (mut store, mut laptop) = store_with(&[1, 1, 1]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [1, 2, 3]);
    // 1 and 3 were sent back with it: 1 goes out at once, 3 waits behind 2.
    assert_eq!(
        shown(&laptop.fetch(&mut store, 9, &[(2, "failed")])),
        [(1, 1)]
    );
    store.clock.advance(30_000);
    let next = laptop.fetch(&mut store, 9, &[(1, "delivered")]);
    assert_eq!(shown(&next), [(2, 2), (3, 1)]);
    assert_eq!(
        store.number("SELECT strikes FROM deliveries WHERE seq = 3"),
        0
    );
}

#[test]
fn nothing_of_a_subject_goes_out_while_something_of_it_is_in_hand() {
    let (mut store, mut laptop) = store_with(&[1]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [1]);
    store.append(1);
    store.append(2);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [3]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[(1, "spawned")])), [2]);
}

#[test]
fn a_batch_ends_at_the_first_delivery_that_does_not_fit() {
    let mut store = TestStore::with(Settings {
        batch_bytes_max: 20,
        ..Settings::default()
    });
    for number in 1..=4 {
        store.claim("laptop", number);
        store.append(number);
    }
    let mut laptop = Client::new("laptop");
    let first = laptop.fetch(&mut store, 9, &[]);
    // Payloads of 8 bytes: two fit into 20.
    assert_eq!(seqs(&first), [1, 2]);
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [3, 4]);
}

#[test]
fn the_first_delivery_always_fits() {
    let mut store = TestStore::with(Settings {
        batch_bytes_max: 1,
        ..Settings::default()
    });
    store.claim("laptop", 1);
    store.append(1);
    assert_eq!(seqs(&Client::new("laptop").fetch(&mut store, 9, &[])), [1]);
}

#[test]
fn a_fetch_gets_at_most_what_it_asked_for_and_what_is_allowed() {
    let mut store = TestStore::with(Settings {
        batch_max: 3,
        ..Settings::default()
    });
    for number in 1..=9 {
        store.claim("laptop", number);
        store.append(number);
    }
    let mut laptop = Client::new("laptop");
    assert_eq!(laptop.fetch(&mut store, 2, &[]).deliveries.len(), 2);
    assert_eq!(laptop.fetch(&mut store, 1000, &[]).deliveries.len(), 3);
    assert_eq!(laptop.fetch(&mut store, 0, &[]).deliveries.len(), 0);
}

#[test]
fn a_payload_comes_out_byte_for_byte_with_its_event() {
    let (mut store, mut laptop) = store_with(&[7]);
    let fetched = laptop.fetch(&mut store, 1, &[]);
    let delivery = &fetched.deliveries[0];
    assert_eq!(delivery.event.payload.text().unwrap(), b"{\"id\":1}");
    assert_eq!(
        delivery.event.work_item.as_deref(),
        Some("github:octo/repo#7")
    );
    assert_eq!(delivery.event.subject, "loop-github-octo-repo-7");
    assert_eq!(
        delivery.event.headers,
        r#"{"x-github-event":"issue_comment"}"#
    );
    assert_eq!(delivery.redrive_of, None);
}

#[test]
fn an_event_routed_late_takes_its_place_among_what_is_not_handed_out_yet() {
    let (mut store, mut laptop) = store_with(&[]);
    store.append(1);
    store.append(1);
    // As if the first had been held and the second routed before it.
    let connection = store.writer.connection();
    connection
        .execute("UPDATE deliveries SET event_id = 3 - event_id", [])
        .unwrap();
    connection
        .execute("UPDATE lanes SET head_event_id = 1", [])
        .unwrap();
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [2, 1]);
}

#[test]
fn committed_is_one_below_the_lowest_live_delivery_and_never_goes_back() {
    let (mut store, mut laptop) = store_with(&[1, 2, 3]);
    let fetched = laptop.fetch(&mut store, 9, &[]);
    assert_eq!(fetched.committed.0, 0);
    assert_eq!(
        laptop.fetch(&mut store, 9, &[(2, "delivered")]).committed.0,
        0
    );
    assert_eq!(
        laptop.fetch(&mut store, 9, &[(1, "delivered")]).committed.0,
        2
    );
    assert_eq!(
        laptop.fetch(&mut store, 9, &[(3, "delivered")]).committed.0,
        3
    );
    store.append(4);
    assert_eq!(laptop.fetch(&mut store, 0, &[]).committed.0, 3);
}
