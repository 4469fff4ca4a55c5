//! What nobody consumed in time: deliveries that stayed on a queue, events that stayed held.

use std::collections::BTreeSet;

use rusqlite::params;

use super::{Sweep, ended};
use crate::domain::{EventId, InstanceName, Seq, Timestamp};
use crate::store::append::facts_of;
use crate::store::error::StoreError;
use crate::store::queue::lane;
use crate::store::writer::Tx;
use crate::store::{lease, routing, stored_event};
use crate::telemetry::GatewayEvent;

/// Deliveries of a queue that are looked at in one step.
const STEP: i64 = 100;
const HANDED: i64 = 1;

/// A queue that something may expire on.
struct Queue {
    id: i64,
    name: InstanceName,
    /// What is in hand under a live lease does not expire.
    is_live: bool,
}

/// A live delivery.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    seq: Seq,
    event: EventId,
    lane_id: i64,
    state: i64,
    routed_at: Timestamp,
}

/// Expires what has been on a queue for longer than the retention.
pub(super) fn expire_deliveries(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    for queue in queues(tx)? {
        let mut lanes = BTreeSet::new();
        expire_queue(tx, sweep, &queue, &mut lanes)?;
        if !lanes.is_empty() {
            // What waited behind an expired delivery may be due now.
            tx.effects.wakes.insert(queue.name);
        }
        for lane_id in lanes {
            lane::refresh(tx, lane_id)?;
        }
        if sweep.is_over(tx) {
            break;
        }
    }
    Ok(())
}

fn queues(tx: &Tx<'_>) -> Result<Vec<Queue>, StoreError> {
    let rows = tx.all(
        "SELECT id, name, lease_until_ms FROM instances WHERE backlog > 0 ORDER BY id",
        [],
        |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, String>(1)?,
                Timestamp(row.get(2)?),
            ))
        },
        "read the queues",
    )?;
    rows.into_iter()
        .map(|(id, name, lease_until)| {
            Ok(Queue {
                id,
                name: routing::parse_name(&name)?,
                is_live: lease::is_live(lease_until, tx.now, tx.settings),
            })
        })
        .collect()
}

/// Walks a queue from its oldest delivery; numbers grow with time, so the first young one ends it.
fn expire_queue(
    tx: &mut Tx<'_>,
    sweep: &mut Sweep,
    queue: &Queue,
    lanes: &mut BTreeSet<i64>,
) -> Result<(), StoreError> {
    let before = super::before(tx, tx.settings.retention_ms);
    let mut after = Seq(0);
    loop {
        let step = oldest(tx, queue, after)?;
        let is_last = step.len() < usize::try_from(STEP).unwrap_or(usize::MAX);
        for waiting in step {
            after = waiting.seq;
            // Routed in the future: the clock was set back since, and what is behind may be old.
            let is_young = waiting.routed_at >= before && waiting.routed_at <= tx.now;
            if is_young || sweep.is_over(tx) {
                return Ok(());
            }
            let is_kept = waiting.state == HANDED && queue.is_live;
            if waiting.routed_at < before && !is_kept {
                expire(tx, sweep, queue, waiting)?;
                lanes.insert(waiting.lane_id);
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

fn oldest(tx: &Tx<'_>, queue: &Queue, after: Seq) -> Result<Vec<Waiting>, StoreError> {
    tx.all(
        "SELECT seq, event_id, lane_id, state, routed_at_ms FROM deliveries
         WHERE instance_id = ?1 AND state <= 1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        params![queue.id, after.0, STEP],
        |row| {
            Ok(Waiting {
                seq: Seq(row.get(0)?),
                event: EventId(row.get(1)?),
                lane_id: row.get(2)?,
                state: row.get(3)?,
                routed_at: Timestamp(row.get(4)?),
            })
        },
        "look for old deliveries",
    )
}

fn expire(
    tx: &mut Tx<'_>,
    sweep: &mut Sweep,
    queue: &Queue,
    waiting: Waiting,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET state = 4, suspect = 0, ended_at_ms = ?2 WHERE seq = ?1",
        params![waiting.seq.0, tx.now.0],
        "expire a delivery",
    )?;
    sweep.count_row();
    tx.effects.add_backlog(queue.id, -1);
    let delivery = Some((queue.name.to_string(), waiting.seq));
    record(tx, sweep, waiting.event, delivery, "age")?;
    ended::expire_payload(tx, waiting.event)
}

/// Expires what has been held for longer than the retention.
pub(super) fn expire_held(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    let ids = tx.all(
        "SELECT id FROM events WHERE state = 'held' AND state <> 'routed' AND state_at_ms < ?1
         ORDER BY state_at_ms LIMIT ?2",
        params![
            super::before(tx, tx.settings.retention_ms).0,
            sweep.rows_left
        ],
        |row| Ok(EventId(row.get(0)?)),
        "look for old held events",
    )?;
    for id in ids {
        if sweep.is_over(tx) {
            return Ok(());
        }
        expire_event(tx, sweep, id, "age")?;
    }
    Ok(())
}

/// Expires the event that was held first; false when none is.
pub(super) fn expire_oldest_held(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<bool, StoreError> {
    let oldest = tx.first(
        "SELECT id FROM events WHERE state = 'held' AND state <> 'routed'
         ORDER BY state_at_ms LIMIT 1",
        [],
        |row| Ok(EventId(row.get(0)?)),
        "look for held events",
    )?;
    match oldest {
        Some(id) => expire_event(tx, sweep, id, "space").map(|()| true),
        None => Ok(false),
    }
}

fn expire_event(
    tx: &mut Tx<'_>,
    sweep: &mut Sweep,
    id: EventId,
    reason: &'static str,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE events SET state = 'expired', state_at_ms = ?2, payload = x'' WHERE id = ?1",
        params![id.0, tx.now.0],
        "expire a held event",
    )?;
    sweep.count_row();
    tx.effects.held_delta = tx.effects.held_delta.saturating_sub(1);
    record(tx, sweep, id, None, reason)
}

fn record(
    tx: &mut Tx<'_>,
    sweep: &mut Sweep,
    id: EventId,
    delivery: Option<(String, Seq)>,
    reason: &'static str,
) -> Result<(), StoreError> {
    sweep.done.expired = sweep.done.expired.saturating_add(1);
    let Some((event, _)) = stored_event::read_routable(tx, id)? else {
        return Ok(());
    };
    let facts = facts_of(&event);
    let (instance, seq) = delivery.unzip();
    tx.effects.events.push(GatewayEvent::Expired {
        subject: facts.subject,
        instance,
        seq: seq.map(|seq| seq.0),
        reason,
        gateway_event_id: id.0,
        delivery_id: facts.delivery_id,
    });
    Ok(())
}
