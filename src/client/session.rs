//! The life of a client: one loop that fetches, lets handlers work, and reports.
//!
//! At most one fetch is open, and beside it at most one other request: a registration, outcomes
//! while a fetch is held (they may set free what it waits for), or a renewal while nothing is
//! fetched. What is decided is decided by the pure parts ([`Desk`], [`Link`], [`Registrations`]);
//! here it is done.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::api::{Api, Fault};
use super::board::Board;
use super::desk::{Bounds, Desk, TargetChange};
use super::link::{Link, Phase};
use super::registrations::{Registrations, Reply, Sent};
use super::slot::Slot;
use super::status::{End, Event};
use super::stop::{Stage, Stop, StopReason};
use super::wire::{Actors, Committed, FetchRequest, Fetched, Registration, Routed};
use super::{BackOff, Delivery, Handled, Handler};
use crate::domain::{CommitItem, Seq};

/// Outcomes in one request: with the longest details they stay below the limit of a body.
const OUTCOMES_MAX: usize = 500;
/// A sleep that is always cut short by something.
const LONG: Duration = Duration::from_secs(3600);

/// How a client behaves.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) bounds: Bounds,
    pub(super) back_off: BackOff,
    pub(super) long_poll: Duration,
    pub(super) poll_interval: Duration,
    pub(super) lease: Duration,
    /// How long outcomes wait for company while a fetch is open.
    pub(super) linger: Duration,
    /// How long handlers may go on after a stop.
    pub(super) stop_grace: Duration,
    /// How long a stop waits for the gateway.
    pub(super) stop_patience: Duration,
}

/// What the handle asks for.
#[derive(Debug)]
pub(super) enum Command {
    Publish(Registration, Reply),
    Stop,
}

/// A running client.
pub(super) struct Session<H> {
    pub(super) settings: Settings,
    pub(super) api: Rc<Api>,
    handler: Rc<H>,
    pub(super) desk: Desk,
    pub(super) registrations: Registrations,
    pub(super) link: Link,
    pub(super) working: FuturesUnordered<LocalBoxFuture<'static, (Seq, Handled)>>,
    pub(super) fetch: Slot<FetchEnd>,
    pub(super) errand: Slot<ErrandEnd>,
    /// The `cursor` of the last answer that brought something.
    pub(super) cursor: i64,
    /// When to fetch again, at the earliest.
    pub(super) poll_at: Instant,
    /// When to renew the lease, if no fetch does.
    pub(super) renew_at: Instant,
    /// When to report outcomes without waiting for a fetch.
    report_at: Option<Instant>,
    pub(super) stop: Option<Stop>,
    commands: mpsc::Receiver<Command>,
    pub(super) board: Board,
}

/// How a fetch ended.
pub(super) struct FetchEnd {
    pub(super) sent: Vec<CommitItem>,
    pub(super) began: Instant,
    pub(super) answer: Result<Fetched, Fault>,
}

/// How another request ended.
pub(super) enum ErrandEnd {
    Registered(Sent, Result<Routed, Fault>),
    Committed(Vec<CommitItem>, Result<Committed, Fault>),
    Fetched(FetchEnd),
}

enum Happened {
    Asked(Option<Command>),
    Worked(Seq, Handled),
    Fetched(FetchEnd),
    Ran(ErrandEnd),
    Time,
}

/// What a session is made of.
pub(super) struct Parts<H> {
    pub(super) settings: Settings,
    pub(super) api: Api,
    pub(super) handler: H,
    pub(super) actors: Actors,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) board: Board,
}

