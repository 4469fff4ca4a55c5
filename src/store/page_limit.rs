//! How many pages the file may have. For SQLite a file that may not grow is one on a full disk,
//! so a test can fill the disk of a gateway that runs, and free it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::Connection;

use super::error::{Doing, StoreError};

/// The most that SQLite allows.
const UNLIMITED: u32 = u32::MAX - 1;

/// A bound on the pages of the file, moved from outside; nothing but tests moves it.
#[derive(Debug, Clone)]
pub struct PageLimit(Arc<AtomicU32>);

impl Default for PageLimit {
    fn default() -> Self {
        Self(Arc::new(AtomicU32::new(UNLIMITED)))
    }
}

impl PageLimit {
    /// From the next batch on the file does not grow.
    pub fn fill(&self) {
        // Below its present size the file is held where it is.
        self.0.store(1, Ordering::Relaxed);
    }

    /// From the next batch on the file may grow again.
    pub fn free(&self) {
        self.0.store(UNLIMITED, Ordering::Relaxed);
    }

    /// Puts the bound in force when it was moved since; the bound that is in force now.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        in_force: Option<u32>,
    ) -> Result<Option<u32>, StoreError> {
        let wanted = Some(self.0.load(Ordering::Relaxed)).filter(|pages| *pages != UNLIMITED);
        if wanted != in_force {
            let pages = wanted.unwrap_or(UNLIMITED);
            connection
                .pragma_update(None, "max_page_count", pages)
                .doing("bound the pages of the file")?;
        }
        Ok(wanted)
    }
}
