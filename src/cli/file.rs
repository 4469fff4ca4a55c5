//! The rows of a gateway that is down: its file, opened for reading only.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use crate::domain::Timestamp;
use crate::store::views::{self, Page, PageRequest};
use crate::store::{ReadConnection, StoreError, open_reader};

const ROWS_A_PAGE: u32 = 1000;

/// A list that the file can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// The subjects.
    Subjects,
    /// The queues.
    Queues,
    /// The instances.
    Instances,
}

/// Opens the file, for reading only.
///
/// # Errors
/// [`Failure::NoStore`] when there is none; [`Failure::Unreadable`] when it cannot be read.
pub(super) fn open(path: &Path) -> Result<ReadConnection, Failure> {
    if path.try_exists().is_ok_and(|exists| !exists) {
        return Err(Failure::NoStore(path.to_owned()));
    }
    open_reader(path).map_err(|error| unreadable(path, &error))
}

/// Why the file cannot be read.
pub(super) fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Unreadable {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// All rows of a list, as the API would give them.
///
/// # Errors
/// [`Failure::NoStore`] when there is no file; [`Failure::Unreadable`] when it cannot be read.
pub(super) fn rows(which: Rows, path: &Path, now: Timestamp) -> Result<Vec<Value>, Failure> {
    let connection = open(path)?;
    let unreadable = |why: &dyn std::fmt::Display| unreadable(path, why);
    let mut rows = Vec::new();
    let mut page = PageRequest {
        limit: ROWS_A_PAGE,
        after: None,
    };
    loop {
        let next = match which {
            Rows::Subjects => extend(&mut rows, views::subjects(&connection, now, &page)),
            Rows::Queues => extend(&mut rows, views::queues(&connection, now, &page)),
            Rows::Instances => extend(&mut rows, views::instances(&connection, now, &page)),
        };
        page.after = next.map_err(|error| unreadable(&error))?;
        if page.after.is_none() {
            return Ok(rows);
        }
    }
}

/// Adds the rows of a page and returns where the next one begins.
fn extend<T: Serialize>(
    rows: &mut Vec<Value>,
    page: Result<Page<T>, StoreError>,
) -> Result<Option<String>, StoreError> {
    let Page { rows: more, next } = page?;
    for row in more {
        let row = serde_json::to_value(row);
        rows.push(row.map_err(|error| StoreError::Corrupt(error.to_string()))?);
    }
    Ok(next)
}