impl<H: Handler> Session<H> {
    pub(super) fn new(parts: Parts<H>) -> Self {
        let now = Instant::now();
        let back_off = parts.settings.back_off;
        Self {
            desk: Desk::new(parts.settings.bounds),
            registrations: Registrations::new(parts.actors, back_off),
            link: Link::new(back_off),
            settings: parts.settings,
            api: Rc::new(parts.api),
            handler: Rc::new(parts.handler),
            working: FuturesUnordered::new(),
            fetch: Slot::idle(),
            errand: Slot::idle(),
            cursor: 0,
            poll_at: now,
            renew_at: now,
            report_at: None,
            stop: None,
            commands: parts.commands,
            board: parts.board,
        }
    }

    /// Publishes from the start.
    pub(super) fn publish(&mut self, registrations: Vec<Registration>) {
        for registration in registrations {
            self.registrations.wish(registration, None);
        }
        self.board.show_claims(self.registrations.claims());
    }

    /// Works until it is stopped, and says why it ended.
    pub(super) async fn run(mut self) -> (End, Board) {
        loop {
            let now = Instant::now();
            self.advance(now);
            self.board.show(self.link.state(), &self.desk);
            if let Some(end) = self.ended() {
                self.registrations.close();
                return (end, self.board);
            }
            let happened = self.wait(now).await;
            self.take(happened);
        }
    }

    fn advance(&mut self, now: Instant) {
        if self.stop.is_some() {
            self.advance_stop(now);
        } else {
            while let Some(delivery) = self.desk.start(now) {
                let work = work_on(Rc::clone(&self.handler), delivery);
                self.working.push(Box::pin(work));
            }
            self.begin_fetch(now);
        }
        if self.desk.has_unsent() {
            let soon = later(now, self.settings.linger);
            self.report_at.get_or_insert(soon);
        }
        self.begin_errand(now);
    }

    async fn wait(&mut self, now: Instant) -> Happened {
        let wake = self.next_moment(now);
        let is_working = !self.working.is_empty();
        let is_asked = self.stop.is_none();
        tokio::select! {
            biased;
            command = self.commands.recv(), if is_asked => Happened::Asked(command),
            Some((seq, handled)) = self.working.next(), if is_working => {
                Happened::Worked(seq, handled)
            }
            end = self.fetch.end() => Happened::Fetched(end),
            end = self.errand.end() => Happened::Ran(end),
            () = tokio::time::sleep_until(wake) => Happened::Time,
        }
    }

    /// When something is to be done, although nothing happens.
    fn next_moment(&mut self, now: Instant) -> Instant {
        let resting = match self.link.phase(now) {
            Phase::Resting(until) => Some(until),
            Phase::Registering | Phase::Online => None,
        };
        let moments = [
            resting,
            Some(self.poll_at),
            Some(self.renew_at),
            self.report_at,
            self.desk.next_try(),
            self.registrations.next_try(),
            self.stop.as_ref().map(Stop::next_moment),
        ];
        let coming = moments.into_iter().flatten().filter(|moment| *moment > now);
        coming.min().unwrap_or_else(|| later(now, LONG))
    }

    fn take(&mut self, happened: Happened) {
        let now = Instant::now();
        match happened {
            Happened::Asked(Some(Command::Publish(registration, reply))) => {
                self.registrations.wish(registration, Some(reply));
                self.board.show_claims(self.registrations.claims());
            }
            Happened::Asked(Some(Command::Stop) | None) => {
                self.begin_stop(StopReason::Asked, now);
            }
            Happened::Worked(seq, handled) => self.take_handled(seq, handled, now),
            Happened::Fetched(end) => self.take_fetched(end, now),
            Happened::Ran(end) => self.take_errand(end, now),
            Happened::Time => {}
        }
    }

    fn take_handled(&mut self, seq: Seq, handled: Handled, now: Instant) {
        match self.desk.finish(seq, handled, now) {
            Some(TargetChange::Down { target, advice }) => {
                self.board.tell(&Event::TargetDown { target, advice });
            }
            Some(TargetChange::Up { target }) => self.board.tell(&Event::TargetUp { target }),
            None => {}
        }
    }

