//! Dead deliveries, put on the queues of today's consumers.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Row, params};

use super::{InWords, PIECE, Planned, Position, Redriven};
use crate::broken::Break;
use crate::domain::{EventId, InstanceName, Seq, Timestamp};
use crate::store::append::facts_of;
use crate::store::error::StoreError;
use crate::store::routing::{Consumer, Routable};
use crate::store::selection::{Period, SubjectFilter};
use crate::store::writer::{Tx, Write};
use crate::store::{instances, stored_event};
use crate::telemetry::GatewayEvent;

/// Which dead deliveries; what is given narrows together.
#[derive(Debug, Clone, Default)]
pub struct DeadSelection {
    /// These, at most 500; empty: all.
    pub seqs: Vec<Seq>,
    /// Those that died on this queue.
    pub instance: Option<InstanceName>,
    /// Those of this subject.
    pub subject: SubjectFilter,
    /// Those that died then.
    pub died: Period,
}

/// Puts dead deliveries on the queues of today's consumers of their subjects. Sent by the API for
/// an operator, again with the position of the reply while there is one.
#[derive(Debug, Clone)]
pub struct Redrive {
    /// Which of them.
    pub selection: DeadSelection,
    /// Where the last piece ended.
    pub after: Position,
    /// Counts what would be done, and does nothing.
    pub dry_run: bool,
}

/// A dead delivery that nothing replaced yet.
#[derive(Debug, Clone, Copy)]
struct Dead {
    seq: Seq,
    event: EventId,
    died_at: Timestamp,
}

impl Write for Redrive {
    type Reply = Redriven;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Redriven, StoreError> {
        let found = self.selection.find(tx, self.after)?;
        let mut done = Redriven::default();
        if self.selection.seqs.is_empty() {
            done.next = super::next_position(&found, |dead| Position(dead.died_at.0, dead.seq.0));
        } else {
            done.miss(self.selection.missed(tx, &found)?);
        }
        // Oldest event first, each once.
        let by_event: BTreeMap<EventId, Seq> =
            found.iter().map(|dead| (dead.event, dead.seq)).collect();
        for (id, seq) in by_event {
            let dry_run = self.dry_run && !Break::DryRunActs.is_on();
            redrive(tx, id, seq, dry_run, &mut done)?;
        }
        if !self.dry_run {
            let target = self.selection.in_words().to_string();
            super::record(tx, "redrive", target, done.changed());
        }
        Ok(done)
    }
}

macro_rules! select_dead {
    ($tail:literal) => {
        concat!(
            "SELECT d.seq, d.event_id, d.ended_at_ms
             FROM deliveries d JOIN events e ON e.id = d.event_id
             WHERE d.state = 3 AND d.replaced = 0 AND (?1 = 0 OR e.subject_key = ?2)
                 AND d.ended_at_ms >= ?3 AND d.ended_at_ms < ?4 AND (?5 = 0 OR d.instance_id = ?5)
                 AND ",
            $tail
        )
    };
}

impl DeadSelection {
    fn in_words(&self) -> InWords<'_> {
        InWords {
            what: "dead deliveries",
            numbers: self.seqs.iter().map(|seq| seq.0).collect(),
            instance: self.instance.as_ref(),
            subject: &self.subject,
            period: self.died,
        }
    }

    fn find(&self, tx: &Tx<'_>, after: Position) -> Result<Vec<Dead>, StoreError> {
        let instance_id = match &self.instance {
            Some(name) => match instances::find(tx, name)? {
                Some(id) => id,
                None => return Ok(Vec::new()),
            },
            None => 0,
        };
        if self.seqs.is_empty() {
            return self.find_next(tx, instance_id, after);
        }
        let mut found = Vec::new();
        for seq in &self.seqs {
            found.extend(self.find_one(tx, instance_id, *seq)?);
        }
        Ok(found)
    }

    /// Those that were given by their number and are not among these, and whether they are there.
    fn missed(&self, tx: &Tx<'_>, found: &[Dead]) -> Result<Vec<(i64, bool)>, StoreError> {
        let found: BTreeSet<Seq> = found.iter().map(|dead| dead.seq).collect();
        let missed = self.seqs.iter().filter(|seq| !found.contains(seq));
        missed
            .map(|seq| {
                let row = tx.first(
                    "SELECT 1 FROM deliveries WHERE seq = ?1",
                    params![seq.0],
                    |_| Ok(()),
                    "look whether a delivery is there",
                )?;
                Ok((seq.0, row.is_some()))
            })
            .collect()
    }

    fn find_one(
        &self,
        tx: &Tx<'_>,
        instance_id: i64,
        seq: Seq,
    ) -> Result<Option<Dead>, StoreError> {
        let (is_narrowed, subject_key) = self.subject.parts();
        let Period { since, until } = self.died;
        tx.first(
            select_dead!("d.seq = ?6"),
            params![
                is_narrowed,
                subject_key,
                since.0,
                until.0,
                instance_id,
                seq.0
            ],
            read_dead,
            "look for a dead delivery",
        )
    }

    fn find_next(
        &self,
        tx: &Tx<'_>,
        instance_id: i64,
        after: Position,
    ) -> Result<Vec<Dead>, StoreError> {
        let (is_narrowed, subject_key) = self.subject.parts();
        let Period { since, until } = self.died;
        tx.all(
            select_dead!(
                "d.state >= 2 AND d.ended_at_ms >= ?6 AND (d.ended_at_ms, d.seq) > (?6, ?7)
                 ORDER BY d.ended_at_ms, d.seq LIMIT ?8"
            ),
            params![
                is_narrowed,
                subject_key,
                since.0,
                until.0,
                instance_id,
                after.0,
                after.1,
                i64::try_from(PIECE).unwrap_or(i64::MAX)
            ],
            read_dead,
            "look for dead deliveries",
        )
    }
}

