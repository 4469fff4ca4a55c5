//! Jira bodies read into arrivals: webhooks of Cloud and Data Center, and what a poller shapes
//! like them.
//!
//! Invariant: only issues of the declared site become work items; a body of any other site is
//! dropped. Must not judge an event: a change that nobody waits for is stored like any other.

mod body;
#[cfg(test)]
mod corpus;
mod dedup;
mod issue;
mod moment;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::body::Body;
use self::issue::{Issue, issue_of};
use super::{
    Declared, Headers, Rejection, Verdict, Verified, clipped, digest, headers, known, lenient,
};
use crate::domain::{
    Arrival, DedupKey, DropReason, OnUnresolved, Payload, Provider, Reference, Source, Timestamp,
};

const IDENTIFIER: &str = "x-atlassian-webhook-identifier";
const RETRY: &str = "x-atlassian-webhook-retry";
const STORED_HEADERS: [&str; 4] = [
    "content-type",
    "x-atlassian-webhook-flow",
    IDENTIFIER,
    RETRY,
];

/// What a poller found; its payload is shaped like a webhook's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// A comment; `webhookEvent` is `comment_created`.
    Comment,
    /// An issue that is closed.
    Closure,
    /// An open issue that carries the labels. It has no dedup key, because it may come again.
    Presence,
}

/// Reads the body of a webhook.
///
/// # Errors
/// When it is not a JSON object in UTF-8.
pub fn parse(
    headers: &dyn Headers,
    body: Verified<&[u8]>,
    declared: &Declared,
    received_at: Timestamp,
) -> Result<Verdict, Rejection> {
    let bytes = body.into_body();
    let text = lenient::text_of(bytes)?;
    let body = Body::read(text)?;
    let identifier = headers.text(IDENTIFIER).map(clipped);
    let identifier = identifier.as_deref().filter(|id| !id.is_empty());
    let issue = match issue_of(&body, body.site().as_deref(), declared) {
        Ok(issue) => issue,
        Err(foreign) => {
            let dropped = foreign.dropped(&body, identifier.unwrap_or_default());
            return Ok(Verdict::Drop(dropped));
        }
    };
    let delivery = Delivery {
        source: Source::Webhook,
        id: identifier.map_or_else(|| digest::fallback_delivery_id(bytes), str::to_owned),
        headers: headers::stored(headers, &STORED_HEADERS),
        dedup_keys: dedup::of_webhook(&body, &issue.site, identifier, text),
        is_retry: headers.bytes(RETRY).is_some(),
        received_at,
    };
    arrival(&body, text, issue, delivery)
}

/// Reads what a poller found on the declared site.
///
/// # Errors
/// When it is not a JSON object in UTF-8.
pub fn polled(
    item: Polled,
    body: Verified<&[u8]>,
    delivery_id: String,
    declared: &Declared,
    received_at: Timestamp,
) -> Result<Verdict, Rejection> {
    let text = lenient::text_of(body.into_body())?;
    let body = Body::read(text)?;
    let issue = match issue_of(&body, declared.jira_site.as_deref(), declared) {
        Ok(issue) => issue,
        Err(foreign) => return Ok(Verdict::Drop(foreign.dropped(&body, &delivery_id))),
    };
    let dedup_keys = match item {
        Polled::Comment => dedup::of_polled_comment(&body, &issue.site, text),
        Polled::Closure => dedup::of_polled_closure(&body, &issue.site, text),
        Polled::Presence => Vec::new(),
    };
    let delivery = Delivery {
        source: Source::Poll,
        id: delivery_id,
        headers: BTreeMap::new(),
        dedup_keys,
        is_retry: false,
        received_at,
    };
    arrival(&body, text, issue, delivery)
}

/// How a body reached the gateway.
struct Delivery {
    source: Source,
    id: String,
    headers: BTreeMap<String, String>,
    dedup_keys: Vec<DedupKey>,
    is_retry: bool,
    received_at: Timestamp,
}

fn arrival(
    body: &Body<'_>,
    text: &str,
    issue: Issue,
    delivery: Delivery,
) -> Result<Verdict, Rejection> {
    let (key, drop) = if issue.is_declared {
        (Reference::Direct(issue.reference), DropReason::NoWorkItem)
    } else {
        let bound = Reference::Bound {
            provider: Provider::Jira,
            key: issue.reference.key(),
        };
        (bound, DropReason::UndeclaredProject)
    };
    Ok(Verdict::Append(Box::new(Arrival {
        provider: Provider::Jira,
        source: delivery.source,
        delivery_id: delivery.id,
        kind: known(&body.kind()),
        received_at: delivery.received_at,
        happened_at: body.happened().map(Timestamp),
        headers: delivery.headers,
        payload: Payload::compress(text.as_bytes())
            .ok()
            .ok_or(Rejection::Exhausted)?,
        actor: body.actor(),
        keys: vec![key],
        also: Vec::new(),
        learns: Vec::new(),
        dedup_keys: digest::bounded(delivery.dedup_keys),
        on_unresolved: OnUnresolved::Drop(drop),
        is_retry: delivery.is_retry,
    })))
}
