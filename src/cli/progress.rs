//! How far a long piece of work is: one line that changes on a terminal, and a line now and then
//! where nobody looks at once.

use std::time::{Duration, Instant};

use super::context::Context;
use super::output::Output;
use crate::domain::{Clock, SystemClock};

const EVERY_ON_A_TERMINAL: Duration = Duration::from_millis(100);
const EVERY_IN_A_LOG: Duration = Duration::from_secs(5);

/// Tells how far a piece of work is.
#[derive(Debug)]
pub(super) struct Progress {
    output: Output,
    clock: SystemClock,
    every: Duration,
    told: Instant,
    is_shown: bool,
}

impl Progress {
    /// Begins; nothing is told of work that is over at once.
    pub(super) fn begin(context: &Context) -> Self {
        let every = if context.output.notes_are_watched() {
            EVERY_ON_A_TERMINAL
        } else {
            EVERY_IN_A_LOG
        };
        Self {
            output: context.output,
            clock: context.clock,
            every,
            told: context.clock.instant(),
            is_shown: false,
        }
    }

    /// Tells a line, if the last one is old enough.
    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        let now = self.clock.instant();
        if now.saturating_duration_since(self.told) >= self.every {
            self.told = now;
            self.is_shown = true;
            self.output.passing(&line());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            self.output.end_passing();
        }
    }
}

/// `37 %, 1.2 of 3.3 GiB`.
pub(super) fn share(done: u64, of: u64) -> String {
    format!(
        "{} %, {} of {}",
        percent(done, of),
        super::shown::bytes(done),
        super::shown::bytes(of)
    )
}

/// Whole percents; all of nothing is all.
pub(super) fn percent(done: u64, of: u64) -> u64 {
    done.saturating_mul(100).checked_div(of).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_in_percent_and_in_bytes_with_their_unit() {
        assert_eq!(share(0, 4096), "0 %, 0 bytes of 4.0 KiB");
        assert_eq!(share(3 << 30, 4 << 30), "75 %, 3.0 GiB of 4.0 GiB");
        assert_eq!(percent(0, 0), 100);
    }
}
