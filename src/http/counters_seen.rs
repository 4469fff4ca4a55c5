//! What is remembered for those who ask while the store does not answer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::views::HealthCounters;

/// The counters of the store when they could last be read.
#[derive(Debug, Default)]
pub(super) struct CountersSeen(Mutex<HealthCounters>);

impl CountersSeen {
    /// Remembers counters, and gives them back.
    pub(super) fn replace(&self, counters: HealthCounters) -> HealthCounters {
        self.lock().clone_from(&counters);
        counters
    }

    pub(super) fn last(&self) -> HealthCounters {
        self.lock().clone()
    }

    /// Whatever is in there is whole: it is replaced at once.
    fn lock(&self) -> MutexGuard<'_, HealthCounters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
