//! What pollers remember: per list where to go on, per item what was told of it.
//!
//! Invariant: the ledger moves on only after what it skips is stored. A poller appends first and
//! saves last, so a crash in between makes it ask again for what the table of seen keys then
//! recognises. Presence has no such key; its event and its mark are one write.
//!
//! Must not know any provider: lists have names, items have references.

mod claimed;
mod presence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Row, params};

pub use self::claimed::{ClaimedPullRequest, ClaimedPullRequests};
pub use self::presence::{
    AppendPresence, DuePresence, DuePresences, PresenceAppended, PresencePage,
};
use super::error::StoreError;
use super::writer::{Tx, Write};
use super::{registrations, routing};
use crate::domain::{LearnedCommit, Payload, Timestamp, WorkItemRef};
use crate::telemetry::GatewayEvent;

/// Pending items given to a poller at once.
const PENDING_MAX: u32 = 1_000;

/// What is known of one list of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollList {
    /// Up to when everything on it was told.
    pub watermark: Timestamp,
    /// Since when it is told at all; what is older is history.
    pub baseline: Timestamp,
    /// The URL that was asked last.
    pub url: String,
    /// The ETag of that URL's answer; empty for none.
    pub etag: String,
    /// What was told at or after the watermark; the same entry is not told again.
    pub handled: BTreeSet<String>,
    /// A text of the poller's own.
    pub note: String,
}

impl PollList {
    /// A list whose history is not told.
    #[must_use]
    pub const fn starting_at(baseline: Timestamp) -> Self {
        Self {
            watermark: baseline,
            baseline,
            url: String::new(),
            etag: String::new(),
            handled: BTreeSet::new(),
            note: String::new(),
        }
    }
}

/// The lists of a source by name; empty before its first sight.
pub type PollLists = BTreeMap<String, PollList>;

/// Reads the lists of a source. Sent by its poller when a round begins.
#[derive(Debug, Clone)]
pub struct LoadPoll {
    /// The repository or project.
    pub source: String,
}

impl Write for LoadPoll {
    type Reply = PollLists;

    fn apply(self, tx: &mut Tx<'_>) -> Result<PollLists, StoreError> {
        let rows = tx.all(
            "SELECT list, watermark_ms, baseline_ms, url, etag, handled, note FROM poll_lists
             WHERE source = ?1 ORDER BY list",
            params![self.source],
            read_list,
            "read poll lists",
        )?;
        Ok(rows.into_iter().collect())
    }
}

fn read_list(row: &Row<'_>) -> rusqlite::Result<(String, PollList)> {
    let list = PollList {
        watermark: Timestamp(row.get(1)?),
        baseline: Timestamp(row.get(2)?),
        url: row.get(3)?,
        etag: row.get(4)?,
        handled: lines(&row.get::<_, String>(5)?),
        note: row.get(6)?,
    };
    Ok((row.get(0)?, list))
}

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// An issue.
    Issue,
    /// A pull request.
    PullRequest,
}

impl ItemKind {
    /// The word stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::PullRequest => "pull-request",
        }
    }

    fn from_word(word: &str) -> Result<Self, StoreError> {
        [Self::Issue, Self::PullRequest]
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| StoreError::Corrupt(format!("a polled item of kind {word}")))
    }
}

/// What becomes of an item's presence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresenceChange {
    /// What was known of it still holds.
    Keep,
    /// It is closed or does not carry the labels: nothing is to be stated.
    Disarm,
    /// It is open and carries the labels.
    Arm {
        /// Tells apart what its presence states; another one makes it worth stating again.
        version: String,
        /// The event's payload.
        payload: Payload,
    },
}

/// An item as a poller saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemSeen {
    /// What it is.
    pub kind: ItemKind,
    /// What was said of it before is history; counts only for an item that was not known.
    pub floor: Timestamp,
    /// True while something of it remains to be read; `None`: as known.
    pub pending: Option<bool>,
    /// The head commit; `None`: as known.
    pub head: Option<String>,
    /// What was told of it; `None`: as known.
    pub handled: Option<BTreeSet<String>>,
    /// Its presence.
    pub presence: PresenceChange,
}

