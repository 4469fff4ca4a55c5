//! How numbers, times and strangers' texts are shown to people.

use std::time::Duration;

use crate::domain::Timestamp;

/// What stands for "there is none".
pub(super) const NONE: &str = "-";

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How moments are written in a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Times {
    /// As the distance from this moment.
    RelativeTo(Timestamp),
    /// As RFC 3339 in UTC.
    Absolute,
}

impl Times {
    /// A moment of the past, given in RFC 3339; one that a faster clock put into the future is
    /// just now.
    pub(super) fn past(self, moment: Option<&str>) -> String {
        let Some(moment) = moment else {
            return NONE.to_owned();
        };
        match (self, milliseconds_of(moment)) {
            (Self::RelativeTo(now), Some(then)) => {
                ago(u64::try_from(now.since(then)).unwrap_or_default())
            }
            (Self::RelativeTo(_), None) | (Self::Absolute, _) => plain(moment),
        }
    }

    /// A moment that is still to come.
    pub(super) fn future(self, moment: Option<&str>) -> String {
        let Some(moment) = moment else {
            return NONE.to_owned();
        };
        match (self, milliseconds_of(moment)) {
            (Self::RelativeTo(now), Some(then)) => {
                let left = u64::try_from(then.since(now)).unwrap_or_default();
                if left < SECOND {
                    "now".to_owned()
                } else {
                    format!("in {}", span(left))
                }
            }
            (Self::RelativeTo(_), None) => plain(moment),
            (Self::Absolute, _) => format!("at {}", plain(moment)),
        }
    }

    /// As [`Times::past`], for a moment whose age the gateway measured by its own clock.
    pub(super) fn aged(self, moment: Option<&str>, age_seconds: Option<f64>) -> String {
        match (self, age_seconds) {
            (Self::RelativeTo(_), Some(age)) => ago(milliseconds_in(age)),
            (Self::RelativeTo(_), None) | (Self::Absolute, _) => self.past(moment),
        }
    }
}

fn milliseconds_of(moment: &str) -> Option<Timestamp> {
    let parsed: jiff::Timestamp = moment.parse().ok()?;
    Some(Timestamp(parsed.as_millisecond()))
}

fn ago(milliseconds: u64) -> String {
    if milliseconds < SECOND {
        "just now".to_owned()
    } else {
        format!("{} ago", span(milliseconds))
    }
}

/// A length of time in its largest whole unit.
pub(super) fn span(milliseconds: u64) -> String {
    let (unit, word) = match milliseconds {
        DAY.. => (DAY, "d"),
        HOUR.. => (HOUR, "h"),
        MINUTE.. => (MINUTE, "min"),
        SECOND.. => (SECOND, "s"),
        _ => (1, "ms"),
    };
    format!(
        "{} {word}",
        milliseconds.checked_div(unit).unwrap_or_default()
    )
}

/// A length of time that the API gives in seconds.
pub(super) fn seconds(seconds: f64) -> String {
    span(milliseconds_in(seconds))
}

/// Whole milliseconds; what is no length of time counts as none.
fn milliseconds_in(seconds: f64) -> u64 {
    let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// How long it was from one moment to another, both in RFC 3339.
pub(super) fn between(from: &str, until: &str) -> Option<String> {
    let length = milliseconds_of(until)?.since(milliseconds_of(from)?);
    Some(span(u64::try_from(length).unwrap_or_default()))
}

/// A number of bytes in its largest unit, with one decimal.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, word) in UNITS {
        let whole = bytes >> shift;
        if whole > 0 {
            let rest = bytes.saturating_sub(whole << shift);
            let tenths = rest.saturating_mul(10) >> shift;
            return format!("{}.{tenths} {word}", number(whole));
        }
    }
    count(bytes, "byte", "bytes")
}

/// A number with its thousands apart.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len().saturating_mul(2));
    for (index, digit) in digits.chars().enumerate() {
        let left = digits.len().saturating_sub(index);
        if index > 0 && left.is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A number with its unit: `1 delivery`, `3,000 deliveries`.
pub(super) fn count(of: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(of), if of == 1 { one } else { many })
}

/// A text that a stranger may have chosen, without what a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: &str = "2026-10-18T12:00:00.000Z";

    fn seen_after(milliseconds: i64) -> String {
        let noon = milliseconds_of(NOON).unwrap();
        Times::RelativeTo(noon.plus(milliseconds)).past(Some(NOON))
    }

    #[test]
    fn a_moment_is_shown_by_its_distance_in_the_largest_whole_unit() {
        for (after, shown) in [
            (-5000, "just now"),
            (0, "just now"),
            (999, "just now"),
            (1000, "1 s ago"),
            (59_999, "59 s ago"),
            (60_000, "1 min ago"),
            (3_599_999, "59 min ago"),
            (3_600_000, "1 h ago"),
            (86_399_999, "23 h ago"),
            (86_400_000, "1 d ago"),
            (40 * 86_400_000, "40 d ago"),
        ] {
            assert_eq!(seen_after(after), shown, "{after}");
        }
    }

    #[test]
    fn an_absolute_moment_is_shown_as_it_was_given_and_none_as_a_dash() {
        assert_eq!(Times::Absolute.past(Some(NOON)), NOON);
        assert_eq!(Times::Absolute.past(None), "-");
        assert_eq!(Times::RelativeTo(Timestamp(0)).past(None), "-");
        let odd = Times::RelativeTo(Timestamp(0)).past(Some("tea\u{7}time"));
        assert_eq!(odd, "tea\u{fffd}time");
    }

    #[test]
    fn seconds_of_the_api_are_shown_with_their_unit() {
        for (given, shown) in [
            (0.0, "0 ms"),
            (0.25, "250 ms"),
            (42.5, "42 s"),
            (77.3, "1 min"),
            (-1.0, "0 ms"),
            (f64::NAN, "0 ms"),
        ] {
            assert_eq!(seconds(given), shown, "{given}");
        }
    }

    #[test]
    fn what_is_to_come_is_shown_by_its_distance_too() {
        let noon = milliseconds_of(NOON).unwrap();
        let times = Times::RelativeTo(noon.plus(-90_000));
        assert_eq!(times.future(Some(NOON)), "in 1 min");
        assert_eq!(Times::RelativeTo(noon).future(Some(NOON)), "now");
        assert_eq!(Times::Absolute.future(Some(NOON)), format!("at {NOON}"));
        assert_eq!(times.future(None), "-");
        let later = noon.plus(9_000).to_string();
        assert_eq!(between(NOON, &later).unwrap(), "9 s");
        assert_eq!(between(&later, NOON).unwrap(), "0 ms");
        assert_eq!(between(NOON, "tea"), None);
    }

    #[test]
    fn bytes_are_shown_in_their_largest_unit() {
        for (given, shown) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1,023 bytes"),
            (1_536, "1.5 KiB"),
            (16 << 20, "16.0 MiB"),
            (5_000 << 30, "5,000.0 GiB"),
        ] {
            assert_eq!(bytes(given), shown);
        }
    }

    #[test]
    fn numbers_have_their_thousands_apart_and_their_unit() {
        for (given, shown) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(number(given), shown);
        }
        assert_eq!(count(1, "delivery", "deliveries"), "1 delivery");
        assert_eq!(count(0, "delivery", "deliveries"), "0 deliveries");
        assert_eq!(count(2000, "delivery", "deliveries"), "2,000 deliveries");
    }
}
