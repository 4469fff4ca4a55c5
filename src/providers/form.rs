//! Bodies that are forms, decoded without repairing them.

use super::Rejection;

/// The limit for JSON; a form takes more on the wire.
pub(super) const JSON_BYTES_MAX: usize = 25 * 1024 * 1024;

pub(super) const MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

/// True when a body is a form. One that starts as JSON is JSON whatever its content type claims;
/// without a content type, what does not can only be a form.
pub(super) fn is_form(content_type: Option<&str>, body: &[u8]) -> bool {
    let starts_as_json = body.trim_ascii_start().first() == Some(&b'{');
    let claims_form = content_type.is_none_or(|value| {
        let media_type = value.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case(MEDIA_TYPE)
    });
    claims_form && !starts_as_json
}

/// The fields of a form body, in the order sent; a name without `=` is none.
///
/// The usual decoder replaces bytes that are not UTF-8; a payload must come through as it was
/// sent or not at all.
pub(super) fn fields(body: &[u8]) -> Result<Vec<(String, String)>, Rejection> {
    body.trim_ascii()
        .split(|byte| *byte == b'&')
        .filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            let (name, value) = pair.split_at_checked(equals)?;
            Some((name, value.get(1..).unwrap_or_default()))
        })
        .map(|(name, value)| Ok((decoded(name)?, decoded(value)?)))
        .collect()
}

/// The first value of a field.
pub(super) fn value<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let field = fields.iter().find(|(own, _)| own == name)?;
    Some(&field.1)
}

/// Undoes percent-encoding; a `%` that two hex digits do not follow stands for itself.
fn decoded(raw: &[u8]) -> Result<String, Rejection> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => match hex_byte(*high, *low) {
                Some(byte) => {
                    bytes.push(byte);
                    rest = after;
                }
                None => bytes.push(b'%'),
            },
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes)
        .ok()
        .ok_or(Rejection::InvalidPayload)
}

fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let mut byte = [0];
    hex::decode_to_slice([high, low], &mut byte).ok()?;
    byte.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(body: &str) -> Vec<(String, String)> {
        fields(body.as_bytes()).unwrap()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn fields_keep_their_order_and_their_repetitions() {
        assert_eq!(
            pairs("a=1&b=x+y%20z&&a=%7B%22k%22%3A%22%C3%A4%22%7D&c&=d=e&f=\n"),
            [
                pair("a", "1"),
                pair("b", "x y z"),
                pair("a", "{\"k\":\"ä\"}"),
                pair("", "d=e"),
                pair("f", ""),
            ]
        );
    }

    #[test]
    fn a_percent_sign_without_digits_stands_for_itself() {
        assert_eq!(
            pairs("a=%&b=%4&c=%zz&d=%+f"),
            [
                pair("a", "%"),
                pair("b", "%4"),
                pair("c", "%zz"),
                pair("d", "% f"),
            ]
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused_and_not_replaced() {
        assert_eq!(fields(b"a=%ff"), Err(Rejection::InvalidPayload));
        assert_eq!(fields(b"a=\xff"), Err(Rejection::InvalidPayload));
    }

    #[test]
    fn a_form_is_known_by_its_content_type_unless_it_starts_as_json() {
        for content_type in [
            None,
            Some(MEDIA_TYPE),
            Some("Application/X-WWW-Form-URLEncoded ; a=b"),
        ] {
            assert!(is_form(content_type, b"a=b"));
            assert!(!is_form(content_type, b"\n {\"a\": 1}"));
        }
        assert!(!is_form(Some("application/json"), b"a=b"));
        assert!(!is_form(Some(""), b"a=b"));
    }
}
