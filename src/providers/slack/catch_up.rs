//! Messages that a catch-up finds in a channel's history, read as the events that they were.

use std::collections::BTreeMap;

use super::body::{Body, json_text};
use super::recognise::Shape;
use super::{Delivery, SlackVerdict};
use crate::domain::{Source, Timestamp};
use crate::providers::lenient::{self, Want};
use crate::providers::{Declared, Rejection, Verified};

static MESSAGE: Want = Want::Object(&[
    ("type", Want::Leaf),
    ("channel", Want::Leaf),
    ("ts", Want::Leaf),
    ("event_ts", Want::Leaf),
]);

/// A message of `conversations.history` or `conversations.replies`.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// The workspace of the bot's token.
    pub team: &'a str,
    /// The app, when it is known.
    pub app: Option<&'a str>,
    /// The channel that was read.
    pub channel: &'a str,
    /// The exact JSON of the message.
    pub message: Verified<&'a str>,
}

/// Reads a found message; its payload is shaped like the outer event that the Events API would
/// have sent, without an `event_id`.
///
/// # Errors
/// When it is not a JSON object with a `ts`.
pub fn caught_up(
    found: Found<'_>,
    declared: &Declared,
    received_at: Timestamp,
) -> Result<SlackVerdict, Rejection> {
    let (text, ts) = outer_event(found)?;
    let delivery = Delivery {
        source: Source::Poll,
        id: Some(format!("poll-slack-{}-{ts}", found.channel)),
        raw: text.as_bytes(),
        headers: BTreeMap::new(),
        is_retry: false,
        declared,
        received_at,
    };
    super::judge(&Body::read(&text)?, Shape::Event, delivery)
}

/// The outer event around a message, and the message's `ts`. The message stays as it is; what
/// an event has and a message of the history lacks comes before its own fields.
fn outer_event(found: Found<'_>) -> Result<(String, String), Rejection> {
    let message = found.message.into_body().trim();
    let node = lenient::read(message, &MESSAGE)?;
    let ts = node.text("ts").ok_or(Rejection::InvalidPayload)?;
    let own_fields = message.strip_prefix('{').ok_or(Rejection::InvalidPayload)?;
    let lacking: String = [
        ("type", "message"),
        ("channel", found.channel),
        ("event_ts", &ts),
    ]
    .into_iter()
    .filter(|(name, _)| !node.has(name))
    .map(|(name, value)| format!("\"{name}\":{},", json_text(value)))
    .collect();
    let app = found
        .app
        .map(|app| format!("\"api_app_id\":{},", json_text(app)));
    let text = format!(
        "{{\"team_id\":{},{}\"event\":{{{lacking}{own_fields},\"type\":\"event_callback\"}}",
        json_text(found.team),
        app.unwrap_or_default(),
    );
    Ok((text, ts.into_owned()))
}
