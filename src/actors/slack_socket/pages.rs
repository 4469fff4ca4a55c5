//! One conversation read to its end, oldest message first.

use std::collections::VecDeque;
use std::rc::Rc;

use super::api::{CallError, Page, SlackApi};
use super::core::Core;
use crate::providers::lenient::{self, Want};
use crate::store::SlackReading;

/// Messages asked for at a time, as Slack recommends.
const PAGE_MESSAGES: &str = "200";
/// Messages handed on at a time; bounds the memory that a long absence costs.
const BATCH_MAX: usize = 1_000;
/// Pages read of one conversation in one go; more than 7 days of a busy channel.
const PAGES_MAX: usize = 200;
/// Pauses obeyed for one request before the round gives up.
const PAUSES_MAX: usize = 5;

static TS: Want = Want::Object(&[("ts", Want::Leaf)]);

/// A message as Slack sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) ts: String,
    pub(super) text: String,
}

/// The oldest messages of what was asked for.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Oldest first.
    pub(super) messages: Vec<Message>,
    /// True when newer ones wait.
    pub(super) has_more: bool,
}

/// Reads pages with the bot's token.
pub(super) struct Reader {
    pub(super) core: Rc<Core>,
    pub(super) api: Rc<SlackApi>,
}

impl Reader {
    /// The oldest messages of a conversation after a time stamp.
    ///
    /// Threads come oldest first, channels newest first, so a channel is read to its end before
    /// its oldest messages are known.
    pub(super) async fn oldest(
        &self,
        reading: &SlackReading,
        after: &str,
    ) -> Result<Batch, CallError> {
        let is_thread = reading.conversation.thread_ts.is_some();
        let mut kept = VecDeque::new();
        let mut has_more = false;
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let page = self.page(reading, after, cursor.as_deref()).await?;
            let mut fresh = messages_of(page.messages, after);
            fresh.sort_by(|a, b| a.ts.cmp(&b.ts));
            if is_thread {
                kept.extend(fresh);
            } else {
                fresh
                    .into_iter()
                    .rev()
                    .for_each(|message| kept.push_front(message));
                has_more |= kept.len() > BATCH_MAX;
                kept.truncate(BATCH_MAX);
            }
            cursor = page.next_cursor;
            if cursor.is_none() || is_thread && kept.len() >= BATCH_MAX {
                break;
            }
        }
        Ok(Batch {
            messages: kept.into(),
            has_more: has_more || cursor.is_some(),
        })
    }

    async fn page(
        &self,
        reading: &SlackReading,
        after: &str,
        cursor: Option<&str>,
    ) -> Result<Page, CallError> {
        let mut arguments = vec![
            ("channel", reading.conversation.channel.as_str()),
            ("oldest", after),
            ("limit", PAGE_MESSAGES),
        ];
        let method = match reading.conversation.thread_ts.as_deref() {
            Some(thread) => {
                arguments.push(("ts", thread));
                "conversations.replies"
            }
            None => "conversations.history",
        };
        arguments.extend(cursor.map(|cursor| ("cursor", cursor)));
        for _ in 0..PAUSES_MAX {
            match self
                .api
                .page(method, &self.core.bot_token, &arguments)
                .await
            {
                Err(CallError::RateLimited(pause)) => tokio::time::sleep(pause).await,
                result => {
                    tokio::time::sleep(self.core.timing().catch_up_gap).await;
                    return result;
                }
            }
        }
        Err(CallError::RateLimited(
            self.core.timing().rate_limit_default,
        ))
    }
}

/// The messages after a time stamp; an answer about a thread repeats its first message always.
fn messages_of(texts: Vec<String>, after: &str) -> Vec<Message> {
    let with_ts = texts.into_iter().filter_map(|text| {
        let ts = lenient::read(&text, &TS).ok()?.text("ts")?.into_owned();
        Some(Message { ts, text })
    });
    with_ts
        .filter(|message| message.ts.as_str() > after)
        .collect()
}
