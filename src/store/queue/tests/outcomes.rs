//! What an instance says of deliveries.

use crate::domain::{Refusal, Seq};
use crate::store::StoreError;
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

fn state_of(store: &TestStore, seq: i64) -> i64 {
    store.number(&format!("SELECT state FROM deliveries WHERE seq = {seq}"))
}

fn outcome_of(store: &TestStore, seq: i64) -> String {
    store.text(&format!("SELECT outcome FROM deliveries WHERE seq = {seq}"))
}

fn refused_seqs(result: Result<impl std::fmt::Debug, StoreError>) -> Vec<i64> {
    match result {
        Err(StoreError::Refused(Refusal::CommitUndelivered { seqs })) => {
            seqs.into_iter().map(|Seq(seq)| seq).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_commit_for_a_delivery_never_fetched_is_refused_and_nothing_of_it_is_applied() {
    let (mut store, mut laptop) = store_with(&[1, 2, 3]);
    laptop.fetch(&mut store, 1, &[]);
    let refused = refused_seqs(laptop.commit(
        &mut store,
        &[(1, "delivered"), (3, "delivered"), (99, "failed")],
    ));
    assert_eq!(refused, [3, 99]);
    assert_eq!(state_of(&store, 1), 1);
    let refused = refused_seqs(store.submit(laptop.request(9, &[(2, "delivered")])));
    assert_eq!(refused, [2]);
    assert_eq!(state_of(&store, 2), 0);
}

#[test]
fn a_commit_for_a_delivery_of_another_queue_is_refused() {
    let (mut store, mut laptop) = store_with(&[]);
    store.claim("server", 1);
    store.append(1);
    let mut server = Client {
        peer: "peer-2",
        ..Client::new("server")
    };
    let foreign = seqs(&server.fetch(&mut store, 1, &[]))[0];
    laptop.fetch(&mut store, 1, &[]);
    assert_eq!(
        refused_seqs(laptop.commit(&mut store, &[(foreign, "delivered")])),
        [foreign]
    );
}

#[test]
fn a_commit_for_a_delivery_whose_row_is_gone_wedges_nobody() {
    let (mut store, mut laptop) = store_with(&[1, 2]);
    laptop.fetch(&mut store, 9, &[]);
    store
        .writer
        .connection()
        .execute("DELETE FROM deliveries WHERE seq = 1", [])
        .unwrap();
    laptop
        .commit(&mut store, &[(1, "delivered"), (2, "delivered")])
        .unwrap();
    assert_eq!(state_of(&store, 2), 2);
}

#[test]
fn of_two_outcomes_for_one_delivery_the_last_counts() {
    let (mut store, mut laptop) = store_with(&[1]);
    laptop.fetch(&mut store, 1, &[]);
    laptop
        .commit(&mut store, &[(1, "failed"), (1, "spawned")])
        .unwrap();
    assert_eq!(
        (state_of(&store, 1), outcome_of(&store, 1)),
        (2, "spawned".into())
    );
}

#[test]
fn a_repeated_commit_changes_nothing_and_the_first_outcome_stands() {
    let (mut store, mut laptop) = store_with(&[1]);
    laptop.fetch(&mut store, 1, &[]);
    laptop
        .commit(&mut store, &[(1, "dropped:awaiting-start")])
        .unwrap();
    for late in ["delivered", "failed", "released", "dropped:awaiting-start"] {
        laptop.commit(&mut store, &[(1, late)]).unwrap();
        assert_eq!(outcome_of(&store, 1), "dropped:awaiting-start");
    }
    assert_eq!(
        store
            .recorded()
            .iter()
            .filter(|name| **name == "subject.committed")
            .count(),
        1
    );
}

#[test]
fn an_outcome_settles_a_delivery_that_was_put_back_or_is_in_other_hands() {
    let (mut store, mut old) = store_with(&[1, 2]);
    old.fetch(&mut store, 9, &[]);
    let mut new = old.restarted("run-2");
    assert_eq!(new.fetch(&mut store, 1, &[]).deliveries.len(), 1);
    // The old run says what it did before it was told to stop.
    old.commit(&mut store, &[(1, "delivered"), (2, "spawned")])
        .unwrap();
    assert_eq!((state_of(&store, 1), state_of(&store, 2)), (2, 2));
}

#[test]
fn a_failure_counts_only_for_a_hand_out_that_its_sender_received() {
    let (mut store, mut laptop) = store_with(&[1]);
    laptop.fetch(&mut store, 1, &[]);
    let early = laptop.clone();
    laptop.fetch(&mut store, 1, &[(1, "failed")]);
    store.clock.advance(30_000);
    laptop.fetch(&mut store, 1, &[]);
    // The first request's commit arrives again, late: its cursor does not cover this hand-out.
    early.commit(&mut store, &[(1, "failed")]).unwrap();
    assert_eq!(state_of(&store, 1), 1);
    assert_eq!(store.number("SELECT strikes FROM deliveries"), 1);
    // Without a cursor it would count.
    let bold = Client {
        cursor: None,
        ..laptop
    };
    bold.commit(&mut store, &[(1, "failed")]).unwrap();
    assert_eq!(store.number("SELECT strikes FROM deliveries"), 2);
}

#[test]
fn a_failure_of_a_superseded_run_does_not_touch_what_the_new_run_holds() {
    let (mut store, mut old) = store_with(&[1]);
    old.fetch(&mut store, 1, &[]);
    let mut new = old.restarted("run-2");
    new.fetch(&mut store, 1, &[]);
    Client {
        cursor: None,
        ..old
    }
    .commit(&mut store, &[(1, "failed")])
    .unwrap();
    assert_eq!(state_of(&store, 1), 1);
}

#[test]
fn a_failure_is_due_again_after_a_back_off_that_follows_the_strikes() {
    let (mut store, mut laptop) = store_with(&[1]);
    laptop.fetch(&mut store, 1, &[]);
    laptop.fetch(&mut store, 1, &[(1, "failed")]);
    store.clock.advance(29_999);
    assert_eq!(
        laptop.fetch(&mut store, 1, &[]).next_due_at.unwrap().0,
        START + 30_000
    );
    store.clock.advance(1);
    assert_eq!(shown(&laptop.fetch(&mut store, 1, &[])), [(1, 2)]);
    laptop.fetch(&mut store, 1, &[(1, "failed")]);
    store.clock.advance(119_999);
    assert_eq!(seqs(&laptop.fetch(&mut store, 1, &[])), NONE);
    store.clock.advance(1);
    assert_eq!(shown(&laptop.fetch(&mut store, 1, &[])), [(1, 3)]);
}

#[test]
fn released_is_due_in_two_seconds_as_the_same_attempt_without_a_strike() {
    let (mut store, mut laptop) = store_with(&[1, 1]);
    laptop.fetch(&mut store, 9, &[]);
    assert_eq!(
        seqs(&laptop.fetch(&mut store, 9, &[(1, "released"), (2, "released")])),
        NONE
    );
    store.clock.advance(2_000);
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(1, 1), (2, 1)]);
    assert_eq!(store.number("SELECT max(strikes) FROM deliveries"), 0);
}

#[test]
fn the_last_strike_kills_a_delivery_and_its_subject_moves_on() {
    let (mut store, mut laptop) = store_with(&[1, 1]);
    for wait in [30_000, 120_000, 0] {
        assert_eq!(seqs(&laptop.fetch(&mut store, 1, &[])), [1]);
        laptop.commit(&mut store, &[(1, "failed")]).unwrap();
        store.clock.advance(wait);
    }
    assert_eq!(state_of(&store, 1), 3);
    assert!(store.recorded().contains(&"subject.dead-lettered"));
    assert_eq!(shown(&laptop.fetch(&mut store, 9, &[])), [(2, 1)]);
    assert_eq!(store.number("SELECT backlog FROM instances"), 1);
    // A late word that it was handled after all settles even the dead.
    laptop.commit(&mut store, &[(1, "delivered")]).unwrap();
    assert_eq!(state_of(&store, 1), 2);
    assert_eq!(store.number("SELECT backlog FROM instances"), 1);
}

#[test]
fn an_outcome_settles_the_whole_chain_of_rows_that_replaced_a_delivery() {
    let (mut store, mut laptop) = store_with(&[1]);
    laptop.fetch(&mut store, 1, &[]);
    let connection = store.writer.connection();
    connection
        .execute_batch(
            "UPDATE deliveries SET state = 3, replaced = 1; UPDATE instances SET backlog = 1;
         UPDATE lanes SET state = 0, head_event_id = 1;
         INSERT INTO deliveries (instance_id, event_id, lane_id, routed_at_ms, redrive_of, why)
         SELECT instance_id, event_id, lane_id, 0, 1, 'redrive' FROM deliveries;",
        )
        .unwrap();
    laptop.commit(&mut store, &[(1, "delivered")]).unwrap();
    assert_eq!((state_of(&store, 1), state_of(&store, 2)), (2, 2));
    assert_eq!(store.number("SELECT count(*) FROM lanes"), 0);
    assert_eq!(store.number("SELECT backlog FROM instances"), 0);
}

#[test]
fn a_detail_is_kept_with_its_outcome() {
    let (mut store, mut laptop) = store_with(&[1]);
    laptop.fetch(&mut store, 1, &[]);
    let mut request = laptop.request(0, &[(1, "failed")]);
    request.commit[0].detail = Some("no tmux".into());
    store.submit(request).unwrap();
    assert_eq!(store.text("SELECT detail FROM deliveries"), "no tmux");
}

#[test]
fn a_commit_wakes_the_poll_that_its_outcomes_set_free() {
    let (mut store, mut laptop) = store_with(&[1]);
    laptop.fetch(&mut store, 1, &[]);
    store.wakes.clear();
    laptop.commit(&mut store, &[(1, "delivered")]).unwrap();
    assert_eq!(store.wakes, ["laptop"]);
}
