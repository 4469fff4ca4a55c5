//! Events that waited: resolved by what is learned later, routed by what is registered later.
//!
//! At most [`CHUNK`] events go in one transaction. What is left is a row of `pending_routings`,
//! so a restart goes on with it; a new arrival that it would also cover is held behind it, so the
//! order of a subject holds.

use std::time::{Duration, Instant};

use rusqlite::params;

use super::append::facts_of;
use super::error::StoreError;
use super::routing::{self, Consumer, Routable};
use super::stored_event;
use super::writer::{Tx, Write};
use crate::domain::{EventId, Provider, Reference};
use crate::telemetry::GatewayEvent;

/// Events routed or resolved in one transaction.
const CHUNK: i64 = 500;
/// Time that one transaction may take for it, so that ingest is not kept waiting.
const CHUNK_TIME: Duration = Duration::from_millis(2);
/// Stands for an event that is being appended: behind all that are stored.
const NEWEST: EventId = EventId(i64::MAX);

/// What a registration covers among the waiting events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Held events of a subject.
    Subject(String),
    /// Held events that name a subject beside their own.
    Linked(String),
    /// Held events of an actor on subjects that nobody claims.
    Actor(Provider, String),
    /// Unresolved events that name this binding key.
    Binding(Provider, String),
    /// Unresolved events of this commit, `repository@sha`.
    Commit(String),
    /// Unresolved events of this channel.
    Room(String),
}

impl Scope {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Subject(_) => "subject",
            Self::Linked(_) => "linked",
            Self::Actor(..) => "actor",
            Self::Binding(..) => "binding",
            Self::Commit(_) => "commit",
            Self::Room(_) => "room",
        }
    }

    /// The text of its row in `pending_routings`.
    fn key(&self) -> String {
        match self {
            Self::Actor(provider, key) | Self::Binding(provider, key) => {
                format!("{provider}:{key}")
            }
            Self::Subject(key) | Self::Linked(key) | Self::Commit(key) | Self::Room(key) => {
                key.clone()
            }
        }
    }

    /// The scope whose coverage may resolve a reference; `None` for those that always resolve.
    fn of_reference(reference: &Reference) -> Option<Self> {
        match reference {
            Reference::Bound { provider, key } => Some(Self::Binding(*provider, key.clone())),
            Reference::Commit { repository, sha } => {
                Some(Self::Commit(stored_event::commit_key(repository, sha)))
            }
            Reference::Room { channel } => Some(Self::Room(channel.clone())),
            Reference::Direct(_) | Reference::DeclaredRoom(_) => None,
        }
    }

    fn from_row(kind: &str, key: &str) -> Option<Self> {
        let with_provider = || {
            let (provider, key) = key.split_once(':')?;
            Some((Provider::from_word(provider)?, key.to_owned()))
        };
        match kind {
            "subject" => Some(Self::Subject(key.to_owned())),
            "linked" => Some(Self::Linked(key.to_owned())),
            "actor" => with_provider().map(|(provider, key)| Self::Actor(provider, key)),
            "binding" => with_provider().map(|(provider, key)| Self::Binding(provider, key)),
            "commit" => Some(Self::Commit(key.to_owned())),
            "room" => Some(Self::Room(key.to_owned())),
            _ => None,
        }
    }
}

/// What the first chunk of a late routing made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Routed {
    /// Deliveries made.
    pub deliveries: u64,
    /// True when more follow.
    pub more: bool,
}

/// Goes on with pending routings, one chunk; sent as long as the reply says there is more.
#[derive(Debug)]
pub struct RouteHeld;

impl Write for RouteHeld {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        let next = tx.first(
            "SELECT scope, key, after_event_id FROM pending_routings ORDER BY id LIMIT 1",
            [],
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    EventId(row.get(2)?),
                ))
            },
            "read pending routings",
        )?;
        let Some((kind, key, after)) = next else {
            return Ok(Routed::default());
        };
        let scope = Scope::from_row(&kind, &key)
            .ok_or_else(|| StoreError::Corrupt(format!("a pending routing of scope {kind}")))?;
        let mut chunk = Chunk::begin(tx);
        chunk.go_on(tx, &scope, after)?;
        chunk.routed.more = has_pending(tx)?;
        tx.effects.routing_pending |= chunk.routed.more;
        Ok(chunk.routed)
    }
}