impl ItemSeen {
    /// An item about which everything stays as known.
    #[must_use]
    pub const fn of(kind: ItemKind, floor: Timestamp) -> Self {
        Self {
            kind,
            floor,
            pending: None,
            head: None,
            handled: None,
            presence: PresenceChange::Keep,
        }
    }

    /// An item of which something remains to be read.
    #[must_use]
    pub fn pending(kind: ItemKind, floor: Timestamp) -> Self {
        Self {
            pending: Some(true),
            ..Self::of(kind, floor)
        }
    }

    /// An item of which everything was read.
    #[must_use]
    pub fn read(kind: ItemKind, floor: Timestamp) -> Self {
        Self {
            pending: Some(false),
            ..Self::of(kind, floor)
        }
    }
}

/// What changed about an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemChange {
    /// It is worth knowing.
    Seen(ItemSeen),
    /// There is nothing left to know of it; only a presence that is still outstanding is kept.
    Gone,
}

/// All items of a kind that a complete listing found: the known ones that are missing from it have
/// to be read again.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// What was listed.
    pub kind: ItemKind,
    /// When the listing began; what was seen since is not missing.
    pub began: Timestamp,
    /// The keys of what was found.
    pub found: BTreeSet<String>,
}

/// Moves the ledger on. Sent by a poller after everything that it skips from now on is stored.
#[derive(Debug, Clone, Default)]
pub struct SavePoll {
    /// The repository or project.
    pub source: String,
    /// Lists to write, by name.
    pub lists: PollLists,
    /// Names of lists that are over.
    pub over: Vec<String>,
    /// Items to write, in order.
    pub items: Vec<(WorkItemRef, ItemChange)>,
    /// Complete listings.
    pub sweeps: Vec<Sweep>,
    /// Head commits to remember.
    pub learns: Vec<LearnedCommit>,
    /// What becomes known with it.
    pub records: Vec<GatewayEvent>,
}

impl SavePoll {
    /// A change of nothing yet.
    #[must_use]
    pub fn of(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            ..Self::default()
        }
    }

    /// True when there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
            && self.over.is_empty()
            && self.items.is_empty()
            && self.sweeps.is_empty()
            && self.learns.is_empty()
            && self.records.is_empty()
    }
}

impl Write for SavePoll {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let source = self.source.as_str();
        for (name, list) in &self.lists {
            save_list(tx, source, name, list)?;
        }
        for name in &self.over {
            tx.execute(
                "DELETE FROM poll_lists WHERE source = ?1 AND list = ?2",
                params![source, name],
                "end a poll list",
            )?;
        }
        for (work_item, change) in &self.items {
            match change {
                ItemChange::Seen(seen) => save_item(tx, source, work_item, seen)?,
                ItemChange::Gone => presence::forget_item(tx, source, &work_item.key())?,
            }
        }
        for sweep in &self.sweeps {
            mark_missing(tx, source, sweep)?;
        }
        registrations::learn(tx, &self.learns)?;
        tx.effects.events.extend(self.records);
        Ok(())
    }
}

fn save_list(tx: &Tx<'_>, source: &str, name: &str, list: &PollList) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO poll_lists
             (source, list, watermark_ms, baseline_ms, url, etag, handled, note, saved_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (source, list) DO UPDATE SET
             watermark_ms = excluded.watermark_ms, baseline_ms = excluded.baseline_ms,
             url = excluded.url, etag = excluded.etag, handled = excluded.handled,
             note = excluded.note, saved_at_ms = excluded.saved_at_ms",
        params![
            source,
            name,
            list.watermark.0,
            list.baseline.0,
            list.url,
            list.etag,
            joined(&list.handled),
            list.note,
            tx.now.0
        ],
        "save a poll list",
    )?;
    Ok(())
}

