//! Queues and the instances that they belong to.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};
use serde::Serialize;

use super::{Page, PageRequest, age_seconds, seconds, shown_text, shown_time};
use crate::digest;
use crate::domain::{Provider, Timestamp};
use crate::store::error::StoreError;
use crate::store::read;

/// The counters that health shows; kept by the writes, not counted here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCounters {
    /// Stored events.
    pub events: i64,
    /// Events on no queue yet.
    pub held: i64,
    /// The backlog of each instance.
    pub queues: BTreeMap<String, i64>,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRow {
    /// Whose queue it is.
    pub instance: String,
    /// One below its lowest live delivery, else the highest number of all.
    pub committed: i64,
    /// Deliveries that are ready or in hand.
    pub backlog: i64,
    /// Those of them in hand.
    pub in_hand: i64,
    /// Subjects whose first delivery waits for its next try.
    pub waiting_retry: i64,
    /// Those that go out alone.
    pub suspects: i64,
    /// Dead deliveries that nothing replaced yet.
    pub dead: i64,
    /// When the oldest event of the backlog arrived.
    pub oldest_received_at: Option<String>,
    /// Seconds since then.
    pub oldest_age_seconds: Option<f64>,
}

/// One instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRow {
    /// Its name.
    pub instance: String,
    /// When it fetched last.
    pub last_fetch_at: Option<String>,
    /// The hold on its name.
    pub lease: LeaseView,
    /// A digest of the peer that holds or held the name last; never the peer itself.
    pub peer_fingerprint: Option<String>,
    /// For whom it works.
    pub actors: InstanceActors,
    /// Deliveries that are ready or in hand.
    pub backlog: i64,
}

/// The hold on a name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    /// True while a peer holds it.
    pub live: bool,
    /// Seconds until it ends; 0 when it is not live.
    pub expires_in: f64,
}

/// The accounts of an instance, by provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceActors {
    /// GitHub logins.
    pub github: Vec<String>,
    /// Slack user ids.
    pub slack: Vec<String>,
    /// Jira accounts.
    pub jira: Vec<String>,
}

/// The counters of health.
///
/// # Errors
/// When the store cannot be read.
pub fn health_counters(connection: &Connection) -> Result<HealthCounters, StoreError> {
    let counters = read::all(
        connection,
        "SELECT name, value FROM counters",
        [],
        |row| Ok((row.get::<_, String>(0)?, row.get(1)?)),
        "read the counters",
    )?;
    let counters: BTreeMap<String, i64> = counters.into_iter().collect();
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    let queues = read::all(
        connection,
        "SELECT name, backlog FROM instances WHERE forgotten_at_ms = 0",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
        "read the backlogs",
    )?;
    Ok(HealthCounters {
        events: of("events"),
        held: of("held"),
        queues: queues.into_iter().collect(),
    })
}

/// The queues by name.
///
/// # Errors
/// When the store cannot be read.
pub fn queues(
    connection: &Connection,
    now: Timestamp,
    page: &PageRequest,
) -> Result<Page<QueueRow>, StoreError> {
    let rows = read::all(
        connection,
        QUEUES,
        params![page.after_name(), now.0, page.limit_and_one()],
        |row| read_queue(row, now),
        "list the queues",
    )?;
    Ok(page.page(rows, |row| row.instance.clone()))
}

