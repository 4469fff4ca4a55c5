//! What came in by which door, for metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::Provider;
use crate::providers::signature::WhichSecret;

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub(super) struct IngressCounters(Mutex<BTreeMap<(Provider, Counted), u64>>);

/// What is counted of a provider's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counted {
    /// Signed with this secret: a rotation is done when the previous one is not seen any more.
    Matched(WhichSecret),
    /// Refused before it was read.
    Refused,
    /// Answered with success.
    Accepted,
    /// Not decided in time, or the store failed.
    Failed,
}

impl IngressCounters {
    pub(super) fn count(&self, provider: Provider, what: Counted) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry((provider, what)).or_insert(0);
        *count = count.saturating_add(1);
    }

    pub(super) fn all(&self) -> BTreeMap<(Provider, Counted), u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
