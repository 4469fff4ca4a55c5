//! The ladder of schema versions, kept in `user_version`; one rung a transaction.

use rusqlite::Connection;

use super::error::OpenError;

/// "LOOP" in ASCII: tells a store of this program from any other SQLite file.
const APPLICATION_ID: i64 = 0x4c4f_4f50;

/// The rungs: applying number `n` takes a file from version `n` to `n + 1`.
const RUNGS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
];

/// The version of a file that may be brought to the newest one, 0 for a new file; changes nothing.
///
/// # Errors
/// When the file is foreign, newer or damaged.
pub(super) fn admit(connection: &Connection, path: &str) -> Result<i64, OpenError> {
    let failed = |source| OpenError::of(path, source);
    let found = version(connection).map_err(failed)?;
    let is_new = found == 0 && is_empty(connection).map_err(failed)?;
    if !is_new {
        check_ours(connection, path)?;
    }
    refuse_newer(path, found)?;
    Ok(found)
}

/// Brings a file from a version to the newest one.
///
/// # Errors
/// When a rung fails; a failed rung changes nothing.
pub(super) fn run(connection: &mut Connection, from: i64, path: &str) -> Result<(), OpenError> {
    for (number, rung) in (1_i64..).zip(RUNGS).filter(|(number, _)| *number > from) {
        climb(connection, number, rung).map_err(|source| OpenError::of(path, source))?;
    }
    Ok(())
}

/// Checks that a file is a store of exactly the newest version; changes nothing.
///
/// # Errors
/// When it is foreign, newer or older.
pub(super) fn check(connection: &Connection, path: &str) -> Result<(), OpenError> {
    let found = version(connection).map_err(|source| OpenError::of(path, source))?;
    check_ours(connection, path)?;
    refuse_newer(path, found)?;
    if found < newest() {
        return Err(OpenError::Older {
            path: path.to_owned(),
            found,
            known: newest(),
        });
    }
    Ok(())
}

/// Checks that a file is a store that may be brought to the newest version; changes nothing.
///
/// # Errors
/// When it is foreign or newer, or no store yet.
pub(super) fn check_known(connection: &Connection, path: &str) -> Result<(), OpenError> {
    let found = version(connection).map_err(|source| OpenError::of(path, source))?;
    check_ours(connection, path)?;
    refuse_newer(path, found)
}

fn check_ours(connection: &Connection, path: &str) -> Result<(), OpenError> {
    let id = application_id(connection).map_err(|source| OpenError::of(path, source))?;
    if id == APPLICATION_ID {
        Ok(())
    } else {
        Err(OpenError::Foreign {
            path: path.to_owned(),
        })
    }
}

fn refuse_newer(path: &str, found: i64) -> Result<(), OpenError> {
    if found <= newest() {
        return Ok(());
    }
    Err(OpenError::Newer {
        path: path.to_owned(),
        found,
        known: newest(),
    })
}

fn newest() -> i64 {
    i64::try_from(RUNGS.len()).unwrap_or(i64::MAX)
}

fn climb(connection: &mut Connection, number: i64, rung: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(rung)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", number)?;
    transaction.commit()
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn application_id(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| {
        row.get(0)
    })
}
