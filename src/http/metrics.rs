//! What is counted, and what can be looked up now, in the text format of Prometheus.
//!
//! The counters are kept where things happen ([`Metrics`](crate::telemetry::Metrics)); the gauges
//! are looked up for each request, on a thread that may wait, and cost nothing in between.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Data;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::error::ApiError;
use super::health;
use super::state::HttpState;
use crate::actors::{IngressState, Observe, StoreState};
use crate::store::views::{self, PageRequest, QueueRow};
use crate::telemetry::PREFIX;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long the disk and the readers are waited for; then what they tell is left out.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Queues that are shown, by name.
const QUEUES_MAX: u32 = 1_000;

pub(super) async fn metrics(state: Data<HttpState>) -> Result<HttpResponse, ApiError> {
    if !state.settings().metrics_enabled {
        return Err(ApiError::NotFound);
    }
    let store = state.parts.store.send(Observe).await.unwrap_or_default();
    let mut gauges = Gauges::default();
    gauges.add_process(&state);
    gauges.add_store(&state, &store);
    gauges.add_stored(&health::counters(&state).await);
    gauges.add_looked_up(look(&state).await);
    gauges.add_ingresses(&state);
    let mut text = String::new();
    let written = state.metrics().write(&mut text);
    written
        .and_then(|()| encode(&mut text, &gauges.0))
        .map_err(|error| {
            tracing::error!(%error, "the metrics have no text");
            ApiError::Overloaded("The metrics cannot be written.")
        })?;
    Ok(HttpResponse::Ok().content_type(CONTENT_TYPE).body(text))
}

/// A size with its name and what it is of.
type Size = (&'static str, &'static str, Option<u64>);
/// A number of a queue, likewise.
type Column = (&'static str, &'static str, fn(&QueueRow) -> i64);

/// What the disk and the readers tell.
struct Looked {
    sizes: [Size; 3],
    queues: Option<Vec<QueueRow>>,
}

async fn look(state: &HttpState) -> Option<Looked> {
    let (readers, now) = (state.parts.readers.clone(), state.parts.clock.now());
    let path = state.parts.store_path.clone();
    let look = actix_web::web::block(move || {
        let page = PageRequest {
            limit: QUEUES_MAX,
            after: None,
        };
        let connection = readers.get().ok();
        let queues = connection.and_then(|connection| views::queues(&connection, now, &page).ok());
        Looked {
            sizes: sizes(&path),
            queues: queues.map(|page| page.rows),
        }
    });
    tokio::time::timeout(LOOK_MAX, look).await.ok()?.ok()
}

