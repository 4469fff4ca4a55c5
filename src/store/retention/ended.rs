//! Deliveries that ended long ago, and the events that go with their last one.

use rusqlite::params;

use super::Sweep;
use crate::domain::{EventId, Seq, Timestamp};
use crate::store::error::StoreError;
use crate::store::writer::Tx;

const SETTLED: i64 = 2;
const DEAD: i64 = 3;
const EXPIRED: i64 = 4;

/// An ended delivery.
#[derive(Debug, Clone, Copy)]
struct Ended {
    seq: Seq,
    event: EventId,
    state: i64,
}

/// Drops the ended deliveries whose time is over, each kind after its own.
pub(super) fn drop_old(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    let retention = tx.settings.retention_ms;
    for (state, kept_ms) in [
        (SETTLED, retention),
        (DEAD, retention.saturating_mul(2)),
        (EXPIRED, retention),
    ] {
        for ended in oldest(tx, sweep, state, super::before(tx, kept_ms))? {
            if sweep.is_over(tx) {
                return Ok(());
            }
            drop_delivery(tx, sweep, ended)?;
        }
    }
    Ok(())
}

/// Drops the settled delivery that ended first; false when there is none.
pub(super) fn drop_oldest_settled(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<bool, StoreError> {
    let oldest = tx.first(
        "SELECT seq, event_id FROM deliveries WHERE state = 2 AND state >= 2
         ORDER BY ended_at_ms LIMIT 1",
        [],
        |row| Ok((Seq(row.get(0)?), EventId(row.get(1)?))),
        "look for settled deliveries",
    )?;
    let Some((seq, event)) = oldest else {
        return Ok(false);
    };
    let state = SETTLED;
    drop_delivery(tx, sweep, Ended { seq, event, state })?;
    Ok(true)
}

fn oldest(
    tx: &Tx<'_>,
    sweep: &Sweep,
    state: i64,
    before: Timestamp,
) -> Result<Vec<Ended>, StoreError> {
    tx.all(
        "SELECT seq, event_id FROM deliveries
         WHERE state = ?1 AND state >= 2 AND ended_at_ms < ?2 ORDER BY ended_at_ms LIMIT ?3",
        params![state, before.0, sweep.rows_left],
        |row| {
            Ok(Ended {
                seq: Seq(row.get(0)?),
                event: EventId(row.get(1)?),
                state,
            })
        },
        "look for ended deliveries",
    )
}

fn drop_delivery(tx: &mut Tx<'_>, sweep: &mut Sweep, ended: Ended) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM hand_outs WHERE seq = ?1",
        params![ended.seq.0],
        "forget hand-outs",
    )?;
    tx.execute(
        "DELETE FROM deliveries WHERE seq = ?1",
        params![ended.seq.0],
        "drop a delivery",
    )?;
    sweep.count_row();
    sweep.done.deliveries = sweep.done.deliveries.saturating_add(1);
    if ended.state == SETTLED {
        tx.execute(
            "UPDATE events SET handled = 1 WHERE id = ?1 AND handled = 0",
            params![ended.event.0],
            "note that an event was handled",
        )?;
    }
    follow(tx, sweep, ended.event)
}

/// What becomes of an event that lost a delivery: gone with the last one, and without its payload
/// when only expired ones are left.
fn follow(tx: &mut Tx<'_>, sweep: &mut Sweep, id: EventId) -> Result<(), StoreError> {
    let left = tx.first(
        "SELECT count(*), coalesce(min(state), 0) FROM deliveries WHERE event_id = ?1",
        params![id.0],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        "look what is left of an event",
    )?;
    match left {
        Some((0, _)) => drop_event(tx, sweep, id),
        Some((_, EXPIRED)) => expire_payload(tx, id),
        Some(_) | None => Ok(()),
    }
}

/// Takes the payload of an event of which nothing but expired deliveries is left.
pub(super) fn expire_payload(tx: &Tx<'_>, id: EventId) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE events SET state = 'expired', state_at_ms = ?2, payload = x''
         WHERE id = ?1 AND state = 'routed'
             AND NOT EXISTS (SELECT 1 FROM deliveries WHERE event_id = ?1 AND state <> 4)",
        params![id.0, tx.now.0],
        "drop an expired payload",
    )?;
    Ok(())
}

/// Drops an event that waits for nobody; its seen keys stay, and tell whether it was handled.
fn drop_event(tx: &mut Tx<'_>, sweep: &mut Sweep, id: EventId) -> Result<(), StoreError> {
    let dropped = tx.first(
        "DELETE FROM events WHERE id = ?1 AND state IN ('routed', 'expired')
         RETURNING handled, dedup_keys",
        params![id.0],
        |row| Ok((row.get::<_, bool>(0)?, row.get::<_, String>(1)?)),
        "drop an event",
    )?;
    let Some((handled, keys)) = dropped else {
        return Ok(());
    };
    for key in parse_keys(&keys)? {
        tx.execute(
            "UPDATE seen_keys SET orphan = 1, handled = ?3 WHERE key = ?1 AND event_id = ?2",
            params![key, id.0, handled],
            "keep the keys of a dropped event",
        )?;
    }
    forget_about(tx, id)?;
    tx.effects.events_delta = tx.effects.events_delta.saturating_sub(1);
    sweep.done.events = sweep.done.events.saturating_add(1);
    Ok(())
}

/// The keys of an event as they lie in its row.
pub(super) fn parse_keys(text: &str) -> Result<Vec<String>, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("keys: {error}")))
}

/// Forgets what is written down about an event beside its row.
pub(super) fn forget_about(tx: &Tx<'_>, id: EventId) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM event_links WHERE event_id = ?1",
        "DELETE FROM event_references WHERE event_id = ?1",
    ] {
        tx.execute(sql, params![id.0], "forget about an event")?;
    }
    Ok(())
}

/// Drops the events that expired while they were held, once their time is over.
pub(super) fn drop_expired_events(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    let ids = tx.all(
        "SELECT id FROM events
         WHERE state = 'expired' AND state <> 'routed' AND state_at_ms < ?1
             AND NOT EXISTS (SELECT 1 FROM deliveries WHERE event_id = events.id)
         ORDER BY state_at_ms LIMIT ?2",
        params![
            super::before(tx, tx.settings.retention_ms).0,
            sweep.rows_left
        ],
        |row| Ok(EventId(row.get(0)?)),
        "look for expired events",
    )?;
    for id in ids {
        if sweep.is_over(tx) {
            return Ok(());
        }
        sweep.count_row();
        drop_event(tx, sweep, id)?;
    }
    Ok(())
}
