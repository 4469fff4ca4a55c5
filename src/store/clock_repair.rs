//! What stored times mean after the clock was set back.
//!
//! Due times and leases are wall time. One that lies further ahead than it could have been set to
//! was written before the clock went back; it is brought to its maximum from now, once, so that
//! no jump of the clock delays anything for longer than that.

use rusqlite::{Connection, params};

use super::error::{Doing, StoreError};
use super::settings::Settings;
use crate::domain::Timestamp;

/// Brings every lease, due time and hand-out time back into range.
pub(super) fn run(
    connection: &Connection,
    now: Timestamp,
    settings: &Settings,
) -> Result<(), StoreError> {
    let lease_end = now.plus(settings.wait_max_ms.saturating_add(settings.lease_max_ms));
    let due = now.plus(settings.retry_max_ms);
    let repairs = [
        (
            "UPDATE instances SET lease_until_ms = ?1 WHERE lease_until_ms > ?1",
            lease_end,
        ),
        (
            "UPDATE deliveries SET due_at_ms = ?1 WHERE state = 0 AND due_at_ms > 0
                 AND due_at_ms > ?1",
            due,
        ),
        (
            // Opened by the clock of before: due later again.
            "UPDATE lanes SET state = 1 WHERE state = 0 AND head_due_at_ms > ?1",
            now,
        ),
        (
            "UPDATE lanes SET head_due_at_ms = ?1 WHERE state = 1 AND head_due_at_ms > ?1",
            due,
        ),
        (
            "UPDATE deliveries SET handed_at_ms = ?1 WHERE state = 1 AND handed_at_ms > ?1",
            now,
        ),
        (
            "UPDATE events SET state_at_ms = ?1
             WHERE state IN ('held', 'grace', 'expired') AND state <> 'routed'
                 AND state_at_ms > ?1",
            now,
        ),
    ];
    for (sql, latest) in repairs {
        connection
            .execute(sql, params![latest.0])
            .doing("bring stored times back into range")?;
    }
    Ok(())
}
