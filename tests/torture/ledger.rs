//! What happened, written down outside of the gateway, and what must be true of it in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use crate::gateway::Gateway;
use crate::mail::Mail;
use crate::world::World;

/// An instance and a mark.
type Entry = (String, u64);

/// What the senders and consumers saw.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    acked: BTreeSet<u64>,
    unanswered: u64,
    /// Answers of 500 and above, but for those to callers that waited too long.
    faults: u64,
    /// The event that a mark became.
    events: BTreeMap<u64, i64>,
    settled: BTreeSet<Entry>,
    received: BTreeSet<Entry>,
    /// The newest event that an instance got of a subject.
    newest: BTreeMap<(String, String), i64>,
    committed: BTreeMap<String, i64>,
    /// How often a consumer failed with a delivery, or died with it in hand.
    blame: BTreeMap<Entry, u32>,
}

/// A delivery as a consumer got it.
#[derive(Debug)]
pub(crate) struct Receipt<'a> {
    pub(crate) instance: &'a str,
    pub(crate) mark: u64,
    pub(crate) event: i64,
    pub(crate) subject: &'a str,
    pub(crate) payload: &'a str,
}

/// What a run was worth.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) acked: usize,
    pub(crate) unanswered: u64,
    pub(crate) settled: usize,
    pub(crate) dead: usize,
    pub(crate) held: usize,
    pub(crate) expired: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} acknowledged, {} without an answer; {} settled, {} dead, {} held, {} expired",
            self.acked, self.unanswered, self.settled, self.dead, self.held, self.expired
        )
    }
}

impl Ledger {
    /// The answer to an event that was sent; `None` when there was none.
    pub(crate) fn note_answer(&self, mail: Mail, status: Option<u16>) {
        let mut book = self.0.lock().unwrap();
        match status {
            Some(status) if mail.is_acked_by(status) => drop(book.acked.insert(mail.mark)),
            Some(status) => {
                // 500 says that a COMMIT failed, 503 that the gateway was too busy.
                assert!(status == 500 || status == 503, "{mail:?}: {status}");
                book.faults += u64::from(status == 500);
            }
            None => book.unanswered += 1,
        }
    }

    /// A delivery that a consumer got: its text must be what was sent, one mark must be one
    /// event, and the events of a subject must come in their order.
    pub(crate) fn note_receipt(&self, receipt: &Receipt<'_>, sent: &str) {
        let Receipt { mark, event, .. } = *receipt;
        assert_eq!(receipt.payload, sent, "the payload of mark {mark}");
        let mut book = self.0.lock().unwrap();
        let known = *book.events.entry(mark).or_insert(event);
        assert_eq!(known, event, "mark {mark} became two events");
        let entry = (receipt.instance.to_owned(), mark);
        if book.received.insert(entry) {
            let lane = (receipt.instance.to_owned(), receipt.subject.to_owned());
            let newest = book.newest.entry(lane).or_default();
            assert!(*newest < event, "{receipt:?} came after event {newest}");
            *newest = event;
        }
    }

    /// `committed` of an answer, which never goes back.
    pub(crate) fn note_committed(&self, instance: &str, committed: i64) {
        let mut book = self.0.lock().unwrap();
        let known = book.committed.entry(instance.to_owned()).or_default();
        assert!(*known <= committed, "{instance}: {known}, then {committed}");
        *known = committed;
    }

    pub(crate) fn note_settled(&self, instance: &str, mark: u64) {
        let mut book = self.0.lock().unwrap();
        book.settled.insert((instance.to_owned(), mark));
    }

    pub(crate) fn blame(&self, instance: &str, mark: u64) {
        let mut book = self.0.lock().unwrap();
        *book.blame.entry((instance.to_owned(), mark)).or_default() += 1;
    }

    pub(crate) fn acked(&self) -> usize {
        self.0.lock().unwrap().acked.len()
    }

    pub(crate) fn settled(&self) -> usize {
        self.0.lock().unwrap().settled.len()
    }

    pub(crate) fn faults(&self) -> u64 {
        self.0.lock().unwrap().faults
    }

    pub(crate) fn is_settled(&self, instance: &str, mark: u64) -> bool {
        let book = self.0.lock().unwrap();
        book.settled.contains(&(instance.to_owned(), mark))
    }

    /// Everything that was acknowledged must have been settled by each claimant, or be dead, held
    /// or expired; and only what its consumers are to blame for may be dead.
    pub(crate) fn audit(&self, world: &World) -> Tally {
        let book = self.0.lock().unwrap();
        let rest = Rest::of(&world.gateway);
        let mut lost = Vec::new();
        let mut tally = Tally {
            acked: book.acked.len(),
            unanswered: book.unanswered,
            settled: book.settled.len(),
            dead: rest.dead.len(),
            held: 0,
            expired: rest.expired.len(),
        };
        for mark in &book.acked {
            let mail = Mail::of(*mark, world.with_slack);
            let id = mail.delivery_id();
            let claimants = world.claimants(mail.item);
            let is_held = rest.held.contains(&id);
            tally.held += usize::from(is_held);
            if claimants.is_empty() && !is_held && !rest.expired.contains(&id) {
                lost.push(format!("{mail:?}, which nobody claimed"));
            }
            for instance in claimants {
                let is_settled = book.settled.contains(&(instance.to_owned(), *mark));
                let elsewhere = (instance.to_owned(), id.clone());
                if !is_settled && !rest.dead.contains(&elsewhere) && !rest.expired.contains(&id) {
                    lost.push(format!("{mail:?} for {instance}"));
                }
            }
        }
        assert!(lost.is_empty(), "{} lost: {lost:#?}", lost.len());
        for (instance, id) in &rest.dead {
            let digits = id.trim_start_matches(|c: char| !c.is_ascii_digit());
            let entry = (instance.clone(), digits.parse().unwrap());
            let blame = book.blame.get(&entry).copied().unwrap_or_default();
            assert!(blame >= 3, "{entry:?} is dead, and blamed {blame} times");
        }
        tally
    }
}

/// What is in the store of what was not settled, by the provider's ids.
struct Rest {
    held: BTreeSet<String>,
    expired: BTreeSet<String>,
    dead: BTreeSet<(String, String)>,
}

impl Rest {
    fn of(gateway: &Gateway) -> Self {
        let ids = |sql: &str| gateway.texts(sql).into_iter().collect();
        let dead = gateway.texts(
            "SELECT i.name || ' ' || e.delivery_id FROM deliveries d
                 JOIN events e ON e.id = d.event_id JOIN instances i ON i.id = d.instance_id
             WHERE d.state = 3",
        );
        let split = |text: String| {
            let (instance, id) = text.split_once(' ').unwrap();
            (instance.to_owned(), id.to_owned())
        };
        Self {
            held: ids("SELECT delivery_id FROM events WHERE state = 'held'"),
            expired: ids("SELECT delivery_id FROM events WHERE state = 'expired'
                 UNION SELECT e.delivery_id FROM deliveries d JOIN events e ON e.id = d.event_id
                 WHERE d.state = 4"),
            dead: dead.into_iter().map(split).collect(),
        }
    }
}
