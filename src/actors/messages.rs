//! What actors say to each other. One struct a message; the reply's type stands with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{Message, Recipient};

use crate::domain::{CallerToken, CommitItem, Identity, InstanceName, Millis, PeerId, Timestamp};
use crate::providers::Declared;
use crate::store::{Checkpointed, CommitOutcomes, Committed, Fetched, Settings, StoreError, Write};

// To the StoreActor.

/// A write for the `StoreActor`; answered after the COMMIT that holds it.
///
/// Sent by everything that changes the store; refused as [`StoreError`] says. A batch holds
/// whatever arrived while the last COMMIT waited for the disk.
#[derive(Debug)]
pub struct Submit<W>(pub W);

impl<W: Write> Message for Submit<W> {
    type Result = Result<W::Reply, StoreError>;
}

/// Puts other bounds in force from the next batch on. Sent when the configuration changed.
#[derive(Debug)]
pub struct ReplaceSettings(pub Settings);

impl Message for ReplaceSettings {
    type Result = ();
}

/// Says where wakes go. Sent once, before the first write: the store comes first, and whom it
/// wakes needs its address.
#[derive(Debug)]
pub struct WakeThrough(pub Recipient<DeliveriesRouted>);

impl Message for WakeThrough {
    type Result = ();
}

/// Moves what is committed from the WAL into the database file. Sent by housekeeping when idle.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint;

impl Message for Checkpoint {
    type Result = Result<Checkpointed, StoreError>;
}

/// Gives back at most so many unused pages of the file, between batches; answers how many are left.
/// Sent by housekeeping after a sweep.
#[derive(Debug, Clone, Copy)]
pub struct GiveBackPages(pub u32);

impl Message for GiveBackPages {
    type Result = Result<u64, StoreError>;
}

/// Commits what waits, checkpoints and closes the file; every later write is refused. Sent at the
/// end, when nothing is on its way any more.
#[derive(Debug, Clone, Copy)]
pub struct Close;

impl Message for Close {
    type Result = Result<Checkpointed, StoreError>;
}

/// Asks how the `StoreActor` does; answered at once. Sent by metrics and tests.
#[derive(Debug, Clone, Copy)]
pub struct Observe;

impl Message for Observe {
    type Result = StoreState;
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BatchEnd {
    /// Nothing else waited.
    Drained,
    /// It held as many writes as a batch may.
    WritesMax,
    /// It held as many bytes as a batch may.
    BytesMax,
    /// The gateway stops.
    Shutdown,
}

impl BatchEnd {
    /// The word shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::WritesMax => "writes-max",
            Self::BytesMax => "bytes-max",
            Self::Shutdown => "shutdown",
        }
    }
}

/// How the `StoreActor` does.
#[derive(Debug, Clone, Default)]
pub struct StoreState {
    /// Writes that wait for their batch.
    pub pending: usize,
    /// Writes that were answered.
    pub writes: u64,
    /// Batches so far.
    pub batches: u64,
    /// Batches that failed as a whole.
    pub failed: u64,
    /// Why batches ended.
    pub ended_by: BTreeMap<BatchEnd, u64>,
}

// To the queues.

/// Something may be due on these queues. Sent by the `StoreActor` after each COMMIT, one for the
/// whole batch.
#[derive(Debug, Clone)]
pub struct DeliveriesRouted {
    /// The queues.
    pub instances: BTreeSet<InstanceName>,
}

impl Message for DeliveriesRouted {
    type Result = ();
}

/// Something may be due on this queue. Sent by the registry to a queue that somebody uses.
#[derive(Debug, Clone, Copy)]
pub struct Wake;

impl Message for Wake {
    type Result = ();
}

/// Fetches from a queue; held while nothing is due and `wait` allows. Sent by HTTP.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// Who asks.
    pub identity: Identity,
    /// The installation that asks; the one that `identity` names.
    pub peer: PeerId,
    /// The number of the last response that the client received.
    pub cursor: Option<i64>,
    /// Deliveries at most; 0 commits and renews only.
    pub limit: u32,
    /// How long the lease lasts after the answer.
    pub lease_ms: Millis,
    /// How long to hold it, clamped and granted by the sender; zero: not at all.
    pub wait: Duration,
    /// The outcomes of earlier deliveries.
    pub commit: Vec<CommitItem>,
    /// Who waits.
    pub caller: CallerToken,
}

impl Message for Fetch {
    type Result = Result<FetchAnswer, QueueError>;
}

/// What a fetch is answered.
#[derive(Debug, Clone)]
pub struct FetchAnswer {
    /// What the store said last.
    pub fetched: Fetched,
    /// Why it was answered now.
    pub ended: PollEnd,
}

/// Why a fetch was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollEnd {
    /// It brings deliveries, or was not to wait.
    Answered,
    /// Its wait is over.
    WaitElapsed,
    /// A newer fetch of the same name took its place.
    Superseded,
    /// The gateway stops.
    Drained,
}

/// Commits outcomes without fetching; reaches the store in order with the fetches of its queue.
#[derive(Debug, Clone)]
pub struct Commit(pub CommitOutcomes);

impl Message for Commit {
    type Result = Result<Committed, QueueError>;
}

/// Answers every held fetch and holds none from now on. Sent at the end.
#[derive(Debug, Clone, Copy)]
pub struct Drain;

impl Message for Drain {
    type Result = ();
}

/// Why a queue did not answer what was asked.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The store said no, or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// More requests of this queue wait than may.
    #[error("too many requests of this queue wait")]
    Overloaded,
    /// The queue is gone: the gateway stops, or something failed for good.
    #[error("the queue is gone")]
    Unavailable,
}

impl From<actix::MailboxError> for QueueError {
    fn from(_: actix::MailboxError) -> Self {
        Self::Unavailable
    }
}

// To and from the ingresses.

/// Where an ingress stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IngressState {
    /// It takes events; for Slack's socket: `hello` came.
    Up,
    /// On its way up.
    Connecting,
    /// Something failed; it tries again by itself, soon.
    BackingOff,
    /// The variable of its secret is not set.
    MissingSecret,
    /// Switched off by the configuration.
    Disabled,
    /// Something failed that somebody has to mend; it still tries, slowly.
    Failed,
}

impl IngressState {
    /// The word recorded and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Connecting => "connecting",
            Self::BackingOff => "backing-off",
            Self::MissingSecret => "missing-secret",
            Self::Disabled => "disabled",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for IngressState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An ingress has another state. Sent by the adapters to their supervisor, in order; nobody waits
/// for the answer.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct IngressChanged {
    /// The ingress.
    pub name: String,
    /// Its new state.
    pub state: IngressState,
    /// Since when.
    pub since: Timestamp,
    /// What went wrong last, without values of secrets.
    pub error: Option<String>,
    /// The variable that is not set.
    pub variable: Option<String>,
    /// How many connections of its app Slack counts, this one included; only the socket knows.
    pub connections: Option<u64>,
}

/// Other repositories, projects or rooms are declared now. Sent by the supervisor to the adapters
/// after a reload; answered once it is in force for what arrives next.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Redeclare(pub Arc<Declared>);

/// Finish what is in flight, tell the provider, and stop. Sent by the supervisor to an adapter;
/// answered once nothing of it is left.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct StopIngress;

/// Stop every ingress, and start none from now on. Sent at the end; answered once nothing of them
/// is left.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct StopIngresses;

/// Look at once whether the configuration changed. Sent when somebody asks for it by a signal.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct LookNow;
