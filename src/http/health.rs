//! How the gateway is, said whatever the load: from counters, never from a queue of readers.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde::Serialize;

use super::state::HttpState;
use crate::store::views::{self, HealthCounters};

/// How long the counters are waited for; the last ones known are good enough then.
const COUNTERS_MAX: Duration = Duration::from_secs(1);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    ok: bool,
    version: &'static str,
    ingresses: BTreeMap<String, &'static str>,
    slack: Slack,
    store: Store,
    event_log: EventLog,
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
    let ingresses = ingresses(&state);
    let is_at_fault = ingresses
        .values()
        .any(|word| matches!(*word, "missing-secret" | "failed"));
    let health = Health {
        ok: store_is_ok && log_is_ok && !is_at_fault,
        version: env!("CARGO_PKG_VERSION"),
        slack: Slack {
            socket: socket_word(ingresses.get("slack-socket").copied()),
        },
        ingresses,
        store: Store {
            ok: store_is_ok,
            counters: counters(&state).await,
        },
        event_log: EventLog { ok: log_is_ok },
    };
    HttpResponse::Ok().json(health)
}

/// The routes by the settings in force, everything else by what its adapter said last.
pub(super) fn ingresses(state: &HttpState) -> BTreeMap<String, &'static str> {
    let settings = state.settings();
    let mut found = state.board.all();
    for (name, door) in [
        ("github-webhook", &settings.github),
        ("jira-webhook", &settings.jira),
        ("slack-http", &settings.slack),
    ] {
        found.insert(name.to_owned(), door.word());
    }
    found
}

fn socket_word(state: Option<&str>) -> &'static str {
    match state {
        Some("up") => "up",
        Some("disabled") | None => "off",
        Some(_) => "down",
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
