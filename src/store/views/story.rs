//! The whole story of one event: what arrived, to whom it went, what became of each hand-out.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};
use serde::Serialize;

use super::events::{EventRow, event_columns, read_row};
use super::waiting::{self, Place, WaitsFor};
use super::{shown_text, shown_time};
use crate::domain::{EventId, Outcome, Timestamp};
use crate::store::error::StoreError;
use crate::store::read;

/// One event and all its deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventStory {
    /// The event.
    pub event: EventDetails,
    /// Its deliveries, in order of their numbers.
    pub deliveries: Vec<DeliveryStory>,
}

/// An event with what lists leave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDetails {
    /// What lists show of it.
    #[serde(flatten)]
    pub row: EventRow,
    /// The stored headers.
    pub headers: BTreeMap<String, String>,
    /// What named its work item: direct, binding, commit, room or declared-room.
    pub resolved_by: Option<String>,
    /// The binding's key, the commit or the room's channel, when it was one of these.
    pub resolved_key: Option<String>,
    /// The instance that published that binding or room, while it is still published.
    pub published_by: Option<String>,
    /// Further work items that it concerns.
    pub also_about: Vec<String>,
    /// While nothing names its work item: what would, best first.
    pub awaits: Vec<Awaited>,
    /// The keys by which a second copy is recognised.
    pub dedup_keys: Vec<String>,
}

/// A way to name the work item of an event in grace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Awaited {
    /// What kind of reference: binding, commit or room.
    pub by: String,
    /// Its key, the commit, or the channel.
    pub key: String,
}

/// One delivery and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryStory {
    /// Its number.
    pub seq: i64,
    /// On whose queue.
    pub instance: String,
    /// ready, handed, settled, dead or expired.
    pub state: &'static str,
    /// Why this instance.
    pub why: String,
    /// The attempt that its latest hand-out was, or its first one will be.
    pub attempt: i64,
    /// How often it alone was to blame.
    pub strikes: i64,
    /// True while it goes out alone.
    pub suspect: bool,
    /// How often running its response did not arrive.
    pub losses: i64,
    /// When it came on the queue.
    pub routed_at: String,
    /// When it may go out, if that is later than now.
    pub due_at: Option<String>,
    /// The last outcome that counted.
    pub outcome: Option<String>,
    /// What the instance said with it.
    pub detail: Option<String>,
    /// When it was settled, dead or expired.
    pub ended_at: Option<String>,
    /// The delivery that it replaces.
    pub redrive_of: Option<i64>,
    /// What it waits for; none when it is over.
    pub waits_for: Option<WaitsFor>,
    /// Its hand-outs, in order; of those that settled nothing the newest 16.
    pub hand_outs: Vec<HandOut>,
}

/// One time that a delivery was in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HandOut {
    /// The number of the response.
    pub number: i64,
    /// The process that got it.
    pub run: String,
    /// Which attempt it was.
    pub attempt: i64,
    /// When it was handed out.
    pub handed_at: String,
    /// When that ended.
    pub ended_at: Option<String>,
    /// How it ended.
    pub ended: Option<String>,
    /// What the instance said with that.
    pub detail: Option<String>,
}

