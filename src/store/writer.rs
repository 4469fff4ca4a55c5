//! One batch, one transaction, one fsync.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, Params, Row, params};

use super::clock_repair;
use super::error::{Doing, StoreError};
use super::page_limit::PageLimit;
use super::read;
use super::settings::Settings;
use crate::broken::Break;
use crate::domain::{CallerToken, Clock, InstanceName, Timestamp};
use crate::telemetry::GatewayEvent;

/// A change of the store: one struct per kind, applied within a savepoint.
pub trait Write: Send + 'static {
    /// What the caller is told once the change is durable.
    type Reply: Send + 'static;

    /// Makes the change.
    ///
    /// # Errors
    /// A [`StoreError::Refused`] undoes this write alone; anything else fails it, and the batch
    /// with it when the database has rolled back by itself.
    fn apply(self, tx: &mut Tx<'_>) -> Result<Self::Reply, StoreError>;

    /// How much it adds to the batch, for the bound on a batch's bytes.
    fn payload_bytes(&self) -> usize {
        0
    }

    /// Who waits for it; a write whose caller is gone is not begun.
    fn caller(&self) -> CallerToken {
        CallerToken::always()
    }
}

/// What a write sees while it is applied.
#[derive(Debug)]
pub struct Tx<'w> {
    /// The writing connection, inside the batch's transaction.
    pub connection: &'w Connection,
    /// The moment of the batch; one for all its writes.
    pub now: Timestamp,
    /// The clock, for bounds on the time that a write takes.
    pub clock: &'w dyn Clock,
    /// The bounds in force.
    pub settings: &'w Settings,
    /// What happens once the batch is durable.
    pub effects: &'w mut Effects,
}

impl Tx<'_> {
    /// Runs a constant statement that returns no rows; tells how many rows it changed.
    pub(super) fn execute<P: Params>(
        &self,
        sql: &'static str,
        params: P,
        doing: &'static str,
    ) -> Result<usize, StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(params))
            .doing(doing)
    }

    /// The first row of a constant query, if there is one.
    pub(super) fn first<P: Params, T>(
        &self,
        sql: &'static str,
        params: P,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
        doing: &'static str,
    ) -> Result<Option<T>, StoreError> {
        read::first(self.connection, sql, params, read, doing)
    }

    /// All rows of a constant query; the query bounds their number.
    pub(super) fn all<P: Params, T>(
        &self,
        sql: &'static str,
        params: P,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        doing: &'static str,
    ) -> Result<Vec<T>, StoreError> {
        read::all(self.connection, sql, params, read, doing)
    }
}

/// What happens once a batch is durable.
#[derive(Debug, Default)]
pub struct Effects {
    /// Records for the event log, in order.
    pub events: Vec<GatewayEvent>,
    /// Queues on which something may be due.
    pub wakes: BTreeSet<InstanceName>,
    /// True when held events wait to be routed by [`RouteHeld`](super::RouteHeld).
    pub routing_pending: bool,
    /// True when the disk had room for a [`Probe`](super::Probe).
    pub is_proven: bool,
    /// Change of the number of stored events.
    pub events_delta: i64,
    /// Change of the number of held events.
    pub held_delta: i64,
    /// Change of the backlog by instance number.
    pub backlog_delta: BTreeMap<i64, i64>,
}

impl Effects {
    /// Adds what a successful write wants.
    fn absorb(&mut self, other: Self) {
        self.events.extend(other.events);
        self.wakes.extend(other.wakes);
        self.routing_pending |= other.routing_pending;
        self.is_proven |= other.is_proven;
        self.events_delta = self.events_delta.saturating_add(other.events_delta);
        self.held_delta = self.held_delta.saturating_add(other.held_delta);
        for (instance, delta) in other.backlog_delta {
            self.add_backlog(instance, delta);
        }
    }

