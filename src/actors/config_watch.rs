//! Takes up a changed configuration while the gateway runs.
//!
//! Role: look at the files every few seconds, put into force what applies at once, and say what
//! waits for a restart. Invariant: a configuration that cannot be used changes nothing, and is
//! told once. Must not read or judge the files itself: `config` does.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::WrapFuture;
use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Recipient};

use super::ingress_board::IngressBoard;
use super::liveness::Alive;
use super::messages::{LookNow, ReplaceSettings};
use super::supervisor::Supervise;
use crate::config::{
    ConfigFingerprint, EnvName, Environment, GatewayConfig, LoadedConfig, Reload, RestartRequired,
};
use crate::store::Settings;
use crate::telemetry::{EventLog, GatewayEvent};

/// How long the adapters may take to become what is wanted, before the next look.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Puts a configuration into force where no actor has to be asked.
pub type Apply = Box<dyn Fn(&GatewayConfig, &Environment) + Send>;

/// What a [`ConfigWatchActor`] works with.
pub struct WatchParts {
    /// What the gateway started with.
    pub started: LoadedConfig,
    /// The time between two looks.
    pub every: Duration,
    /// Everything that is no actor.
    pub apply: Apply,
    /// The bounds of the store that a configuration sets.
    pub store_settings: fn(&GatewayConfig) -> Settings,
    /// The writer.
    pub store: Recipient<ReplaceSettings>,
    /// Who starts and stops ingresses.
    pub supervisor: Recipient<Supervise>,
    /// Where changes are recorded.
    pub log: EventLog,
    /// Where it is shown what waits for a restart.
    pub board: IngressBoard,
    /// The sign of life to hold.
    pub alive: Alive,
}

impl fmt::Debug for WatchParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchParts")
            .field("started", &self.started)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

/// Looks at the files, one look at a time.
#[derive(Debug)]
pub struct ConfigWatchActor {
    watcher: Option<Watcher>,
    every: Duration,
    /// Somebody asked for a look while one was under way.
    is_asked: bool,
    _alive: Alive,
}

/// What a look works with; with the look while one runs.
struct Watcher {
    baseline: Baseline,
    running: Arc<LoadedConfig>,
    last_seen: ConfigFingerprint,
    is_vanished: bool,
    apply: Apply,
    store_settings: fn(&GatewayConfig) -> Settings,
    store: Recipient<ReplaceSettings>,
    supervisor: Recipient<Supervise>,
    log: EventLog,
    board: IngressBoard,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

/// What stays in force until a restart.
struct Baseline(LoadedConfig);

impl Baseline {
    /// Slack's tokens stay what they were when they were first set: until then nothing uses them,
    /// so there is nothing to restart.
    fn take_first_slack_tokens(&mut self, newer: &LoadedConfig) {
        let is_set = |name: &EnvName, environment: &Environment| environment.secret(name).is_set();
        let started = &mut self.0;
        let (socket, newer_socket) = (&mut started.config.slack.socket, &newer.config.slack.socket);
        if !is_set(&socket.app_token_env, &started.environment) {
            socket.app_token_env.clone_from(&newer_socket.app_token_env);
            socket.bot_token_env.clone_from(&newer_socket.bot_token_env);
            started.environment = newer.environment.clone();
        }
    }

    /// The settings that wait for a restart, by the keys that the operator knows.
    fn restart_required(&self, newer: &LoadedConfig) -> Vec<String> {
        let required = RestartRequired::between(&self.0, newer);
        required.iter().map(ToString::to_string).collect()
    }
}

impl ConfigWatchActor {
    /// A watch whose first look comes after the first interval.
    #[must_use]
    pub fn new(parts: WatchParts) -> Self {
        let running = Arc::new(parts.started.told());
        Self {
            every: parts.every,
            is_asked: false,
            watcher: Some(Watcher {
                last_seen: running.fingerprint,
                running,
                baseline: Baseline(parts.started),
                is_vanished: false,
                apply: parts.apply,
                store_settings: parts.store_settings,
                store: parts.store,
                supervisor: parts.supervisor,
                log: parts.log,
                board: parts.board,
            }),
            _alive: parts.alive,
        }
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        let Some(mut watcher) = self.watcher.take() else {
            return;
        };
        self.is_asked = false;
        let look = async move {
            watcher.look().await;
            watcher
        };
        let ended = look.into_actor(self).map(|watcher, watch: &mut Self, ctx| {
            watch.watcher = Some(watcher);
            if watch.is_asked {
                watch.begin(ctx);
            }
        });
        ctx.spawn(ended);
    }
}

impl Actor for ConfigWatchActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.every, Self::begin);
    }
}

