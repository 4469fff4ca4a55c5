//! What a handler gets: an event of the provider and the hand-out of it.

use std::collections::BTreeMap;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::domain::{EventId, Provider, Seq, Source, Timestamp};

/// One event handed to this instance.
#[derive(Debug)]
pub struct Delivery {
    /// The delivery's number: what its outcome names.
    pub seq: Seq,
    /// Which attempt this hand-out is, from 1.
    pub attempt: u32,
    /// The event.
    pub event: Envelope,
    /// The delivery that this one replaces, after a redrive, revival or replay.
    pub redrive_of: Option<Seq>,
}

/// An event as the gateway stored it: eleven fields.
///
/// Serialises to the JSON that `schemas/envelope.schema.json` describes, with the payload's bytes
/// as they came.
#[derive(Debug, Deserialize)]
#[serde(try_from = "EnvelopeText")]
pub struct Envelope {
    /// The event's number; the same on every hand-out.
    pub id: EventId,
    /// The name of the work item's stream, `unassigned` without one. Equality ignores ASCII case.
    pub subject: String,
    /// Whose event it is.
    pub provider: Provider,
    /// Which kind of transport brought it.
    pub source: Source,
    /// The provider's id of the delivery.
    pub delivery_id: String,
    /// When the gateway received it.
    pub received_at: Timestamp,
    /// The reference of the work item, when it is about one.
    pub work_item: Option<String>,
    /// The provider's name for the kind of event.
    pub kind: String,
    /// The provider's headers that were stored, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The provider's JSON object, byte for byte.
    pub payload: Box<RawValue>,
    /// Which attempt this hand-out is, from 1.
    pub attempt: u32,
}

impl Envelope {
    /// The payload's bytes: what the provider signed, unless it came as a form.
    #[must_use]
    pub fn payload_bytes(&self) -> &[u8] {
        self.payload.get().as_bytes()
    }
}

impl Serialize for Envelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Envelope", 11)?;
        fields.serialize_field("id", &self.id.0)?;
        fields.serialize_field("subject", &self.subject)?;
        fields.serialize_field("provider", &self.provider)?;
        fields.serialize_field("source", &self.source)?;
        fields.serialize_field("deliveryId", &self.delivery_id)?;
        fields.serialize_field("receivedAt", &self.received_at.to_string())?;
        fields.serialize_field("workItem", &self.work_item)?;
        fields.serialize_field("kind", &self.kind)?;
        fields.serialize_field("headers", &self.headers)?;
        fields.serialize_field("payload", &self.payload)?;
        fields.serialize_field("attempt", &self.attempt)?;
        fields.end()
    }
}

impl Serialize for Delivery {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let length = if self.redrive_of.is_some() { 4 } else { 3 };
        let mut fields = serializer.serialize_struct("Delivery", length)?;
        fields.serialize_field("seq", &self.seq.0)?;
        fields.serialize_field("attempt", &self.attempt)?;
        fields.serialize_field("event", &self.event)?;
        if let Some(redrive_of) = self.redrive_of {
            fields.serialize_field("redriveOf", &redrive_of.0)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Delivery {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = DeliveryText::deserialize(deserializer)?;
        Ok(Self {
            seq: Seq(text.seq),
            attempt: text.attempt,
            event: text.event,
            redrive_of: text.redrive_of.map(Seq),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryText {
    seq: i64,
    attempt: u32,
    event: Envelope,
    redrive_of: Option<i64>,
}

/// An envelope as it stands in an answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvelopeText {
    id: i64,
    subject: String,
    provider: String,
    source: String,
    delivery_id: String,
    received_at: String,
    work_item: Option<String>,
    kind: String,
    headers: BTreeMap<String, String>,
    payload: Box<RawValue>,
    attempt: u32,
}

impl TryFrom<EnvelopeText> for Envelope {
    type Error = &'static str;

    fn try_from(text: EnvelopeText) -> Result<Self, Self::Error> {
        let received_at: jiff::Timestamp = (text.received_at.parse())
            .ok()
            .ok_or("receivedAt is no time")?;
        if !text.payload.get().starts_with('{') {
            return Err("payload is no object");
        }
        Ok(Self {
            id: EventId(text.id),
            subject: text.subject,
            provider: Provider::from_word(&text.provider).ok_or("provider is unknown")?,
            source: Source::from_word(&text.source).ok_or("source is unknown")?,
            delivery_id: text.delivery_id,
            received_at: Timestamp(received_at.as_millisecond()),
            work_item: text.work_item,
            kind: text.kind,
            headers: text.headers,
            payload: text.payload,
            attempt: text.attempt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &str = "{ \"a\" : 1.0,\n \"a\":\"\\ud800\", \"deep\":[[[]]] }";

    fn text(payload: &str) -> String {
        format!(
            r#"{{"seq":413,"attempt":2,"event":{{"id":208,"subject":"loop-github-octo-repo-15","provider":"github","source":"webhook","deliveryId":"g-1","receivedAt":"2026-10-18T14:02:11.120Z","workItem":"github:octo/repo#15","kind":"issue_comment","headers":{{"x-github-event":"issue_comment"}},"payload":{payload},"attempt":2}},"redriveOf":401}}"#
        )
    }

    #[test]
    fn a_delivery_is_read_and_written_with_its_payload_byte_for_byte() {
        let text = text(PAYLOAD);
        let delivery: Delivery = serde_json::from_str(&text).unwrap();
        assert_eq!(delivery.event.payload_bytes(), PAYLOAD.as_bytes());
        assert_eq!(delivery.redrive_of, Some(Seq(401)));
        assert_eq!(serde_json::to_string(&delivery).unwrap(), text);
    }

    #[test]
    fn a_payload_may_nest_deeper_than_any_parser_recurses() {
        let nested = format!("{{\"a\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
        let delivery: Delivery = serde_json::from_str(&text(&nested)).unwrap();
        assert_eq!(delivery.event.payload.get(), nested);
    }

    #[test]
    fn an_envelope_without_a_field_or_with_a_wrong_one_is_refused() {
        let good = text("{}");
        for (from, to) in [
            ("\"provider\":\"github\"", "\"provider\":\"gitlab\""),
            ("\"source\":\"webhook\"", "\"source\":\"mail\""),
            ("2026-10-18T14:02:11.120Z", "yesterday"),
            ("\"payload\":{}", "\"payload\":[]"),
            ("\"kind\":\"issue_comment\",", ""),
            ("\"seq\":413", "\"seq\":\"413\""),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good, "{from}");
            assert!(serde_json::from_str::<Delivery>(&bad).is_err(), "{to}");
        }
    }
}
