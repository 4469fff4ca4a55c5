//! What goes out next: the oldest due event of every lane that nothing holds up.
//!
//! Lanes are merged by their heads, so a fetch reads what it hands out and one head a lane, and
//! never what waits behind a failing head.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rusqlite::{Row, Statement, params};

use super::lane;
use super::row::{Queue, highest_seq};
use crate::broken::Break;
use crate::domain::{
    Delivery, EventId, Payload, Provider, Seq, Source, StoredEvent, Subject, Timestamp,
};
use crate::store::error::{Doing, StoreError};
use crate::store::writer::Tx;

/// A delivery that may be next, ordered by event, then by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    event: EventId,
    seq: Seq,
    lane_id: i64,
    due_at: Timestamp,
    payload_bytes: u64,
    suspect: bool,
    attempt: u32,
    redrive_of: i64,
}

/// The bounds of one response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub deliveries: usize,
    pub payload_bytes: u64,
}

/// Response numbers kept beyond the last one that was echoed, for what is still on its way.
const NUMBERS_KEPT: i64 = 64;

/// Chooses, marks and reads the next deliveries; `None` when nothing may go out.
///
/// The number of the response comes with them: above every number and delivery so far.
pub(super) fn hand_out(
    tx: &Tx<'_>,
    queue: &Queue,
    hands: &str,
    bounds: Bounds,
) -> Result<Option<(i64, Vec<Delivery>)>, StoreError> {
    lane::open_due(tx, queue.id)?;
    let chosen = match in_hand(tx, queue)? {
        // While a suspect is in hand nothing else goes out.
        InHand::Suspect => Vec::new(),
        InHand::Nothing => choose(tx, queue, bounds, true)?,
        InHand::Others => choose(tx, queue, bounds, false)?,
    };
    if chosen.is_empty() {
        return Ok(None);
    }
    let number = next_number(tx, queue, hands)?;
    let mut lanes = std::collections::BTreeSet::new();
    for candidate in &chosen {
        mark_handed(tx, candidate.seq, number, hands)?;
        if lanes.insert(candidate.lane_id) {
            lane::mark_busy(tx, candidate.lane_id)?;
        }
    }
    let mut chosen = chosen;
    if Break::SubjectBySubject.is_on() {
        chosen.sort_by_key(|candidate| candidate.lane_id);
    }
    let deliveries = chosen
        .iter()
        .map(|candidate| read_delivery(tx, candidate))
        .collect::<Result<_, _>>()?;
    Ok(Some((number, deliveries)))
}

enum InHand {
    Nothing,
    Suspect,
    Others,
}

fn in_hand(tx: &Tx<'_>, queue: &Queue) -> Result<InHand, StoreError> {
    let first = tx.first(
        "SELECT suspect FROM deliveries WHERE instance_id = ?1 AND state = 1
         ORDER BY handed_number, seq LIMIT 1",
        params![queue.id],
        |row| row.get::<_, bool>(0),
        "look what is in hand",
    )?;
    Ok(match first {
        None => InHand::Nothing,
        Some(true) => InHand::Suspect,
        Some(false) => InHand::Others,
    })
}

