//! What an instance does with a delivery.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use super::Delivery;
use crate::domain::{Outcome, OutcomeReason};

/// Bytes of a detail that the gateway keeps.
const DETAIL_BYTES_MAX: usize = 500;

/// Works on deliveries.
///
/// One subject's deliveries come one after the other, in the order of their events; deliveries of
/// different subjects come at the same time, up to the client's concurrency. A delivery may come
/// again (its `attempt` says so), so working on it twice must do no harm.
///
/// Futures are polled on the client's own thread and need not be `Send`. They must not block it:
/// what waits for a lock, a process or a disk belongs into [`blocking`].
pub trait Handler: 'static {
    /// Works on one delivery and says what became of it. A panic counts as `failed`.
    fn handle(&self, delivery: Arc<Delivery>) -> impl Future<Output = Handled>;
}

impl<F, W> Handler for F
where
    F: Fn(Arc<Delivery>) -> W + 'static,
    W: Future<Output = Handled>,
{
    fn handle(&self, delivery: Arc<Delivery>) -> impl Future<Output = Handled> {
        self(delivery)
    }
}

/// A handler from a function that blocks; it runs on threads made for that.
///
/// A call that is still running when the client stops cannot be interrupted; its delivery is
/// released and comes again.
pub fn blocking(
    work: impl Fn(&Delivery) -> Handled + Send + Sync + 'static,
) -> impl Handler + Send {
    let work = Arc::new(work);
    move |delivery: Arc<Delivery>| {
        let work = Arc::clone(&work);
        async move {
            let worked = tokio::task::spawn_blocking(move || work(&delivery)).await;
            worked.unwrap_or_else(|error| match error.try_into_panic() {
                Ok(panic) => Handled::panicked(panic.as_ref()),
                Err(error) => Handled::failed(&error.to_string()),
            })
        }
    }
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// It has an outcome.
    Outcome {
        /// What the gateway is told.
        outcome: Outcome,
        /// A text for operators, shown with the outcome; cut to 500 bytes.
        detail: Option<String>,
    },
    /// What works on it cannot be reached or refuses everything, whatever the delivery.
    ///
    /// Nothing is told to the gateway: fetching stops, and this delivery is tried again, with
    /// back-off, until it has an outcome. A client that stops meanwhile releases it.
    TargetDown {
        /// The name of what is down; deliveries that wait for one target are tried one by one.
        target: String,
        /// What is wrong and how to mend it, for people.
        advice: String,
    },
}

impl Handled {
    /// Handled by something that was already running.
    #[must_use]
    pub const fn delivered() -> Self {
        Self::plain(Outcome::Delivered)
    }

    /// Handled by starting something.
    #[must_use]
    pub const fn spawned() -> Self {
        Self::plain(Outcome::Spawned)
    }

    /// Not handled, on purpose.
    #[must_use]
    pub const fn dropped(reason: OutcomeReason) -> Self {
        Self::plain(Outcome::Dropped(reason))
    }

    /// Tried and failed: a strike, and due again after the gateway's back-off.
    #[must_use]
    pub fn failed(detail: &str) -> Self {
        Self::Outcome {
            outcome: Outcome::Failed,
            detail: Some(clip(detail)),
        }
    }

    /// Not tried: hand it out again, no strike.
    #[must_use]
    pub const fn released() -> Self {
        Self::plain(Outcome::Released)
    }

    const fn plain(outcome: Outcome) -> Self {
        Self::Outcome {
            outcome,
            detail: None,
        }
    }

    /// The outcome of a handler that panicked.
    pub(super) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let said = (panic.downcast_ref::<&str>().copied())
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::failed(&format!("panic: {}", said.unwrap_or("without a message")))
    }
}

impl From<Outcome> for Handled {
    fn from(outcome: Outcome) -> Self {
        Self::plain(outcome)
    }
}

/// A detail cut to what the gateway takes.
pub(super) fn clip(detail: &str) -> String {
    let mut end = detail.len().min(DETAIL_BYTES_MAX);
    while !detail.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    detail.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_cut_at_a_character() {
        assert_eq!(clip("short"), "short");
        let cut = clip(&"é".repeat(300));
        assert_eq!(cut.len(), 500);
        assert_eq!(clip(&format!("a{}", "é".repeat(300))).len(), 499);
    }

    #[test]
    fn a_panic_is_told_by_its_message() {
        let panics: [(Box<dyn Any + Send>, &str); 3] = [
            (Box::new("literal"), "panic: literal"),
            (Box::new("text".to_owned()), "panic: text"),
            (Box::new(7), "panic: without a message"),
        ];
        for (panic, detail) in panics {
            assert_eq!(Handled::panicked(panic.as_ref()), Handled::failed(detail));
        }
    }
}
