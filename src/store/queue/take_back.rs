//! What a run no longer has in its hands, though it said nothing of it.

use rusqlite::params;

use super::row::{
    DUE_AT_ONCE, DeliveryRow, Ended, Lanes, PutBack, Queue, put_back, select_delivery,
};
use crate::broken::Break;
use crate::domain::Timestamp;
use crate::store::error::StoreError;
use crate::store::writer::Tx;

/// From this many losses in a row on a delivery is a suspect.
const LOSSES_SUSPECT: u32 = 3;

/// The present run of a queue, as taking back judges by it.
#[derive(Debug, Clone)]
pub(super) struct Present<'a> {
    /// The hands of the run that asks now.
    pub hands: &'a str,
    /// The last response that it received.
    pub cursor: i64,
    /// The last response that it said it received before.
    pub echoed: i64,
    /// When the lease was last found to have lapsed.
    pub lapsed_at: Timestamp,
}

/// Takes back what vanished with another run, what was lost on the way, and what is overdue.
pub(super) fn take_back(
    tx: &mut Tx<'_>,
    queue: &Queue,
    present: &Present<'_>,
) -> Result<(), StoreError> {
    note_received(tx, queue, present)?;
    let rows = suspicious(tx, queue, present)?;
    let mut lanes = Lanes::default();
    for (row, is_alone) in &rows {
        if let Some(back) = judge(tx, present, row, *is_alone) {
            put_back(tx, queue, row, &back, &mut lanes)?;
        }
    }
    lanes.refresh(tx)
}

/// What a cursor confirms was received: its losses are no longer "running".
fn note_received(tx: &Tx<'_>, queue: &Queue, present: &Present<'_>) -> Result<(), StoreError> {
    if present.cursor > present.echoed {
        tx.execute(
            "UPDATE deliveries SET losses = 0
             WHERE instance_id = ?1 AND state = 1 AND handed_number > ?2 AND handed_number <= ?3
                 AND losses > 0",
            params![queue.id, present.echoed, present.cursor],
            "note that a response was received",
        )?;
    }
    Ok(())
}

/// The deliveries in hand that may have to be taken back, each with whether it is the only one in
/// its run's hands.
///
/// Numbers grow, so what vanished or is overdue has the lowest ones: when the first is neither,
/// none is, and only what is above the cursor remains to be read.
fn suspicious(
    tx: &Tx<'_>,
    queue: &Queue,
    present: &Present<'_>,
) -> Result<Vec<(DeliveryRow, bool)>, StoreError> {
    let first = tx.first(
        "SELECT handed_run, handed_at_ms FROM deliveries
         WHERE instance_id = ?1 AND state = 1 ORDER BY handed_number, seq LIMIT 1",
        params![queue.id],
        |row| Ok((row.get::<_, String>(0)?, Timestamp(row.get(1)?))),
        "look what is in hand longest",
    )?;
    let Some((hands, handed_at)) = first else {
        return Ok(Vec::new());
    };
    let is_first_sound = hands == present.hands && !is_overdue(tx, handed_at);
    let is_first_sound = is_first_sound && !Break::SleeperLosesItsHands.is_on();
    let from = if is_first_sound { present.cursor } else { -1 };
    let rows = tx.all(
        select_delivery!(
            "WHERE d.instance_id = ?1 AND d.state = 1 AND d.handed_number > ?2
             ORDER BY d.handed_number, d.seq"
        ),
        params![queue.id, from],
        DeliveryRow::read,
        "read what is in hand",
    )?;
    let count_in = |hands: &str| rows.iter().filter(|row| row.hands == hands).count();
    let alone: Vec<bool> = rows.iter().map(|row| count_in(&row.hands) == 1).collect();
    Ok(rows.into_iter().zip(alone).collect())
}

fn is_overdue(tx: &Tx<'_>, handed_at: Timestamp) -> bool {
    tx.now.since(handed_at) >= tx.settings.hand_timeout_ms
}

fn judge(
    tx: &Tx<'_>,
    present: &Present<'_>,
    row: &DeliveryRow,
    is_alone: bool,
) -> Option<PutBack<'static>> {
    let slept = Break::SleeperLosesItsHands.is_on() && present.lapsed_at > row.handed_at;
    if row.hands != present.hands || slept {
        return Some(guilty(row, Ended::Vanished, is_alone, true));
    }
    if row.number > present.cursor {
        return Some(lost(tx, row));
    }
    if is_overdue(tx, row.handed_at) {
        // A laptop that slept past its lease is not guilty of what it had in hand.
        let was_awake = present.lapsed_at <= row.handed_at;
        return Some(guilty(row, Ended::Overdue, is_alone, was_awake));
    }
    None
}

/// Alone it is a strike; in company nobody knows who did it, so it is a suspect.
fn guilty(row: &DeliveryRow, ended: Ended, is_alone: bool, counts: bool) -> PutBack<'static> {
    PutBack {
        ended,
        is_strike: is_alone && counts,
        suspect: (row.suspect || !is_alone) && !Break::NoSuspects.is_on(),
        losses: 0,
        due_at: DUE_AT_ONCE,
        detail: "",
    }
}

/// Nobody saw it: the same attempt again. A response that is lost again and again is suspected
/// of being too big for something on the way, and finally lets the others go first.
fn lost(tx: &Tx<'_>, row: &DeliveryRow) -> PutBack<'static> {
    let losses = row.losses.saturating_add(1);
    let waits = losses.saturating_sub(LOSSES_SUSPECT);
    let due_at = if waits > 0 {
        tx.now.plus(tx.settings.backoff_ms(waits))
    } else {
        DUE_AT_ONCE
    };
    PutBack {
        ended: Ended::Lost,
        is_strike: Break::LostIsAStrike.is_on(),
        suspect: (row.suspect || losses >= LOSSES_SUSPECT) && !Break::NoSuspects.is_on(),
        losses,
        due_at,
        detail: "",
    }
}
