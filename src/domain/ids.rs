//! Names and numbers that identify things, parsed once at the edge.

use std::fmt;

/// Why a text is not the thing that it was given as.
///
/// Crosses the HTTP edge as a 422 that names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub &'static str);

const NAME_BYTES_MAX: usize = 128;

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`, shared by instance, peer and run.
fn parse_name(text: &str) -> Result<String, ParseError> {
    let mut bytes = text.bytes();
    let starts_well = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let goes_on_well = bytes.all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if starts_well && goes_on_well && text.len() <= NAME_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(ParseError("must match ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"))
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Parses the text of a request or a config value.
            ///
            /// # Errors
            /// When the text does not match `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`.
            pub fn parse(text: &str) -> Result<Self, ParseError> {
                parse_name(text).map(Self)
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type! {
    /// The name of an instance: the identity of its queue.
    InstanceName
}
name_type! {
    /// The installation that holds an instance name; a secret of that installation, never shown.
    PeerId
}
name_type! {
    /// One process of a peer.
    RunId
}

impl InstanceName {
    /// The name of a client that sends none.
    #[must_use]
    pub fn unnamed() -> Self {
        Self("default".to_owned())
    }
}

macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number_type! {
    /// The number of a stored event; grows with arrival, never reused.
    EventId
}
number_type! {
    /// The number of a delivery; grows over all queues, never reused.
    Seq
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_start_with_a_letter_or_digit_and_are_bounded() {
        assert!(InstanceName::parse("laptop-1.local_a").is_ok());
        assert!(InstanceName::parse(&"a".repeat(128)).is_ok());
        for bad in ["", "-a", ".a", "a b", "ä", "a/b", &"a".repeat(129)] {
            assert!(InstanceName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
