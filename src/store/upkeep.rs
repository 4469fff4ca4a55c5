//! What keeps the file small: checkpoints of the write-ahead log and pages given back. Runs on
//! the writing connection, between batches, never within one.

use rusqlite::Connection;

use super::error::{Doing, StoreError};

/// How much a checkpoint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointMode {
    /// Moves what no reader holds up, and waits for nobody.
    Passive,
    /// Waits for readers, then leaves an empty log behind.
    Truncate,
}

/// What a checkpoint did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointed {
    /// Pages in the log.
    pub log_pages: u64,
    /// Pages of them that are in the database now.
    pub moved_pages: u64,
    /// True when a reader or writer kept it from finishing.
    pub is_held_up: bool,
}

/// Moves the write-ahead log into the database.
///
/// # Errors
/// When the disk fails.
pub fn checkpoint(
    connection: &Connection,
    mode: CheckpointMode,
) -> Result<Checkpointed, StoreError> {
    let sql = match mode {
        CheckpointMode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        CheckpointMode::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    connection
        .query_row(sql, [], |row| {
            let pages = |column| row.get::<_, i64>(column).map(|pages| pages.max(0));
            Ok(Checkpointed {
                is_held_up: row.get(0)?,
                log_pages: pages(1)?.unsigned_abs(),
                moved_pages: pages(2)?.unsigned_abs(),
            })
        })
        .doing("checkpoint")
}

/// Gives back at most so many unused pages to the file system; tells how many are left.
///
/// # Errors
/// When the disk fails.
pub fn give_back_pages(connection: &Connection, pages_max: u32) -> Result<u64, StoreError> {
    let sql = format!("PRAGMA incremental_vacuum({pages_max})");
    // Every step gives back one page, so the statement has to be run to its end.
    connection
        .prepare(&sql)
        .and_then(|mut statement| {
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        })
        .doing("give back pages")?;
    unused_pages(connection)
}

/// Pages of the file that hold nothing.
///
/// # Errors
/// When the database cannot be read.
pub fn unused_pages(connection: &Connection) -> Result<u64, StoreError> {
    connection
        .pragma_query_value(None, "freelist_count", |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
        .doing("count unused pages")
}

/// Bytes of the file that hold something; the write-ahead log is not among them.
///
/// # Errors
/// When the database cannot be read.
pub fn used_bytes(connection: &Connection) -> Result<u64, StoreError> {
    connection
        .prepare_cached(
            "SELECT (page_count - freelist_count) * page_size
             FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()",
        )
        .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
        .map(i64::unsigned_abs)
        .doing("measure the file")
}
