//! A delivery as the queue's rules see it, and the few ways its row changes.

use std::collections::BTreeSet;

use rusqlite::{Row, params};

use super::lane;
use crate::broken::Break;
use crate::digest;
use crate::domain::{EventId, InstanceName, Seq, Subject, Timestamp};
use crate::store::error::StoreError;
use crate::store::writer::Tx;
use crate::telemetry::{EventFacts, GatewayEvent};

/// The due time of what may go out at once.
pub(super) const DUE_AT_ONCE: Timestamp = Timestamp(0);
/// Hand-outs remembered of one delivery.
const HAND_OUTS_KEPT: i64 = 16;

/// The queue that a request is about.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub id: i64,
    pub name: InstanceName,
}

/// The hands of a run: two installations may choose the same name for a run.
pub(super) fn hands_of(run: &str, peer: &str) -> String {
    format!("{run}@{}", digest::fingerprint(peer))
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Handed,
    Settled,
    Dead,
    Expired,
}

impl State {
    fn from_number(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Ready),
            1 => Some(Self::Handed),
            2 => Some(Self::Settled),
            3 => Some(Self::Dead),
            4 => Some(Self::Expired),
            _ => None,
        }
    }

    pub(super) const fn is_live(self) -> bool {
        match self {
            Self::Ready | Self::Handed => true,
            Self::Settled | Self::Dead | Self::Expired => false,
        }
    }
}

/// How a hand-out ended that did not settle the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Failed,
    Released,
    SentBack,
    Vanished,
    Lost,
    Overdue,
}

impl Ended {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Released => "released",
            Self::SentBack => "sent-back",
            Self::Vanished => "vanished",
            Self::Lost => "lost",
            Self::Overdue => "overdue",
        }
    }

    /// True when the next hand-out is a new attempt.
    fn is_attempt(self) -> bool {
        match self {
            Self::Vanished => !Break::VanishedIsNoAttempt.is_on(),
            Self::Failed | Self::Overdue => true,
            Self::Released => Break::ReleasedIsAnAttempt.is_on(),
            Self::Lost => Break::LostIsAnAttempt.is_on(),
            Self::SentBack => false,
        }
    }
}

/// A delivery with what its rules depend on.
#[derive(Debug, Clone)]
pub(super) struct DeliveryRow {
    pub seq: Seq,
    pub instance_id: i64,
    pub lane_id: i64,
    pub state: State,
    pub attempt: u32,
    pub strikes: u32,
    pub losses: u32,
    pub suspect: bool,
    pub number: i64,
    /// Whose hands it is or was in, see [`hands_of`].
    pub hands: String,
    pub handed_at: Timestamp,
    pub ever_handed: bool,
    /// True when another row goes on with what this one was.
    pub replaced: bool,
    pub event: EventFacts,
}

/// The columns that [`DeliveryRow::read`] expects, with their tables.
macro_rules! select_delivery {
    ($tail:literal) => {
        concat!(
            "SELECT d.seq, d.instance_id, d.lane_id, d.state, d.attempt, d.strikes, d.losses,
                 d.suspect, d.handed_number, d.handed_run, d.handed_at_ms,
                 e.id, e.subject, e.delivery_id, d.ever_handed, d.replaced
             FROM deliveries d JOIN events e ON e.id = d.event_id ",
            $tail
        )
    };
}
pub(super) use select_delivery;

impl DeliveryRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let state: i64 = row.get(3)?;
        let subject: String = row.get(12)?;
        Ok(Self {
            seq: Seq(row.get(0)?),
            instance_id: row.get(1)?,
            lane_id: row.get(2)?,
            state: State::from_number(state)
                .ok_or(rusqlite::Error::IntegralValueOutOfRange(3, state))?,
            attempt: row.get(4)?,
            strikes: row.get(5)?,
            losses: row.get(6)?,
            suspect: row.get(7)?,
            number: row.get(8)?,
            hands: row.get(9)?,
            handed_at: Timestamp(row.get(10)?),
            ever_handed: row.get(14)?,
            replaced: row.get(15)?,
            event: EventFacts {
                id: EventId(row.get(11)?),
                subject: if subject.is_empty() {
                    Subject::UNASSIGNED.to_owned()
                } else {
                    subject
                },
                delivery_id: row.get(13)?,
            },
        })
    }
}

/// What becomes of a delivery whose hand-out ended without settling it.
#[derive(Debug, Clone)]
pub(super) struct PutBack<'a> {
    pub ended: Ended,
    pub is_strike: bool,
    pub suspect: bool,
    pub losses: u32,
    pub due_at: Timestamp,
    /// What the instance said, for `failed` and `released`.
    pub detail: &'a str,
}

/// The lanes to derive again once all rows of a step are changed.
#[derive(Debug, Default)]
pub(super) struct Lanes(BTreeSet<i64>);

impl Lanes {
    pub(super) fn touch(&mut self, lane_id: i64) {
        self.0.insert(lane_id);
    }

    pub(super) fn refresh(self, tx: &Tx<'_>) -> Result<(), StoreError> {
        self.0
            .into_iter()
            .try_for_each(|lane_id| lane::refresh(tx, lane_id))
    }
}

