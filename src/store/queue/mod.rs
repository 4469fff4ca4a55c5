//! The queue of an instance: who may ask, what is said of deliveries, what is taken back, what
//! goes out. One fetch is these four steps in one savepoint.

use super::error::StoreError;
use super::writer::{Tx, Write};
use crate::domain::{CallerToken, CommitItem, Delivery, Identity, Millis, Seq, Timestamp};

/// Fetches the next deliveries of a queue. Sent by the queue's actor.
#[derive(Debug, Clone)]
pub struct FetchBatch {
    /// Who asks; a fetch names its peer.
    pub identity: Identity,
    /// The number of the last response that the client received.
    pub cursor: Option<i64>,
    /// Deliveries at most; 0 commits and renews only.
    pub limit: u32,
    /// How long the lease lasts after the answer, before clamping.
    pub lease_ms: Millis,
    /// When nothing is due: how long the poll will be held, so that the lease covers it.
    pub park_ms: Option<Millis>,
    /// The outcomes of earlier deliveries.
    pub commit: Vec<CommitItem>,
    /// Who waits; nothing is handed to a caller that is gone.
    pub caller: CallerToken,
}

/// What a fetch answers.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The deliveries, oldest event first.
    pub deliveries: Vec<Delivery>,
    /// The number of this response, or the request's cursor when it brings nothing.
    pub cursor: i64,
    /// One below the lowest live delivery of the queue.
    pub committed: Seq,
    /// How long the lease lasts from now.
    pub lease_ms: Millis,
    /// When something may be due that is not due now.
    pub next_due_at: Option<Timestamp>,
}

/// Commits outcomes without fetching. Sent by the queue's actor.
#[derive(Debug, Clone)]
pub struct CommitOutcomes {
    /// Who asks.
    pub identity: Identity,
    /// The number of the last response that the client received.
    pub cursor: Option<i64>,
    /// The outcomes.
    pub commit: Vec<CommitItem>,
}

/// What a commit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// One below the lowest live delivery of the queue.
    pub committed: Seq,
    /// How long the lease lasts from now; 0 without a lease.
    pub lease_ms: Millis,
}

impl Write for FetchBatch {
    type Reply = Fetched;
    fn apply(self, _tx: &mut Tx<'_>) -> Result<Fetched, StoreError> {
        Err(StoreError::CallerGone)
    }
}
impl Write for CommitOutcomes {
    type Reply = Committed;
    fn apply(self, _tx: &mut Tx<'_>) -> Result<Committed, StoreError> {
        Err(StoreError::CallerGone)
    }
}
