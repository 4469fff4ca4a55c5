//! The answer of a fetch, written by hand: the provider's bytes go in as they were stored.
//!
//! Invariant: a payload is decompressed and copied, never parsed or written anew, so the digest
//! of what a consumer cuts out is that of what arrived.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::broken::Break;
use crate::domain::{Delivery, PayloadDamaged};
use crate::store::Fetched;

/// What is not the payload, its length estimated.
const HEAD_BYTES: usize = 1024;

/// Why an answer cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritable {
    /// A stored payload is damaged.
    #[error(transparent)]
    Payload(#[from] PayloadDamaged),
    /// Stored headers are no JSON, or a number is none.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// An envelope up to its payload.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventHead<'a> {
    id: i64,
    subject: &'a str,
    provider: &'static str,
    source: &'static str,
    delivery_id: &'a str,
    received_at: String,
    work_item: Option<&'a str>,
    kind: &'a str,
    headers: &'a RawValue,
}

/// What follows the deliveries.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tail {
    cursor: i64,
    committed: i64,
    lease: LeaseLeft,
    poll_after: f64,
}

/// How long the caller's lease lasts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeaseLeft {
    expires_in: f64,
}

impl LeaseLeft {
    pub(super) fn of_ms(lease_ms: i64) -> Self {
        Self {
            expires_in: seconds(lease_ms),
        }
    }
}

/// Milliseconds as decimal seconds.
#[expect(
    clippy::as_conversions,
    reason = "a lease is far below what a float holds exactly"
)]
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

/// Text that an answer will need at least.
pub(super) fn payload_bytes(fetched: &Fetched) -> u64 {
    fetched
        .deliveries
        .iter()
        .map(|delivery| delivery.event.payload.text_bytes())
        .fold(0, u64::saturating_add)
}

/// Writes the body of an answer.
pub(super) fn write(fetched: &Fetched, poll_after: f64) -> Result<Vec<u8>, Unwritable> {
    let payloads = usize::try_from(payload_bytes(fetched)).unwrap_or_default();
    let heads = fetched.deliveries.len().saturating_mul(HEAD_BYTES);
    let mut out = Vec::with_capacity(payloads.saturating_add(heads).saturating_add(HEAD_BYTES));
    out.extend_from_slice(b"{\"deliveries\":[");
    for (position, delivery) in fetched.deliveries.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_delivery(&mut out, delivery)?;
    }
    out.push(b']');
    let tail = serde_json::to_vec(&Tail {
        cursor: fetched.cursor,
        committed: fetched.committed.0,
        lease: LeaseLeft::of_ms(fetched.lease_ms),
        poll_after,
    })?;
    continue_object(&mut out, &tail);
    Ok(out)
}

fn write_delivery(out: &mut Vec<u8>, delivery: &Delivery) -> Result<(), Unwritable> {
    let event = &delivery.event;
    let attempt = delivery.attempt;
    let head = serde_json::to_vec(&EventHead {
        id: event.id.0,
        subject: &event.subject,
        provider: event.provider.as_str(),
        source: event.source.as_str(),
        delivery_id: &event.delivery_id,
        received_at: event.received_at.to_string(),
        work_item: event.work_item.as_deref(),
        kind: &event.kind,
        headers: serde_json::from_str(&event.headers)?,
    })?;
    let begin = format!(
        "{{\"seq\":{},\"attempt\":{attempt},\"event\":",
        delivery.seq
    );
    out.extend_from_slice(begin.as_bytes());
    out.extend_from_slice(head.strip_suffix(b"}").unwrap_or(&head));
    out.extend_from_slice(b",\"payload\":");
    let begins = out.len();
    event.payload.decompress_into(out)?;
    if Break::PayloadWrittenAnew.is_on() {
        let text = out.split_off(begins);
        out.extend(text.into_iter().filter(|byte| *byte != b' '));
    }
    let end = match delivery.redrive_of {
        Some(replaced) => format!(",\"attempt\":{attempt}}},\"redriveOf\":{replaced}}}"),
        None => format!(",\"attempt\":{attempt}}}}}"),
    };
    out.extend_from_slice(end.as_bytes());
    Ok(())
}

/// Appends the members of an object to one that is still open.
fn continue_object(out: &mut Vec<u8>, object: &[u8]) {
    out.push(b',');
    out.extend_from_slice(object.strip_prefix(b"{").unwrap_or(object));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EventId, Payload, Provider, Seq, Source, StoredEvent, Timestamp};

    const ODD: &str = "{ \"b\":1,\n\"a\" : \"\\ud800 \\u00e4\", \"n\":1.50, \"a\":2 }";

    fn delivery(redrive_of: Option<Seq>) -> Delivery {
        Delivery {
            seq: Seq(413),
            attempt: 2,
            redrive_of,
            event: StoredEvent {
                id: EventId(208),
                subject: "loop-github-octo-repo-15".into(),
                provider: Provider::GitHub,
                source: Source::Webhook,
                delivery_id: "a\"b".into(),
                received_at: Timestamp(0),
                work_item: None,
                kind: "issues".into(),
                headers: r#"{"x-github-event":"issues"}"#.into(),
                payload: Payload::compress(ODD.as_bytes()).unwrap(),
            },
        }
    }

    fn fetched(deliveries: Vec<Delivery>) -> Fetched {
        Fetched {
            deliveries,
            cursor: 414,
            committed: Seq(412),
            lease_ms: 60_500,
            next_due_at: None,
        }
    }

    #[test]
    fn an_empty_answer_has_its_five_members() {
        let text = String::from_utf8(write(&fetched(Vec::new()), 2.5).unwrap()).unwrap();
        assert_eq!(
            text,
            "{\"deliveries\":[],\"cursor\":414,\"committed\":412,\
             \"lease\":{\"expiresIn\":60.5},\"pollAfter\":2.5}"
        );
    }

    #[test]
    fn a_payload_is_in_the_answer_byte_for_byte() {
        let fetched = fetched(vec![delivery(None), delivery(Some(Seq(7)))]);
        let text = String::from_utf8(write(&fetched, 0.0).unwrap()).unwrap();
        let envelope = format!(
            "{{\"id\":208,\"subject\":\"loop-github-octo-repo-15\",\"provider\":\"github\",\
             \"source\":\"webhook\",\"deliveryId\":\"a\\\"b\",\
             \"receivedAt\":\"1970-01-01T00:00:00.000Z\",\"workItem\":null,\"kind\":\"issues\",\
             \"headers\":{{\"x-github-event\":\"issues\"}},\"payload\":{ODD},\"attempt\":2}}"
        );
        let expected = format!(
            "{{\"deliveries\":[{{\"seq\":413,\"attempt\":2,\"event\":{envelope}}},\
             {{\"seq\":413,\"attempt\":2,\"event\":{envelope},\"redriveOf\":7}}],\
             \"cursor\":414,\"committed\":412,\"lease\":{{\"expiresIn\":60.5}},\"pollAfter\":0.0}}"
        );
        assert_eq!(text, expected);
    }
}
