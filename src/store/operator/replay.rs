//! Stored events, put on the queue of one instance.

use std::collections::BTreeSet;

use rusqlite::{Row, params};

use super::{Found, PIECE, Position, Redriven, Selection};
use crate::domain::{EventId, InstanceName, Seq};
use crate::store::append::facts_of;
use crate::store::error::StoreError;
use crate::store::routing::{self, Consumer, Routable};
use crate::store::writer::{Tx, Write};
use crate::store::{instances, stored_event};
use crate::telemetry::GatewayEvent;

/// Puts stored events on the queue of an instance, whether it consumes their subjects or not.
/// Sent by the API for an operator, again with the position of the reply while there is one.
#[derive(Debug, Clone)]
pub struct Replay {
    /// Which of them.
    pub selection: Selection,
    /// Whose queue.
    pub instance: InstanceName,
    /// Where the last piece ended; the default begins.
    pub after: Position,
    /// Counts what would be done, and does nothing.
    pub dry_run: bool,
}

impl Write for Replay {
    type Reply = Redriven;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Redriven, StoreError> {
        let found = stored_events(tx, &self.selection, self.after)?;
        let mut done = Redriven::beginning(&found);
        let consumer = if self.dry_run {
            instances::find(tx, &self.instance)?
        } else {
            Some(instances::ensure(tx, &self.instance)?)
        }
        .map(|instance_id| Consumer {
            instance_id,
            name: self.instance.clone(),
            why: "replay".to_owned(),
        });
        // Oldest first.
        let ids: BTreeSet<EventId> = found.iter().map(|stored| stored.event).collect();
        for id in ids {
            match replayable(tx, id, consumer.as_ref())? {
                None => done.count_skipped(),
                Some(event) => {
                    done.count_deliveries(1);
                    if let Some(consumer) = consumer.as_ref().filter(|_| !self.dry_run) {
                        replay(tx, &event, consumer)?;
                    }
                }
            }
        }
        if !self.dry_run {
            let target = format!("{} onto {}", self.selection, self.instance);
            super::record(tx, "replay", target, done.deliveries);
        }
        Ok(done)
    }
}

fn stored_events(
    tx: &Tx<'_>,
    selection: &Selection,
    after: Position,
) -> Result<Vec<Found>, StoreError> {
    let doing = "look for stored events";
    let read = |row: &Row<'_>| {
        Ok(Found {
            position: Position(row.get(0)?, row.get(1)?),
            event: EventId(row.get(1)?),
            seq: Seq(0),
        })
    };
    let limit = i64::try_from(PIECE).unwrap_or(i64::MAX);
    match selection {
        Selection::Delivery(seq) => tx.all(
            "SELECT 0, event_id FROM deliveries WHERE seq = ?1",
            params![seq.0],
            read,
            doing,
        ),
        Selection::Subject(subject) => tx.all(
            "SELECT 0, id FROM events WHERE subject_key = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            params![subject.key(), after.1, limit],
            read,
            doing,
        ),
        Selection::Between(since, until) => tx.all(
            "SELECT received_at_ms, id FROM events
             WHERE received_at_ms >= max(?1, ?3) AND received_at_ms < ?2
                 AND (received_at_ms, id) > (?3, ?4)
             ORDER BY received_at_ms, id LIMIT ?5",
            params![since.0, until.0, after.0, after.1, limit],
            read,
            doing,
        ),
    }
}

/// An event that has its payload and does not wait for the instance already.
fn replayable(
    tx: &Tx<'_>,
    id: EventId,
    consumer: Option<&Consumer>,
) -> Result<Option<Routable>, StoreError> {
    let event = match stored_event::read_routable(tx, id)? {
        Some((event, state)) if state == "routed" || state == "held" => event,
        Some(_) | None => return Ok(None),
    };
    let waits = match consumer {
        Some(consumer) => tx.first(
            "SELECT 1 FROM deliveries WHERE event_id = ?1 AND instance_id = ?2 AND state <= 1
             LIMIT 1",
            params![id.0, consumer.instance_id],
            |_| Ok(()),
            "look whether an event waits for an instance",
        )?,
        None => None,
    };
    Ok(waits.is_none().then_some(event))
}

fn replay(tx: &mut Tx<'_>, event: &Routable, consumer: &Consumer) -> Result<(), StoreError> {
    let was_held = tx.execute(
        "UPDATE events SET state = 'routed', state_at_ms = ?2 WHERE id = ?1 AND state = 'held'",
        params![event.id.0, tx.now.0],
        "route a held event",
    )? > 0;
    if was_held {
        tx.effects.held_delta = tx.effects.held_delta.saturating_sub(1);
    }
    let old = replace_latest(tx, event.id, consumer.instance_id)?;
    routing::insert_delivery(tx, event, consumer, old)?;
    tx.effects.events.push(GatewayEvent::routed(
        &facts_of(event),
        std::slice::from_ref(&consumer.name),
        was_held,
    ));
    Ok(())
}

/// Marks the last delivery of the event on the queue as replaced, settled or not, and names it.
fn replace_latest(tx: &Tx<'_>, id: EventId, instance_id: i64) -> Result<Option<Seq>, StoreError> {
    tx.first(
        "UPDATE deliveries SET replaced = 1
         WHERE replaced = 0 AND seq = (SELECT max(seq) FROM deliveries
                                       WHERE event_id = ?1 AND instance_id = ?2 AND state >= 2)
         RETURNING seq",
        params![id.0, instance_id],
        |row| Ok(Seq(row.get(0)?)),
        "replace a delivery",
    )
}
