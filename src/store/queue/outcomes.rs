//! What an instance says of deliveries, applied in order of their numbers.

use std::collections::BTreeMap;

use rusqlite::params;

use super::row::{
    DUE_AT_ONCE, DeliveryRow, Ended, Lanes, PutBack, Queue, State, highest_seq, put_back,
    select_delivery,
};
use crate::broken::Break;
use crate::domain::{CommitItem, Millis, Outcome, Refusal, Seq};
use crate::store::error::StoreError;
use crate::store::writer::Tx;

/// A released delivery goes out again after this.
const RELEASED_DUE_MS: Millis = 2_000;
/// Rows that replaced one another, followed at most this far.
const CHAIN_MAX: usize = 64;

/// What a `failed` or `released` must match to count: it is about a hand-out that its sender
/// received, not about one that came later or went to somebody else.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// The hands of the run that says it.
    pub hands: String,
    /// The last response that it received; `None`: any.
    pub cursor: Option<i64>,
}

/// Applies a commit list; refuses it whole when it names what was never handed out.
pub(super) fn apply(
    tx: &mut Tx<'_>,
    queue: &Queue,
    standing: &Standing,
    said: &[CommitItem],
) -> Result<(), StoreError> {
    // Of two outcomes for one delivery the last counts.
    let mut items: BTreeMap<Seq, &CommitItem> = said.iter().map(|item| (item.seq, item)).collect();
    if Break::FirstOfTwoCounts.is_on() {
        items = said.iter().rev().map(|item| (item.seq, item)).collect();
    }
    let rows = known_rows(tx, queue, items.keys().copied())?;
    let mut lanes = Lanes::default();
    // An earlier outcome of this list may have sent others of it back, or settled them.
    let mut is_stale = false;
    for row in rows {
        let row = if is_stale {
            read(tx, row.seq)?
        } else {
            Some(row)
        };
        let Some(row) = row else { continue };
        if let Some(item) = items.get(&row.seq) {
            let is_heard = !Break::WaitingOutcomeIgnored.is_on() || row.state == State::Handed;
            if item.outcome == Outcome::Spawned && Break::SpawnedSettlesNothing.is_on() {
                continue;
            }
            if item.outcome.settles() && is_heard {
                is_stale |= row.replaced;
                settle_chain(tx, queue, row, item, &mut lanes)?;
            } else if is_in_hand(&row, standing) {
                is_stale = true;
                give_back(tx, queue, &row, item, &mut lanes)?;
            } else if Break::RepeatIsAFailure.is_on() && row.state == State::Ready {
                is_stale = true;
                let failed = Outcome::Failed;
                let item = CommitItem {
                    outcome: failed,
                    ..CommitItem::clone(item)
                };
                give_back(tx, queue, &row, &item, &mut lanes)?;
            }
        }
    }
    lanes.refresh(tx)
}

/// The rows that are still there, after all were found to belong to the queue.
fn known_rows(
    tx: &Tx<'_>,
    queue: &Queue,
    seqs: impl Iterator<Item = Seq>,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let highest = highest_seq(tx)?;
    let (mut known, mut undelivered) = (Vec::new(), Vec::new());
    for seq in seqs {
        match read(tx, seq)? {
            Some(row)
                if row.ever_handed
                    && (row.instance_id == queue.id || Break::ForeignCommitAccepted.is_on()) =>
            {
                known.push(row);
            }
            _ if Break::UndeliveredIgnored.is_on() => {}
            Some(_) => undelivered.push(seq),
            None if seq.0 > highest => undelivered.push(seq),
            // Its row is gone, by retention or with a restored backup: nobody is wedged by it.
            None => {}
        }
    }
    if undelivered.is_empty() {
        Ok(known)
    } else {
        Err(Refusal::CommitUndelivered { seqs: undelivered }.into())
    }
}

fn read(tx: &Tx<'_>, seq: Seq) -> Result<Option<DeliveryRow>, StoreError> {
    tx.first(
        select_delivery!("WHERE d.seq = ?1"),
        params![seq.0],
        DeliveryRow::read,
        "read a delivery",
    )
}

fn is_in_hand(row: &DeliveryRow, standing: &Standing) -> bool {
    row.state == State::Handed
        && row.hands == standing.hands
        && (Break::UncoveredFailureCounts.is_on()
            || standing.cursor.is_none_or(|cursor| row.number <= cursor))
}

