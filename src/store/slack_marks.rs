//! How far each Slack conversation was read, and which ones are worth reading.
//!
//! A mark says up to which message a catch-up has read; live messages never move it, because a
//! message before a live one can be exactly what another listener took. Live messages only say
//! that a conversation is active: that orders the reading, and tells the channel of a thread that
//! is bound by its time stamp alone.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use super::error::StoreError;
use super::writer::{Tx, Write};
use crate::domain::{Millis, Timestamp};

/// Bindings, rooms and marks looked at to find the most active conversations.
const CANDIDATES_MAX: i64 = 1_000;
/// Conversations read in one round, at most.
pub const SLACK_READINGS_MAX: usize = 200;
/// How far before its first sign of life a conversation is read that nothing else dates.
const LOOK_BACK_MS: Millis = 3_600_000;
/// A mark goes this long after the last activity; as long as a binding is kept unused.
const MARK_KEPT_MS: Millis = 180 * 24 * 3_600_000;
/// Old marks that one write forgets.
const FORGOTTEN_MAX: i64 = 100;

/// A channel, or a thread in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlackConversation {
    /// The channel's id.
    pub channel: String,
    /// The time stamp of the thread's first message; `None`: the channel itself.
    pub thread_ts: Option<String>,
}

impl SlackConversation {
    /// The thread as stored: an empty text for the channel itself.
    fn thread_column(&self) -> &str {
        self.thread_ts.as_deref().unwrap_or_default()
    }

    fn from_columns(channel: String, thread_ts: String) -> Self {
        Self {
            channel,
            thread_ts: (!thread_ts.is_empty()).then_some(thread_ts),
        }
    }
}

/// A conversation to read, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackReading {
    /// What to read.
    pub conversation: SlackConversation,
    /// Only messages after this time stamp.
    pub after: String,
    /// True when no catch-up has read it yet, so its mark is to be set even if nothing is found.
    pub is_first: bool,
}

/// Notes that there were live messages in these conversations.
#[derive(Debug, Clone)]
pub struct NoteSlackActivity {
    /// The conversations.
    pub conversations: BTreeSet<SlackConversation>,
}

/// Notes up to which message a conversation was read; never goes back.
#[derive(Debug, Clone)]
pub struct NoteSlackMark {
    /// The conversation.
    pub conversation: SlackConversation,
    /// The time stamp of the last message that was read.
    pub last_ts: String,
}

/// Asks which conversations a catch-up should read: bound threads, rooms and the threads that
/// were active in them; the most active ones first, at most [`SLACK_READINGS_MAX`].
#[derive(Debug, Clone)]
pub struct ListSlackReadings {
    /// The channels that the configuration declares as rooms.
    pub declared_rooms: BTreeSet<String>,
}

/// Asks which of these events are not in the store: those that none of their keys is seen of.
#[derive(Debug, Clone)]
pub struct FindUnseen {
    /// The keys of each event.
    pub events: Vec<Vec<String>>,
}

impl Write for NoteSlackActivity {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        for conversation in &self.conversations {
            tx.execute(
                "INSERT INTO slack_marks (channel, thread_ts, last_ts, active_at_ms)
                 VALUES (?1, ?2, '', ?3)
                 ON CONFLICT (channel, thread_ts) DO UPDATE
                     SET active_at_ms = MAX(active_at_ms, excluded.active_at_ms)",
                params![conversation.channel, conversation.thread_column(), tx.now.0],
                "note the activity of a conversation",
            )?;
        }
        tx.execute(
            "DELETE FROM slack_marks WHERE (channel, thread_ts) IN
                 (SELECT channel, thread_ts FROM slack_marks WHERE active_at_ms < ?1 LIMIT ?2)",
            params![before(tx.now, MARK_KEPT_MS).0, FORGOTTEN_MAX],
            "forget old marks",
        )?;
        Ok(())
    }
}

impl Write for NoteSlackMark {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let at = Timestamp::from_slack(&self.last_ts).unwrap_or(tx.now);
        tx.execute(
            "INSERT INTO slack_marks (channel, thread_ts, last_ts, active_at_ms)
             VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (channel, thread_ts) DO UPDATE
                 SET last_ts = MAX(last_ts, excluded.last_ts),
                     active_at_ms = MAX(active_at_ms, excluded.active_at_ms)",
            params![
                self.conversation.channel,
                self.conversation.thread_column(),
                self.last_ts,
                at.0
            ],
            "note how far a conversation was read",
        )?;
        Ok(())
    }
}