/// Routes or resolves, oldest first, what the scopes cover: one chunk in all, the rest pending.
pub(super) fn cover(tx: &mut Tx<'_>, scopes: &[Scope]) -> Result<Routed, StoreError> {
    let mut chunk = Chunk::begin(tx);
    for scope in scopes {
        chunk.go_on(tx, scope, EventId(0))?;
    }
    tx.effects.routing_pending |= chunk.routed.more;
    Ok(chunk.routed)
}

/// The bound on one transaction's late routing, in events and in time.
struct Chunk {
    room: i64,
    began: Instant,
    routed: Routed,
}

impl Chunk {
    fn begin(tx: &Tx<'_>) -> Self {
        Self {
            room: CHUNK,
            began: tx.clock.instant(),
            routed: Routed::default(),
        }
    }

    fn is_full(&self, tx: &Tx<'_>) -> bool {
        let has_begun = self.room < CHUNK;
        self.room == 0 || (has_begun && self.took(tx) >= CHUNK_TIME)
    }

    fn took(&self, tx: &Tx<'_>) -> Duration {
        tx.clock.instant().duration_since(self.began)
    }

    /// Takes up a scope's events behind `after`, and notes where to go on when the chunk is full.
    fn go_on(
        &mut self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        mut after: EventId,
    ) -> Result<(), StoreError> {
        // One more than there is room for tells whether something is left.
        let waiting = waiting_events(tx, scope, after, self.room.saturating_add(1))?;
        for id in waiting {
            if self.is_full(tx) {
                self.routed.more = true;
                return note_pending(tx, scope, after);
            }
            self.room = self.room.saturating_sub(1);
            let made = take_up(tx, scope, id)?;
            self.routed.deliveries = self.routed.deliveries.saturating_add(made);
            after = id;
        }
        forget_pending(tx, scope)
    }
}

/// The oldest events behind `after` that a scope covers.
fn waiting_events(
    tx: &Tx<'_>,
    scope: &Scope,
    after: EventId,
    limit: i64,
) -> Result<Vec<EventId>, StoreError> {
    let read = |row: &rusqlite::Row<'_>| Ok(EventId(row.get(0)?));
    let doing = "look for waiting events";
    match scope {
        Scope::Subject(key) => tx.all(
            "SELECT id FROM events WHERE subject_key = ?1 AND state = 'held' AND id > ?2
             ORDER BY id LIMIT ?3",
            params![key, after.0, limit],
            read,
            doing,
        ),
        Scope::Linked(key) => tx.all(
            "SELECT event_links.event_id FROM event_links
             JOIN events ON events.id = event_links.event_id AND events.state = 'held'
             WHERE event_links.subject_key = ?1 AND event_links.event_id > ?2
             ORDER BY event_links.event_id LIMIT ?3",
            params![key, after.0, limit],
            read,
            doing,
        ),
        Scope::Actor(provider, key) => tx.all(
            "SELECT id FROM events
             WHERE provider = ?1 AND actor_key = ?2 AND state = 'held' AND id > ?3
             ORDER BY id LIMIT ?4",
            params![provider.as_str(), key, after.0, limit],
            read,
            doing,
        ),
        Scope::Binding(provider, key) => {
            unresolved_events(tx, ("binding", provider.as_str(), key), after, limit)
        }
        Scope::Commit(key) => unresolved_events(tx, ("commit", "github", key), after, limit),
        Scope::Room(key) => unresolved_events(tx, ("room", "slack", key), after, limit),
    }
}

