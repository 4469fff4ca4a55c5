//! A gateway, those who send to it, those who consume from it, and the ledger of both.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use fastrand::Rng;

use crate::consumers::{Temper, consume_until_done};
use crate::gateway::Gateway;
use crate::ledger::{Ledger, Tally};
use crate::mail::{Mail, subjects};
use crate::program::Home;
use crate::senders::{send, send_until_over};
use crate::{seed, wait_for};

pub(crate) const INSTANCES: [&str; 2] = ["laptop", "desktop"];

/// The work item that is claimed in the middle of it; one number above is never claimed.
pub(crate) const LATE_ITEM: u64 = 7;

/// Leases and back-offs so short that all of them end many times; little room, so that what is
/// settled goes early.
const LIMITS: &str = "store: {maxBytes: 16777216, retryBackoffSeconds: {min: 1, max: 4}}\n\
     consume: {leaseSeconds: {min: 1, max: 3}, handTimeoutSeconds: 20}";

/// All of it.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) ledger: Ledger,
    pub(crate) next_mark: AtomicU64,
    /// The senders stop, and the consumers when nothing is left.
    pub(crate) is_over: AtomicBool,
    is_late_item_claimed: AtomicBool,
    pub(crate) with_slack: bool,
    /// The longest pause of a sender between two events, in ms.
    pub(crate) pause_ms: u64,
}

/// Ends what goes on, also when something failed, or the others would go on for ever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl World {
    /// A gateway in a home of its own that is started and has its claims.
    pub(crate) fn new() -> Self {
        Self::over(Gateway::new(Home::new(), LIMITS))
    }

    /// The same over a gateway that the test made.
    pub(crate) fn over(gateway: Gateway) -> Self {
        gateway.start();
        let world = Self {
            gateway,
            ledger: Ledger::default(),
            next_mark: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
            is_late_item_claimed: AtomicBool::new(false),
            with_slack: true,
            pause_ms: 10,
        };
        for item in 1..=crate::mail::ITEMS {
            for instance in world.claimants(item) {
                for subject in subjects(item) {
                    world.gateway.claim(instance, &subject);
                }
            }
        }
        world
    }

    /// The limits of [`World::new`].
    pub(crate) const fn limits() -> &'static str {
        LIMITS
    }

    /// The instances that a work item is claimed by.
    pub(crate) fn claimants(&self, item: u64) -> Vec<&'static str> {
        match item {
            1 | 2 => vec![INSTANCES[0]],
            3 | 4 => INSTANCES.to_vec(),
            5 | 6 => vec![INSTANCES[1]],
            LATE_ITEM if self.is_late_item_claimed.load(Ordering::Relaxed) => vec![INSTANCES[0]],
            _ => Vec::new(),
        }
    }

    /// Claims what is held so far, and whatever comes of it from now on.
    pub(crate) fn claim_the_late_item(&self) {
        for subject in subjects(LATE_ITEM) {
            self.gateway.claim(INSTANCES[0], &subject);
        }
        self.is_late_item_claimed.store(true, Ordering::Relaxed);
    }

    /// Lets senders and consumers go on while something is done to the gateway; then waits until
    /// all queues are empty, ends the gateway and looks whether everything is accounted for.
    pub(crate) fn torment(&self, senders: u64, temper: Temper, torment: impl FnOnce()) -> Tally {
        std::thread::scope(|scope| {
            let _over = Over(&self.is_over);
            let threads = self.spawn(scope, senders, temper);
            torment();
            self.is_over.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        self.gateway.end();
        self.gateway.assert_sound();
        let live = "SELECT count(*) FROM deliveries WHERE state <= 1";
        assert_eq!(self.gateway.number(live), 0, "deliveries are left");
        let tally = self.ledger.audit(self);
        eprintln!("{tally}");
        tally
    }

    fn spawn<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        senders: u64,
        temper: Temper,
    ) -> Vec<ScopedJoinHandle<'s, ()>> {
        let mut threads = Vec::new();
        for number in 0..senders {
            let rng = Rng::with_seed(seed() ^ (number + 1));
            threads.push(scope.spawn(move || send_until_over(self, rng)));
        }
        for (number, instance) in INSTANCES.into_iter().enumerate() {
            let rng = Rng::with_seed(seed() ^ (1_000 + number as u64));
            threads.push(scope.spawn(move || consume_until_done(self, instance, temper, rng)));
        }
        threads
    }

    /// Sends one event to a work item that the first instance claims, until it is acknowledged,
    /// and waits so many seconds until it is settled.
    #[track_caller]
    pub(crate) fn send_through(&self, seconds: i64) {
        let mail = loop {
            let mark = self.next_mark.fetch_add(1, Ordering::Relaxed);
            let mail = Mail::of(mark, self.with_slack);
            if mail.item <= 2 {
                break mail;
            }
        };
        wait_for("an acknowledgement", seconds, || {
            send(self, mail).is_some_and(|status| mail.is_acked_by(status))
        });
        wait_for("an event to go through", seconds, || {
            self.ledger.is_settled(INSTANCES[0], mail.mark)
        });
    }
}
