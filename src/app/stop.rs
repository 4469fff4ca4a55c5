//! Asking a gateway to stop: from within, or by a signal.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::StartError;

/// How a gateway stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything was finished.
    InOrder,
    /// It was asked twice, and what was left was not waited for.
    Cut,
    /// An actor that everything depends on is gone.
    Died(&'static str),
}

/// Asks a gateway to stop; may be sent to other threads.
#[derive(Debug, Clone)]
pub struct StopHandle(Sender<&'static str>);

impl StopHandle {
    /// Asks it to stop. Asking a gateway that stops already makes it hurry.
    pub fn stop(&self, reason: &'static str) {
        if self.0.try_send(reason).is_err() {
            tracing::debug!(reason, "the gateway was asked to stop often enough");
        }
    }
}

/// Where a gateway hears that it is to stop.
#[derive(Debug)]
pub(super) struct StopSignal {
    sender: Sender<&'static str>,
    receiver: Receiver<&'static str>,
}

impl Default for StopSignal {
    fn default() -> Self {
        let (sender, receiver) = channel(2);
        Self { sender, receiver }
    }
}

impl StopSignal {
    pub(super) fn handle(&self) -> StopHandle {
        StopHandle(self.sender.clone())
    }

    /// Waits until somebody asks, and says why.
    pub(super) async fn asked(&mut self) -> &'static str {
        // Never ends by itself: a sender lives in `self`.
        self.receiver.recv().await.unwrap_or("nobody")
    }
}

/// Lets SIGINT and SIGTERM ask, from now on, as long as the calling thread's runtime runs.
pub(super) fn heed_signals(handle: &StopHandle) -> Result<(), StartError> {
    for (kind, name) in [
        (SignalKind::interrupt(), "SIGINT"),
        (SignalKind::terminate(), "SIGTERM"),
    ] {
        let mut signals = signal(kind).map_err(StartError::Thread)?;
        let handle = handle.clone();
        actix_rt::spawn(async move {
            while signals.recv().await.is_some() {
                handle.stop(name);
            }
        });
    }
    Ok(())
}
