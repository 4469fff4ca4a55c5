//! Stored events, newest first.

use rusqlite::{Connection, Row, ToSql, params};
use serde::Serialize;

use super::{Page, PageRequest, ViewError, named, numbers, shown_text};
use crate::domain::{EventId, InstanceName, Payload, Subject, Timestamp};
use crate::store::error::{Doing, StoreError};
use crate::store::read;
use crate::store::selection::{Period, SubjectFilter};

/// Events that one page looks at, shown or not: a rare kind in a big store takes several pages.
const LOOKED_AT_MAX: usize = 5_000;

/// What an event waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventState {
    /// On no queue yet.
    Held,
    /// Kept without a subject for a short time.
    Grace,
    /// On at least one queue.
    Routed,
    /// Given up by retention; its payload is gone.
    Expired,
}

impl EventState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Held, Self::Grace, Self::Routed, Self::Expired];

    /// The word stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Grace => "grace",
            Self::Routed => "routed",
            Self::Expired => "expired",
        }
    }

    /// The state of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Which events to list; what is given narrows together.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Those of this subject; `Unassigned` lists what is on no queue or has no work item.
    pub subject: SubjectFilter,
    /// Those of this kind.
    pub kind: Option<String>,
    /// Those in this state.
    pub state: Option<EventState>,
    /// Those with a delivery for this instance.
    pub instance: Option<InstanceName>,
    /// Those that this names: the provider's id of the delivery, one of their keys, or a key
    /// without the family and the scope in front.
    pub named: Option<String>,
    /// Those that arrived then.
    pub received: Period,
}

/// One event without its headers and payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    /// Its number.
    pub id: i64,
    /// Its subject, or `unassigned`.
    pub subject: String,
    /// Its work item.
    pub work_item: Option<String>,
    /// Whose event it is.
    pub provider: String,
    /// How it came.
    pub source: String,
    /// The provider's id of the delivery.
    pub delivery_id: String,
    /// The provider's name for its kind.
    pub kind: String,
    /// When it arrived.
    pub received_at: String,
    /// held, grace, routed or expired.
    pub state: String,
    /// Who did it.
    pub actor: Option<String>,
    /// The length of its payload; 0 once that is gone.
    pub payload_bytes: i64,
}

/// The columns that [`read_row`] expects, of the table alias `e`.
macro_rules! event_columns {
    () => {
        "e.id, e.subject, e.work_item, e.provider, e.transport, e.delivery_id, e.kind,
         e.received_at_ms, e.state, e.actor,
         CASE e.state WHEN 'expired' THEN 0 ELSE e.payload_bytes END"
    };
}
pub(super) use event_columns;

/// Reads [`event_columns`], which begin at a column.
pub(super) fn read_row(row: &Row<'_>, from: usize) -> rusqlite::Result<EventRow> {
    let column = |offset: usize| from.saturating_add(offset);
    let subject: String = row.get(column(1))?;
    Ok(EventRow {
        id: row.get(column(0))?,
        subject: shown_text(subject).unwrap_or_else(|| Subject::UNASSIGNED.to_owned()),
        work_item: shown_text(row.get(column(2))?),
        provider: row.get(column(3))?,
        source: row.get(column(4))?,
        delivery_id: row.get(column(5))?,
        kind: row.get(column(6))?,
        received_at: Timestamp(row.get(column(7))?).to_string(),
        state: row.get(column(8))?,
        actor: shown_text(row.get(column(9))?),
        payload_bytes: row.get(column(10))?,
    })
}

/// An event as the walk meets it.
struct Met {
    row: EventRow,
    received_at_ms: i64,
    is_meant: bool,
}

macro_rules! select_events {
    ($walk:literal) => {
        concat!(
            "SELECT ",
            event_columns!(),
            ", e.received_at_ms, (?1 = '' OR e.kind = ?1) AND (?2 = '' OR e.state = ?2)
                 AND e.received_at_ms >= ?3 AND e.received_at_ms < ?4
                 AND (?5 = 0 OR EXISTS (SELECT 1 FROM deliveries d
                                        WHERE d.event_id = e.id AND d.instance_id = ?5))
             FROM events e WHERE ",
            $walk
        )
    };
}

