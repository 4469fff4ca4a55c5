//! The body of a Slack request, made again from what the gateway stores of it.
//!
//! An event came as JSON and goes as JSON; an interaction came as a form with the JSON in
//! `payload`, a command as a form of its fields.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::client::Envelope;
use crate::providers::lenient::{self, Want};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const COMMAND: &str = "slash_command";
const EVENT: &str = "event_callback";

static WANT: Want = Want::Object(&[("type", Want::Leaf)]);

/// A body and its content type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) content_type: &'static str,
    pub(super) bytes: Vec<u8>,
}

impl Body {
    /// The payload as it is.
    pub(super) fn json(event: &Envelope) -> Self {
        Self {
            content_type: JSON,
            bytes: event.payload_bytes().to_vec(),
        }
    }

    /// The body as Slack sent it.
    ///
    /// # Errors
    /// When a command is no object of texts.
    pub(super) fn slack(event: &Envelope) -> serde_json::Result<Self> {
        let payload = event.payload.get();
        if event.kind == COMMAND {
            let Pairs(pairs) = serde_json::from_str(payload)?;
            return Ok(Self::form(pairs));
        }
        let kind = lenient::read(payload, &WANT).ok();
        let kind = kind.as_ref().and_then(|node| node.text("type"));
        if kind.as_deref() == Some(EVENT) {
            return Ok(Self::json(event));
        }
        Ok(Self::form([("payload".to_owned(), payload.to_owned())]))
    }

    fn form(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(pairs);
        Self {
            content_type: FORM,
            bytes: form.finish().into_bytes(),
        }
    }
}

/// The members of an object in their order, values as texts.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            let text = match value {
                Value::String(text) => text,
                other @ (Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_)) => other.to_string(),
            };
            pairs.push((name, text));
        }
        Ok(Pairs(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::consume::tests::envelope;

    fn slack(kind: &str, payload: &str) -> (&'static str, String) {
        let body = Body::slack(&envelope("slack", kind, payload)).unwrap();
        (body.content_type, String::from_utf8(body.bytes).unwrap())
    }

    #[test]
    fn an_event_goes_as_json_byte_for_byte() {
        let payload = r#"{ "type":"event_callback", "event":{"type":"message"} }"#;
        assert_eq!(slack("message", payload), (JSON, payload.to_owned()));
    }

    #[test]
    fn an_interaction_goes_as_a_form_whose_payload_is_the_same_text() {
        let payload = r#"{"type":"block_actions","value":"a&b=c+d é"}"#;
        let (content_type, form) = slack("block_actions", payload);
        assert_eq!(content_type, FORM);
        let decoded: Vec<(String, String)> = form_urlencoded::parse(form.as_bytes())
            .into_owned()
            .collect();
        assert_eq!(decoded, [("payload".to_owned(), payload.to_owned())]);
    }

    #[test]
    fn a_command_goes_as_a_form_of_its_fields_in_their_order() {
        let payload = r#"{"command":"/the-loop","text":"start & go","empty":""}"#;
        assert_eq!(
            slack("slash_command", payload),
            (
                FORM,
                "command=%2Fthe-loop&text=start+%26+go&empty=".to_owned()
            )
        );
    }
}