impl Write for FindUnseen {
    type Reply = Vec<bool>;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Vec<bool>, StoreError> {
        let is_unseen = |keys: Vec<String>| {
            for key in keys {
                let seen = tx.first(
                    "SELECT 1 FROM seen_keys WHERE key = ?1",
                    params![key],
                    |_| Ok(()),
                    "look for a seen key",
                )?;
                if seen.is_some() {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        self.events.into_iter().map(is_unseen).collect()
    }
}

impl Write for ListSlackReadings {
    type Reply = Vec<SlackReading>;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Vec<SlackReading>, StoreError> {
        let candidates = find_candidates(tx, &self.declared_rooms)?;
        let mut chosen: Vec<_> = candidates.into_iter().collect();
        chosen.sort_by_key(|(_, candidate)| std::cmp::Reverse(candidate.active_ms));
        chosen.truncate(SLACK_READINGS_MAX);
        chosen
            .into_iter()
            .map(|(conversation, candidate)| reading(tx, conversation, candidate))
            .collect()
    }
}

/// What is known of a conversation before its mark is looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Candidate {
    /// When it was bound or published; 0: not dated.
    since_ms: Millis,
    /// When something last happened in it.
    active_ms: Millis,
}

type Candidates = BTreeMap<SlackConversation, Candidate>;

fn find_candidates(
    tx: &Tx<'_>,
    declared_rooms: &BTreeSet<String>,
) -> Result<Candidates, StoreError> {
    let mut found = Candidates::new();
    for channel in declared_rooms {
        found.insert(room(channel), Candidate::default());
    }
    for (channel, published_ms, used_ms) in published_rooms(tx)? {
        let candidate = Candidate {
            since_ms: published_ms,
            active_ms: published_ms.max(used_ms),
        };
        found.insert(room(&channel), candidate);
    }
    let mut bound_by_ts_alone = BTreeMap::new();
    for (key, bound_ms, used_ms) in bindings(tx)? {
        let candidate = Candidate {
            since_ms: bound_ms,
            active_ms: bound_ms.max(used_ms),
        };
        match key.rsplit('/').collect::<Vec<_>>().as_slice() {
            [ts] => {
                bound_by_ts_alone.insert((*ts).to_owned(), candidate);
            }
            [ts, channel] | [ts, channel, _] => {
                let conversation = SlackConversation {
                    channel: (*channel).to_owned(),
                    thread_ts: Some((*ts).to_owned()),
                };
                found.insert(conversation, candidate);
            }
            _ => {}
        }
    }
    for (conversation, active_ms) in active(tx)? {
        let thread = conversation.thread_ts.as_deref().unwrap_or_default();
        let known = found
            .get(&conversation)
            .or_else(|| bound_by_ts_alone.get(thread))
            .copied();
        let in_room = || found.contains_key(&room(&conversation.channel));
        if let Some(mut candidate) = known.or_else(|| in_room().then(Candidate::default)) {
            candidate.active_ms = candidate.active_ms.max(active_ms);
            found.insert(conversation, candidate);
        }
    }
    Ok(found)
}

fn room(channel: &str) -> SlackConversation {
    SlackConversation {
        channel: channel.to_owned(),
        thread_ts: None,
    }
}

fn bindings(tx: &Tx<'_>) -> Result<Vec<(String, Millis, Millis)>, StoreError> {
    tx.all(
        "SELECT key, bound_at_ms, used_at_ms FROM bindings WHERE provider = 'slack'
         ORDER BY used_at_ms DESC LIMIT ?1",
        params![CANDIDATES_MAX],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        "read the bound threads",
    )
}

fn published_rooms(tx: &Tx<'_>) -> Result<Vec<(String, Millis, Millis)>, StoreError> {
    tx.all(
        "SELECT channel, published_at_ms, used_at_ms FROM rooms
         ORDER BY used_at_ms DESC LIMIT ?1",
        params![CANDIDATES_MAX],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        "read the rooms",
    )
}

fn active(tx: &Tx<'_>) -> Result<Vec<(SlackConversation, Millis)>, StoreError> {
    tx.all(
        "SELECT channel, thread_ts, active_at_ms FROM slack_marks
         ORDER BY active_at_ms DESC LIMIT ?1",
        params![CANDIDATES_MAX],
        |row| {
            let conversation = SlackConversation::from_columns(row.get(0)?, row.get(1)?);
            Ok((conversation, row.get(2)?))
        },
        "read the active conversations",
    )
}

/// Goes on at the mark; without one, starts when the conversation became ours, a little earlier
/// because a reply can beat the binding; without a date, shortly before its first sign of life.
fn reading(
    tx: &Tx<'_>,
    conversation: SlackConversation,
    candidate: Candidate,
) -> Result<SlackReading, StoreError> {
    let mark = tx.first(
        "SELECT last_ts, active_at_ms FROM slack_marks WHERE channel = ?1 AND thread_ts = ?2",
        params![conversation.channel, conversation.thread_column()],
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, Millis>(1)?)),
        "read a mark",
    )?;
    let (last_ts, active_ms) = mark.unwrap_or_default();
    let start = match (candidate.since_ms, active_ms) {
        (0, 0) => tx.now,
        (0, active_ms) => before(Timestamp(active_ms), LOOK_BACK_MS),
        (since_ms, _) => before(Timestamp(since_ms), tx.settings.grace_ms),
    };
    let is_first = last_ts.is_empty();
    let thread_ts = conversation.thread_column().to_owned();
    let after = if is_first {
        start.to_slack().max(thread_ts)
    } else {
        last_ts
    };
    // What is older than this would be expired at once.
    let oldest = before(tx.now, tx.settings.retention_ms).to_slack();
    Ok(SlackReading {
        conversation,
        after: after.max(oldest),
        is_first,
    })
}

fn before(at: Timestamp, span: Millis) -> Timestamp {
    Timestamp(at.0.saturating_sub(span))
}

#[cfg(test)]
#[path = "slack_marks_tests.rs"]
mod tests;
