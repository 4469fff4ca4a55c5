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
use super::writer::{Tx, Write};
use crate::domain::{EventId, LearnedCommit, Provider, Reference, Seq, Subject, WorkItemRef};
use crate::telemetry::GatewayEvent;

/// Events routed or resolved in one transaction.
const CHUNK: i64 = 500;
/// Time that one transaction may take for it, so that ingest is not kept waiting.
const CHUNK_TIME: Duration = Duration::from_millis(15);

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
        self.room == 0 || tx.clock.instant().duration_since(self.began) >= CHUNK_TIME
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
        Scope::Binding(..) | Scope::Commit(_) | Scope::Room(_) => {
            let (kind, provider, key) = reference_row(scope);
            tx.all(
                "SELECT event_id FROM event_references
                 WHERE kind = ?1 AND provider = ?2 AND key = ?3 AND event_id > ?4
                 ORDER BY event_id LIMIT ?5",
                params![kind, provider, key, after.0, limit],
                read,
                doing,
            )
        }
    }
}

/// Routes one waiting event, resolving it first where the scope is about a reference.
fn take_up(tx: &mut Tx<'_>, scope: &Scope, id: EventId) -> Result<u64, StoreError> {
    match scope {
        Scope::Subject(_) | Scope::Linked(_) | Scope::Actor(..) => {}
        Scope::Binding(..) | Scope::Commit(_) | Scope::Room(_) => {
            if !resolve_waiting(tx, id)? {
                return Ok(0);
            }
        }
    }
    let Some((event, _)) = read_routable(tx, id)? else {
        return Ok(0);
    };
    let consumers = consumers_of(tx, &event)?;
    if consumers.is_empty() {
        return Ok(0);
    }
    tx.execute(
        "UPDATE events SET state = 'routed', state_at_ms = ?2 WHERE id = ?1",
        params![id.0, tx.now.0],
        "route a held event",
    )?;
    tx.effects.held_delta = tx.effects.held_delta.saturating_sub(1);
    for consumer in &consumers {
        let old = replace_ended(tx, id, consumer.instance_id)?;
        routing::insert_delivery(tx, &event, consumer, old)?;
    }
    let names: Vec<_> = consumers
        .into_iter()
        .map(|consumer| consumer.name)
        .collect();
    tx.effects
        .events
        .push(GatewayEvent::routed(&facts_of(&event), &names, true));
    Ok(u64::try_from(names.len()).unwrap_or(u64::MAX))
}

/// Gives an event in grace its work item, if one of its references names one now.
fn resolve_waiting(tx: &mut Tx<'_>, id: EventId) -> Result<bool, StoreError> {
    let references = stored_references(tx, id)?;
    let Some(resolution) = routing::resolve(tx, &references)? else {
        return Ok(false);
    };
    let subject = resolution.work_item.subject();
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
            resolution.by
        ],
        "resolve an event",
    )?;
    tx.execute(
        "DELETE FROM event_references WHERE event_id = ?1",
        params![id.0],
        "forget the references of an event",
    )?;
    insert_links(tx, id, &resolution.also)?;
    if let Some((event, _)) = read_routable(tx, id)? {
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

/// Remembers head commits, and resolves the events that waited for them.
pub(super) fn learn(tx: &mut Tx<'_>, commits: &[LearnedCommit]) -> Result<Routed, StoreError> {
    let mut scopes = Vec::new();
    for commit in commits {
        let key = commit.pull_request.key();
        let known = tx.first(
            "SELECT used_at_ms FROM commits
             WHERE repository = ?1 AND sha = ?2 AND work_item_key = ?3",
            params![commit.repository, commit.sha, key],
            |row| row.get::<_, i64>(0),
            "read commits",
        )?;
        if known.is_some() {
            continue;
        }
        tx.execute(
            "INSERT INTO commits (repository, sha, work_item_key, work_item, used_at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                commit.repository,
                commit.sha,
                key,
                commit.pull_request.to_string(),
                tx.now.0
            ],
            "learn a commit",
        )?;
        scopes.push(Scope::Commit(commit_key(&commit.repository, &commit.sha)));
    }
    cover(tx, &scopes)
}

fn commit_key(repository: &str, sha: &str) -> String {
    format!("{repository}@{sha}")
}

/// Keys of the subjects that an event concerns beside its own: the further work items that it
/// names, and whatever bindings link to any of them today.
pub(super) fn link_keys(
    tx: &Tx<'_>,
    work_item: &WorkItemRef,
    also: &[WorkItemRef],
) -> Result<Vec<String>, StoreError> {
    let mut keys: Vec<String> = also.iter().map(|link| link.subject().key()).collect();
    for named in also.iter().chain([work_item]) {
        keys.extend(
            routing::linked(tx, named)?
                .iter()
                .map(|link| link.subject().key()),
        );
    }
    Ok(keys)
}

