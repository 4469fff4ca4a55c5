//! A store in a directory of its own, and the arrivals that fill it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::domain::{
    Arrival, Binding, CallerToken, Clock, DedupKey, EventActor, EventId, Identity, InstanceName,
    LearnedCommit, OnUnresolved, Payload, PeerId, Provider, Reference, Refusal, Role, Room, RunId,
    Source, Subject, SystemClock, Timestamp, WorkItemRef,
};
use crate::store::{
    Append, Appended, BatchReport, PutActors, PutBinding, PutClaim, PutRooms, RouteHeld, Routed,
    Settings, StoreError, Write, Writer, open_writer,
};
use crate::telemetry::GatewayEvent;

pub(super) const SECOND: i64 = 1_000;
pub(super) const HOUR: i64 = 3_600 * SECOND;
pub(super) const DAY: i64 = 24 * HOUR;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub(super) struct FakeClock {
    now_ms: AtomicI64,
    base: Instant,
    /// How far every reading of the monotonic time moves it.
    pub step_micros: AtomicI64,
    passed_micros: AtomicI64,
}

impl FakeClock {
    fn new() -> Self {
        Self {
            now_ms: AtomicI64::new(1_792_332_131_120),
            base: SystemClock.instant(),
            step_micros: AtomicI64::new(0),
            passed_micros: AtomicI64::new(0),
        }
    }

    pub(super) fn advance(&self, ms: i64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::Relaxed))
    }

    fn instant(&self) -> Instant {
        let step = self.step_micros.load(Ordering::Relaxed);
        let passed = self.passed_micros.fetch_add(step, Ordering::Relaxed);
        self.base + Duration::from_micros(u64::try_from(passed).unwrap())
    }
}

/// A store with its writer; [`TestStore::restart`] closes and opens it again.
pub(super) struct TestStore {
    writer: Option<Writer>,
    pub clock: Arc<FakeClock>,
    pub settings: Settings,
    directory: tempfile::TempDir,
}

impl TestStore {
    pub(super) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(super) fn with(settings: Settings) -> Self {
        let mut store = Self {
            writer: None,
            clock: Arc::new(FakeClock::new()),
            settings,
            directory: tempfile::tempdir().unwrap(),
        };
        store.restart();
        store
    }

