//! Keeps one connection up, from start to stop.
//!
//! Invariant: a successor is opened only when nothing is left of its predecessor, unless the
//! configuration allows the two to overlap during a refresh. Every way in which a connection can
//! end leads to the next try; only an order to stop ends the session.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;

use super::backoff::{Backoff, jittered};
use super::connect::{Connector, Failure};
use super::core::{Core, Hello};
use super::link::{LinkHandle, News};
use super::reason::Reason;
use crate::actors::messages::IngressState;

/// How one connection gives way to what comes next.
enum Departure {
    /// Ask for a new one after a wait.
    Lost(Reason),
    /// Ask for a new one after this wait; in this state meanwhile.
    Paused(IngressState, Reason, Duration),
    /// It is closed; this URL opens the next one.
    Refreshed(String),
    /// It is closed, and the next one is up.
    Replaced(LinkHandle),
    /// It is closed, as ordered.
    Stopped,
}

pub(super) struct Session {
    core: Rc<Core>,
    connector: Connector,
    backoff: Backoff,
    stop: watch::Receiver<bool>,
}

impl Session {
    pub(super) fn new(core: Rc<Core>, connector: Connector, stop: watch::Receiver<bool>) -> Self {
        let timing = core.timing();
        let backoff = Backoff::new(timing.backoff_min, timing.backoff_max);
        Self {
            core,
            connector,
            backoff,
            stop,
        }
    }

    /// Runs until it is told to stop.
    pub(super) async fn run(mut self) {
        let mut departure = self.connect(None).await;
        loop {
            departure = match departure {
                Departure::Stopped => return,
                Departure::Replaced(link) => self.stay(link).await,
                Departure::Refreshed(url) => self.connect(Some(url)).await,
                Departure::Paused(state, reason, wait) => {
                    self.wait_and_connect(state, &reason, wait).await
                }
                Departure::Lost(reason) => {
                    let wait = self.backoff.after_failure();
                    self.wait_and_connect(IngressState::BackingOff, &reason, wait)
                        .await
                }
            };
        }
    }

    async fn wait_and_connect(
        &mut self,
        state: IngressState,
        reason: &Reason,
        wait: Duration,
    ) -> Departure {
        self.core.is_down();
        self.core.report(state, Some(reason));
        tokio::select! { biased;
            () = stopped(&mut self.stop) => return Departure::Stopped,
            () = tokio::time::sleep(wait) => {}
        }
        self.connect(None).await
    }

    /// Opens a connection and stays on it once it is up.
    async fn connect(&mut self, url: Option<String>) -> Departure {
        self.core.is_down();
        self.core.report(IngressState::Connecting, None);
        let own = if url.is_some() { 2 } else { 1 };
        let mut stop = self.stop.clone();
        let opened = tokio::select! { biased;
            () = stopped(&mut stop) => return Departure::Stopped,
            opened = self.open(url) => opened,
        };
        match opened {
            Ok((link, hello)) => {
                self.core.is_up(&hello, own);
                self.stay(link).await
            }
            Err(failure) => self.after(failure),
        }
    }

    /// Opens a connection and waits for its `hello`.
    async fn open(&self, url: Option<String>) -> Result<(LinkHandle, Hello), Failure> {
        let url = match url {
            Some(url) => url,
            None => self.connector.next_url().await?,
        };
        let mut link = self.connector.open(&url).await?;
        let hello = tokio::time::timeout(self.core.timing().hello, async {
            match link.next().await {
                News::Hello(hello) => Ok(hello),
                News::Disconnect(reason) => Err(disconnected(&reason)),
                News::Ended(end) => Err(Failure::Passing(end.reason())),
            }
        });
        match hello.await {
            Ok(Ok(hello)) => Ok((link, hello)),
            Ok(Err(failure)) => {
                link.drain().await;
                Err(failure)
            }
            Err(_) => {
                link.drain().await;
                Err(Failure::Passing(Reason::new("no hello in time")))
            }
        }
    }

