//! Deliveries that met their last strike and that nothing replaced yet.

use rusqlite::{Connection, params};
use serde::Serialize;

use super::events::{EventRow, event_columns, read_row};
use super::story::shown_outcome;
use super::{Page, PageRequest, ViewError, numbers, shown_text};
use crate::domain::Timestamp;
use crate::store::read;

/// One dead delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadRow {
    /// Its number.
    pub seq: i64,
    /// On whose queue it died.
    pub instance: String,
    /// Its event.
    pub event: EventRow,
    /// Its strikes.
    pub strikes: i64,
    /// The last outcome that counted; none when it vanished or was overdue each time.
    pub last_outcome: Option<String>,
    /// What the instance said with it.
    pub detail: Option<String>,
    /// When it died.
    pub dead_at: String,
}

const DEAD: &str = concat!(
    "SELECT d.seq, coalesce(i.name, ''), d.strikes, d.outcome, d.detail, d.ended_at_ms, ",
    event_columns!(),
    " FROM deliveries d
          JOIN events e ON e.id = d.event_id
          LEFT JOIN instances i ON i.id = d.instance_id
      WHERE d.state = 3 AND d.state >= 2 AND d.replaced = 0
          AND d.ended_at_ms <= ?1 AND (d.ended_at_ms, d.seq) < (?1, ?2)
      ORDER BY d.ended_at_ms DESC, d.seq DESC LIMIT ?3"
);

/// The dead deliveries, newest first.
///
/// # Errors
/// When the position is none of this list, or the store cannot be read.
pub fn dead(connection: &Connection, page: &PageRequest) -> Result<Page<DeadRow>, ViewError> {
    let (after_ms, after_seq) = page.after_numbers()?.unwrap_or((i64::MAX, i64::MAX));
    let rows = read::all(
        connection,
        DEAD,
        params![after_ms, after_seq, page.limit_and_one()],
        |row| {
            let died_at: i64 = row.get(5)?;
            let dead = DeadRow {
                seq: row.get(0)?,
                instance: row.get(1)?,
                event: read_row(row, 6)?,
                strikes: row.get(2)?,
                last_outcome: shown_outcome(row.get(3)?),
                detail: shown_text(row.get(4)?),
                dead_at: Timestamp(died_at).to_string(),
            };
            Ok((dead, died_at))
        },
        "list dead deliveries",
    )?;
    let page = page.page(rows, |(row, died_at)| numbers(*died_at, row.seq));
    Ok(Page {
        rows: page.rows.into_iter().map(|(row, _)| row).collect(),
        next: page.next,
    })
}
