use std::time::Duration;

use futures_util::future::join_all;

use super::*;
use crate::actors::messages::Submit;
use crate::actors::test_support::{self, append, append_of, claim, start, start_over, writer};
use crate::domain::{CallerGuard, CommitItem, Outcome, Refusal, Seq};
use crate::store::{Append, Appended, FetchBatch, Probe, Tx};

#[actix::test]
async fn a_lone_write_commits_at_once() {
    let parts = start(|_| {});
    let stored = parts.store.send(append(1, "a")).await.unwrap().unwrap();
    assert!(matches!(stored, Appended::Stored { .. }));
    let state = parts.store.send(Observe).await.unwrap();
    assert_eq!(state.pending, 0);
    assert_eq!(state.ended_by.get(&BatchEnd::Drained), Some(&state.batches));
}

#[actix::test]
async fn a_burst_shares_transactions_and_fills_some() {
    let parts = start(|_| {});
    let burst = (1..=1000).map(|number| parts.store.send(append(number, &number.to_string())));
    for answer in join_all(burst).await {
        assert!(matches!(answer.unwrap().unwrap(), Appended::Stored { .. }));
    }
    let state = parts.store.send(Observe).await.unwrap();
    assert!(state.batches < 20, "{state:?}");
    assert!(state.ended_by[&BatchEnd::WritesMax] >= 3, "{state:?}");
}

#[actix::test]
async fn a_batch_ends_when_its_bytes_are_reached() {
    let parts = start(|_| {});
    // Incompressible enough: a linear congruential sequence as text.
    let mut seed = 1_u64;
    let mut large = b"{\"x\":\"".to_vec();
    while large.len() < 2 * BATCH_BYTES_MAX {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        large.extend(format!("{seed:016x}").bytes());
    }
    large.extend(b"\"}");
    let pair = [append_of(1, "a", &large), append_of(2, "b", b"{}")];
    for answer in join_all(pair.map(|write| parts.store.send(write))).await {
        answer.unwrap().unwrap();
    }
    let state = parts.store.send(Observe).await.unwrap();
    assert_eq!(
        state.ended_by.get(&BatchEnd::BytesMax),
        Some(&1),
        "{state:?}"
    );
}

fn fetch_with(seq: i64) -> FetchBatch {
    let fetch = test_support::fetch("laptop", Duration::ZERO);
    FetchBatch {
        identity: fetch.identity,
        peer: fetch.peer,
        cursor: Some(0),
        limit: 10,
        lease_ms: 60_000,
        park_ms: None,
        commit: vec![CommitItem {
            seq: Seq(seq),
            outcome: Outcome::Delivered,
            detail: None,
        }],
        caller: fetch.caller,
    }
}

#[actix::test]
async fn a_refused_write_is_undone_alone() {
    let parts = start(|_| {});
    let first = parts.store.send(append(1, "a"));
    let refused = parts.store.send(Submit(fetch_with(77)));
    let last = parts.store.send(append(2, "b"));
    let (first, refused, last) = tokio::join!(first, refused, last);
    assert!(matches!(first.unwrap(), Ok(Appended::Stored { .. })));
    assert!(matches!(
        refused.unwrap(),
        Err(StoreError::Refused(Refusal::CommitUndelivered { .. }))
    ));
    assert!(matches!(last.unwrap(), Ok(Appended::Stored { .. })));
}

/// A write that ends the batch's transaction under it.
struct Saboteur;

impl Write for Saboteur {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.connection.execute_batch("ROLLBACK").unwrap();
        Ok(())
    }
}

#[actix::test]
async fn a_failed_batch_fails_everybody_in_it_and_heals_by_itself() {
    let parts = start(|_| {});
    let doomed = parts.store.send(append(1, "a"));
    let saboteur = parts.store.send(Submit(Saboteur));
    let (doomed, saboteur) = tokio::join!(doomed, saboteur);
    assert!(matches!(doomed.unwrap(), Err(StoreError::Aborted(_))));
    assert!(matches!(saboteur.unwrap(), Err(StoreError::Aborted(_))));
    assert!(!parts.health.is_ok());
    parts.store.send(Submit(Probe)).await.unwrap().unwrap();
    assert!(parts.health.is_ok());
    let again = parts.store.send(append(1, "a")).await.unwrap().unwrap();
    assert!(matches!(again, Appended::Stored { .. }), "{again:?}");
    let state = parts.store.send(Observe).await.unwrap();
    assert_eq!(state.failed, 1);
}

