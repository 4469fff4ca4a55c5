//! One batch, one transaction, one fsync.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, Params, Row, params};

use super::clock_repair;
use super::effects::Effects;
use super::error::{Doing, StoreError};
use super::page_limit::PageLimit;
use super::pending::{Applied, PendingWrite, pending};
use super::read;
use super::route_memory::RouteMemory;
use super::settings::Settings;
use crate::broken::Break;
use crate::domain::{CallerToken, Clock, Timestamp};

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

    /// Makes the change and keeps what it was made from, so that it can be made again; `None` for
    /// a write that cannot. Writes that can share a savepoint with their neighbours of the kind,
    /// which saves the copies of pages that each savepoint takes.
    ///
    /// # Errors
    /// As [`Write::apply`].
    fn apply_repeatably(&self, _: &mut Tx<'_>) -> Option<Result<Self::Reply, StoreError>> {
        None
    }

    /// True when [`Write::apply_repeatably`] is there.
    fn is_repeatable(&self) -> bool {
        false
    }

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
    /// Whether any late routing is unfinished, as far as this batch knows.
    pub(super) pending_known: &'w Cell<Option<bool>>,
    /// What the last appends read of the tables that route them.
    pub(super) routes: &'w RouteMemory,
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

/// What the writes of one batch share.
struct BatchState {
    now: Timestamp,
    pending_known: Cell<Option<bool>>,
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
    routes: RouteMemory,
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
            routes: RouteMemory::default(),
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
    pub fn connection(&self) -> &Connection {
        // Whoever holds it can change what routes an event.
        self.routes.forget();
        &self.connection
    }

    /// Rows that its writes have changed so far.
    #[must_use]
    pub fn rows_changed(&self) -> u64 {
        self.connection.total_changes()
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
        self.begin(now)?;
        let batch_of = BatchState {
            now,
            pending_known: Cell::new(None),
        };
        match batch.as_mut_slice() {
            [alone] => {
                // Undone as a whole, if at all.
                if self.apply(&mut **alone, &batch_of, &mut total)? == Applied::Undone {
                    self.run("ROLLBACK", "undo a write")?;
                    self.routes.forget();
                    // A repair of the clock is undone with it: the next batch looks again.
                    return Ok(Effects::default());
                }
            }
            alike if alike.iter().all(|write| write.is_repeatable()) => {
                self.apply_alike(alike, &batch_of, &mut total)?;
            }
            mixed => {
                for group in
                    mixed.chunk_by_mut(|one, next| one.is_repeatable() && next.is_repeatable())
                {
                    self.apply_group(group, &batch_of, &mut total)?;
                }
            }
        }
        self.write_counters(&total)?;
        if Break::AckBeforeCommit.is_on() {
            batch.drain(..).for_each(|write| write.settle(Ok(())));
        }
        self.run("COMMIT", "commit")?;
        self.last_now = now;
        Ok(total)
    }

    fn begin(&self, now: Timestamp) -> Result<(), StoreError> {
        self.run("BEGIN IMMEDIATE", "begin")?;
        if now < self.last_now {
            self.routes.forget();
            clock_repair::run(&self.connection, now, &self.settings)?;
        }
        Ok(())
    }

    /// Applies a batch that can be applied again without any savepoint, which would keep a copy of
    /// every page it changes; when a write of it fails, begins anew with a savepoint each.
    fn apply_alike(
        &self,
        batch: &mut [Box<dyn PendingWrite>],
        state: &BatchState,
        total: &mut Effects,
    ) -> Result<(), StoreError> {
        if self.are_made(batch, state, total)? {
            return Ok(());
        }
        *total = Effects::default();
        self.run("ROLLBACK", "undo writes")?;
        self.forget(state);
        self.begin(state.now)?;
        self.apply_each(batch, state, total)
    }

    /// Applies neighbours in one savepoint; when one of them fails, each in one of its own.
    fn apply_group(
        &self,
        group: &mut [Box<dyn PendingWrite>],
        state: &BatchState,
        total: &mut Effects,
    ) -> Result<(), StoreError> {
        if group.len() > 1 {
            let mut effects = Effects::default();
            self.run("SAVEPOINT several", "begin writes")?;
            let are_made = self.are_made(group, state, &mut effects)?;
            if !are_made {
                self.run("ROLLBACK TO several", "undo writes")?;
                self.forget(state);
            }
            self.run("RELEASE several", "end writes")?;
            if are_made {
                total.absorb(effects);
                return Ok(());
            }
        }
        self.apply_each(group, state, total)
    }

    /// Applies writes one after the other; false, with the rest of them not begun, when one fails.
    fn are_made(
        &self,
        writes: &mut [Box<dyn PendingWrite>],
        state: &BatchState,
        effects: &mut Effects,
    ) -> Result<bool, StoreError> {
        for write in writes {
            if self.apply(&mut **write, state, effects)? == Applied::Undone {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies each write in a savepoint of its own.
    fn apply_each(
        &self,
        writes: &mut [Box<dyn PendingWrite>],
        state: &BatchState,
        total: &mut Effects,
    ) -> Result<(), StoreError> {
        for write in writes {
            let mut effects = Effects::default();
            self.run("SAVEPOINT one", "begin a write")?;
            match self.apply(&mut **write, state, &mut effects)? {
                Applied::Made | Applied::Skipped => total.absorb(effects),
                Applied::Undone => {
                    self.run("ROLLBACK TO one", "undo a write")?;
                    self.forget(state);
                }
            }
            self.run("RELEASE one", "end a write")?;
        }
        Ok(())
    }

    fn apply(
        &self,
        write: &mut dyn PendingWrite,
        state: &BatchState,
        effects: &mut Effects,
    ) -> Result<Applied, StoreError> {
        self.routes.use_for(write.is_repeatable());
        let applied = write.apply(&mut Tx {
            connection: &self.connection,
            now: state.now,
            clock: &*self.clock,
            settings: &self.settings,
            effects,
            pending_known: &state.pending_known,
            routes: &self.routes,
        });
        if self.connection.is_autocommit() {
            return Err(StoreError::Aborted("the database rolled back".to_owned()));
        }
        Ok(applied)
    }

    /// Forgets what a write that was undone may have learned.
    fn forget(&self, state: &BatchState) {
        state.pending_known.set(None);
        self.routes.forget();
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
        self.routes.forget();
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back");
        }
    }
}
