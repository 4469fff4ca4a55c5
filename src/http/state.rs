//! What every request may use: the doors to the actors, the settings in force, the bounds.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::counters_seen::CountersSeen;
use super::limits::Budget;
use super::server::{Patience, Timeouts};
use super::settings::HttpSettings;
use crate::actors::{IngressBoard, Queues, Samples, Store, StoreHealth};
use crate::domain::Clock;
use crate::store::ReadPool;
use crate::telemetry::{EventLog, Metrics};

/// Whether the gateway takes traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not yet.
    Starting,
    /// Yes.
    Serving,
    /// Not any more.
    Draining,
}

/// What the requests are answered with.
#[derive(Debug, Clone)]
pub struct HttpParts {
    /// The writer.
    pub store: Store,
    /// The queues.
    pub queues: Queues,
    /// The readers, for people.
    pub readers: ReadPool,
    /// The database file.
    pub store_path: PathBuf,
    /// How the queues stood lately.
    pub samples: Samples,
    /// Whether the writer works.
    pub health: StoreHealth,
    /// How the ingresses stand.
    pub board: IngressBoard,
    /// Where refusals are recorded.
    pub log: EventLog,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How slow a client may be.
    pub timeouts: Timeouts,
    /// How slow the store may be.
    pub patience: Patience,
}

/// Shared by all workers of both listeners.
pub struct HttpState {
    pub(super) parts: HttpParts,
    pub(super) open_requests: Budget,
    pub(super) body_bytes: Budget,
    pub(super) long_polls: Budget,
    pub(super) counters_seen: CountersSeen,
    settings: RwLock<Arc<HttpSettings>>,
    phase: AtomicU8,
}

impl fmt::Debug for HttpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpState")
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}

impl HttpState {
    /// The state of a gateway that is starting.
    #[must_use]
    pub fn new(parts: HttpParts, settings: HttpSettings) -> Self {
        Self {
            parts,
            open_requests: Budget::new(settings.open_requests_max),
            body_bytes: Budget::new(settings.body_bytes_max),
            long_polls: Budget::new(settings.long_polls_max),
            counters_seen: CountersSeen::default(),
            settings: RwLock::new(Arc::new(settings)),
            phase: AtomicU8::new(code_of(Phase::Starting)),
        }
    }

    /// Puts other settings in force, from the next request on.
    pub fn replace_settings(&self, settings: HttpSettings) {
        self.open_requests.set_max(settings.open_requests_max);
        self.body_bytes.set_max(settings.body_bytes_max);
        self.long_polls.set_max(settings.long_polls_max);
        let mut current = self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(settings);
    }

    /// The settings in force.
    pub(super) fn settings(&self) -> Arc<HttpSettings> {
        let current = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// Says whether the gateway takes traffic from now on.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(code_of(phase), Ordering::Relaxed);
    }

    /// Whether the gateway takes traffic.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    /// What is counted.
    pub(super) const fn metrics(&self) -> &Metrics {
        self.parts.log.metrics()
    }

    /// Where the ingresses are shown.
    #[must_use]
    pub fn board(&self) -> IngressBoard {
        self.parts.board.clone()
    }

    /// Requests in progress and held polls, for tests that nothing is left over.
    #[must_use]
    pub fn in_progress(&self) -> (u64, u64) {
        (self.open_requests.taken(), self.long_polls.taken())
    }
}

const fn code_of(phase: Phase) -> u8 {
    match phase {
        Phase::Starting => 0,
        Phase::Serving => 1,
        Phase::Draining => 2,
    }
}