struct Bomb;

impl Write for Bomb {
    type Reply = ();

    fn apply(self, _: &mut Tx<'_>) -> Result<(), StoreError> {
        panic!("on purpose");
    }
}

#[actix::test]
async fn a_panic_ends_the_actor_and_is_heard() {
    let mut parts = start(|_| {});
    let innocent = parts.store.send(append(1, "a"));
    let bomb = parts.store.send(Submit(Bomb));
    let (innocent, bomb) = tokio::join!(innocent, bomb);
    assert!(!matches!(innocent, Ok(Ok(_))));
    assert!(!matches!(bomb, Ok(Ok(()))));
    assert_eq!(parts.liveness.first_gone().await, "store");
    assert!(parts.store.send(append(2, "b")).await.is_err());
}

#[actix::test]
async fn a_write_whose_caller_left_is_not_begun() {
    let parts = start(|_| {});
    let guard = CallerGuard::new();
    let mut write = append(1, "a");
    write.0.caller = guard.token();
    drop(guard);
    let answer = parts.store.send(write).await.unwrap();
    assert!(matches!(answer, Err(StoreError::CallerGone)));
    assert!(parts.health.is_ok());
    let other = parts.store.send(append(1, "a")).await.unwrap().unwrap();
    assert!(matches!(other, Appended::Stored { .. }));
}

#[actix::test]
async fn nothing_is_written_once_the_store_is_closed() {
    let parts = start(|_| {});
    let last = parts.store.send(append(1, "a"));
    let close = parts.store.send(Close);
    let late = parts.store.send(append(2, "b"));
    let (last, close, late) = tokio::join!(last, close, late);
    assert!(matches!(last.unwrap(), Ok(Appended::Stored { .. })));
    assert_eq!(close.unwrap().unwrap().log_pages, 0);
    assert!(matches!(late.unwrap(), Err(StoreError::Aborted(_))));
    assert!(parts.store.send(Close).await.unwrap().is_err());
    assert!(parts.store.send(Checkpoint).await.unwrap().is_err());
}

/// Counts the wakes that it gets.
#[derive(Default)]
struct Sleeper(Vec<std::collections::BTreeSet<InstanceName>>);

impl Actor for Sleeper {
    type Context = Context<Self>;
}

impl Handler<DeliveriesRouted> for Sleeper {
    type Result = ();

    fn handle(&mut self, routed: DeliveriesRouted, _: &mut Self::Context) {
        self.0.push(routed.instances);
    }
}

struct Woken;

impl Message for Woken {
    type Result = Vec<std::collections::BTreeSet<InstanceName>>;
}

impl Handler<Woken> for Sleeper {
    type Result = MessageResult<Woken>;

    fn handle(&mut self, _: Woken, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.0.clone())
    }
}

#[actix::test]
async fn a_batch_wakes_once_whom_it_concerns() {
    let parts = start(|writer| {
        claim(writer, "laptop", 1);
        claim(writer, "desktop", 2);
    });
    let sleeper = Sleeper::default().start();
    let wakes = WakeThrough(sleeper.clone().recipient());
    parts.store.send(wakes).await.unwrap();
    let burst = [(1, "a"), (2, "b"), (1, "c"), (3, "held")];
    let burst = burst.map(|(number, key)| parts.store.send(append(number, key)));
    for answer in join_all(burst).await {
        answer.unwrap().unwrap();
    }
    let woken = sleeper.send(Woken).await.unwrap();
    let names: Vec<_> = woken.iter().flatten().map(InstanceName::as_str).collect();
    assert_eq!(names, ["desktop", "laptop"]);
    assert_eq!(woken.len(), 1);
}

