//! The rows of instances: made when a name first publishes or fetches something.

use rusqlite::params;

use super::error::StoreError;
use super::writer::Tx;
use crate::domain::InstanceName;

/// Names that are looked through for the one that was meant.
const KNOWN_MAX: i64 = 10_000;

/// The number of an instance, whose row is made if there is none.
pub(super) fn ensure(tx: &Tx<'_>, name: &InstanceName) -> Result<i64, StoreError> {
    let found = tx.first(
        "SELECT id, forgotten_at_ms > 0 FROM instances WHERE name = ?1",
        params![name.as_str()],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?)),
        "find an instance",
    )?;
    match found {
        Some((id, false)) => Ok(id),
        Some((id, true)) => {
            remember(tx, id)?;
            Ok(id)
        }
        None => insert(tx, name),
    }
}

/// An instance that was forgotten is there again, as if it were new.
fn remember(tx: &Tx<'_>, id: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE instances SET forgotten_at_ms = 0, created_at_ms = ?2 WHERE id = ?1",
        params![id, tx.now.0],
        "remember an instance",
    )?;
    Ok(())
}

fn insert(tx: &Tx<'_>, name: &InstanceName) -> Result<i64, StoreError> {
    tx.execute(
        "INSERT INTO instances (name, created_at_ms) VALUES (?1, ?2)",
        params![name.as_str(), tx.now.0],
        "make an instance",
    )?;
    Ok(tx.connection.last_insert_rowid())
}

/// The number of an instance that has a row, forgotten or not.
pub(super) fn find(tx: &Tx<'_>, name: &InstanceName) -> Result<Option<i64>, StoreError> {
    tx.first(
        "SELECT id FROM instances WHERE name = ?1",
        params![name.as_str()],
        |row| row.get(0),
        "find an instance",
    )
}

/// True when an instance has a row and was not forgotten.
pub(super) fn is_known(tx: &Tx<'_>, name: &InstanceName) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM instances WHERE name = ?1 AND forgotten_at_ms = 0",
        params![name.as_str()],
        |_| Ok(()),
        "look for an instance",
    )?;
    Ok(found.is_some())
}

/// The names that are known, for people and in their order; some of them when there are very many.
pub(super) fn known(tx: &Tx<'_>) -> Result<Vec<String>, StoreError> {
    let mut names = tx.all(
        "SELECT name FROM instances WHERE forgotten_at_ms = 0 LIMIT ?1",
        params![KNOWN_MAX],
        |row| row.get(0),
        "read the names of the instances",
    )?;
    names.sort();
    Ok(names)
}
