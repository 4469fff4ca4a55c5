//! A real store in a folder of its own, with a clock that stands still until it is moved.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::StatementStatus;
use rusqlite::trace::{TraceEvent, TraceEventCodes};

use super::*;
use crate::domain::*;

thread_local! {
    /// The steps of each statement since its preparation.
    static STEPS: RefCell<HashMap<String, i64>> = RefCell::default();
}

/// A statement ended; SQLite counts its steps from its preparation on.
fn note_steps(event: TraceEvent<'_>) {
    if let TraceEvent::Profile(statement, _) = event {
        let steps = statement.get_status(StatementStatus::VmStep);
        let sql = statement.sql().into_owned();
        STEPS.with_borrow_mut(|all| all.insert(sql, steps.into()));
    }
}

/// No deliveries.
pub(crate) const NONE: [i64; 0] = [];

/// Noon of some day, so that a clock set back a day stays positive.
pub(crate) const START: i64 = 1_790_000_000_000;

/// A clock that tests move by hand; its monotonic side never goes back.
#[derive(Debug)]
pub(crate) struct FakeClock {
    now: AtomicI64,
    began: Instant,
    run_micros: AtomicI64,
    step_micros: AtomicI64,
}

impl FakeClock {
    #[expect(clippy::disallowed_methods, reason = "an Instant has no other origin")]
    pub(crate) fn new() -> Self {
        Self {
            now: AtomicI64::new(START),
            began: Instant::now(),
            run_micros: AtomicI64::new(0),
            step_micros: AtomicI64::new(0),
        }
    }

    pub(crate) fn advance(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
        let micros = ms.max(0).saturating_mul(1_000);
        self.run_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Lets every reading of the monotonic time move it: work that takes time.
    pub(crate) fn take_time(&self, micros_a_reading: i64) {
        self.step_micros.store(micros_a_reading, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn instant(&self) -> Instant {
        let step = self.step_micros.load(Ordering::SeqCst);
        let passed = self.run_micros.fetch_add(step, Ordering::SeqCst);
        self.began
            .checked_add(Duration::from_micros(passed.unsigned_abs()))
            .unwrap()
    }
}

/// A writer over a file in a temporary folder.
pub(crate) struct TestStore {
    /// Deleted with the store.
    _directory: tempfile::TempDir,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) writer: Writer,
    pub(crate) events: Vec<crate::telemetry::GatewayEvent>,
    pub(crate) wakes: Vec<String>,
    next: u64,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(FakeClock::new());
        let connection = open_writer(&directory.path().join("gateway.db")).unwrap();
        // Durability has its own tests; here the disk would only cost time.
        connection
            .pragma_update(None, "synchronous", "OFF")
            .unwrap();
        let writer = Writer::new(connection, settings, clock.clone());
        Self {
            _directory: directory,
            clock,
            writer,
            events: Vec::new(),
            wakes: Vec::new(),
            next: 0,
        }
    }

    pub(crate) fn submit<W: Write>(&mut self, write: W) -> Result<W::Reply, StoreError> {
        let (reply, report) = self.writer.commit_one(write);
        assert!(report.failure.is_none(), "{:?}", report.failure);
        self.events.extend(report.effects.events);
        self.wakes
            .extend(report.effects.wakes.iter().map(ToString::to_string));
        reply
    }

    /// The names of the records since the last call.
    pub(crate) fn recorded(&mut self) -> Vec<&'static str> {
        self.events.drain(..).map(|event| event.name()).collect()
    }

    /// Appends a comment on `octo/repo#<number>` and tells what became of it.
    pub(crate) fn append(&mut self, number: u64) -> Appended {
        let arrival = self.comment(number);
        self.append_arrival(arrival)
    }

    pub(crate) fn append_arrival(&mut self, arrival: Arrival) -> Appended {
        self.submit(Append {
            arrival: Box::new(arrival),
            caller: CallerToken::always(),
        })
        .unwrap()
    }

    /// A comment on `octo/repo#<number>` by octocat, with ids of its own.
    pub(crate) fn comment(&mut self, number: u64) -> Arrival {
        self.next = self.next.saturating_add(1);
        let id = self.next;
        Arrival {
            provider: Provider::GitHub,
            source: Source::Webhook,
            delivery_id: format!("guid-{id}"),
            kind: "issue_comment".to_owned(),
            received_at: self.clock.now(),
            happened_at: None,
            headers: BTreeMap::from([("x-github-event".into(), "issue_comment".into())]),
            payload: Payload::compress(format!("{{\"id\":{id}}}").as_bytes()).unwrap(),
            actor: Some(EventActor {
                provider: Provider::GitHub,
                name: "octocat".into(),
            }),
            keys: vec![Reference::Direct(item(number))],
            also: Vec::new(),
            learns: Vec::new(),
            dedup_keys: vec![
                DedupKey::delivery(format!("github:github.com:delivery:guid-{id}")),
                DedupKey::object(format!("gh:github.com:issue_comment:{id}:created")),
            ],
            on_unresolved: OnUnresolved::Drop(DropReason::NoWorkItem),
            is_retry: false,
        }
    }

