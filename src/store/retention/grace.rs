//! The end of the grace: what nothing resolved in time is dropped as unbound.

use rusqlite::params;

use super::{Sweep, ended};
use crate::domain::{DropReason, EventId, Provider, Source, Timestamp};
use crate::store::error::StoreError;
use crate::store::late_routing;
use crate::store::writer::{Tx, Write};
use crate::telemetry::GatewayEvent;

/// Ends the grace of unresolved events. Sent by housekeeping when the next one is due.
#[derive(Debug, Clone, Copy)]
pub struct ExpireGrace;

/// What became of the events whose grace was over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraceExpired {
    /// Events dropped as unbound.
    pub dropped: u64,
    /// When the next one is due; in the past when more are due now.
    pub next_due_at: Option<Timestamp>,
}

impl Write for ExpireGrace {
    type Reply = GraceExpired;

    fn apply(self, tx: &mut Tx<'_>) -> Result<GraceExpired, StoreError> {
        let mut sweep = Sweep::begin(tx);
        let mut dropped = 0_u64;
        for id in due(tx, &sweep)? {
            if sweep.is_over(tx) {
                break;
            }
            sweep.count_row();
            // A routing that is still unfinished may have what resolves it in store already.
            if late_routing::resolve_and_route(tx, id)?.is_none() {
                drop_unbound(tx, id)?;
                dropped = dropped.saturating_add(1);
            }
        }
        Ok(GraceExpired {
            dropped,
            next_due_at: next_due(tx)?,
        })
    }
}

fn due(tx: &Tx<'_>, sweep: &Sweep) -> Result<Vec<EventId>, StoreError> {
    tx.all(
        "SELECT id FROM events WHERE state = 'grace' AND state <> 'routed' AND state_at_ms <= ?1
         ORDER BY state_at_ms LIMIT ?2",
        params![super::before(tx, tx.settings.grace_ms).0, sweep.rows_left],
        |row| Ok(EventId(row.get(0)?)),
        "look for unresolved events",
    )
}

fn next_due(tx: &Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    let oldest = tx.first(
        "SELECT state_at_ms FROM events WHERE state = 'grace' AND state <> 'routed'
         ORDER BY state_at_ms LIMIT 1",
        [],
        |row| Ok(Timestamp(row.get(0)?)),
        "look for the next unresolved event",
    )?;
    Ok(oldest.map(|since| since.plus(tx.settings.grace_ms)))
}

/// Drops an event as if it had never come: its keys are forgotten, so that it may come again.
fn drop_unbound(tx: &mut Tx<'_>, id: EventId) -> Result<(), StoreError> {
    let dropped = tx.first(
        "DELETE FROM events WHERE id = ?1 RETURNING provider, transport, kind,
             delivery_id, dedup_keys",
        params![id.0],
        |row| {
            let words: (String, String) = (row.get(0)?, row.get(1)?);
            Ok((words, row.get(2)?, row.get(3)?, row.get::<_, String>(4)?))
        },
        "drop an unresolved event",
    )?;
    ended::forget_about(tx, id)?;
    tx.effects.events_delta = tx.effects.events_delta.saturating_sub(1);
    tx.effects.held_delta = tx.effects.held_delta.saturating_sub(1);
    let Some(((provider, transport), kind, delivery_id, keys)) = dropped else {
        return Ok(());
    };
    for key in ended::parse_keys(&keys)? {
        tx.execute(
            "DELETE FROM seen_keys WHERE key = ?1 AND event_id = ?2",
            params![key, id.0],
            "forget the keys of an unresolved event",
        )?;
    }
    let unreadable = || StoreError::Corrupt(format!("event {id} of {provider} by {transport}"));
    tx.effects.events.push(GatewayEvent::Dropped {
        provider: Provider::from_word(&provider).ok_or_else(unreadable)?,
        transport: Source::from_word(&transport).ok_or_else(unreadable)?,
        reason: DropReason::Unbound,
        kind: Some(kind),
        delivery_id: Some(delivery_id),
        about: None,
        gateway_event_id: Some(id.0),
        suppressed: None,
    });
    Ok(())
}
