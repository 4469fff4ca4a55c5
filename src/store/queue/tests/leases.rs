//! Who may ask.

use crate::domain::{CallerGuard, Clock, Refusal};
use crate::store::testing::*;
use crate::store::{StoreError, verify};

fn store_with(count: u64) -> (TestStore, Client) {
    let mut store = TestStore::new();
    for number in 1..=count {
        store.claim("laptop", number);
        store.append(number);
    }
    (store, Client::new("laptop"))
}

fn is_refused(result: &Result<impl std::fmt::Debug, StoreError>, as_superseded: bool) -> bool {
    matches!(
        result,
        Err(StoreError::Refused(Refusal::DuplicateInstance { superseded, .. }))
            if *superseded == as_superseded
    )
}

#[test]
fn a_second_peer_under_the_same_instance_name_is_refused_while_the_first_polls() {
    let (mut store, mut laptop) = store_with(1);
    laptop.fetch(&mut store, 0, &[]);
    let stray = Client {
        peer: "peer-2",
        ..laptop.clone()
    };
    let result = store.submit(stray.request(9, &[]));
    match result {
        Err(StoreError::Refused(Refusal::DuplicateInstance {
            holder,
            since,
            fingerprint,
            superseded,
            retry_after,
        })) => {
            assert_eq!(holder.as_str(), "laptop");
            assert_eq!(since.0, START);
            assert!(!fingerprint.contains("peer-1"));
            assert!(!superseded);
            assert_eq!(retry_after, 60);
        }
        other => panic!("{other:?}"),
    }
    assert!(is_refused(&stray.commit(&mut store, &[]), false));
    assert_eq!(seqs(&laptop.fetch(&mut store, 9, &[])), [1]);
}

#[test]
fn after_its_lease_has_lapsed_a_newcomer_takes_the_name_over() {
    let (mut store, mut laptop) = store_with(1);
    laptop.fetch(&mut store, 9, &[]);
    store.clock.advance(60_000);
    let mut newcomer = Client {
        peer: "peer-2",
        ..Client::new("laptop")
    };
    newcomer.run = Some("run-x".into());
    // What the old peer had in hand is gone with it.
    assert_eq!(shown(&newcomer.fetch(&mut store, 9, &[])), [(1, 2)]);
    assert!(is_refused(&store.submit(laptop.request(9, &[])), false));
}

#[test]
fn a_new_run_of_the_same_peer_takes_over_at_once_and_the_old_one_is_told() {
    let (mut store, mut old) = store_with(1);
    old.fetch(&mut store, 0, &[]);
    let mut new = old.restarted("run-2");
    assert_eq!(seqs(&new.fetch(&mut store, 9, &[])), [1]);
    assert!(is_refused(&store.submit(old.request(9, &[])), true));
    // Its outcomes still count, and renew nothing.
    store.clock.advance(10_000);
    old.commit(&mut store, &[(1, "delivered")]).unwrap();
    assert_eq!(
        store.number("SELECT lease_until_ms FROM instances"),
        START + 60_000
    );
}

#[test]
fn a_lapsed_lease_alone_changes_nothing_for_the_same_run() {
    let (mut store, mut laptop) = store_with(2);
    laptop.fetch(&mut store, 1, &[]);
    store.clock.advance(600_000);
    assert_eq!(seqs(&laptop.fetch(&mut store, 1, &[])), [2]);
    assert_eq!(
        store.number("SELECT count(*) FROM deliveries WHERE state = 1"),
        2
    );
}

#[test]
fn parking_a_poll_stores_the_end_of_the_wait_and_the_lease() {
    let (mut store, laptop) = store_with(0);
    let mut request = laptop.request(9, &[]);
    request.park_ms = Some(20_000);
    store.submit(request).unwrap();
    assert_eq!(
        store.number("SELECT lease_until_ms FROM instances"),
        START + 80_000
    );
    store.submit(laptop.request(9, &[])).unwrap();
    assert_eq!(
        store.number("SELECT lease_until_ms FROM instances"),
        START + 60_000
    );
}

#[test]
fn a_lease_is_clamped_to_its_bounds() {
    let (mut store, laptop) = store_with(0);
    for (asked, granted) in [(0, 10_000), (60_000, 60_000), (i64::MAX, 300_000)] {
        let mut request = laptop.request(9, &[]);
        request.lease_ms = asked;
        assert_eq!(store.submit(request).unwrap().lease_ms, granted);
    }
}

#[test]
fn a_commit_renews_and_never_shortens_the_lease_of_a_held_poll() {
    let (mut store, laptop) = store_with(0);
    let mut request = laptop.request(9, &[]);
    request.park_ms = Some(30_000);
    store.submit(request).unwrap();
    laptop.commit(&mut store, &[]).unwrap();
    assert_eq!(
        store.number("SELECT lease_until_ms FROM instances"),
        START + 90_000
    );
    store.clock.advance(60_000);
    laptop.commit(&mut store, &[]).unwrap();
    assert_eq!(
        store.number("SELECT lease_until_ms FROM instances"),
        START + 120_000
    );
}

#[test]
fn a_caller_that_is_gone_is_never_handed_anything() {
    let (mut store, laptop) = store_with(1);
    let guard = CallerGuard::new();
    let mut request = laptop.request(9, &[]);
    request.caller = guard.token();
    drop(guard);
    assert!(matches!(store.submit(request), Err(StoreError::CallerGone)));
    assert_eq!(
        store.number("SELECT count(*) FROM deliveries WHERE state = 0"),
        1
    );
}

#[test]
fn a_clock_set_back_a_day_delays_nothing_for_longer_than_its_maximum() {
    let (mut store, mut laptop) = store_with(2);
    laptop.fetch(&mut store, 2, &[]);
    laptop.fetch(&mut store, 0, &[(1, "failed")]);
    store.clock.advance(-86_400_000);
    // The lease: another peer is refused for at most the longest wait and lease.
    let mut newcomer = Client {
        peer: "peer-2",
        ..Client::new("laptop")
    };
    assert!(is_refused(&store.submit(newcomer.request(9, &[])), false));
    store.append(1);
    store.clock.advance(330_000);
    // The retry: due after the longest back-off at most. The hand-out of 2: as if handed now.
    assert_eq!(shown(&newcomer.fetch(&mut store, 9, &[])), [(2, 2)]);
    store.clock.advance(570_000);
    assert_eq!(seqs(&newcomer.fetch(&mut store, 9, &[])), [1, 3]);
}

#[test]
fn what_was_due_before_the_clock_was_set_back_waits_again_and_ends_a_held_fetch_when_it_is_due() {
    let (mut store, mut laptop) = store_with(2);
    laptop.fetch(&mut store, 2, &[]);
    laptop.fetch(&mut store, 0, &[(1, "failed"), (2, "failed")]);
    store.clock.advance(30_000);
    // Both are due now, and one of them goes out.
    assert_eq!(seqs(&laptop.fetch(&mut store, 1, &[])), [1]);
    store.clock.advance(-3_600_000);
    let waiting = laptop.fetch(&mut store, 2, &[]);
    assert!(seqs(&waiting).is_empty());
    let now = store.clock.now();
    assert_eq!(waiting.next_due_at, Some(now.plus(900_000)));
    assert_eq!(verify(store.writer.connection(), now).unwrap(), []);
}
