//! Why an answer cannot be used, told apart by what the poller does about it.

use std::time::Duration;

/// Why an answer cannot be used. No text of it holds a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// Nobody set the token.
    #[error("{variable} is not set")]
    MissingSecret {
        /// The variable's name.
        variable: String,
    },
    /// A limit is reached; it is the same for everyone who uses the token.
    #[error("{limit} limit reached")]
    Limited {
        /// Which one.
        limit: Limit,
        /// How long to ask nothing.
        wait: Duration,
    },
    /// The token is refused.
    #[error("401: the token is refused")]
    Unauthorized,
    /// The token does not suffice.
    #[error("403: {0}")]
    Forbidden(String),
    /// It does not exist, or the token does not show it.
    #[error("404: not found, or the token has no access")]
    NotFound,
    /// It exists no more, or is switched off.
    #[error("410: {0}")]
    Gone(String),
    /// The answer leads to another server, which is not to see the token.
    #[error("the answer leads to another server")]
    Elsewhere,
    /// One redirect leads to the next.
    #[error("too many redirects")]
    Redirects,
    /// The server failed; it may say when to come again.
    #[error("the server answered {status}")]
    Server {
        /// The status.
        status: u16,
        /// When to come again.
        wait: Option<Duration>,
    },
    /// Another status that makes no sense here.
    #[error("the server answered {status}: {message}")]
    Unexpected {
        /// The status.
        status: u16,
        /// What the server says of it.
        message: String,
    },
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Network(String),
    /// No answer, or not all of it, in time.
    #[error("no answer in time")]
    Timeout,
    /// The answer ended too early.
    #[error("the answer was cut off")]
    Cut,
    /// More than is taken.
    #[error("the answer is too large")]
    TooLarge,
    /// The gateway's own store refused what was read.
    #[error("not stored: {0}")]
    Store(String),
    /// The answer does not say what it should.
    #[error("the answer is not what it should be: {0}")]
    Malformed(&'static str),
}

/// A limit of an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    /// The requests of an hour are spent.
    Primary,
    /// Too much at once.
    Secondary,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Primary => "the primary rate",
            Self::Secondary => "a secondary rate",
        })
    }
}

impl Failure {
    /// True when somebody has to mend something before it can work.
    pub(super) const fn needs_mending(&self) -> bool {
        match self {
            Self::MissingSecret { .. }
            | Self::Unauthorized
            | Self::Forbidden(_)
            | Self::NotFound
            | Self::Gone(_)
            | Self::Elsewhere
            | Self::Redirects
            | Self::Unexpected { .. } => true,
            Self::Limited { .. }
            | Self::Server { .. }
            | Self::Network(_)
            | Self::Timeout
            | Self::Cut
            | Self::TooLarge
            | Self::Store(_)
            | Self::Malformed(_) => false,
        }
    }

    /// True when it is about this one list or object, so that the others can be read on.
    pub(super) const fn is_local(&self) -> bool {
        match self {
            Self::Forbidden(_)
            | Self::NotFound
            | Self::Gone(_)
            | Self::Elsewhere
            | Self::Redirects
            | Self::TooLarge
            | Self::Malformed(_)
            | Self::Unexpected { .. } => true,
            Self::MissingSecret { .. }
            | Self::Limited { .. }
            | Self::Unauthorized
            | Self::Server { .. }
            | Self::Network(_)
            | Self::Timeout
            | Self::Store(_)
            | Self::Cut => false,
        }
    }

    /// True when what was asked for is not there (any more).
    pub(super) const fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound | Self::Gone(_))
    }

    /// How long to wait at least.
    pub(super) const fn wait(&self) -> Option<Duration> {
        match self {
            Self::Limited { wait, .. } => Some(*wait),
            Self::Server { wait, .. } => *wait,
            Self::MissingSecret { .. }
            | Self::Unauthorized
            | Self::Forbidden(_)
            | Self::NotFound
            | Self::Gone(_)
            | Self::Elsewhere
            | Self::Redirects
            | Self::Unexpected { .. }
            | Self::Network(_)
            | Self::Timeout
            | Self::Cut
            | Self::TooLarge
            | Self::Store(_)
            | Self::Malformed(_) => None,
        }
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(error: crate::store::StoreError) -> Self {
        Self::Store(error.to_string())
    }
}