fn save_item(
    tx: &Tx<'_>,
    source: &str,
    work_item: &WorkItemRef,
    seen: &ItemSeen,
) -> Result<(), StoreError> {
    let key = work_item.key();
    tx.execute(
        "INSERT INTO poll_items
             (source, work_item_key, work_item, subject_key, kind, floor_ms, seen_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (source, work_item_key) DO UPDATE SET
             work_item = excluded.work_item, kind = excluded.kind,
             floor_ms = CASE forgotten WHEN 1 THEN excluded.floor_ms ELSE floor_ms END,
             forgotten = 0, seen_at_ms = excluded.seen_at_ms",
        params![
            source,
            key,
            work_item.to_string(),
            work_item.subject().key(),
            seen.kind.as_str(),
            seen.floor.0,
            tx.now.0
        ],
        "save a polled item",
    )?;
    tx.execute(
        "UPDATE poll_items SET pending = coalesce(?3, pending), head = coalesce(?4, head),
             handled = coalesce(?5, handled)
         WHERE source = ?1 AND work_item_key = ?2",
        params![
            source,
            key,
            seen.pending,
            seen.head,
            seen.handled.as_ref().map(joined)
        ],
        "save a polled item",
    )?;
    presence::change(tx, source, &key, &seen.presence)
}

/// Marks what a complete listing did not find, so that it is read on its own.
fn mark_missing(tx: &Tx<'_>, source: &str, sweep: &Sweep) -> Result<(), StoreError> {
    let known = tx.all(
        "SELECT work_item_key FROM poll_items
         WHERE source = ?1 AND kind = ?2 AND pending = 0 AND forgotten = 0 AND seen_at_ms < ?3
             AND (kind = 'pull-request' OR version <> '')",
        params![source, sweep.kind.as_str(), sweep.began.0],
        |row| row.get::<_, String>(0),
        "look for missing items",
    )?;
    for key in known.iter().filter(|key| !sweep.found.contains(*key)) {
        tx.execute(
            "UPDATE poll_items SET pending = 1 WHERE source = ?1 AND work_item_key = ?2",
            params![source, key],
            "mark a missing item",
        )?;
    }
    Ok(())
}

/// Reads what is known of some items, and which ones remain to be read. Sent by a poller.
#[derive(Debug, Clone)]
pub struct FindItems {
    /// The repository or project.
    pub source: String,
    /// The keys of items that the poller asks about.
    pub keys: BTreeSet<String>,
}

/// What is known of an item.
#[derive(Debug, Clone)]
pub struct KnownItem {
    /// The item.
    pub work_item: WorkItemRef,
    /// What it is.
    pub kind: ItemKind,
    /// True when something of it remains to be read.
    pub pending: bool,
    /// What was said of it before is history.
    pub floor: Timestamp,
    /// What was told of it.
    pub handled: BTreeSet<String>,
}

impl Write for FindItems {
    type Reply = BTreeMap<String, KnownItem>;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Self::Reply, StoreError> {
        let mut rows = tx.all(
            "SELECT work_item_key, work_item, kind, pending, floor_ms, handled FROM poll_items
             WHERE source = ?1 AND pending = 1 ORDER BY work_item_key LIMIT ?2",
            params![self.source, PENDING_MAX],
            read_item,
            "read pending items",
        )?;
        for key in &self.keys {
            rows.extend(tx.first(
                "SELECT work_item_key, work_item, kind, pending, floor_ms, handled
                 FROM poll_items
                 WHERE source = ?1 AND work_item_key = ?2 AND forgotten = 0",
                params![self.source, key],
                read_item,
                "read a polled item",
            )?);
        }
        rows.into_iter().map(known).collect()
    }
}

type ItemRow = (String, String, String, bool, i64, String);

fn read_item(row: &Row<'_>) -> rusqlite::Result<ItemRow> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
    ))
}

fn known(row: ItemRow) -> Result<(String, KnownItem), StoreError> {
    let (key, work_item, kind, pending, floor, handled) = row;
    let item = KnownItem {
        work_item: routing::parse_stored(&work_item)?,
        kind: ItemKind::from_word(&kind)?,
        pending,
        floor: Timestamp(floor),
        handled: lines(&handled),
    };
    Ok((key, item))
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

fn joined(entries: &BTreeSet<String>) -> String {
    entries
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("\n")
}
