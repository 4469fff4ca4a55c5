//! The one writer as an actor: what arrived while the last COMMIT ran is the next batch.
//!
//! Runs on an arbiter of its own and may block there. A handler never touches the database: it
//! pushes its write, and the first push asks for a `Flush`, which runs when the mailbox is empty
//! (actix polls the mailbox to its end before what `notify` spawned). So a lone write commits at
//! once, and a burst shares one fsync. A batch that is full is committed by the handler that
//! filled it; otherwise a steady stream could starve the `Flush`.
//!
//! Invariant: nobody is answered, no record written and nobody woken before the COMMIT.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult, Recipient};

use super::checkpointer::{Checkpointer, FinishCheckpoint};
use super::later::Later;
use super::liveness::Alive;
use super::messages::{
    BatchEnd, Checkpoint, Close, DeliveriesRouted, GiveBackPages, Observe, ReplaceSettings,
    StoreState, Submit, WakeThrough,
};
use super::store_health::StoreHealth;
use crate::domain::{Clock, InstanceName};
use crate::store::{
    self, CheckpointMode, Checkpointed, Effects, PendingWrite, RouteHeld, StoreError, Write,
    Writer, pending,
};
use crate::telemetry::{EventLog, GatewayEvent};

/// Writes in one batch.
pub const BATCH_WRITES_MAX: usize = 256;
/// Payload bytes in one batch, as they are stored.
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// More than all requests and adapters together send at once, so that a message enters the
/// mailbox when it is sent and the order of sending is the order of writing.
const MAILBOX_MAX: usize = 16_384;

/// What a [`StoreActor`] works with.
#[derive(Debug)]
pub struct StoreParts {
    /// The one writer.
    pub writer: Writer,
    /// Measures how long batches take.
    pub clock: Arc<dyn Clock>,
    /// Where the records of a batch go.
    pub log: EventLog,
    /// The flag to keep.
    pub health: StoreHealth,
    /// The sign of life to hold.
    pub alive: Alive,
}

/// The owner of the writer.
pub struct StoreActor {
    /// Gone once the store is closed.
    writer: Option<Writer>,
    /// Whether a thread of its own checkpoints, once this runs.
    is_to_checkpoint_beside: bool,
    checkpointer: Option<Checkpointer>,
    clock: Arc<dyn Clock>,
    log: EventLog,
    health: StoreHealth,
    wakes: Option<Recipient<DeliveriesRouted>>,
    batch: Vec<Box<dyn PendingWrite>>,
    batch_bytes: usize,
    routing: Routing,
    fault: Fault,
    state: StoreState,
    failed_in_a_row: u64,
    _alive: Alive,
}

impl fmt::Debug for StoreActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreActor")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Where the routing of held events stands: at most one `RouteHeld` is in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Routing {
    /// Nothing is left to route, as far as is known.
    Done,
    /// Something is left; the next batch that succeeds makes room for it.
    Owed,
    /// A `RouteHeld` is in the batch that is being collected.
    Queued,
}

/// What a write of the present batch was refused by the disk, if any: the batch itself may commit
/// nevertheless.
#[derive(Debug, Clone, Default)]
struct Fault(Arc<Mutex<Option<String>>>);

impl Fault {
    fn note<T>(&self, result: &Result<T, StoreError>) {
        if let Err(error @ StoreError::Unavailable { .. }) = result {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.get_or_insert_with(|| error.to_string());
        }
    }

    fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl StoreActor {
    /// An actor over a writer; tell it [`WakeThrough`] before the first write.
    #[must_use]
    pub fn new(parts: StoreParts) -> Self {
        Self {
            writer: Some(parts.writer),
            is_to_checkpoint_beside: false,
            checkpointer: None,
            clock: parts.clock,
            log: parts.log,
            health: parts.health,
            wakes: None,
            batch: Vec::with_capacity(BATCH_WRITES_MAX),
            batch_bytes: 0,
            // A routing that the last process left unfinished is a row; the first batch looks.
            routing: Routing::Owed,
            fault: Fault::default(),
            state: StoreState::default(),
            failed_in_a_row: 0,
            _alive: parts.alive,
        }
    }

    /// The same, with a thread of its own for checkpoints. Not where everything has to happen on
    /// one thread.
    #[must_use]
    pub fn checkpointing_beside(self) -> Self {
        Self {
            is_to_checkpoint_beside: true,
            ..self
        }
    }

    fn submit<W: Write>(
        &mut self,
        write: W,
        ctx: &mut Context<Self>,
    ) -> Later<Result<W::Reply, StoreError>> {
        let (later, answering) = Later::new();
        let fault = self.fault.clone();
        let write = pending(write, move |result| {
            fault.note(&result);
            answering.answer(result);
        });
        self.push(write, ctx);
        later
    }

    fn push(&mut self, write: Box<dyn PendingWrite>, ctx: &mut Context<Self>) {
        self.batch_bytes = self.batch_bytes.saturating_add(write.payload_bytes());
        self.batch.push(write);
        if self.batch.len() >= BATCH_WRITES_MAX {
            self.commit(BatchEnd::WritesMax, ctx);
        } else if self.batch_bytes >= BATCH_BYTES_MAX {
            self.commit(BatchEnd::BytesMax, ctx);
        } else if self.batch.len() == 1 {
            ctx.notify(Flush);
        }
    }

    fn commit(&mut self, ended_by: BatchEnd, ctx: &mut Context<Self>) {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let Some(writer) = self.writer.as_mut() else {
            return refuse_all(batch);
        };
        if batch.is_empty() {
            return;
        }
        let began = self.clock.instant();
        let span =
            tracing::debug_span!("batch", writes = batch.len(), ended_by = ended_by.as_str());
        let report = span.in_scope(|| writer.commit_batch(batch));
        let rows = writer.rows_changed();
        let took = self.clock.instant().saturating_duration_since(began);
        self.count(report.writes, ended_by, took);
        let failure = report.failure;
        let is_committed = failure.is_none();
        let routing_is_left = self.note_routing(is_committed, &report.effects);
        let fault = self.fault.take();
        self.note_health(failure.or(fault), report.effects.is_proven);
        if let (true, Some(checkpointer)) = (is_committed, &mut self.checkpointer) {
            checkpointer.count(rows);
        }
        self.make_known(report.effects);
        if routing_is_left {
            self.route_on(ctx);
        }
    }

    fn count(&mut self, writes: usize, ended_by: BatchEnd, took: Duration) {
        let metrics = self.log.metrics();
        metrics.batch(ended_by.as_str(), writes, took);
        let state = &mut self.state;
        state.batches = state.batches.saturating_add(1);
        state.writes = state
            .writes
            .saturating_add(u64::try_from(writes).unwrap_or(u64::MAX));
        let ends = state.ended_by.entry(ended_by).or_insert(0);
        *ends = ends.saturating_add(1);
    }

    /// True when the next batch is to route held events.
    fn note_routing(&mut self, is_committed: bool, effects: &Effects) -> bool {
        let was = std::mem::replace(&mut self.routing, Routing::Done);
        let is_owed = match was {
            Routing::Done => effects.routing_pending,
            Routing::Owed => true,
            Routing::Queued => effects.routing_pending || !is_committed,
        };
        if is_owed {
            // After a failed batch the next one that succeeds takes it up: no spinning meanwhile.
            self.routing = Routing::Owed;
        }
        is_owed && is_committed
    }

    /// One chunk goes with whatever arrives meanwhile, so that ingest is not kept waiting.
    fn route_on(&mut self, ctx: &mut Context<Self>) {
        self.routing = Routing::Queued;
        let fault = self.fault.clone();
        let write = pending(RouteHeld, move |result| {
            fault.note(&result);
            if let Err(error) = result {
                tracing::error!(%error, "cannot route held events");
            }
        });
        self.push(write, ctx);
    }

    /// A store that failed is well again once that is proven: see [`Probe`](crate::store::Probe).
    fn note_health(&mut self, failure: Option<String>, is_proven: bool) {
        if failure.is_none() && !is_proven && !self.health.is_ok() {
            return;
        }
        let is_news = self.health.note(failure.is_none());
        match failure {
            Some(error) => {
                self.log.metrics().batch_failed();
                self.state.failed = self.state.failed.saturating_add(1);
                self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
                if is_news {
                    tracing::error!(%error, "the store refuses writes");
                    let doing = "write the store";
                    self.log.record(GatewayEvent::Fault { doing, error });
                }
            }
            None if is_news => {
                let failed = std::mem::take(&mut self.failed_in_a_row);
                tracing::info!(failed, "the store takes writes again");
                self.log.record(GatewayEvent::Recovered { failed });
            }
            None => {}
        }
    }

    /// What is durable now may be known.
    fn make_known(&self, effects: Effects) {
        self.log.metrics().queues(&effects.tally);
        self.log.record_all(effects.events);
        self.wake(effects.wakes);
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a wake is answered by nobody, and one that waited for room would be a lost one"
    )]
    fn wake(&self, instances: std::collections::BTreeSet<InstanceName>) {
        if let (Some(wakes), false) = (&self.wakes, instances.is_empty()) {
            wakes.do_send(DeliveriesRouted { instances });
        }
    }

