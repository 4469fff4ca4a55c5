//! Frames of Socket Mode.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::body::{Body, json_text};
use super::recognise::Shape;
use super::{Delivery, RETRY_NUM, RETRY_REASON, SlackVerdict};
use crate::domain::{DropReason, Source, Timestamp};
use crate::providers::lenient::{self, Node, Want};
use crate::providers::{Declared, Rejection, Verified};

static FRAME: Want = Want::Object(&[
    ("type", Want::Leaf),
    ("envelope_id", Want::Leaf),
    ("payload", Want::Leaf),
    ("retry_attempt", Want::Leaf),
    ("retry_reason", Want::Leaf),
    ("reason", Want::Leaf),
    ("num_connections", Want::Leaf),
    ("connection_info", Want::Object(&[("app_id", Want::Leaf)])),
    (
        "debug_info",
        Want::Object(&[("approximate_connection_time", Want::Leaf)]),
    ),
]);

/// What a text frame is.
#[derive(Debug)]
pub enum Frame {
    /// The connection is up.
    Hello {
        /// How many connections the app has, ghosts included.
        num_connections: Option<u64>,
        /// The app that the connection belongs to.
        app_id: Option<String>,
        /// Seconds until Slack will ask for a new connection.
        approximate_connection_time: Option<u64>,
    },
    /// Slack closes the connection, or is about to.
    Disconnect {
        /// Why; empty when it does not say.
        reason: String,
    },
    /// Something to decide and then to ack.
    Envelope(Box<Envelope>),
    /// Nothing to do: no JSON object, or one of no known kind that cannot be acked.
    Ignored,
}

/// What Slack sends to be acked.
#[derive(Debug)]
pub struct Envelope {
    /// The handle of the ack; a retry has a new one.
    pub envelope_id: String,
    /// `events_api`, `interactive`, `slash_commands` or what Slack invents; empty when absent.
    pub kind: String,
    /// What to do with the payload.
    pub verdict: SlackVerdict,
    /// Which retry it is; 0 for the first attempt.
    pub retry_attempt: Option<u64>,
    /// Why it is a retry.
    pub retry_reason: Option<String>,
}

impl Envelope {
    /// The text of the ack, to be sent once the verdict is carried out.
    #[must_use]
    pub fn ack(&self) -> String {
        let id = json_text(&self.envelope_id);
        match self.verdict {
            SlackVerdict::Options => {
                format!("{{\"envelope_id\":{id},\"payload\":{{\"options\":[]}}}}")
            }
            SlackVerdict::Append(_)
            | SlackVerdict::Drop(_)
            | SlackVerdict::Challenge(_)
            | SlackVerdict::SslCheck
            | SlackVerdict::Heartbeat { .. } => format!("{{\"envelope_id\":{id}}}"),
        }
    }
}

/// Reads a text frame. An envelope whose payload is no good is still an envelope: unacked, it
/// would only come again.
#[must_use]
pub fn read_frame(frame: Verified<&str>, declared: &Declared, received_at: Timestamp) -> Frame {
    let text = frame.into_body();
    let Ok(node) = lenient::read(text, &FRAME) else {
        return Frame::Ignored;
    };
    let kind = node.text("type").unwrap_or_default();
    match &*kind {
        "hello" => Frame::Hello {
            num_connections: node.number("num_connections"),
            app_id: node
                .at("connection_info")
                .text("app_id")
                .map(Cow::into_owned),
            approximate_connection_time: node
                .at("debug_info")
                .number("approximate_connection_time"),
        },
        "disconnect" => Frame::Disconnect {
            reason: node.text("reason").unwrap_or_default().into_owned(),
        },
        _ => match node.text("envelope_id") {
            Some(id) => Frame::Envelope(Box::new(Envelope {
                envelope_id: id.into_owned(),
                verdict: verdict(&node, &kind, declared, received_at),
                kind: kind.into_owned(),
                retry_attempt: node.number("retry_attempt"),
                retry_reason: node.text("retry_reason").map(Cow::into_owned),
            })),
            None => Frame::Ignored,
        },
    }
}

fn verdict(
    node: &Node<'_>,
    kind: &str,
    declared: &Declared,
    received_at: Timestamp,
) -> SlackVerdict {
    let shape = match kind {
        "events_api" => Shape::Event,
        "interactive" => Shape::Interaction,
        "slash_commands" => Shape::Command,
        _ => return super::dropped(DropReason::NoWorkItem, kind, ""),
    };
    let text = node.raw("payload").unwrap_or_default();
    let attempt = node.number("retry_attempt").filter(|attempt| *attempt > 0);
    let delivery = Delivery {
        source: Source::Socket,
        id: None,
        raw: text.as_bytes(),
        headers: retry_headers(attempt, node.text("retry_reason")),
        is_retry: attempt.is_some(),
        declared,
        received_at,
    };
    Body::read(text)
        .map_err(Rejection::from)
        .and_then(|body| super::judge(&body, shape, delivery))
        .unwrap_or_else(|_| super::dropped(DropReason::InvalidPayload, kind, ""))
}

/// What a retry over HTTP says in its headers; a first attempt has none.
fn retry_headers(attempt: Option<u64>, reason: Option<Cow<'_, str>>) -> BTreeMap<String, String> {
    let Some(attempt) = attempt else {
        return BTreeMap::new();
    };
    let num = (RETRY_NUM.to_owned(), attempt.to_string());
    let reason = reason.map(|reason| (RETRY_REASON.to_owned(), reason.into_owned()));
    [num].into_iter().chain(reason).collect()
}
