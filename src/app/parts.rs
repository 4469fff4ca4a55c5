//! What a gateway is built with besides its configuration, and where its actors run.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, Arbiter, ArbiterHandle, Context};

use super::Notify;
use crate::actors::AdapterTiming;
use crate::domain::{Clock, SystemClock};
use crate::http::{Patience, Timeouts};
use crate::store::PageLimit;

/// What differs between the real process, a test and a simulation.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where actors run.
    pub arbiters: Arbiters,
    /// How often what is done by the clock is done.
    pub intervals: Intervals,
    /// How slow a client may be.
    pub timeouts: Timeouts,
    /// How long a busy store is waited for.
    pub patience: Patience,
    /// Keeps the store from growing: a full disk, for tests.
    pub page_limit: PageLimit,
    /// How slow those may be that the gateway asks.
    pub adapters: AdapterTiming,
    /// The port of the API, in place of the configuration's.
    pub port: Option<u16>,
    /// The supervisor that hears how the gateway is.
    pub notify: Notify,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            arbiters: Arbiters::Own,
            intervals: Intervals::default(),
            timeouts: Timeouts::default(),
            patience: Patience::default(),
            page_limit: PageLimit::default(),
            adapters: AdapterTiming::default(),
            port: None,
            notify: Notify::default(),
        }
    }
}

/// Where actors run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arbiters {
    /// The store, the queues and the adapters on a thread each.
    Own,
    /// All on the thread of the caller.
    Shared,
}

/// How often what is done by the clock is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// Grace, checkpoints, and the look whether a failing disk works again.
    pub housekeeping: Duration,
    /// Retention.
    pub sweep: Duration,
    /// Looks at the configuration's files, and whether all ingresses are there.
    pub reload: Duration,
    /// Samples of the queues.
    pub sample: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            housekeeping: Duration::from_secs(1),
            sweep: Duration::from_secs(60),
            reload: Duration::from_secs(5),
            sample: Duration::from_secs(30),
        }
    }
}

/// The threads that were started for actors.
#[derive(Debug)]
pub(super) struct Threads {
    store: Option<Arbiter>,
    queues: Option<Arbiter>,
    adapters: Option<Arbiter>,
}

impl Threads {
    pub(super) fn start(arbiters: Arbiters) -> Self {
        let start = || match arbiters {
            Arbiters::Own => Some(Arbiter::new()),
            Arbiters::Shared => None,
        };
        Self {
            store: start(),
            queues: start(),
            adapters: start(),
        }
    }

    /// Starts an actor on the store's thread.
    pub(super) fn on_store<A: Actor<Context = Context<A>>>(
        &self,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> Addr<A> {
        start_on(self.store.as_ref().map(Arbiter::handle), make)
    }

    /// Starts an actor on the thread of the queues.
    pub(super) fn on_queues<A: Actor<Context = Context<A>>>(
        &self,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> Addr<A> {
        start_on(self.queues.as_ref().map(Arbiter::handle), make)
    }

    /// Starts an actor on the thread of the adapters.
    pub(super) fn on_adapters<A: Actor<Context = Context<A>>>(
        &self,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> Addr<A> {
        start_on(self.adapters.as_ref().map(Arbiter::handle), make)
    }

    /// Ends the threads and waits for them.
    pub(super) fn end(mut self) {
        let arbiters = [self.adapters.take(), self.store.take(), self.queues.take()];
        for arbiter in arbiters.into_iter().flatten() {
            arbiter.stop();
            if arbiter.join().is_err() {
                tracing::error!("an actor's thread ended in a panic");
            }
        }
    }
}

/// Tells the threads to end; one that hangs on a dead disk is not waited for.
impl Drop for Threads {
    fn drop(&mut self) {
        let arbiters = [&self.store, &self.queues, &self.adapters];
        for arbiter in arbiters.into_iter().flatten() {
            arbiter.stop();
        }
    }
}

fn start_on<A: Actor<Context = Context<A>>>(
    arbiter: Option<ArbiterHandle>,
    make: impl FnOnce() -> A + Send + 'static,
) -> Addr<A> {
    match arbiter {
        Some(arbiter) => A::start_in_arbiter(&arbiter, move |_| make()),
        None => make().start(),
    }
}
