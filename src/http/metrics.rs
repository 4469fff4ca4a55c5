//! Counters and gauges in the Prometheus text format.

use std::fmt::{Display, Write};

use actix_web::HttpResponse;
use actix_web::web::Data;

use super::counters::Counted;
use super::error::ApiError;
use super::health;
use super::state::HttpState;
use crate::actors::{IngressState, Observe, StoreState};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(state: Data<HttpState>) -> Result<HttpResponse, ApiError> {
    if !state.settings().metrics_enabled {
        return Err(ApiError::NotFound);
    }
    let mut text = Text::default();
    let store = state.parts.store.send(Observe).await.unwrap_or_default();
    write_store(&mut text, &state, &store);
    write_queues(&mut text, &health::counters(&state).await);
    write_http(&mut text, &state);
    write_ingress(&mut text, &state);
    Ok(HttpResponse::Ok().content_type(CONTENT_TYPE).body(text.0))
}

fn write_store(text: &mut Text, state: &HttpState, store: &StoreState) {
    let health = &state.parts.health;
    text.gauge(
        "store_up",
        "1 while the store takes writes.",
        u8::from(health.is_ok()),
    );
    let log_is_ok = state.parts.log.is_healthy();
    text.gauge(
        "event_log_up",
        "1 while the event log is written.",
        u8::from(log_is_ok),
    );
    text.gauge(
        "store_pending_writes",
        "Writes that wait for their batch.",
        store.pending,
    );
    text.counter(
        "store_writes_total",
        "Writes that were answered.",
        store.writes,
    );
    text.counter(
        "store_failed_batches_total",
        "Batches that failed as a whole.",
        store.failed,
    );
    text.gauge(
        "store_last_batch_seconds",
        "How long the last batch took, COMMIT included.",
        store.last_took.as_secs_f64(),
    );
    text.family(
        "store_batches_total",
        "counter",
        "Batches, by why they ended.",
    );
    for (end, count) in &store.ended_by {
        let end = end.as_str();
        text.sample("store_batches_total", &[("ended_by", end)], count);
    }
    text.gauge(
        "unattended_subjects",
        "Claimed subjects with a backlog whose claimants do not fetch.",
        health.unattended(),
    );
}

fn write_queues(text: &mut Text, counters: &crate::store::views::HealthCounters) {
    text.gauge("events", "Stored events.", counters.events);
    text.gauge("held_events", "Events on no queue yet.", counters.held);
    text.family(
        "queue_backlog",
        "gauge",
        "Deliveries of a queue that are ready or in hand.",
    );
    for (instance, backlog) in &counters.queues {
        text.sample("queue_backlog", &[("instance", instance)], backlog);
    }
}

fn write_http(text: &mut Text, state: &HttpState) {
    let (open, held) = state.in_progress();
    text.gauge(
        "open_requests",
        "Requests in progress, held polls not among them.",
        open,
    );
    text.gauge("held_polls", "Fetches that are held.", held);
    let bytes = state.body_bytes.taken();
    text.gauge("body_bytes", "Bytes of bodies that are held.", bytes);
}

fn write_ingress(text: &mut Text, state: &HttpState) {
    let counts = state.counters.all();
    text.family(
        "requests_total",
        "counter",
        "Requests of providers, by how they ended.",
    );
    for ((provider, counted), count) in &counts {
        let ended = match counted {
            Counted::Accepted => "accepted",
            Counted::Refused => "refused",
            Counted::Failed => "failed",
            Counted::Matched(_) => continue,
        };
        let labels = [("provider", provider.as_str()), ("ended", ended)];
        text.sample("requests_total", &labels, count);
    }
    text.family(
        "secret_matches_total",
        "counter",
        "Requests by the secret that signed them.",
    );
    for ((provider, counted), count) in &counts {
        if let Counted::Matched(which) = counted {
            let labels = [("provider", provider.as_str()), ("secret", which.as_str())];
            text.sample("secret_matches_total", &labels, count);
        }
    }
    text.family("ingress_up", "gauge", "1 while an ingress takes events in.");
    for (ingress, status) in state.parts.board.all() {
        let is_up = u8::from(status.state == IngressState::Up);
        text.sample("ingress_up", &[("ingress", &ingress)], is_up);
    }
}

/// The text as it grows. Label values are names without quotes or backslashes.
#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP the_loop_gateway_{name} {help}"));
        self.line(format_args!("# TYPE the_loop_gateway_{name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{value}\""))
            .collect();
        if labels.is_empty() {
            self.line(format_args!("the_loop_gateway_{name} {value}"));
        } else {
            let labels = labels.join(",");
            self.line(format_args!("the_loop_gateway_{name}{{{labels}}} {value}"));
        }
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a text cannot fail.
        if writeln!(self.0, "{line}").is_err() {
            tracing::error!("a metric is missing");
        }
    }
}