/// Some events, by their arrival; `?8` is the list of their numbers.
const AMONG: &str = select_events!(
    "e.id IN (SELECT page.value FROM json_each(?8) AS page)
         AND (e.received_at_ms, e.id) < (?6, ?7)
     ORDER BY e.received_at_ms DESC, e.id DESC"
);
/// Those that were stored after another one, in the order in which they were stored.
const NEWER: &str = select_events!("e.id > ?7 ORDER BY e.id");
/// All events, by their arrival.
const BY_ARRIVAL: &str = select_events!(
    "e.received_at_ms >= ?3 AND e.received_at_ms < ?4 AND (e.received_at_ms, e.id) < (?6, ?7)
     ORDER BY e.received_at_ms DESC, e.id DESC"
);
/// The events of one subject.
const OF_SUBJECT: &str = select_events!("e.subject_key = ?8 AND e.id < ?7 ORDER BY e.id DESC");
/// The few events in a state that is not the usual one.
const IN_STATE: &str = select_events!(
    "e.state = ?2 AND e.state <> 'routed' AND (e.received_at_ms, e.id) < (?6, ?7)
     ORDER BY e.received_at_ms DESC, e.id DESC"
);
/// What is on no queue yet, and what has no work item.
const UNASSIGNED: &str = select_events!(
    "e.id IN (SELECT id FROM events WHERE state IN ('held', 'grace') AND state <> 'routed'
              UNION SELECT id FROM events WHERE subject_key = '')
         AND (e.received_at_ms, e.id) < (?6, ?7)
     ORDER BY e.received_at_ms DESC, e.id DESC"
);

/// The events that a filter lets through. A page may hold fewer rows than asked for although
/// more follow.
///
/// # Errors
/// When the position is none of this list, or the store cannot be read.
pub fn events(
    connection: &Connection,
    filter: &EventFilter,
    page: &PageRequest,
) -> Result<Page<EventRow>, ViewError> {
    let after = page.after_numbers()?.unwrap_or((i64::MAX, i64::MAX));
    let Some(walk) = Walk::of(connection, filter, after, page.limit)? else {
        let (rows, next) = (Vec::new(), None);
        return Ok(Page { rows, next });
    };
    let walked = match (&filter.named, &filter.subject) {
        (Some(name), _) => walk.named(name)?,
        (None, SubjectFilter::Is(subject)) => walk.run(OF_SUBJECT, Some(&subject.key()))?,
        (None, SubjectFilter::Unassigned) => walk.run(UNASSIGNED, None)?,
        (None, SubjectFilter::Any) if is_rare(filter.state) => walk.run(IN_STATE, None)?,
        (None, SubjectFilter::Any) => walk.run(BY_ARRIVAL, None)?,
    };
    let next = walked.last.filter(|_| walked.is_cut);
    Ok(Page {
        rows: walked.rows,
        next: next.map(|(received_at_ms, id)| numbers(received_at_ms, id)),
    })
}

/// Events in the order in which they were stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewerEvents {
    /// The rows, at most as many as asked for.
    pub rows: Vec<EventRow>,
    /// The number up to which was looked, whether a row was found or not: to ask on from.
    pub up_to: i64,
}

/// The events behind a number that a filter lets through, oldest first: for whoever follows.
///
/// # Errors
/// When the store cannot be read.
pub fn newer(
    connection: &Connection,
    filter: &EventFilter,
    than: EventId,
    limit: u32,
) -> Result<NewerEvents, StoreError> {
    let walked = match Walk::of(connection, filter, (0, than.0), limit)? {
        Some(walk) => walk.run(NEWER, None)?,
        None => Walked::default(),
    };
    Ok(NewerEvents {
        rows: walked.rows,
        up_to: walked.last.map_or(than.0, |(_, id)| id),
    })
}

fn is_rare(state: Option<EventState>) -> bool {
    match state {
        Some(EventState::Held | EventState::Grace | EventState::Expired) => true,
        Some(EventState::Routed) | None => false,
    }
}

fn find_instance(connection: &Connection, name: &InstanceName) -> Result<Option<i64>, StoreError> {
    read::first(
        connection,
        "SELECT id FROM instances WHERE name = ?1",
        params![name.as_str()],
        |row| row.get(0),
        "find an instance",
    )
}