/// The story of an event; `None` when there is no such event.
///
/// # Errors
/// When the store cannot be read.
pub fn story(
    connection: &Connection,
    now: Timestamp,
    id: EventId,
) -> Result<Option<EventStory>, StoreError> {
    let Some(event) = details(connection, id)? else {
        return Ok(None);
    };
    let mut ended = ended_hand_outs(connection, id)?;
    let rows = read::all(
        connection,
        "SELECT d.seq, coalesce(i.name, ''), d.state, d.why, d.attempt, d.strikes, d.suspect,
             d.losses, d.routed_at_ms, d.due_at_ms, d.outcome, d.detail, d.ended_at_ms,
             d.redrive_of, d.handed_number, d.handed_run, d.handed_at_ms, d.instance_id, d.lane_id
         FROM deliveries d LEFT JOIN instances i ON i.id = d.instance_id
         WHERE d.event_id = ?1 ORDER BY d.seq",
        params![id.0],
        |row| {
            let place = Place {
                seq: row.get(0)?,
                event: id.0,
                instance_id: row.get(17)?,
                lane_id: row.get(18)?,
                is_suspect: row.get(6)?,
                due_at: Timestamp(row.get(9)?),
            };
            Ok((read_delivery(row, now)?, read_own_hand_out(row)?, place))
        },
        "read the deliveries of an event",
    )?;
    let deliveries = rows
        .into_iter()
        .map(|(mut delivery, own, place)| {
            delivery.waits_for = match delivery.state {
                "handed" => Some(waiting::for_outcome(connection, now, &place)?),
                "ready" => Some(waiting::for_its_turn(connection, now, &place)?),
                _ => None,
            };
            delivery.hand_outs = ended.remove(&delivery.seq).unwrap_or_default();
            // A hand-out that was put back is among the ended ones already.
            let own = own.filter(|own| {
                let mut numbers = delivery.hand_outs.iter().map(|hand_out| hand_out.number);
                numbers.all(|number| number != own.number)
            });
            delivery.hand_outs.extend(own);
            Ok(delivery)
        })
        .collect::<Result<_, StoreError>>()?;
    Ok(Some(EventStory { event, deliveries }))
}

fn details(connection: &Connection, id: EventId) -> Result<Option<EventDetails>, StoreError> {
    let found = read::first(
        connection,
        concat!(
            "SELECT ",
            event_columns!(),
            ", e.headers, e.resolved_by, e.dedup_keys FROM events e WHERE e.id = ?1"
        ),
        params![id.0],
        |row| {
            let texts = (row.get::<_, String>(11)?, row.get::<_, String>(13)?);
            Ok((read_row(row, 0)?, texts, row.get::<_, String>(12)?))
        },
        "read an event",
    )?;
    let Some((row, (headers, keys), resolved_by)) = found else {
        return Ok(None);
    };
    let headers = serde_json::from_str(&headers)
        .map_err(|error| StoreError::Corrupt(format!("headers of event {id}: {error}")))?;
    let dedup_keys = serde_json::from_str(&keys)
        .map_err(|error| StoreError::Corrupt(format!("keys of event {id}: {error}")))?;
    let (by, key) = resolved_by.split_once(':').unwrap_or((&resolved_by, ""));
    Ok(Some(EventDetails {
        headers,
        published_by: publisher(connection, &row, by, key)?,
        resolved_by: shown_text(by.to_owned()),
        resolved_key: shown_text(key.to_owned()),
        also_about: also_about(connection, id)?,
        awaits: awaited(connection, id)?,
        dedup_keys,
        row,
    }))
}

/// Who publishes what named the work item, if that still stands.
fn publisher(
    connection: &Connection,
    row: &EventRow,
    by: &str,
    key: &str,
) -> Result<Option<String>, StoreError> {
    match by {
        "binding" => read::first(
            connection,
            "SELECT i.name FROM bindings b JOIN instances i ON i.id = b.instance_id
             WHERE b.provider = ?1 AND b.key = ?2 AND b.subject_key = ?3 LIMIT 1",
            params![row.provider, key, row.subject.to_ascii_lowercase()],
            |row| row.get(0),
            "read who published a binding",
        ),
        "room" => read::first(
            connection,
            "SELECT i.name FROM rooms r JOIN instances i ON i.id = r.instance_id
             WHERE r.channel = ?1 AND r.work_item = ?2",
            params![key, row.work_item.as_deref().unwrap_or_default()],
            |row| row.get(0),
            "read who published a room",
        ),
        _ => Ok(None),
    }
}

fn also_about(connection: &Connection, id: EventId) -> Result<Vec<String>, StoreError> {
    read::all(
        connection,
        "SELECT work_item FROM event_links WHERE event_id = ?1 ORDER BY subject_key",
        params![id.0],
        |row| row.get(0),
        "read what else an event concerns",
    )
}

