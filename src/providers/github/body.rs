//! The JSON text in a body: the body itself, or the `payload` field of a form.
//!
//! Invariant: what comes out is the text that is stored, without JSON whitespace around it.

use std::borrow::Cow;

use crate::providers::{Headers, Rejection, form, lenient};

/// The JSON text of a webhook's body.
///
/// A body that starts as JSON is JSON whatever its content type claims, as the receivers that
/// the gateway replaces never read that header.
pub(super) fn json_text<'a>(
    headers: &impl Headers,
    body: &'a [u8],
) -> Result<Cow<'a, str>, Rejection> {
    let text = if form::is_form(headers.text("content-type"), body) {
        let fields = form::fields(body)?;
        let payload = form::value(&fields, "payload").ok_or(Rejection::InvalidPayload)?;
        Cow::Owned(lenient::text_of(payload.as_bytes())?.to_owned())
    } else {
        Cow::Borrowed(lenient::text_of(body)?)
    };
    if text.len() > form::JSON_BYTES_MAX {
        return Err(Rejection::TooLarge);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::providers::form::{JSON_BYTES_MAX, MEDIA_TYPE as FORM};

    fn text(content_type: Option<&str>, body: &[u8]) -> Result<String, Rejection> {
        let headers: BTreeMap<String, String> = content_type
            .map(|value| ("content-type".to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        json_text(&headers, body).map(Cow::into_owned)
    }

    #[test]
    fn a_form_gives_the_json_in_its_payload() {
        let form = b"x=1&payload=%7B%22a%22%3A+%22%C3%A9%25%22%7D%0A&payload=2";
        let expected = Ok("{\"a\": \"é%\"}".to_owned());
        for content_type in [FORM, "Application/X-WWW-Form-Urlencoded ; charset=utf-8"] {
            assert_eq!(text(Some(content_type), form), expected);
        }
        assert_eq!(text(None, form), expected);
        assert_eq!(
            text(Some(FORM), b"%70ayload={%zz%7"),
            Ok("{%zz%7".to_owned())
        );
    }

    #[test]
    fn a_body_that_starts_as_json_is_json_whatever_it_claims() {
        for content_type in [
            None,
            Some("application/json"),
            Some(FORM),
            Some("text/plain"),
            Some("é"),
        ] {
            assert_eq!(
                text(content_type, b" \n{\"a\": \"b=c&d+%41\"}\r\n"),
                Ok("{\"a\": \"b=c&d+%41\"}".to_owned())
            );
        }
    }

    #[test]
    fn a_form_without_payload_or_utf_8_is_invalid() {
        for form in [
            &b""[..],
            b"payload",
            b"payloads=%7B%7D",
            b"payload=%7B%22%FF%22%7D",
            b"a=payload=1",
        ] {
            assert_eq!(
                text(Some(FORM), form),
                Err(Rejection::InvalidPayload),
                "{form:?}"
            );
        }
        assert_eq!(
            text(Some("application/json"), b"\xff"),
            Err(Rejection::InvalidPayload)
        );
    }

    #[test]
    fn the_json_may_have_25_mib_however_long_its_form_is() {
        let json = |bytes: usize| format!("{{{}}}", " ".repeat(bytes - 2));
        assert!(text(None, json(JSON_BYTES_MAX).as_bytes()).is_ok());
        assert_eq!(
            text(None, json(JSON_BYTES_MAX + 1).as_bytes()),
            Err(Rejection::TooLarge)
        );
        let form = |bytes: usize| format!("payload=%7B{}%7D", "%20".repeat(bytes - 2));
        assert!(text(Some(FORM), form(JSON_BYTES_MAX).as_bytes()).is_ok());
        assert_eq!(
            text(Some(FORM), form(JSON_BYTES_MAX + 1).as_bytes()),
            Err(Rejection::TooLarge)
        );
    }
}
