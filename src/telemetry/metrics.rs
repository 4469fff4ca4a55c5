//! Counters and histograms of what the gateway did since it started.
//!
//! Invariant: counting never waits for a disk and never asks anybody: an atomic, or a lock that is
//! held for a few additions. What is counted by a record of the event log is counted where it is
//! recorded, so it is a fact by then. Labels take few values, all of the program's own choosing: a
//! stranger cannot make a series. What can be looked up when somebody asks (sizes, backlogs,
//! states) is no business of this file.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::events::GatewayEvent;
use super::families::{
    Arrived, By, Counters, EVENT_AGE_SECONDS, Histograms, LATENCY_SECONDS, PerProvider, Requested,
    SecretMatched, Transported, WRITES,
};
use super::tally::QueueTally;
use crate::domain::{DropReason, Provider, Source};

/// What every name begins with.
pub const PREFIX: &str = "the_loop_gateway";

/// The counters of one gateway; clones count into the same ones.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

struct Inner {
    registry: Registry,
    arrivals: Counters<Arrived>,
    event_age: Histograms<Transported>,
    polled_first: Counters<PerProvider>,
    grace_expired: Counters<PerProvider>,
    revived: Counter,
    requests: Counters<Requested>,
    secret_matches: Counters<SecretMatched>,
    append: Histograms<By>,
    ack: Histogram,
    batches: Counters<By>,
    batch: Histogram,
    batch_writes: Histogram,
    failed_batches: Counter,
    hand_outs: Counters<By>,
    outcomes: Counters<By>,
    redeliveries: Counters<By>,
    strikes: Counter,
    dead_letters: Counters<By>,
    expired: Counters<By>,
    interventions: Counters<By>,
    refusals: Counters<By>,
    faults: Counter,
}

/// How a provider's request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// Answered with success.
    Accepted,
    /// Refused before it was read.
    Refused,
    /// Not decided in time, or the store failed.
    Failed,
}

impl RequestEnd {
    const ALL: [Self; 3] = [Self::Accepted, Self::Refused, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// Every way in which an event can come, with a label for each part.
const WAYS: [(Provider, Source); 6] = [
    (Provider::GitHub, Source::Webhook),
    (Provider::GitHub, Source::Poll),
    (Provider::Jira, Source::Webhook),
    (Provider::Jira, Source::Poll),
    (Provider::Slack, Source::Webhook),
    (Provider::Slack, Source::Socket),
];
const BATCH_ENDS: [&str; 4] = ["drained", "writes-max", "bytes-max", "shutdown"];
const OUTCOMES: [&str; 5] = ["delivered", "spawned", "dropped", "failed", "released"];
const REFUSALS: [&str; 4] = [
    "duplicate-instance",
    "duplicate-actor",
    "commit-undelivered",
    "unknown-instance",
];
const ENDS_WITHOUT_OUTCOME: [&str; 4] = ["failed", "vanished", "lost", "overdue"];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let inner = Inner::registered(&mut registry);
        inner.begin_at_zero();
        Self(Arc::new(Inner { registry, ..inner }))
    }
}

impl Inner {
    /// Everything with its name and what it says; [`Inner::registry`] is put in by the caller.
    fn registered(registry: &mut Registry) -> Self {
        let mut add = Adder(registry);
        Self {
            arrivals: add.counters("arrivals", "What arrived, by what became of it"),
            event_age: add.histograms(
                "event_age_seconds",
                "Seconds from an event at its provider to its arrival here",
                &EVENT_AGE_SECONDS,
            ),
            polled_first: add.counters(
                "polled_first",
                "Stored events that a poll or the Slack catch-up brought before anything else did",
            ),
            grace_expired: add.counters(
                "grace_expired",
                "Stored events that nothing bound to a work item in time",
            ),
            revived: add.counter(
                "revived",
                "Events that came again on request and went out again",
            ),
            requests: add.counters("requests", "Requests of providers, by how they ended"),
            secret_matches: add.counters(
                "secret_matches",
                "Requests of providers, by the secret that signed them",
            ),
            append: add.histograms(
                "append_seconds",
                "Seconds that a sender waited for the store, the COMMIT included",
                &LATENCY_SECONDS,
            ),
            ack: add.histogram(
                "socket_ack_seconds",
                "Seconds from a Slack envelope to its acknowledgement leaving",
                &LATENCY_SECONDS,
            ),
            batches: add.counters("store_batches", "Batches of writes, by why they ended"),
            batch: add.histogram(
                "store_batch_seconds",
                "Seconds that a batch took, the COMMIT included",
                &LATENCY_SECONDS,
            ),
            batch_writes: add.histogram("store_batch_writes", "Writes in a batch", &WRITES),
            failed_batches: add.counter("store_failed_batches", "Batches that failed"),
            hand_outs: add.counters("hand_outs", "Deliveries handed out, by attempt"),
            outcomes: add.counters("outcomes", "What instances said of deliveries"),
            redeliveries: add.counters(
                "redeliveries",
                "Deliveries put back to go out again, by how their hand-out ended",
            ),
            strikes: add.counter("strikes", "Hand-outs that counted against their delivery"),
            dead_letters: add.counters(
                "dead_letters",
                "Deliveries that met their last strike, by how it ended",
            ),
            expired: add.counters("expired", "What retention gave up unconsumed, by why"),
            interventions: add.counters("interventions", "What operators did, by verb"),
            refusals: add.counters(
                "refusals",
                "Requests of instances that were refused, by code",
            ),
            faults: add.counter("faults", "Failures that nobody asked for by a request"),
            registry: Registry::default(),
        }
    }

