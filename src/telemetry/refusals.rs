//! Refusals of strangers, counted: the first few of a minute are recorded, the rest become one
//! number. Whoever can reach a port could otherwise fill the disk.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::events::GatewayEvent;
use crate::domain::{DropReason, Provider, Source};

/// Records of one reason in one window.
const RECORDS_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// What tells one run of refusals from another.
type Kind = (Provider, Source, DropReason);

/// The windows that are open.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    windows: BTreeMap<Kind, Window>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    recorded: u32,
    suppressed: u64,
}

impl Refusals {
    /// True when a refusal is to be recorded; else it is counted.
    pub(super) fn admit(&mut self, kind: Kind, now: Instant) -> bool {
        let window = self.windows.entry(kind).or_insert(Window {
            began: now,
            recorded: 0,
            suppressed: 0,
        });
        if window.recorded < RECORDS_MAX {
            window.recorded = window.recorded.saturating_add(1);
            return true;
        }
        window.suppressed = window.suppressed.saturating_add(1);
        false
    }

    /// Closes the windows that are over (all of them with `all`), and returns their counts.
    pub(super) fn close(&mut self, now: Instant, all: bool) -> Vec<GatewayEvent> {
        let mut counts = Vec::new();
        self.windows
            .retain(|(provider, transport, reason), window| {
                let is_over = all || now.saturating_duration_since(window.began) >= WINDOW;
                if is_over && window.suppressed > 0 {
                    counts.push(GatewayEvent::Dropped {
                        provider: *provider,
                        transport: *transport,
                        reason: *reason,
                        kind: None,
                        delivery_id: None,
                        about: None,
                        gateway_event_id: None,
                        suppressed: Some(window.suppressed),
                    });
                }
                !is_over
            });
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Clock, SystemClock};

    const KIND: Kind = (Provider::GitHub, Source::Webhook, DropReason::BadSignature);

    #[test]
    fn ten_a_minute_are_recorded_and_the_rest_is_one_count() {
        let mut refusals = Refusals::default();
        let now = SystemClock.instant();
        let admitted = (0..100).filter(|_| refusals.admit(KIND, now)).count();
        assert_eq!(admitted, 10);
        assert!(refusals.close(now, false).is_empty());
        let counts = refusals.close(now + WINDOW, false);
        assert_eq!(
            serde_json::to_string(&counts).unwrap(),
            r#"[{"provider":"github","transport":"webhook","reason":"bad-signature","suppressed":90}]"#
        );
        assert!(refusals.admit(KIND, now + WINDOW));
    }

    #[test]
    fn another_reason_has_a_window_of_its_own() {
        let mut refusals = Refusals::default();
        let now = SystemClock.instant();
        while refusals.admit(KIND, now) {}
        let other = (Provider::Slack, Source::Webhook, DropReason::ReplayWindow);
        assert!(refusals.admit(other, now));
    }

    #[test]
    fn a_window_without_a_suppressed_refusal_says_nothing() {
        let mut refusals = Refusals::default();
        let now = SystemClock.instant();
        refusals.admit(KIND, now);
        assert!(refusals.close(now, true).is_empty());
    }
}