    fn start_checkpointer(&mut self, ctx: &Context<Self>) {
        let connection = self.writer.as_ref().map(Writer::connection);
        let path = connection.and_then(|connection| connection.path());
        if let (Some(connection), Some(path)) = (connection, path) {
            self.checkpointer = Checkpointer::start(Path::new(path), ctx.address().downgrade());
            if self.checkpointer.is_some() && store::expect_checkpoints(connection).is_err() {
                tracing::warn!("checkpoints run on the writer's thread too");
            }
        }
    }

    fn close(&mut self, ctx: &mut Context<Self>) -> Result<Checkpointed, StoreError> {
        self.commit(BatchEnd::Shutdown, ctx);
        self.checkpointer = None;
        let writer = self.writer.take().ok_or_else(closed)?;
        store::checkpoint(writer.connection(), CheckpointMode::Truncate)
    }
}

fn closed() -> StoreError {
    StoreError::Aborted("the store is closed".to_owned())
}

fn refuse_all(batch: Vec<Box<dyn PendingWrite>>) {
    for write in batch {
        write.settle(Err("the store is closed"));
    }
}

impl Actor for StoreActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_MAX);
        if self.is_to_checkpoint_beside {
            self.start_checkpointer(ctx);
        }
        self.route_on(ctx);
    }
}

/// The mailbox is empty: commit what was collected. Sent by the actor to itself.
#[derive(Debug, Clone, Copy)]
struct Flush;

impl Message for Flush {
    type Result = ();
}

impl Handler<Flush> for StoreActor {
    type Result = ();

    fn handle(&mut self, _: Flush, ctx: &mut Self::Context) {
        self.commit(BatchEnd::Drained, ctx);
    }
}

impl<W: Write> Handler<Submit<W>> for StoreActor {
    type Result = Later<Result<W::Reply, StoreError>>;

    fn handle(&mut self, Submit(write): Submit<W>, ctx: &mut Self::Context) -> Self::Result {
        self.submit(write, ctx)
    }
}

impl Handler<WakeThrough> for StoreActor {
    type Result = ();

    fn handle(&mut self, WakeThrough(wakes): WakeThrough, _: &mut Self::Context) {
        self.wakes = Some(wakes);
    }
}

impl Handler<ReplaceSettings> for StoreActor {
    type Result = ();

    fn handle(&mut self, ReplaceSettings(settings): ReplaceSettings, _: &mut Self::Context) {
        if let Some(writer) = &mut self.writer {
            writer.replace_settings(settings);
        }
    }
}

impl Handler<Checkpoint> for StoreActor {
    type Result = Result<Checkpointed, StoreError>;

    fn handle(&mut self, _: Checkpoint, _: &mut Self::Context) -> Self::Result {
        let writer = self.writer.as_ref().ok_or_else(closed)?;
        store::checkpoint(writer.connection(), CheckpointMode::Passive)
    }
}

impl Handler<FinishCheckpoint> for StoreActor {
    type Result = ();

    fn handle(&mut self, _: FinishCheckpoint, _: &mut Self::Context) {
        let Some(writer) = &self.writer else { return };
        if let Err(error) = store::checkpoint(writer.connection(), CheckpointMode::Passive) {
            tracing::debug!(%error, "a checkpoint failed");
        }
    }
}

impl Handler<GiveBackPages> for StoreActor {
    type Result = Result<u64, StoreError>;

    fn handle(&mut self, GiveBackPages(max): GiveBackPages, _: &mut Self::Context) -> Self::Result {
        let writer = self.writer.as_ref().ok_or_else(closed)?;
        store::give_back_pages(writer.connection(), max)
    }
}

impl Handler<Close> for StoreActor {
    type Result = Result<Checkpointed, StoreError>;

    fn handle(&mut self, _: Close, ctx: &mut Self::Context) -> Self::Result {
        self.close(ctx)
    }
}

impl Handler<Observe> for StoreActor {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(StoreState {
            pending: self.batch.len(),
            ..self.state.clone()
        })
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