    /// A series that is not there cannot rise: what an alert looks at begins at zero.
    fn begin_at_zero(&self) {
        for (provider, transport) in WAYS {
            drop(self.arrivals.get_or_create(&Arrived {
                provider: provider.as_str(),
                transport: transport.as_str(),
                result: "stored",
            }));
            drop(
                self.event_age
                    .get_or_create(&Transported::new(provider, transport)),
            );
        }
        for provider in Provider::ALL {
            let label = PerProvider::new(provider);
            drop(self.polled_first.get_or_create(&label));
            drop(self.grace_expired.get_or_create(&label));
            for ended in RequestEnd::ALL {
                drop(
                    self.requests
                        .get_or_create(&Requested::new(provider, ended.as_str())),
                );
            }
            for secret in ["current", "previous"] {
                drop(
                    self.secret_matches
                        .get_or_create(&SecretMatched::new(provider, secret)),
                );
            }
        }
        for transport in [Source::Webhook, Source::Socket] {
            drop(
                self.append
                    .get_or_create(&By::transport(transport.as_str())),
            );
        }
        let by = |counters: &Counters<By>, key, values: &[&'static str]| {
            for value in values {
                drop(counters.get_or_create(&By::new(key, value)));
            }
        };
        by(&self.batches, "ended_by", &BATCH_ENDS);
        by(&self.hand_outs, "attempt", &["first", "again"]);
        by(&self.outcomes, "outcome", &OUTCOMES);
        by(&self.redeliveries, "after", &ENDS_WITHOUT_OUTCOME);
        by(
            &self.dead_letters,
            "after",
            &["failed", "vanished", "overdue"],
        );
        by(&self.expired, "reason", &["age", "space"]);
        by(
            &self.interventions,
            "verb",
            &["redrive", "replay", "release"],
        );
        by(&self.refusals, "code", &REFUSALS);
    }
}

/// Registers one after the other.
struct Adder<'r>(&'r mut Registry);

impl Adder<'_> {
    fn counter(&mut self, name: &str, help: &str) -> Counter {
        let counter = Counter::default();
        self.0.register(name, help, counter.clone());
        counter
    }

    fn counters<L: super::families::Labels>(&mut self, name: &str, help: &str) -> Counters<L> {
        let counters = Counters::default();
        self.0.register(name, help, counters.clone());
        counters
    }

    fn histogram(&mut self, name: &str, help: &str, buckets: &'static [f64]) -> Histogram {
        let histogram = Histogram::new(buckets.iter().copied());
        self.0.register(name, help, histogram.clone());
        histogram
    }

    fn histograms<L: super::families::Labels>(
        &mut self,
        name: &str,
        help: &str,
        buckets: &'static [f64],
    ) -> Histograms<L> {
        let histograms = Histograms::new_with_constructor(super::families::Buckets(buckets));
        self.0.register(name, help, histograms.clone());
        histograms
    }
}

impl Metrics {
    /// Appends everything in the text format of Prometheus.
    ///
    /// # Errors
    /// When the text takes no more.
    pub fn write(&self, text: &mut String) -> fmt::Result {
        encode(text, &self.0.registry)
    }

    /// Counts how a provider's request ended.
    pub fn request(&self, provider: Provider, ended: RequestEnd) {
        let label = Requested::new(provider, ended.as_str());
        self.0.requests.get_or_create(&label).inc();
    }

    /// Counts which secret signed a request: a rotation is done when the previous one rests.
    pub fn secret_matched(&self, provider: Provider, secret: &'static str) {
        let label = SecretMatched::new(provider, secret);
        self.0.secret_matches.get_or_create(&label).inc();
    }

    /// Notes how long a sender waited for its append.
    pub fn appended(&self, transport: Source, took: Duration) {
        let label = By::transport(transport.as_str());
        self.0
            .append
            .get_or_create(&label)
            .observe(took.as_secs_f64());
    }

    /// Notes how long a Slack envelope waited for its acknowledgement.
    pub fn acked(&self, took: Duration) {
        self.0.ack.observe(took.as_secs_f64());
    }

    /// Notes a batch of the store.
    pub fn batch(&self, ended_by: &'static str, writes: usize, took: Duration) {
        let inner = &self.0;
        inner
            .batches
            .get_or_create(&By::new("ended_by", ended_by))
            .inc();
        inner.batch.observe(took.as_secs_f64());
        let writes = u32::try_from(writes).unwrap_or(u32::MAX);
        inner.batch_writes.observe(f64::from(writes));
    }

