//! Presence: that an item is open and carries the labels, stated once until somebody answers.
//!
//! At most one presence event of an item is outstanding: on a queue, held, in somebody's hands, or
//! dead. Another one is due only when the last was answered `dropped:awaiting-start` and by
//! nothing else, when it expired unanswered, or when the item is not what the last one stated.

use rusqlite::{Row, params};

use super::super::append::{Append, Appended};
use super::super::error::StoreError;
use super::super::routing;
use super::super::writer::{Tx, Write};
use super::{ItemKind, PresenceChange};
use crate::domain::{CallerToken, EventId, InstanceName, Payload, WorkItemRef};

const ASK_AGAIN: &str = "dropped:awaiting-start";

/// Where the presence of an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Never stated, or the last one ended without an answer that lasts.
    Open,
    /// An event of it waits, is in hand or is held.
    Outstanding,
    /// An event of it is dead: an operator decides, not the next round.
    Dead,
    /// Answered.
    Settled,
}

impl Standing {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "",
            Self::Outstanding => "outstanding",
            Self::Dead => "dead",
            Self::Settled => "settled",
        }
    }
}

/// What decides whether a presence is due.
struct Marks {
    version: String,
    event: EventId,
    stated: String,
    state: String,
}

impl Marks {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            version: row.get(0)?,
            event: EventId(row.get(1)?),
            stated: row.get(2)?,
            state: row.get(3)?,
        })
    }

    fn is_due(&self, standing: Standing) -> bool {
        let is_armed = !self.version.is_empty();
        is_armed
            && match standing {
                Standing::Open => true,
                Standing::Settled => self.version != self.stated,
                Standing::Outstanding | Standing::Dead => false,
            }
    }

    fn standing(&self, tx: &Tx<'_>) -> Result<Standing, StoreError> {
        if self.event.0 == 0 {
            return Ok(self.remembered());
        }
        let event = tx.first(
            "SELECT state FROM events WHERE id = ?1",
            params![self.event.0],
            |row| row.get::<_, String>(0),
            "read a presence event",
        )?;
        match event.as_deref() {
            None => Ok(self.remembered()),
            Some("held" | "grace") => Ok(Standing::Outstanding),
            Some("routed") => standing_of_deliveries(tx, self.event),
            Some(_) => Ok(Standing::Open),
        }
    }

    /// What is left to judge by when the event is gone. It was dead for as long as dead ones are
    /// kept: that is answer enough, only a change brings it back.
    fn remembered(&self) -> Standing {
        match self.state.as_str() {
            "settled" | "dead" => Standing::Settled,
            _ => Standing::Open,
        }
    }
}

fn standing_of_deliveries(tx: &Tx<'_>, event: EventId) -> Result<Standing, StoreError> {
    let rows = tx.all(
        "SELECT state, outcome FROM deliveries WHERE event_id = ?1 AND replaced = 0",
        params![event.0],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        "read the deliveries of a presence event",
    )?;
    let any = |test: fn(&(i64, String)) -> bool| rows.iter().any(test);
    Ok(if any(|(state, _)| *state <= 1) {
        Standing::Outstanding
    } else if any(|(state, _)| *state == 3) {
        Standing::Dead
    } else if any(|(state, outcome)| *state == 2 && outcome != ASK_AGAIN) {
        Standing::Settled
    } else {
        Standing::Open
    })
}

/// Applies what a poller saw of an item's presence.
pub(super) fn change(
    tx: &Tx<'_>,
    source: &str,
    key: &str,
    change: &PresenceChange,
) -> Result<(), StoreError> {
    let (version, payload) = match change {
        PresenceChange::Keep => return Ok(()),
        PresenceChange::Disarm => ("", None),
        PresenceChange::Arm { version, payload } => (version.as_str(), Some(payload)),
    };
    tx.execute(
        "UPDATE poll_items SET version = ?3, payload = ?4, payload_bytes = ?5
         WHERE source = ?1 AND work_item_key = ?2",
        params![
            source,
            key,
            version,
            payload.map_or(&[][..], Payload::compressed),
            payload.map_or(0, |payload| i64::try_from(payload.text_bytes())
                .unwrap_or(i64::MAX)),
        ],
        "save the presence of an item",
    )?;
    Ok(())
}

/// Forgets an item, unless a presence event of it is outstanding: should the item come back, that
/// one still stands for it.
pub(super) fn forget_item(tx: &Tx<'_>, source: &str, key: &str) -> Result<(), StoreError> {
    let Some(marks) = read_marks(tx, source, key)? else {
        return Ok(());
    };
    match marks.standing(tx)? {
        Standing::Outstanding | Standing::Dead => {
            change(tx, source, key, &PresenceChange::Disarm)?;
            tx.execute(
                "UPDATE poll_items SET pending = 0, head = '', handled = '', forgotten = 1
                 WHERE source = ?1 AND work_item_key = ?2",
                params![source, key],
                "forget a polled item",
            )?;
        }
        Standing::Open | Standing::Settled => {
            tx.execute(
                "DELETE FROM poll_items WHERE source = ?1 AND work_item_key = ?2",
                params![source, key],
                "forget a polled item",
            )?;
        }
    }
    Ok(())
}

fn read_marks(tx: &Tx<'_>, source: &str, key: &str) -> Result<Option<Marks>, StoreError> {
    tx.first(
        "SELECT version, presence_event_id, presence_version, presence_state FROM poll_items
         WHERE source = ?1 AND work_item_key = ?2",
        params![source, key],
        Marks::read,
        "read the presence of an item",
    )
}

