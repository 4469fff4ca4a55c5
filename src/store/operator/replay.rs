//! Stored events, put on the queue of one instance.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Row, params};

use super::{InWords, PIECE, Planned, Position, Redriven};
use crate::broken::Break;
use crate::domain::{EventId, InstanceName, Seq};
use crate::store::append::facts_of;
use crate::store::error::StoreError;
use crate::store::routing::{Consumer, Routable};
use crate::store::selection::{Period, SubjectFilter};
use crate::store::writer::{Tx, Write};
use crate::store::{instances, stored_event};
use crate::telemetry::GatewayEvent;

/// Which stored events; what is given narrows together.
#[derive(Debug, Clone, Default)]
pub struct EventSelection {
    /// These, at most 500; empty: all.
    pub events: Vec<EventId>,
    /// Those of this subject.
    pub subject: SubjectFilter,
    /// Those that arrived then.
    pub received: Period,
}

/// Puts stored events on the queue of an instance, whether it consumes their subjects or not.
/// Sent by the API for an operator, again with the position of the reply while there is one.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Which of them.
    pub selection: EventSelection,
    /// Whose queue.
    pub instance: InstanceName,
    /// True when the configuration lists the name: then its queue may be made.
    pub is_listed: bool,
    /// Where the last piece ended.
    pub after: Position,
    /// Counts what would be done, and does nothing.
    pub dry_run: bool,
}

/// Nobody is known by the name that a replay goes to, and a queue is not made for a typing error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchInstance {
    /// The names that are known, in their order.
    pub known: Vec<String>,
}

impl Write for Replay {
    type Reply = Result<Redriven, NoSuchInstance>;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Self::Reply, StoreError> {
        if !self.is_listed && !instances::is_known(tx, &self.instance)? {
            let known = instances::known(tx)?;
            return Ok(Err(NoSuchInstance { known }));
        }
        let found = self.selection.find(tx, self.after)?;
        let mut done = Redriven::default();
        if self.selection.events.is_empty() {
            done.next = super::next_position(&found, |(_, position)| *position);
        } else {
            done.miss(self.selection.missed(tx, &found)?);
        }
        let instance_id = if self.dry_run {
            instances::find(tx, &self.instance)?.unwrap_or(0)
        } else {
            instances::ensure(tx, &self.instance)?
        };
        let consumer = Consumer {
            instance_id,
            name: self.instance.clone(),
            why: "replay".to_owned(),
        };
        // Oldest first.
        let found: BTreeMap<EventId, Position> = found.into_iter().collect();
        for id in found.into_keys() {
            let dry_run = self.dry_run || Break::ReplayOnlyTells.is_on();
            replay(tx, id, &consumer, dry_run, &mut done)?;
        }
        if !self.dry_run {
            let target = format!("{} onto {}", self.selection.in_words(), self.instance);
            super::record(tx, "replay", target, done.changed());
        }
        Ok(Ok(done))
    }
}

