//! The state root, held by a command that must be alone with it: no gateway starts meanwhile.

use std::path::Path;

use super::StartError;
use super::lock::{StateLock, create_root};

/// The lock of a gateway, held by something else; released when dropped.
#[derive(Debug)]
pub struct StateHold {
    _lock: StateLock,
}

impl StateHold {
    /// Takes the lock of a state root, which is made if it is not there.
    ///
    /// # Errors
    /// [`StartError::AlreadyRunning`] while a gateway runs on it; [`StartError::StateRoot`] when
    /// it cannot be used.
    pub fn take(root: &Path) -> Result<Self, StartError> {
        create_root(root)?;
        let lock = StateLock::acquire(root)?;
        lock.withhold_pid()?;
        Ok(Self { _lock: lock })
    }
}
