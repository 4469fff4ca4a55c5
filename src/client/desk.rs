//! What the client has in hand, and what it is going to say of it. Pure: no I/O, no clock.
//!
//! Deliveries of one subject form a lane: one of them is worked on at a time. An outcome is kept
//! until the gateway has confirmed it. Must not know how deliveries come, or outcomes go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::{BackOff, Waits};
use super::handler::clip;
use super::{Delivery, Handled};
use crate::domain::{CommitItem, Outcome, Seq, Subject};

/// The bounds of what is in hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Deliveries worked on at once.
    pub(super) concurrency: usize,
    /// Deliveries asked for at once.
    pub(super) batch: usize,
    /// Deliveries in hand, worked on or not.
    pub(super) in_hand: usize,
    /// How long a target that is down is left alone.
    pub(super) back_off: BackOff,
}

/// What is in hand.
#[derive(Debug)]
pub(super) struct Desk {
    bounds: Bounds,
    lanes: BTreeMap<LaneKey, Lane>,
    running: BTreeMap<Seq, LaneKey>,
    outages: BTreeMap<String, TargetOutage>,
    outcomes: BTreeMap<Seq, Pending>,
    counts: BTreeMap<String, u64>,
}

/// Deliveries without a work item have no order among themselves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKey {
    Subject(String),
    Alone(Seq),
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Arc<Delivery>>,
    running: Option<Arc<Delivery>>,
    /// The target that its first delivery waits for.
    waits_for: Option<String>,
}

/// A target that is down.
#[derive(Debug)]
struct TargetOutage {
    waits: Waits,
    try_at: Instant,
    /// The delivery that tries whether it is back.
    probe: Option<Seq>,
}

#[derive(Debug)]
struct Pending {
    item: CommitItem,
    /// True while a request carries it.
    is_sent: bool,
}

/// A change that somebody should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TargetChange {
    /// A target went down.
    Down {
        /// Its name.
        target: String,
        /// What is wrong, and how to mend it.
        advice: String,
    },
    /// A target that was down took a delivery.
    Up {
        /// Its name.
        target: String,
    },
}

impl LaneKey {
    fn of(delivery: &Delivery) -> Self {
        if delivery.event.subject == Subject::UNASSIGNED {
            Self::Alone(delivery.seq)
        } else {
            Self::Subject(delivery.event.subject.to_ascii_lowercase())
        }
    }
}

impl Lane {
    /// Its first delivery, when that could be worked on at once.
    fn startable(&self) -> Option<&Arc<Delivery>> {
        let is_free = self.running.is_none() && self.waits_for.is_none();
        self.waiting.front().filter(|_| is_free)
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_none()
    }
}

