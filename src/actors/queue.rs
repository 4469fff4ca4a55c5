//! The queue of one instance, as far as it lives in memory: who waits, and for what.
//!
//! One request at a time goes to the store, so fetches and commits reach it in order. At most one
//! fetch is held. Nothing is lost between looking and waiting: the actor notes the wake epoch,
//! asks the store, and holds the fetch only when the answer is empty; if the epoch has moved
//! meanwhile it asks again. What is due, whose lease it is and what was handed out is known to
//! the store alone.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::fut::WrapFuture;
use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, MailboxError, Recipient, ResponseFuture,
    SpawnHandle,
};
use tokio::sync::oneshot;

use super::messages::{Commit, Drain, Fetch, FetchAnswer, PollEnd, QueueError, Submit, Wake};
use crate::broken::Break;
use crate::domain::{Clock, Millis, Timestamp};
use crate::store::{CommitOutcomes, Committed, FetchBatch, Fetched, StoreError};

/// Requests of one queue that wait for their turn at the store.
const JOBS_MAX: usize = 256;
/// The clock wakes no sooner than this, so that a due time in the past is no spin.
const TIMER_MIN: Duration = Duration::from_millis(20);
const MAILBOX_MAX: usize = 1_024;

/// The two things that a queue asks of the store.
#[derive(Debug, Clone)]
pub struct StoreDoor {
    /// Takes fetches.
    pub fetch: Recipient<Submit<FetchBatch>>,
    /// Takes commits.
    pub commit: Recipient<Submit<CommitOutcomes>>,
}

/// The queue of one instance.
pub(super) struct QueueActor {
    store: StoreDoor,
    clock: Arc<dyn Clock>,
    /// Moves with every wake.
    epoch: u64,
    jobs: VecDeque<Job>,
    is_asking: bool,
    held: Option<Held>,
    is_draining: bool,
    drained: Vec<oneshot::Sender<()>>,
}

/// What waits for its turn at the store.
enum Job {
    Fetch(Box<Ask>),
    Commit(Box<CommitOutcomes>, Reply<Committed>),
}

type Reply<T> = oneshot::Sender<Result<T, QueueError>>;
type Answer<T> = Result<Result<T, StoreError>, MailboxError>;

/// A fetch on its way.
struct Ask {
    fetch: Fetch,
    /// When its wait is over.
    until: Instant,
    /// Set when it only learns from the store how its poll ends.
    ends: Option<PollEnd>,
    reply: Reply<FetchAnswer>,
}

/// The fetch that is held, with what the store said last.
struct Held {
    ask: Box<Ask>,
    fetched: Fetched,
    is_due: bool,
    timer: SpawnHandle,
}

impl Ask {
    fn remaining(&self, clock: &dyn Clock) -> Duration {
        self.until.saturating_duration_since(clock.instant())
    }

    /// The next request to the store. Outcomes go with the first one only.
    fn batch(&mut self, clock: &dyn Clock) -> FetchBatch {
        let remaining = self.remaining(clock);
        FetchBatch {
            identity: self.fetch.identity.clone(),
            peer: self.fetch.peer.clone(),
            cursor: self.fetch.cursor,
            limit: if self.ends.is_some() {
                0
            } else {
                self.fetch.limit
            },
            lease_ms: self.fetch.lease_ms,
            park_ms: (self.ends.is_none() && !remaining.is_zero()).then(|| millis(remaining)),
            commit: std::mem::take(&mut self.fetch.commit),
            caller: self.fetch.caller.clone(),
        }
    }

    fn answer(self, fetched: Fetched, ended: PollEnd) {
        tell(self.reply, Ok(FetchAnswer { fetched, ended }));
    }
}

impl fmt::Debug for QueueActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueActor")
            .field("jobs", &self.jobs.len())
            .field("is_holding", &self.held.is_some())
            .finish_non_exhaustive()
    }
}

impl QueueActor {
    pub(super) fn new(store: StoreDoor, clock: Arc<dyn Clock>, is_draining: bool) -> Self {
        Self {
            store,
            clock,
            epoch: 0,
            jobs: VecDeque::new(),
            is_asking: false,
            held: None,
            is_draining,
            drained: Vec::new(),
        }
    }

