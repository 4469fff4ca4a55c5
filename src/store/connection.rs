//! Opening the file: every pragma that durability depends on, each with its reason.
//!
//! There is one writing connection, on one thread; readers are query-only and short. A read that
//! decides a write runs on the writing connection, in the write's transaction.

use std::path::Path;
use std::time::Duration;

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::{Connection, OpenFlags};

use super::error::{Doing, OpenError, StoreError};
use super::migrations;
use crate::broken::Break;

/// A WAL reset in older versions can lose committed writes.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// Four times the largest batch, so that a burst does not checkpoint within itself.
const WAL_PAGES_CHECKPOINT: u32 = 4_000;
/// The same where another connection checkpoints: far beyond what it leaves, and what comes while
/// a backup of a common size keeps it from doing so. A COMMIT that moved all that held up ingest.
const WAL_PAGES_CHECKPOINT_LATE: u32 = 64_000;
/// The WAL file is cut to this after a checkpoint, so that one burst does not keep the disk.
const WAL_BYTES_KEPT: u32 = 64 * 1024 * 1024;
/// The writer's page cache; negative says KiB to SQLite. Filled only as far as it is used.
const PAGE_CACHE_KIB: i32 = -16_384;
const READERS: u32 = 4;
const READER_WAIT: Duration = Duration::from_secs(5);
const STATEMENTS_CACHED: usize = 128;

/// A connection that views read on.
pub type ReadConnection = Connection;

/// A pool of query-only connections for the views.
pub type ReadPool = r2d2::Pool<SqliteConnectionManager>;

/// The SQLite that is linked in, and whether it is new enough to be trusted with a COMMIT.
#[must_use]
pub fn sqlite_version() -> (&'static str, bool) {
    let is_recent = rusqlite::version_number() >= SQLITE_VERSION_MIN;
    (rusqlite::version(), is_recent)
}

/// Opens the writing connection, creating or migrating the file.
///
/// # Errors
/// When the file is foreign, newer or damaged, when the linked SQLite is too old, or when the
/// database refuses a pragma.
pub fn open_writer(path: &Path) -> Result<Connection, OpenError> {
    let (found, is_recent) = sqlite_version();
    if !is_recent {
        return Err(OpenError::Sqlite { found });
    }
    let shown = path.display().to_string();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = open(path, flags).map_err(|source| OpenError::of(&shown, source))?;
    // First, and without changing anything: the file may be somebody else's.
    let version = migrations::admit(&connection, &shown)?;
    set_pragmas(&connection).map_err(|source| OpenError::of(&shown, source))?;
    migrations::run(&mut connection, version, &shown)?;
    settle_log(&connection).map_err(|source| OpenError::of(&shown, source))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(connection)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door that the ban points to"
)]
fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Opens a connection that moves the write-ahead log of a file and changes nothing else; the file
/// must exist.
///
/// # Errors
/// When no connection can be made.
pub fn open_checkpointer(path: &Path) -> Result<Connection, OpenError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|connection| {
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "checkpoint_fullfsync", true)?;
            connection.pragma_update(None, "wal_autocheckpoint", 0)?;
            // Opens the log, so that trouble with it shows now.
            connection.query_row("SELECT value FROM counters LIMIT 1", [], |_| Ok(()))?;
            Ok(connection)
        })
        .map_err(|source| OpenError::of(&path.display().to_string(), source))
}

/// Lets the log of the writing connection grow longer, as another connection checkpoints it; at
/// that length a COMMIT still does.
///
/// # Errors
/// When the database refuses.
pub fn expect_checkpoints(writer: &Connection) -> Result<(), StoreError> {
    writer
        .pragma_update(None, "wal_autocheckpoint", WAL_PAGES_CHECKPOINT_LATE)
        .doing("set the length of the log")
}

/// Opens a query-only connection to a file that no gateway has open, or has; the file must exist.
///
/// # Errors
/// When the file is missing, foreign, damaged, or of another schema version.
pub fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let shown = path.display().to_string();
    let connection = open_query_only(path).map_err(|source| OpenError::of(&shown, source))?;
    migrations::check(&connection, &shown)?;
    Ok(connection)
}

/// As [`open_reader`], also for a file of an older schema version: to copy it.
///
/// # Errors
/// When the file is missing, foreign, damaged, or of a newer schema version.
pub(super) fn open_source(path: &Path) -> Result<Connection, OpenError> {
    let shown = path.display().to_string();
    let connection = open_query_only(path).map_err(|source| OpenError::of(&shown, source))?;
    migrations::check_known(&connection, &shown)?;
    Ok(connection)
}

fn open_query_only(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.busy_timeout(READER_WAIT)?;
    Ok(connection)
}

/// Opens an empty file to copy a store into. Nothing is kept for a rollback: a copy that breaks
/// off is thrown away.
pub(super) fn open_target(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "journal_mode", "OFF")?;
    Ok(connection)
}

/// Opens a copy that nobody else has open, to make one file of it.
pub(super) fn open_copy(path: &Path) -> rusqlite::Result<Connection> {
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Sets what makes a COMMIT durable, and what keeps the file small.
fn set_pragmas(connection: &Connection) -> rusqlite::Result<()> {
    // Only takes effect before the first table: lets retention give pages back in small steps.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // FULL syncs the WAL at every COMMIT: a power cut loses nothing that was acknowledged.
    let synchronous = if Break::SynchronousNormal.is_on() {
        "NORMAL"
    } else {
        "FULL"
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // macOS: fsync alone leaves the data in the drive's cache.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES_CHECKPOINT)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Keys are spread at random: what a batch touches must not be read again for the next one.
    connection.pragma_update(None, "cache_size", PAGE_CACHE_KIB)?;
    // The file is ours alone: wait for a reader's checkpoint rather than fail.
    connection.busy_timeout(READER_WAIT)
}

/// Copies what the write-ahead log holds into the file, before anybody is answered.
///
/// A process before this one may have written to the log what it could not sync. Then the system
/// can hold it for clean: it is read as if it were on disk, a sync that works passes it over, and a
/// power cut takes it away with everything that was appended behind it. Written anew it is safe.
fn settle_log(connection: &Connection) -> rusqlite::Result<()> {
    let is_held_up = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, bool>(0)
    })?;
    if is_held_up {
        tracing::warn!("a reader keeps the write-ahead log from being emptied at the start");
    }
    Ok(())
}

/// Opens the pool of query-only connections; the file must exist.
///
/// # Errors
/// When no connection can be made in time.
pub fn open_readers(path: &Path) -> Result<ReadPool, OpenError> {
    open_readers_within(path, READER_WAIT)
}

fn open_readers_within(path: &Path, wait: Duration) -> Result<ReadPool, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let manager = SqliteConnectionManager::file(path)
        .with_flags(flags)
        .with_init(|connection| {
            connection.pragma_update(None, "query_only", true)?;
            connection.busy_timeout(READER_WAIT)
        });
    r2d2::Pool::builder()
        .max_size(READERS)
        .min_idle(Some(1))
        .connection_timeout(wait)
        .build(manager)
        .map_err(|error| OpenError::Readers {
            path: path.display().to_string(),
            seconds: wait.as_secs_f64(),
            detail: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_that_cannot_be_made_in_time_are_no_damage_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing.db");
        let error = open_readers_within(&path, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, OpenError::Readers { .. }), "{error}");
        let told = error.to_string();
        assert!(
            told.contains("missing.db was made within 0.02 s: "),
            "{told}"
        );
        assert!(!told.contains("damaged"), "{told}");
    }
}