/// The oldest event of a queue is the least of the first open head, the waiting heads and what is
/// in hand; none of these looks at what waits behind.
const QUEUES: &str = "SELECT q.name, q.backlog, q.in_hand, q.waiting, q.suspects, q.dead,
         coalesce(q.lowest - 1, (SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'), 0),
         coalesce((SELECT received_at_ms FROM events
                   WHERE id = min(q.first_open, q.first_waiting, q.first_in_hand)), 0)
     FROM (SELECT i.name, i.backlog,
               (SELECT seq FROM deliveries WHERE instance_id = i.id AND state <= 1
                ORDER BY seq LIMIT 1) AS lowest,
               (SELECT count(*) FROM deliveries WHERE instance_id = i.id AND state = 1) AS in_hand,
               (SELECT count(*) FROM lanes WHERE instance_id = i.id AND state = 1
                    AND head_due_at_ms > ?2) AS waiting,
               (SELECT count(*) FROM deliveries WHERE instance_id = i.id AND suspect = 1
                    AND state <= 1) AS suspects,
               (SELECT count(*) FROM deliveries WHERE instance_id = i.id AND state = 3
                    AND replaced = 0) AS dead,
               coalesce((SELECT head_event_id FROM lanes WHERE instance_id = i.id AND state = 0
                         ORDER BY head_event_id LIMIT 1), 9223372036854775807) AS first_open,
               coalesce((SELECT min(head_event_id) FROM lanes
                         WHERE instance_id = i.id AND state = 1), 9223372036854775807)
                   AS first_waiting,
               coalesce((SELECT min(event_id) FROM deliveries
                         WHERE instance_id = i.id AND state = 1), 9223372036854775807)
                   AS first_in_hand
           FROM instances i
           WHERE i.name > ?1 AND i.forgotten_at_ms = 0 ORDER BY i.name LIMIT ?3) q
     ORDER BY q.name";

fn read_queue(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<QueueRow> {
    let oldest: i64 = row.get(7)?;
    let oldest_received_at = shown_time(oldest);
    Ok(QueueRow {
        instance: row.get(0)?,
        backlog: row.get(1)?,
        in_hand: row.get(2)?,
        waiting_retry: row.get(3)?,
        suspects: row.get(4)?,
        dead: row.get(5)?,
        committed: row.get(6)?,
        oldest_age_seconds: oldest_received_at
            .is_some()
            .then(|| age_seconds(now, oldest)),
        oldest_received_at,
    })
}

/// The instances by name.
///
/// # Errors
/// When the store cannot be read.
pub fn instances(
    connection: &Connection,
    now: Timestamp,
    page: &PageRequest,
) -> Result<Page<InstanceRow>, StoreError> {
    let rows = read::all(
        connection,
        "SELECT name, fetched_at_ms, lease_until_ms, peer, backlog FROM instances
         WHERE name > ?1 AND forgotten_at_ms = 0 ORDER BY name LIMIT ?2",
        params![page.after_name(), page.limit_and_one()],
        |row| read_instance(row, now),
        "list the instances",
    )?;
    let mut page = page.page(rows, |row| row.instance.clone());
    add_actors(connection, &mut page.rows)?;
    Ok(page)
}

fn read_instance(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<InstanceRow> {
    let left = Timestamp(row.get(2)?).since(now);
    let peer: String = row.get(3)?;
    Ok(InstanceRow {
        instance: row.get(0)?,
        last_fetch_at: shown_time(row.get(1)?),
        lease: LeaseView {
            live: left > 0,
            expires_in: seconds(left),
        },
        peer_fingerprint: shown_text(peer).map(|peer| digest::fingerprint(&peer)),
        actors: InstanceActors::default(),
        backlog: row.get(4)?,
    })
}

fn add_actors(connection: &Connection, rows: &mut [InstanceRow]) -> Result<(), StoreError> {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return Ok(());
    };
    let actors = read::all(
        connection,
        "SELECT i.name, a.provider, a.actor
         FROM instances i JOIN actors a ON a.instance_id = i.id
         WHERE i.name >= ?1 AND i.name <= ?2 ORDER BY i.name, a.provider, a.actor_key",
        params![first.instance, last.instance],
        |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
            ))
        },
        "list the actors",
    )?;
    let mut by_name: BTreeMap<&str, &mut InstanceActors> = rows
        .iter_mut()
        .map(|row| (row.instance.as_str(), &mut row.actors))
        .collect();
    for (name, provider, actor) in actors {
        let Some(actors) = by_name.get_mut(name.as_str()) else {
            continue;
        };
        match Provider::from_word(&provider) {
            Some(Provider::GitHub) => actors.github.push(actor),
            Some(Provider::Slack) => actors.slack.push(actor),
            Some(Provider::Jira) => actors.jira.push(actor),
            None => return Err(StoreError::Corrupt(format!("an actor of {provider}"))),
        }
    }
    Ok(())
}
