//! A store that grew beyond its bound: what is consumed goes early, then what nobody consumes.
//! What is on a queue is never dropped for space.

use super::{Sweep, ended, expiry};
use crate::store::error::StoreError;
use crate::store::upkeep;
use crate::store::writer::Tx;

/// Drops settled deliveries, oldest first, then expires held events, until the store fits.
pub(super) fn make_room(
    tx: &mut Tx<'_>,
    sweep: &mut Sweep,
    wal_bytes: u64,
) -> Result<(), StoreError> {
    while is_too_big(tx, wal_bytes)? && !sweep.is_over(tx) {
        let made = ended::drop_oldest_settled(tx, sweep)? || expiry::expire_oldest_held(tx, sweep)?;
        if !made {
            break;
        }
    }
    Ok(())
}

fn is_too_big(tx: &Tx<'_>, wal_bytes: u64) -> Result<bool, StoreError> {
    let bytes = upkeep::used_bytes(tx.connection)?.saturating_add(wal_bytes);
    Ok(bytes > tx.settings.store_bytes_max)
}