    /// Makes an instance a claimant without the rules of a claim.
    pub(crate) fn claim(&mut self, instance: &str, number: u64) {
        let subject = item(number).subject();
        let connection = self.writer.connection();
        connection
            .execute(
                "INSERT OR IGNORE INTO instances (name, created_at_ms) VALUES (?1, 0)",
                [instance],
            )
            .unwrap();
        connection
            .execute(
                "INSERT INTO claims (subject_key, instance_id, role, subject, claimed_at_ms)
                 SELECT ?1, id, 'driver', ?2, 0 FROM instances WHERE name = ?3",
                [subject.key().as_str(), subject.as_str(), instance],
            )
            .unwrap();
    }

    /// One number out of the store.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.writer
            .connection()
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }

    /// Steps that SQLite takes for the writer meanwhile: what a change costs, without a clock.
    pub(crate) fn steps_of<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> (i64, T) {
        let codes = TraceEventCodes::SQLITE_TRACE_PROFILE;
        STEPS.with_borrow_mut(HashMap::clear);
        // Statements from before would bring the steps of their past.
        self.writer.connection().flush_prepared_statement_cache();
        self.writer.connection().trace_v2(codes, Some(note_steps));
        let done = change(self);
        self.writer.connection().trace_v2(codes, None);
        (STEPS.with_borrow(|all| all.values().sum()), done)
    }

    /// One text out of the store.
    pub(crate) fn text(&self, sql: &str) -> String {
        self.writer
            .connection()
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }
}

/// `github:octo/repo#<number>`.
pub(crate) fn item(number: u64) -> WorkItemRef {
    WorkItemRef::github(None, "octo", "repo", number).unwrap()
}

/// A client of one instance: what it says of itself in every request.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) instance: &'static str,
    pub(crate) peer: &'static str,
    pub(crate) run: Option<String>,
    pub(crate) cursor: Option<i64>,
}

impl Client {
    pub(crate) fn new(instance: &'static str) -> Self {
        Self {
            instance,
            peer: "peer-1",
            run: Some("run-1".into()),
            cursor: Some(0),
        }
    }

    /// The same installation, started again.
    pub(crate) fn restarted(&self, run: &str) -> Self {
        Self {
            run: Some(run.into()),
            cursor: Some(0),
            ..self.clone()
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity {
            instance: InstanceName::parse(self.instance).unwrap(),
            peer: Some(PeerId::parse(self.peer).unwrap()),
            run: self.run.as_deref().map(|run| RunId::parse(run).unwrap()),
        }
    }

    pub(crate) fn request(&self, limit: u32, commit: &[(i64, &str)]) -> FetchBatch {
        FetchBatch {
            identity: self.identity(),
            peer: PeerId::parse(self.peer).unwrap(),
            cursor: self.cursor,
            limit,
            lease_ms: 60_000,
            park_ms: None,
            commit: outcomes(commit),
            caller: CallerToken::always(),
        }
    }

    /// Fetches and keeps the cursor of the answer, as a client does.
    pub(crate) fn fetch(
        &mut self,
        store: &mut TestStore,
        limit: u32,
        commit: &[(i64, &str)],
    ) -> Fetched {
        let fetched = self.lose(store, limit, commit);
        self.cursor = Some(fetched.cursor);
        fetched
    }

    /// Fetches, but the answer never arrives.
    pub(crate) fn lose(
        &self,
        store: &mut TestStore,
        limit: u32,
        commit: &[(i64, &str)],
    ) -> Fetched {
        store.submit(self.request(limit, commit)).unwrap()
    }

    pub(crate) fn commit(
        &self,
        store: &mut TestStore,
        commit: &[(i64, &str)],
    ) -> Result<Committed, StoreError> {
        store.submit(CommitOutcomes {
            identity: self.identity(),
            cursor: self.cursor,
            commit: outcomes(commit),
        })
    }
}

/// A commit list from pairs.
pub(crate) fn outcomes(pairs: &[(i64, &str)]) -> Vec<CommitItem> {
    pairs
        .iter()
        .map(|(seq, outcome)| CommitItem {
            seq: Seq(*seq),
            outcome: Outcome::parse(outcome).unwrap(),
            detail: None,
        })
        .collect()
}

/// The numbers of a response's deliveries with their attempts.
pub(crate) fn shown(fetched: &Fetched) -> Vec<(i64, u32)> {
    fetched
        .deliveries
        .iter()
        .map(|delivery| (delivery.seq.0, delivery.attempt))
        .collect()
}

/// The numbers of a response's deliveries.
pub(crate) fn seqs(fetched: &Fetched) -> Vec<i64> {
    fetched
        .deliveries
        .iter()
        .map(|delivery| delivery.seq.0)
        .collect()
}
