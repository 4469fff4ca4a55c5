//! An event that nobody handled, delivered again on request.

use rusqlite::params;

use super::append::{facts_of, headers_text, signed};
use super::error::StoreError;
use super::routing::{self, Routable};
use super::stored_event;
use super::writer::Tx;
use crate::broken::Break;
use crate::domain::{Arrival, EventId, InstanceName};
use crate::telemetry::{GatewayEvent, events};

/// Puts an event on today's consumers' queues again, if all that became of it is dead or expired.
///
/// `None` when it was handled, is on a queue, or still waits for a consumer.
pub(super) fn revive(
    tx: &mut Tx<'_>,
    arrival: &Arrival,
    id: EventId,
) -> Result<Option<Vec<InstanceName>>, StoreError> {
    let Some((event, state)) = stored_event::read_routable(tx, id)? else {
        return Ok(None);
    };
    if Break::RevivalForgotten.is_on()
        || !(is_unhandled(tx, id, &state)? || Break::HandledRevived.is_on())
    {
        return Ok(None);
    }
    restore_payload(tx, arrival, id)?;
    let to = route_again(tx, &event)?;
    tx.effects.events.push(GatewayEvent::Revived {
        subject: facts_of(&event).subject,
        to: events::shown(&to),
        gateway_event_id: id.0,
        delivery_id: event.delivery_id,
    });
    Ok(Some(to))
}

/// True when no delivery of the event is settled or live, and it does not merely wait.
fn is_unhandled(tx: &Tx<'_>, id: EventId, state: &str) -> Result<bool, StoreError> {
    if state == "held" || state == "grace" {
        return Ok(false);
    }
    let handled = tx.first(
        "SELECT handled OR EXISTS (SELECT 1 FROM deliveries
                                   WHERE event_id = ?1 AND state IN (0, 1, 2))
         FROM events WHERE id = ?1",
        params![id.0],
        |row| row.get::<_, bool>(0),
        "look whether an event was handled",
    )?;
    Ok(handled == Some(false))
}

fn restore_payload(tx: &Tx<'_>, arrival: &Arrival, id: EventId) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE events SET headers = ?2, payload_bytes = ?3, payload = ?4 WHERE id = ?1",
        params![
            id.0,
            headers_text(arrival)?,
            signed(arrival.payload.text_bytes()),
            arrival.payload.compressed()
        ],
        "restore a payload",
    )?;
    Ok(())
}

fn route_again(tx: &mut Tx<'_>, event: &Routable) -> Result<Vec<InstanceName>, StoreError> {
    let consumers = stored_event::consumers_of(tx, event)?;
    let state = if consumers.is_empty() {
        "held"
    } else {
        "routed"
    };
    tx.execute(
        "UPDATE events SET state = ?2, state_at_ms = ?3 WHERE id = ?1",
        params![event.id.0, state, tx.now.0],
        "revive an event",
    )?;
    if consumers.is_empty() {
        tx.effects.held_delta = tx.effects.held_delta.saturating_add(1);
    }
    for consumer in &consumers {
        let old = stored_event::replace_unhandled(tx, event.id, consumer.instance_id)?;
        routing::insert_delivery(tx, event, consumer, old)?;
    }
    Ok(consumers
        .into_iter()
        .map(|consumer| consumer.name)
        .collect())
}
