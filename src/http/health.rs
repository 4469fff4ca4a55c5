//! How the gateway is, said whatever the load: from counters, never from a queue of readers.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde::Serialize;

use super::state::HttpState;
use crate::actors::{IngressState, IngressStatus};
use crate::store::views::{self, HealthCounters};

/// Sources of a poller that are shown one by one.
const SOURCES_MAX: usize = 100;
/// How long the counters are waited for; the last ones known are good enough then.
const COUNTERS_MAX: Duration = Duration::from_secs(1);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    ok: bool,
    version: &'static str,
    ingresses: BTreeMap<String, &'static str>,
    /// Of those that are enabled.
    ingress_details: BTreeMap<String, Details>,
    slack: Slack,
    store: Store,
    event_log: EventLog,
    /// Changed settings that wait for a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restart_required: Vec<String>,
}

/// What is behind the word.
#[derive(Serialize)]
struct Details {
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
    /// Of the socket: how many connections of its app Slack counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<u64>,
    /// The sources that are not up.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sources: BTreeMap<String, Source>,
}

#[derive(Serialize)]
struct Source {
    state: &'static str,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<IngressStatus> for Details {
    fn from(status: IngressStatus) -> Self {
        let sources = status.sources.into_iter();
        let not_up = sources.filter(|(_, source)| source.state != IngressState::Up);
        let shown = |(name, source): (String, IngressStatus)| {
            let source = Source {
                state: source.state.as_str(),
                since: source.since.to_string(),
                error: source.error,
            };
            (name, source)
        };
        Self {
            since: status.since.to_string(),
            error: status.error,
            variable: status.variable,
            connections: status.connections,
            sources: not_up.take(SOURCES_MAX).map(shown).collect(),
        }
    }
}

#[derive(Serialize)]
struct Slack {
    socket: &'static str,
}

#[derive(Serialize)]
struct Store {
    ok: bool,
    #[serde(flatten)]
    counters: HealthCounters,
}

#[derive(Serialize)]
struct EventLog {
    ok: bool,
}

pub(super) async fn health(state: Data<HttpState>) -> HttpResponse {
    let store_is_ok = state.parts.health.is_ok();
    let log_is_ok = state.parts.log.is_healthy();
    let statuses = state.parts.board.all();
    let words = statuses
        .iter()
        .map(|(name, status)| (name.clone(), status.state.as_str()));
    let ingresses = words.collect();
    let is_at_fault = statuses.values().any(|status| {
        matches!(
            status.state,
            IngressState::MissingSecret | IngressState::Failed
        )
    });
    let socket = statuses.get("slack-socket").map(|status| status.state);
    let details = statuses
        .into_iter()
        .filter(|(_, status)| status.state != IngressState::Disabled)
        .map(|(name, status)| (name, status.into()));
    let health = Health {
        ok: store_is_ok && log_is_ok && !is_at_fault,
        version: env!("CARGO_PKG_VERSION"),
        slack: Slack {
            socket: socket_word(socket),
        },
        ingresses,
        ingress_details: details.collect(),
        store: Store {
            ok: store_is_ok,
            counters: counters(&state).await,
        },
        event_log: EventLog { ok: log_is_ok },
        restart_required: state.parts.board.restart_required(),
    };
    HttpResponse::Ok().json(health)
}

const fn socket_word(state: Option<IngressState>) -> &'static str {
    match state {
        Some(IngressState::Up) => "up",
        Some(IngressState::Disabled) | None => "off",
        Some(
            IngressState::Connecting
            | IngressState::BackingOff
            | IngressState::MissingSecret
            | IngressState::Failed,
        ) => "down",
    }
}

/// The counters as they are, or as they were when the store last answered in time.
pub(super) async fn counters(state: &HttpState) -> HealthCounters {
    let readers = state.parts.readers.clone();
    let look = actix_web::web::block(move || {
        let connection = readers.get().ok()?;
        views::health_counters(&connection).ok()
    });
    let looked = tokio::time::timeout(COUNTERS_MAX, look).await;
    match looked {
        Ok(Ok(Some(counters))) => state.counters_seen.replace(counters),
        Ok(Ok(None) | Err(_)) | Err(_) => state.counters_seen.last(),
    }
}
