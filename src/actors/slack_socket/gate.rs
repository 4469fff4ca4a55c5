//! How much may be on its way to the store at once.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

/// Counts appends in flight. Beyond its bounds nobody reads the socket, so Slack's own window
/// holds the rest back.
#[derive(Debug)]
pub(super) struct Gate {
    appends_max: usize,
    bytes_max: usize,
    appends: Cell<usize>,
    bytes: Cell<usize>,
    left: Notify,
}

/// One append in flight; dropping it says that it is decided.
#[derive(Debug)]
pub(super) struct InFlight {
    gate: Rc<Gate>,
    bytes: usize,
}

impl Gate {
    pub(super) fn new(appends_max: usize, bytes_max: usize) -> Self {
        Self {
            appends_max,
            bytes_max,
            appends: Cell::new(0),
            bytes: Cell::new(0),
            left: Notify::new(),
        }
    }

    /// Counts an append in. Never refuses: what was read has to be decided; to ask before is
    /// [`Gate::has_room`].
    pub(super) fn enter(self: &Rc<Self>, bytes: usize) -> InFlight {
        self.appends.set(self.appends.get().saturating_add(1));
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        InFlight {
            gate: Rc::clone(self),
            bytes,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.appends.get() < self.appends_max && self.bytes.get() < self.bytes_max
    }

    /// Waits for room.
    pub(super) async fn room(&self) {
        self.until(Self::has_room).await;
    }

    /// Waits until nothing is in flight.
    pub(super) async fn idle(&self) {
        self.until(|gate| gate.appends.get() == 0).await;
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            // Nothing can leave between the look and the wait: all of it is on one thread.
            self.left.notified().await;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let gate = &self.gate;
        gate.appends.set(gate.appends.get().saturating_sub(1));
        gate.bytes.set(gate.bytes.get().saturating_sub(self.bytes));
        gate.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix::test]
    async fn there_is_room_up_to_the_bounds_and_again_when_something_leaves() {
        let gate = Rc::new(Gate::new(2, 100));
        gate.idle().await;
        let first = gate.enter(10);
        assert!(gate.has_room());
        let second = gate.enter(10);
        assert!(!gate.has_room(), "two of two");
        drop(first);
        assert!(gate.has_room());
        let large = gate.enter(90);
        drop(second);
        let full = gate.enter(10);
        assert!(!gate.has_room(), "a hundred bytes of a hundred");
        let leaves = async { drop(large) };
        tokio::join!(gate.room(), leaves);
        let leaves = async { drop(full) };
        tokio::join!(gate.idle(), leaves);
    }
}
