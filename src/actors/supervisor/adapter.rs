//! A running adapter, whatever it is: started from its spec, told of changes, stopped.

use std::future::Future;
use std::sync::Arc;

use actix::{Actor, Recipient};

use super::super::messages::{IngressChanged, Redeclare, StopIngress};
use super::super::poller::{Gate, HttpTiming, PollStore, PollerActor, PollerParts};
use super::super::slack_socket::{
    Recorder, SlackSocketActor, SocketParts, SocketSettings, SocketStore, Timing,
};
use super::plan::{PollerSpec, SocketSpec, Spec, Tokens};
use crate::actors::Store;
use crate::actors::poller::PollSource;
use crate::config::{SlackConfig, SlackHttp};
use crate::domain::Clock;
use crate::providers::Declared;
use crate::telemetry::EventLog;

/// How long an adapter's steps may take.
#[derive(Debug, Clone, Default)]
pub struct AdapterTiming {
    /// Of Slack's socket.
    pub socket: Timing,
    /// Of a poller's requests.
    pub poll: HttpTiming,
}

/// What adapters are made with besides their spec.
pub(super) struct Means {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) log: EventLog,
    pub(super) timing: AdapterTiming,
    /// The gates in use.
    pub(super) gates: Vec<OwnGate>,
}

/// The gate of an API for those who ask with the same tokens: others have other limits.
pub(super) struct OwnGate {
    api_base: String,
    tokens: Tokens,
    gate: Arc<Gate>,
}

/// A running adapter.
pub(super) struct Adapter {
    stop: Recipient<StopIngress>,
    redeclare: Recipient<Redeclare>,
}

impl Adapter {
    /// Tells it to stop; answered once nothing of it is left.
    pub(super) fn stop(&self) -> impl Future<Output = ()> + use<> {
        let stopped = self.stop.send(StopIngress);
        async move {
            if let Err(error) = stopped.await {
                tracing::warn!(%error, "an adapter was gone before it was stopped");
            }
        }
    }

    /// Tells it what is declared now; answered once that is in force.
    pub(super) fn redeclare(&self, declared: &Arc<Declared>) -> impl Future<Output = ()> + use<> {
        let told = self.redeclare.send(Redeclare(Arc::clone(declared)));
        async move {
            if let Err(error) = told.await {
                tracing::warn!(%error, "an adapter does not hear what is declared");
            }
        }
    }

    /// False when it ended by itself, as after a panic.
    pub(super) fn is_there(&self) -> bool {
        self.stop.connected()
    }
}

impl Means {
    /// Starts an adapter on the thread of the caller.
    pub(super) fn start(
        &mut self,
        name: &str,
        spec: &Spec,
        declared: &Arc<Declared>,
        status: Recipient<IngressChanged>,
    ) -> Option<Adapter> {
        match spec {
            Spec::Socket(spec) => Some(self.start_socket(name, spec, declared, status)),
            Spec::Poller(spec) => self.start_poller(spec, declared, status),
        }
    }

    fn start_socket(
        &self,
        name: &str,
        spec: &SocketSpec,
        declared: &Arc<Declared>,
        status: Recipient<IngressChanged>,
    ) -> Adapter {
        let config = SlackConfig {
            api_base: spec.api_base.clone(),
            socket: spec.socket.clone(),
            http: SlackHttp::default(),
        };
        let parts = SocketParts {
            name: name.to_owned(),
            settings: SocketSettings {
                timing: self.timing.socket.clone(),
                ..SocketSettings::of(&config)
            },
            app_token: spec.tokens.secret(&spec.socket.app_token_env),
            bot_token: spec.tokens.secret(&spec.socket.bot_token_env),
            declared: Arc::clone(declared),
            clock: Arc::clone(&self.clock),
            store: SocketStore::of(&self.store),
            status,
            recorder: Recorder::from(self.log.clone()),
            metrics: self.log.metrics().clone(),
        };
        let actor = SlackSocketActor::new(parts).start();
        Adapter {
            stop: actor.clone().recipient(),
            redeclare: actor.recipient(),
        }
    }

    fn start_poller(
        &mut self,
        spec: &PollerSpec,
        declared: &Arc<Declared>,
        status: Recipient<IngressChanged>,
    ) -> Option<Adapter> {
        let parts = PollerParts {
            source: spec.source.clone(),
            interval: spec.interval,
            credentials: spec.tokens.credentials()?,
            gate: self.gate(spec),
            timing: self.timing.poll,
            declared: Arc::clone(declared),
            clock: Arc::clone(&self.clock),
            store: PollStore::of(&self.store),
            status,
        };
        let actor = PollerActor::new(parts).start();
        Some(Adapter {
            stop: actor.clone().recipient(),
            redeclare: actor.recipient(),
        })
    }

    /// The gate of an API and its tokens; those that nobody uses any more are given up.
    fn gate(&mut self, spec: &PollerSpec) -> Arc<Gate> {
        let api_base = match &spec.source {
            PollSource::GitHub { repository, .. } => &repository.api_base,
            PollSource::Jira(project) => &project.api_base,
        };
        let mut gates = self.gates.iter();
        let own = gates.find(|own| own.api_base == *api_base && own.tokens == spec.tokens);
        if let Some(own) = own {
            return Arc::clone(&own.gate);
        }
        self.gates.retain(|own| Arc::strong_count(&own.gate) > 1);
        let gate = Arc::new(Gate::new(Arc::clone(&self.clock)));
        self.gates.push(OwnGate {
            api_base: api_base.clone(),
            tokens: spec.tokens.clone(),
            gate: Arc::clone(&gate),
        });
        gate
    }
}