/// The oldest events behind `after` that wait for a reference (kind, provider, key).
fn unresolved_events(
    tx: &Tx<'_>,
    (kind, provider, key): (&str, &str, &str),
    after: EventId,
    limit: i64,
) -> Result<Vec<EventId>, StoreError> {
    tx.all(
        "SELECT event_id FROM event_references
         WHERE kind = ?1 AND provider = ?2 AND key = ?3 AND event_id > ?4
         ORDER BY event_id LIMIT ?5",
        params![kind, provider, key, after.0, limit],
        |row| Ok(EventId(row.get(0)?)),
        "look for unresolved events",
    )
}

/// Routes one waiting event, resolving it first where the scope is about a reference.
fn take_up(tx: &mut Tx<'_>, scope: &Scope, id: EventId) -> Result<u64, StoreError> {
    match scope {
        Scope::Subject(_) | Scope::Linked(_) | Scope::Actor(..) => {
            let Some((event, _)) = stored_event::read_routable(tx, id)? else {
                return Ok(0);
            };
            let consumers = stored_event::consumers_of(tx, &event)?;
            route_held(tx, &event, &consumers)
        }
        Scope::Binding(..) | Scope::Commit(_) | Scope::Room(_) => {
            Ok(resolve_and_route(tx, id)?.unwrap_or(0))
        }
    }
}

/// Resolves an event in grace and routes it; `None` when none of its references names a work item.
pub(super) fn resolve_and_route(tx: &mut Tx<'_>, id: EventId) -> Result<Option<u64>, StoreError> {
    if !resolve_waiting(tx, id)? {
        return Ok(None);
    }
    let Some((event, _)) = stored_event::read_routable(tx, id)? else {
        return Ok(None);
    };
    let consumers = stored_event::consumers_of(tx, &event)?;
    let also = stored_event::subject_keys(&stored_event::stored_links(tx, id)?);
    let scopes = covering_scopes(&event.subject_key, &also, event.actor(), &consumers);
    if any_pending(tx, &scopes, id)? {
        // Older events of its subject are still being routed: its turn comes behind them.
        return Ok(Some(0));
    }
    route_held(tx, &event, &consumers).map(Some)
}

/// Puts a held event on its consumers' queues; without any it stays held.
fn route_held(
    tx: &mut Tx<'_>,
    event: &Routable,
    consumers: &[Consumer],
) -> Result<u64, StoreError> {
    if consumers.is_empty() {
        return Ok(0);
    }
    tx.execute(
        "UPDATE events SET state = 'routed', state_at_ms = ?2 WHERE id = ?1",
        params![event.id.0, tx.now.0],
        "route a held event",
    )?;
    tx.effects.held_delta = tx.effects.held_delta.saturating_sub(1);
    for consumer in consumers {
        let old = stored_event::replace_unhandled(tx, event.id, consumer.instance_id)?;
        routing::insert_delivery(tx, event, consumer, old)?;
    }
    let names: Vec<_> = consumers
        .iter()
        .map(|consumer| consumer.name.clone())
        .collect();
    tx.effects
        .events
        .push(GatewayEvent::routed(&facts_of(event), &names, true));
    Ok(u64::try_from(names.len()).unwrap_or(u64::MAX))
}

/// Gives an event in grace its work item, if one of its references names one now.
fn resolve_waiting(tx: &mut Tx<'_>, id: EventId) -> Result<bool, StoreError> {
    let references = stored_event::stored_references(tx, id)?;
    let Some(resolution) = routing::resolve(tx, &references)? else {
        return Ok(false);
    };
    let subject = &resolution.subject;
    tx.execute(
        "UPDATE events SET state = 'held', state_at_ms = ?2, work_item = ?3, subject = ?4,
             subject_key = ?5, resolved_by = ?6
         WHERE id = ?1",
        params![
            id.0,
            tx.now.0,
            resolution.work_item.to_string(),
            subject.as_str(),
            subject.key(),
            resolution.in_words()
        ],
        "resolve an event",
    )?;
    tx.execute(
        "DELETE FROM event_references WHERE event_id = ?1",
        params![id.0],
        "forget the references of an event",
    )?;
    stored_event::insert_links(tx, id, &resolution.also)?;
    if let Some((event, _)) = stored_event::read_routable(tx, id)? {
        tx.effects.events.push(GatewayEvent::Appended {
            subject: subject.to_string(),
            work_item: Some(resolution.work_item.to_string()),
            resolved_by: Some(resolution.by.to_owned()),
            gateway_event_id: id.0,
            delivery_id: event.delivery_id,
        });
    }
    Ok(true)
}

