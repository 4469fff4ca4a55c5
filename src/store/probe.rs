//! A write that changes nothing, to learn whether the disk takes writes again.

use super::error::StoreError;
use super::writer::{Tx, Write};

/// Writes what is there already. Sent by housekeeping while the store is failing: without it, a
/// gateway that nobody sends anything to would never notice that the disk has room again.
#[derive(Debug, Clone, Copy)]
pub struct Probe;

impl Write for Probe {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.execute(
            "UPDATE counters SET value = value WHERE name = 'events'",
            [],
            "try the disk",
        )?;
        Ok(())
    }
}
