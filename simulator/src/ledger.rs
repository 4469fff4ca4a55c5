//! What was promised so far, kept outside the gateway; it outlives every crash.

use std::collections::{BTreeMap, BTreeSet};

use the_loop_gateway::domain::{Delivery, Seq, Timestamp};
use the_loop_gateway::store::{Appended, Fetched};
use the_loop_gateway::telemetry::GatewayEvent;

use crate::arrivals::{INSTANCES, Sent};
use crate::client::Who;

/// A promise that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

/// What a check comes to.
pub type Checked<T = ()> = Result<T, Broken>;

/// Goes on only when something holds.
///
/// # Errors
/// With the words, when it does not.
pub fn require(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Broken(otherwise()))
    }
}

/// An event that the gateway has taken.
#[derive(Debug)]
pub struct Taken {
    /// Its place among what was sent.
    pub sent: usize,
    /// True once a record says that it expired or was dropped.
    pub is_over: bool,
}

/// Who holds a name, as its clients know.
#[derive(Debug, Clone)]
struct Holder {
    who: Who,
    until: Timestamp,
}

/// What the gateway owes.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Acknowledged events that are not known to be gone.
    pub events: BTreeMap<i64, Taken>,
    /// Acknowledged events on queues, and whether they are over there: settled, dead or expired.
    pub pairs: BTreeMap<(i64, usize), bool>,
    /// Outcomes that the gateway confirmed, of deliveries that are not known to be gone.
    pub settled: BTreeSet<i64>,
    /// Outcomes that were sent, confirmed or not.
    pub tried: BTreeSet<i64>,
    /// Where and as which attempt a delivery was handed out last.
    handed: BTreeMap<i64, (usize, u32)>,
    committed: [i64; INSTANCES.len()],
    holders: [Option<Holder>; INSTANCES.len()],
}

impl Ledger {
    /// An arrival was answered.
    ///
    /// # Errors
    /// When the answer contradicts an earlier one.
    pub fn appended(&mut self, sent: usize, answer: &Appended) -> Checked {
        let (event, to) = match answer {
            Appended::Stored { event, to } | Appended::Revived { event, to } => (event.0, &to[..]),
            // Answered only once the first copy is durable, so this is an acknowledgement too.
            Appended::Duplicate { event } => (event.0, &[][..]),
            Appended::Dropped { .. } => return Ok(()),
        };
        let is_new = matches!(answer, Appended::Stored { .. });
        match self.events.get(&event) {
            Some(taken) => require(taken.sent == sent && !is_new, || {
                format!(
                    "event {event} is said to be arrival {sent}, and is {}",
                    taken.sent
                )
            })?,
            // A duplicate may be one of an event that retention has dropped.
            None if !is_new => {}
            None => self.take(event, sent),
        }
        for instance in to.iter().filter_map(|name| index_of(name.as_str())) {
            self.pairs.insert((event, instance), false);
        }
        Ok(())
    }

    /// Notes an event as taken.
    pub fn take(&mut self, event: i64, sent: usize) {
        let is_over = false;
        self.events.insert(event, Taken { sent, is_over });
    }