impl EventSelection {
    fn in_words(&self) -> InWords<'_> {
        InWords {
            what: "events",
            numbers: self.events.iter().map(|event| event.0).collect(),
            instance: None,
            subject: &self.subject,
            period: self.received,
        }
    }

    fn find(&self, tx: &Tx<'_>, after: Position) -> Result<Vec<(EventId, Position)>, StoreError> {
        if !self.events.is_empty() {
            let mut found = Vec::new();
            for id in &self.events {
                found.extend(self.find_one(tx, *id)?);
            }
            return Ok(found);
        }
        match self.subject.parts() {
            (true, subject_key) => self.find_of_subject(tx, &subject_key, after),
            (false, _) => self.find_by_arrival(tx, after),
        }
    }

    fn find_one(
        &self,
        tx: &Tx<'_>,
        id: EventId,
    ) -> Result<Option<(EventId, Position)>, StoreError> {
        let (is_narrowed, subject_key) = self.subject.parts();
        let Period { since, until } = self.received;
        tx.first(
            "SELECT id, received_at_ms FROM events
             WHERE id = ?1 AND (?2 = 0 OR subject_key = ?3)
                 AND received_at_ms >= ?4 AND received_at_ms < ?5",
            params![id.0, is_narrowed, subject_key, since.0, until.0],
            read_found,
            "look for a stored event",
        )
    }

    /// Those that were given by their number and are not among these, and whether they are there.
    fn missed(
        &self,
        tx: &Tx<'_>,
        found: &[(EventId, Position)],
    ) -> Result<Vec<(i64, bool)>, StoreError> {
        let found: BTreeSet<EventId> = found.iter().map(|(id, _)| *id).collect();
        let missed = self.events.iter().filter(|id| !found.contains(id));
        missed
            .map(|id| {
                let row = tx.first(
                    "SELECT 1 FROM events WHERE id = ?1",
                    params![id.0],
                    |_| Ok(()),
                    "look whether an event is there",
                )?;
                Ok((id.0, row.is_some()))
            })
            .collect()
    }

    fn find_of_subject(
        &self,
        tx: &Tx<'_>,
        subject_key: &str,
        after: Position,
    ) -> Result<Vec<(EventId, Position)>, StoreError> {
        let Period { since, until } = self.received;
        tx.all(
            "SELECT id, received_at_ms FROM events
             WHERE subject_key = ?1 AND id > ?2 AND received_at_ms >= ?3 AND received_at_ms < ?4
             ORDER BY id LIMIT ?5",
            params![subject_key, after.1, since.0, until.0, piece()],
            read_found,
            "look for a subject's events",
        )
    }

    fn find_by_arrival(
        &self,
        tx: &Tx<'_>,
        after: Position,
    ) -> Result<Vec<(EventId, Position)>, StoreError> {
        let Period { since, until } = self.received;
        tx.all(
            "SELECT id, received_at_ms FROM events
             WHERE received_at_ms >= max(?1, ?3) AND received_at_ms < ?2
                 AND (received_at_ms, id) > (?3, ?4)
             ORDER BY received_at_ms, id LIMIT ?5",
            params![since.0, until.0, after.0, after.1, piece()],
            read_found,
            "look for stored events",
        )
    }
}

fn piece() -> i64 {
    i64::try_from(PIECE).unwrap_or(i64::MAX)
}

fn read_found(row: &Row<'_>) -> rusqlite::Result<(EventId, Position)> {
    let id: i64 = row.get(0)?;
    Ok((EventId(id), Position(row.get(1)?, id)))
}

/// Replays one event, if it has its payload and does not wait for the instance already.
fn replay(
    tx: &mut Tx<'_>,
    id: EventId,
    consumer: &Consumer,
    dry_run: bool,
    done: &mut Redriven,
) -> Result<(), StoreError> {
    let last = last_delivery(tx, id, consumer.instance_id)?;
    let is_waiting = last.is_some_and(|last| last.is_live);
    let event = match stored_event::read_routable(tx, id)? {
        Some((event, state)) if !is_waiting && (state == "routed" || state == "held") => event,
        Some(_) | None => {
            done.skip(1);
            return Ok(());
        }
    };
    let planned = Planned {
        consumer: consumer.clone(),
        replaces: last.filter(|last| !last.is_replaced).map(|last| last.seq),
    };
    let made = super::make(tx, &event, &planned, dry_run)?;
    done.deliveries.push(made);
    if !dry_run {
        let was_held = take_from_held(tx, &event)?;
        tx.effects.events.push(GatewayEvent::routed(
            &facts_of(&event),
            std::slice::from_ref(&consumer.name),
            was_held,
        ));
    }
    Ok(())
}

/// The newest delivery of an event on a queue.
#[derive(Debug, Clone, Copy)]
struct LastDelivery {
    seq: Seq,
    is_live: bool,
    is_replaced: bool,
}

fn last_delivery(
    tx: &Tx<'_>,
    id: EventId,
    instance_id: i64,
) -> Result<Option<LastDelivery>, StoreError> {
    tx.first(
        "SELECT seq, state <= 1, replaced FROM deliveries
         WHERE event_id = ?1 AND instance_id = ?2 ORDER BY seq DESC LIMIT 1",
        params![id.0, instance_id],
        |row| {
            Ok(LastDelivery {
                seq: Seq(row.get(0)?),
                is_live: row.get(1)?,
                is_replaced: row.get(2)?,
            })
        },
        "read the last delivery of an event",
    )
}

/// True when the event was held; its consumer is the one that the operator named.
fn take_from_held(tx: &mut Tx<'_>, event: &Routable) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE events SET state = 'routed', state_at_ms = ?2 WHERE id = ?1 AND state = 'held'",
        params![event.id.0, tx.now.0],
        "route a held event",
    )?;
    if changed > 0 {
        tx.effects.held_delta = tx.effects.held_delta.saturating_sub(1);
    }
    Ok(changed > 0)
}
