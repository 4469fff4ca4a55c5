//! A store without a gateway: one writer that is told what to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use the_loop_gateway::domain::*;
use the_loop_gateway::store::{
    Append, CommitOutcomes, FetchBatch, Fetched, PutClaim, Settings, Write, Writer, open_writer,
    pending,
};

use super::payloads;

/// About what a batch holds when 64 connections send as fast as they can.
pub(crate) const BATCH: usize = 32;

/// A writer and its clock.
pub(crate) struct Stock {
    pub(crate) writer: Writer,
}

impl Stock {
    pub(crate) fn open(path: &Path) -> Self {
        let connection = open_writer(path).expect("a store");
        let writer = Writer::new(connection, Settings::default(), Arc::new(SystemClock));
        Self { writer }
    }

    pub(crate) fn submit<W: Write>(&mut self, write: W) -> W::Reply {
        let (reply, report) = self.writer.commit_one(write);
        assert!(report.failure.is_none(), "{:?}", report.failure);
        reply.expect("a write that is not refused")
    }

    /// Applies writes of a kind, some in a batch.
    pub(crate) fn submit_all<W: Write>(&mut self, writes: impl IntoIterator<Item = W>) {
        let mut writes = writes.into_iter();
        loop {
            let batch: Vec<_> = writes
                .by_ref()
                .take(BATCH)
                .map(|write| pending(write, |result| assert!(result.is_ok())))
                .collect();
            if batch.is_empty() {
                return;
            }
            let report = self.writer.commit_batch(batch);
            assert!(report.failure.is_none(), "{:?}", report.failure);
        }
    }

    /// Claims `octo/repo#<number>`.
    pub(crate) fn claim(&mut self, instance: &str, number: u64) {
        self.submit(PutClaim {
            identity: identity(instance),
            subject: item(number).subject(),
            role: Role::Driver,
        });
    }

    /// Stores a comment on `octo/repo#<number>`.
    pub(crate) fn append(&mut self, number: u64, id: u64, bytes: usize) {
        self.submit(append(id, number, &payloads::comment(id, number, bytes)));
    }

    /// Fetches, with outcomes for what came before.
    pub(crate) fn fetch(
        &mut self,
        instance: &str,
        cursor: i64,
        commit: Vec<CommitItem>,
    ) -> Fetched {
        let identity = identity(instance);
        self.submit(FetchBatch {
            peer: identity.peer.clone().expect("a peer"),
            identity,
            cursor: Some(cursor),
            limit: 256,
            lease_ms: 60_000,
            park_ms: None,
            commit,
            caller: CallerToken::always(),
        })
    }

    /// Says what became of deliveries.
    pub(crate) fn commit(&mut self, instance: &str, cursor: i64, commit: Vec<CommitItem>) {
        self.submit(CommitOutcomes {
            identity: identity(instance),
            cursor: Some(cursor),
            commit,
        });
    }
}

/// The same outcome for all that was fetched.
pub(crate) fn all(fetched: &Fetched, outcome: &str) -> Vec<CommitItem> {
    let outcome = Outcome::parse(outcome).expect("an outcome");
    fetched
        .deliveries
        .iter()
        .map(|delivery| CommitItem {
            seq: delivery.seq,
            outcome: outcome.clone(),
            detail: None,
        })
        .collect()
}

fn identity(instance: &str) -> Identity {
    Identity {
        instance: InstanceName::parse(instance).expect("a name"),
        peer: Some(PeerId::parse(&format!("peer-{instance}")).expect("a peer")),
        run: Some(RunId::parse("run-1").expect("a run")),
    }
}

fn item(number: u64) -> WorkItemRef {
    WorkItemRef::github(None, "octo", "repo", number).expect("a reference")
}

/// A comment on `octo/repo#<number>`, as it is stored.
pub(crate) fn append(id: u64, number: u64, payload: &[u8]) -> Append {
    Append {
        arrival: Box::new(arrival(id, number, payload)),
        caller: CallerToken::always(),
    }
}

fn arrival(id: u64, number: u64, payload: &[u8]) -> Arrival {
    Arrival {
        provider: Provider::GitHub,
        source: Source::Webhook,
        delivery_id: format!("bench-{id}"),
        kind: "issue_comment".to_owned(),
        received_at: SystemClock.now(),
        happened_at: None,
        headers: BTreeMap::from([("x-github-event".into(), "issue_comment".into())]),
        payload: Payload::compress(payload).expect("memory"),
        actor: Some(EventActor {
            provider: Provider::GitHub,
            name: "octocat".into(),
        }),
        keys: vec![Reference::Direct(item(number))],
        also: Vec::new(),
        learns: Vec::new(),
        dedup_keys: vec![
            DedupKey::delivery(format!("github:github.com:delivery:bench-{id}")),
            DedupKey::object(format!("gh:github.com:issue_comment:{id}:created")),
        ],
        on_unresolved: OnUnresolved::Drop(DropReason::NoWorkItem),
        is_retry: false,
    }
}