    fn accept(&mut self, job: Job, ctx: &mut Context<Self>) {
        if self.jobs.len() < JOBS_MAX {
            self.jobs.push_back(job);
            return self.advance(ctx);
        }
        match job {
            Job::Fetch(ask) => tell(ask.reply, Err(QueueError::Overloaded)),
            Job::Commit(_, reply) => tell(reply, Err(QueueError::Overloaded)),
        }
    }

    /// Sends the next request to the store, if none is on its way.
    fn advance(&mut self, ctx: &mut Context<Self>) {
        while !self.is_asking {
            match self.next(ctx) {
                // Never handed anything; its lease ends by itself.
                Some(Job::Fetch(ask)) if ask.fetch.caller.is_gone() => {}
                Some(Job::Fetch(ask)) => self.ask(ask, ctx),
                Some(Job::Commit(commit, reply)) => self.send_commit(*commit, reply, ctx),
                None => return self.tell_drained(),
            }
        }
    }

    /// A held fetch that is due goes before commits, but not before a newer fetch, which may take
    /// its place.
    fn next(&mut self, ctx: &mut Context<Self>) -> Option<Job> {
        let is_due = self.held.as_ref().is_some_and(|held| held.is_due);
        let has_newer = self.jobs.iter().any(|job| matches!(job, Job::Fetch(_)));
        if is_due && !has_newer {
            return self.release(ctx).map(|held| Job::Fetch(held.ask));
        }
        self.jobs.pop_front()
    }

    fn release(&mut self, ctx: &mut Context<Self>) -> Option<Held> {
        let held = self.held.take()?;
        ctx.cancel_future(held.timer);
        Some(held)
    }

    fn ask(&mut self, mut ask: Box<Ask>, ctx: &mut Context<Self>) {
        self.is_asking = true;
        let epoch = self.epoch;
        let answer = self.store.fetch.send(Submit(ask.batch(&*self.clock)));
        let answered = answer
            .into_actor(self)
            .map(move |answer, queue: &mut Self, ctx| {
                queue.is_asking = false;
                queue.take_answer(ask, epoch, answer, ctx);
                queue.advance(ctx);
            });
        ctx.spawn(answered);
    }

    fn send_commit(
        &mut self,
        commit: CommitOutcomes,
        reply: Reply<Committed>,
        ctx: &mut Context<Self>,
    ) {
        self.is_asking = true;
        let answer = self.store.commit.send(Submit(commit));
        let answered = answer
            .into_actor(self)
            .map(move |answer, queue: &mut Self, ctx| {
                queue.is_asking = false;
                tell(reply, flatten(answer));
                queue.advance(ctx);
            });
        ctx.spawn(answered);
    }

    fn take_answer(
        &mut self,
        ask: Box<Ask>,
        epoch: u64,
        answer: Answer<Fetched>,
        ctx: &mut Context<Self>,
    ) {
        let fetched = match flatten(answer) {
            Ok(fetched) => fetched,
            Err(error) => return tell(ask.reply, Err(error)),
        };
        if ask.ends.is_none() {
            self.supersede(&ask.fetch, ctx);
        }
        match self.reason_to_answer(&ask, &fetched) {
            Some(ended) => ask.answer(fetched, ended),
            None => self.hold(ask, fetched, epoch, ctx),
        }
    }

    /// Ends the held poll in favour of a newer fetch that the store has admitted: one that it
    /// refused, of another peer, disturbs nobody.
    fn supersede(&mut self, newer: &Fetch, ctx: &mut Context<Self>) {
        if Break::NewerWaitsBeside.is_on() {
            return;
        }
        let Some(mut held) = self.release(ctx) else {
            return;
        };
        let older = &held.ask.fetch.identity;
        let is_other_run = older.run.is_some() && older.run != newer.identity.run;
        if is_other_run || older.peer != newer.identity.peer {
            // The store knows whether it was taken over from, and says so.
            held.ask.ends = Some(PollEnd::Superseded);
            self.jobs.push_front(Job::Fetch(held.ask));
        } else if newer.limit == 0 {
            // It committed and renewed only: the held poll goes on, and looks what came free.
            self.jobs.push_front(Job::Fetch(held.ask));
        } else {
            // The same run, once more. Asking the store for the older fetch would make it the
            // latest again, with what it had received then.
            held.ask.answer(held.fetched, PollEnd::Superseded);
        }
    }

