//! Subjects that somebody claims, waits for, or has to look at.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};
use serde::Serialize;

use super::{Page, PageRequest, age_seconds, shown_text};
use crate::domain::{Subject, Timestamp};
use crate::store::error::StoreError;
use crate::store::read;

/// Sorts behind every subject.
const BEHIND_ALL: &str = "~";

/// One subject, and who has how much of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectRow {
    /// The subject, as first seen; `unassigned` gathers what is on no queue yet and what has no
    /// work item.
    pub subject: String,
    /// The work item, as first seen; none before the first event.
    pub work_item: Option<String>,
    /// Who claims it.
    pub claimants: Vec<Claimant>,
    /// The queues that have a backlog of it.
    pub queues: Vec<SubjectQueue>,
    /// Its dead deliveries that nothing replaced yet.
    pub dead: i64,
    /// Its events on no queue yet.
    pub held: i64,
    /// True when it is claimed and has a backlog, and none of its claimants fetched for an hour.
    pub unattended: bool,
}

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claimant {
    /// Who claims.
    pub instance: String,
    /// driver or reviewer.
    pub role: String,
    /// Since when.
    pub claimed_at: String,
}

/// A subject's part of one queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectQueue {
    /// Whose queue.
    pub instance: String,
    /// Deliveries that are ready or in hand.
    pub depth: i64,
    /// When the oldest of their events arrived.
    pub oldest_received_at: String,
    /// Seconds since then.
    pub oldest_age_seconds: f64,
}

/// The subjects by name, in the end the row `unassigned`.
///
/// # Errors
/// When the store cannot be read.
pub fn subjects(
    connection: &Connection,
    now: Timestamp,
    page: &PageRequest,
) -> Result<Page<SubjectRow>, StoreError> {
    let mut keys = keys(connection, page)?;
    let has_room = keys.len() < usize::try_from(page.limit_and_one()).unwrap_or(usize::MAX);
    if has_room && page.after_name() < Subject::UNASSIGNED {
        keys.push((Subject::UNASSIGNED.to_owned(), 0));
    }
    let Page { rows: keys, next } = page.page(keys, |(key, _)| key.clone());
    let mut rows: BTreeMap<String, SubjectRow> = keys
        .into_iter()
        .map(|(key, dead)| {
            let row = SubjectRow {
                subject: key.clone(),
                dead,
                ..SubjectRow::default()
            };
            (key, row)
        })
        .collect();
    let listed = serde_json::to_string(&rows.keys().collect::<Vec<_>>())
        .map_err(|error| StoreError::Corrupt(format!("a subject that {error}")))?;
    add_names(connection, &listed, &mut rows)?;
    add_claimants(connection, &listed, &mut rows)?;
    add_queues(connection, now, &listed, &mut rows)?;
    if let Some(row) = rows.get_mut(Subject::UNASSIGNED) {
        add_unassigned(connection, now, row)?;
    }
    Ok(Page {
        rows: rows.into_values().collect(),
        next,
    })
}

/// Steps from subject to subject by index, whichever of the four ways it is known by; the few
/// dead deliveries are gathered once.
const KEYS: &str = "WITH RECURSIVE
     dead (key, deliveries) AS MATERIALIZED (
         SELECT e.subject_key, count(*)
         FROM instances i
             JOIN deliveries d ON d.instance_id = i.id AND d.state = 3 AND d.replaced = 0
             JOIN events e ON e.id = d.event_id
         GROUP BY e.subject_key),
     step (key) AS (
         SELECT ?1
         UNION ALL
         SELECT min(
             coalesce((SELECT min(subject_key) FROM claims WHERE subject_key > step.key), ?2),
             coalesce((SELECT min(lane_key) FROM lanes
                       WHERE lane_key > max(step.key, 'loop-') AND lane_key < 'loop.'), ?2),
             coalesce((SELECT min(subject_key) FROM events
                       WHERE state = 'held' AND subject_key > step.key), ?2),
             coalesce((SELECT min(key) FROM dead WHERE key > step.key), ?2))
         FROM step WHERE step.key < ?2 LIMIT ?3)
     SELECT step.key, coalesce((SELECT deliveries FROM dead WHERE dead.key = step.key), 0)
     FROM step WHERE step.key > ?1 AND step.key < ?2 ORDER BY step.key";

fn keys(connection: &Connection, page: &PageRequest) -> Result<Vec<(String, i64)>, StoreError> {
    read::all(
        connection,
        KEYS,
        // One step more: the first one is the position itself.
        params![
            page.after_name(),
            BEHIND_ALL,
            page.limit_and_one().saturating_add(1)
        ],
        |row| Ok((row.get(0)?, row.get(1)?)),
        "list the subjects",
    )
}

