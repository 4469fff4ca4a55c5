//! Moments as the APIs write them.

use crate::domain::{Millis, Timestamp};

/// An RFC 3339 date, or Jira's with a zone without a colon.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(moment.as_millisecond()))
}

/// The date of an HTTP header.
pub(super) fn parse_http_date(text: &str) -> Option<Timestamp> {
    let zoned = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp(zoned.timestamp().as_millisecond()))
}

/// `2026-11-30T10:00:00Z`: whole seconds, as GitHub compares them.
pub(super) fn in_seconds(moment: Timestamp) -> String {
    let moment = jiff::Timestamp::from_millisecond(moment.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{moment:.0}")
}

/// The moment of a list that an answer begins with: now, in whole seconds.
pub(super) const fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp(moment.0.saturating_sub(moment.0.rem_euclid(1000)))
}

/// This moment minus a span.
pub(super) fn before(moment: Timestamp, span: Millis) -> Timestamp {
    Timestamp(moment.0.saturating_sub(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_each_spelling_and_written_in_seconds() {
        let moment = Timestamp(1_790_000_000_000);
        for text in [
            "2026-09-21T14:13:20Z",
            "2026-09-21T16:13:20.000+0200",
            "2026-09-21T16:13:20+02:00",
        ] {
            assert_eq!(parse(text), Some(moment), "{text}");
        }
        let header = "Mon, 21 Sep 2026 14:13:20 GMT";
        assert_eq!(parse_http_date(header), Some(moment));
        assert_eq!(in_seconds(moment.plus(999)), "2026-09-21T14:13:20Z");
        assert_eq!(whole_second(moment.plus(999)), moment);
        assert_eq!(parse("yesterday"), None);
        assert_eq!(parse_http_date("yesterday"), None);
    }
}
