//! The bounds that the store works within; replaced as a whole when the configuration changes.

use crate::domain::Millis;

/// Bounds of the store. Times in milliseconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Age at which settled deliveries go and unsettled ones expire.
    pub retention_ms: Millis,
    /// Size of the file and its WAL above which settled deliveries go early.
    pub store_bytes_max: u64,
    /// Strikes after which a delivery is dead.
    pub strikes_max: u32,
    /// The first step of the back-off after a failure.
    pub retry_min_ms: Millis,
    /// The largest step of the back-off.
    pub retry_max_ms: Millis,
    /// Of how many of the newest events the seen keys are kept whatever their age.
    pub seen_keys_min: u64,
    /// How long an unresolved event waits for what would resolve it; 0 turns the wait off.
    pub grace_ms: Millis,
    /// Deliveries in one response.
    pub batch_max: u32,
    /// Payload bytes in one response; the first delivery always fits.
    pub batch_bytes_max: u64,
    /// The longest wait of a long poll.
    pub wait_max_ms: Millis,
    /// The shortest lease.
    pub lease_min_ms: Millis,
    /// The longest lease.
    pub lease_max_ms: Millis,
    /// How long a delivery may be in hand without an outcome.
    pub hand_timeout_ms: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            retention_ms: 7 * 24 * 3600 * 1000,
            store_bytes_max: 8 * 1024 * 1024 * 1024,
            strikes_max: 3,
            retry_min_ms: 30_000,
            retry_max_ms: 900_000,
            seen_keys_min: 10_000,
            grace_ms: 120_000,
            batch_max: 256,
            batch_bytes_max: 16 * 1024 * 1024,
            wait_max_ms: 30_000,
            lease_min_ms: 10_000,
            lease_max_ms: 300_000,
            hand_timeout_ms: 3_600_000,
        }
    }
}

/// The back-off grows by this factor from step to step.
const BACKOFF_FACTOR: Millis = 4;

impl Settings {
    /// The back-off before the try after the `step`-th failure (from 1).
    #[must_use]
    pub fn backoff_ms(&self, step: u32) -> Millis {
        let growth = BACKOFF_FACTOR.saturating_pow(step.saturating_sub(1));
        self.retry_min_ms
            .saturating_mul(growth)
            .clamp(0, self.retry_max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_grows_fourfold_up_to_its_bound() {
        let settings = Settings::default();
        let steps: Vec<Millis> = (1..=5).map(|step| settings.backoff_ms(step)).collect();
        assert_eq!(steps, [30_000, 120_000, 480_000, 900_000, 900_000]);
        assert_eq!(settings.backoff_ms(u32::MAX), 900_000);
    }
}
