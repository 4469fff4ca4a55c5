//! The ingresses and the watch over their configuration, wired to the rest.

use std::fmt;
use std::sync::Arc;

use actix::Addr;
use actix_web::web::Data;

use super::{Core, Parts, log_place, store_settings};
use crate::actors::{
    Apply, ConfigWatchActor, IngressSupervisorActor, Supervise, SupervisorParts, WatchParts,
};
use crate::config::{Environment, GatewayConfig, LoadedConfig};
use crate::http::{HttpSettings, HttpState};
use crate::telemetry::EventLog;

/// Who keeps the ingresses; they run as long as this is held.
pub(super) struct Ingresses {
    pub(super) supervisor: Addr<IngressSupervisorActor>,
    pub(super) config_watch: Addr<ConfigWatchActor>,
}

impl fmt::Debug for Ingresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingresses").finish_non_exhaustive()
    }
}

impl Ingresses {
    pub(super) fn start(
        core: &Core,
        http: &Data<HttpState>,
        loaded: &LoadedConfig,
        log: &EventLog,
        parts: &Parts,
    ) -> Self {
        let wanted = Supervise {
            config: Arc::new(loaded.config.clone()),
            environment: loaded.environment.clone(),
            slack_environment: loaded.environment.clone(),
        };
        let supervisor_parts = SupervisorParts {
            store: core.store.clone(),
            clock: Arc::clone(&parts.clock),
            log: log.clone(),
            board: http.board(),
            timing: parts.adapters.clone(),
            look_every: parts.intervals.reload,
            alive: core.liveness.alive("ingress supervisor"),
        };
        // Made here, so that its first word is on the board before anybody asks.
        let supervisor = IngressSupervisorActor::new(supervisor_parts, &wanted);
        let supervisor = core.threads.on_adapters(move || supervisor);
        let watch_parts = WatchParts {
            started: loaded.told(),
            every: parts.intervals.reload,
            apply: apply(http, log),
            store_settings,
            store: core.store.clone().recipient(),
            supervisor: supervisor.clone().recipient(),
            log: log.clone(),
            board: http.board(),
            alive: core.liveness.alive("config watch"),
        };
        let config_watch = core
            .threads
            .on_adapters(move || ConfigWatchActor::new(watch_parts));
        Self {
            supervisor,
            config_watch,
        }
    }
}

fn apply(http: &Data<HttpState>, log: &EventLog) -> Apply {
    let (http, log) = (http.clone(), log.clone());
    Box::new(move |config: &GatewayConfig, environment: &Environment| {
        http.replace_settings(HttpSettings::new(config, environment));
        log.replace_place(log_place(config));
    })
}