/// Writes down the further work items of an event.
pub(super) fn insert_links(
    tx: &Tx<'_>,
    id: EventId,
    links: &[WorkItemRef],
) -> Result<(), StoreError> {
    for link in links {
        tx.execute(
            "INSERT OR IGNORE INTO event_links (event_id, subject_key, work_item)
             VALUES (?1, ?2, ?3)",
            params![id.0, link.subject().key(), link.to_string()],
            "link an event",
        )?;
    }
    Ok(())
}

/// Writes down the ways to name the work item of an event in grace.
pub(super) fn insert_references(
    tx: &Tx<'_>,
    id: EventId,
    references: &[Reference],
) -> Result<(), StoreError> {
    for (position, reference) in (0_i64..).zip(references) {
        if let Some(scope) = scope_of(reference) {
            let (kind, provider, key) = reference_row(&scope);
            tx.execute(
                "INSERT INTO event_references (event_id, position, kind, provider, key)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![id.0, position, kind, provider, key],
                "keep a reference",
            )?;
        }
    }
    Ok(())
}

/// The scope whose coverage would resolve a reference; `None` for those that always resolve.
fn scope_of(reference: &Reference) -> Option<Scope> {
    match reference {
        Reference::Bound { provider, key } => Some(Scope::Binding(*provider, key.clone())),
        Reference::Commit { repository, sha } => Some(Scope::Commit(commit_key(repository, sha))),
        Reference::Room { channel } => Some(Scope::Room(channel.clone())),
        Reference::Direct(_) | Reference::DeclaredRoom(_) => None,
    }
}

fn reference_row(scope: &Scope) -> (&'static str, &'static str, &str) {
    match scope {
        Scope::Binding(provider, key) => ("binding", provider.as_str(), key),
        Scope::Actor(provider, key) => ("actor", provider.as_str(), key),
        Scope::Commit(key) => ("commit", "github", key),
        Scope::Room(key) => ("room", "slack", key),
        Scope::Subject(key) => ("subject", "", key),
        Scope::Linked(key) => ("linked", "", key),
    }
}

fn stored_references(tx: &Tx<'_>, id: EventId) -> Result<Vec<Reference>, StoreError> {
    let rows = tx.all(
        "SELECT kind, provider, key FROM event_references WHERE event_id = ?1 ORDER BY position",
        params![id.0],
        |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
            ))
        },
        "read the references of an event",
    )?;
    rows.into_iter()
        .map(|(kind, provider, key)| {
            let reference = match kind.as_str() {
                "binding" => Provider::from_word(&provider)
                    .map(|provider| Reference::Bound { provider, key }),
                "commit" => key
                    .rsplit_once('@')
                    .map(|(repository, sha)| Reference::Commit {
                        repository: repository.to_owned(),
                        sha: sha.to_owned(),
                    }),
                "room" => Some(Reference::Room { channel: key }),
                _ => None,
            };
            reference.ok_or_else(|| StoreError::Corrupt(format!("a reference of kind {kind}")))
        })
        .collect()
}

/// What routing needs to know of an event, and its state.
pub(super) fn read_routable(
    tx: &Tx<'_>,
    id: EventId,
) -> Result<Option<(Routable, String)>, StoreError> {
    let row = tx.first(
        "SELECT provider, actor_key, work_item, subject, subject_key, delivery_id, state
         FROM events WHERE id = ?1",
        params![id.0],
        |row| {
            let provider: String = row.get(0)?;
            let event = Routable {
                id,
                provider: Provider::GitHub,
                actor_key: row.get(1)?,
                work_item: row.get(2)?,
                subject: row.get(3)?,
                subject_key: row.get(4)?,
                delivery_id: row.get(5)?,
            };
            Ok((event, provider, row.get::<_, String>(6)?))
        },
        "read an event",
    )?;
    row.map(|(event, provider, state)| {
        let provider = Provider::from_word(&provider)
            .ok_or_else(|| StoreError::Corrupt(format!("an event of provider {provider}")))?;
        Ok((Routable { provider, ..event }, state))
    })
    .transpose()
}

