//! What nobody uses any more: seen keys, names of instances, and what maps one name to another.

use rusqlite::params;

use super::{REFERENCES_KEPT_MS, Sweep};
use crate::domain::Role;
use crate::store::error::StoreError;
use crate::store::writer::Tx;
use crate::telemetry::GatewayEvent;

/// Response numbers that are kept of each queue, whatever is in hand.
const RESPONSE_NUMBERS_MIN: u32 = 64;

/// Forgets what its last use lies too far behind.
pub(super) fn forget_unused(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    forget_seen_keys(tx, sweep)?;
    forget_references(tx, sweep)?;
    forget_response_numbers(tx, sweep)?;
    forget_instances(tx, sweep)
}

/// Seen keys outlive their event while they are young, or of one of the newest events: counting
/// events instead of keys keeps a few more than asked for, and needs no order of its own.
fn forget_seen_keys(tx: &Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    if sweep.is_over(tx) {
        return Ok(());
    }
    let forgotten = tx.execute(
        "DELETE FROM seen_keys WHERE key IN (
             SELECT key FROM seen_keys
             WHERE orphan = 1 AND seen_at_ms < ?1 AND event_id <= coalesce(
                 (SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) - ?2
             ORDER BY seen_at_ms LIMIT ?3)",
        params![
            super::before(tx, tx.settings.retention_ms).0,
            i64::try_from(tx.settings.seen_keys_min).unwrap_or(i64::MAX),
            sweep.rows_left
        ],
        "forget seen keys",
    )?;
    sweep.count_rows(forgotten);
    Ok(())
}

/// Head commits go with the retention, bindings and rooms after their own time.
fn forget_references(tx: &Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    let retention = tx.settings.retention_ms;
    for (sql, kept_ms) in [
        (
            "DELETE FROM commits WHERE (repository, sha, work_item_key) IN (
                 SELECT repository, sha, work_item_key FROM commits
                 WHERE used_at_ms < ?1 ORDER BY used_at_ms LIMIT ?2)",
            retention,
        ),
        (
            "DELETE FROM bindings WHERE (provider, key, work_item_key) IN (
                 SELECT provider, key, work_item_key FROM bindings
                 WHERE used_at_ms < ?1 ORDER BY used_at_ms LIMIT ?2)",
            REFERENCES_KEPT_MS,
        ),
        (
            "DELETE FROM rooms WHERE channel IN (
                 SELECT channel FROM rooms
                 WHERE used_at_ms < ?1 ORDER BY used_at_ms LIMIT ?2)",
            REFERENCES_KEPT_MS,
        ),
    ] {
        if sweep.is_over(tx) {
            return Ok(());
        }
        let forgotten = tx.execute(
            sql,
            params![super::before(tx, kept_ms).0, sweep.rows_left],
            "forget what is not used",
        )?;
        sweep.count_rows(forgotten);
    }
    Ok(())
}

/// A response number below everything in hand says the same as 0; the newest stay, since a client
/// without a run is known by them.
fn forget_response_numbers(tx: &Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    let queues = tx.all(
        "SELECT id FROM instances WHERE last_number > 0",
        [],
        |row| row.get::<_, i64>(0),
        "read the queues",
    )?;
    for instance_id in queues {
        if sweep.is_over(tx) {
            return Ok(());
        }
        let forgotten = tx.execute(
            "DELETE FROM response_numbers WHERE instance_id = ?1 AND number IN (
                 SELECT number FROM response_numbers
                 WHERE instance_id = ?1
                     AND number <= (SELECT number FROM response_numbers WHERE instance_id = ?1
                                    ORDER BY number DESC LIMIT 1 OFFSET ?2)
                     AND number < coalesce((SELECT min(handed_number) FROM deliveries
                                            WHERE instance_id = ?1 AND state = 1), number + 1)
                 ORDER BY number LIMIT ?3)",
            params![instance_id, RESPONSE_NUMBERS_MIN, sweep.rows_left],
            "forget response numbers",
        )?;
        sweep.count_rows(forgotten);
    }
    Ok(())
}

