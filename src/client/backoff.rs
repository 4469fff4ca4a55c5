//! How long to wait before trying again.

use std::time::Duration;

/// The first wait and the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// The first wait.
    pub min: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Default for BackOff {
    /// 1 s, doubling up to 60 s.
    fn default() -> Self {
        Self {
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
        }
    }
}

/// Waits that double, each a fifth shorter or longer by chance, so that many who lost the same
/// server do not come back at the same moment.
#[derive(Debug, Clone)]
pub(super) struct Waits {
    bounds: BackOff,
    step: u32,
}

impl Waits {
    pub(super) const fn new(bounds: BackOff) -> Self {
        Self { bounds, step: 0 }
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let factor = 2_u32.saturating_pow(self.step);
        let wait = self.bounds.min.saturating_mul(factor).min(self.bounds.max);
        self.step = self.step.saturating_add(1);
        wait.mul_f64(fastrand::f64().mul_add(0.4, 0.8))
    }

    /// Begins again with the shortest.
    pub(super) const fn reset(&mut self) {
        self.step = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_the_first_to_the_longest_and_are_never_quite_the_same() {
        let mut waits = Waits::new(BackOff::default());
        for expected in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            let wait = waits.next().as_secs_f64();
            assert!((expected * 0.8..=expected * 1.2).contains(&wait), "{wait}");
        }
        let again: Vec<Duration> = (0..10).map(|_| waits.next()).collect();
        assert!(again.windows(2).any(|pair| pair[0] != pair[1]));
        waits.reset();
        assert!(waits.next() < Duration::from_millis(1_201));
    }
}
