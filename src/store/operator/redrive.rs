//! Dead deliveries, put on the queues of today's consumers.

use std::collections::BTreeMap;

use rusqlite::{Row, params};

use super::{Found, PIECE, Position, Redriven, Selection};
use crate::domain::{EventId, Seq};
use crate::store::append::facts_of;
use crate::store::error::StoreError;
use crate::store::routing::{self, Consumer, Routable};
use crate::store::stored_event;
use crate::store::writer::{Tx, Write};
use crate::telemetry::GatewayEvent;

/// Puts dead deliveries on the queues of today's consumers of their subjects. Sent by the API for
/// an operator, again with the position of the reply while there is one.
#[derive(Debug, Clone)]
pub struct Redrive {
    /// Which of them.
    pub selection: Selection,
    /// Where the last piece ended; the default begins.
    pub after: Position,
    /// Counts what would be done, and does nothing.
    pub dry_run: bool,
}

impl Write for Redrive {
    type Reply = Redriven;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Redriven, StoreError> {
        let found = dead_deliveries(tx, &self.selection, self.after)?;
        let mut done = Redriven::beginning(&found);
        // Oldest event first, each once.
        let by_event: BTreeMap<EventId, Seq> =
            found.iter().map(|dead| (dead.event, dead.seq)).collect();
        for (id, seq) in by_event {
            redrive(tx, id, seq, self.dry_run, &mut done)?;
        }
        if !self.dry_run {
            let changed = done.deliveries.saturating_add(done.held);
            super::record(tx, "redrive", self.selection.to_string(), changed);
        }
        Ok(done)
    }
}

fn dead_deliveries(
    tx: &Tx<'_>,
    selection: &Selection,
    after: Position,
) -> Result<Vec<Found>, StoreError> {
    let doing = "look for dead deliveries";
    let read = |row: &Row<'_>| {
        Ok(Found {
            position: Position(row.get(0)?, row.get(1)?),
            event: EventId(row.get(2)?),
            seq: Seq(row.get(1)?),
        })
    };
    let limit = i64::try_from(PIECE).unwrap_or(i64::MAX);
    match selection {
        Selection::Delivery(seq) => tx.all(
            "SELECT event_id, seq, event_id FROM deliveries
             WHERE seq = ?1 AND state = 3 AND replaced = 0",
            params![seq.0],
            read,
            doing,
        ),
        Selection::Subject(subject) => tx.all(
            "SELECT events.id, deliveries.seq, events.id
             FROM events JOIN deliveries ON deliveries.event_id = events.id
             WHERE events.subject_key = ?1 AND events.id >= ?2
                 AND deliveries.state = 3 AND deliveries.replaced = 0
                 AND (events.id, deliveries.seq) > (?2, ?3)
             ORDER BY events.id, deliveries.seq LIMIT ?4",
            params![subject.key(), after.0, after.1, limit],
            read,
            doing,
        ),
        Selection::Between(since, until) => tx.all(
            "SELECT ended_at_ms, seq, event_id FROM deliveries
             WHERE state = 3 AND state >= 2 AND replaced = 0
                 AND ended_at_ms >= max(?1, ?3) AND ended_at_ms < ?2
                 AND (ended_at_ms, seq) > (?3, ?4)
             ORDER BY ended_at_ms, seq LIMIT ?5",
            params![since.0, until.0, after.0, after.1, limit],
            read,
            doing,
        ),
    }
}

/// Redrives one event: to every consumer of today that neither has it nor has handled it.
fn redrive(
    tx: &mut Tx<'_>,
    id: EventId,
    dead: Seq,
    dry_run: bool,
    done: &mut Redriven,
) -> Result<(), StoreError> {
    let event = match stored_event::read_routable(tx, id)? {
        Some((event, state)) if state == "routed" => event,
        Some(_) | None => {
            done.count_skipped();
            return Ok(());
        }
    };
    let consumers = stored_event::consumers_of(tx, &event)?;
    let is_wanted = !consumers.is_empty();
    let without_it = consumers
        .into_iter()
        .filter_map(|consumer| match has_it(tx, id, consumer.instance_id) {
            Ok(true) => None,
            Ok(false) => Some(Ok(consumer)),
            Err(error) => Some(Err(error)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    if !without_it.is_empty() {
        done.count_deliveries(without_it.len());
        if !dry_run {
            put_on_queues(tx, &event, dead, &without_it)?;
        }
    } else if !is_wanted && !is_on_a_queue(tx, id)? {
        done.count_held();
        if !dry_run {
            hold(tx, &event)?;
        }
    } else {
        done.count_skipped();
    }
    Ok(())
}

/// True when a delivery of the event waits for the instance, or was settled by it.
fn has_it(tx: &Tx<'_>, id: EventId, instance_id: i64) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM deliveries WHERE event_id = ?1 AND instance_id = ?2 AND state <= 2 LIMIT 1",
        params![id.0, instance_id],
        |_| Ok(()),
        "look whether an instance has an event",
    )?;
    Ok(found.is_some())
}

fn is_on_a_queue(tx: &Tx<'_>, id: EventId) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM deliveries WHERE event_id = ?1 AND state <= 1 LIMIT 1",
        params![id.0],
        |_| Ok(()),
        "look whether an event is on a queue",
    )?;
    Ok(found.is_some())
}

/// Each new row replaces the ended one of its own queue; the dead one that the operator named is
/// replaced in any case, if only by a row of another queue.
fn put_on_queues(
    tx: &mut Tx<'_>,
    event: &Routable,
    dead: Seq,
    consumers: &[Consumer],
) -> Result<(), StoreError> {
    let mut replaced = consumers
        .iter()
        .map(|consumer| stored_event::replace_ended(tx, event.id, consumer.instance_id))
        .collect::<Result<Vec<_>, _>>()?;
    if !replaced.contains(&Some(dead))
        && let Some(vacant) = replaced.iter_mut().find(|old| old.is_none())
    {
        mark_replaced(tx, dead)?;
        *vacant = Some(dead);
    }
    for (consumer, old) in consumers.iter().zip(replaced) {
        routing::insert_delivery(tx, event, consumer, old)?;
    }
    let names: Vec<_> = consumers
        .iter()
        .map(|consumer| consumer.name.clone())
        .collect();
    tx.effects
        .events
        .push(GatewayEvent::routed(&facts_of(event), &names, false));
    Ok(())
}

fn mark_replaced(tx: &Tx<'_>, seq: Seq) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET replaced = 1 WHERE seq = ?1",
        params![seq.0],
        "replace a delivery",
    )?;
    Ok(())
}

/// Nobody consumes it today: it waits for whoever will.
fn hold(tx: &mut Tx<'_>, event: &Routable) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE events SET state = 'held', state_at_ms = ?2 WHERE id = ?1",
        params![event.id.0, tx.now.0],
        "hold an event",
    )?;
    tx.effects.held_delta = tx.effects.held_delta.saturating_add(1);
    tx.effects
        .events
        .push(GatewayEvent::routed(&facts_of(event), &[], false));
    Ok(())
}
