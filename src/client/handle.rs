//! The handle on a running client.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

use super::registrations::CallError;
use super::session::Command;
use super::status::{End, State, Status};
use super::wire::{Actors, BindingKey, Registration, Routed};
use super::{ClientBuilder, GatewayUrl};
use crate::domain::{EventActor, Provider, Role, Subject, WorkItemRef};

/// A running client; clones share it. When the last one is dropped, the client stops gracefully.
///
/// What is published by a method is kept by the client from the moment of the call, whether or
/// not the returned [`Published`] is awaited.
#[derive(Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<Status>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the gateway at `url`. `peer_file` holds the installation's id, is made when
    /// there is none, and locked while the client runs; each instance needs its own.
    #[must_use]
    pub fn builder(url: GatewayUrl, peer_file: &Path) -> ClientBuilder {
        ClientBuilder::new(url, peer_file.to_owned())
    }

    pub(super) const fn new(
        commands: mpsc::Sender<Command>,
        status: watch::Receiver<Status>,
    ) -> Self {
        Self { commands, status }
    }

    /// Works on a subject: its events come to this instance. Asserted again after every outage,
    /// until it is released.
    pub fn claim(&self, subject: Subject, role: Role) -> Published {
        self.publish(Registration::Claim(subject, role))
    }

    /// Works on a subject no more. What is on the queue already stays there.
    pub fn release(&self, subject: Subject, role: Role) -> Published {
        self.publish(Registration::Release(subject, role))
    }

    /// Works for these accounts, and for no others.
    pub fn set_actors(&self, actors: Vec<EventActor>) -> Published {
        let mut sorted = Actors::default();
        for actor in actors {
            sorted.of(actor.provider).push(actor.name);
        }
        self.publish(Registration::Actors(sorted))
    }

    /// These Slack channels belong to these work items, and no others.
    pub fn set_rooms(&self, rooms: Vec<(String, WorkItemRef)>) -> Published {
        self.publish(Registration::Rooms(rooms))
    }

    /// An object belongs to a work item: a pull request (`owner/repo#N`), a Jira issue (`KEY-N`),
    /// a Slack thread (`thread_ts`, `channel/thread_ts` or `team/channel/thread_ts`).
    ///
    /// Kept until the gateway has it; the gateway stores it, so it is not asserted again.
    pub fn bind(&self, work_item: WorkItemRef, provider: Provider, key: String) -> Published {
        self.publish(Registration::Bind(BindingKey {
            work_item,
            provider,
            key,
        }))
    }

    /// An object belongs to a work item no more.
    pub fn unbind(&self, work_item: WorkItemRef, provider: Provider, key: String) -> Published {
        self.publish(Registration::Unbind(BindingKey {
            work_item,
            provider,
            key,
        }))
    }

    fn publish(&self, registration: Registration) -> Published {
        let (reply, answer) = oneshot::channel();
        let sent = self
            .commands
            .try_send(Command::Publish(registration, reply));
        Published(match sent {
            Ok(()) => Answer::Comes(answer),
            Err(TrySendError::Full(_)) => Answer::Is(CallError::TooMany),
            Err(TrySendError::Closed(_)) => Answer::Is(CallError::Stopped),
        })
    }

    /// A snapshot of the client.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Waits until the status is as described, and returns it; also when the client has ended
    /// and it will never be.
    pub async fn wait_for(&self, mut condition: impl FnMut(&Status) -> bool) -> Status {
        let mut status = self.status.clone();
        let found = status
            .wait_for(|status| condition(status) || matches!(status.state, State::Off { .. }))
            .await
            .map(|status| status.clone());
        found.unwrap_or_else(|_gone| self.status())
    }

    /// Stops: handlers that have begun may finish within the grace, everything else is released,
    /// and all outcomes are committed. Returns when that is done and the peer file is free.
    pub async fn stop(&self) -> End {
        // A client that takes no command any more is ending or has ended.
        drop(self.commands.send(Command::Stop).await);
        self.finished().await
    }

    /// Waits until the client has ended, and says why.
    pub async fn finished(&self) -> End {
        match self.wait_for(|_| false).await.state {
            State::Off { why } => why,
            State::Connecting
            | State::Connected
            | State::Refused { .. }
            | State::Unreachable { .. } => End::Broken {
                why: "the client's thread panicked".to_owned(),
            },
        }
    }
}

/// Resolves when the gateway has what was published; waits through outages.
#[derive(Debug)]
pub struct Published(Answer);

#[derive(Debug)]
enum Answer {
    Comes(oneshot::Receiver<Result<Routed, CallError>>),
    Is(CallError),
}

impl Future for Published {
    type Output = Result<Routed, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Answer::Comes(answer) => Pin::new(answer)
                .poll(context)
                .map(|answer| answer.unwrap_or(Err(CallError::Stopped))),
            Answer::Is(error) => Poll::Ready(Err(error.clone())),
        }
    }
}