/// Steps through events until the page is full and one more is found, or it has looked at enough.
struct Walk<'a> {
    connection: &'a Connection,
    filter: &'a EventFilter,
    /// 0: of any.
    instance_id: i64,
    /// The arrival and the number of the event that the page before ended with.
    after: (i64, i64),
    limit: u32,
}

/// What a walk met.
#[derive(Default)]
struct Walked {
    rows: Vec<EventRow>,
    /// The arrival and the number of the last event that need not be met again.
    last: Option<(i64, i64)>,
    /// True when more follows.
    is_cut: bool,
}

impl<'a> Walk<'a> {
    /// `None` when nothing can be found.
    fn of(
        connection: &'a Connection,
        filter: &'a EventFilter,
        after: (i64, i64),
        limit: u32,
    ) -> Result<Option<Self>, StoreError> {
        let instance_id = match &filter.instance {
            None => Some(0),
            Some(name) => find_instance(connection, name)?,
        };
        Ok(instance_id.map(|instance_id| Self {
            connection,
            filter,
            instance_id,
            after,
            limit,
        }))
    }

    /// Those that a name means: by a key, which is a look; else by the id of the delivery, which
    /// is a search, because an id that is no key (a poll's) has no index.
    fn named(&self, name: &str) -> Result<Walked, StoreError> {
        let ids = named::ids(self.connection, name)?;
        if ids.is_empty() {
            return self.run(BY_ARRIVAL, None);
        }
        let ids = serde_json::to_string(&ids)
            .map_err(|error| StoreError::Corrupt(format!("numbers that {error}")))?;
        self.run(AMONG, Some(&ids))
    }

    fn run(&self, sql: &'static str, eighth: Option<&str>) -> Result<Walked, StoreError> {
        let kind = self.filter.kind.as_deref().unwrap_or_default();
        let state = self.filter.state.map_or("", EventState::as_str);
        let Period { since, until } = self.filter.received;
        let mut params: Vec<&dyn ToSql> = vec![
            &kind,
            &state,
            &since.0,
            &until.0,
            &self.instance_id,
            &self.after.0,
            &self.after.1,
        ];
        params.extend(eighth.as_ref().map(|text| -> &dyn ToSql { text }));
        let is_by_key = sql == AMONG;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut statement = self.connection.prepare_cached(sql).doing("list events")?;
        let met = statement
            .query_map(params.as_slice(), read_met)
            .doing("list events")?;
        let mut walked = Walked::default();
        for (looked_at, met) in met.enumerate() {
            let met = met.doing("list events")?;
            let is_meant = met.is_meant && self.is_meant(&met.row, is_by_key);
            if looked_at >= LOOKED_AT_MAX || (is_meant && walked.rows.len() >= limit) {
                walked.is_cut = true;
                return Ok(walked);
            }
            // With the page full, what is not meant need not be met again.
            walked.last = Some((met.received_at_ms, met.row.id));
            if is_meant {
                walked.rows.push(met.row);
            }
        }
        Ok(walked)
    }

    /// What not every statement narrows by itself.
    fn is_meant(&self, row: &EventRow, is_by_key: bool) -> bool {
        let is_named = match &self.filter.named {
            Some(name) => is_by_key || row.delivery_id == *name,
            None => true,
        };
        let is_about = match &self.filter.subject {
            SubjectFilter::Any => true,
            SubjectFilter::Is(subject) => row.subject.eq_ignore_ascii_case(subject.as_str()),
            SubjectFilter::Unassigned => {
                row.subject == Subject::UNASSIGNED || row.state == EventState::Held.as_str()
            }
        };
        is_named && is_about
    }
}

fn read_met(row: &Row<'_>) -> rusqlite::Result<Met> {
    Ok(Met {
        row: read_row(row, 0)?,
        received_at_ms: row.get(11)?,
        is_meant: row.get(12)?,
    })
}

/// The payload of an event; `None` when there is no such event, or its payload is gone.
///
/// # Errors
/// When the store cannot be read.
pub fn payload(connection: &Connection, id: EventId) -> Result<Option<Payload>, StoreError> {
    read::first(
        connection,
        "SELECT payload, payload_bytes FROM events WHERE id = ?1 AND state <> 'expired'",
        params![id.0],
        |row| {
            let bytes: i64 = row.get(1)?;
            Ok(Payload::from_stored(row.get(0)?, bytes.unsigned_abs()))
        },
        "read a payload",
    )
}
