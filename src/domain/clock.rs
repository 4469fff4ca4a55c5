//! The only source of "now".

use std::fmt::Debug;
use std::time::Instant;

use super::Timestamp;

/// Tells the time; injected, so that tests and the simulator own it.
pub trait Clock: Debug + Send + Sync {
    /// Wall-clock time: stored, shown, compared with stored times.
    fn now(&self) -> Timestamp;

    /// Monotonic time: for measuring and for waits within the process.
    fn instant(&self) -> Instant;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_millisecond())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that the ban points to"
    )]
    fn instant(&self) -> Instant {
        Instant::now()
    }
}
