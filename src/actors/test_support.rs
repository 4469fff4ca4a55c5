//! A real store behind a real `StoreActor`, in a directory of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};

use super::messages::{Fetch, Submit, WakeThrough};
use super::{Liveness, QueueRegistryActor, StoreActor, StoreDoor, StoreHealth, StoreParts};
use crate::domain::{
    Arrival, CallerToken, Clock, DedupKey, DropReason, Identity, InstanceName, OnUnresolved,
    Payload, PeerId, Provider, Reference, RunId, Source, SystemClock, WorkItemRef,
};
use crate::store::{Append, Settings, Writer, open_writer};
use crate::telemetry::EventLog;

/// The gateway without its doors: the store and the queues.
pub(super) struct Parts {
    pub(super) store: Addr<StoreActor>,
    pub(super) registry: Addr<QueueRegistryActor>,
    pub(super) health: StoreHealth,
    pub(super) liveness: Liveness,
    pub(super) directory: tempfile::TempDir,
}

pub(super) fn writer(directory: &Path) -> Writer {
    let connection = open_writer(&directory.join("gateway.db")).unwrap();
    Writer::new(connection, Settings::default(), Arc::new(SystemClock))
}

/// Claims the subject `loop-github-octo-repo-<number>` for an instance.
pub(super) fn claim(writer: &Writer, instance: &str, number: u64) {
    let sql = format!(
        "INSERT OR IGNORE INTO instances (name, created_at_ms) VALUES ('{instance}', 0);
         INSERT INTO claims (subject_key, instance_id, role, subject, claimed_at_ms)
         SELECT 'loop-github-octo-repo-{number}', id, 'driver', 'loop-github-octo-repo-{number}', 0
         FROM instances WHERE name = '{instance}'"
    );
    writer.connection().execute_batch(&sql).unwrap();
}

/// Starts everything on the arbiter of the test, after `prepare` has worked on the store.
pub(super) fn start(prepare: impl FnOnce(&Writer)) -> Parts {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(directory.path());
    prepare(&writer);
    start_over(writer, directory)
}

pub(super) fn start_over(writer: Writer, directory: tempfile::TempDir) -> Parts {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (health, liveness) = (StoreHealth::default(), Liveness::default());
    let store = StoreActor::new(StoreParts {
        writer,
        clock: Arc::clone(&clock),
        log: EventLog::silent(Arc::clone(&clock)),
        health: health.clone(),
        alive: liveness.alive("store"),
    })
    .checkpointing_beside()
    .start();
    let registry =
        QueueRegistryActor::new(door(&store), clock, liveness.alive("queue registry")).start();
    store
        .try_send(WakeThrough(registry.clone().recipient()))
        .unwrap();
    Parts {
        store,
        registry,
        health,
        liveness,
        directory,
    }
}

pub(super) fn door(store: &Addr<StoreActor>) -> StoreDoor {
    StoreDoor {
        fetch: store.clone().recipient(),
        commit: store.clone().recipient(),
    }
}

/// An event about `octo/repo#<number>`, told apart by `key`.
pub(super) fn append(number: u64, key: &str) -> Submit<Append> {
    append_of(number, key, format!("{{\"key\":\"{key}\"}}").as_bytes())
}

pub(super) fn append_of(number: u64, key: &str, payload: &[u8]) -> Submit<Append> {
    let work_item = WorkItemRef::github(None, "octo", "repo", number).unwrap();
    let arrival = Arrival {
        provider: Provider::GitHub,
        source: Source::Webhook,
        delivery_id: key.to_owned(),
        kind: "issue_comment".to_owned(),
        received_at: SystemClock.now(),
        happened_at: None,
        headers: BTreeMap::new(),
        payload: Payload::compress(payload).unwrap(),
        actor: None,
        keys: vec![Reference::Direct(work_item)],
        also: Vec::new(),
        learns: Vec::new(),
        dedup_keys: vec![DedupKey::delivery(format!(
            "github:github.com:delivery:{key}"
        ))],
        on_unresolved: OnUnresolved::Drop(DropReason::NoWorkItem),
        is_retry: false,
    };
    Submit(Append {
        arrival: Box::new(arrival),
        caller: CallerToken::always(),
    })
}

/// A fetch of one run of one peer, as a client begins.
pub(super) fn fetch(instance: &str, wait: Duration) -> Fetch {
    let peer = PeerId::parse(&format!("peer-of-{instance}")).unwrap();
    Fetch {
        identity: Identity {
            instance: InstanceName::parse(instance).unwrap(),
            peer: Some(peer.clone()),
            run: Some(RunId::parse("run-1").unwrap()),
        },
        peer,
        cursor: Some(0),
        limit: 64,
        lease_ms: 60_000,
        wait,
        commit: Vec::new(),
        caller: CallerToken::always(),
    }
}
