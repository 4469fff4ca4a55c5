//! When the next round begins: after the interval, later after failures, never all at once.

use std::time::Duration;

use super::failure::Failure;

/// The wait doubles with each failure in a row, up to this.
const BACKOFF_MAX: Duration = Duration::from_secs(900);
/// The wait after what somebody has to mend is at least this many intervals.
const MENDING_INTERVALS: u32 = 5;
const DOUBLINGS_MAX: u32 = 10;
/// A wait is shortened or lengthened by up to a tenth.
const JITTER_PARTS: f64 = 10.0;

/// The waits between the rounds of one source.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    interval: Duration,
    failures: u32,
}

impl Schedule {
    pub(super) const fn new(interval: Duration) -> Self {
        Self {
            interval,
            failures: 0,
        }
    }

    /// Before the first round: some part of the interval, so that sources spread over it.
    pub(super) fn first(&self) -> Duration {
        const SPREAD_MAX: Duration = Duration::from_secs(5);
        self.interval.min(SPREAD_MAX).mul_f64(fastrand::f64())
    }

    /// After a round that worked; `at_least` is what the server asks for.
    pub(super) fn after_success(&mut self, at_least: Option<Duration>) -> Duration {
        self.failures = 0;
        jittered(self.interval.max(at_least.unwrap_or_default()))
    }

    /// After a round that failed.
    pub(super) fn after_failure(&mut self, failure: &Failure) -> Duration {
        let doublings = self.failures.min(DOUBLINGS_MAX);
        self.failures = self.failures.saturating_add(1);
        let longest = BACKOFF_MAX.max(self.interval);
        let mut wait = self
            .interval
            .saturating_mul(2_u32.saturating_pow(doublings));
        if failure.needs_mending() {
            wait = wait.max(self.interval.saturating_mul(MENDING_INTERVALS));
        }
        let wait = jittered(wait.min(longest));
        // What the server asks for is no matter of taste: never shortened.
        wait.max(failure.wait().unwrap_or_default())
    }
}

fn jittered(wait: Duration) -> Duration {
    let factor = 1.0 + (fastrand::f64() * 2.0 - 1.0) / JITTER_PARTS;
    wait.mul_f64(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn is_about(wait: Duration, expected: Duration) -> bool {
        wait >= expected.mul_f64(0.89) && wait <= expected.mul_f64(1.11)
    }

    #[test]
    fn the_wait_doubles_with_each_failure_up_to_a_quarter_of_an_hour() {
        let mut schedule = Schedule::new(MINUTE);
        for minutes in [1, 2, 4, 8, 15, 15, 15] {
            let wait = schedule.after_failure(&Failure::Timeout);
            assert!(is_about(wait, MINUTE * minutes), "{wait:?}");
        }
        assert!(is_about(schedule.after_success(None), MINUTE));
        assert!(is_about(schedule.after_failure(&Failure::Cut), MINUTE));
    }

    #[test]
    fn what_the_server_asks_for_is_never_shortened() {
        let mut schedule = Schedule::new(MINUTE);
        let hour = Duration::from_secs(3600);
        let failure = Failure::Server {
            status: 503,
            wait: Some(hour),
        };
        assert!(schedule.after_failure(&failure) >= hour);
        let wait = schedule.after_success(Some(MINUTE * 3));
        assert!(is_about(wait, MINUTE * 3), "{wait:?}");
    }

    #[test]
    fn what_somebody_has_to_mend_is_not_tried_every_minute() {
        let mut schedule = Schedule::new(MINUTE);
        let wait = schedule.after_failure(&Failure::Unauthorized);
        assert!(is_about(wait, MINUTE * 5), "{wait:?}");
    }

    #[test]
    fn an_interval_above_the_longest_back_off_is_kept() {
        let mut schedule = Schedule::new(MINUTE * 60);
        assert!(is_about(
            schedule.after_failure(&Failure::Timeout),
            MINUTE * 60
        ));
    }
}
