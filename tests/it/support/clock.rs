//! The machine's clock, which a test may stop and move.

use std::sync::Mutex;
use std::time::Instant;

use the_loop_gateway::domain::{Clock, SystemClock, Timestamp};

/// A day in milliseconds.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// Runs like the machine's clock until it is stopped; from then on only a test moves it. Its
/// monotonic side is the machine's, so waits take the time they take.
#[derive(Debug, Default)]
pub(crate) struct MovedClock(Mutex<Reading>);

#[derive(Debug, Default)]
struct Reading {
    offset_ms: i64,
    stopped_at: Option<Timestamp>,
}

impl MovedClock {
    /// Stops it where it is.
    pub(crate) fn stop(&self) {
        let now = self.now();
        self.0.lock().unwrap().stopped_at = Some(now);
    }

    /// Moves it, also backwards.
    pub(crate) fn advance(&self, ms: i64) {
        let mut reading = self.0.lock().unwrap();
        match &mut reading.stopped_at {
            Some(at) => *at = at.plus(ms),
            None => reading.offset_ms += ms,
        }
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        let reading = self.0.lock().unwrap();
        let running = || SystemClock.now().plus(reading.offset_ms);
        reading.stopped_at.unwrap_or_else(running)
    }

    fn instant(&self) -> Instant {
        SystemClock.instant()
    }
}
