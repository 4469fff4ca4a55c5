//! One source, read again and again: a repository or a Jira project.
//!
//! Role: bring what no webhook brought. Each source has an actor of its own that asks one thing at
//! a time; a source that fails backs off alone and says so.
//!
//! Invariant: the ledger moves on only after what it skips from then on is stored. Must not post
//! anything, must not judge an event, and must not let a token into any text.

mod credentials;
mod failure;
mod gate;
mod github;
mod http;
mod jira;
mod json;
mod limits;
mod link;
mod moment;
mod parts;
mod round;
mod schedule;
mod store;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, ResponseActFuture,
    WrapFuture,
};
use tokio::sync::watch;
use tracing::Instrument;

pub use self::credentials::Credentials;
pub use self::gate::Gate;
pub use self::http::HttpTiming;
pub use self::parts::{JiraProject, PollSource, PollerParts};
pub use self::store::PollStore;

use self::failure::Failure;
use self::github::GitHubPoller;
use self::http::{Api, ApiParts};
use self::jira::JiraPoller;
use self::round::RoundEnd;
use self::schedule::Schedule;
use crate::actors::messages::{IngressChanged, IngressState, Redeclare, StopIngress};
use crate::outbound;
use crate::providers::Declared;

/// What is declared as ours now; a round keeps to what it began with.
type DeclaredNow = Rc<RefCell<Arc<Declared>>>;

/// Reads one source. Needs a thread with a running arbiter; it may share it with other pollers.
pub struct PollerActor {
    parts: Option<PollerParts>,
    declared: DeclaredNow,
    stop: watch::Sender<bool>,
    is_over: watch::Sender<bool>,
}

impl fmt::Debug for PollerActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollerActor").finish_non_exhaustive()
    }
}

impl PollerActor {
    /// An actor that begins to read soon after it is started.
    #[must_use]
    pub fn new(parts: PollerParts) -> Self {
        Self {
            declared: Rc::new(RefCell::new(Arc::clone(&parts.declared))),
            parts: Some(parts),
            stop: watch::Sender::new(false),
            is_over: watch::Sender::new(false),
        }
    }
}

impl Actor for PollerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(parts) = self.parts.take() else {
            return;
        };
        let mut poller = Poller::new(parts, Rc::clone(&self.declared));
        let (mut stop, is_over) = (self.stop.subscribe(), self.is_over.clone());
        let reading = async move {
            poller.run(&mut stop).await;
            is_over.send_replace(true);
        };
        ctx.spawn(reading.into_actor(self));
    }
}

impl Handler<Redeclare> for PollerActor {
    type Result = ();

    fn handle(&mut self, Redeclare(declared): Redeclare, _: &mut Self::Context) {
        self.declared.replace(declared);
    }
}

impl Handler<StopIngress> for PollerActor {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _: StopIngress, _: &mut Self::Context) -> Self::Result {
        self.stop.send_replace(true);
        let mut over = self.is_over.subscribe();
        let ending = async move {
            if over.wait_for(|is_over| *is_over).await.is_err() {
                tracing::debug!("the poller ended before it was told to");
            }
        };
        Box::pin(ending.into_actor(self).map(|(), _, ctx| ctx.stop()))
    }
}

/// What reads a source.
enum Reader {
    GitHub(Box<GitHubPoller>),
    Jira(Box<JiraPoller>),
}

impl Reader {
    fn new(parts: &PollerParts) -> Result<Self, Failure> {
        let client = outbound::client(parts.timing.limits);
        let client = client.map_err(|error| Failure::Network(error.to_string()))?;
        let (base, headers) = match &parts.source {
            PollSource::GitHub { repository, .. } => (&repository.api_base, github::HEADERS),
            PollSource::Jira(project) => (&project.api_base, jira::HEADERS),
        };
        let api = ApiParts {
            base: base.clone(),
            headers,
            credentials: parts.credentials.clone(),
            gate: Arc::clone(&parts.gate),
            clock: Arc::clone(&parts.clock),
            timing: parts.timing,
        };
        let doors = (Api::new(client, api)?, parts.store.clone());
        let (key, clock) = (parts.source.key(), Arc::clone(&parts.clock));
        Ok(match &parts.source {
            PollSource::GitHub {
                repository,
                checks_every,
            } => {
                let source = (repository.clone(), key);
                Self::GitHub(Box::new(GitHubPoller::new(
                    source,
                    *checks_every,
                    doors,
                    clock,
                )))
            }
            PollSource::Jira(project) => {
                let source = (project.clone(), key);
                Self::Jira(Box::new(JiraPoller::new(source, doors, clock)))
            }
        })
    }

    async fn round(&mut self, declared: Arc<Declared>) -> Result<RoundEnd, Failure> {
        match self {
            Self::GitHub(poller) => poller.round(declared).await,
            Self::Jira(poller) => poller.round(declared).await,
        }
    }
}

/// A source with its schedule and what was said of it last.
struct Poller {
    parts: PollerParts,
    declared: DeclaredNow,
    schedule: Schedule,
    reported: Option<(IngressState, Option<String>)>,
}

impl Poller {
    fn new(parts: PollerParts, declared: DeclaredNow) -> Self {
        Self {
            schedule: Schedule::new(parts.interval),
            parts,
            declared,
            reported: None,
        }
    }

    /// Reads until told to stop; a round in progress is given up between two requests at most
    /// half told, which the next start makes up for.
    async fn run(&mut self, stop: &mut watch::Receiver<bool>) {
        self.report(IngressState::Connecting, None);
        let mut reader = match Reader::new(&self.parts) {
            Ok(reader) => reader,
            Err(failure) => return self.report(IngressState::Failed, Some(&failure)),
        };
        let mut wait = self.schedule.first();
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(wait) => {}
            }
            let declared = Arc::clone(&self.declared.borrow());
            let span = tracing::debug_span!("poll", source = self.parts.source.key());
            let ended = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return,
                ended = reader.round(declared).instrument(span) => ended,
            };
            wait = self.after(ended);
        }
    }

    /// Says how it went; tells how long to wait.
    fn after(&mut self, ended: Result<RoundEnd, Failure>) -> Duration {
        match ended {
            Ok(end) => {
                let state = match &end.failure {
                    Some(failure) => state_of(failure),
                    None => IngressState::Up,
                };
                self.report(state, end.failure.as_ref());
                let wait = self.schedule.after_success(end.poll_interval);
                if end.more { Duration::ZERO } else { wait }
            }
            Err(failure) => {
                self.report(state_of(&failure), Some(&failure));
                self.schedule.after_failure(&failure)
            }
        }
    }

    fn report(&mut self, state: IngressState, failure: Option<&Failure>) {
        let error = failure.map(ToString::to_string);
        let report = (state, error.clone());
        if self.reported.as_ref() == Some(&report) {
            return;
        }
        let variable = match failure {
            Some(Failure::MissingSecret { variable }) => Some(variable.clone()),
            _ => None,
        };
        let changed = IngressChanged {
            name: self.parts.source.name(),
            state,
            since: self.parts.clock.now(),
            error,
            variable,
            connections: None,
        };
        match self.parts.status.try_send(changed) {
            Ok(()) => self.reported = Some(report),
            // It is said again after the next round.
            Err(error) => tracing::debug!(%error, "a state of an ingress is not taken"),
        }
    }
}

const fn state_of(failure: &Failure) -> IngressState {
    if matches!(failure, Failure::MissingSecret { .. }) {
        IngressState::MissingSecret
    } else if failure.needs_mending() {
        IngressState::Failed
    } else {
        IngressState::BackingOff
    }
}

#[cfg(test)]
mod tests;
