//! Moving the WAL into the database file, outside any batch.

use rusqlite::Connection;

use super::error::{Doing, StoreError};
use super::writer::Writer;

/// What a checkpoint did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointed {
    /// Pages that were in the WAL.
    pub wal_pages: i64,
    /// Pages of them that are in the database file now.
    pub moved_pages: i64,
}

impl Writer {
    /// Moves what no reader still needs; waits for nobody.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn checkpoint(&self) -> Result<Checkpointed, StoreError> {
        run(self.connection(), "PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// Moves everything and empties the WAL, waiting a little for readers; for the end.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn checkpoint_all(&self) -> Result<Checkpointed, StoreError> {
        run(self.connection(), "PRAGMA wal_checkpoint(TRUNCATE)")
    }
}

fn run(connection: &Connection, sql: &'static str) -> Result<Checkpointed, StoreError> {
    connection
        .query_row(sql, [], |row| {
            Ok(Checkpointed {
                wal_pages: row.get(1)?,
                moved_pages: row.get(2)?,
            })
        })
        .doing("checkpoint")
}
