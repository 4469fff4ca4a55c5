//! What a person picks: which subjects, which span of time.

use crate::domain::{Subject, Timestamp};

/// Which subjects are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SubjectFilter {
    /// All of them.
    #[default]
    Any,
    /// What has no subject.
    Unassigned,
    /// One subject.
    Is(Subject),
}

impl SubjectFilter {
    /// Whether anything is left out, and the key of what is meant, as queries take it.
    pub(super) fn parts(&self) -> (bool, String) {
        match self {
            Self::Any => (false, String::new()),
            Self::Unassigned => (true, String::new()),
            Self::Is(subject) => (true, subject.key()),
        }
    }
}

/// A span of time, from its first moment on, before its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The first moment that belongs to it.
    pub since: Timestamp,
    /// The first moment that does not any more.
    pub until: Timestamp,
}

impl Default for Period {
    /// All time.
    fn default() -> Self {
        Self {
            since: Timestamp(i64::MIN),
            until: Timestamp(i64::MAX),
        }
    }
}
