//! Slack payloads read into arrivals: events, interactions and commands, over HTTP, in envelopes
//! of Socket Mode, and messages that a catch-up finds.
//!
//! Invariant: what a payload becomes depends on the payload alone, never on its transport, so
//! that one event is one event whichever way it comes. Must not answer, only say what to answer.

mod body;
mod catch_up;
mod commands;
#[cfg(test)]
mod corpus;
mod dedup;
mod events;
mod heartbeat;
mod interactions;
mod place;
mod recognise;
mod socket;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use catch_up::{Found, caught_up};
pub use recognise::is_ssl_check;
pub use socket::{Envelope, Frame, read_frame};

use self::body::Body;
use self::recognise::Shape;
use super::{
    Declared, Dropped, Headers, Rejection, Verified, clipped, digest, form, headers, known,
};
use crate::domain::{
    Arrival, DedupKey, DropReason, EventActor, OnUnresolved, Payload, Provider, Reference, Source,
    Timestamp,
};

const RETRY_NUM: &str = "x-slack-retry-num";
const RETRY_REASON: &str = "x-slack-retry-reason";
const STORED_HEADERS: [&str; 4] = [
    "content-type",
    "x-slack-request-timestamp",
    RETRY_NUM,
    RETRY_REASON,
];

/// What to do with a Slack payload. Over HTTP all of it is answered 200, without a body but
/// where one is named here; an envelope is acked alike.
#[derive(Debug)]
pub enum SlackVerdict {
    /// Append it.
    Append(Box<Arrival>),
    /// Record why it is not stored.
    Drop(Dropped),
    /// Answer with this text: Slack tests the URL.
    Challenge(String),
    /// Answer with `{"options": []}`: Slack asks for suggestions.
    Options,
    /// Nothing but the answer: Slack tests the certificate.
    SslCheck,
    /// Record it as a heartbeat; never stored.
    Heartbeat {
        /// The channel that it was posted to; empty when it names none.
        channel: String,
        /// The message's `ts`; empty when it has none.
        ts: String,
        /// What tells it from other heartbeats.
        nonce: String,
    },
}

/// Reads the body of a request to any of the Slack routes.
///
/// # Errors
/// When it is no JSON object in UTF-8, nor a form that holds one or a command; or when what a
/// form holds is larger than the limit for JSON.
pub fn parse(
    headers: &dyn Headers,
    body: Verified<&[u8]>,
    declared: &Declared,
    received_at: Timestamp,
) -> Result<SlackVerdict, Rejection> {
    let bytes = body.into_body();
    let content_type = headers.text("content-type");
    if is_ssl_check(content_type, bytes) {
        return Ok(SlackVerdict::SslCheck);
    }
    let text = recognise::payload_in(content_type, bytes)?;
    let body = Body::read(&text)?;
    let shape = recognise::shape_of(&body, form::is_form(content_type, bytes));
    let delivery = Delivery {
        source: Source::Webhook,
        id: None,
        raw: bytes,
        headers: headers::stored(headers, &STORED_HEADERS),
        is_retry: headers.bytes(RETRY_NUM).is_some(),
        declared,
        received_at,
    };
    judge(&body, shape, delivery)
}

/// How a payload reached the gateway.
#[derive(Debug)]
struct Delivery<'a> {
    source: Source,
    /// The id, where the transport gives one.
    id: Option<String>,
    /// What was sent, for an id where there is none.
    raw: &'a [u8],
    headers: BTreeMap<String, String>,
    is_retry: bool,
    declared: &'a Declared,
    received_at: Timestamp,
}

/// What is read of a payload.
#[derive(Debug)]
struct Facts {
    kind: String,
    /// The provider's id, where the payload holds one.
    id: Option<String>,
    actor: Option<EventActor>,
    keys: Vec<Reference>,
    dedup_keys: Vec<DedupKey>,
    on_unresolved: OnUnresolved,
}

fn judge(body: &Body<'_>, shape: Shape, delivery: Delivery<'_>) -> Result<SlackVerdict, Rejection> {
    match shape {
        Shape::Event => events::judge(body, delivery),
        Shape::Interaction => interactions::judge(body, delivery),
        Shape::Command => commands::judge(body, delivery),
        Shape::Challenge => {
            let challenge = body
                .node
                .text("challenge")
                .ok_or(Rejection::InvalidPayload)?;
            Ok(SlackVerdict::Challenge(challenge.into_owned()))
        }
    }
}

/// Appends what somebody did somewhere; what nobody did nowhere can reach no one.
fn append_for_somebody(
    body: &Body<'_>,
    facts: Facts,
    delivery: Delivery<'_>,
) -> Result<SlackVerdict, Rejection> {
    if facts.keys.is_empty() && facts.actor.is_none() {
        let id = facts.id.unwrap_or_default();
        return Ok(dropped(DropReason::Unbound, &facts.kind, &id));
    }
    append(body, facts, delivery)
}

fn append(
    body: &Body<'_>,
    facts: Facts,
    delivery: Delivery<'_>,
) -> Result<SlackVerdict, Rejection> {
    let payload = Payload::compress(body.text.as_bytes());
    let id = delivery.id.or(facts.id).map(|id| clipped(&id));
    let id = id.filter(|id| !id.is_empty());
    Ok(SlackVerdict::Append(Box::new(Arrival {
        provider: Provider::Slack,
        source: delivery.source,
        delivery_id: id.unwrap_or_else(|| digest::fallback_delivery_id(delivery.raw)),
        kind: known(&facts.kind),
        received_at: delivery.received_at,
        happened_at: body.happened_at(),
        headers: delivery.headers,
        payload: payload.ok().ok_or(Rejection::Exhausted)?,
        actor: facts.actor,
        keys: facts.keys,
        also: Vec::new(),
        learns: Vec::new(),
        dedup_keys: digest::bounded(facts.dedup_keys),
        on_unresolved: facts.on_unresolved,
        is_retry: delivery.is_retry,
    })))
}

fn dropped(reason: DropReason, kind: &str, delivery_id: &str) -> SlackVerdict {
    SlackVerdict::Drop(Dropped {
        reason,
        kind: clipped(kind),
        delivery_id: clipped(delivery_id),
        about: String::new(),
        moved: None,
    })
}
