//! The one door for events: deduplicate, resolve, route and write, in one savepoint.

use rusqlite::params;

use super::error::StoreError;
use super::routing::{self, Consumer, Resolution, Routable};
use super::writer::{Tx, Write};
use super::{late_routing, registrations, revival, stored_event};
use crate::domain::{
    Arrival, CallerToken, DedupKind, DropReason, EventId, InstanceName, OnUnresolved, Source,
    Subject, WorkItemRef,
};
use crate::telemetry::{EventFacts, GatewayEvent};

/// Appends an arrival. Sent by every ingress; answered after the COMMIT that holds the event.
#[derive(Debug)]
pub struct Append {
    /// What arrived.
    pub arrival: Box<Arrival>,
    /// Who waits for the answer.
    pub caller: CallerToken,
}

/// What became of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// Stored; `to` empty means held, or waiting for what would resolve it.
    Stored {
        /// The event's number.
        event: EventId,
        /// The queues that it is on.
        to: Vec<InstanceName>,
    },
    /// One of its keys was seen; the first copy is durable.
    Duplicate {
        /// The event that it repeats.
        event: EventId,
    },
    /// A requested redelivery of an event that nobody ever handled: on the queues once more.
    Revived {
        /// The event's number.
        event: EventId,
        /// The queues that it is on.
        to: Vec<InstanceName>,
    },
    /// Not stored.
    Dropped {
        /// Why.
        reason: DropReason,
    },
}

/// A key of the arrival that is in the table of seen keys.
#[derive(Debug, Clone, Copy)]
struct Seen {
    event: EventId,
    kind: DedupKind,
    handled: bool,
    orphan: bool,
}

impl Write for Append {
    type Reply = Appended;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Appended, StoreError> {
        append(tx, &self.arrival)
    }

