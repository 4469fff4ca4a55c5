//! What a live delivery waits for, as the rules of handing out see it.
//!
//! The rules themselves are the queue's; this only says which of them holds the delivery up. It
//! reads the file as it is now: what is taken back by the next fetch still shows as in hand.

use rusqlite::{Connection, params};
use serde::Serialize;

use super::shown_time;
use crate::domain::Timestamp;
use crate::store::error::StoreError;
use crate::store::read;

/// What a delivery waits for, and how its queue stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitsFor {
    /// One word: fetch (nothing but its instance's asking), retry (its due time), earlier (one of
    /// its subject that goes first), suspect (one of its queue that goes alone), alone (that
    /// nothing is in hand, because it goes alone itself), outcome (it is in hand).
    pub what: &'static str,
    /// The delivery that holds it up.
    pub behind: Option<i64>,
    /// The event of that delivery.
    pub behind_event: Option<i64>,
    /// When it, or what holds it up, is due, if that is later than now.
    pub until: Option<String>,
    /// Older events that wait on its queue; counted up to 1,000.
    pub ahead: i64,
    /// When its instance fetched last.
    pub last_fetch_at: Option<String>,
    /// True while a process holds the instance's name.
    pub live: bool,
}

/// Where a live delivery stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub seq: i64,
    pub event: i64,
    pub instance_id: i64,
    pub lane_id: i64,
    pub is_suspect: bool,
    pub due_at: Timestamp,
}

/// Another delivery, which is in the way.
struct Obstacle {
    seq: i64,
    event: i64,
    due_at: Timestamp,
}

/// What a delivery in hand waits for.
pub(super) fn for_outcome(
    connection: &Connection,
    now: Timestamp,
    place: &Place,
) -> Result<WaitsFor, StoreError> {
    waits_for(connection, now, place, "outcome", None)
}

/// What a ready delivery waits for.
pub(super) fn for_its_turn(
    connection: &Connection,
    now: Timestamp,
    place: &Place,
) -> Result<WaitsFor, StoreError> {
    if let Some(earlier) = earlier(connection, place)? {
        return waits_for(connection, now, place, "earlier", Some(&earlier));
    }
    if place.due_at > now {
        return waits_for(connection, now, place, "retry", None);
    }
    if let Some(suspect) = suspect(connection, now, place)? {
        return waits_for(connection, now, place, "suspect", Some(&suspect));
    }
    if place.is_suspect
        && let Some(in_hand) = in_hand(connection, place)?
    {
        return waits_for(connection, now, place, "alone", Some(&in_hand));
    }
    waits_for(connection, now, place, "fetch", None)
}

fn waits_for(
    connection: &Connection,
    now: Timestamp,
    place: &Place,
    what: &'static str,
    obstacle: Option<&Obstacle>,
) -> Result<WaitsFor, StoreError> {
    let instance = read::first(
        connection,
        "SELECT fetched_at_ms, lease_until_ms FROM instances WHERE id = ?1",
        params![place.instance_id],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        "read how an instance stands",
    )?;
    let (fetched_at, lease_until) = instance.unwrap_or_default();
    let due_at = obstacle.map_or(place.due_at, |other| other.due_at);
    Ok(WaitsFor {
        what,
        behind: obstacle.map(|other| other.seq),
        behind_event: obstacle.map(|other| other.event),
        until: (what != "outcome" && due_at > now).then(|| due_at.to_string()),
        ahead: ahead(connection, place)?,
        last_fetch_at: shown_time(fetched_at),
        live: lease_until > now.0,
    })
}

/// The one of its subject that goes first: in hand already, or older and still waiting.
fn earlier(connection: &Connection, place: &Place) -> Result<Option<Obstacle>, StoreError> {
    let in_hand = read::first(
        connection,
        "SELECT seq, event_id, 0 FROM deliveries WHERE lane_id = ?1 AND state = 1
         ORDER BY event_id LIMIT 1",
        params![place.lane_id],
        read_obstacle,
        "look what of a subject is in hand",
    )?;
    if in_hand.is_some() {
        return Ok(in_hand);
    }
    read::first(
        connection,
        "SELECT seq, event_id, due_at_ms FROM deliveries
         WHERE lane_id = ?1 AND state = 0 AND (event_id, seq) < (?2, ?3)
         ORDER BY event_id, seq LIMIT 1",
        params![place.lane_id, place.event, place.seq],
        read_obstacle,
        "look what of a subject goes first",
    )
}

/// The one of its queue that goes alone before it: in hand, or at its turn.
fn suspect(
    connection: &Connection,
    now: Timestamp,
    place: &Place,
) -> Result<Option<Obstacle>, StoreError> {
    read::first(
        connection,
        "SELECT seq, event_id, 0 FROM deliveries
         WHERE instance_id = ?1 AND suspect = 1 AND state <= 1 AND seq <> ?2
             AND (state = 1 OR (event_id < ?3 AND due_at_ms <= ?4))
         ORDER BY state DESC, event_id LIMIT 1",
        params![place.instance_id, place.seq, place.event, now.0],
        read_obstacle,
        "look for a suspect",
    )
}

fn in_hand(connection: &Connection, place: &Place) -> Result<Option<Obstacle>, StoreError> {
    read::first(
        connection,
        "SELECT seq, event_id, 0 FROM deliveries WHERE instance_id = ?1 AND state = 1
         ORDER BY handed_number, seq LIMIT 1",
        params![place.instance_id],
        read_obstacle,
        "look what of a queue is in hand",
    )
}

/// Older events that wait on its queue, as far as the first thousand and one tell.
fn ahead(connection: &Connection, place: &Place) -> Result<i64, StoreError> {
    let ahead = read::first(
        connection,
        "SELECT count(*) FROM (SELECT event_id FROM deliveries
                               WHERE instance_id = ?1 AND state <= 1
                               ORDER BY seq LIMIT 1001) q
         WHERE q.event_id < ?2",
        params![place.instance_id, place.event],
        |row| row.get(0),
        "count what is ahead",
    )?;
    Ok(ahead.unwrap_or(0))
}

fn read_obstacle(row: &rusqlite::Row<'_>) -> rusqlite::Result<Obstacle> {
    Ok(Obstacle {
        seq: row.get(0)?,
        event: row.get(1)?,
        due_at: Timestamp(row.get(2)?),
    })
}
