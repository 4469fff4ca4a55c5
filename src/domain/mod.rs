//! The words of the gateway as types: what arrives, what is stored, who consumes it.
//!
//! Invariant: a value of one of these types has passed its parser, so nothing past the edge checks
//! it again. This module imports nothing else of the crate and does no I/O.

mod arrival;
mod caller;
mod clock;
mod dedup;
mod envelope;
mod ids;
mod nearest;
mod outcome;
mod payload;
mod refs;
mod registration;
mod time;

pub use arrival::{
    Arrival, DropReason, EventActor, LearnedCommit, OnUnresolved, Provider, Reference, Source,
};
pub use caller::{CallerGuard, CallerToken};
pub use clock::{Clock, SystemClock};
pub use dedup::{DedupKey, DedupKind};
pub use envelope::{Delivery, StoredEvent};
pub use ids::{EventId, InstanceName, ParseError, PeerId, RunId, Seq};
pub use nearest::nearest;
pub use outcome::{CommitItem, Outcome, OutcomeReason};
pub use payload::{Payload, PayloadDamaged};
pub use refs::{Subject, WorkItemRef};
pub use registration::{ActorConflict, ActorSet, Binding, Identity, Refusal, Role, Room};
pub use time::{Millis, Timestamp};
