//! What nobody asks for and has to be done: retention, grace, checkpoints, and the look whether a
//! disk that refused takes writes again.
//!
//! One round at a time, each a row of small writes between which ingest goes on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::fut::WrapFuture;
use actix::{Actor, ActorFutureExt, AsyncContext, Context, MailboxError};

use super::liveness::Alive;
use super::messages::{Checkpoint, GiveBackPages, Observe, Submit};
use super::{Store, StoreHealth};
use crate::domain::Clock;
use crate::store::{EndProbe, Expire, ExpireGrace, NoteUnattended, Probe, StoreError, Write};

/// Pieces of a kind in one round; what is left is for the next one.
const PIECES_MAX: u32 = 1_000;
/// The same of a sweep, whose pieces are short: so many drop about a million events.
const SWEEP_PIECES_MAX: u32 = 20_000;
/// Unused pages that the file keeps, so that it does not shrink and grow with every sweep.
const PAGES_KEPT: u64 = 4_096;
/// Pages given back in one piece.
const PAGES_GIVEN_BACK: u32 = 256;

/// What a [`HousekeepingActor`] works with.
#[derive(Debug)]
pub struct HousekeepingParts {
    /// The writer.
    pub store: Store,
    /// Whether the writer works.
    pub health: StoreHealth,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The write-ahead log, for its size.
    pub wal_path: PathBuf,
    /// The time between two rounds.
    pub every: Duration,
    /// The time between two sweeps for what is too old or too much.
    pub sweep_every: Duration,
    /// The sign of life to hold.
    pub alive: Alive,
}

/// Keeps the store in order.
#[derive(Debug)]
pub struct HousekeepingActor {
    keeper: Option<Keeper>,
    every: Duration,
    _alive: Alive,
}

/// What a round works with; with the round while one runs.
#[derive(Debug)]
struct Keeper {
    store: Store,
    health: StoreHealth,
    clock: Arc<dyn Clock>,
    wal_path: PathBuf,
    sweep_every: Duration,
    swept_at: Option<Instant>,
    /// Writes that the store had made when the last round ended.
    writes_seen: u64,
    is_checkpointed: bool,
}

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the store is gone")]
    Gone(#[from] MailboxError),
}

impl HousekeepingActor {
    /// An actor that begins with its first round at once.
    #[must_use]
    pub fn new(parts: HousekeepingParts) -> Self {
        Self {
            keeper: Some(Keeper {
                store: parts.store,
                health: parts.health,
                clock: parts.clock,
                wal_path: parts.wal_path,
                sweep_every: parts.sweep_every,
                swept_at: None,
                writes_seen: 0,
                is_checkpointed: false,
            }),
            every: parts.every,
            _alive: parts.alive,
        }
    }

    /// Begins a round, unless the last one still runs.
    fn begin(&mut self, ctx: &mut Context<Self>) {
        let Some(mut keeper) = self.keeper.take() else {
            return;
        };
        let round = async move {
            keeper.round().await;
            keeper
        };
        let ended = round
            .into_actor(self)
            .map(|keeper, housekeeping: &mut Self, _| housekeeping.keeper = Some(keeper));
        ctx.spawn(ended);
    }
}

impl Actor for HousekeepingActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.begin(ctx);
        ctx.run_interval(self.every, Self::begin);
    }
}

impl Keeper {
    /// A round that fails is left; the store says itself what is wrong with the disk.
    async fn round(&mut self) {
        if let Err(error) = self.try_round().await {
            tracing::debug!(%error, "a round of housekeeping ended early");
        }
    }

    async fn try_round(&mut self) -> Result<(), Trouble> {
        if !self.health.is_ok() {
            self.submit(Probe).await?;
            return self.submit(EndProbe).await;
        }
        let is_idle = self.store.send(Observe).await?.writes == self.writes_seen;
        self.expire_grace().await?;
        if self.is_sweep_due() {
            self.sweep().await?;
        }
        self.checkpoint(is_idle).await?;
        self.writes_seen = self.store.send(Observe).await?.writes;
        Ok(())
    }

    async fn submit<W: Write>(&self, write: W) -> Result<W::Reply, Trouble> {
        Ok(self.store.send(Submit(write)).await??)
    }

    async fn expire_grace(&self) -> Result<(), Trouble> {
        for _ in 0..PIECES_MAX {
            let expired = self.submit(ExpireGrace).await?;
            let now = self.clock.now();
            if expired.next_due_at.is_none_or(|due_at| due_at > now) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_sweep_due(&self) -> bool {
        let now = self.clock.instant();
        self.swept_at
            .is_none_or(|at| now.saturating_duration_since(at) >= self.sweep_every)
    }

    async fn sweep(&mut self) -> Result<(), Trouble> {
        let wal_bytes = std::fs::metadata(&self.wal_path).map_or(0, |found| found.len());
        for _ in 0..SWEEP_PIECES_MAX {
            if !self.submit(Expire { wal_bytes }).await?.more {
                break;
            }
        }
        let unattended = self.submit(NoteUnattended).await?;
        self.health.note_unattended(unattended.subjects);
        self.give_back_pages().await?;
        self.swept_at = Some(self.clock.instant());
        Ok(())
    }

    /// At first nothing is given back: that only tells how much is unused.
    async fn give_back_pages(&self) -> Result<(), Trouble> {
        let mut pages = 0;
        for _ in 0..PIECES_MAX {
            let unused = self.store.send(GiveBackPages(pages)).await??;
            if unused <= PAGES_KEPT {
                return Ok(());
            }
            pages = PAGES_GIVEN_BACK;
        }
        Ok(())
    }

    /// Once when the store has come to rest: a checkpoint while it is busy would be done again.
    async fn checkpoint(&mut self, is_idle: bool) -> Result<(), Trouble> {
        if !is_idle {
            self.is_checkpointed = false;
        } else if !self.is_checkpointed {
            let done = self.store.send(Checkpoint).await??;
            self.is_checkpointed = !done.is_held_up;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "housekeeping_tests.rs"]
mod tests;