/// True when an unfinished routing would also cover a new arrival; `also` are the subjects that
/// it names beside its own.
pub(super) fn is_behind_pending(
    tx: &Tx<'_>,
    subject_key: &str,
    also: &[String],
    actor: Option<(Provider, &str)>,
    consumers: &[Consumer],
) -> Result<bool, StoreError> {
    if !has_pending(tx)? {
        return Ok(false);
    }
    let scopes = covering_scopes(subject_key, also, actor, consumers);
    any_pending(tx, &scopes, NEWEST)
}

/// The scopes that come to a resolved event. A subject that only a binding links to it is not
/// among them: whoever claims that one covers this subject too.
fn covering_scopes(
    subject_key: &str,
    also: &[String],
    actor: Option<(Provider, &str)>,
    consumers: &[Consumer],
) -> Vec<Scope> {
    let mut scopes = vec![Scope::Subject(subject_key.to_owned())];
    scopes.extend(also.iter().map(|link| Scope::Linked(link.clone())));
    // An actor's routing covers only what nobody claims.
    if let Some((provider, key)) = actor
        && consumers.iter().any(|consumer| consumer.why == "actor")
    {
        scopes.push(Scope::Actor(provider, key.to_owned()));
    }
    scopes
}

/// True when older events that share a reference with an arrival are still being resolved. What
/// stands behind a reference that always resolves is never asked.
pub(super) fn has_pending_reference(
    tx: &Tx<'_>,
    references: &[Reference],
) -> Result<bool, StoreError> {
    if !has_pending(tx)? {
        return Ok(false);
    }
    let scopes: Vec<Scope> = references.iter().map_while(Scope::of_reference).collect();
    any_pending(tx, &scopes, NEWEST)
}

/// True when an unfinished routing of one of the scopes has not come to an event yet.
fn any_pending(tx: &Tx<'_>, scopes: &[Scope], event: EventId) -> Result<bool, StoreError> {
    for scope in scopes {
        let found = tx.first(
            "SELECT 1 FROM pending_routings
             WHERE scope = ?1 AND key = ?2 AND after_event_id < ?3",
            params![scope.kind(), scope.key(), event.0],
            |_| Ok(()),
            "read pending routings",
        )?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True while any late routing is unfinished. Every append asks, so a batch looks once.
pub(super) fn has_pending(tx: &Tx<'_>) -> Result<bool, StoreError> {
    if let Some(known) = tx.pending_known.get() {
        return Ok(known);
    }
    let found = tx.first(
        "SELECT 1 FROM pending_routings LIMIT 1",
        [],
        |_| Ok(()),
        "read pending routings",
    )?;
    tx.pending_known.set(Some(found.is_some()));
    Ok(found.is_some())
}

fn note_pending(tx: &Tx<'_>, scope: &Scope, after: EventId) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO pending_routings (scope, key, after_event_id, created_at_ms)
         VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (scope, key) DO UPDATE SET after_event_id = excluded.after_event_id",
        params![scope.kind(), scope.key(), after.0, tx.now.0],
        "note a pending routing",
    )?;
    tx.pending_known.set(Some(true));
    Ok(())
}

fn forget_pending(tx: &Tx<'_>, scope: &Scope) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM pending_routings WHERE scope = ?1 AND key = ?2",
        params![scope.kind(), scope.key()],
        "end a pending routing",
    )?;
    tx.pending_known.set(None);
    Ok(())
}