    fn begin_fetch(&mut self, now: Instant) {
        let is_time =
            self.fetch.is_idle() && self.poll_at <= now && self.link.phase(now) == Phase::Online;
        let Some(max) = self.desk.wanted().filter(|_| is_time) else {
            return;
        };
        let wait = self.settings.long_poll;
        let work = self.fetching(max, wait, now);
        self.fetch.begin(work);
    }

    /// A fetch that carries the outcomes so far.
    pub(super) fn fetching(
        &mut self,
        max: usize,
        wait: Duration,
        now: Instant,
    ) -> impl Future<Output = FetchEnd> + use<H> {
        let request = FetchRequest {
            cursor: self.cursor,
            max,
            wait,
            lease: self.settings.lease,
            commit: self.take_outcomes(),
        };
        let api = Rc::clone(&self.api);
        async move {
            let answer = api.fetch(&request).await;
            FetchEnd {
                sent: request.commit,
                began: now,
                answer,
            }
        }
    }

    fn take_outcomes(&mut self) -> Vec<CommitItem> {
        self.report_at = None;
        self.desk.take_outcomes(OUTCOMES_MAX)
    }

    fn begin_errand(&mut self, now: Instant) {
        if !self.errand.is_idle() || self.is_final() {
            return;
        }
        match self.link.phase(now) {
            Phase::Resting(_) => {}
            Phase::Registering if !self.begin_registration(now) => {
                let connected = self.link.is_registered();
                self.board.tell(&connected);
                self.poll_at = now;
                self.renew_at = now;
                // The fetch goes before a renewal, which it makes needless.
                self.advance(now);
            }
            Phase::Online if !self.begin_registration(now) => self.begin_report(now),
            Phase::Registering | Phase::Online => {}
        }
    }

    /// Sends the next wish that the gateway does not know of, if there is one.
    pub(super) fn begin_registration(&mut self, now: Instant) -> bool {
        let Some(sent) = self.registrations.next(now) else {
            return false;
        };
        let api = Rc::clone(&self.api);
        self.errand.begin(async move {
            let answer = api.register(&sent.registration).await;
            ErrandEnd::Registered(sent, answer)
        });
        true
    }

    /// Sends outcomes that no fetch will take along, and renews the lease that no fetch renews.
    fn begin_report(&mut self, now: Instant) {
        if self.report_at.is_some_and(|moment| moment <= now) {
            self.begin_commit();
        } else if self.fetch.is_idle() && self.renew_at <= now {
            let work = self.fetching(0, Duration::ZERO, now);
            self.errand
                .begin(async move { ErrandEnd::Fetched(work.await) });
        }
    }

    pub(super) fn begin_commit(&mut self) {
        let items = self.take_outcomes();
        let (api, cursor) = (Rc::clone(&self.api), self.cursor);
        self.errand.begin(async move {
            let answer = api.commit(cursor, &items).await;
            ErrandEnd::Committed(items, answer)
        });
    }

    /// Gives up what is under way; whatever it did, it can be done again.
    pub(super) fn disconnect(&mut self) {
        self.fetch.clear();
        self.errand.clear();
        self.desk.keep_all();
        self.report_at = None;
        self.registrations.forget_assertions();
    }

    fn ended(&self) -> Option<End> {
        let stop = self.stop.as_ref()?;
        let is_done = stop.stage == Stage::Done && self.errand.is_idle();
        is_done.then(|| stop.end(self.desk.unconfirmed()))
    }
}

/// Lets the handler work; a panic is an outcome.
async fn work_on<H: Handler>(handler: Rc<H>, delivery: Arc<Delivery>) -> (Seq, Handled) {
    let seq = delivery.seq;
    let work = AssertUnwindSafe(async { handler.handle(delivery).await });
    let handled = work.catch_unwind().await;
    let handled = handled.unwrap_or_else(|panic| Handled::panicked(panic.as_ref()));
    (seq, handled)
}

pub(super) fn later(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait).unwrap_or(now)
}
