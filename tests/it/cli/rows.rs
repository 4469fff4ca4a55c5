//! The store of a program, seen and changed from outside.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

#[expect(clippy::disallowed_methods, reason = "the test looks from outside")]
fn open(path: &Path, flags: OpenFlags) -> Connection {
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).unwrap()
}

/// One number out of a store.
pub(super) fn number(path: &Path, sql: &str) -> i64 {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Changes a store, whoever has it open.
pub(super) fn execute(path: &Path, sql: &str) {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    connection
        .busy_timeout(std::time::Duration::from_secs(5))
        .unwrap();
    connection.execute_batch(sql).unwrap();
}
