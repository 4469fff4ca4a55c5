//! What was said: channels, their messages and threads, and pages of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::envelope::USER;
use crate::domain::{Clock, SystemClock};

const MICROS_IN_A_SECOND: i64 = 1_000_000;
const MICROS_IN_A_MILLI: i64 = 1_000;

/// A message to be.
#[derive(Debug, Clone, Default)]
pub struct Post {
    /// The channel's id.
    pub channel: String,
    /// What it says.
    pub text: String,
    /// The first message of its thread; `None`: it is one itself.
    pub thread_ts: Option<String>,
    /// Its time stamp; `None`: now.
    pub ts: Option<String>,
    /// The user who says it; empty: somebody.
    pub user: String,
    /// The bot that says it, instead of a user.
    pub bot_id: Option<String>,
}

impl Post {
    /// A message of a thread.
    #[must_use]
    pub fn reply(channel: &str, thread_ts: &str, text: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            text: text.to_owned(),
            thread_ts: Some(thread_ts.to_owned()),
            ..Self::default()
        }
    }

    /// A message of a channel.
    #[must_use]
    pub fn top(channel: &str, text: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            text: text.to_owned(),
            ..Self::default()
        }
    }
}

/// A page of messages.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) messages: Vec<Value>,
    pub(super) next_cursor: Option<String>,
}

/// What part of a conversation is asked for.
#[derive(Debug)]
pub(super) struct Range<'a> {
    pub(super) oldest: &'a str,
    pub(super) limit: usize,
    pub(super) cursor: &'a str,
}

/// All channels: the messages of each by time stamp.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    channels: BTreeMap<String, BTreeMap<String, Value>>,
    last_micros: i64,
}

impl Conversations {
    /// Keeps a message; returns its time stamp and what it looks like.
    pub(super) fn post(&mut self, post: Post) -> (String, Value) {
        let ts = post.ts.unwrap_or_else(|| self.next_ts());
        let mut message = json!({"type": "message", "ts": ts, "text": post.text});
        if let Value::Object(fields) = &mut message {
            match post.bot_id {
                Some(bot) => fields.insert("bot_id".to_owned(), json!(bot)),
                None if post.user.is_empty() => fields.insert("user".to_owned(), json!(USER)),
                None => fields.insert("user".to_owned(), json!(post.user)),
            };
            if let Some(thread) = post.thread_ts {
                fields.insert("thread_ts".to_owned(), json!(thread));
            }
        }
        let channel = self.channels.entry(post.channel).or_default();
        channel.insert(ts.clone(), message.clone());
        (ts, message)
    }

    /// Time stamps are unique and grow.
    fn next_ts(&mut self) -> String {
        let now = SystemClock.now().0.saturating_mul(MICROS_IN_A_MILLI);
        self.last_micros = now.max(self.last_micros.saturating_add(1));
        let seconds = self.last_micros.div_euclid(MICROS_IN_A_SECOND);
        let micros = self.last_micros.rem_euclid(MICROS_IN_A_SECOND);
        format!("{seconds}.{micros:06}")
    }

    /// A thread, oldest first; its first message is there whatever is asked for.
    pub(super) fn replies(&self, channel: &str, thread: &str, range: &Range<'_>) -> Option<Page> {
        let channel = self.channels.get(channel)?;
        let in_thread = |ts: &str, message: &Value| {
            ts == thread || message["thread_ts"].as_str() == Some(thread) && ts > range.oldest
        };
        let messages: Vec<Value> = channel
            .iter()
            .filter(|(ts, message)| in_thread(ts, message))
            .map(|(_, message)| message.clone())
            .collect();
        (!messages.is_empty()).then(|| page(messages, range))
    }

    /// A channel without the replies in its threads, newest first.
    pub(super) fn history(&self, channel: &str, range: &Range<'_>) -> Option<Page> {
        let is_top = |ts: &str, message: &Value| {
            let thread = message["thread_ts"].as_str().unwrap_or(ts);
            thread == ts || message["subtype"].as_str() == Some("thread_broadcast")
        };
        let messages = self
            .channels
            .get(channel)?
            .iter()
            .rev()
            .filter(|(ts, message)| ts.as_str() > range.oldest && is_top(ts, message))
            .map(|(_, message)| message.clone())
            .collect();
        Some(page(messages, range))
    }
}

/// The part of a list that a cursor and a limit cut out; the cursor is the offset.
fn page(messages: Vec<Value>, range: &Range<'_>) -> Page {
    let start: usize = range.cursor.parse().unwrap_or_default();
    let end = start.saturating_add(range.limit);
    let next_cursor = (end < messages.len()).then(|| end.to_string());
    Page {
        messages: messages.into_iter().skip(start).take(range.limit).collect(),
        next_cursor,
    }
}
