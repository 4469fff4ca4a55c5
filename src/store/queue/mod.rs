//! The queue of an instance: who may ask, what is said of deliveries, what is taken back, what
//! goes out. One fetch is these four steps in one savepoint.

mod hand_out;
pub(super) mod lane;
mod outcomes;
mod row;
mod take_back;
#[cfg(test)]
mod tests;

use rusqlite::params;

use self::hand_out::Bounds;
use self::outcomes::Standing;
use self::row::{Queue, hands_of};
use self::take_back::Present;
use super::error::StoreError;
use super::lease::{self, Holder, Run};
use super::writer::{Tx, Write};
use crate::broken::Break;
use crate::domain::{CallerToken, CommitItem, Delivery, Identity, Millis, PeerId, Seq, Timestamp};

/// Fetches the next deliveries of a queue. Sent by the queue's actor.
#[derive(Debug, Clone)]
pub struct FetchBatch {
    /// Who asks.
    pub identity: Identity,
    /// The installation that asks; the one that `identity` names.
    pub peer: PeerId,
    /// The number of the last response that the client received.
    pub cursor: Option<i64>,
    /// Deliveries at most; 0 commits and renews only.
    pub limit: u32,
    /// How long the lease lasts after the answer, before clamping.
    pub lease_ms: Millis,
    /// When nothing is due: how long the poll will be held, so that the lease covers it.
    pub park_ms: Option<Millis>,
    /// The outcomes of earlier deliveries.
    pub commit: Vec<CommitItem>,
    /// Who waits; nothing is handed to a caller that is gone.
    pub caller: CallerToken,
}

/// What a fetch answers.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The deliveries, oldest event first.
    pub deliveries: Vec<Delivery>,
    /// The number of this response, or the request's cursor when it brings nothing.
    pub cursor: i64,
    /// One below the lowest live delivery of the queue.
    pub committed: Seq,
    /// How long the lease lasts from now.
    pub lease_ms: Millis,
    /// When something may be due that is not due now.
    pub next_due_at: Option<Timestamp>,
}

/// Commits outcomes without fetching. Sent by the queue's actor.
#[derive(Debug, Clone)]
pub struct CommitOutcomes {
    /// Who asks.
    pub identity: Identity,
    /// The number of the last response that the client received.
    pub cursor: Option<i64>,
    /// The outcomes.
    pub commit: Vec<CommitItem>,
}

/// What a commit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// One below the lowest live delivery of the queue.
    pub committed: Seq,
    /// How long the lease lasts from now; 0 without a lease.
    pub lease_ms: Millis,
}

impl Write for FetchBatch {
    type Reply = Fetched;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Fetched, StoreError> {
        let mut holder = lease::create(tx, &self.identity.instance)?;
        lease::check(tx, &holder, &self.identity)?;
        let (run, cursor) = run_and_cursor(tx, &holder, &self.identity, self.cursor)?;
        let hands = hands_of(&run.name, self.peer.as_str());
        lease::take(tx, &mut holder, &self.peer, &run, self.lease_ms)?;
        let queue = Queue {
            id: holder.id,
            name: holder.name.clone(),
        };
        let standing = Standing {
            hands: hands.clone(),
            cursor: self.cursor.map(|_| cursor),
        };
        outcomes::apply(tx, &queue, &standing, &self.commit)?;
        let handed = if self.limit == 0 && !Break::MaxZeroHandsOut.is_on() {
            None
        } else {
            let present = Present {
                hands: &hands,
                cursor: if Break::CursorIgnored.is_on() {
                    i64::MAX
                } else {
                    cursor
                },
                echoed: holder.echoed_number,
                lapsed_at: holder.lapsed_at,
            };
            take_back::take_back(tx, &queue, &present)?;
            hand_out::hand_out(tx, &queue, &hands, self.bounds(tx))?
        };
        if handed.is_none()
            && !Break::HeldPollWithoutLease.is_on()
            && let Some(park_ms) = self.park_ms
        {
            lease::renew(tx, &mut holder, self.lease_ms, park_ms)?;
        }
        note_fetch(tx, &holder, cursor)?;
        let unchanged = if Break::EmptyAnswerForgetsCursor.is_on() {
            0
        } else {
            self.cursor.unwrap_or(0)
        };
        let (number, deliveries) = handed.unwrap_or((unchanged, Vec::new()));
        for delivery in &deliveries {
            tx.effects.tally.hand_out(delivery.attempt);
        }
        Ok(Fetched {
            next_due_at: next_due(tx, &queue)?.filter(|_| deliveries.is_empty()),
            deliveries,
            cursor: number,
            committed: row::committed(tx, queue.id)?,
            lease_ms: holder.lease_ms,
        })
    }

    fn caller(&self) -> CallerToken {
        self.caller.clone()
    }
}

impl FetchBatch {
    fn bounds(&self, tx: &Tx<'_>) -> Bounds {
        let asked = if Break::MoreThanAskedFor.is_on() {
            self.limit.saturating_add(1)
        } else if Break::MaxZeroHandsOut.is_on() {
            self.limit.max(1)
        } else {
            self.limit
        };
        let deliveries = asked.min(tx.settings.batch_max);
        Bounds {
            deliveries: usize::try_from(deliveries).unwrap_or(usize::MAX),
            payload_bytes: tx.settings.batch_bytes_max,
        }
    }
}

