//! What an operator does: dead deliveries go out again, stored events go to an instance, what an
//! instance holds is taken from it.
//!
//! None of it changes what happened: a new row names the row that it replaces, and a row is
//! replaced once at most. Much work is done in pieces, each in order of its events; the reply of
//! a piece tells where the next one goes on.

mod redrive;
mod release;
mod replay;

pub use redrive::{DeadSelection, Redrive};
pub use release::{OperatorRelease, Released};
pub use replay::{EventSelection, NoSuchInstance, Replay};

use std::collections::BTreeMap;
use std::fmt;

use super::error::StoreError;
use super::routing::{self, Consumer, Routable};
use super::selection::{Period, SubjectFilter};
use super::stored_event;
use super::writer::Tx;
use crate::domain::{EventId, InstanceName, Seq, Subject, Timestamp};
use crate::telemetry::GatewayEvent;

/// Deliveries or events that one piece looks at.
const PIECE: usize = 500;

/// Where a piece ended; opaque to whoever sends it back for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(i64, i64);

impl Position {
    /// Before everything.
    pub const START: Self = Self(i64::MIN, i64::MIN);
}

/// A delivery that an operator's verb made, or would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// Its number; none in a dry run.
    pub seq: Option<Seq>,
    /// On whose queue it is.
    pub instance: InstanceName,
    /// Its event.
    pub event: EventId,
    /// The delivery that it replaces.
    pub redrive_of: Option<Seq>,
}

/// What one piece of a redrive or replay did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redriven {
    /// The new deliveries, in order of their events.
    pub deliveries: Vec<NewDelivery>,
    /// Events that wait for a consumer now, because nobody consumes their subject today.
    pub held: u64,
    /// What was meant and could not be done: not dead, replaced, waiting already, handled since, or
    /// without its payload.
    pub skipped: u64,
    /// The numbers that were given and are of nothing that is stored.
    pub unknown: Vec<i64>,
    /// Where the next piece goes on; `None` when all is done.
    pub next: Option<Position>,
}

impl Redriven {
    /// Tells what was given by its number and not found: of nothing, or not as it must be.
    fn miss(&mut self, missed: impl IntoIterator<Item = (i64, bool)>) {
        let missed: BTreeMap<i64, bool> = missed.into_iter().collect();
        for (number, is_there) in missed {
            if is_there {
                self.skip(1);
            } else {
                self.unknown.push(number);
            }
        }
    }

    fn skip(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.skipped = self.skipped.saturating_add(count);
    }

    fn changed(&self) -> u64 {
        let made = u64::try_from(self.deliveries.len()).unwrap_or(u64::MAX);
        made.saturating_add(self.held)
    }
}

/// A delivery that is to be made: for whom, and in place of which.
struct Planned {
    consumer: Consumer,
    replaces: Option<Seq>,
}

/// Makes a planned delivery, unless it is only counted.
fn make(
    tx: &mut Tx<'_>,
    event: &Routable,
    planned: &Planned,
    dry_run: bool,
) -> Result<NewDelivery, StoreError> {
    let seq = if dry_run {
        None
    } else {
        if let Some(old) = planned.replaces {
            stored_event::mark_replaced(tx, old)?;
        }
        let seq = routing::insert_delivery(tx, event, &planned.consumer, planned.replaces)?;
        Some(seq)
    };
    Ok(NewDelivery {
        seq,
        instance: planned.consumer.name.clone(),
        event: event.id,
        redrive_of: planned.replaces,
    })
}

/// Where the next piece goes on, when this one was full.
fn next_position<T>(found: &[T], position: impl Fn(&T) -> Position) -> Option<Position> {
    found.last().filter(|_| found.len() >= PIECE).map(position)
}

fn record(tx: &mut Tx<'_>, verb: &'static str, target: String, changed: u64) {
    tx.effects.events.push(GatewayEvent::Operator {
        verb,
        target,
        changed,
    });
}

/// A selection in words, for the record of the verb.
struct InWords<'a> {
    what: &'static str,
    numbers: Vec<i64>,
    instance: Option<&'a InstanceName>,
    subject: &'a SubjectFilter,
    period: Period,
}

impl fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        for number in &self.numbers {
            write!(f, " {number}")?;
        }
        if let Some(instance) = self.instance {
            write!(f, " of {instance}")?;
        }
        match self.subject {
            SubjectFilter::Any => {}
            SubjectFilter::Unassigned => write!(f, " on {}", Subject::UNASSIGNED)?,
            SubjectFilter::Is(subject) => write!(f, " on {subject}")?,
        }
        let Period { since, until } = self.period;
        if since > Timestamp(i64::MIN) {
            write!(f, " since {since}")?;
        }
        if until < Timestamp(i64::MAX) {
            write!(f, " until {until}")?;
        }
        Ok(())
    }
}