fn add_names(
    connection: &Connection,
    listed: &str,
    rows: &mut BTreeMap<String, SubjectRow>,
) -> Result<(), StoreError> {
    let names = read::all(
        connection,
        "SELECT page.value,
             (SELECT subject FROM claims WHERE subject_key = page.value LIMIT 1),
             (SELECT subject FROM events WHERE subject_key = page.value ORDER BY id LIMIT 1),
             coalesce((SELECT work_item FROM events WHERE subject_key = page.value
                       ORDER BY id LIMIT 1), ''),
             (SELECT count(*) FROM events WHERE subject_key = page.value AND state = 'held')
         FROM json_each(?1) AS page",
        params![listed],
        |row| {
            let claimed: Option<String> = row.get(1)?;
            let seen: Option<String> = row.get(2)?;
            Ok((
                row.get::<_, String>(0)?,
                seen.or(claimed),
                row.get::<_, String>(3)?,
                row.get::<_, i64>(4)?,
            ))
        },
        "read the names of subjects",
    )?;
    for (key, subject, work_item, held) in names {
        if let Some(row) = rows.get_mut(&key) {
            if let Some(subject) = subject {
                row.subject = subject;
            }
            row.work_item = shown_text(work_item);
            row.held = held;
        }
    }
    Ok(())
}

fn add_claimants(
    connection: &Connection,
    listed: &str,
    rows: &mut BTreeMap<String, SubjectRow>,
) -> Result<(), StoreError> {
    let claims = read::all(
        connection,
        "SELECT c.subject_key, i.name, c.role, c.claimed_at_ms, c.unattended
         FROM json_each(?1) AS page
             JOIN claims c ON c.subject_key = page.value
             JOIN instances i ON i.id = c.instance_id
         ORDER BY c.subject_key, i.name, c.role",
        params![listed],
        |row| {
            let claimant = Claimant {
                instance: row.get(1)?,
                role: row.get(2)?,
                claimed_at: Timestamp(row.get(3)?).to_string(),
            };
            Ok((row.get::<_, String>(0)?, claimant, row.get::<_, bool>(4)?))
        },
        "read who claims subjects",
    )?;
    for (key, claimant, unattended) in claims {
        if let Some(row) = rows.get_mut(&key) {
            row.claimants.push(claimant);
            row.unattended |= unattended;
        }
    }
    Ok(())
}

fn add_queues(
    connection: &Connection,
    now: Timestamp,
    listed: &str,
    rows: &mut BTreeMap<String, SubjectRow>,
) -> Result<(), StoreError> {
    let queues = read::all(
        connection,
        "SELECT l.lane_key, i.name,
             (SELECT count(*) FROM deliveries WHERE lane_id = l.id AND state = 0)
                 + (SELECT count(*) FROM deliveries WHERE lane_id = l.id AND state = 1),
             coalesce((SELECT received_at_ms FROM events WHERE id = min(
                 coalesce((SELECT min(event_id) FROM deliveries
                           WHERE lane_id = l.id AND state = 0), 9223372036854775807),
                 coalesce((SELECT min(event_id) FROM deliveries
                           WHERE lane_id = l.id AND state = 1), 9223372036854775807))), 0)
         FROM json_each(?1) AS page
             JOIN lanes l ON l.lane_key = page.value
             JOIN instances i ON i.id = l.instance_id
         ORDER BY l.lane_key, i.name",
        params![listed],
        |row| Ok((row.get::<_, String>(0)?, read_queue(row, now)?)),
        "read the backlogs of subjects",
    )?;
    for (key, queue) in queues {
        if let Some(row) = rows.get_mut(&key) {
            row.queues.push(queue);
        }
    }
    Ok(())
}

fn read_queue(row: &rusqlite::Row<'_>, now: Timestamp) -> rusqlite::Result<SubjectQueue> {
    let oldest: i64 = row.get(3)?;
    Ok(SubjectQueue {
        instance: row.get(1)?,
        depth: row.get(2)?,
        oldest_received_at: Timestamp(oldest).to_string(),
        oldest_age_seconds: age_seconds(now, oldest),
    })
}

/// What is on no queue yet, whatever its subject, and what has no work item.
fn add_unassigned(
    connection: &Connection,
    now: Timestamp,
    row: &mut SubjectRow,
) -> Result<(), StoreError> {
    let counts = read::first(
        connection,
        "SELECT (SELECT value FROM counters WHERE name = 'held'), (
             SELECT count(*) FROM instances i
                 CROSS JOIN deliveries d
                     ON d.instance_id = i.id AND d.state = 3 AND d.replaced = 0
                 CROSS JOIN events e ON e.id = d.event_id
             WHERE e.subject_key = '')",
        [],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        "count what is unassigned",
    )?;
    if let Some((held, dead)) = counts {
        row.held = held;
        row.dead = dead;
    }
    row.queues = read::all(
        connection,
        "SELECT '', i.name, count(*), min(e.received_at_ms)
         FROM lanes l
             JOIN instances i ON i.id = l.instance_id
             JOIN events e ON e.id = l.head_event_id
         WHERE l.lane_key >= 'event:' AND l.lane_key < 'event;'
         GROUP BY i.name ORDER BY i.name",
        [],
        |row| read_queue(row, now),
        "read the backlogs without a work item",
    )?;
    Ok(())
}