impl Desk {
    pub(super) const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            lanes: BTreeMap::new(),
            running: BTreeMap::new(),
            outages: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Takes what a fetch brought.
    ///
    /// What comes a second time, because the gateway lost patience or an answer, takes its old
    /// place; what is worked on at this moment, or is settled and not confirmed yet, is not begun
    /// again.
    pub(super) fn accept(&mut self, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            let settled = self.outcomes.get(&delivery.seq);
            let is_settled = settled.is_some_and(|pending| pending.item.outcome.settles());
            if is_settled || self.running.contains_key(&delivery.seq) {
                continue;
            }
            // What was said of the hand-out before this one would be believed of this one.
            self.outcomes.remove(&delivery.seq);
            let lane = self.lanes.entry(LaneKey::of(&delivery)).or_default();
            let delivery = Arc::new(delivery);
            match (lane.waiting.iter_mut()).find(|waiting| waiting.seq == delivery.seq) {
                Some(waiting) => *waiting = delivery,
                None => lane.waiting.push_back(delivery),
            }
        }
    }

    /// The next delivery to work on, oldest event first; marked as running.
    pub(super) fn start(&mut self, now: Instant) -> Option<Arc<Delivery>> {
        if self.running.len() >= self.bounds.concurrency {
            return None;
        }
        if let Some(probe) = self.start_probe(now) {
            return Some(probe);
        }
        let key = oldest(&self.lanes, |lane| lane.startable())?;
        self.run_first_of(&key)
    }

    fn start_probe(&mut self, now: Instant) -> Option<Arc<Delivery>> {
        let due = |outage: &TargetOutage| outage.probe.is_none() && outage.try_at <= now;
        let mut targets = (self.outages.iter()).filter(|(_, outage)| due(outage));
        let target = targets.next().map(|(target, _)| target.clone())?;
        let waits = |lane: &Lane| lane.waits_for.as_deref() == Some(target.as_str());
        let key = oldest(&self.lanes, |lane| {
            lane.waiting.front().filter(|_| waits(lane))
        })?;
        let probe = self.run_first_of(&key)?;
        self.outages.get_mut(&target)?.probe = Some(probe.seq);
        Some(probe)
    }

    fn run_first_of(&mut self, key: &LaneKey) -> Option<Arc<Delivery>> {
        let lane = self.lanes.get_mut(key)?;
        let delivery = lane.waiting.pop_front()?;
        lane.running = Some(Arc::clone(&delivery));
        self.running.insert(delivery.seq, key.clone());
        Some(delivery)
    }

    /// Notes what became of a delivery that was worked on.
    pub(super) fn finish(
        &mut self,
        seq: Seq,
        handled: Handled,
        now: Instant,
    ) -> Option<TargetChange> {
        let key = self.running.remove(&seq)?;
        let lane = self.lanes.get_mut(&key)?;
        let delivery = lane.running.take()?;
        match handled {
            Handled::Outcome { outcome, detail } => {
                if !outcome.settles() {
                    // The gateway sends the rest of the subject back with it, and again in order.
                    lane.waiting.clear();
                    lane.waits_for = None;
                }
                self.note(seq, outcome, detail.as_deref());
                let change = self.end_outage_tried_by(seq);
                self.tidy();
                change
            }
            Handled::TargetDown { target, advice } => {
                lane.waiting.push_front(delivery);
                lane.waits_for = Some(target.clone());
                self.target_is_down(target, advice, seq, now)
            }
        }
    }

    fn target_is_down(
        &mut self,
        target: String,
        advice: String,
        tried: Seq,
        now: Instant,
    ) -> Option<TargetChange> {
        let back_off = self.bounds.back_off;
        let is_new = !self.outages.contains_key(&target);
        let outage = self.outages.entry(target.clone()).or_insert(TargetOutage {
            waits: Waits::new(back_off),
            try_at: now,
            probe: None,
        });
        if is_new || outage.probe == Some(tried) {
            outage.try_at = later(now, outage.waits.next());
        }
        for outage in self.outages.values_mut() {
            outage.probe = outage.probe.filter(|probe| *probe != tried);
        }
        is_new.then_some(TargetChange::Down { target, advice })
    }

    /// A probe that came to an outcome says that its target is back.
    fn end_outage_tried_by(&mut self, seq: Seq) -> Option<TargetChange> {
        let tried = (self.outages.iter()).find(|(_, outage)| outage.probe == Some(seq));
        let target = tried.map(|(target, _)| target.clone())?;
        self.outages.remove(&target);
        for lane in self.lanes.values_mut() {
            if lane.waits_for.as_deref() == Some(target.as_str()) {
                lane.waits_for = None;
            }
        }
        Some(TargetChange::Up { target })
    }

    /// Forgets lanes that are empty and outages that nobody waits for.
    fn tidy(&mut self) {
        self.lanes.retain(|_, lane| !lane.is_empty());
        let waited_for: BTreeSet<&str> = (self.lanes.values())
            .filter_map(|lane| lane.waits_for.as_deref())
            .collect();
        self.outages.retain(|target, outage| {
            outage.probe.is_some() || waited_for.contains(target.as_str())
        });
    }

    fn note(&mut self, seq: Seq, outcome: Outcome, detail: Option<&str>) {
        let count = self.counts.entry(outcome.to_string()).or_default();
        *count = count.saturating_add(1);
        let item = CommitItem {
            seq,
            outcome,
            detail: detail.map(clip),
        };
        let is_sent = false;
        self.outcomes.insert(seq, Pending { item, is_sent });
    }

    /// How many deliveries a fetch should ask for; `None` when it should wait.
    ///
    /// It is worth asking when a worker is free or half of a batch is done. While a target is
    /// down nothing is asked for.
    pub(super) fn wanted(&self) -> Option<usize> {
        let in_hand = self.in_hand();
        let has_free_worker = self.running.len() < self.bounds.concurrency
            && self.lanes.values().all(|lane| lane.startable().is_none());
        let is_worth_it = has_free_worker || in_hand.saturating_mul(2) <= self.bounds.batch;
        let room = self.bounds.in_hand.saturating_sub(in_hand);
        let wanted = room.min(self.bounds.batch);
        (self.outages.is_empty() && is_worth_it && wanted > 0).then_some(wanted)
    }

    /// When a target that is down should be tried again.
    pub(super) fn next_try(&self) -> Option<Instant> {
        let waiting = (self.outages.values()).filter(|outage| outage.probe.is_none());
        waiting.map(|outage| outage.try_at).min()
    }

    /// The outcomes that a request should carry now, at most so many; marked as sent.
    pub(super) fn take_outcomes(&mut self, max: usize) -> Vec<CommitItem> {
        let unsent = (self.outcomes.values_mut()).filter(|pending| !pending.is_sent);
        unsent
            .take(max)
            .map(|pending| {
                pending.is_sent = true;
                pending.item.clone()
            })
            .collect()
    }

    /// The gateway has these.
    pub(super) fn confirm(&mut self, sent: &[CommitItem]) {
        for item in sent {
            if self.is_on_its_way(item.seq) {
                self.outcomes.remove(&item.seq);
            }
        }
    }

    /// It is not known whether the gateway has these: they are sent again.
    pub(super) fn keep(&mut self, sent: &[CommitItem]) {
        for item in sent {
            if let Some(pending) = self.outcomes.get_mut(&item.seq) {
                pending.is_sent = false;
            }
        }
    }

    /// As [`Desk::keep`], for all.
    pub(super) fn keep_all(&mut self) {
        for pending in self.outcomes.values_mut() {
            pending.is_sent = false;
        }
    }

    /// The gateway never handed these out. Returns how many of them it had been told of.
    pub(super) fn forget(&mut self, seqs: &[Seq]) -> usize {
        let known = seqs
            .iter()
            .filter(|seq| self.outcomes.remove(seq).is_some());
        known.count()
    }

    fn is_on_its_way(&self, seq: Seq) -> bool {
        self.outcomes
            .get(&seq)
            .is_some_and(|pending| pending.is_sent)
    }

    /// Gives back what was not begun.
    pub(super) fn release_waiting(&mut self) {
        let waiting: Vec<Seq> = (self.lanes.values_mut())
            .flat_map(|lane| std::mem::take(&mut lane.waiting))
            .map(|delivery| delivery.seq)
            .collect();
        for seq in waiting {
            self.note(seq, Outcome::Released, None);
        }
        self.outages.clear();
        self.lanes.retain(|_, lane| !lane.is_empty());
    }

    /// Gives back what was begun and not finished.
    pub(super) fn release_running(&mut self) {
        for seq in std::mem::take(&mut self.running).into_keys() {
            self.note(
                seq,
                Outcome::Released,
                Some("stopped while it was worked on"),
            );
        }
        self.lanes.clear();
    }

    /// Leaves what was not begun to the instance that holds the queue now.
    pub(super) fn drop_waiting(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.waiting.clear();
            lane.waits_for = None;
        }
        self.tidy();
    }

    /// Deliveries in hand.
    pub(super) fn in_hand(&self) -> usize {
        let waiting = self.lanes.values().map(|lane| lane.waiting.len());
        waiting.fold(self.running.len(), usize::saturating_add)
    }

    /// Deliveries worked on.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Outcomes that no request carries yet.
    pub(super) fn has_unsent(&self) -> bool {
        self.outcomes.values().any(|pending| !pending.is_sent)
    }

    /// Outcomes that the gateway has not confirmed.
    pub(super) fn unconfirmed(&self) -> usize {
        self.outcomes.len()
    }

    /// The targets that are down.
    pub(super) fn targets_down(&self) -> Vec<String> {
        self.outages.keys().cloned().collect()
    }

    /// How often each outcome was said in this process.
    pub(super) const fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }
}

/// The lane whose candidate has the oldest event.
fn oldest(
    lanes: &BTreeMap<LaneKey, Lane>,
    candidate: impl Fn(&Lane) -> Option<&Arc<Delivery>>,
) -> Option<LaneKey> {
    let candidates = lanes.iter().filter_map(|(key, lane)| {
        candidate(lane).map(|delivery| ((delivery.event.id, delivery.seq), key))
    });
    candidates.min().map(|(_, key)| key.clone())
}

fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now)
}

#[cfg(test)]
#[path = "desk_tests.rs"]
mod tests;
