//! How long to wait before the next try.

use std::time::Duration;

/// Waits that double from failure to failure. Forgets its failures only when told that a
/// connection is really up: a handshake that fails right after a successful call must not look
/// like progress.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            failures: 0,
        }
    }

    /// The wait after one more failure.
    pub(super) fn after_failure(&mut self) -> Duration {
        let growth = 2_u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        jittered(self.min.saturating_mul(growth).min(self.max))
    }

    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Somewhere in the upper half of a wait, so that a fleet does not come back at one moment.
pub(super) fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound_and_start_over_only_when_told() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        for full in [1, 2, 4, 8, 16, 32, 60, 60] {
            let full = Duration::from_secs(full);
            let wait = backoff.after_failure();
            assert!(wait >= full / 2 && wait <= full, "{wait:?} of {full:?}");
        }
        backoff.reset();
        assert!(backoff.after_failure() <= Duration::from_secs(1));
    }

    #[test]
    fn any_number_of_failures_stays_within_the_bound() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        backoff.failures = u32::MAX;
        assert!(backoff.after_failure() <= Duration::from_secs(60));
    }
}