    fn apply_repeatably(&self, tx: &mut Tx<'_>) -> Option<Result<Appended, StoreError>> {
        Some(append(tx, &self.arrival))
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn payload_bytes(&self) -> usize {
        self.arrival.payload.compressed().len()
    }

    fn caller(&self) -> CallerToken {
        self.caller.clone()
    }
}

fn append(tx: &mut Tx<'_>, arrival: &Arrival) -> Result<Appended, StoreError> {
    registrations::learn(tx, &arrival.learns)?;
    match find_seen(tx, arrival)? {
        Some(seen) => repeat(tx, arrival, seen),
        None => store_new(tx, arrival),
    }
}

/// The first of the arrival's keys that was seen.
fn find_seen(tx: &Tx<'_>, arrival: &Arrival) -> Result<Option<Seen>, StoreError> {
    for key in &arrival.dedup_keys {
        let seen = tx.first(
            "SELECT event_id, handled, orphan FROM seen_keys WHERE key = ?1",
            params![key.text],
            |row| {
                Ok(Seen {
                    event: EventId(row.get(0)?),
                    kind: key.kind,
                    handled: row.get(1)?,
                    orphan: row.get(2)?,
                })
            },
            "look for a seen key",
        )?;
        if seen.is_some() {
            return Ok(seen);
        }
    }
    Ok(None)
}

/// A repeat is a duplicate, unless somebody asked the provider to deliver again what nobody here
/// ever handled.
fn repeat(tx: &mut Tx<'_>, arrival: &Arrival, seen: Seen) -> Result<Appended, StoreError> {
    let asked_for =
        arrival.source == Source::Webhook && !arrival.is_retry && seen.kind == DedupKind::Delivery;
    if asked_for && seen.orphan && !seen.handled {
        return store_new(tx, arrival);
    }
    if asked_for
        && !seen.orphan
        && let Some(to) = revival::revive(tx, arrival, seen.event)?
    {
        return Ok(Appended::Revived {
            event: seen.event,
            to,
        });
    }
    tx.effects
        .events
        .push(dropped(arrival, DropReason::Duplicate, Some(seen.event)));
    Ok(Appended::Duplicate { event: seen.event })
}

fn store_new(tx: &mut Tx<'_>, arrival: &Arrival) -> Result<Appended, StoreError> {
    if late_routing::has_pending_reference(tx, &arrival.keys)? {
        // Older events under the same key are still being resolved: take the place behind them.
        return keep_in_grace(tx, arrival);
    }
    match routing::resolve(tx, &arrival.keys)? {
        Some(resolution) => store_resolved(tx, arrival, &resolution),
        None => match arrival.on_unresolved {
            OnUnresolved::Drop(reason) => Ok(drop_it(tx, arrival, reason)),
            OnUnresolved::Grace if tx.settings.grace_ms > 0 => keep_in_grace(tx, arrival),
            OnUnresolved::Grace => Ok(drop_it(tx, arrival, DropReason::Unbound)),
            OnUnresolved::ToActor => store_for_actor(tx, arrival),
        },
    }
}

fn drop_it(tx: &mut Tx<'_>, arrival: &Arrival, reason: DropReason) -> Appended {
    tx.effects.events.push(dropped(arrival, reason, None));
    Appended::Dropped { reason }
}

fn store_resolved(
    tx: &mut Tx<'_>,
    arrival: &Arrival,
    resolution: &Resolution,
) -> Result<Appended, StoreError> {
    let also: Vec<WorkItemRef> = resolution
        .also
        .iter()
        .chain(&arrival.also)
        .cloned()
        .collect();
    let links = stored_event::link_keys(tx, &resolution.work_item, &also)?;
    let subject_key = resolution.subject.key();
    let actor = routing::actor_key(arrival.actor.as_ref());
    let actor = actor
        .as_ref()
        .map(|(provider, key)| (*provider, key.as_str()));
    let mut consumers = routing::consumers(tx, &subject_key, &links, actor)?;
    let named = stored_event::subject_keys(&also);
    if late_routing::is_behind_pending(tx, &subject_key, &named, actor, &consumers)? {
        tx.effects.routing_pending = true;
        consumers.clear();
    }
    let state = if consumers.is_empty() {
        "held"
    } else {
        "routed"
    };
    let event = insert_event(tx, arrival, state, Some(resolution))?;
    stored_event::insert_links(tx, event.id, &also)?;
    put_on_queues(tx, arrival, &event, &consumers, Some(resolution.by))
}

fn store_for_actor(tx: &mut Tx<'_>, arrival: &Arrival) -> Result<Appended, StoreError> {
    let actor = routing::actor_key(arrival.actor.as_ref());
    let actor = actor
        .as_ref()
        .map(|(provider, key)| (*provider, key.as_str()));
    let consumers = routing::consumers(tx, "", &[], actor)?;
    if consumers.is_empty() {
        return Ok(drop_it(tx, arrival, DropReason::Unbound));
    }
    let event = insert_event(tx, arrival, "routed", None)?;
    put_on_queues(tx, arrival, &event, &consumers, Some("actor"))
}

fn keep_in_grace(tx: &mut Tx<'_>, arrival: &Arrival) -> Result<Appended, StoreError> {
    let event = insert_event(tx, arrival, "grace", None)?;
    stored_event::insert_references(tx, event.id, &arrival.keys)?;
    put_on_queues(tx, arrival, &event, &[], None)
}

fn put_on_queues(
    tx: &mut Tx<'_>,
    arrival: &Arrival,
    event: &Routable,
    consumers: &[Consumer],
    resolved_by: Option<&'static str>,
) -> Result<Appended, StoreError> {
    for consumer in consumers {
        routing::insert_delivery(tx, event, consumer, None)?;
    }
    let to: Vec<InstanceName> = consumers
        .iter()
        .map(|consumer| consumer.name.clone())
        .collect();
    count_polled(tx, arrival);
    let facts = facts_of(event);
    tx.effects.events.extend([
        GatewayEvent::Received {
            provider: arrival.provider,
            transport: arrival.source,
            kind: arrival.kind.clone(),
            delivery_id: arrival.delivery_id.clone(),
            gateway_event_id: event.id.0,
            payload_bytes: arrival.payload.text_bytes(),
            age_ms: age_ms(arrival),
        },
        GatewayEvent::Appended {
            subject: facts.subject.clone(),
            work_item: (!event.work_item.is_empty()).then(|| event.work_item.clone()),
            resolved_by: resolved_by.map(str::to_owned),
            gateway_event_id: event.id.0,
            delivery_id: arrival.delivery_id.clone(),
        },
        GatewayEvent::routed(&facts, &to, false),
    ]);
    Ok(Appended::Stored {
        event: event.id,
        to,
    })
}

/// How old an event was when it arrived; clocks differ, so it may seem to come from the future.
fn age_ms(arrival: &Arrival) -> Option<u64> {
    let age = arrival.received_at.since(arrival.happened_at?);
    Some(u64::try_from(age).unwrap_or(0))
}

/// Presence comes by polls alone and has no key; anything else could have come live.
fn count_polled(tx: &mut Tx<'_>, arrival: &Arrival) {
    if arrival.source == Source::Poll && !arrival.dedup_keys.is_empty() {
        let polled = &mut tx.effects.tally.polled_first;
        let count = polled.entry(arrival.provider).or_insert(0);
        *count = count.saturating_add(1);
    }
}

/// What every record about a stored event carries.
pub(super) fn facts_of(event: &Routable) -> EventFacts {
    let subject = if event.subject.is_empty() {
        Subject::UNASSIGNED
    } else {
        &event.subject
    };
    EventFacts {
        id: event.id,
        subject: subject.to_owned(),
        delivery_id: event.delivery_id.clone(),
    }
}

fn insert_event(
    tx: &mut Tx<'_>,
    arrival: &Arrival,
    state: &'static str,
    resolution: Option<&Resolution>,
) -> Result<Routable, StoreError> {
    let work_item = resolution
        .map(|found| found.work_item.to_string())
        .unwrap_or_default();
    let subject = resolution.map(|found| &found.subject);
    let subject_key = subject.map(Subject::key).unwrap_or_default();
    let subject = subject.map_or("", Subject::as_str);
    let actor = arrival.actor.as_ref();
    let actor_key = actor.map(|actor| actor.key()).unwrap_or_default();
    tx.execute(
        "INSERT INTO events (state, state_at_ms, provider, transport, kind, delivery_id,
             received_at_ms, work_item, subject, subject_key, resolved_by, actor, actor_key,
             dedup_keys, headers, payload_bytes, payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        params![
            state,
            tx.now.0,
            arrival.provider.as_str(),
            arrival.source.as_str(),
            arrival.kind,
            arrival.delivery_id,
            arrival.received_at.0,
            work_item,
            subject,
            subject_key,
            resolution.map(Resolution::in_words).unwrap_or_default(),
            actor.map_or("", |actor| actor.name.as_str()),
            actor_key,
            keys_text(arrival)?,
            headers_text(arrival)?,
            signed(arrival.payload.text_bytes()),
            arrival.payload.compressed(),
        ],
        "store an event",
    )?;
    let id = EventId(tx.connection.last_insert_rowid());
    tx.effects.events_delta = tx.effects.events_delta.saturating_add(1);
    if state == "held" || state == "grace" {
        tx.effects.held_delta = tx.effects.held_delta.saturating_add(1);
    }
    mark_seen(tx, arrival, id)?;
    Ok(Routable {
        id,
        provider: arrival.provider,
        actor_key: actor_key.into_owned(),
        work_item,
        subject: subject.to_owned(),
        subject_key,
        delivery_id: arrival.delivery_id.clone(),
    })
}

/// The stored form of the keys: the JSON text of a list.
fn keys_text(arrival: &Arrival) -> Result<String, StoreError> {
    let keys: Vec<&str> = arrival
        .dedup_keys
        .iter()
        .map(|key| key.text.as_str())
        .collect();
    serde_json::to_string(&keys).map_err(|error| StoreError::Corrupt(format!("keys that {error}")))
}

/// The stored form of the headers: the JSON text of an object.
pub(super) fn headers_text(arrival: &Arrival) -> Result<String, StoreError> {
    serde_json::to_string(&arrival.headers)
        .map_err(|error| StoreError::Corrupt(format!("headers that {error}")))
}

/// A length as SQLite keeps it; payloads are bounded far below its range.
pub(super) fn signed(length: u64) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn mark_seen(tx: &Tx<'_>, arrival: &Arrival, event: EventId) -> Result<(), StoreError> {
    for key in &arrival.dedup_keys {
        tx.execute(
            "INSERT INTO seen_keys (key, event_id, seen_at_ms) VALUES (?1, ?2, ?3)
             ON CONFLICT (key) DO UPDATE SET event_id = excluded.event_id,
                 seen_at_ms = excluded.seen_at_ms, handled = 0, orphan = 0",
            params![key.text, event.0, tx.now.0],
            "mark a key as seen",
        )?;
    }
    Ok(())
}

fn dropped(arrival: &Arrival, reason: DropReason, event: Option<EventId>) -> GatewayEvent {
    GatewayEvent::Dropped {
        provider: arrival.provider,
        transport: arrival.source,
        reason,
        kind: Some(arrival.kind.clone()),
        delivery_id: Some(arrival.delivery_id.clone()),
        about: None,
        gateway_event_id: event.map(|event| event.0),
        suppressed: None,
    }
}
