//! The queue against a model that scans everything: random histories of arrivals, rival and dying
//! consumers, lost responses and clock jumps must give the same answers.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::too_many_arguments,
    clippy::too_many_lines,
    clippy::cognitive_complexity,
    reason = "the model is written to be read beside the contract, in one piece"
)]

mod history;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::domain::Refusal;
use crate::store::testing::*;
use crate::store::{Settings, StoreError};

const LEASE_MS: i64 = 60_000;
const CLIENTS: usize = 3;
/// Clients 0 and 1 are two processes of one installation, 2 is another installation.
const PEERS: [&str; CLIENTS] = ["peer-a", "peer-a", "peer-b"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Handed,
    Settled,
    Dead,
}

/// A delivery as the contract speaks of it.
#[derive(Debug, Clone)]
struct Item {
    subject: u64,
    state: State,
    due: i64,
    attempt: u32,
    strikes: u32,
    losses: u32,
    suspect: bool,
    number: i64,
    hands: (usize, String),
    handed_at: i64,
    ever_handed: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Holder {
    peer: String,
    run: String,
    until: i64,
    lapsed_at: i64,
    echoed: i64,
}

#[derive(Debug)]
struct Model {
    now: i64,
    items: BTreeMap<i64, Item>,
    holder: Holder,
    superseded: Vec<String>,
    last_number: i64,
    given: BTreeSet<(String, i64)>,
    settings: Settings,
}

/// What a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Fetched {
        deliveries: Vec<(i64, u32)>,
        cursor: i64,
        committed: i64,
    },
    Committed(i64),
    Duplicate {
        superseded: bool,
    },
    Undelivered(Vec<i64>),
}

impl Model {
    fn new(settings: Settings) -> Self {
        Self {
            now: START,
            items: BTreeMap::new(),
            holder: Holder::default(),
            superseded: Vec::new(),
            last_number: 0,
            given: BTreeSet::new(),
            settings,
        }
    }

    fn append(&mut self, subject: u64) {
        let seq = self.highest() + 1;
        let item = Item {
            subject,
            state: State::Ready,
            due: 0,
            attempt: 1,
            strikes: 0,
            losses: 0,
            suspect: false,
            number: 0,
            hands: (0, String::new()),
            handed_at: 0,
            ever_handed: false,
        };
        self.items.insert(seq, item);
    }

    fn highest(&self) -> i64 {
        self.items.keys().next_back().copied().unwrap_or(0)
    }

    fn committed(&self) -> i64 {
        let live = |item: &&Item| matches!(item.state, State::Ready | State::Handed);
        let lowest = self.items.iter().find(|(_, item)| live(item));
        lowest.map_or(self.highest(), |(seq, _)| seq - 1)
    }

    fn is_live(&self) -> bool {
        self.holder.until > self.now
    }

    fn refuses_peer(&self, peer: &str) -> bool {
        self.is_live() && self.holder.peer != peer
    }

    fn cursor(&self, run: &str, cursor: i64) -> i64 {
        if self.given.contains(&(run.to_owned(), cursor)) {
            cursor
        } else {
            0
        }
    }

    fn undelivered(&self, commit: &[(i64, &str)]) -> Vec<i64> {
        let unknown = |seq: &i64| !self.items.get(seq).is_some_and(|item| item.ever_handed);
        let seqs: BTreeSet<i64> = commit.iter().map(|(seq, _)| *seq).filter(unknown).collect();
        seqs.into_iter().collect()
    }

    fn renew(&mut self) {
        if !self.is_live() {
            self.holder.lapsed_at = self.now;
        }
        self.holder.until = self.now + LEASE_MS;
    }

    fn fetch(
        &mut self,
        peer: &str,
        run: &str,
        cursor: i64,
        limit: usize,
        commit: &[(i64, &str)],
    ) -> Answer {
        if self.refuses_peer(peer) {
            return Answer::Duplicate { superseded: false };
        }
        if self.is_live() && self.superseded.iter().any(|old| old == run) {
            return Answer::Duplicate { superseded: true };
        }
        let undelivered = self.undelivered(commit);
        if !undelivered.is_empty() {
            return Answer::Undelivered(undelivered);
        }
        let asked = cursor;
        let cursor = self.cursor(run, cursor);
        if self.holder.peer != peer || self.holder.run != run {
            if self.holder.peer == peer && !self.holder.run.is_empty() {
                self.superseded.push(self.holder.run.clone());
            }
            self.superseded.retain(|old| old != run);
            self.holder.peer = peer.to_owned();
            self.holder.run = run.to_owned();
            self.holder.echoed = 0;
        }
        self.renew();
        self.apply(run, Some(cursor), commit);
        let mut deliveries = Vec::new();
        if limit > 0 {
            self.take_back(run, cursor);
            deliveries = self.hand_out(run, limit);
        }
        self.holder.echoed = self.holder.echoed.max(cursor);
        let cursor = if deliveries.is_empty() {
            asked
        } else {
            self.last_number
        };
        Answer::Fetched {
            deliveries,
            cursor,
            committed: self.committed(),
        }
    }

