//! Which work item an event is about, and whose queues it goes on. Runs inside a transaction:
//! a claim or a binding lands before or after an event, never between its routing and its row.

use rusqlite::params;

use super::error::StoreError;
use super::route_memory::KnownLane;
use super::stored_event;
use super::writer::Tx;
use crate::broken::Break;
use crate::domain::{
    EventActor, EventId, InstanceName, Provider, Reference, Seq, Subject, Timestamp, WorkItemRef,
};

/// The use of a binding, room or commit is written down at most this often.
const USE_NOTED_EVERY_MS: i64 = 24 * 3600 * 1000;

/// The work item that an arrival is about, and the others that it concerns.
#[derive(Debug, Clone)]
pub(super) struct Resolution {
    /// The work item itself.
    pub work_item: WorkItemRef,
    /// Its subject.
    pub subject: Subject,
    /// Which kind of reference named it.
    pub by: &'static str,
    /// The key that it was published under; empty when the payload or the configuration names it.
    pub key: String,
    /// Further work items under the same reference.
    pub also: Vec<WorkItemRef>,
}

/// One instance that an event goes to, and why.
#[derive(Debug, Clone)]
pub(super) struct Consumer {
    pub instance_id: i64,
    pub name: InstanceName,
    pub why: String,
}

/// One instance that claims a subject.
#[derive(Debug, Clone)]
pub(super) struct Claimant {
    instance_id: i64,
    name: InstanceName,
    role: String,
}

/// What routing needs to know of a stored event.
#[derive(Debug, Clone)]
pub(super) struct Routable {
    pub id: EventId,
    pub provider: Provider,
    pub actor_key: String,
    pub work_item: String,
    pub subject: String,
    pub subject_key: String,
    pub delivery_id: String,
}

impl Routable {
    /// Who did it, as routing compares it.
    pub(super) fn actor(&self) -> Option<(Provider, &str)> {
        (!self.actor_key.is_empty()).then_some((self.provider, self.actor_key.as_str()))
    }
}

/// The first reference that names a work item.
pub(super) fn resolve(
    tx: &Tx<'_>,
    references: &[Reference],
) -> Result<Option<Resolution>, StoreError> {
    for reference in references {
        let found = match reference {
            Reference::Direct(work_item) | Reference::DeclaredRoom(work_item) => {
                vec![work_item.clone()]
            }
            Reference::Bound { provider, key } => bound(tx, *provider, key)?,
            Reference::Commit { repository, sha } => headed_by(tx, repository, sha)?,
            Reference::Room { channel } => published_room(tx, channel)?,
        };
        let mut found = found.into_iter();
        if let Some(work_item) = found.next() {
            let (by, key) = word_and_key(reference);
            return Ok(Some(Resolution {
                subject: work_item.subject(),
                work_item,
                by,
                key,
                also: found.collect(),
            }));
        }
    }
    Ok(None)
}

fn word_and_key(reference: &Reference) -> (&'static str, String) {
    match reference {
        Reference::Direct(_) => ("direct", String::new()),
        Reference::Bound { key, .. } => ("binding", key.clone()),
        Reference::Commit { repository, sha } => {
            ("commit", stored_event::commit_key(repository, sha))
        }
        Reference::Room { channel } => ("room", channel.clone()),
        Reference::DeclaredRoom(_) => ("declared-room", String::new()),
    }
}

impl Resolution {
    /// What named the work item, as it is stored: the kind of reference, and its key behind a
    /// colon.
    pub(super) fn in_words(&self) -> String {
        if self.key.is_empty() {
            self.by.to_owned()
        } else {
            format!("{}:{}", self.by, self.key)
        }
    }
}

fn bound(tx: &Tx<'_>, provider: Provider, key: &str) -> Result<Vec<WorkItemRef>, StoreError> {
    let rows = tx.all(
        "SELECT work_item, used_at_ms FROM bindings WHERE provider = ?1 AND key = ?2
         ORDER BY bound_at_ms, work_item_key",
        params![provider.as_str(), key],
        read_use,
        "read bindings",
    )?;
    if is_any_use_due(tx.now, &rows) {
        tx.execute(
            "UPDATE bindings SET used_at_ms = ?3 WHERE provider = ?1 AND key = ?2",
            params![provider.as_str(), key, tx.now.0],
            "note the use of a binding",
        )?;
    }
    parse_all(&rows)
}