    /// Counts deliveries that became live (positive) or ended (negative).
    pub fn add_backlog(&mut self, instance_id: i64, delta: i64) {
        let total = self.backlog_delta.entry(instance_id).or_insert(0);
        *total = total.saturating_add(delta);
    }
}

/// A write with its caller, of whatever kind.
pub trait PendingWrite: Send {
    /// Applies it within the open savepoint and keeps the result for [`PendingWrite::settle`].
    ///
    /// # Errors
    /// As [`Write::apply`]; the error itself is kept for the caller, this tells its kind.
    fn apply(&mut self, tx: &mut Tx<'_>) -> Applied;

    /// Tells the caller: its own result when `committed`, else why the batch failed.
    fn settle(self: Box<Self>, committed: Result<(), &str>);

    /// As [`Write::payload_bytes`].
    fn payload_bytes(&self) -> usize;
}

/// How the application of a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Made: release its savepoint.
    Made,
    /// Not made: roll its savepoint back.
    Undone,
}

/// Pairs a write with the one who is told its result.
pub fn pending<W, F>(write: W, answer: F) -> Box<dyn PendingWrite>
where
    W: Write,
    F: FnOnce(Result<W::Reply, StoreError>) + Send + 'static,
{
    let (bytes, caller) = (write.payload_bytes(), write.caller());
    Box::new(Pending {
        write: Some(write),
        result: None,
        answer,
        bytes,
        caller,
    })
}

struct Pending<W: Write, F> {
    write: Option<W>,
    result: Option<Result<W::Reply, StoreError>>,
    answer: F,
    bytes: usize,
    caller: CallerToken,
}

impl<W, F> PendingWrite for Pending<W, F>
where
    W: Write,
    F: FnOnce(Result<W::Reply, StoreError>) + Send + 'static,
{
    fn apply(&mut self, tx: &mut Tx<'_>) -> Applied {
        let result = match self.write.take() {
            Some(_) if self.caller.is_gone() => Err(StoreError::CallerGone),
            Some(write) => write.apply(tx),
            None => Err(StoreError::Aborted("applied twice".to_owned())),
        };
        let applied = if result.is_ok() {
            Applied::Made
        } else {
            Applied::Undone
        };
        self.result = Some(result);
        applied
    }

    fn settle(self: Box<Self>, committed: Result<(), &str>) {
        let answer = match (committed, self.result) {
            // A refusal stands whatever becomes of the batch: it changed nothing.
            (_, Some(Err(error))) => Err(error),
            (Ok(()), Some(Ok(reply))) => Ok(reply),
            (Err(why), _) => Err(StoreError::Aborted(why.to_owned())),
            (Ok(()), None) => Err(StoreError::Aborted("not applied".to_owned())),
        };
        (self.answer)(answer);
    }

    fn payload_bytes(&self) -> usize {
        self.bytes
    }
}

/// What became of a batch.
#[derive(Debug)]
pub struct BatchReport {
    /// What to do now; empty when the batch failed.
    pub effects: Effects,
    /// Why the batch failed, if it did.
    pub failure: Option<String>,
    /// Writes in it.
    pub writes: usize,
}

/// The one writer.
pub struct Writer {
    connection: Connection,
    settings: Settings,
    clock: Arc<dyn Clock>,
    /// The moment of the last batch: a batch before it says that the clock was set back.
    last_now: Timestamp,
    page_limit: PageLimit,
    pages_max: Option<u32>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// A writer over an opened connection.
    #[must_use]
    pub fn new(connection: Connection, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        // The clock may have been set back while no gateway ran: the first batch looks.
        let last_now = Timestamp(i64::MAX);
        Self {
            connection,
            settings,
            clock,
            last_now,
            page_limit: PageLimit::default(),
            pages_max: None,
        }
    }

    /// The same writer, over a file that may be kept from growing.
    #[must_use]
    pub fn within(self, page_limit: PageLimit) -> Self {
        Self { page_limit, ..self }
    }

