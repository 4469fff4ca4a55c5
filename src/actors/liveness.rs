//! Says when an actor that everything depends on is gone.

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Held by an actor; dropping it, as a panic does, says that the actor is gone.
#[derive(Debug)]
pub struct Alive {
    name: &'static str,
    gone: UnboundedSender<&'static str>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        if self.gone.send(self.name).is_err() {
            // Nobody listens once the gateway has stopped in good order.
        }
    }
}

/// Hands out [`Alive`]s and hears when one is gone.
///
/// There is no restart within the process: what a panic left behind is unknown, and the process's
/// supervisor starts a clean one.
#[derive(Debug)]
pub struct Liveness {
    sender: UnboundedSender<&'static str>,
    receiver: UnboundedReceiver<&'static str>,
}

impl Default for Liveness {
    fn default() -> Self {
        let (sender, receiver) = unbounded_channel();
        Self { sender, receiver }
    }
}

impl Liveness {
    /// A sign of life for an actor to hold.
    #[must_use]
    pub fn alive(&self, name: &'static str) -> Alive {
        Alive {
            name,
            gone: self.sender.clone(),
        }
    }

    /// Waits until an actor is gone and names it.
    pub async fn first_gone(&mut self) -> &'static str {
        // Never ends by itself: a sender lives in `self`.
        self.receiver.recv().await.unwrap_or("liveness")
    }
}
