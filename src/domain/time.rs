//! Wall-clock time in milliseconds, and its one text form.

use std::fmt;

/// A span in milliseconds.
pub type Millis = i64;

/// Milliseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This moment plus a span; saturates instead of wrapping.
    #[must_use]
    pub fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The moment of a Slack time stamp, `<seconds>.<micros>`, to the millisecond.
    #[must_use]
    pub fn from_slack(ts: &str) -> Option<Self> {
        let (seconds, fraction) = ts.split_once('.').unwrap_or((ts, ""));
        let seconds: i64 = seconds.parse().ok()?;
        let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
        Some(Self(seconds.checked_mul(1_000)?.checked_add(millis)?))
    }

    /// The moment as Slack writes it. Slack's time stamps of this century compare as texts.
    #[must_use]
    pub fn to_slack(self) -> String {
        let at = self.0.max(0);
        format!(
            "{:010}.{:03}000",
            at.div_euclid(1_000),
            at.rem_euclid(1_000)
        )
    }

    /// The span from `earlier` to this moment; negative when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Millis {
        self.0.saturating_sub(earlier.0)
    }
}

/// RFC 3339 in UTC with milliseconds: `2026-10-18T14:02:11.120Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment =
            jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{moment:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_shown_in_utc_with_three_decimals() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            Timestamp(1_792_332_131_120).to_string(),
            "2026-10-18T14:02:11.120Z"
        );
    }

    #[test]
    fn slack_time_stamps_are_read_and_written_to_the_millisecond() {
        let at = |ts| Timestamp::from_slack(ts);
        assert_eq!(at("1699990000.123456"), Some(Timestamp(1_699_990_000_123)));
        assert_eq!(at("1699990000"), Some(Timestamp(1_699_990_000_000)));
        assert_eq!(at("x.1"), None);
        assert_eq!(Timestamp(1_699_990_000_123).to_slack(), "1699990000.123000");
    }
}
