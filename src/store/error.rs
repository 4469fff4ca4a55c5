//! What can go wrong with the store, told apart by what the caller does about it.

use rusqlite::ErrorCode;

use crate::domain::{PayloadDamaged, Refusal};

/// Why a write was not made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An answer, not a fault: the request contradicts what is stored. Nothing of it is applied.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The disk or the transaction failed. Nothing is acknowledged; it may work later.
    #[error("the store cannot {doing}: {source}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// The database's word for it.
        #[source]
        source: rusqlite::Error,
    },
    /// The transaction that the write was part of failed as a whole.
    #[error("the transaction failed: {0}")]
    Aborted(String),
    /// The caller gave up before the write began; nothing was done.
    #[error("the caller is gone")]
    CallerGone,
    /// A stored value is not what this program writes.
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
}

impl From<PayloadDamaged> for StoreError {
    fn from(damaged: PayloadDamaged) -> Self {
        Self::Corrupt(damaged.to_string())
    }
}

/// Adds to a database error what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Unavailable { doing, source })
    }
}

/// Why the store cannot be opened; the process does not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is not a store of this program.
    #[error("{path} is not a store of the-loop gateway")]
    Foreign {
        /// The file.
        path: String,
    },
    /// A newer program wrote it.
    #[error("{path} has schema version {found}; this program knows up to {known}")]
    Newer {
        /// The file.
        path: String,
        /// The version in the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// An older program wrote it, and it is opened for reading only.
    #[error("{path} has schema version {found}; a gateway that starts on it brings it to {known}")]
    Older {
        /// The file.
        path: String,
        /// The version in the file.
        found: i64,
        /// The version that this program reads.
        known: i64,
    },
    /// The file is damaged.
    #[error("{path} is damaged: {detail}")]
    Corrupt {
        /// The file.
        path: String,
        /// The database's word for it.
        detail: String,
    },
    /// No connection that reads it was made in time; the file itself may be well.
    #[error("no connection that reads {path} was made within {seconds} s: {detail}")]
    Readers {
        /// The file.
        path: String,
        /// How long was waited.
        seconds: f64,
        /// What the attempts met.
        detail: String,
    },
    /// The SQLite that is linked in has a fault that loses committed writes.
    #[error("SQLite {found} is too old: 3.51.3 or newer is needed")]
    Sqlite {
        /// The version linked in.
        found: &'static str,
    },
    /// The database refused something else.
    #[error("cannot open {path}: {source}")]
    Database {
        /// The file.
        path: String,
        /// The database's word for it.
        #[source]
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// What the database's word means for the file.
    pub(super) fn of(path: &str, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::Foreign { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt {
                path,
                detail: source.to_string(),
            },
            _ => Self::Database { path, source },
        }
    }
}
