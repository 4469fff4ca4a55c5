//! The lanes of a queue: one row per subject, derived from its deliveries.

use rusqlite::params;

use crate::broken::Break;
use crate::store::error::StoreError;
use crate::store::writer::Tx;

/// The head may go out.
const OPEN: i64 = 0;
/// The head is due later.
const WAITING: i64 = 1;
/// Something of the lane is in hand.
const BUSY: i64 = 2;

/// Derives a lane from its deliveries again; a lane without live ones is gone.
///
/// Called for every lane whose deliveries were handed out, put back or ended.
pub(in crate::store) fn refresh(tx: &Tx<'_>, lane_id: i64) -> Result<(), StoreError> {
    let is_busy = tx
        .first(
            "SELECT 1 FROM deliveries WHERE lane_id = ?1 AND state = 1 LIMIT 1",
            params![lane_id],
            |_| Ok(()),
            "look what of a lane is in hand",
        )?
        .is_some();
    if is_busy {
        return mark_busy(tx, lane_id);
    }
    let head = tx.first(
        "SELECT event_id, due_at_ms FROM deliveries WHERE lane_id = ?1 AND state = 0
         ORDER BY event_id, seq LIMIT 1",
        params![lane_id],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        "look for the head of a lane",
    )?;
    match head {
        Some((event_id, due_at)) => {
            let state = if due_at > tx.now.0 { WAITING } else { OPEN };
            tx.execute(
                "UPDATE lanes SET state = ?2, head_event_id = ?3, head_due_at_ms = ?4
                 WHERE id = ?1",
                params![lane_id, state, event_id, due_at],
                "set the head of a lane",
            )?;
        }
        None => {
            tx.execute(
                "DELETE FROM lanes WHERE id = ?1",
                params![lane_id],
                "end a lane",
            )?;
        }
    }
    Ok(())
}

/// Marks a lane of which something was just handed out.
pub(super) fn mark_busy(tx: &Tx<'_>, lane_id: i64) -> Result<(), StoreError> {
    if Break::InHandHoldsUpNothing.is_on() {
        return Ok(());
    }
    tx.execute(
        "UPDATE lanes SET state = ?2 WHERE id = ?1",
        params![lane_id, BUSY],
        "mark a lane as busy",
    )?;
    Ok(())
}

/// Opens the lanes of a queue whose head has become due.
pub(super) fn open_due(tx: &Tx<'_>, instance_id: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE lanes SET state = 0
         WHERE instance_id = ?1 AND state = 1 AND head_due_at_ms <= ?2",
        params![instance_id, tx.now.0],
        "open due lanes",
    )?;
    Ok(())
}

/// When the next waiting lane becomes due, if one waits.
pub(super) fn next_due(tx: &Tx<'_>, instance_id: i64) -> Result<Option<i64>, StoreError> {
    tx.first(
        "SELECT head_due_at_ms FROM lanes WHERE instance_id = ?1 AND state = 1
         ORDER BY head_due_at_ms LIMIT 1",
        params![instance_id],
        |row| row.get(0),
        "look for the next due lane",
    )
}