/// Merges the open lanes by event.
fn choose(
    tx: &Tx<'_>,
    queue: &Queue,
    bounds: Bounds,
    may_go_alone: bool,
) -> Result<Vec<Candidate>, StoreError> {
    const DOING: &str = "choose what goes out";
    let mut open_lanes = tx.connection.prepare_cached(lanes_by_head()).doing(DOING)?;
    let mut next_of_lane = tx
        .connection
        .prepare_cached(
            "SELECT d.event_id, d.seq, d.lane_id, d.due_at_ms, e.payload_bytes, d.suspect,
                 d.attempt, d.redrive_of
             FROM deliveries d JOIN events e ON e.id = d.event_id
             WHERE d.lane_id = ?1 AND d.state = 0 AND (d.event_id, d.seq) > (?2, ?3)
             ORDER BY d.event_id, d.seq LIMIT 1",
        )
        .doing(DOING)?;
    let mut lanes = open_lanes
        .query_map(params![queue.id], |row| {
            Ok((row.get(0)?, EventId(row.get(1)?)))
        })
        .doing(DOING)?;
    let mut unopened = lanes.next().transpose().doing(DOING)?;
    let mut heads = BinaryHeap::new();
    let mut batch = Batch::new(bounds, may_go_alone);
    loop {
        // A lane whose head is not older than the oldest candidate has to be looked into first.
        while let Some((lane_id, head)) = unopened {
            if heads
                .peek()
                .is_some_and(|Reverse(top): &Reverse<Candidate>| top.event < head)
            {
                break;
            }
            heads.extend(next_in_lane(&mut next_of_lane, lane_id, None)?.map(Reverse));
            unopened = lanes.next().transpose().doing(DOING)?;
        }
        let Some(Reverse(candidate)) = heads.pop() else {
            break;
        };
        if candidate.due_at > tx.now {
            // Waits for its retry: what is behind it in its subject is passed over.
            if !Break::OrderIgnoredOnRedelivery.is_on() {
                continue;
            }
        } else if batch.admits(&candidate) {
            batch.take(candidate);
        } else {
            break;
        }
        heads.extend(
            next_in_lane(&mut next_of_lane, candidate.lane_id, Some(&candidate))?.map(Reverse),
        );
    }
    Ok(batch.chosen)
}

/// The query for the lanes that something may go out of.
fn lanes_by_head() -> &'static str {
    if !Break::OrderIgnoredOnRedelivery.is_on() {
        "SELECT id, head_event_id FROM lanes WHERE instance_id = ?1 AND state = 0
         ORDER BY head_event_id, id"
    } else {
        "SELECT id, head_event_id FROM lanes WHERE instance_id = ?1 AND state = 0
         UNION ALL SELECT id, head_event_id FROM lanes WHERE instance_id = ?1 AND state = 1
         ORDER BY head_event_id, id"
    }
}

fn next_in_lane(
    statement: &mut Statement<'_>,
    lane_id: i64,
    after: Option<&Candidate>,
) -> Result<Option<Candidate>, StoreError> {
    let (event, seq) = after.map_or((0, 0), |last| (last.event.0, last.seq.0));
    let mut rows = statement
        .query(params![lane_id, event, seq])
        .doing("read a lane")?;
    rows.next()
        .doing("read a lane")?
        .map(|row| read_candidate(row).doing("read a lane"))
        .transpose()
}

fn read_candidate(row: &Row<'_>) -> rusqlite::Result<Candidate> {
    Ok(Candidate {
        event: EventId(row.get(0)?),
        seq: Seq(row.get(1)?),
        lane_id: row.get(2)?,
        due_at: Timestamp(row.get(3)?),
        payload_bytes: length(row, 4)?,
        suspect: row.get(5)?,
        attempt: row.get(6)?,
        redrive_of: row.get(7)?,
    })
}

/// A length, which SQLite keeps signed.
fn length(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    u64::try_from(stored).or(Err(rusqlite::Error::IntegralValueOutOfRange(
        column, stored,
    )))
}

/// A response while it fills; it ends at the first delivery that does not fit.
struct Batch {
    bounds: Bounds,
    /// Nothing is in hand, so a suspect may go out, alone.
    may_go_alone: bool,
    chosen: Vec<Candidate>,
    payload_bytes: u64,
}

impl Batch {
    const fn new(bounds: Bounds, may_go_alone: bool) -> Self {
        Self {
            bounds,
            may_go_alone,
            chosen: Vec::new(),
            payload_bytes: 0,
        }
    }

    fn admits(&self, next: &Candidate) -> bool {
        let bytes = self.payload_bytes.saturating_add(next.payload_bytes);
        if self.chosen.is_empty() {
            self.bounds.deliveries > 0 && (!next.suspect || self.may_go_alone)
        } else {
            let has_suspect = next.suspect || self.chosen.iter().any(|taken| taken.suspect);
            !has_suspect
                && self.chosen.len() < self.bounds.deliveries
                && bytes <= self.bounds.payload_bytes
        }
    }