impl Write for CommitOutcomes {
    type Reply = Committed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Committed, StoreError> {
        let mut holder = lease::create(tx, &self.identity.instance)?;
        // A run that a newer one took over from may still say what it did, and only that.
        lease::check_peer(tx, &holder, &self.identity)?;
        let run = holder.run_of(&self.identity);
        let peer = self
            .identity
            .peer
            .as_ref()
            .map_or(holder.peer.as_str(), PeerId::as_str);
        let hands = hands_of(&run.name, peer);
        let cursor = match self.cursor {
            Some(cursor) => Some(given(tx, holder.id, &hands, cursor)?),
            None => None,
        };
        let queue = Queue {
            id: holder.id,
            name: holder.name.clone(),
        };
        let standing = Standing { hands, cursor };
        let is_unheard = Break::SupersededCommitIgnored.is_on()
            && lease::is_superseded(tx, &holder, &self.identity)?;
        if !is_unheard {
            outcomes::apply(tx, &queue, &standing, &self.commit)?;
        }
        let is_holder = self
            .identity
            .peer
            .as_ref()
            .is_some_and(|peer| peer.as_str() == holder.peer)
            && run.name == holder.run;
        if is_holder && !Break::CommitRenewsNothing.is_on() {
            renew_by_commit(tx, &mut holder)?;
        }
        // What its outcomes set free may be due to a poll that is held.
        if !Break::OutcomeWakesNobody.is_on() {
            tx.effects.wakes.insert(queue.name.clone());
        }
        Ok(Committed {
            committed: row::committed(tx, queue.id)?,
            lease_ms: if is_holder {
                holder.lease_left_ms(tx.now)
            } else {
                0
            },
        })
    }
}

/// A commit renews like an answer, and never shortens the lease of a poll that is held.
fn renew_by_commit(tx: &Tx<'_>, holder: &mut Holder) -> Result<(), StoreError> {
    let lease_ms = holder.lease_ms;
    let held_ms = holder.lease_left_ms(tx.now).saturating_sub(lease_ms);
    lease::renew(tx, holder, lease_ms, held_ms)
}

/// The run that a fetch belongs to, and the last response that it received.
///
/// A client without `run` gets one made up: a new one whenever its cursor says that it starts
/// again, so that what it had in hand comes back.
fn run_and_cursor(
    tx: &Tx<'_>,
    holder: &Holder,
    identity: &Identity,
    cursor: Option<i64>,
) -> Result<(Run, i64), StoreError> {
    if let Some(run) = &identity.run {
        let run = Run {
            name: run.to_string(),
            is_made_up: false,
        };
        let peer = identity.peer.as_ref().map_or("", PeerId::as_str);
        let hands = hands_of(&run.name, peer);
        let cursor = given(tx, holder.id, &hands, cursor.unwrap_or(0))?;
        return Ok((run, cursor));
    }
    let is_same_peer = identity
        .peer
        .as_ref()
        .is_some_and(|peer| peer.as_str() == holder.peer);
    if holder.run_is_made_up && is_same_peer {
        let hands = hands_of(&holder.run, &holder.peer);
        let cursor = given(tx, holder.id, &hands, cursor.unwrap_or(0))?;
        let goes_on = cursor > 0 && cursor >= holder.echoed_number;
        if (goes_on || Break::MadeUpRunKept.is_on()) && !Break::MadeUpRunAlwaysNew.is_on() {
            let run = Run {
                name: holder.run.clone(),
                is_made_up: true,
            };
            return Ok((run, cursor));
        }
    }
    Ok((holder.make_up_run(), 0))
}

/// A cursor that names a response of this run; one that was never given counts as 0.
fn given(tx: &Tx<'_>, instance_id: i64, hands: &str, cursor: i64) -> Result<i64, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM response_numbers WHERE instance_id = ?1 AND number = ?2 AND run = ?3",
        params![instance_id, cursor, hands],
        |_| Ok(()),
        "check a cursor",
    )?;
    Ok(if found.is_some() { cursor } else { 0 })
}

fn note_fetch(tx: &Tx<'_>, holder: &Holder, cursor: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE instances SET fetched_at_ms = ?2, echoed_number = max(echoed_number, ?3)
         WHERE id = ?1",
        params![holder.id, tx.now.0, cursor],
        "note a fetch",
    )?;
    Ok(())
}

/// When the next retry is due, or the next hand-out overdue.
fn next_due(tx: &Tx<'_>, queue: &Queue) -> Result<Option<Timestamp>, StoreError> {
    let retry = lane::next_due(tx, queue.id)?;
    let overdue = tx
        .first(
            "SELECT handed_at_ms FROM deliveries WHERE instance_id = ?1 AND state = 1
             ORDER BY handed_number, seq LIMIT 1",
            params![queue.id],
            |row| row.get::<_, i64>(0),
            "look what is in hand longest",
        )?
        .map(|handed_at| handed_at.saturating_add(tx.settings.hand_timeout_ms));
    Ok(retry.into_iter().chain(overdue).min().map(Timestamp))
}