    /// Counts a batch that failed.
    pub fn batch_failed(&self) {
        self.0.failed_batches.inc();
    }

    /// Counts what a batch did to the queues, once it is durable.
    pub fn queues(&self, tally: &QueueTally) {
        let inner = &self.0;
        let by = |counters: &Counters<By>, key, value, count: u64| {
            if count > 0 {
                counters.get_or_create(&By::new(key, value)).inc_by(count);
            }
        };
        by(&inner.hand_outs, "attempt", "first", tally.handed_first);
        by(&inner.hand_outs, "attempt", "again", tally.handed_again);
        by(&inner.outcomes, "outcome", "released", tally.released);
        if tally.strikes > 0 {
            inner.strikes.inc_by(tally.strikes);
        }
        for (provider, count) in &tally.polled_first {
            let label = PerProvider::new(*provider);
            inner.polled_first.get_or_create(&label).inc_by(*count);
        }
    }

    /// Counts a refusal of a stranger, recorded or not.
    pub(super) fn refused(&self, provider: Provider, transport: Source, reason: DropReason) {
        self.arrived(provider, transport, reason.as_str());
    }

    fn arrived(&self, provider: Provider, transport: Source, result: &'static str) {
        let label = Arrived {
            provider: provider.as_str(),
            transport: transport.as_str(),
            result,
        };
        self.0.arrivals.get_or_create(&label).inc();
    }

    /// Counts what a record states.
    pub(super) fn count(&self, event: &GatewayEvent) {
        let by = |counters: &Counters<By>, key, value| {
            counters.get_or_create(&By::new(key, value)).inc();
        };
        let inner = &self.0;
        match event {
            GatewayEvent::Received {
                provider,
                transport,
                age_ms,
                ..
            } => self.received(*provider, *transport, *age_ms),
            GatewayEvent::Dropped { .. } => self.dropped(event),
            GatewayEvent::Revived { .. } => {
                inner.revived.inc();
            }
            GatewayEvent::Committed { outcome, .. } => {
                by(&inner.outcomes, "outcome", outcome_word(outcome));
            }
            GatewayEvent::Redelivered { after, .. } => {
                by(&inner.redeliveries, "after", after);
                self.failed(after);
            }
            GatewayEvent::DeadLettered { after, .. } => {
                by(&inner.dead_letters, "after", after);
                self.failed(after);
            }
            GatewayEvent::Expired { reason, .. } => by(&inner.expired, "reason", reason),
            GatewayEvent::Operator { verb, .. } => by(&inner.interventions, "verb", verb),
            GatewayEvent::Refused { reason, .. } => by(&inner.refusals, "code", reason),
            GatewayEvent::Fault { .. } => {
                inner.faults.inc();
            }
            GatewayEvent::Started { .. }
            | GatewayEvent::Stopped { .. }
            | GatewayEvent::Claimed { .. }
            | GatewayEvent::Released { .. }
            | GatewayEvent::Registered { .. }
            | GatewayEvent::Bound { .. }
            | GatewayEvent::Unbound { .. }
            | GatewayEvent::Roomed { .. }
            | GatewayEvent::Recovered { .. }
            | GatewayEvent::Appended { .. }
            | GatewayEvent::Routed { .. }
            | GatewayEvent::Unattended { .. }
            | GatewayEvent::ConfigReloaded { .. }
            | GatewayEvent::ConfigReloadFailed { .. }
            | GatewayEvent::RepositoryMoved { .. }
            | GatewayEvent::IngressChanged { .. }
            | GatewayEvent::Heartbeat { .. }
            | GatewayEvent::SplitSuspected { .. }
            | GatewayEvent::SplitCleared { .. } => {}
        }
    }

    fn received(&self, provider: Provider, transport: Source, age_ms: Option<u64>) {
        self.arrived(provider, transport, "stored");
        if let Some(age_ms) = age_ms {
            let age = Duration::from_millis(age_ms).as_secs_f64();
            let label = Transported::new(provider, transport);
            self.0.event_age.get_or_create(&label).observe(age);
        }
    }

    /// What waited in grace was stored when it arrived, and counted then.
    fn dropped(&self, event: &GatewayEvent) {
        let GatewayEvent::Dropped {
            provider,
            transport,
            reason,
            gateway_event_id,
            ..
        } = event
        else {
            return;
        };
        if *reason == DropReason::Unbound && gateway_event_id.is_some() {
            let label = PerProvider::new(*provider);
            self.0.grace_expired.get_or_create(&label).inc();
        } else {
            self.arrived(*provider, *transport, reason.as_str());
        }
    }

    fn failed(&self, after: &'static str) {
        if after == "failed" {
            let label = By::new("outcome", after);
            self.0.outcomes.get_or_create(&label).inc();
        }
    }
}

/// The word of an outcome, without the reason that an instance chose.
fn outcome_word(outcome: &str) -> &'static str {
    match outcome {
        "delivered" => "delivered",
        "spawned" => "spawned",
        _ => "dropped",
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