fn headed_by(tx: &Tx<'_>, repository: &str, sha: &str) -> Result<Vec<WorkItemRef>, StoreError> {
    let rows = tx.all(
        "SELECT work_item, used_at_ms FROM commits WHERE repository = ?1 AND sha = ?2
         ORDER BY work_item_key",
        params![repository, sha],
        read_use,
        "read commits",
    )?;
    if is_any_use_due(tx.now, &rows) {
        tx.execute(
            "UPDATE commits SET used_at_ms = ?3 WHERE repository = ?1 AND sha = ?2",
            params![repository, sha, tx.now.0],
            "note the use of a commit",
        )?;
    }
    parse_all(&rows)
}

fn published_room(tx: &Tx<'_>, channel: &str) -> Result<Vec<WorkItemRef>, StoreError> {
    let rows = tx.all(
        "SELECT work_item, used_at_ms FROM rooms WHERE channel = ?1",
        params![channel],
        read_use,
        "read rooms",
    )?;
    if is_any_use_due(tx.now, &rows) {
        tx.execute(
            "UPDATE rooms SET used_at_ms = ?2 WHERE channel = ?1",
            params![channel, tx.now.0],
            "note the use of a room",
        )?;
    }
    parse_all(&rows)
}

fn read_use(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, i64)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn is_any_use_due(now: Timestamp, rows: &[(String, i64)]) -> bool {
    rows.iter()
        .any(|(_, used_at)| is_use_due(now, Timestamp(*used_at)))
}

/// True when the last noted use is so old that the present one is written down.
pub(super) fn is_use_due(now: Timestamp, used_at: Timestamp) -> bool {
    now.since(used_at) > USE_NOTED_EVERY_MS
}

fn parse_all(rows: &[(String, i64)]) -> Result<Vec<WorkItemRef>, StoreError> {
    rows.iter().map(|(text, _)| parse_stored(text)).collect()
}

/// A reference as it lies in the store.
pub(super) fn parse_stored(text: &str) -> Result<WorkItemRef, StoreError> {
    WorkItemRef::parse(text)
        .map_err(|error| StoreError::Corrupt(format!("a work item that {error}")))
}

/// The work items that a binding links to this one: a pull request's tickets, one hop.
pub(super) fn linked(tx: &Tx<'_>, work_item: &WorkItemRef) -> Result<Vec<WorkItemRef>, StoreError> {
    let Some(provider) = work_item.provider() else {
        return Ok(Vec::new());
    };
    let key = work_item.key();
    if tx.routes.is_unbound(&key) {
        return Ok(Vec::new());
    }
    let found = bound(tx, provider, &key)?;
    if found.is_empty() {
        tx.routes.keep_unbound(&key);
    }
    Ok(found)
}

/// The claimants of the subject, else the instance that registered the actor; plus the claimants
/// of every linked subject. Each instance once, in the order found.
pub(super) fn consumers(
    tx: &Tx<'_>,
    subject_key: &str,
    links: &[String],
    actor: Option<(Provider, &str)>,
) -> Result<Vec<Consumer>, StoreError> {
    let mut found = claimants(tx, subject_key, None)?;
    if found.is_empty()
        && let Some((provider, actor_key)) = actor
    {
        found.extend(registrant(tx, provider, actor_key)?);
    }
    for link in links.iter().filter(|link| *link != subject_key) {
        for consumer in claimants(tx, link, Some(link))? {
            if found
                .iter()
                .all(|known| known.instance_id != consumer.instance_id)
            {
                found.push(consumer);
            }
        }
    }
    Ok(found)
}

fn claimants(
    tx: &Tx<'_>,
    subject_key: &str,
    link: Option<&str>,
) -> Result<Vec<Consumer>, StoreError> {
    if subject_key.is_empty() {
        return Ok(Vec::new());
    }
    let found = match tx.routes.claimants(subject_key) {
        Some(known) => known,
        None => read_claimants(tx, subject_key)?,
    };
    let consumer = |claimant: Claimant| Consumer {
        instance_id: claimant.instance_id,
        name: claimant.name,
        why: match link {
            Some(link) => format!("link:{link}:{}", claimant.role),
            None => format!("claim:{}", claimant.role),
        },
    };
    Ok(found.into_iter().map(consumer).collect())
}

