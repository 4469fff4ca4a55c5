//! Starts, stops and replaces the ingresses by configuration alone, and says how they stand.
//!
//! Role: turn a configuration into the set of adapters that it asks for, and the set that runs
//! into that one. What does not change goes on without noticing.
//!
//! Invariant: an adapter's successor is started only after the adapter said that nothing of it is
//! left, so there are never two sockets. Must not judge a configuration, and must not wait for a
//! provider.

mod adapter;
mod plan;
mod standing;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture,
};
use futures_util::future::join_all;
use tokio::sync::watch;

use self::adapter::{Adapter, Means};
use self::plan::{Plan, Spec};
use self::standing::Standings;
use super::ingress_board::IngressBoard;
use super::liveness::Alive;
use super::messages::{IngressChanged, IngressState};
use super::{StopIngresses, Store};
use crate::config::{Environment, GatewayConfig};
use crate::domain::Clock;
use crate::providers::Declared;
use crate::telemetry::EventLog;

pub use self::adapter::AdapterTiming;

/// This configuration is in force from now on. Sent by the config watch; answered once the
/// adapters are what it asks for.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Supervise {
    /// The configuration.
    pub config: Arc<GatewayConfig>,
    /// Where its secrets are looked up.
    pub environment: Environment,
    /// Where Slack's tokens are looked up: they change with a restart only.
    pub slack_environment: Environment,
}

/// What an [`IngressSupervisorActor`] works with.
#[derive(Debug)]
pub struct SupervisorParts {
    /// The writer.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where changes are recorded.
    pub log: EventLog,
    /// Where states are shown.
    pub board: IngressBoard,
    /// How long an adapter's steps may take.
    pub timing: AdapterTiming,
    /// The time between two looks whether all adapters are there.
    pub look_every: Duration,
    /// The sign of life to hold.
    pub alive: Alive,
}

/// Keeps the ingresses. Its adapters run on its thread.
pub struct IngressSupervisorActor {
    means: Means,
    board: IngressBoard,
    look_every: Duration,
    plan: Plan,
    declared: Arc<Declared>,
    running: BTreeMap<String, Running>,
    standings: Standings,
    /// How many adapters are on their way out.
    leaving: watch::Sender<usize>,
    is_over: bool,
    _alive: Alive,
}

struct Running {
    spec: Spec,
    adapter: Adapter,
    is_leaving: bool,
}

