//! Bounds on what may be in progress at once; whoever is above one is told so, never queued.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of things of which so many may be taken at once.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    taken: AtomicU64,
    max: AtomicU64,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Self {
        Self(Arc::new(Counter {
            taken: AtomicU64::new(0),
            max: AtomicU64::new(max),
        }))
    }

    /// Sets another bound; what is taken already stays taken.
    pub(crate) fn set_max(&self, max: u64) {
        self.0.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Takes some, unless that would be more than there is.
    pub(crate) fn take(&self, amount: u64) -> Option<Share> {
        let mut share = Share {
            budget: self.clone(),
            amount: 0,
        };
        share.grow(amount).then_some(share)
    }
}

/// What was taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    amount: u64,
}

impl Share {
    /// Takes more; false, and nothing taken, when that would be more than there is.
    pub(crate) fn grow(&mut self, amount: u64) -> bool {
        let counter = &self.budget.0;
        let before = counter.taken.fetch_add(amount, Ordering::Relaxed);
        let is_within = before.saturating_add(amount) <= counter.max.load(Ordering::Relaxed);
        if is_within {
            self.amount = self.amount.saturating_add(amount);
        } else {
            counter.taken.fetch_sub(amount, Ordering::Relaxed);
        }
        is_within
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget
            .0
            .taken
            .fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_and_a_share_comes_back() {
        let budget = Budget::new(10);
        let mut one = budget.take(6).unwrap();
        assert!(budget.take(5).is_none());
        assert!(one.grow(4));
        assert!(!one.grow(1));
        assert_eq!(budget.taken(), 10);
        drop(one);
        assert_eq!(budget.taken(), 0);
        budget.set_max(0);
        assert!(budget.take(1).is_none());
    }
}
