//! The gate in front of an API: what all pollers of one token share.
//!
//! A few requests pass at a time, so that one hanging repository does not stop the others. When a
//! limit is reached nobody passes until it is over: asking on while limited can cost the token.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::failure::{Failure, Limit};
use super::limits::SECONDARY_WAIT_MIN;
use crate::domain::Clock;

/// Requests of one token at a time.
const SEATS: usize = 8;
/// How often the wait of a secondary limit doubles at most: 60 s, then up to 16 minutes.
const DOUBLINGS_MAX: u32 = 4;

/// What the pollers of one API and token share.
#[derive(Debug)]
pub struct Gate {
    seats: Semaphore,
    clock: Arc<dyn Clock>,
    closed: Mutex<Closed>,
}

#[derive(Debug, Clone, Copy)]
struct Closed {
    until: Option<Instant>,
    by: Limit,
    /// Secondary limits without a success between them.
    in_a_row: u32,
}

impl Gate {
    /// An open gate.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            seats: Semaphore::new(SEATS),
            clock,
            closed: Mutex::new(Closed {
                until: None,
                by: Limit::Secondary,
                in_a_row: 0,
            }),
        }
    }

    /// Waits for a seat; refused at once while a limit holds.
    pub(super) async fn enter(&self) -> Result<SemaphorePermit<'_>, Failure> {
        self.check()?;
        let seat = self.seats.acquire().await;
        let seat = seat.map_err(|error| Failure::Network(error.to_string()))?;
        // A limit may have been met while this one waited.
        self.check()?;
        Ok(seat)
    }

    /// Lets nobody pass for as long as a limit says; tells how long that is.
    pub(super) fn close(&self, limit: Limit, wait: Duration) -> Duration {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = match limit {
            Limit::Primary => wait,
            Limit::Secondary => {
                let doublings = closed.in_a_row.min(DOUBLINGS_MAX);
                closed.in_a_row = closed.in_a_row.saturating_add(1);
                if wait < SECONDARY_WAIT_MIN {
                    wait
                } else {
                    wait.saturating_mul(2_u32.saturating_pow(doublings))
                }
            }
        };
        let until = self.clock.instant().checked_add(wait);
        if until > closed.until {
            (closed.until, closed.by) = (until, limit);
        }
        wait
    }

    /// Notes that an answer came that no limit refused.
    pub(super) fn passed(&self) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.in_a_row = 0;
    }

    fn check(&self) -> Result<(), Failure> {
        let closed = *self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.instant();
        match closed.until {
            Some(until) if until > now => Err(Failure::Limited {
                limit: closed.by,
                wait: until.saturating_duration_since(now),
            }),
            _ => Ok(()),
        }
    }
}
