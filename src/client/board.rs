//! Where the client shows what it does: a snapshot for who asks, events for who listens, and both
//! in the log.

use std::panic::AssertUnwindSafe;

use tokio::sync::watch;

use super::desk::Desk;
use super::status::{End, Event, State, Status};
use crate::domain::{Clock, Role, Seq, Subject, SystemClock};

/// Hears of events, on the client's thread; must not block it.
pub(super) type Listener = Box<dyn FnMut(&Event) + Send>;

/// The snapshot and the listener.
pub(super) struct Board {
    status: watch::Sender<Status>,
    listener: Option<Listener>,
}

impl Board {
    pub(super) const fn new(status: watch::Sender<Status>, listener: Option<Listener>) -> Self {
        Self { status, listener }
    }

    /// Tells of an event.
    pub(super) fn tell(&mut self, event: &Event) {
        log(event);
        let told = std::panic::catch_unwind(AssertUnwindSafe(|| {
            if let Some(listener) = &mut self.listener {
                listener(event);
            }
        }));
        if told.is_err() {
            tracing::error!("the listener of events panicked");
        }
    }

    /// Shows where the client stands.
    pub(super) fn show(&self, state: &State, desk: &Desk) {
        self.status.send_if_modified(|status| {
            let before = (status.in_hand, status.running, status.unconfirmed);
            status.in_hand = desk.in_hand();
            status.running = desk.running();
            status.unconfirmed = desk.unconfirmed();
            let is_same = before == (status.in_hand, status.running, status.unconfirmed)
                && status.state == *state
                && status.outcomes == *desk.counts();
            if is_same {
                return false;
            }
            status.targets_down = desk.targets_down();
            status.outcomes.clone_from(desk.counts());
            set_state(status, state.clone());
            true
        });
    }

    /// Shows how far the queue is settled.
    pub(super) fn show_committed(&self, committed: i64) {
        let committed = Some(Seq(committed));
        self.status.send_if_modified(|status| {
            std::mem::replace(&mut status.committed, committed) != committed
        });
    }

    /// Shows what is claimed.
    pub(super) fn show_claims(&self, claims: Vec<(Subject, Role)>) {
        self.status.send_modify(|status| status.claims = claims);
    }

    /// Shows that the client ended; nothing comes after it.
    pub(super) fn end(mut self, why: End) {
        self.tell(&Event::Stopped { why: why.clone() });
        self.status
            .send_modify(|status| set_state(status, State::Off { why }));
    }
}

fn log(event: &Event) {
    if event.is_warning() {
        tracing::warn!(event.name = event.name(), "{event}");
    } else {
        tracing::info!(event.name = event.name(), "{event}");
    }
}

fn set_state(status: &mut Status, state: State) {
    if status.state.as_str() != state.as_str() {
        status.since = SystemClock.now();
    }
    status.state = state;
}
