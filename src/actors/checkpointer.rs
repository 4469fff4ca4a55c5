//! Moves the write-ahead log into the database file on a thread of its own: the syncs of it are
//! not the writer's to wait for.
//!
//! The log begins anew only when all of it was moved and nothing was added meanwhile, which under
//! steady load a thread beside the writer never sees. So this one moves the bulk and then asks the
//! writer for the few pages that came while it did. Without the thread SQLite checkpoints within a
//! COMMIT, as it always would.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use actix::{Message, WeakAddr};

use super::store::StoreActor;
use crate::store::{CheckpointMode, ReadConnection, checkpoint, open_checkpointer};

/// Rows that are changed from one checkpoint to the next: each is about a page of the log, and an
/// event about four. Writes would not do: one of retention changes many rows.
const ROWS_BETWEEN: u64 = 4_096;
/// The second pass moves what came during the first, and is short.
const PASSES: usize = 2;

/// Moves what is left of the log, on the writing connection. Sent by the thread when it has moved
/// nearly all.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinishCheckpoint;

impl Message for FinishCheckpoint {
    type Result = ();
}

/// The thread, for as long as this is kept.
#[derive(Debug)]
pub(super) struct Checkpointer {
    due: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Rows that the writer had changed when the last one was due.
    rows_seen: u64,
}

impl Checkpointer {
    /// Starts the thread for a store; `None`, with a warning, when it cannot be had.
    pub(super) fn start(path: &Path, store: WeakAddr<StoreActor>) -> Option<Self> {
        let connection = open_checkpointer(path)
            .map_err(|error| tracing::warn!(%error, "checkpoints run on the writer's thread"))
            .ok()?;
        let (due, is_due) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("checkpoints".to_owned())
            .spawn(move || run(&connection, &is_due, &store))
            .map_err(|error| tracing::warn!(%error, "checkpoints run on the writer's thread"))
            .ok()?;
        Some(Self {
            due: Some(due),
            thread: Some(thread),
            rows_seen: 0,
        })
    }

    /// Takes the number of rows that the writer has changed so far, and wakes the thread when there
    /// is enough to move.
    pub(super) fn count(&mut self, rows: u64) {
        if rows.saturating_sub(self.rows_seen) >= ROWS_BETWEEN
            && let Some(due) = &self.due
        {
            self.rows_seen = rows;
            if due.try_send(()).is_err() {
                // It is still at the one before, and comes by again.
                tracing::trace!("a checkpoint is already due");
            }
        }
    }
}

/// Waits for the checkpoint in progress, so that the last one finds nobody in its way.
impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.due = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpointing thread ended in a panic");
        }
    }
}

fn run(connection: &ReadConnection, is_due: &Receiver<()>, store: &WeakAddr<StoreActor>) {
    while is_due.recv().is_ok() {
        for _ in 0..PASSES {
            if let Err(error) = checkpoint(connection, CheckpointMode::Passive) {
                // The writer meets the same disk and says so; the log is kept until it works.
                tracing::debug!(%error, "a checkpoint failed");
            }
        }
        match store.upgrade() {
            // A store too busy for it is asked again after the next ones.
            Some(store) => drop(store.try_send(FinishCheckpoint)),
            None => return,
        }
    }
}