fn awaited(connection: &Connection, id: EventId) -> Result<Vec<Awaited>, StoreError> {
    read::all(
        connection,
        "SELECT kind, key FROM event_references WHERE event_id = ?1 ORDER BY position",
        params![id.0],
        |row| {
            Ok(Awaited {
                by: row.get(0)?,
                key: row.get(1)?,
            })
        },
        "read what an event awaits",
    )
}

fn ended_hand_outs(
    connection: &Connection,
    id: EventId,
) -> Result<BTreeMap<i64, Vec<HandOut>>, StoreError> {
    let rows = read::all(
        connection,
        "SELECT h.seq, h.number, h.run, h.attempt, h.handed_at_ms, h.ended_at_ms, h.ended,
             h.detail
         FROM deliveries d JOIN hand_outs h ON h.seq = d.seq
         WHERE d.event_id = ?1 ORDER BY h.seq, h.id",
        params![id.0],
        |row| {
            let hand_out = HandOut {
                number: row.get(1)?,
                run: shown_run(&row.get::<_, String>(2)?),
                attempt: row.get(3)?,
                handed_at: Timestamp(row.get(4)?).to_string(),
                ended_at: shown_time(row.get(5)?),
                ended: shown_text(row.get(6)?),
                detail: shown_text(row.get(7)?),
            };
            Ok((row.get::<_, i64>(0)?, hand_out))
        },
        "read the hand-outs of an event",
    )?;
    let mut by_delivery: BTreeMap<i64, Vec<HandOut>> = BTreeMap::new();
    for (seq, hand_out) in rows {
        by_delivery.entry(seq).or_default().push(hand_out);
    }
    Ok(by_delivery)
}

fn read_delivery(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<DeliveryStory> {
    let state: i64 = row.get(2)?;
    let due_at: i64 = row.get(9)?;
    let redrive_of: i64 = row.get(13)?;
    Ok(DeliveryStory {
        seq: row.get(0)?,
        instance: row.get(1)?,
        state: shown_state(state),
        why: row.get(3)?,
        attempt: row.get(4)?,
        strikes: row.get(5)?,
        suspect: row.get(6)?,
        losses: row.get(7)?,
        routed_at: Timestamp(row.get(8)?).to_string(),
        due_at: (state == 0 && due_at > now.0).then(|| Timestamp(due_at).to_string()),
        outcome: shown_outcome(row.get(10)?),
        detail: shown_text(row.get(11)?),
        ended_at: shown_time(row.get(12)?),
        redrive_of: (redrive_of > 0).then_some(redrive_of),
        waits_for: None,
        hand_outs: Vec::new(),
    })
}

const fn shown_state(state: i64) -> &'static str {
    match state {
        0 => "ready",
        1 => "handed",
        2 => "settled",
        3 => "dead",
        _ => "expired",
    }
}

/// The present hand-out of a delivery, or the one that its end found it in.
fn read_own_hand_out(row: &Row<'_>) -> rusqlite::Result<Option<HandOut>> {
    let (state, number): (i64, i64) = (row.get(2)?, row.get(14)?);
    if number == 0 || state == 0 {
        return Ok(None);
    }
    let is_over = state > 1;
    let outcome: String = row.get(10)?;
    let ended = if state == 4 {
        shown_state(state).to_owned()
    } else {
        outcome
    };
    Ok(Some(HandOut {
        number,
        run: shown_run(&row.get::<_, String>(15)?),
        attempt: row.get(4)?,
        handed_at: Timestamp(row.get(16)?).to_string(),
        ended_at: shown_time(row.get(12)?).filter(|_| is_over),
        ended: shown_text(ended).filter(|_| is_over),
        detail: shown_text(row.get(11)?).filter(|_| is_over),
    }))
}

/// The name of a run without the fingerprint of its peer; a made-up one in the letters of a name.
fn shown_run(hands: &str) -> String {
    let run = hands.rsplit_once('@').map_or(hands, |(run, _)| run);
    run.replace(':', "-")
}

/// What an instance said; how a hand-out ended of which it said nothing is told with that.
pub(super) fn shown_outcome(stored: String) -> Option<String> {
    Outcome::parse(&stored).is_ok().then_some(stored)
}