fn sizes(path: &Path) -> [Size; 3] {
    let size = |path: &Path| std::fs::metadata(path).ok().map(|found| found.len());
    let mut wal_path = path.as_os_str().to_owned();
    wal_path.push("-wal");
    let free = rustix::fs::statvfs(path).ok();
    let free = free.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    [
        ("store_bytes", "Size of the database file", size(path)),
        (
            "store_wal_bytes",
            "Size of the write-ahead log",
            size(Path::new(&wal_path)),
        ),
        ("disk_free_bytes", "Room on the store's disk", free),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfInstance {
    instance: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfIngress {
    ingress: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IngressIn {
    ingress: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVersion {
    version: &'static str,
}

type Counts<L> = Family<L, Gauge>;
type Seconds<L> = Family<L, Gauge<f64, AtomicU64>>;

/// The gauges of one request.
struct Gauges(Registry);

impl Default for Gauges {
    fn default() -> Self {
        Self(Registry::with_prefix(PREFIX))
    }
}

impl Gauges {
    fn count(&mut self, name: &str, help: &str, count: impl TryInto<i64>) {
        let count = ConstGauge::new(count.try_into().unwrap_or(i64::MAX));
        self.0.register(name, help, count);
    }

    fn add_process(&mut self, state: &HttpState) {
        let build: Counts<OfVersion> = Family::default();
        let version = env!("CARGO_PKG_VERSION");
        build.get_or_create(&OfVersion { version }).set(1);
        self.0
            .register("build_info", "The version that runs", build);
        let (open, held) = state.in_progress();
        self.count(
            "open_requests",
            "Requests in progress, held polls not among them",
            open,
        );
        self.count("held_polls", "Fetches that are held", held);
        let bytes = state.body_bytes.taken();
        self.count("body_bytes", "Bytes of bodies that are held", bytes);
    }

    fn add_store(&mut self, state: &HttpState, store: &StoreState) {
        let health = &state.parts.health;
        let is_up = health.is_ok();
        self.count(
            "store_up",
            "1 while the store takes writes",
            u8::from(is_up),
        );
        let is_written = state.parts.log.is_healthy();
        self.count(
            "event_log_up",
            "1 while the event log is written",
            u8::from(is_written),
        );
        self.count(
            "store_pending_writes",
            "Writes that wait for their batch",
            store.pending,
        );
        self.count(
            "unattended_subjects",
            "Claimed subjects with a backlog whose claimants do not fetch",
            health.unattended(),
        );
    }

    fn add_stored(&mut self, counters: &views::HealthCounters) {
        self.count("events", "Stored events", counters.events);
        self.count("held_events", "Events on no queue yet", counters.held);
    }

    /// What could not be looked up in time is left out: a stale number would pass for a new one.
    fn add_looked_up(&mut self, looked: Option<Looked>) {
        let is_readable = looked
            .as_ref()
            .is_some_and(|looked| looked.queues.is_some());
        self.count(
            "store_readable",
            "1 while the queues can be looked at in time",
            u8::from(is_readable),
        );
        let Some(looked) = looked else {
            return;
        };
        for (name, help, size) in looked.sizes {
            if let Some(size) = size {
                self.count(name, help, size);
            }
        }
        self.add_queues(&looked.queues.unwrap_or_default());
    }

    fn add_queues(&mut self, rows: &[QueueRow]) {
        let columns: [Column; 5] = [
            (
                "queue_backlog",
                "Deliveries that are ready or in hand",
                |row| row.backlog,
            ),
            ("queue_in_hand", "Deliveries in hand", |row| row.in_hand),
            (
                "queue_waiting_retry",
                "Subjects whose first delivery waits for its next try",
                |row| row.waiting_retry,
            ),
            ("queue_suspects", "Deliveries that go out alone", |row| {
                row.suspects
            }),
            (
                "queue_dead",
                "Dead deliveries that nothing replaced yet",
                |row| row.dead,
            ),
        ];
        for (name, help, of) in columns {
            let family: Counts<OfInstance> = Family::default();
            for row in rows {
                family.get_or_create(&label(row)).set(of(row));
            }
            self.0.register(name, help, family);
        }
        let ages: Seconds<OfInstance> = Family::default();
        for row in rows {
            let age = row.oldest_age_seconds.unwrap_or(0.0);
            ages.get_or_create(&label(row)).set(age);
        }
        let help = "Seconds since the oldest event of the backlog arrived";
        self.0.register("queue_oldest_age_seconds", help, ages);
    }

    fn add_ingresses(&mut self, state: &HttpState) {
        let (up, states) = (Counts::default(), Counts::default());
        for (ingress, status) in state.parts.board.all() {
            let is_up = i64::from(status.state == IngressState::Up);
            let label = OfIngress {
                ingress: ingress.clone(),
            };
            up.get_or_create(&label).set(is_up);
            let label = IngressIn {
                ingress,
                state: status.state.as_str(),
            };
            states.get_or_create(&label).set(1);
        }
        self.0
            .register("ingress_up", "1 while an ingress takes events in", up);
        let help = "The state that an ingress is in: its series is 1, no other is there";
        self.0.register("ingress_state", help, states);
    }
}

fn label(row: &QueueRow) -> OfInstance {
    OfInstance {
        instance: row.instance.clone(),
    }
}
