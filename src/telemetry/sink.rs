//! The event log: records wait in a bounded queue for the thread that owns the file.
//!
//! Invariant: nothing here makes an ingress wait. A disk that refuses costs records, which are
//! counted, never events; the log recovers by itself and then says how many are missing.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::events::{GatewayEvent, Level, Stamped};
use super::log_file::{LogFile, LogPlace};
use super::metrics::Metrics;
use super::refusals::Refusals;
use crate::domain::{Clock, DropReason, Provider, Source};

/// Records that wait for the thread.
const WAITING_MAX: usize = 65_536;
/// Records that the thread writes at once.
const CHUNK: usize = 4_096;
/// How often the thread looks after windows, the file's name and a disk that refused.
const TICK: Duration = Duration::from_secs(1);
/// How long a flush may take; a disk that hangs must not hang the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// A handle to the event log; clones write to the same file.
#[derive(Debug, Clone)]
pub struct EventLog {
    shared: Arc<Shared>,
    metrics: Metrics,
    /// Tells the thread when the last handle is gone.
    _open: Option<Arc<Open>>,
}

/// What a log in memory keeps; at most as much as waits for a file at most.
#[derive(Debug)]
pub struct KeptRecords(Arc<Shared>);

impl KeptRecords {
    /// Takes what was recorded since the last time, oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<GatewayEvent> {
        let records = std::mem::take(&mut self.0.queue().records);
        records.into_iter().map(|record| record.event).collect()
    }
}

#[derive(Debug)]
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.changed.notify_all();
    }
}

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    refusals: Mutex<Refusals>,
    queue: Mutex<Queue>,
    changed: Condvar,
    is_failing: AtomicBool,
}

/// What the handles and the thread say to each other.
#[derive(Debug, Default)]
struct Queue {
    records: Vec<Stamped>,
    lost: u64,
    flushes_asked: u64,
    flushes_done: u64,
    is_closed: bool,
    /// Where to write from now on, when that has changed.
    place: Option<LogPlace>,
}

impl EventLog {
    /// Starts the thread that writes to a file.
    ///
    /// The file itself is opened with the first record: a disk that refuses does not keep the
    /// gateway from starting.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn open(place: LogPlace, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(clock));
        let keeper = Keeper {
            file: LogFile::new(place),
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new()
            .name("event-log".to_owned())
            .spawn(move || keeper.run())?;
        Ok(Self {
            _open: Some(Arc::new(Open(Arc::clone(&shared)))),
            metrics: Metrics::default(),
            shared,
        })
    }

    /// A log that keeps nothing, for tests and tools.
    #[must_use]
    pub fn silent(clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(Shared::new(clock)),
            metrics: Metrics::default(),
            _open: None,
        }
    }

    /// A log that keeps its records in memory until somebody takes them, for the simulator.
    #[must_use]
    pub fn in_memory(clock: Arc<dyn Clock>) -> (Self, KeptRecords) {
        let shared = Arc::new(Shared::new(clock));
        let log = Self {
            _open: Some(Arc::new(Open(Arc::clone(&shared)))),
            metrics: Metrics::default(),
            shared: Arc::clone(&shared),
        };
        (log, KeptRecords(shared))
    }

    /// Records one fact, as of now.
    pub fn record(&self, event: GatewayEvent) {
        self.record_all(vec![event]);
    }

    /// Records facts in order, as of now, and counts them. Never waits for the disk.
    pub fn record_all(&self, events: Vec<GatewayEvent>) {
        for event in &events {
            self.metrics.count(event);
        }
        self.keep(events);
    }

    /// The counters of what is recorded here, and of what else is counted.
    #[must_use]
    pub const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Records what is counted already.
    fn keep(&self, events: Vec<GatewayEvent>) {
        if self._open.is_some() && !events.is_empty() {
            self.shared.push(events);
        }
    }

    /// Writes to another place, or within other bounds, soon.
    pub fn replace_place(&self, place: LogPlace) {
        self.shared.queue().place = Some(place);
    }

    /// Records that a stranger was refused: the first ten of a minute, then one count.
    pub fn refuse(&self, provider: Provider, reason: DropReason, kind: &str, delivery_id: &str) {
        let shown = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        self.metrics.refused(provider, Source::Webhook, reason);
        let now = self.shared.clock.instant();
        let (is_recorded, counts) = {
            let mut refusals = self.shared.refusals();
            let counts = refusals.close(now, false);
            let kind = (provider, Source::Webhook, reason);
            (refusals.admit(kind, now), counts)
        };
        let record = is_recorded.then(|| GatewayEvent::Dropped {
            provider,
            transport: Source::Webhook,
            reason,
            kind: shown(kind),
            delivery_id: shown(delivery_id),
            about: None,
            gateway_event_id: None,
            suppressed: None,
        });
        self.keep(counts.into_iter().chain(record).collect());
    }

    /// False while the disk refuses records.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        !self.shared.is_failing.load(Ordering::Relaxed)
    }

    /// Waits, at most two seconds, until everything recorded so far is in the file.
    ///
    /// Blocks: not for an actor's thread.
    pub fn flush(&self) {
        let now = self.shared.clock.instant();
        let counts = self.shared.refusals().close(now, true);
        self.keep(counts);
        if self._open.is_none() {
            return;
        }
        let mut queue = self.shared.queue();
        queue.flushes_asked = queue.flushes_asked.saturating_add(1);
        let ours = queue.flushes_asked;
        self.shared.changed.notify_all();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(queue, FLUSH_MAX, |queue| queue.flushes_done < ours)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.1.timed_out() {
            tracing::warn!("the event log is not flushed: its disk does not answer");
        }
    }
}

