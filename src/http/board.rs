//! What is remembered for those who ask: the state of each adapter, the counters last seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::views::HealthCounters;

/// Where each adapter stands, as it said last.
#[derive(Debug, Clone, Default)]
pub struct IngressBoard(Arc<Mutex<BTreeMap<String, &'static str>>>);

impl IngressBoard {
    /// Notes where an adapter stands: up, connecting, backing-off, missing-secret, disabled or
    /// failed.
    pub fn set(&self, ingress: &str, state: &'static str) {
        lock(&self.0).insert(ingress.to_owned(), state);
    }

    /// Where all of them stand.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, &'static str> {
        lock(&self.0).clone()
    }
}

/// The counters of the store when they could last be read.
#[derive(Debug, Default)]
pub(super) struct CountersSeen(Mutex<HealthCounters>);

impl CountersSeen {
    /// Remembers counters, and gives them back.
    pub(super) fn replace(&self, counters: HealthCounters) -> HealthCounters {
        lock(&self.0).clone_from(&counters);
        counters
    }

    pub(super) fn last(&self) -> HealthCounters {
        lock(&self.0).clone()
    }
}

/// Whatever is in there is whole: it is replaced at once.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