    pub(super) fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("gateway.db")
    }

    pub(super) fn restart(&mut self) {
        self.writer = None;
        let connection = open_writer(&self.path()).unwrap();
        // Durability is not under test here, and the disk of a test machine is slow.
        connection
            .pragma_update(None, "synchronous", "OFF")
            .unwrap();
        self.writer = Some(Writer::new(
            connection,
            self.settings.clone(),
            self.clock.clone(),
        ));
    }

    pub(super) fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().unwrap()
    }

    pub(super) fn connection(&self) -> &Connection {
        self.writer.as_ref().unwrap().connection()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn try_write<W: Write>(
        &mut self,
        write: W,
    ) -> (Result<W::Reply, StoreError>, BatchReport) {
        self.writer().commit_one(write)
    }

    /// Makes a change that must work.
    pub(super) fn write<W: Write>(&mut self, write: W) -> W::Reply {
        self.try_write(write).0.unwrap()
    }

    /// Makes a change that must work, and tells the records that it wants written.
    pub(super) fn recorded<W: Write>(&mut self, write: W) -> (W::Reply, Vec<GatewayEvent>) {
        let (reply, report) = self.try_write(write);
        (reply.unwrap(), report.effects.events)
    }

    /// Makes a change that must be refused.
    pub(super) fn refused<W: Write>(&mut self, write: W) -> Refusal
    where
        W::Reply: std::fmt::Debug,
    {
        match self.try_write(write).0 {
            Err(StoreError::Refused(refusal)) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    pub(super) fn append(&mut self, arrival: Arrival) -> Appended {
        self.write(Append {
            arrival: Box::new(arrival),
            caller: CallerToken::always(),
        })
    }

    pub(super) fn append_all(&mut self, arrivals: impl IntoIterator<Item = Arrival>) {
        let batch: Vec<_> = arrivals
            .into_iter()
            .map(|arrival| {
                let append = Append {
                    arrival: Box::new(arrival),
                    caller: CallerToken::always(),
                };
                crate::store::pending(append, |reply| drop(reply.unwrap()))
            })
            .collect();
        let report = self.writer().commit_batch(batch);
        assert_eq!(report.failure, None);
    }

    /// The names of the queues that an arrival goes on; an empty list when it is held.
    pub(super) fn appended_to(&mut self, arrival: Arrival) -> Vec<String> {
        match self.append(arrival) {
            Appended::Stored { to, .. } | Appended::Revived { to, .. } => {
                to.iter().map(ToString::to_string).collect()
            }
            other @ (Appended::Duplicate { .. } | Appended::Dropped { .. }) => {
                panic!("not stored: {other:?}")
            }
        }
    }

    pub(super) fn claim(&mut self, instance: &str, work_item: &str) -> Routed {
        self.write(claim(instance, work_item))
    }

    pub(super) fn register(&mut self, instance: &str, actors: &[(Provider, &str)]) -> Routed {
        self.write(registration(instance, actors))
    }

    pub(super) fn bind(&mut self, instance: &str, key: (Provider, &str), to: &str) -> Routed {
        self.write(binding(instance, key, to))
    }

    pub(super) fn publish_rooms(&mut self, instance: &str, rooms: &[(&str, &str)]) -> Routed {
        self.write(room_list(instance, rooms))
    }

    /// Routes what waits, a chunk at a time; tells how many chunks it took.
    pub(super) fn route_all(&mut self) -> usize {
        (1..)
            .find(|_| !self.write(RouteHeld).more)
            .unwrap_or_default()
    }

    pub(super) fn number(&self, sql: &str) -> i64 {
        self.connection()
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }

    pub(super) fn texts(&self, sql: &str) -> Vec<String> {
        let mut statement = self.connection().prepare(sql).unwrap();
        let rows = statement
            .query_map([], |row| row.get::<_, rusqlite::types::Value>(0))
            .unwrap();
        rows.map(|value| match value.unwrap() {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(number) => number.to_string(),
            other => panic!("neither text nor number: {other:?}"),
        })
        .collect()
    }

    pub(super) fn run(&self, sql: &str) {
        self.connection().execute_batch(sql).unwrap();
    }

    /// The events of a queue in the order in which they would go out.
    pub(super) fn queue(&self, instance: &str) -> Vec<i64> {
        let mut statement = self
            .connection()
            .prepare(
                "SELECT event_id FROM deliveries JOIN instances ON instances.id = instance_id
                 WHERE instances.name = ?1 AND state <= 1 ORDER BY event_id",
            )
            .unwrap();
        let rows = statement.query_map([instance], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Plays the part of the queue: ends a delivery as settled or dead.
    pub(super) fn end(&self, seq: i64, state: i64, outcome: &str) {
        let now = self.now().0;
        self.run(&format!(
            "UPDATE deliveries SET state = {state}, ended_at_ms = {now}, outcome = '{outcome}',
                 ever_handed = 1 WHERE seq = {seq};
             UPDATE instances SET backlog = backlog - 1
                 WHERE id = (SELECT instance_id FROM deliveries WHERE seq = {seq});
             UPDATE events SET handled = handled OR {state} = 2
                 WHERE id = (SELECT event_id FROM deliveries WHERE seq = {seq});
             UPDATE seen_keys SET handled = handled OR {state} = 2
                 WHERE event_id = (SELECT event_id FROM deliveries WHERE seq = {seq});
             DELETE FROM lanes WHERE NOT EXISTS (
                 SELECT 1 FROM deliveries WHERE lane_id = lanes.id AND state <= 1);
             UPDATE lanes SET head_event_id = (
                 SELECT min(event_id) FROM deliveries WHERE lane_id = lanes.id AND state <= 1);"
        ));
    }
}

pub(super) fn work_item(text: &str) -> WorkItemRef {
    WorkItemRef::parse(text).unwrap()
}

pub(super) fn subject(work_item_text: &str) -> Subject {
    work_item(work_item_text).subject()
}

pub(super) fn instance(name: &str) -> InstanceName {
    InstanceName::parse(name).unwrap()
}

/// `name`, `name@peer` or `name@peer/run`.
pub(super) fn identity(text: &str) -> Identity {
    let (name, holder) = text.split_once('@').unwrap_or((text, ""));
    let (peer, run) = holder.split_once('/').unwrap_or((holder, ""));
    Identity {
        instance: instance(name),
        peer: PeerId::parse(peer).ok(),
        run: RunId::parse(run).ok(),
    }
}

pub(super) fn claim(who: &str, work_item_text: &str) -> PutClaim {
    PutClaim {
        identity: identity(who),
        subject: subject(work_item_text),
        role: Role::Driver,
    }
}

pub(super) fn actor(provider: Provider, name: &str) -> EventActor {
    EventActor {
        provider,
        name: name.to_owned(),
    }
}

pub(super) fn registration(who: &str, actors: &[(Provider, &str)]) -> PutActors {
    let actors = actors
        .iter()
        .map(|(provider, name)| actor(*provider, name))
        .collect();
    PutActors {
        identity: identity(who),
        actors: crate::domain::ActorSet(actors),
    }
}

pub(super) fn binding(who: &str, (provider, key): (Provider, &str), to: &str) -> PutBinding {
    PutBinding {
        identity: identity(who),
        binding: Binding {
            provider,
            key: key.to_owned(),
            work_item: work_item(to),
        },
    }
}

pub(super) fn room_list(who: &str, rooms: &[(&str, &str)]) -> PutRooms {
    let rooms = rooms
        .iter()
        .map(|(channel, target)| Room {
            channel: (*channel).to_owned(),
            work_item: work_item(target),
        })
        .collect();
    PutRooms {
        identity: identity(who),
        rooms,
    }
}

/// A GitHub webhook about a work item, with a delivery id of its own.
pub(super) fn about(work_item_text: &str, guid: &str) -> Arrival {
    arrival(
        Provider::GitHub,
        guid,
        vec![Reference::Direct(work_item(work_item_text))],
    )
}

/// A Slack message in a thread, which waits for a binding.
pub(super) fn in_thread(thread: &str, guid: &str) -> Arrival {
    let key = thread.to_owned();
    let provider = Provider::Slack;
    Arrival {
        on_unresolved: OnUnresolved::Grace,
        ..arrival(provider, guid, vec![Reference::Bound { provider, key }])
    }
}

/// A Slack message in a channel, which waits for a room.
pub(super) fn in_channel(channel: &str, guid: &str) -> Arrival {
    let channel = channel.to_owned();
    Arrival {
        on_unresolved: OnUnresolved::Grace,
        ..arrival(Provider::Slack, guid, vec![Reference::Room { channel }])
    }
}

/// A CI event that names only a commit.
pub(super) fn of_commit(sha: &str, guid: &str) -> Arrival {
    let (repository, sha) = ("github.com/octo/repo".to_owned(), sha.to_owned());
    Arrival {
        on_unresolved: OnUnresolved::Grace,
        ..arrival(
            Provider::GitHub,
            guid,
            vec![Reference::Commit { repository, sha }],
        )
    }
}

pub(super) fn head_commit(sha: &str, pull_request: &str) -> LearnedCommit {
    LearnedCommit {
        repository: "github.com/octo/repo".to_owned(),
        sha: sha.to_owned(),
        pull_request: work_item(pull_request),
    }
}

pub(super) fn by(arrival: Arrival, name: &str) -> Arrival {
    let provider = arrival.provider;
    Arrival {
        actor: Some(actor(provider, name)),
        ..arrival
    }
}

fn arrival(provider: Provider, guid: &str, keys: Vec<Reference>) -> Arrival {
    Arrival {
        provider,
        source: Source::Webhook,
        delivery_id: guid.to_owned(),
        kind: "issue_comment".to_owned(),
        received_at: Timestamp(1_792_332_131_000),
        headers: [("x-github-event".to_owned(), "issue_comment".to_owned())].into(),
        payload: Payload::compress(format!("{{\"guid\":\"{guid}\"}}").as_bytes()).unwrap(),
        actor: None,
        keys,
        also: Vec::new(),
        learns: Vec::new(),
        dedup_keys: vec![
            DedupKey::delivery(format!("{provider}:github.com:delivery:{guid}")),
            DedupKey::object(format!("object:{guid}")),
        ],
        on_unresolved: OnUnresolved::Drop(crate::domain::DropReason::Unbound),
        is_retry: false,
    }
}

/// The names of some records, in order.
pub(super) fn names(events: &[GatewayEvent]) -> Vec<&'static str> {
    events.iter().map(GatewayEvent::name).collect()
}

/// The one record of a kind, as JSON.
pub(super) fn record(events: &[GatewayEvent], name: &str) -> serde_json::Value {
    let mut found = events.iter().filter(|event| event.name() == name);
    let event = found.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(found.next().is_none(), "more than one {name}");
    serde_json::to_value(event).unwrap()
}

pub(super) fn event(id: i64) -> EventId {
    EventId(id)
}
