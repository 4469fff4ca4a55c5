//! Finds out what a body is, because a Slack app may point all its URLs at one route.

use std::borrow::Cow;

use super::body::Body;
use super::{commands, interactions};
use crate::providers::{Rejection, form, lenient};

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Event,
    Interaction,
    Command,
    Challenge,
}

/// True for Slack's test of a URL's certificate, which is answered before any signature is
/// looked at: a form with `ssl_check=1`, whatever else is in it.
#[must_use]
pub fn is_ssl_check(content_type: Option<&str>, body: &[u8]) -> bool {
    let mut pairs = body.trim_ascii().split(|byte| *byte == b'&');
    form::is_form(content_type, body) && pairs.any(|pair| pair == b"ssl_check=1")
}

/// The JSON text of a body: the body itself, the first `payload` of a form, or the fields of a
/// command.
pub(super) fn payload_in<'a>(
    content_type: Option<&str>,
    body: &'a [u8],
) -> Result<Cow<'a, str>, Rejection> {
    let text = if form::is_form(content_type, body) {
        Cow::Owned(payload_of(&form::fields(body)?)?)
    } else {
        Cow::Borrowed(lenient::text_of(body)?)
    };
    if text.len() > form::JSON_BYTES_MAX {
        return Err(Rejection::TooLarge);
    }
    Ok(text)
}

fn payload_of(fields: &[(String, String)]) -> Result<String, Rejection> {
    match (
        form::value(fields, "payload"),
        form::value(fields, "command"),
    ) {
        (Some(payload), _) => Ok(lenient::text_of(payload.as_bytes())?.to_owned()),
        (None, Some(_)) => Ok(commands::as_json(fields)),
        (None, None) => Err(Rejection::InvalidPayload),
    }
}

/// What a payload is, by its fields. Of a form, whatever is nothing else is an interaction.
pub(super) fn shape_of(body: &Body<'_>, is_form: bool) -> Shape {
    let kind = body.kind().unwrap_or_default();
    if body.node.has("event") {
        Shape::Event
    } else if kind == "url_verification" {
        Shape::Challenge
    } else if body.node.has("command") {
        Shape::Command
    } else if is_form || interactions::is_type(&kind) {
        Shape::Interaction
    } else {
        Shape::Event
    }
}