    fn take(&mut self, next: Candidate) {
        self.payload_bytes = self.payload_bytes.saturating_add(next.payload_bytes);
        self.chosen.push(next);
    }
}

/// Gives the response its number and remembers it, so that a cursor can be checked.
fn next_number(tx: &Tx<'_>, queue: &Queue, hands: &str) -> Result<i64, StoreError> {
    let highest = if Break::CursorBelowDeliveries.is_on() {
        0
    } else {
        highest_seq(tx)?
    };
    let number = tx
        .first(
            "UPDATE instances SET last_number = max(last_number, ?2) + 1 WHERE id = ?1
             RETURNING last_number",
            params![queue.id, highest],
            |row| row.get(0),
            "number a response",
        )?
        .ok_or_else(|| StoreError::Corrupt("a queue without a row".to_owned()))?;
    tx.execute(
        "INSERT INTO response_numbers (instance_id, number, run) VALUES (?1, ?2, ?3)",
        params![queue.id, number, hands],
        "remember the number of a response",
    )?;
    tx.execute(
        "DELETE FROM response_numbers WHERE instance_id = ?1 AND number <= (
             SELECT number FROM response_numbers WHERE instance_id = ?1
             ORDER BY number DESC LIMIT 1 OFFSET ?2)
         AND number < (SELECT echoed_number FROM instances WHERE id = ?1)",
        params![queue.id, NUMBERS_KEPT],
        "forget old response numbers",
    )?;
    Ok(number)
}

fn mark_handed(tx: &Tx<'_>, seq: Seq, number: i64, hands: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE deliveries SET state = 1, ever_handed = 1, handed_number = ?2, handed_run = ?3,
             handed_at_ms = ?4
         WHERE seq = ?1",
        params![seq.0, number, hands, tx.now.0],
        "hand out a delivery",
    )?;
    Ok(())
}

fn read_delivery(tx: &Tx<'_>, chosen: &Candidate) -> Result<Delivery, StoreError> {
    let row = tx.first(
        "SELECT id, subject, provider, transport, delivery_id, received_at_ms, work_item, kind,
             headers, payload_bytes, payload
         FROM events WHERE id = ?1",
        params![chosen.event.0],
        |row| {
            let words: (String, String) = (row.get(2)?, row.get(3)?);
            Ok((words, read_event(row)?))
        },
        "read an event to hand out",
    )?;
    let seq = chosen.seq;
    let Some(((provider, source), event)) = row else {
        return Err(StoreError::Corrupt(format!(
            "delivery {seq} without its event"
        )));
    };
    let unreadable = || StoreError::Corrupt(format!("delivery {seq} of {provider} by {source}"));
    let event = StoredEvent {
        provider: Provider::from_word(&provider).ok_or_else(unreadable)?,
        source: Source::from_word(&source).ok_or_else(unreadable)?,
        ..event
    };
    Ok(Delivery {
        seq,
        attempt: chosen.attempt,
        redrive_of: (chosen.redrive_of > 0).then_some(Seq(chosen.redrive_of)),
        event,
    })
}

/// The event's columns; provider and source are set by the caller, who checks their words.
fn read_event(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    let subject: String = row.get(1)?;
    let work_item: String = row.get(6)?;
    Ok(StoredEvent {
        id: EventId(row.get(0)?),
        subject: if subject.is_empty() {
            Subject::UNASSIGNED.to_owned()
        } else {
            subject
        },
        provider: Provider::GitHub,
        source: Source::Webhook,
        delivery_id: row.get(4)?,
        received_at: Timestamp(row.get(5)?),
        work_item: (!work_item.is_empty()).then_some(work_item),
        kind: row.get(7)?,
        headers: row.get(8)?,
        payload: Payload::from_stored(row.get(10)?, length(row, 9)?),
    })
}
