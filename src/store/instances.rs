//! The rows of instances: made when a name first publishes or fetches something.

use rusqlite::params;

use super::error::StoreError;
use super::writer::Tx;
use crate::domain::InstanceName;

/// The number of an instance, whose row is made if there is none.
pub(super) fn ensure(tx: &Tx<'_>, name: &InstanceName) -> Result<i64, StoreError> {
    if let Some(id) = find(tx, name)? {
        return Ok(id);
    }
    tx.execute(
        "INSERT INTO instances (name, created_at_ms) VALUES (?1, ?2)",
        params![name.as_str(), tx.now.0],
        "make an instance",
    )?;
    Ok(tx.connection.last_insert_rowid())
}

/// The number of an instance that has a row.
pub(super) fn find(tx: &Tx<'_>, name: &InstanceName) -> Result<Option<i64>, StoreError> {
    tx.first(
        "SELECT id FROM instances WHERE name = ?1",
        params![name.as_str()],
        |row| row.get(0),
        "find an instance",
    )
}
