//! Copies of the store: one made while a gateway writes, and one made ready to take the place of
//! a store that is lost.
//!
//! A copy is one moment: the source is read in one transaction from beginning to end. That holds
//! no writer up, but the write-ahead log cannot be emptied meanwhile; so its growth is told, and
//! a copy that lets it grow too much gives up. Nothing here changes the source.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::connection::{open_copy, open_source, open_target};
use super::error::{Doing, OpenError, StoreError};

/// What restoring adds to the numbers of a copy, so that none is given out again that was given
/// out after the copy was made. More than a gateway hands out between two backups.
pub const NUMBERS_RAISED_BY: i64 = 1_000_000;

/// 1 MiB at a time: progress moves, a signal ends it soon, and its sync is short.
const PAGES_A_STEP: i32 = 256;
/// Between two steps: the gateway's own syncs go first.
const PAUSE: Duration = Duration::from_millis(5);
/// The source is busy only for moments, while it is opened or recovered.
const BUSY_STEPS_MAX: u32 = 500;
const BUSY_WAIT: Duration = Duration::from_millis(20);
/// More than a gateway at full ingest writes while some GiB are copied; then the disk is more
/// important than the copy.
const LOG_GROWTH_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// How far a copy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that are copied.
    pub bytes: u64,
    /// Bytes in all.
    pub of: u64,
    /// By how many bytes the write-ahead log of the source grew meanwhile.
    pub log_growth: u64,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source is no store that can be read.
    #[error(transparent)]
    Source(#[from] OpenError),
    /// Reading or writing failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The copy cannot be written.
    #[error("cannot write {}: {fault}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        fault: io::Error,
    },
    /// The gateway writes more than the disk should hold.
    #[error(
        "given up: the write-ahead log grew by {} MiB while the store was copied; \
         copy to a faster disk, or when less arrives",
        .0 >> 20
    )]
    LogGrew(u64),
    /// Somebody has the source locked.
    #[error("the store stays locked by another program")]
    Busy,
}

impl CopyError {
    fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |fault| Self::Write { path, fault }
    }
}

/// What is in a store, for a person to recognise it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreSize {
    /// Stored events.
    pub events: u64,
    /// Deliveries that are ready or in hand.
    pub live: u64,
    /// Events on no queue yet.
    pub held: u64,
}

/// Copies a store, of which a gateway may be the writer, into a new file for its owner alone.
///
/// # Errors
/// As [`CopyError`] says; what is written so far stays at the target.
pub fn copy_store(
    source: &Path,
    target: &Path,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied, CopyError> {
    const DOING: &str = "copy the store";
    let from = open_source(source)?;
    let file = create_file(target)?;
    let mut to = open_target(target).doing(DOING)?;
    let page_bytes: i64 = from
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .doing(DOING)?;
    let page_bytes = page_bytes.unsigned_abs();
    let log_bytes_before = log_bytes(source);
    // Within a transaction that reads, no write of others makes the copy begin again.
    let moment = from.unchecked_transaction().doing(DOING)?;
    read_something(&moment).doing(DOING)?;
    let backup = Backup::new(&from, &mut to).doing(DOING)?;
    let mut busy_steps = 0_u32;
    loop {
        let step = backup.step(PAGES_A_STEP).doing(DOING)?;
        let pages = backup.progress();
        let all = unsigned(pages.pagecount);
        let copied = Copied {
            bytes: all
                .saturating_sub(unsigned(pages.remaining))
                .saturating_mul(page_bytes),
            of: all.saturating_mul(page_bytes),
            log_growth: log_bytes(source).saturating_sub(log_bytes_before),
        };
        progress(copied);
        match step {
            StepResult::Done => return Ok(copied),
            StepResult::More if copied.log_growth > LOG_GROWTH_MAX => {
                return Err(CopyError::LogGrew(copied.log_growth));
            }
            StepResult::More => {
                // Little by little: all at once it would hold up the syncs of the gateway.
                file.sync_data().map_err(CopyError::writing(target))?;
                std::thread::park_timeout(PAUSE);
            }
            StepResult::Busy | StepResult::Locked | _ => {
                busy_steps = busy_steps.saturating_add(1);
                if busy_steps > BUSY_STEPS_MAX {
                    return Err(CopyError::Busy);
                }
                std::thread::park_timeout(BUSY_WAIT);
            }
        }
    }
}

/// Makes one file of a copy, without a write-ahead log beside it, and waits until the disk has it.
///
/// # Errors
/// When the disk fails.
pub fn settle_copy(copy: &Path) -> Result<(), CopyError> {
    const DOING: &str = "settle the copy";
    let connection = open_copy(copy).doing(DOING)?;
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))
        .doing(DOING)?;
    if mode != "delete" {
        return Err(StoreError::Aborted(format!("the copy stays in mode {mode}")).into());
    }
    drop(connection);
    let synced = File::open(copy).and_then(|file| file.sync_all());
    synced.map_err(CopyError::writing(copy))
}

/// Raises the numbers of events, deliveries and responses by [`NUMBERS_RAISED_BY`].
///
/// What an instance still says about a delivery of the lost time is then about a number below the
/// highest, without a row: it hits nothing, and wedges nobody.
///
/// # Errors
/// When the disk fails; then nothing is changed.
pub fn raise_numbers(connection: &Connection) -> Result<(), StoreError> {
    const DOING: &str = "raise the numbers";
    let change = connection.unchecked_transaction().doing(DOING)?;
    let by = [NUMBERS_RAISED_BY];
    change
        .execute("UPDATE sqlite_sequence SET seq = seq + ?1", by)
        .doing(DOING)?;
    // A table that never had a row has no sequence yet, and may have given out some since.
    for table in ["events", "deliveries"] {
        change
            .execute(
                "INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2
                 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
                (table, NUMBERS_RAISED_BY),
            )
            .doing(DOING)?;
    }
    change
        .execute("UPDATE instances SET last_number = last_number + ?1", by)
        .doing(DOING)?;
    change.commit().doing(DOING)
}

/// Counts what is in a store.
///
/// # Errors
/// When it cannot be read.
pub fn size_of(connection: &Connection) -> Result<StoreSize, StoreError> {
    connection
        .query_row(
            "SELECT (SELECT value FROM counters WHERE name = 'events'),
                 (SELECT coalesce(sum(backlog), 0) FROM instances),
                 (SELECT value FROM counters WHERE name = 'held')",
            [],
            |row| {
                let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                Ok(StoreSize {
                    events: count(0)?,
                    live: count(1)?,
                    held: count(2)?,
                })
            },
        )
        .doing("count what is in a store")
}

fn create_file(path: &Path) -> Result<File, CopyError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(CopyError::writing(path))
}

/// A transaction begins to see its moment with its first read.
fn read_something(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_query_value(None, "schema_version", |_| Ok(()))
}

/// The size of the write-ahead log beside a store; 0 without one.
fn log_bytes(store: &Path) -> u64 {
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(0, |metadata| metadata.len())
}

fn unsigned(pages: i32) -> u64 {
    u64::try_from(pages).unwrap_or(0)
}
