//! Instances: they fetch, work, commit, and some of them die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use fastrand::Rng;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ledger::Receipt;
use crate::mail::{Mail, mark_in};
use crate::support::{Call, Reply};
use crate::world::World;
use crate::{now_ms, pass};

/// Answers without deliveries after which a queue counts as empty.
const EMPTY_ANSWERS: u32 = 3;
/// How long nothing may be settled when it is over: longer than any back-off and any lease.
const STANDSTILL_SECONDS: i64 = 60;
/// Which marks kill their consumer.
const POISON_EVERY: u64 = 211;

/// How consumers behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Temper {
    /// They handle what they get.
    Tame,
    /// They fail at times, give back at times, die at times, and always of poison.
    Wild,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    deliveries: Vec<Handed<'a>>,
    cursor: i64,
    committed: i64,
}

#[derive(Deserialize)]
struct Handed<'a> {
    seq: i64,
    attempt: u64,
    #[serde(borrow)]
    event: Event<'a>,
}

#[derive(Deserialize)]
struct Event<'a> {
    id: i64,
    subject: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// One instance; its process changes when it dies.
struct Consumer<'w> {
    world: &'w World,
    instance: &'static str,
    temper: Temper,
    rng: Rng,
    run: u32,
    cursor: i64,
    /// What was received and is not known to be committed.
    in_hand: BTreeMap<i64, u64>,
    /// Outcomes that are still to be told, or of which it is not known whether they arrived.
    untold: Vec<(i64, String)>,
}

/// Consumes until it is over and nothing is left.
pub(crate) fn consume_until_done(world: &World, instance: &'static str, temper: Temper, rng: Rng) {
    let mut consumer = Consumer {
        world,
        instance,
        temper,
        rng,
        run: 1,
        cursor: 0,
        in_hand: BTreeMap::new(),
        untold: Vec::new(),
    };
    let (mut empty, mut moved) = (0, (0, now_ms()));
    while empty < EMPTY_ANSWERS {
        let is_over = world.is_over.load(Ordering::Relaxed);
        let settled = world.ledger.settled();
        if !is_over || settled > moved.0 {
            moved = (settled, now_ms());
        }
        let still_ms = now_ms() - moved.1;
        assert!(
            still_ms < STANDSTILL_SECONDS * 1_000,
            "{instance} is never done: {:?}",
            consumer.in_hand
        );
        if std::thread::panicking() {
            return;
        }
        let is_empty = consumer.turn();
        if is_over && is_empty && consumer.is_drained() {
            empty += 1;
        } else if !is_over || !is_empty {
            empty = 0;
        }
    }
}

impl Consumer<'_> {
    /// One fetch with all that belongs to it; true when it was answered and brought nothing.
    fn turn(&mut self) -> bool {
        let told = self.untold.clone();
        let Some(reply) = self.fetch(&told).try_send() else {
            pass(self.rng.u64(5..40));
            return false;
        };
        if reply.status != 200 {
            self.check_refusal(&reply);
            pass(20);
            return false;
        }
        let answer: Answer<'_> = serde_json::from_slice(&reply.body).unwrap();
        let ledger = &self.world.ledger;
        ledger.note_committed(self.instance, answer.committed);
        for (seq, outcome) in told {
            let mark = self.in_hand.remove(&seq);
            let is_settled = outcome != "failed" && outcome != "released";
            if let Some(mark) = mark.filter(|_| is_settled) {
                ledger.note_settled(self.instance, mark);
            }
        }
        self.untold.clear();
        self.cursor = answer.cursor;
        let is_empty = answer.deliveries.is_empty();
        self.take(&answer.deliveries);
        is_empty
    }

    fn fetch(&mut self, told: &[(i64, String)]) -> Call {
        let commit: Vec<Value> = (told.iter())
            .map(|(seq, outcome)| json!({"seq": seq, "outcome": outcome}))
            .collect();
        let is_over = self.world.is_over.load(Ordering::Relaxed);
        let body = json!({
            "instance": self.instance,
            "peer": format!("peer-of-{}", self.instance),
            "run": format!("run-{}", self.run),
            "cursor": self.cursor,
            "max": self.rng.u32(1..=48),
            "wait": if is_over { 0.2 } else { 1.0 },
            "lease": 2,
            "commit": commit,
        });
        self.world.gateway.api("POST", "/fetch", &body)
    }

    /// A gateway that is asked by nobody else refuses nothing, but its disk may be full.
    fn check_refusal(&self, reply: &Reply) {
        assert!(
            reply.status == 500 || reply.status == 503,
            "{} of {}: {}",
            self.instance,
            self.run,
            reply.text()
        );
    }

    /// Works on what came; an earlier failure of a subject keeps the later ones from being tried.
    fn take(&mut self, deliveries: &[Handed<'_>]) {
        let mut stopped = BTreeSet::new();
        let mut outcomes = Vec::new();
        let mut is_dying = false;
        for delivery in deliveries {
            let (event, seq) = (&delivery.event, delivery.seq);
            let mark = mark_in(event.payload.get());
            let receipt = Receipt {
                instance: self.instance,
                mark,
                event: event.id,
                subject: &event.subject,
                payload: event.payload.get(),
            };
            let sent = Mail::of(mark, self.world.with_slack).body();
            self.world.ledger.note_receipt(&receipt, &sent);
            self.in_hand.insert(seq, mark);
            is_dying |= self.temper == Temper::Wild && mark.is_multiple_of(POISON_EVERY);
            if stopped.contains(&event.subject) {
                continue;
            }
            let outcome = self.outcome(delivery.attempt);
            if outcome == "failed" {
                self.world.ledger.blame(self.instance, mark);
            }
            if outcome == "failed" || outcome == "released" {
                stopped.insert(event.subject.clone());
            }
            outcomes.push((seq, outcome.to_owned()));
        }
        let is_unlucky = self.temper == Temper::Wild && self.rng.u32(0..300) == 0;
        if is_dying || (is_unlucky && !deliveries.is_empty()) {
            self.die();
        } else {
            self.untold = outcomes;
        }
    }

    /// Failures and releases are rare, because each makes its subject wait for a second or two; and
    /// there are none any more when the rest is to be worked off.
    fn outcome(&mut self, attempt: u64) -> &'static str {
        let is_over = self.world.is_over.load(Ordering::Relaxed);
        let is_wild = self.temper == Temper::Wild && !is_over;
        match self.rng.u32(0..1_000) {
            0..=4 if is_wild && attempt == 1 => "failed",
            5..=9 if is_wild => "released",
            10..=199 => "spawned",
            200..=299 => "dropped:not-for-us",
            _ => "delivered",
        }
    }

    /// Forgets everything, as a process that is killed does. What it had in hand is known, since
    /// it dies over an answer that it received.
    fn die(&mut self) {
        for mark in self.in_hand.values() {
            self.world.ledger.blame(self.instance, *mark);
        }
        self.in_hand.clear();
        self.untold.clear();
        self.run += 1;
        self.cursor = 0;
    }

    /// True when nothing waits for a later moment either.
    fn is_drained(&self) -> bool {
        let call = Call::new(self.world.gateway.port, "GET", "/api/v1/gateway/queues");
        let Some(reply) = call.try_send() else {
            return false;
        };
        let queues = reply.json();
        let mut rows = queues["queues"].as_array().unwrap().iter();
        let own = rows.find(|row| row["instance"] == self.instance);
        own.is_none_or(|row| row["backlog"] == 0)
    }
}