/// Settles a delivery in whatever state it is, and the rows that replaced it.
fn settle_chain(
    tx: &mut Tx<'_>,
    queue: &Queue,
    first: DeliveryRow,
    item: &CommitItem,
    lanes: &mut Lanes,
) -> Result<(), StoreError> {
    let mut next = Some(first);
    for _ in 0..CHAIN_MAX {
        match next.take() {
            // What is settled stays as it was settled first, and what followed it is new work.
            Some(row) if row.state != State::Settled || Break::LastOutcomeStands.is_on() => {
                settle(tx, queue, &row, item, lanes)?;
                if Break::ChainNotFollowed.is_on() {
                    break;
                }
                if row.replaced || Break::ReplacedTwice.is_on() {
                    next = replacement(tx, row.seq)?;
                }
            }
            _ => break,
        }
    }
    Ok(())
}

fn replacement(tx: &Tx<'_>, seq: Seq) -> Result<Option<DeliveryRow>, StoreError> {
    tx.first(
        select_delivery!("WHERE d.redrive_of = ?1 AND d.redrive_of > 0 ORDER BY d.seq LIMIT 1"),
        params![seq.0],
        DeliveryRow::read,
        "read what replaced a delivery",
    )
}

fn settle(
    tx: &mut Tx<'_>,
    queue: &Queue,
    row: &DeliveryRow,
    item: &CommitItem,
    lanes: &mut Lanes,
) -> Result<(), StoreError> {
    let outcome = item.outcome.to_string();
    tx.execute(
        "UPDATE deliveries SET state = 2, suspect = 0, outcome = ?2, detail = ?3,
             ended_at_ms = ?4
         WHERE seq = ?1",
        params![
            row.seq.0,
            outcome,
            item.detail
                .as_deref()
                .filter(|_| !Break::DetailForgotten.is_on())
                .unwrap_or_default(),
            tx.now.0
        ],
        "settle a delivery",
    )?;
    if row.state.is_live() {
        tx.effects.add_backlog(row.instance_id, -1);
        lanes.touch(row.lane_id);
    }
    tx.effects
        .events
        .push(row.event.committed(&queue.name, row.seq, outcome));
    Ok(())
}

/// `failed` and `released`: ready again later, and what of the subject is in hand behind it goes
/// back too, or it would be handled out of order.
fn give_back(
    tx: &mut Tx<'_>,
    queue: &Queue,
    row: &DeliveryRow,
    item: &CommitItem,
    lanes: &mut Lanes,
) -> Result<(), StoreError> {
    let detail = item.detail.as_deref().unwrap_or_default();
    let back = if item.outcome == Outcome::Failed {
        let step = row.strikes.saturating_add(1);
        PutBack {
            ended: Ended::Failed,
            is_strike: true,
            suspect: false,
            losses: 0,
            due_at: if Break::FailedDueAtOnce.is_on() {
                DUE_AT_ONCE
            } else {
                tx.now.plus(tx.settings.backoff_ms(step))
            },
            detail,
        }
    } else {
        PutBack {
            ended: Ended::Released,
            is_strike: false,
            suspect: row.suspect,
            losses: 0,
            due_at: tx.now.plus(RELEASED_DUE_MS),
            detail,
        }
    };
    put_back(tx, queue, row, &back, lanes)?;
    send_back_others(tx, queue, row, lanes)
}

fn send_back_others(
    tx: &mut Tx<'_>,
    queue: &Queue,
    row: &DeliveryRow,
    lanes: &mut Lanes,
) -> Result<(), StoreError> {
    if Break::NeighboursNotSentBack.is_on() {
        return Ok(());
    }
    let others = tx.all(
        select_delivery!("WHERE d.lane_id = ?1 AND d.state = 1"),
        params![row.lane_id],
        DeliveryRow::read,
        "read what of a subject is in hand",
    )?;
    for other in others {
        let back = PutBack {
            ended: Ended::SentBack,
            is_strike: false,
            suspect: other.suspect,
            losses: other.losses,
            due_at: DUE_AT_ONCE,
            detail: "",
        };
        put_back(tx, queue, &other, &back, lanes)?;
    }
    Ok(())
}