    /// Puts other bounds in force, from the next batch on.
    pub fn replace_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// The bounds in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The writing connection, for what is no write of a batch: checkpoints, pragmas, tests.
    #[must_use]
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Applies the writes as one transaction, then tells each caller its result.
    pub fn commit_batch(&mut self, mut batch: Vec<Box<dyn PendingWrite>>) -> BatchReport {
        let writes = batch.len();
        let (effects, failure) = match self.try_commit(&mut batch) {
            Ok(effects) => (effects, None),
            Err(error) => {
                self.abandon();
                (Effects::default(), Some(error.to_string()))
            }
        };
        for write in batch {
            write.settle(failure.as_deref().map_or(Ok(()), Err));
        }
        BatchReport {
            effects,
            failure,
            writes,
        }
    }

    /// Applies one write as a batch of its own.
    ///
    /// # Errors
    /// As [`Write::apply`], or when the COMMIT fails.
    pub fn commit_one<W: Write>(
        &mut self,
        write: W,
    ) -> (Result<W::Reply, StoreError>, BatchReport) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let report = self.commit_batch(vec![pending(write, move |result| {
            // The receiver outlives the batch.
            drop(sender.send(result));
        })]);
        let lost = || Err(StoreError::Aborted("not answered".to_owned()));
        (receiver.try_recv().unwrap_or_else(|_| lost()), report)
    }

    fn try_commit(
        &mut self,
        batch: &mut Vec<Box<dyn PendingWrite>>,
    ) -> Result<Effects, StoreError> {
        let mut total = Effects::default();
        let now = self.clock.now();
        self.pages_max = self.page_limit.apply(&self.connection, self.pages_max)?;
        self.run("BEGIN IMMEDIATE", "begin")?;
        if now < self.last_now {
            clock_repair::run(&self.connection, now, &self.settings)?;
        }
        for write in batch.iter_mut() {
            self.run("SAVEPOINT one", "begin a write")?;
            let mut effects = Effects::default();
            let mut tx = Tx {
                connection: &self.connection,
                now,
                clock: &*self.clock,
                settings: &self.settings,
                effects: &mut effects,
            };
            match write.apply(&mut tx) {
                Applied::Made => total.absorb(effects),
                Applied::Undone => self.run("ROLLBACK TO one", "undo a write")?,
            }
            if self.connection.is_autocommit() {
                return Err(StoreError::Aborted("the database rolled back".to_owned()));
            }
            self.run("RELEASE one", "end a write")?;
        }
        self.write_counters(&total)?;
        if Break::AckBeforeCommit.is_on() {
            batch.drain(..).for_each(|write| write.settle(Ok(())));
        }
        self.run("COMMIT", "commit")?;
        self.last_now = now;
        Ok(total)
    }

    fn write_counters(&self, effects: &Effects) -> Result<(), StoreError> {
        let doing = "keep its counters";
        for (name, delta) in [
            ("events", effects.events_delta),
            ("held", effects.held_delta),
        ] {
            if delta != 0 {
                self.connection
                    .prepare_cached("UPDATE counters SET value = value + ?2 WHERE name = ?1")
                    .and_then(|mut statement| statement.execute(params![name, delta]))
                    .doing(doing)?;
            }
        }
        for (instance, delta) in effects
            .backlog_delta
            .iter()
            .filter(|(_, delta)| **delta != 0)
        {
            self.connection
                .prepare_cached("UPDATE instances SET backlog = backlog + ?2 WHERE id = ?1")
                .and_then(|mut statement| statement.execute(params![instance, delta]))
                .doing(doing)?;
        }
        Ok(())
    }

    fn run(&self, sql: &'static str, doing: &'static str) -> Result<(), StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.raw_execute())
            .map(|_| ())
            .doing(doing)
    }

    /// Leaves the connection outside any transaction after a failure.
    fn abandon(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back");
        }
    }
}
