//! Whether the store takes writes: one flag that everybody may read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the `StoreActor`; read by readiness, health and housekeeping.
#[derive(Debug, Clone, Default)]
pub struct StoreHealth(Arc<AtomicBool>);

impl StoreHealth {
    /// True unless the last batch failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    /// Notes how a batch ended; true when that is news.
    pub(super) fn note(&self, is_ok: bool) -> bool {
        let is_failing = !is_ok;
        self.0.swap(is_failing, Ordering::Relaxed) != is_failing
    }
}