    /// Something was recorded, which happens only once it is on disk.
    pub fn recorded(&mut self, record: &GatewayEvent) {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the others are about no delivery"
        )]
        match record {
            GatewayEvent::Routed {
                to,
                gateway_event_id,
                ..
            } => {
                for instance in to.iter().filter_map(|name| index_of(name)) {
                    self.pairs.insert((*gateway_event_id, instance), false);
                }
            }
            GatewayEvent::Committed {
                seq,
                instance,
                gateway_event_id,
                ..
            } => {
                self.settled.insert(*seq);
                self.end(*gateway_event_id, Some(instance));
            }
            GatewayEvent::DeadLettered {
                instance,
                gateway_event_id,
                ..
            } => self.end(*gateway_event_id, Some(instance)),
            GatewayEvent::Expired {
                instance,
                gateway_event_id,
                ..
            } => self.end(*gateway_event_id, instance.as_ref().map(AsRef::as_ref)),
            GatewayEvent::Dropped {
                gateway_event_id: Some(event),
                reason: the_loop_gateway::domain::DropReason::Unbound,
                ..
            } => self.end(*event, None),
            _ => {}
        }
    }

    fn end(&mut self, event: i64, instance: Option<&str>) {
        match instance.and_then(index_of) {
            Some(instance) => {
                self.pairs.insert((event, instance), true);
            }
            None => {
                if let Some(taken) = self.events.get_mut(&event) {
                    taken.is_over = true;
                }
            }
        }
    }

    /// True when nobody is owed this event any more.
    pub fn is_over(&self, event: i64) -> bool {
        let mut pairs = self
            .pairs
            .range((event, 0)..=(event, INSTANCES.len()))
            .peekable();
        let is_said = self.events.get(&event).is_some_and(|taken| taken.is_over);
        is_said || (pairs.peek().is_some() && pairs.all(|(_, is_over)| *is_over))
    }

    /// Forgets an event that is gone as it may be.
    pub fn forget(&mut self, event: i64) {
        self.events.remove(&event);
        self.pairs.retain(|(of, _), _| *of != event);
    }

    /// A fetch was answered.
    ///
    /// # Errors
    /// When the answer breaks a promise.
    pub fn fetched(
        &mut self,
        who: &Who,
        limit: usize,
        fetched: &Fetched,
        sent: &[Sent],
    ) -> Checked {
        let count = fetched.deliveries.len();
        require(count <= limit, || {
            format!("{count} deliveries, asked for {limit}")
        })?;
        let events = fetched
            .deliveries
            .iter()
            .map(|delivery| delivery.event.id.0);
        let events: Vec<i64> = events.collect();
        require(events.is_sorted(), || {
            format!("not oldest first: {events:?}")
        })?;
        for delivery in &fetched.deliveries {
            self.handed(who.instance, delivery, fetched.cursor, sent)?;
        }
        self.committed(who.instance, fetched.committed)
    }

    fn handed(
        &mut self,
        instance: usize,
        delivery: &Delivery,
        cursor: i64,
        sent: &[Sent],
    ) -> Checked {
        let (seq, event) = (delivery.seq.0, delivery.event.id.0);
        require(cursor > seq, || {
            format!("cursor {cursor} is not above delivery {seq}")
        })?;
        let number = delivery.event.delivery_id.strip_prefix("arrival-");
        let number = number.and_then(|number| number.parse::<usize>().ok());
        let Some((number, of)) = number.and_then(|number| Some((number, sent.get(number)?))) else {
            return Err(Broken(format!(
                "delivery {seq} is of nothing that was sent"
            )));
        };
        let text = delivery.event.payload.text().unwrap_or_default();
        require(text == of.text, || {
            format!("the payload of event {event} is another one")
        })?;
        require(of.allowed & (1 << instance) != 0, || {
            format!(
                "event {event} is handed to {}, whose it is not",
                INSTANCES[instance]
            )
        })?;
        if let Some((before, attempt)) = self.handed.get(&seq) {
            require(*before == instance, || {
                format!("delivery {seq} is on two queues")
            })?;
            require(*attempt <= delivery.attempt, || {
                format!(
                    "delivery {seq} was attempt {attempt} and is {}",
                    delivery.attempt
                )
            })?;
        }
        self.handed.insert(seq, (instance, delivery.attempt));
        // It was answered by a failure, or not at all, and is there nevertheless.
        if !self.events.contains_key(&event) {
            self.take(event, number);
        }
        self.pairs.entry((event, instance)).or_insert(false);
        Ok(())
    }

    /// An answer said how far a queue is settled.
    ///
    /// # Errors
    /// When it was further before.
    pub fn committed(&mut self, instance: usize, committed: Seq) -> Checked {
        let before = self.committed[instance];
        self.committed[instance] = before.max(committed.0);
        require(committed.0 >= before, || {
            let name = INSTANCES[instance];
            format!(
                "committed of {name} goes back from {before} to {}",
                committed.0
            )
        })
    }

    /// Somebody was let in under a name.
    ///
    /// # Errors
    /// When it is somebody else's.
    pub fn let_in(&self, who: &Who, has_peer: bool, now: Timestamp) -> Checked {
        let holder = self.holders[who.instance].as_ref();
        let Some(holder) = holder.filter(|holder| holder.until > now) else {
            return Ok(());
        };
        require(has_peer && holder.who.peer == who.peer, || {
            format!("{who:?} is let in while {:?} holds the name", holder.who)
        })
    }

    /// Somebody fetched, which only the present run may.
    ///
    /// # Errors
    /// When it is somebody else's.
    pub fn holds(&mut self, who: &Who, until: Timestamp, now: Timestamp) -> Checked {
        self.let_in(who, true, now)?;
        let holder = &mut self.holders[who.instance];
        if let Some(holder) = holder.as_ref().filter(|holder| holder.until > now) {
            require(holder.who.run <= who.run, || {
                format!("{who:?} is let in after {:?} took over", holder.who)
            })?;
        }
        let who = who.clone();
        *holder = Some(Holder { who, until });
        Ok(())
    }

    /// A commit was answered, and renewed the lease of whoever holds it.
    pub fn renews(&mut self, who: &Who, until: Timestamp) {
        let holder = self.holders[who.instance].as_mut();
        if let Some(holder) = holder.filter(|holder| holder.who == *who) {
            holder.until = until;
        }
    }

    /// The wall clock was set: no lease is longer than the longest, and after one that had lapsed
    /// somebody else may have come, whose held fetch is not answered yet.
    pub fn bound_leases(&mut self, before: Timestamp, latest: Timestamp) {
        for holder in &mut self.holders {
            *holder = holder.take().filter(|holder| holder.until > before);
            if let Some(holder) = holder {
                holder.until = holder.until.min(latest);
            }
        }
    }
}

/// The index of an instance's name.
#[must_use]
pub fn index_of(name: &str) -> Option<usize> {
    INSTANCES.iter().position(|known| *known == name)
}