impl fmt::Debug for IngressSupervisorActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IngressSupervisorActor")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl IngressSupervisorActor {
    /// A supervisor of what a configuration asks for; adapters start when it does.
    #[must_use]
    pub fn new(parts: SupervisorParts, first: &Supervise) -> Self {
        let mut supervisor = Self {
            means: Means {
                store: parts.store,
                clock: parts.clock,
                log: parts.log,
                timing: parts.timing,
                gates: Vec::new(),
            },
            board: parts.board,
            look_every: parts.look_every,
            plan: Plan::default(),
            declared: Arc::default(),
            running: BTreeMap::new(),
            standings: Standings::default(),
            leaving: watch::Sender::new(0),
            is_over: false,
            _alive: parts.alive,
        };
        supervisor.adopt(first);
        let now = supervisor.means.clock.now();
        for name in supervisor.plan.adapters.keys() {
            supervisor.standings.started(name, now);
        }
        supervisor.tell();
        supervisor
    }

    fn adopt(&mut self, wanted: &Supervise) {
        let Supervise {
            config,
            environment,
            slack_environment,
        } = wanted;
        self.plan = Plan::of(config, environment, slack_environment);
        if *self.declared != config.declared {
            self.declared = Arc::new(config.declared.clone());
        }
    }

    /// Makes what runs into what is wanted, as far as nothing has to be waited for; what ends goes
    /// on from here.
    fn reconcile(&mut self, ctx: &mut Context<Self>) {
        let mut stops = Vec::new();
        for (name, running) in &mut self.running {
            if !running.is_leaving && self.plan.adapters.get(name) != Some(&running.spec) {
                running.is_leaving = true;
                stops.push((name.clone(), running.adapter.stop()));
            }
        }
        for (name, stopped) in stops {
            let then = move |(), supervisor: &mut Self, ctx: &mut Context<Self>| {
                supervisor.left(&name);
                supervisor.reconcile(ctx);
            };
            ctx.spawn(stopped.into_actor(self).map(then));
        }
        let wanted = self.plan.adapters.iter();
        let missing: Vec<_> = wanted
            .filter(|(name, _)| !self.running.contains_key(*name))
            .map(|(name, spec)| (name.clone(), spec.clone()))
            .collect();
        for (name, spec) in missing {
            self.start(name, spec, ctx);
        }
        self.tell();
        let leaving = self.running.values().filter(|one| one.is_leaving).count();
        self.leaving.send_replace(leaving);
    }

    fn start(&mut self, name: String, spec: Spec, ctx: &Context<Self>) {
        let status = ctx.address().recipient();
        let started = self.means.start(&name, &spec, &self.declared, status);
        let Some(adapter) = started else {
            tracing::error!(
                ingress.name = name,
                "an ingress has no way to prove who asks"
            );
            return;
        };
        self.standings.started(&name, self.means.clock.now());
        let running = Running {
            spec,
            adapter,
            is_leaving: false,
        };
        self.running.insert(name, running);
    }

    fn left(&mut self, name: &str) {
        self.running.remove(name);
        self.standings.forget(name);
    }

    /// Starts again what ended by itself; nobody knows why, so it is said to have failed first.
    fn look_after(&mut self, ctx: &mut Context<Self>) {
        let gone = |one: &Running| !one.is_leaving && !one.adapter.is_there();
        let gone = self.running.iter().filter(|(_, one)| gone(one));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        if gone.is_empty() {
            return;
        }
        for name in gone {
            tracing::error!(ingress.name = name, "an ingress ended by itself");
            self.standings.heard(IngressChanged {
                name: name.clone(),
                state: IngressState::Failed,
                since: self.means.clock.now(),
                error: Some("it ended by itself and is started again".to_owned()),
                variable: None,
                connections: None,
            });
            self.tell();
            self.left(&name);
        }
        self.reconcile(ctx);
    }

    /// Shows and records what has changed.
    fn tell(&mut self) {
        if self.is_over {
            return;
        }
        for news in self.standings.news(&self.plan, self.means.clock.now()) {
            self.board.set(news.ingress, news.status);
            if let Some(record) = news.record {
                self.means.log.record(record);
            }
        }
    }

    /// Waits until no adapter is on its way out.
    fn settled(&self) -> impl Future<Output = ()> + use<> {
        let mut leaving = self.leaving.subscribe();
        async move {
            if leaving.wait_for(|count| *count == 0).await.is_err() {
                tracing::debug!("the supervisor is gone");
            }
        }
    }
}

impl Actor for IngressSupervisorActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.reconcile(ctx);
        ctx.run_interval(self.look_every, Self::look_after);
    }
}

impl Handler<Supervise> for IngressSupervisorActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, wanted: Supervise, ctx: &mut Self::Context) -> Self::Result {
        if self.is_over {
            return Box::pin(std::future::ready(()));
        }
        let before = Arc::clone(&self.declared);
        self.adopt(&wanted);
        let is_redeclared = !Arc::ptr_eq(&before, &self.declared);
        let told: Vec<_> = self
            .running
            .values()
            .filter(|_| is_redeclared)
            .map(|running| running.adapter.redeclare(&self.declared))
            .collect();
        self.reconcile(ctx);
        let settled = self.settled();
        Box::pin(async move {
            join_all(told).await;
            settled.await;
        })
    }
}

impl Handler<StopIngresses> for IngressSupervisorActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: StopIngresses, ctx: &mut Self::Context) -> Self::Result {
        self.is_over = true;
        self.plan = Plan::default();
        self.reconcile(ctx);
        Box::pin(self.settled())
    }
}

impl Handler<IngressChanged> for IngressSupervisorActor {
    type Result = ();

    fn handle(&mut self, change: IngressChanged, _: &mut Self::Context) {
        self.standings.heard(change);
        self.tell();
    }
}
