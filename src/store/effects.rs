//! What the writes of a batch want done, once it is durable.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::InstanceName;
use crate::telemetry::{GatewayEvent, QueueTally};

/// What happens once a batch is durable.
#[derive(Debug, Default)]
pub struct Effects {
    /// Records for the event log, in order.
    pub events: Vec<GatewayEvent>,
    /// What is counted besides the records.
    pub tally: QueueTally,
    /// Queues on which something may be due.
    pub wakes: BTreeSet<InstanceName>,
    /// True when held events wait to be routed by [`RouteHeld`](super::RouteHeld).
    pub routing_pending: bool,
    /// True when the disk had room for a [`Probe`](super::Probe).
    pub is_proven: bool,
    /// Change of the number of stored events.
    pub events_delta: i64,
    /// Change of the number of held events.
    pub held_delta: i64,
    /// Change of the backlog by instance number.
    pub backlog_delta: BTreeMap<i64, i64>,
}

impl Effects {
    /// Adds what a successful write wants.
    pub(super) fn absorb(&mut self, other: Self) {
        self.events.extend(other.events);
        self.tally.absorb(other.tally);
        self.wakes.extend(other.wakes);
        self.routing_pending |= other.routing_pending;
        self.is_proven |= other.is_proven;
        self.events_delta = self.events_delta.saturating_add(other.events_delta);
        self.held_delta = self.held_delta.saturating_add(other.held_delta);
        for (instance, delta) in other.backlog_delta {
            self.add_backlog(instance, delta);
        }
    }

    /// Counts deliveries that became live (positive) or ended (negative).
    pub fn add_backlog(&mut self, instance_id: i64, delta: i64) {
        let total = self.backlog_delta.entry(instance_id).or_insert(0);
        *total = total.saturating_add(delta);
    }
}
