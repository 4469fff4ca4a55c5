use super::*;
use crate::actors::test_support::{Parts, append, start};
use crate::domain::SystemClock;
use crate::store::Tx;

fn keep(parts: &Parts) -> actix::Addr<HousekeepingActor> {
    HousekeepingActor::new(HousekeepingParts {
        store: parts.store.clone(),
        health: parts.health.clone(),
        clock: Arc::new(SystemClock),
        wal_path: parts.directory.path().join("gateway.db-wal"),
        every: Duration::from_millis(10),
        sweep_every: Duration::from_secs(60),
        alive: parts.liveness.alive("housekeeping"),
    })
    .start()
}

async fn wait_until(mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::timeout(Duration::from_secs(30), async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    deadline.await.unwrap();
}

/// Ends the transaction of its batch under it.
struct Saboteur;

impl Write for Saboteur {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.connection.execute_batch("ROLLBACK").unwrap();
        Ok(())
    }
}

#[actix::test]
async fn a_store_that_failed_is_tried_until_it_works() {
    let parts = start(|_| {});
    parts
        .store
        .send(Submit(Saboteur))
        .await
        .unwrap()
        .unwrap_err();
    assert!(!parts.health.is_ok());
    let _keeper = keep(&parts);
    wait_until(async || parts.health.is_ok()).await;
}

#[actix::test]
async fn an_idle_store_is_checkpointed_once() {
    let parts = start(|_| {});
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    let wal = parts.directory.path().join("gateway.db-wal");
    assert!(std::fs::metadata(&wal).unwrap().len() > 0);
    let _keeper = keep(&parts);
    wait_until(async || {
        let done = parts.store.send(Checkpoint).await.unwrap().unwrap();
        done.log_pages == done.moved_pages
    })
    .await;
}

#[actix::test]
async fn what_is_too_old_goes() {
    let parts = start(|writer| {
        let old = "INSERT INTO seen_keys (key, event_id, seen_at_ms, orphan)
                   VALUES ('old', 1, 0, 1)";
        writer.connection().execute_batch(old).unwrap();
    });
    parts.store.send(append(1, "a")).await.unwrap().unwrap();
    let _keeper = keep(&parts);
    // The sweep runs and leaves the new event alone.
    let mut rounds = 0_u64;
    wait_until(async || {
        let writes = parts.store.send(Observe).await.unwrap().writes;
        let is_busy = writes > rounds;
        rounds = writes;
        !is_busy || writes > 10
    })
    .await;
    assert!(parts.health.is_ok());
}
