//! Constant queries on a connection: what writes and views read with.

use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::error::{Doing, StoreError};

/// The first row of a constant query, if there is one.
pub(super) fn first<P: Params, T>(
    connection: &Connection,
    sql: &'static str,
    params: P,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    doing: &'static str,
) -> Result<Option<T>, StoreError> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row(params, read).optional())
        .doing(doing)
}

/// All rows of a constant query; the query bounds their number.
pub(super) fn all<P: Params, T>(
    connection: &Connection,
    sql: &'static str,
    params: P,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    doing: &'static str,
) -> Result<Vec<T>, StoreError> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map(params, read)?.collect())
        .doing(doing)
}
