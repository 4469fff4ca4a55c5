//! What a stored event is about, as it lies in the store: its further work items, the references
//! of an event in grace, and whom it concerns today.

use rusqlite::params;

use super::error::StoreError;
use super::routing::{self, Consumer, Routable};
use super::writer::Tx;
use crate::broken::Break;
use crate::domain::{EventId, Provider, Reference, Seq, Subject, WorkItemRef};

/// Keys of the subjects that an event concerns beside its own: the further work items that it
/// names, and whatever bindings link to any of them today.
pub(super) fn link_keys(
    tx: &Tx<'_>,
    work_item: &WorkItemRef,
    also: &[WorkItemRef],
) -> Result<Vec<String>, StoreError> {
    let mut keys = subject_keys(also);
    for named in also.iter().chain([work_item]) {
        keys.extend(subject_keys(&routing::linked(tx, named)?));
    }
    Ok(keys)
}

/// The keys of the subjects of some work items.
pub(super) fn subject_keys(work_items: &[WorkItemRef]) -> Vec<String> {
    work_items
        .iter()
        .map(|work_item| work_item.subject().key())
        .collect()
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

/// The further work items of an event.
pub(super) fn stored_links(tx: &Tx<'_>, id: EventId) -> Result<Vec<WorkItemRef>, StoreError> {
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

/// Writes down the ways to name the work item of an event in grace.
pub(super) fn insert_references(
    tx: &Tx<'_>,
    id: EventId,
    references: &[Reference],
) -> Result<(), StoreError> {
    for (position, reference) in (0_i64..).zip(references) {
        let (kind, provider, key) = reference_row(reference);
        tx.execute(
            "INSERT INTO event_references (event_id, position, kind, provider, key)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![id.0, position, kind, provider, key],
            "keep a reference",
        )?;
    }
    Ok(())
}

fn reference_row(reference: &Reference) -> (&'static str, &'static str, String) {
    match reference {
        Reference::Direct(work_item) => ("direct", "", work_item.to_string()),
        Reference::Bound { provider, key } => ("binding", provider.as_str(), key.clone()),
        Reference::Commit { repository, sha } => ("commit", "github", commit_key(repository, sha)),
        Reference::Room { channel } => ("room", "slack", channel.clone()),
        Reference::DeclaredRoom(work_item) => ("declared-room", "slack", work_item.to_string()),
    }
}

/// A commit as one text.
pub(super) fn commit_key(repository: &str, sha: &str) -> String {
    format!("{repository}@{sha}")
}

/// The ways to name the work item of an event in grace, best first.
pub(super) fn stored_references(tx: &Tx<'_>, id: EventId) -> Result<Vec<Reference>, StoreError> {
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
            parse_reference(&kind, &provider, key)
                .ok_or_else(|| StoreError::Corrupt(format!("a reference of kind {kind}")))
        })
        .collect()
}

fn parse_reference(kind: &str, provider: &str, key: String) -> Option<Reference> {
    match kind {
        "direct" => WorkItemRef::parse(&key).ok().map(Reference::Direct),
        "binding" => {
            let provider = Provider::from_word(provider)?;
            Some(Reference::Bound { provider, key })
        }
        "commit" => key
            .rsplit_once('@')
            .map(|(repository, sha)| Reference::Commit {
                repository: repository.to_owned(),
                sha: sha.to_owned(),
            }),
        "room" => Some(Reference::Room { channel: key }),
        "declared-room" => WorkItemRef::parse(&key).ok().map(Reference::DeclaredRoom),
        _ => None,
    }
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
    routing::consumers(tx, &event.subject_key, &links, event.actor())
}

/// The newest delivery of an event on a queue that is dead or expired and not replaced yet.
pub(super) fn last_unhandled(
    tx: &Tx<'_>,
    id: EventId,
    instance_id: i64,
) -> Result<Option<Seq>, StoreError> {
    tx.first(
        "SELECT seq FROM deliveries
         WHERE event_id = ?1 AND instance_id = ?2 AND state >= 3 AND replaced = 0
         ORDER BY seq DESC LIMIT 1",
        params![id.0, instance_id],
        |row| Ok(Seq(row.get(0)?)),
        "look for a delivery to replace",
    )
}

/// Marks that delivery as replaced and names it; a row is replaced once at most.
pub(super) fn replace_unhandled(
    tx: &Tx<'_>,
    id: EventId,
    instance_id: i64,
) -> Result<Option<Seq>, StoreError> {
    let replaced = last_unhandled(tx, id, instance_id)?;
    if let Some(seq) = replaced {
        mark_replaced(tx, seq)?;
    }
    Ok(replaced)
}

/// Notes that a new delivery stands for this one.
pub(super) fn mark_replaced(tx: &Tx<'_>, seq: Seq) -> Result<(), StoreError> {
    if Break::ReplacedTwice.is_on() {
        return Ok(());
    }
    tx.execute(
        "UPDATE deliveries SET replaced = 1 WHERE seq = ?1",
        params![seq.0],
        "replace a delivery",
    )?;
    Ok(())
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
    Ok(keys.iter().filter_map(|key| subject_key_of(key)).collect())
}

/// The subject of the object that a GitHub or Jira binding key names.
pub(super) fn subject_key_of(reference_key: &str) -> Option<String> {
    // A key is a reference in lower case; a Jira project only parses in upper case.
    let parsed = match reference_key.rsplit_once('/') {
        Some((site, issue)) if site.starts_with("jira:") => {
            WorkItemRef::parse(&format!("{site}/{}", issue.to_ascii_uppercase()))
        }
        _ => WorkItemRef::parse(reference_key),
    };
    parsed.ok().map(|work_item| work_item.subject().key())
}