impl Handler<LookNow> for ConfigWatchActor {
    type Result = ();

    fn handle(&mut self, _: LookNow, ctx: &mut Self::Context) {
        self.is_asked = true;
        self.begin(ctx);
    }
}

impl Watcher {
    async fn look(&mut self) {
        let (running, last_seen) = (Arc::clone(&self.running), self.last_seen);
        let read = actix_rt::task::spawn_blocking(move || running.reload(&last_seen));
        let Ok(found) = read.await else {
            tracing::error!("a look at the configuration ended in a panic");
            return;
        };
        match found {
            Reload::Unchanged => self.is_vanished = false,
            Reload::Vanished => self.vanished(),
            Reload::Failed { error, seen } => {
                self.is_vanished = false;
                self.last_seen = seen;
                self.failed(error.to_string());
            }
            Reload::Loaded(newer) => {
                self.is_vanished = false;
                self.loaded(*newer).await;
            }
        }
    }

    fn vanished(&mut self) {
        if !std::mem::replace(&mut self.is_vanished, true) {
            let shown = |path: Option<&Path>| path.map(|path| path.display().to_string());
            let config = &self.running.config;
            let files = [config.path.as_deref(), config.env_file.as_deref()];
            let files: Vec<String> = files.into_iter().filter_map(shown).collect();
            self.failed(format!(
                "not there or not readable any more: one of {}",
                files.join(", ")
            ));
        }
    }

    fn failed(&self, error: String) {
        tracing::error!(error, "the old configuration stays in force");
        self.log.record(GatewayEvent::ConfigReloadFailed { error });
    }

    async fn loaded(&mut self, newer: LoadedConfig) {
        for warning in &newer.warnings {
            tracing::warn!(%warning, "configuration");
        }
        self.baseline.take_first_slack_tokens(&newer);
        let restart_required = self.baseline.restart_required(&newer);
        let changes = newer.changes_since(&self.running);
        self.put_into_force(&newer).await;
        self.board.set_restart_required(restart_required.clone());
        self.last_seen = newer.fingerprint;
        self.running = Arc::new(newer);
        let detail = match changes.as_slice() {
            [] => "nothing but the text of the files".to_owned(),
            changes => format!("changed: {}", changes.join(", ")),
        };
        tracing::info!(
            detail,
            ?restart_required,
            "a changed configuration is in force"
        );
        self.log.record(GatewayEvent::ConfigReloaded {
            detail,
            restart_required: (!restart_required.is_empty()).then_some(restart_required),
        });
    }

    async fn put_into_force(&self, newer: &LoadedConfig) {
        let started = &self.baseline.0;
        let config = newer.config.clone().with_start_settings_of(&started.config);
        (self.apply)(&config, &newer.environment);
        self.bound_store(&config).await;
        self.supervise(Supervise {
            config: Arc::new(config),
            environment: newer.environment.clone(),
            slack_environment: started.environment.clone(),
        })
        .await;
    }

    async fn bound_store(&self, config: &GatewayConfig) {
        let settings = ReplaceSettings((self.store_settings)(config));
        if let Err(error) = self.store.send(settings).await {
            tracing::warn!(%error, "the store does not hear of changed bounds");
        }
    }

    async fn supervise(&self, wanted: Supervise) {
        let settled = tokio::time::timeout(SETTLE_MAX, self.supervisor.send(wanted));
        let problem = match settled.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(elapsed) => elapsed.to_string(),
        };
        tracing::warn!(problem, "the ingresses are not yet what is configured");
    }
}