/// Today's consumers of a stored event.
pub(super) fn consumers_of(tx: &Tx<'_>, event: &Routable) -> Result<Vec<Consumer>, StoreError> {
    let links = if event.work_item.is_empty() {
        Vec::new()
    } else {
        let also = stored_links(tx, event.id)?;
        link_keys(tx, &routing::parse_stored(&event.work_item)?, &also)?
    };
    let actor = (!event.actor_key.is_empty()).then_some((event.provider, event.actor_key.as_str()));
    routing::consumers(tx, &event.subject_key, &links, actor)
}

fn stored_links(tx: &Tx<'_>, id: EventId) -> Result<Vec<WorkItemRef>, StoreError> {
    let rows = tx.all(
        "SELECT work_item FROM event_links WHERE event_id = ?1 ORDER BY subject_key",
        params![id.0],
        |row| row.get::<_, String>(0),
        "read the links of an event",
    )?;
    rows.iter()
        .map(|text| routing::parse_stored(text))
        .collect()
}

/// Marks the ended delivery of an event on a queue as replaced and names it; a row is replaced
/// once at most.
pub(super) fn replace_ended(
    tx: &Tx<'_>,
    id: EventId,
    instance_id: i64,
) -> Result<Option<Seq>, StoreError> {
    tx.first(
        "UPDATE deliveries SET replaced = 1
         WHERE seq = (SELECT max(seq) FROM deliveries
                      WHERE event_id = ?1 AND instance_id = ?2 AND state >= 3 AND replaced = 0)
         RETURNING seq",
        params![id.0, instance_id],
        |row| Ok(Seq(row.get(0)?)),
        "replace a delivery",
    )
}

/// Subjects of the objects that a binding links to this subject: a ticket's pull requests.
pub(super) fn subjects_linked_to(
    tx: &Tx<'_>,
    subject: &Subject,
) -> Result<Vec<String>, StoreError> {
    let keys = tx.all(
        "SELECT DISTINCT key FROM bindings WHERE subject_key = ?1 AND provider <> 'slack'",
        params![subject.key()],
        |row| row.get::<_, String>(0),
        "read the bindings of a subject",
    )?;
    // A key is a reference in lower case; a Jira project only parses in upper case.
    Ok(keys.iter().filter_map(|key| subject_key_of(key)).collect())
}

fn subject_key_of(reference_key: &str) -> Option<String> {
    let parsed = match reference_key.rsplit_once('/') {
        Some((site, issue)) if site.starts_with("jira:") => {
            WorkItemRef::parse(&format!("{site}/{}", issue.to_ascii_uppercase()))
        }
        _ => WorkItemRef::parse(reference_key),
    };
    parsed.ok().map(|work_item| work_item.subject().key())
}

/// True when an unfinished routing would also cover a new arrival.
pub(super) fn is_behind_pending(
    tx: &Tx<'_>,
    subject_key: &str,
    links: &[String],
    actor: Option<(Provider, &str)>,
    consumers: &[Consumer],
) -> Result<bool, StoreError> {
    if !has_pending(tx)? {
        return Ok(false);
    }
    let mut scopes = vec![Scope::Subject(subject_key.to_owned())];
    scopes.extend(links.iter().map(|link| Scope::Linked(link.clone())));
    // An actor's routing covers only what nobody claims.
    if let Some((provider, key)) = actor
        && consumers.iter().any(|consumer| consumer.why == "actor")
    {
        scopes.push(Scope::Actor(provider, key.to_owned()));
    }
    any_pending(tx, &scopes)
}

fn any_pending(tx: &Tx<'_>, scopes: &[Scope]) -> Result<bool, StoreError> {
    for scope in scopes {
        if is_pending(tx, scope)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True when older events that share a reference with an arrival are still being resolved.
pub(super) fn has_pending_reference(
    tx: &Tx<'_>,
    references: &[Reference],
) -> Result<bool, StoreError> {
    if !has_pending(tx)? {
        return Ok(false);
    }
    let scopes: Vec<Scope> = references.iter().filter_map(scope_of).collect();
    any_pending(tx, &scopes)
}

/// True while any late routing is unfinished.
pub(super) fn has_pending(tx: &Tx<'_>) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM pending_routings LIMIT 1",
        [],
        |_| Ok(()),
        "read pending routings",
    )?;
    Ok(found.is_some())
}

fn is_pending(tx: &Tx<'_>, scope: &Scope) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM pending_routings WHERE scope = ?1 AND key = ?2",
        params![scope.kind(), scope.key()],
        |_| Ok(()),
        "read pending routings",
    )?;
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
    Ok(())
}

fn forget_pending(tx: &Tx<'_>, scope: &Scope) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM pending_routings WHERE scope = ?1 AND key = ?2",
        params![scope.kind(), scope.key()],
        "end a pending routing",
    )?;
    Ok(())
}