impl Shared {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            refusals: Mutex::default(),
            queue: Mutex::default(),
            changed: Condvar::new(),
            is_failing: AtomicBool::new(false),
        }
    }

    fn push(&self, events: Vec<GatewayEvent>) {
        let at = self.clock.now();
        let mut queue = self.queue();
        let room = WAITING_MAX.saturating_sub(queue.records.len());
        let surplus = events.len().saturating_sub(room);
        queue.lost = queue
            .lost
            .saturating_add(u64::try_from(surplus).unwrap_or(u64::MAX));
        let records = events.into_iter().take(room);
        queue
            .records
            .extend(records.map(|event| Stamped { at, event }));
        drop(queue);
        self.changed.notify_all();
    }

    // What a panic under these locks could leave wrong is a count or a record, never a lock.
    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What lives on the thread.
struct Keeper {
    file: LogFile,
    shared: Arc<Shared>,
}

/// What the thread found in the queue.
struct Work {
    records: Vec<Stamped>,
    flushes_asked: u64,
    is_closed: bool,
    place: Option<LogPlace>,
}

impl Keeper {
    fn run(mut self) {
        loop {
            let mut work = self.wait();
            if let Some(place) = work.place.take() {
                self.file.replace_place(place);
            }
            let is_written = self.write(&work.records);
            if !is_written {
                self.put_back(work.records);
            }
            let mut queue = self.shared.queue();
            let is_done = queue.records.is_empty() || !is_written;
            if is_done {
                queue.flushes_done = queue.flushes_done.max(work.flushes_asked);
                self.shared.changed.notify_all();
            }
            if work.is_closed && is_done {
                return;
            }
        }
    }

    /// Waits for records, a flush or the end; looks after the rest once a second.
    fn wait(&mut self) -> Work {
        let is_idle = |queue: &mut Queue| {
            let is_failing = self.shared.is_failing.load(Ordering::Relaxed);
            (queue.records.is_empty() || is_failing)
                && queue.flushes_done == queue.flushes_asked
                && !queue.is_closed
        };
        let queue = self.shared.queue();
        let (mut queue, waited) = self
            .shared
            .changed
            .wait_timeout_while(queue, TICK, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        let take = queue.records.len().min(CHUNK);
        let mut work = Work {
            records: queue.records.drain(..take).collect(),
            flushes_asked: queue.flushes_asked,
            is_closed: queue.is_closed,
            place: queue.place.take(),
        };
        // The gap is behind everything that still waits.
        let is_at_gap = queue.records.is_empty();
        let lost = if is_at_gap {
            std::mem::take(&mut queue.lost)
        } else {
            0
        };
        drop(queue);
        if waited.timed_out() {
            self.file.follow_name();
            self.close_windows(&mut work);
        }
        self.confess(lost, &mut work);
        work
    }

    fn close_windows(&self, work: &mut Work) {
        let now = self.shared.clock.instant();
        let counts = self.shared.refusals().close(now, false);
        let at = self.shared.clock.now();
        work.records
            .extend(counts.into_iter().map(|event| Stamped { at, event }));
    }

    /// Says how many records are missing.
    fn confess(&self, lost: u64, work: &mut Work) {
        if lost > 0 {
            let event = GatewayEvent::Fault {
                doing: "write the event log",
                error: format!("{lost} records are missing"),
            };
            let at = self.shared.clock.now();
            work.records.push(Stamped { at, event });
        }
    }

    /// True when the records are in the file, or have no text at all.
    fn write(&mut self, records: &[Stamped]) -> bool {
        let mut text = Vec::new();
        for record in records {
            if let Err(error) = append_line(&mut text, record) {
                tracing::error!(%error, event = record.event.name(), "a record has no text");
            }
        }
        if text.is_empty() {
            return true;
        }
        let result = self.file.append(&text);
        let is_written = result.is_ok();
        let is_failing = &self.shared.is_failing;
        match (is_failing.swap(!is_written, Ordering::Relaxed), result) {
            (true, Ok(())) => tracing::info!("the event log is written again"),
            (false, Err(error)) => self.complain(&error),
            (false, Ok(())) | (true, Err(_)) => {}
        }
        is_written
    }

    /// Once an outage.
    fn complain(&self, error: &io::Error) {
        let path = self.file.path().display();
        tracing::error!(%error, %path, "the event log cannot be written");
    }

    /// Keeps what the disk refused, in its old place; what there is no room for then is the newest.
    fn put_back(&self, records: Vec<Stamped>) {
        let mut queue = self.shared.queue();
        queue.records.splice(0..0, records);
        let surplus = queue.records.len().saturating_sub(WAITING_MAX);
        queue.records.truncate(WAITING_MAX);
        queue.lost = queue
            .lost
            .saturating_add(u64::try_from(surplus).unwrap_or(u64::MAX));
    }
}

/// One record as a line.
fn append_line(text: &mut Vec<u8>, record: &Stamped) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        ts: String,
        source: &'static str,
        event: &'static str,
        level: Level,
        pid: u32,
        #[serde(flatten)]
        fields: &'a GatewayEvent,
    }
    let line = serde_json::to_vec(&Line {
        ts: record.at.to_string(),
        source: "gateway",
        event: record.event.name(),
        level: record.event.level(),
        pid: std::process::id(),
        fields: &record.event,
    })?;
    text.extend(line);
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