/// A name that asked for nothing and has nothing left loses its claims and actors; later, when
/// nothing names it any more, its row.
fn forget_instances(tx: &mut Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    let retention = tx.settings.retention_ms;
    let unused = tx.all(
        "SELECT id, name FROM instances
         WHERE forgotten_at_ms = 0 AND fetched_at_ms < ?1 AND created_at_ms < ?1
             AND lease_until_ms <= ?2 AND NOT EXISTS (
                 SELECT 1 FROM deliveries WHERE instance_id = instances.id AND state <= 1)
         ORDER BY id LIMIT ?3",
        params![super::before(tx, retention).0, tx.now.0, sweep.rows_left],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        "look for unused instances",
    )?;
    for (id, name) in unused {
        if sweep.is_over(tx) || !end_claims(tx, sweep, id, &name)? {
            return Ok(());
        }
        end_actors(tx, sweep, id, &name)?;
        forget_holder(tx, sweep, id)?;
    }
    drop_forgotten(tx, sweep)
}

/// Ends the claims of a forgotten instance; false when some are left for the next piece.
fn end_claims(tx: &mut Tx<'_>, sweep: &mut Sweep, id: i64, name: &str) -> Result<bool, StoreError> {
    let ended = tx.all(
        "DELETE FROM claims WHERE (subject_key, instance_id, role) IN (
             SELECT subject_key, instance_id, role FROM claims WHERE instance_id = ?1 LIMIT ?2)
         RETURNING subject, role",
        params![id, sweep.rows_left],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        "end the claims of a forgotten instance",
    )?;
    sweep.count_rows(ended.len());
    for (subject, role) in ended {
        let role = Role::parse(&role)
            .map_err(|error| StoreError::Corrupt(format!("the role of a claim {error}")))?;
        tx.effects.events.push(GatewayEvent::Released {
            instance: name.to_owned(),
            subject,
            role,
        });
    }
    Ok(sweep.rows_left > 0)
}

fn end_actors(tx: &mut Tx<'_>, sweep: &mut Sweep, id: i64, name: &str) -> Result<(), StoreError> {
    let ended = tx.execute(
        "DELETE FROM actors WHERE instance_id = ?1",
        params![id],
        "end the actors of a forgotten instance",
    )?;
    sweep.count_rows(ended);
    if ended > 0 {
        tx.effects.events.push(GatewayEvent::Registered {
            instance: name.to_owned(),
            actors: Vec::new(),
            taken: None,
            routed: 0,
        });
    }
    Ok(())
}

fn forget_holder(tx: &Tx<'_>, sweep: &mut Sweep, id: i64) -> Result<(), StoreError> {
    sweep.count_row();
    for sql in [
        "DELETE FROM superseded_runs WHERE instance_id = ?1",
        "DELETE FROM response_numbers WHERE instance_id = ?1",
    ] {
        tx.execute(sql, params![id], "forget an instance")?;
    }
    tx.execute(
        "UPDATE instances SET forgotten_at_ms = ?2, peer = '', run = '', run_is_made_up = 0
         WHERE id = ?1",
        params![id, tx.now.0],
        "forget an instance",
    )?;
    Ok(())
}

/// Dead deliveries are the longest to name an instance.
fn drop_forgotten(tx: &Tx<'_>, sweep: &mut Sweep) -> Result<(), StoreError> {
    if sweep.is_over(tx) {
        return Ok(());
    }
    let kept_ms = tx.settings.retention_ms.saturating_mul(2);
    let dropped = tx.execute(
        "DELETE FROM instances WHERE id IN (
             SELECT id FROM instances
             WHERE forgotten_at_ms > 0 AND forgotten_at_ms < ?1 AND NOT EXISTS (
                 SELECT 1 FROM deliveries WHERE instance_id = instances.id AND state <= 1)
             LIMIT ?2)",
        params![super::before(tx, kept_ms).0, sweep.rows_left],
        "drop a forgotten instance",
    )?;
    sweep.count_rows(dropped);
    Ok(())
}
