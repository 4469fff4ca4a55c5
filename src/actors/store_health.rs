//! How the store is: what everybody may read without asking an actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Kept by the `StoreActor` and by housekeeping; read by readiness, health and metrics.
#[derive(Debug, Clone, Default)]
pub struct StoreHealth(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_failing: AtomicBool,
    unattended: AtomicU64,
}

impl StoreHealth {
    /// True unless the last batch failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        !self.0.is_failing.load(Ordering::Relaxed)
    }

    /// Notes how a batch ended; true when that is news.
    pub(super) fn note(&self, is_ok: bool) -> bool {
        let is_failing = !is_ok;
        self.0.is_failing.swap(is_failing, Ordering::Relaxed) != is_failing
    }

    /// Claimed subjects with a backlog whose claimants do not fetch.
    #[must_use]
    pub fn unattended(&self) -> u64 {
        self.0.unattended.load(Ordering::Relaxed)
    }

    pub(super) fn note_unattended(&self, subjects: u64) {
        self.0.unattended.store(subjects, Ordering::Relaxed);
    }
}
