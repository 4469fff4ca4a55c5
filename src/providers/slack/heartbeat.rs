//! The heartbeats by which an instance finds out whether its messages come back.

use super::SlackVerdict;
use crate::providers::lenient::Node;

const HEAD: &str = "the-loop doctor heartbeat ";

/// The heartbeat that an event is: a message of a bot with exactly this text. The same text from
/// a human is an ordinary message.
pub(super) fn in_event(event: &Node<'_>) -> Option<SlackVerdict> {
    let is_message = event.text("type").is_some_and(|kind| kind == "message");
    let is_by_bot = event.text("bot_id").is_some()
        || event
            .text("subtype")
            .is_some_and(|subtype| subtype == "bot_message");
    if !is_message || !is_by_bot {
        return None;
    }
    let text = event.text("text")?;
    let nonce = text.strip_prefix(HEAD).filter(|nonce| is_nonce(nonce))?;
    Some(SlackVerdict::Heartbeat {
        channel: event.name("channel").unwrap_or_default().into_owned(),
        ts: event.name("ts").unwrap_or_default().into_owned(),
        nonce: nonce.to_owned(),
    })
}

fn is_nonce(text: &str) -> bool {
    (8..=32).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
