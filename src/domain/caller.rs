//! Whether somebody still waits for an answer.

use std::sync::{Arc, Weak};

/// Held by whoever waits for an answer; dropping it says that nobody does.
#[derive(Debug, Default)]
pub struct CallerGuard(Arc<()>);

/// Travels with a request and tells whether its caller is still there.
///
/// Handing out deliveries to a caller that hung up would cost a loss; an append that nobody
/// waits for would be answered to nobody. Both ask here just before they begin.
#[derive(Debug, Clone)]
pub struct CallerToken(Option<Weak<()>>);

impl CallerGuard {
    /// A guard for a caller that is there now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that follows this guard.
    #[must_use]
    pub fn token(&self) -> CallerToken {
        CallerToken(Some(Arc::downgrade(&self.0)))
    }
}

impl CallerToken {
    /// The token of a caller that never leaves (an adapter, a command).
    #[must_use]
    pub const fn always() -> Self {
        Self(None)
    }

    /// True when the caller's guard is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|caller| caller.strong_count() == 0)
    }
}