fn read_dead(row: &Row<'_>) -> rusqlite::Result<Dead> {
    Ok(Dead {
        seq: Seq(row.get(0)?),
        event: EventId(row.get(1)?),
        died_at: Timestamp(row.get(2)?),
    })
}

/// Redrives one event: to every consumer of today that neither has it nor has handled it.
fn redrive(
    tx: &mut Tx<'_>,
    id: EventId,
    dead: Seq,
    dry_run: bool,
    done: &mut Redriven,
) -> Result<(), StoreError> {
    let event = match stored_event::read_routable(tx, id)? {
        Some((event, state)) if state == "routed" => event,
        Some(_) | None => {
            done.skip(1);
            return Ok(());
        }
    };
    let consumers = stored_event::consumers_of(tx, &event)?;
    if consumers.is_empty() && !is_on_a_queue(tx, id)? {
        done.held = done.held.saturating_add(1);
        return if dry_run { Ok(()) } else { hold(tx, &event) };
    }
    let plan = plan(tx, &event, dead, consumers)?;
    if plan.is_empty() {
        done.skip(1);
        return Ok(());
    }
    for planned in &plan {
        let made = super::make(tx, &event, planned, dry_run)?;
        done.deliveries.push(made);
    }
    if !dry_run {
        let to: Vec<_> = plan
            .into_iter()
            .map(|planned| planned.consumer.name)
            .collect();
        tx.effects
            .events
            .push(GatewayEvent::routed(&facts_of(&event), &to, false));
    }
    Ok(())
}

/// Each new row replaces the ended one of its own queue; the dead one that the operator named is
/// replaced in any case, if only by a row of another queue.
fn plan(
    tx: &Tx<'_>,
    event: &Routable,
    dead: Seq,
    consumers: Vec<Consumer>,
) -> Result<Vec<Planned>, StoreError> {
    let mut plan = Vec::new();
    for consumer in consumers {
        if !has_it(tx, event.id, consumer.instance_id)? {
            let replaces = stored_event::last_unhandled(tx, event.id, consumer.instance_id)?;
            plan.push(Planned { consumer, replaces });
        }
    }
    if plan.iter().all(|planned| planned.replaces != Some(dead))
        && let Some(vacant) = plan.iter_mut().find(|planned| planned.replaces.is_none())
    {
        vacant.replaces = Some(dead);
    }
    Ok(plan)
}

/// True when a delivery of the event waits for the instance, or was settled by it.
fn has_it(tx: &Tx<'_>, id: EventId, instance_id: i64) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM deliveries WHERE event_id = ?1 AND instance_id = ?2 AND state <= 2 LIMIT 1",
        params![id.0, instance_id],
        |_| Ok(()),
        "look whether an instance has an event",
    )?;
    Ok(found.is_some() && !Break::ReplacedTwice.is_on())
}

fn is_on_a_queue(tx: &Tx<'_>, id: EventId) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM deliveries WHERE event_id = ?1 AND state <= 1 LIMIT 1",
        params![id.0],
        |_| Ok(()),
        "look whether an event is on a queue",
    )?;
    Ok(found.is_some())
}

/// Nobody consumes it today: it waits for whoever will.
fn hold(tx: &mut Tx<'_>, event: &Routable) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE events SET state = 'held', state_at_ms = ?2 WHERE id = ?1",
        params![event.id.0, tx.now.0],
        "hold an event",
    )?;
    tx.effects.held_delta = tx.effects.held_delta.saturating_add(1);
    tx.effects
        .events
        .push(GatewayEvent::routed(&facts_of(event), &[], false));
    Ok(())
}