#[actix::test]
async fn a_routing_that_the_last_process_left_unfinished_is_taken_up() {
    const HELD: i64 = 1_200;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(directory.path());
    for number in 0..HELD {
        let Submit(write) = append(1, &number.to_string());
        let appended: Result<<Append as Write>::Reply, StoreError> = writer.commit_one(write).0;
        appended.unwrap();
    }
    claim(&writer, "laptop", 1);
    let pending = "INSERT INTO pending_routings (scope, key, after_event_id, created_at_ms)
                   VALUES ('subject', 'loop-github-octo-repo-1', 0, 0)";
    writer.connection().execute_batch(pending).unwrap();

    let parts = start_over(writer, directory);
    let mut fetch = fetch_with(1);
    fetch.commit.clear();
    fetch.limit = 1;
    // The arrival waits behind the routing, so it is the last of the subject.
    let late = parts.store.send(append(1, "late")).await.unwrap().unwrap();
    assert!(matches!(late, Appended::Stored { ref to, .. } if to.is_empty()));
    let is_done = async {
        loop {
            let state = parts.store.send(Observe).await.unwrap();
            if state.pending == 0 {
                return state;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), is_done)
        .await
        .unwrap();
    let fetched = parts.store.send(Submit(fetch)).await.unwrap().unwrap();
    assert_eq!(fetched.deliveries.len(), 1);
    let counts = parts.store.send(Submit(CountDeliveries)).await;
    // With the late one.
    assert_eq!(counts.unwrap().unwrap(), HELD.saturating_add(1));
}

struct CountDeliveries;

impl Write for CountDeliveries {
    type Reply = i64;

    fn apply(self, tx: &mut Tx<'_>) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM deliveries";
        Ok(tx.connection.query_row(sql, [], |row| row.get(0)).unwrap())
    }
}

#[actix::test]
async fn an_append_that_fails_among_others_fails_alone() {
    let parts = start(|writer| {
        claim(writer, "laptop", 1);
        claim(writer, "laptop", 2);
        // Unreadable: what is routed to it cannot be.
        let broken = "INSERT INTO instances (name, created_at_ms) VALUES ('not a name', 0);
                      INSERT INTO claims (subject_key, instance_id, role, subject, claimed_at_ms)
                      SELECT 'loop-github-octo-repo-9', id, 'driver', '', 0
                      FROM instances WHERE name = 'not a name'";
        writer.connection().execute_batch(broken).unwrap();
    });
    let burst = [(1, "a"), (9, "b"), (2, "c"), (9, "d"), (1, "e")];
    let burst = burst.map(|(number, key)| parts.store.send(append(number, key)));
    let answers: Vec<_> = join_all(burst)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let is_stored: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(is_stored, [true, false, true, false, true]);
    // The batch was tried as a whole first: nothing of that is left.
    let mut fetch = fetch_with(1);
    fetch.commit.clear();
    let fetched = parts.store.send(Submit(fetch)).await.unwrap().unwrap();
    assert_eq!(fetched.deliveries.len(), 3);
    let counts = parts.store.send(Submit(CountDeliveries)).await;
    assert_eq!(counts.unwrap().unwrap(), 3);
}

#[actix::test]
async fn a_busy_store_is_checkpointed_beside_the_writer() {
    let parts = start(|_| {});
    let database = parts.directory.path().join("gateway.db");
    let before = std::fs::metadata(&database).unwrap().len();
    let enough = before.saturating_add(64 * 1024);
    let grown = async {
        // Fewer pages than the writer would checkpoint by itself at.
        for round in 0..8 {
            let burst = (1..=256).map(|number| {
                let key = format!("{round}-{number}");
                parts.store.send(append(number, &key))
            });
            for answer in join_all(burst).await {
                answer.unwrap().unwrap();
            }
        }
        while std::fs::metadata(&database).unwrap().len() < enough {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), grown)
        .await
        .unwrap();
    let closed = parts.store.send(Close).await.unwrap().unwrap();
    assert!(!closed.is_held_up, "{closed:?}");
}
