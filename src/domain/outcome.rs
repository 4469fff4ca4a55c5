//! What an instance says of a delivery.

use std::fmt;

use super::{ParseError, Seq};

/// The reason of a `dropped:<reason>`: `^[a-z0-9][a-z0-9-]{0,63}$`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutcomeReason(String);

const REASON_BYTES_MAX: usize = 64;

impl OutcomeReason {
    /// Parses the text after `dropped:`.
    ///
    /// # Errors
    /// When it does not match `^[a-z0-9][a-z0-9-]{0,63}$`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let well_formed = text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !text.starts_with('-')
            && (1..=REASON_BYTES_MAX).contains(&text.len());
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError(
                "the reason after dropped: must match ^[a-z0-9][a-z0-9-]{0,63}$",
            ))
        }
    }

    /// The reason as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What an instance says of one delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Handled by something that was already running.
    Delivered,
    /// Handled by starting something.
    Spawned,
    /// Not handled, on purpose.
    Dropped(OutcomeReason),
    /// Tried and failed: a strike, and due again after the back-off.
    Failed,
    /// Not tried: hand it out again, no strike.
    Released,
}

impl Outcome {
    /// Parses `delivered`, `spawned`, `dropped:<reason>`, `failed` or `released`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        match text {
            "delivered" => Ok(Self::Delivered),
            "spawned" => Ok(Self::Spawned),
            "failed" => Ok(Self::Failed),
            "released" => Ok(Self::Released),
            other => match other.strip_prefix("dropped:") {
                Some(reason) => OutcomeReason::parse(reason).map(Self::Dropped),
                None => Err(ParseError(
                    "must be delivered, spawned, dropped:<reason>, failed or released",
                )),
            },
        }
    }

    /// True for the outcomes after which a delivery is never handed out again.
    #[must_use]
    pub const fn settles(&self) -> bool {
        match self {
            Self::Delivered | Self::Spawned | Self::Dropped(_) => true,
            Self::Failed | Self::Released => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered => f.write_str("delivered"),
            Self::Spawned => f.write_str("spawned"),
            Self::Dropped(reason) => write!(f, "dropped:{}", reason.as_str()),
            Self::Failed => f.write_str("failed"),
            Self::Released => f.write_str("released"),
        }
    }
}

/// One outcome of a commit list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitItem {
    /// The delivery that it is about.
    pub seq: Seq,
    /// What became of it.
    pub outcome: Outcome,
    /// A free text of the instance, at most 500 bytes; shown to operators, never interpreted.
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read_and_shown_the_same() {
        for text in [
            "delivered",
            "spawned",
            "dropped:awaiting-start",
            "failed",
            "released",
        ] {
            assert_eq!(Outcome::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("dropped:{}", "a".repeat(65));
        for bad in [
            "",
            "Delivered",
            "dropped",
            "dropped:",
            "dropped:-a",
            "dropped:A",
            "done",
            &long,
        ] {
            assert!(Outcome::parse(bad).is_err(), "{bad:?}");
        }
    }
}