    fn after(&self, failure: Failure) -> Departure {
        let slow_retry = jittered(self.core.timing().slow_retry);
        match failure {
            Failure::Fatal(reason) => Departure::Paused(IngressState::Failed, reason, slow_retry),
            Failure::Crowded(reason) => {
                Departure::Paused(IngressState::BackingOff, reason, slow_retry)
            }
            Failure::RateLimited(pause) => {
                Departure::Paused(IngressState::BackingOff, Reason::new("ratelimited"), pause)
            }
            Failure::Passing(reason) => Departure::Lost(reason),
        }
    }

    /// Stays on a connection that is up until it ends or has to be left.
    async fn stay(&mut self, mut link: LinkHandle) -> Departure {
        self.backoff.reset();
        loop {
            let news = tokio::select! { biased;
                () = stopped(&mut self.stop) => {
                    link.drain().await;
                    return Departure::Stopped;
                }
                news = link.next() => news,
            };
            match news {
                News::Hello(_) => {}
                News::Ended(end) => return Departure::Lost(end.reason()),
                News::Disconnect(reason) if is_refresh(&reason) => {
                    return self.refresh(link).await;
                }
                News::Disconnect(reason) => {
                    let failure = disconnected(&reason);
                    link.drain().await;
                    return self.after(failure);
                }
            }
        }
    }

    /// Leaves a connection that Slack is about to close for its successor.
    async fn refresh(&mut self, link: LinkHandle) -> Departure {
        if self.core.settings.overlap_on_refresh {
            self.overlap(link).await
        } else {
            self.relay(link).await
        }
    }

    /// One after the other: the next URL is fetched while the old connection still serves, so
    /// the gap is one handshake.
    async fn relay(&mut self, mut link: LinkHandle) -> Departure {
        loop {
            let fetched = tokio::select! { biased;
                () = stopped(&mut self.stop) => None,
                fetched = self.connector.next_url() => Some(fetched),
            };
            match fetched {
                None => {
                    link.drain().await;
                    return Departure::Stopped;
                }
                Some(Ok(url)) => {
                    link.drain().await;
                    return Departure::Refreshed(url);
                }
                Some(Err(failure)) => {
                    if let Some(departure) = self.hold_out(&mut link, failure).await {
                        return departure;
                    }
                }
            }
        }
    }

    /// The new one first. What the old one still brings is taken and acked by itself.
    async fn overlap(&mut self, mut link: LinkHandle) -> Departure {
        loop {
            let mut stop = self.stop.clone();
            let opened = tokio::select! { biased;
                () = stopped(&mut stop) => None,
                opened = self.open(None) => Some(opened),
            };
            match opened {
                None => {
                    link.drain().await;
                    return Departure::Stopped;
                }
                Some(Ok((successor, hello))) => {
                    self.core.is_up(&hello, 2);
                    link.drain().await;
                    return Departure::Replaced(successor);
                }
                Some(Err(failure)) => {
                    if let Some(departure) = self.hold_out(&mut link, failure).await {
                        return departure;
                    }
                }
            }
        }
    }

    /// The successor did not come: stays on the old connection for a while, as long as it lasts.
    async fn hold_out(&mut self, link: &mut LinkHandle, failure: Failure) -> Option<Departure> {
        let (wait, reason) = match failure {
            Failure::RateLimited(pause) => (pause, Reason::new("ratelimited")),
            Failure::Fatal(reason) | Failure::Crowded(reason) | Failure::Passing(reason) => {
                (self.backoff.after_failure(), reason)
            }
        };
        let until = tokio::time::sleep(wait);
        tokio::pin!(until);
        loop {
            tokio::select! { biased;
                () = stopped(&mut self.stop) => return None,
                () = &mut until => return None,
                news = link.next() => if let News::Ended(_) = news {
                    return Some(Departure::Lost(reason));
                },
            }
        }
    }
}

fn is_refresh(reason: &str) -> bool {
    matches!(reason, "refresh_requested" | "warning")
}

/// What a `disconnect` that is no refresh means.
fn disconnected(reason: &str) -> Failure {
    let shown = Reason::new(&format!("disconnect: {reason}"));
    match reason {
        "link_disabled" => Failure::Fatal(shown),
        "too_many_websockets" => Failure::Crowded(shown),
        _ => Failure::Passing(shown),
    }
}

/// Returns when it is time to stop; also when nobody could say so any more.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|is_over| *is_over).await.is_err() {
        tracing::debug!("the actor is gone");
    }
}
