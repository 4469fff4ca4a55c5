//! What a batch did to the queues, as far as no record of the event log says so.

use std::collections::BTreeMap;

use crate::domain::Provider;

/// Collected while a batch is applied, counted once it is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueTally {
    /// Deliveries handed out as their first attempt.
    pub handed_first: u64,
    /// Deliveries handed out as a later attempt.
    pub handed_again: u64,
    /// Hand-outs that counted against their delivery.
    pub strikes: u64,
    /// Deliveries given back untried.
    pub released: u64,
    /// Events that a poll or the catch-up brought before anything else did.
    pub polled_first: BTreeMap<Provider, u64>,
}

impl QueueTally {
    /// Adds what a write of the batch did.
    pub fn absorb(&mut self, other: Self) {
        let Self {
            handed_first,
            handed_again,
            strikes,
            released,
            polled_first,
        } = other;
        self.handed_first = self.handed_first.saturating_add(handed_first);
        self.handed_again = self.handed_again.saturating_add(handed_again);
        self.strikes = self.strikes.saturating_add(strikes);
        self.released = self.released.saturating_add(released);
        for (provider, count) in polled_first {
            let total = self.polled_first.entry(provider).or_insert(0);
            *total = total.saturating_add(count);
        }
    }

    /// Counts a delivery that goes out as this attempt.
    pub fn hand_out(&mut self, attempt: u32) {
        let count = if attempt > 1 {
            &mut self.handed_again
        } else {
            &mut self.handed_first
        };
        *count = count.saturating_add(1);
    }
}
