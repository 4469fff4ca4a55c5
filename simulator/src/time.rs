//! The clock of a simulation: it goes on when the driver says so, and the wall clock can be set.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use the_loop_gateway::domain::{Clock, Millis, Timestamp};

/// When simulations begin.
const START: i64 = 1_790_000_000_000;

/// The time of one simulation, over all its lives.
#[derive(Debug)]
pub struct SimClock {
    /// What the wall clock shows when the runtime of the present life begins.
    wall_at_start: AtomicI64,
    /// How far somebody has set the wall clock since.
    set_by: AtomicI64,
    started: std::sync::Mutex<tokio::time::Instant>,
}

impl SimClock {
    /// A clock for a runtime that runs, which the first life has.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            wall_at_start: AtomicI64::new(START),
            set_by: AtomicI64::new(0),
            started: std::sync::Mutex::new(tokio::time::Instant::now()),
        })
    }

    /// Sets the wall clock forward, or back.
    pub fn set_by(&self, span: Millis) {
        self.set_by.fetch_add(span, Ordering::Relaxed);
    }

    /// Another life goes on where the last one ended.
    pub fn begin_life(&self, at: Timestamp) {
        self.wall_at_start.store(at.0, Ordering::Relaxed);
        self.set_by.store(0, Ordering::Relaxed);
        if let Ok(mut started) = self.started.lock() {
            *started = tokio::time::Instant::now();
        }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.started.lock().map_or_else(
            |_| std::time::Duration::ZERO,
            |started| tokio::time::Instant::now().saturating_duration_since(*started),
        );
        let elapsed = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
        let wall = self.wall_at_start.load(Ordering::Relaxed);
        Timestamp(wall + self.set_by.load(Ordering::Relaxed)).plus(elapsed)
    }

    fn instant(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}