    fn commit(&mut self, peer: &str, run: &str, cursor: i64, commit: &[(i64, &str)]) -> Answer {
        if self.refuses_peer(peer) {
            return Answer::Duplicate { superseded: false };
        }
        let undelivered = self.undelivered(commit);
        if !undelivered.is_empty() {
            return Answer::Undelivered(undelivered);
        }
        self.apply(run, Some(self.cursor(run, cursor)), commit);
        if self.holder.peer == peer && self.holder.run == run {
            let until = self.holder.until;
            self.renew();
            self.holder.until = self.holder.until.max(until);
        }
        Answer::Committed(self.committed())
    }

    fn apply(&mut self, run: &str, cursor: Option<i64>, commit: &[(i64, &str)]) {
        let last: BTreeMap<i64, &str> = commit.iter().copied().collect();
        for (seq, outcome) in last {
            let now = self.now;
            let item = self.items.get_mut(&seq).unwrap();
            let covered = item.state == State::Handed
                && item.hands.1 == run
                && cursor.is_none_or(|cursor| item.number <= cursor);
            match outcome {
                "failed" if covered => {
                    item.strikes += 1;
                    item.suspect = false;
                    item.losses = 0;
                    item.due = now + self.settings.backoff_ms(item.strikes);
                    item.state = State::Ready;
                    if item.strikes >= self.settings.strikes_max {
                        item.state = State::Dead;
                    } else {
                        item.attempt += 1;
                    }
                    let subject = item.subject;
                    self.send_back(subject);
                }
                "released" if covered => {
                    item.losses = 0;
                    item.due = now + 2_000;
                    item.state = State::Ready;
                    let subject = item.subject;
                    self.send_back(subject);
                }
                "failed" | "released" => {}
                _ => {
                    item.state = State::Settled;
                    item.suspect = false;
                }
            }
        }
    }

    fn send_back(&mut self, subject: u64) {
        for item in self.items.values_mut() {
            if item.subject == subject && item.state == State::Handed {
                item.state = State::Ready;
                item.due = 0;
            }
        }
    }

    fn take_back(&mut self, run: &str, cursor: i64) {
        let in_hand = |hands: &str, items: &BTreeMap<i64, Item>| {
            items
                .values()
                .filter(|i| i.state == State::Handed && i.hands.1 == hands)
                .count()
        };
        let before = self.items.clone();
        for item in self
            .items
            .values_mut()
            .filter(|item| item.state == State::Handed)
        {
            let alone = in_hand(&item.hands.1, &before) == 1;
            let overdue = self.now - item.handed_at >= self.settings.hand_timeout_ms;
            if item.hands.1 != run || (item.number <= cursor && overdue) {
                let vanished = item.hands.1 != run;
                let awake = self.holder.lapsed_at <= item.handed_at;
                item.suspect |= !alone;
                item.losses = 0;
                item.due = 0;
                item.state = State::Ready;
                if alone && (vanished || awake) {
                    item.strikes += 1;
                }
                if alone && (vanished || awake) && item.strikes >= self.settings.strikes_max {
                    item.state = State::Dead;
                } else {
                    item.attempt += 1;
                }
            } else if item.number > cursor {
                item.losses += 1;
                item.suspect |= item.losses >= 3;
                item.state = State::Ready;
                item.due = if item.losses > 3 {
                    self.now + self.settings.backoff_ms(item.losses - 3)
                } else {
                    0
                };
            } else if item.number > self.holder.echoed {
                item.losses = 0;
            }
        }
    }

    fn hand_out(&mut self, run: &str, limit: usize) -> Vec<(i64, u32)> {
        let handed: Vec<&Item> = self
            .items
            .values()
            .filter(|item| item.state == State::Handed)
            .collect();
        if handed.iter().any(|item| item.suspect) {
            return Vec::new();
        }
        let nothing_in_hand = handed.is_empty();
        let busy: BTreeSet<u64> = handed.iter().map(|item| item.subject).collect();
        let mut waiting = BTreeSet::new();
        let mut batch = Vec::new();
        for (seq, item) in self
            .items
            .iter()
            .filter(|(_, item)| item.state == State::Ready)
        {
            if busy.contains(&item.subject) || waiting.contains(&item.subject) {
                continue;
            }
            if item.due > self.now {
                waiting.insert(item.subject);
                continue;
            }
            if item.suspect {
                if batch.is_empty() && nothing_in_hand {
                    batch.push(*seq);
                }
                break;
            }
            if batch.len() == limit {
                break;
            }
            batch.push(*seq);
        }
        if batch.is_empty() {
            return Vec::new();
        }
        self.last_number = self.last_number.max(self.highest()) + 1;
        self.given.insert((run.to_owned(), self.last_number));
        let mut out = Vec::new();
        for seq in batch {
            let item = self.items.get_mut(&seq).unwrap();
            item.state = State::Handed;
            item.ever_handed = true;
            item.number = self.last_number;
            item.hands = (0, run.to_owned());
            item.handed_at = self.now;
            out.push((seq, item.attempt));
        }
        out
    }
}
