//! What the last appends read of the tables that route them, kept for the next ones.
//!
//! Invariant: it is empty whenever anything but an append may have changed those tables. The one
//! writer says when that is; a file has no other. So under a burst an event costs no look at the
//! claims, links and lanes of a subject that the event before it looked at.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::routing::Claimant;

/// Entries of one kind; more are forgotten all at once.
const ENTRIES_MAX: usize = 4_096;

/// A lane as an append needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownLane {
    pub id: i64,
    pub head_event_id: i64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RouteMemory(RefCell<Known>);

#[derive(Debug, Default)]
struct Known {
    is_in_use: bool,
    claimants: HashMap<String, Vec<Claimant>>,
    unbound: HashSet<String>,
    lanes: HashMap<String, Vec<(i64, KnownLane)>>,
}

impl RouteMemory {
    /// Says whether an append comes next; before anything else all is forgotten, and nothing is
    /// remembered until the next append.
    pub(super) fn use_for(&self, is_append: bool) {
        let mut known = self.0.borrow_mut();
        if known.is_in_use && !is_append {
            *known = Known::default();
        }
        known.is_in_use = is_append;
    }

    /// Forgets all: what was remembered may have been undone.
    pub(super) fn forget(&self) {
        *self.0.borrow_mut() = Known::default();
    }

    /// Who claims a subject, if that is known.
    pub(super) fn claimants(&self, subject_key: &str) -> Option<Vec<Claimant>> {
        self.0.borrow().claimants.get(subject_key).cloned()
    }

    /// Remembers who claims a subject.
    pub(super) fn keep_claimants(&self, subject_key: &str, claimants: &[Claimant]) {
        let mut known = self.0.borrow_mut();
        if known.is_in_use {
            make_room(&mut known.claimants, HashMap::len, HashMap::clear);
            known
                .claimants
                .insert(subject_key.to_owned(), claimants.to_vec());
        }
    }

    /// True when a key is known to be bound to nothing.
    pub(super) fn is_unbound(&self, key: &str) -> bool {
        self.0.borrow().unbound.contains(key)
    }

    /// Remembers that a key is bound to nothing.
    pub(super) fn keep_unbound(&self, key: &str) {
        let mut known = self.0.borrow_mut();
        if known.is_in_use {
            make_room(&mut known.unbound, HashSet::len, HashSet::clear);
            known.unbound.insert(key.to_owned());
        }
    }

    /// A lane of a queue, if it is known.
    pub(super) fn lane(&self, lane_key: &str, instance_id: i64) -> Option<KnownLane> {
        let known = self.0.borrow();
        let lanes = known.lanes.get(lane_key)?;
        let found = lanes.iter().find(|(queue, _)| *queue == instance_id);
        found.map(|(_, lane)| *lane)
    }

    /// Remembers a lane of a queue.
    pub(super) fn keep_lane(&self, lane_key: &str, instance_id: i64, lane: KnownLane) {
        let mut known = self.0.borrow_mut();
        if known.is_in_use {
            make_room(&mut known.lanes, HashMap::len, HashMap::clear);
            let lanes = known.lanes.entry(lane_key.to_owned()).or_default();
            lanes.retain(|(queue, _)| *queue != instance_id);
            lanes.push((instance_id, lane));
        }
    }
}

fn make_room<T>(entries: &mut T, len: impl Fn(&T) -> usize, clear: impl Fn(&mut T)) {
    if len(entries) >= ENTRIES_MAX {
        clear(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: KnownLane = KnownLane {
        id: 1,
        head_event_id: 2,
    };

    #[test]
    fn nothing_outlives_a_write_that_is_no_append() {
        let memory = RouteMemory::default();
        memory.use_for(true);
        memory.keep_lane("loop-a", 1, LANE);
        memory.keep_unbound("a");
        memory.keep_claimants("loop-a", &[]);
        memory.use_for(true);
        assert_eq!(memory.lane("loop-a", 1), Some(LANE));
        assert!(memory.is_unbound("a") && memory.claimants("loop-a").is_some());
        memory.use_for(false);
        memory.keep_lane("loop-a", 1, LANE);
        memory.keep_unbound("a");
        memory.keep_claimants("loop-a", &[]);
        assert_eq!(memory.lane("loop-a", 1), None);
        assert!(!memory.is_unbound("a") && memory.claimants("loop-a").is_none());
        memory.use_for(true);
        assert_eq!(memory.lane("loop-a", 1), None);
    }

    #[test]
    fn a_lane_belongs_to_one_queue_and_is_known_as_last_seen() {
        let memory = RouteMemory::default();
        memory.use_for(true);
        memory.keep_lane("loop-a", 1, LANE);
        let later = KnownLane {
            id: 1,
            head_event_id: 1,
        };
        memory.keep_lane("loop-a", 1, later);
        assert_eq!(memory.lane("loop-a", 1), Some(later));
        assert_eq!(memory.lane("loop-a", 2), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let memory = RouteMemory::default();
        memory.use_for(true);
        for number in 0..=ENTRIES_MAX {
            memory.keep_unbound(&number.to_string());
        }
        assert!(!memory.is_unbound("0"));
        assert!(memory.is_unbound(&ENTRIES_MAX.to_string()));
    }
}
