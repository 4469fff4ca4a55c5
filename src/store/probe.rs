//! Writes that learn whether the disk takes writes again.
//!
//! What needs no room succeeds on a full disk too, so only a write that needs some proves that
//! the store is well; else every renewed lease would end the alarm, and every delivery raise it.

use rusqlite::params;

use super::error::StoreError;
use super::writer::{Tx, Write};

/// As much as a large delivery takes.
const PROBE_BYTES: u32 = 64 * 1024;

/// Takes up room. Sent by housekeeping while the store is failing: without it, a gateway that
/// nobody sends anything to would never notice that the disk has room again.
#[derive(Debug, Clone, Copy)]
pub struct Probe;

/// Gives back the room that [`Probe`] took up; sent after it.
#[derive(Debug, Clone, Copy)]
pub struct EndProbe;

impl Write for Probe {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.execute(
            "INSERT INTO probes (filler) VALUES (zeroblob(?1))",
            params![PROBE_BYTES],
            "try the disk",
        )?;
        tx.effects.is_proven = true;
        Ok(())
    }
}

impl Write for EndProbe {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.execute("DELETE FROM probes", [], "end the try")?;
        Ok(())
    }
}
