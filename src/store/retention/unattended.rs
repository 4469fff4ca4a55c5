//! Subjects that somebody claims and nobody fetches for.

use rusqlite::params;

use crate::domain::Millis;
use crate::store::error::StoreError;
use crate::store::writer::{Tx, Write};
use crate::telemetry::GatewayEvent;

/// A claimant that has not fetched for so long attends to nothing.
const UNATTENDED_AFTER_MS: Millis = 3600 * 1000;
/// Subjects that one transaction notes.
const SUBJECTS_MAX: u32 = 200;

/// Looks for claimed subjects with a backlog whose claimants have all gone quiet, and records
/// each once an outage. Sent by housekeeping every minute.
#[derive(Debug, Clone, Copy)]
pub struct NoteUnattended;

/// What is unattended now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unattended {
    /// Subjects, those included that were recorded before.
    pub subjects: u64,
}

impl Write for NoteUnattended {
    type Reply = Unattended;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Unattended, StoreError> {
        let quiet_since = super::before(tx, UNATTENDED_AFTER_MS).0;
        note_attended(tx, quiet_since)?;
        for (key, subject) in newly_unattended(tx, quiet_since)? {
            if is_noted(tx, &key)? {
                note(tx, &key)?;
            } else {
                note(tx, &key)?;
                record(tx, &key, subject)?;
            }
        }
        let subjects = tx.first(
            "SELECT count(DISTINCT subject_key) FROM claims WHERE unattended = 1",
            [],
            |row| row.get::<_, i64>(0),
            "count unattended subjects",
        )?;
        Ok(Unattended {
            subjects: subjects.unwrap_or(0).unsigned_abs(),
        })
    }
}

/// An outage ends when a claimant fetches again, or when nothing is left to fetch.
fn note_attended(tx: &Tx<'_>, quiet_since: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE claims SET unattended = 0
         WHERE unattended = 1 AND (
             EXISTS (SELECT 1 FROM claims c JOIN instances i ON i.id = c.instance_id
                     WHERE c.subject_key = claims.subject_key
                         AND max(i.fetched_at_ms, c.claimed_at_ms) >= ?1)
             OR NOT EXISTS (SELECT 1 FROM claims c JOIN lanes l
                                ON l.lane_key = c.subject_key AND l.instance_id = c.instance_id
                            WHERE c.subject_key = claims.subject_key))",
        params![quiet_since],
        "note what is attended again",
    )?;
    Ok(())
}

fn newly_unattended(tx: &Tx<'_>, quiet_since: i64) -> Result<Vec<(String, String)>, StoreError> {
    tx.all(
        "SELECT claims.subject_key, min(claims.subject)
         FROM instances
             CROSS JOIN claims ON claims.instance_id = instances.id
             CROSS JOIN lanes ON lanes.lane_key = claims.subject_key
                 AND lanes.instance_id = claims.instance_id
         WHERE instances.backlog > 0 AND instances.fetched_at_ms < ?1 AND claims.unattended = 0
             AND NOT EXISTS (
                 SELECT 1 FROM claims c JOIN instances i ON i.id = c.instance_id
                 WHERE c.subject_key = claims.subject_key
                     AND max(i.fetched_at_ms, c.claimed_at_ms) >= ?1)
         GROUP BY claims.subject_key ORDER BY claims.subject_key LIMIT ?2",
        params![quiet_since, SUBJECTS_MAX],
        |row| Ok((row.get(0)?, row.get(1)?)),
        "look for unattended subjects",
    )
}

fn is_noted(tx: &Tx<'_>, subject_key: &str) -> Result<bool, StoreError> {
    let noted = tx.first(
        "SELECT 1 FROM claims WHERE subject_key = ?1 AND unattended = 1 LIMIT 1",
        params![subject_key],
        |_| Ok(()),
        "look whether an outage is noted",
    )?;
    Ok(noted.is_some())
}

fn note(tx: &Tx<'_>, subject_key: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE claims SET unattended = 1 WHERE subject_key = ?1",
        params![subject_key],
        "note an outage",
    )?;
    Ok(())
}

fn record(tx: &mut Tx<'_>, subject_key: &str, subject: String) -> Result<(), StoreError> {
    let claimants = tx.all(
        "SELECT DISTINCT instances.name, coalesce((
             SELECT (SELECT count(*) FROM deliveries WHERE lane_id = lanes.id AND state = 0)
                 + (SELECT count(*) FROM deliveries WHERE lane_id = lanes.id AND state = 1)
             FROM lanes
             WHERE lane_key = claims.subject_key AND instance_id = claims.instance_id), 0)
         FROM claims JOIN instances ON instances.id = claims.instance_id
         WHERE claims.subject_key = ?1 ORDER BY instances.name",
        params![subject_key],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)),
        "read who claims an unattended subject",
    )?;
    let backlog: i64 = claimants.iter().map(|(_, waiting)| waiting).sum();
    tx.effects.events.push(GatewayEvent::Unattended {
        subject,
        instances: claimants.into_iter().map(|(name, _)| name).collect(),
        backlog: backlog.unsigned_abs(),
    });
    Ok(())
}
