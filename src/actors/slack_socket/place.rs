//! Which message an arrival is, and in which conversation.

use crate::domain::{Arrival, DedupKind, Provider, Reference};
use crate::store::SlackConversation;

/// What an arrival about a new message says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The key that socket, HTTP and catch-up share.
    pub(super) key: String,
    /// The thread that it belongs to, or its channel.
    pub(super) conversation: SlackConversation,
    /// Its time stamp.
    pub(super) ts: String,
}

/// The message of an arrival; `None`: it is about something else.
///
/// Read from the keys that the adapter made of it: its own, `slack:<team>:msg:<channel>:<ts>`, and
/// that of its thread, `<channel>/<thread>`.
pub(super) fn message_of(arrival: &Arrival) -> Option<Message> {
    let (key, channel, ts) = arrival.dedup_keys.iter().find_map(|key| {
        let mut parts = key.text.rsplitn(4, ':');
        let (ts, channel, word) = (parts.next()?, parts.next()?, parts.next()?);
        let is_message = word == "msg" && key.kind == DedupKind::Object;
        is_message.then_some((&key.text, channel, ts))
    })?;
    let thread = arrival.keys.iter().find_map(|reference| match reference {
        Reference::Bound {
            provider: Provider::Slack,
            key,
        } => key.strip_prefix(channel)?.strip_prefix('/'),
        Reference::Bound { .. }
        | Reference::Direct(_)
        | Reference::Commit { .. }
        | Reference::Room { .. }
        | Reference::DeclaredRoom(_) => None,
    });
    Some(Message {
        key: key.clone(),
        conversation: SlackConversation {
            channel: channel.to_owned(),
            thread_ts: thread.filter(|thread| *thread != ts).map(str::to_owned),
        },
        ts: ts.to_owned(),
    })
}