/// Ends a hand-out without settling: the delivery is ready again, or dead at its last strike.
pub(super) fn put_back(
    tx: &mut Tx<'_>,
    queue: &Queue,
    row: &DeliveryRow,
    back: &PutBack<'_>,
    lanes: &mut Lanes,
) -> Result<(), StoreError> {
    note_hand_out(tx, row, back)?;
    let strikes = row.strikes.saturating_add(u32::from(back.is_strike));
    let attempt = row
        .attempt
        .saturating_add(u32::from(back.ended.is_attempt()));
    let is_dead =
        back.is_strike && strikes >= tx.settings.strikes_max && !Break::StrikesWithoutBound.is_on();
    tx.execute(
        "UPDATE deliveries SET state = ?2, due_at_ms = ?3, attempt = ?4, strikes = ?5,
             losses = ?6, suspect = ?7, outcome = ?8, detail = ?9, ended_at_ms = ?10
         WHERE seq = ?1",
        params![
            row.seq.0,
            if is_dead { 3 } else { 0 },
            back.due_at.0,
            if is_dead { row.attempt } else { attempt },
            strikes,
            back.losses,
            back.suspect && !is_dead,
            back.ended.as_str(),
            back.detail,
            if is_dead { tx.now.0 } else { 0 },
        ],
        "put a delivery back",
    )?;
    lanes.touch(row.lane_id);
    count(tx, back);
    if is_dead {
        tx.effects.add_backlog(row.instance_id, -1);
    }
    if let Some(record) = record_of(queue, row, back, is_dead, (attempt, strikes)) {
        tx.effects.events.push(record);
    }
    Ok(())
}

/// What no record says: a strike, and what was given back untried.
fn count(tx: &mut Tx<'_>, back: &PutBack<'_>) {
    let tally = &mut tx.effects.tally;
    tally.strikes = tally.strikes.saturating_add(u64::from(back.is_strike));
    let is_released = back.ended == Ended::Released;
    tally.released = tally.released.saturating_add(u64::from(is_released));
}

fn record_of(
    queue: &Queue,
    row: &DeliveryRow,
    back: &PutBack<'_>,
    is_dead: bool,
    (attempt, strikes): (u32, u32),
) -> Option<GatewayEvent> {
    let (subject, instance) = (row.event.subject.clone(), queue.name.to_string());
    let (gateway_event_id, delivery_id) = (row.event.id.0, row.event.delivery_id.clone());
    let (seq, after) = (row.seq.0, back.ended.as_str());
    match back.ended {
        Ended::Released | Ended::SentBack => None,
        Ended::Failed | Ended::Vanished | Ended::Overdue | Ended::Lost if is_dead => {
            Some(GatewayEvent::DeadLettered {
                subject,
                instance,
                seq,
                strikes,
                after,
                gateway_event_id,
                delivery_id,
            })
        }
        Ended::Failed | Ended::Vanished | Ended::Overdue | Ended::Lost => {
            Some(GatewayEvent::Redelivered {
                subject,
                instance,
                seq,
                attempt,
                after,
                gateway_event_id,
                delivery_id,
            })
        }
    }
}

/// Remembers how a hand-out ended and what was said of it; of each delivery the newest 16.
fn note_hand_out(tx: &Tx<'_>, row: &DeliveryRow, back: &PutBack<'_>) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO hand_outs (seq, number, run, attempt, handed_at_ms, ended_at_ms, ended, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            row.seq.0,
            row.number,
            row.hands,
            row.attempt,
            row.handed_at.0,
            tx.now.0,
            back.ended.as_str(),
            back.detail
        ],
        "note a hand-out",
    )?;
    tx.execute(
        "DELETE FROM hand_outs WHERE id IN (
             SELECT id FROM hand_outs WHERE seq = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2)",
        params![row.seq.0, HAND_OUTS_KEPT],
        "forget old hand-outs",
    )?;
    Ok(())
}

/// The highest number that a delivery ever had, also when its row is gone.
pub(super) fn highest_seq(tx: &Tx<'_>) -> Result<i64, StoreError> {
    let highest = tx.first(
        "SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'",
        [],
        |row| row.get(0),
        "read the highest number",
    )?;
    Ok(highest.unwrap_or(0))
}

/// One below the lowest live delivery of a queue; without one, the highest number of all.
pub(super) fn committed(tx: &Tx<'_>, instance_id: i64) -> Result<Seq, StoreError> {
    let sql = if Break::CommittedPassesGaps.is_on() {
        "SELECT seq FROM deliveries WHERE instance_id = ?1 AND state <= 1
         ORDER BY seq DESC LIMIT 1"
    } else {
        "SELECT seq FROM deliveries WHERE instance_id = ?1 AND state <= 1 ORDER BY seq LIMIT 1"
    };
    let lowest: Option<i64> = tx.first(
        sql,
        params![instance_id],
        |row| row.get(0),
        "read what is committed",
    )?;
    match lowest {
        Some(seq) => Ok(Seq(seq.saturating_sub(1))),
        None => highest_seq(tx).map(Seq),
    }
}