/// Finds items whose presence is due, a page at a time. Sent by a poller at the end of a round.
#[derive(Debug, Clone)]
pub struct DuePresences {
    /// The repository or project.
    pub source: String,
    /// The key behind which to go on; empty at first.
    pub after: String,
    /// How many items to look at.
    pub limit: u32,
}

/// What one look found.
#[derive(Debug, Clone)]
pub struct PresencePage {
    /// What is due.
    pub due: Vec<DuePresence>,
    /// Where the next look goes on; `None` at the end.
    pub next: Option<String>,
}

/// An item whose presence is due.
#[derive(Debug, Clone)]
pub struct DuePresence {
    /// The item.
    pub work_item: WorkItemRef,
    /// What it is.
    pub kind: ItemKind,
    /// The event's payload.
    pub payload: Payload,
}

impl Write for DuePresences {
    type Reply = PresencePage;

    fn apply(self, tx: &mut Tx<'_>) -> Result<PresencePage, StoreError> {
        let rows = self.undecided(tx)?;
        let is_last = rows.len() < usize::try_from(self.limit).unwrap_or(usize::MAX);
        let last = rows.last().map(|(key, _)| key.clone());
        let mut due = Vec::new();
        for (key, marks) in rows {
            let standing = marks.standing(tx)?;
            remember(tx, &self.source, &key, &marks, standing)?;
            if marks.is_due(standing) {
                due.extend(self.read_due(tx, &key)?);
            }
        }
        Ok(PresencePage {
            due,
            next: last.filter(|_| !is_last),
        })
    }
}

impl DuePresences {
    /// Items whose presence is not settled as it is now, and forgotten ones that may go.
    fn undecided(&self, tx: &Tx<'_>) -> Result<Vec<(String, Marks)>, StoreError> {
        tx.all(
            "SELECT version, presence_event_id, presence_version, presence_state, work_item_key
             FROM poll_items
             WHERE source = ?1 AND work_item_key > ?2
                 AND (version <> '' OR forgotten = 1)
                 AND NOT (presence_state = 'settled' AND presence_version = version)
             ORDER BY work_item_key LIMIT ?3",
            params![self.source, self.after, self.limit],
            |row| Ok((row.get::<_, String>(4)?, Marks::read(row)?)),
            "look for undecided presences",
        )
    }

    fn read_due(&self, tx: &Tx<'_>, key: &str) -> Result<Option<DuePresence>, StoreError> {
        let row = tx.first(
            "SELECT work_item, kind, payload, payload_bytes FROM poll_items
             WHERE source = ?1 AND work_item_key = ?2",
            params![self.source, key],
            |row| {
                let bytes = row.get::<_, i64>(3)?.unsigned_abs();
                let payload = Payload::from_stored(row.get(2)?, bytes);
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, payload))
            },
            "read the presence of an item",
        )?;
        row.map(|(work_item, kind, payload)| {
            Ok(DuePresence {
                work_item: routing::parse_stored(&work_item)?,
                kind: ItemKind::from_word(&kind)?,
                payload,
            })
        })
        .transpose()
    }
}

/// Keeps what an event became, for when retention has dropped it; lets a forgotten item go.
fn remember(
    tx: &Tx<'_>,
    source: &str,
    key: &str,
    marks: &Marks,
    standing: Standing,
) -> Result<(), StoreError> {
    let is_over = matches!(standing, Standing::Open | Standing::Settled);
    if marks.version.is_empty() && is_over {
        return forget_item(tx, source, key);
    }
    if standing != Standing::Open && standing.as_str() != marks.state {
        tx.execute(
            "UPDATE poll_items SET presence_state = ?3
             WHERE source = ?1 AND work_item_key = ?2",
            params![source, key, standing.as_str()],
            "remember where a presence stands",
        )?;
    }
    Ok(())
}

/// Appends the presence of an item if it is due, and marks it as stated, as one write. Sent by a
/// poller.
#[derive(Debug)]
pub struct AppendPresence {
    /// The repository or project.
    pub source: String,
    /// The key of the item.
    pub key: String,
    /// The event.
    pub append: Append,
}

/// What became of a presence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresenceAppended {
    /// It is stored.
    Stored {
        /// The event's number.
        event: EventId,
        /// The queues that it is on; empty means held.
        to: Vec<InstanceName>,
    },
    /// It was not due; nothing is stored.
    NotDue,
    /// It cannot be stored as it is; it is tried again when the item changes.
    Refused,
}

impl Write for AppendPresence {
    type Reply = PresenceAppended;

    fn apply(self, tx: &mut Tx<'_>) -> Result<PresenceAppended, StoreError> {
        let Self {
            source,
            key,
            append,
        } = self;
        let Some(marks) = read_marks(tx, &source, &key)? else {
            return Ok(PresenceAppended::NotDue);
        };
        if !marks.is_due(marks.standing(tx)?) {
            return Ok(PresenceAppended::NotDue);
        }
        let (reply, event, standing) = match append.apply(tx)? {
            Appended::Stored { event, to } | Appended::Revived { event, to } => {
                let reply = PresenceAppended::Stored { event, to };
                (reply, event, Standing::Outstanding)
            }
            Appended::Duplicate { .. } | Appended::Dropped { .. } => {
                (PresenceAppended::Refused, EventId(0), Standing::Settled)
            }
        };
        tx.execute(
            "UPDATE poll_items SET presence_event_id = ?3, presence_version = version,
                 presence_state = ?4
             WHERE source = ?1 AND work_item_key = ?2",
            params![source, key, event.0, standing.as_str()],
            "mark a presence as stated",
        )?;
        Ok(reply)
    }

    fn payload_bytes(&self) -> usize {
        self.append.payload_bytes()
    }

    fn caller(&self) -> CallerToken {
        self.append.caller()
    }
}