fn read_claimants(tx: &Tx<'_>, subject_key: &str) -> Result<Vec<Claimant>, StoreError> {
    let rows = tx.all(
        "SELECT claims.instance_id, instances.name, min(claims.role)
         FROM claims JOIN instances ON instances.id = claims.instance_id
         WHERE claims.subject_key = ?1 GROUP BY claims.instance_id ORDER BY claims.instance_id",
        params![subject_key],
        |row| {
            Ok((
                row.get(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
            ))
        },
        "read claims",
    )?;
    let found = rows
        .into_iter()
        .map(|(instance_id, name, role)| {
            Ok(Claimant {
                instance_id,
                name: parse_name(&name)?,
                role,
            })
        })
        .collect::<Result<Vec<_>, StoreError>>()?;
    tx.routes.keep_claimants(subject_key, &found);
    Ok(found)
}

fn registrant(
    tx: &Tx<'_>,
    provider: Provider,
    actor_key: &str,
) -> Result<Option<Consumer>, StoreError> {
    let row = tx.first(
        "SELECT actors.instance_id, instances.name
         FROM actors JOIN instances ON instances.id = actors.instance_id
         WHERE actors.provider = ?1 AND actors.actor_key = ?2",
        params![provider.as_str(), actor_key],
        |row| Ok((row.get(0)?, row.get::<_, String>(1)?)),
        "read actors",
    )?;
    row.map(|(instance_id, name)| {
        Ok(Consumer {
            instance_id,
            name: parse_name(&name)?,
            why: "actor".to_owned(),
        })
    })
    .transpose()
}

/// An instance's name as it lies in the store.
pub(super) fn parse_name(text: &str) -> Result<InstanceName, StoreError> {
    InstanceName::parse(text)
        .map_err(|error| StoreError::Corrupt(format!("an instance name that {error}")))
}

/// The actor of an event as routing compares it.
pub(super) fn actor_key(actor: Option<&EventActor>) -> Option<(Provider, String)> {
    actor.map(|actor| (actor.provider, actor.key().into_owned()))
}

/// Puts an event on a queue as a new delivery, ready now, and opens or extends its lane.
pub(super) fn insert_delivery(
    tx: &mut Tx<'_>,
    event: &Routable,
    consumer: &Consumer,
    redrive_of: Option<Seq>,
) -> Result<Seq, StoreError> {
    let lane_key = if event.subject_key.is_empty() {
        format!("event:{}", event.id)
    } else {
        event.subject_key.clone()
    };
    let lane_id = lane_for(tx, consumer.instance_id, &lane_key, event.id)?;
    tx.execute(
        "INSERT INTO deliveries (instance_id, event_id, lane_id, routed_at_ms, redrive_of, why)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            consumer.instance_id,
            event.id.0,
            lane_id,
            tx.now.0,
            redrive_of
                .filter(|_| !Break::RedriveUnmarked.is_on())
                .map_or(0, |seq| seq.0),
            consumer.why
        ],
        "put a delivery on a queue",
    )?;
    let seq = Seq(tx.connection.last_insert_rowid());
    tx.effects.add_backlog(consumer.instance_id, 1);
    if !Break::AppendWakesNobody.is_on() {
        tx.effects.wakes.insert(consumer.name.clone());
    }
    Ok(seq)
}

/// The lane of a new delivery: nothing of it changes when the event is behind its head.
fn lane_for(
    tx: &Tx<'_>,
    instance_id: i64,
    lane_key: &str,
    event: EventId,
) -> Result<i64, StoreError> {
    let lane = match tx.routes.lane(lane_key, instance_id) {
        Some(known) => Some(known),
        None => read_lane(tx, instance_id, lane_key)?,
    };
    let lane = match lane {
        Some(lane) if lane.head_event_id <= event.0 => lane,
        Some(KnownLane { id, .. }) => {
            tx.execute(
                "UPDATE lanes SET head_event_id = ?2, head_due_at_ms = 0,
                     state = CASE WHEN state = 1 THEN 0 ELSE state END
                 WHERE id = ?1",
                params![id, event.0],
                "put a delivery at the head of a lane",
            )?;
            KnownLane {
                id,
                head_event_id: event.0,
            }
        }
        None => {
            tx.execute(
                "INSERT INTO lanes (instance_id, lane_key, state, head_event_id, head_due_at_ms)
                 VALUES (?1, ?2, 0, ?3, 0)",
                params![instance_id, lane_key, event.0],
                "open a lane",
            )?;
            KnownLane {
                id: tx.connection.last_insert_rowid(),
                head_event_id: event.0,
            }
        }
    };
    tx.routes.keep_lane(lane_key, instance_id, lane);
    Ok(lane.id)
}

fn read_lane(
    tx: &Tx<'_>,
    instance_id: i64,
    lane_key: &str,
) -> Result<Option<KnownLane>, StoreError> {
    tx.first(
        "SELECT id, head_event_id FROM lanes WHERE lane_key = ?1 AND instance_id = ?2",
        params![lane_key, instance_id],
        |row| {
            Ok(KnownLane {
                id: row.get(0)?,
                head_event_id: row.get(1)?,
            })
        },
        "look for a lane",
    )
}