    fn reason_to_answer(&self, ask: &Ask, fetched: &Fetched) -> Option<PollEnd> {
        let is_to_wait = !ask.fetch.wait.is_zero() && ask.fetch.limit > 0;
        if let Some(ended) = ask.ends {
            Some(ended)
        } else if !fetched.deliveries.is_empty() || !is_to_wait {
            Some(PollEnd::Answered)
        } else if self.is_draining {
            Some(PollEnd::Drained)
        } else {
            let is_over = ask.remaining(&*self.clock).is_zero();
            is_over.then_some(PollEnd::WaitElapsed)
        }
    }

    fn hold(&mut self, ask: Box<Ask>, fetched: Fetched, epoch: u64, ctx: &mut Context<Self>) {
        let remaining = ask.remaining(&*self.clock);
        let due_in = fetched
            .next_due_at
            .filter(|_| !Break::DueWakesNobody.is_on())
            .map_or(Duration::MAX, |due_at| until(due_at, self.clock.now()));
        let is_end = remaining <= due_in;
        let timer = ctx.run_later(remaining.min(due_in), move |queue, ctx| {
            queue.ring(is_end, ctx);
        });
        self.held = Some(Held {
            ask,
            fetched,
            is_due: epoch != self.epoch,
            timer,
        });
    }

    /// The held fetch's time has come: its wait is over, or something is due by the clock.
    fn ring(&mut self, is_end: bool, ctx: &mut Context<Self>) {
        if let Some(held) = &mut self.held {
            held.is_due = true;
            if is_end {
                held.ask.until = self.clock.instant();
            }
        }
        self.advance(ctx);
    }

    fn wake(&mut self, ctx: &mut Context<Self>) {
        self.epoch = self.epoch.wrapping_add(1);
        if let Some(held) = &mut self.held {
            held.is_due = true;
        }
        self.advance(ctx);
    }

    fn drain(&mut self, ctx: &mut Context<Self>) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.is_draining = true;
        self.drained.push(sender);
        if let Some(mut held) = self.release(ctx) {
            // The answer writes the lease anew, which covered the wait.
            held.ask.ends = Some(PollEnd::Drained);
            self.jobs.push_back(Job::Fetch(held.ask));
        }
        self.advance(ctx);
        receiver
    }

    fn tell_drained(&mut self) {
        for drained in self.drained.drain(..) {
            if drained.send(()).is_err() {
                tracing::debug!("nobody waits for a queue to drain");
            }
        }
    }
}

fn flatten<T>(answer: Answer<T>) -> Result<T, QueueError> {
    answer?.map_err(QueueError::Store)
}

/// Answers; a caller that left hears nothing.
fn tell<T>(reply: Reply<T>, answer: Result<T, QueueError>) {
    drop(reply.send(answer));
}

fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}

/// The wait until a moment by the wall clock.
fn until(due_at: Timestamp, now: Timestamp) -> Duration {
    let millis = u64::try_from(due_at.since(now)).unwrap_or(0);
    Duration::from_millis(millis).max(TIMER_MIN)
}

impl Actor for QueueActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_MAX);
    }
}

impl Handler<Fetch> for QueueActor {
    type Result = ResponseFuture<Result<FetchAnswer, QueueError>>;

    fn handle(&mut self, fetch: Fetch, ctx: &mut Self::Context) -> Self::Result {
        let (reply, answer) = oneshot::channel();
        let now = self.clock.instant();
        let ask = Ask {
            until: now.checked_add(fetch.wait).unwrap_or(now),
            fetch,
            ends: None,
            reply,
        };
        self.accept(Job::Fetch(Box::new(ask)), ctx);
        Box::pin(async move { answer.await.unwrap_or(Err(QueueError::Unavailable)) })
    }
}

impl Handler<Commit> for QueueActor {
    type Result = ResponseFuture<Result<Committed, QueueError>>;

    fn handle(&mut self, Commit(commit): Commit, ctx: &mut Self::Context) -> Self::Result {
        let (reply, answer) = oneshot::channel();
        self.accept(Job::Commit(Box::new(commit), reply), ctx);
        Box::pin(async move { answer.await.unwrap_or(Err(QueueError::Unavailable)) })
    }
}

impl Handler<Wake> for QueueActor {
    type Result = ();

    fn handle(&mut self, _: Wake, ctx: &mut Self::Context) {
        self.wake(ctx);
    }
}

impl Handler<Drain> for QueueActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Drain, ctx: &mut Self::Context) -> Self::Result {
        let drained = self.drain(ctx);
        Box::pin(async move {
            if drained.await.is_err() {
                tracing::debug!("a queue ended while it drained");
            }
        })
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
