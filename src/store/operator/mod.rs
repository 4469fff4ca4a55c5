//! What an operator does: dead deliveries go out again, stored events go to an instance, a claim
//! ends that its instance does not end.
//!
//! None of it changes what happened: a new row names the row that it replaces, and a row is
//! replaced once at most. Much work is done in pieces, each in order of its events; the reply of
//! a piece tells where the next one goes on.

mod redrive;
mod release;
mod replay;

pub use redrive::Redrive;
pub use release::{ClaimsReleased, OperatorRelease};
pub use replay::Replay;

use std::fmt;

use super::writer::Tx;
use crate::domain::{EventId, Seq, Subject, Timestamp};
use crate::telemetry::GatewayEvent;

/// Deliveries or events that one piece looks at.
const PIECE: usize = 500;

/// Which deliveries or events an operator means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// One delivery; for a replay the event of it.
    Delivery(Seq),
    /// Everything of a subject.
    Subject(Subject),
    /// What died (redrive) or arrived (replay) from the first moment on, before the second.
    Between(Timestamp, Timestamp),
}

/// As the record of the verb shows it.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery(seq) => write!(f, "delivery {seq}"),
            Self::Subject(subject) => write!(f, "{subject}"),
            Self::Between(since, until) => write!(f, "{since} to {until}"),
        }
    }
}

/// Where a piece ended; opaque to whoever sends it back for the next one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(pub i64, pub i64);

/// What one piece of a redrive or replay did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Redriven {
    /// New deliveries.
    pub deliveries: u64,
    /// Events that wait for a consumer now, because nobody consumes their subject today.
    pub held: u64,
    /// Events for which there was nothing to do: already waiting, handled since, or without their
    /// payload.
    pub skipped: u64,
    /// Where the next piece goes on; `None` when all is done.
    pub next: Option<Position>,
}

impl Redriven {
    fn beginning(found: &[Found]) -> Self {
        let is_full = found.len() >= PIECE;
        Self {
            next: found.last().filter(|_| is_full).map(|last| last.position),
            ..Self::default()
        }
    }

    fn count_deliveries(&mut self, made: usize) {
        let made = u64::try_from(made).unwrap_or(u64::MAX);
        self.deliveries = self.deliveries.saturating_add(made);
    }

    const fn count_held(&mut self) {
        self.held = self.held.saturating_add(1);
    }

    const fn count_skipped(&mut self) {
        self.skipped = self.skipped.saturating_add(1);
    }
}

/// A delivery, or an event, that a selection means.
#[derive(Debug, Clone, Copy)]
struct Found {
    position: Position,
    event: EventId,
    /// 0 for an event.
    seq: Seq,
}

fn record(tx: &mut Tx<'_>, verb: &'static str, target: String, changed: u64) {
    tx.effects.events.push(GatewayEvent::Operator {
        verb,
        target,
        changed,
    });
}
