//! A store in a directory of its own, and the arrivals that fill it.

use std::sync::Arc;

use rusqlite::Connection;

use crate::domain::{
    Arrival, Binding, CallerToken, Clock, CommitItem, DedupKey, EventActor, EventId, Identity,
    InstanceName, LearnedCommit, OnUnresolved, Outcome, Payload, PeerId, Provider, Reference,
    Refusal, Role, Room, RunId, Seq, Source, Subject, Timestamp, WorkItemRef,
};
use crate::store::testing::{FakeClock, START, outcomes};
use crate::store::{
    Append, Appended, BatchReport, CommitOutcomes, FetchBatch, Fetched, PutActors, PutBinding,
    PutClaim, PutRooms, RouteHeld, Routed, Settings, StoreError, Write, Writer, open_writer,
    verify,
};
use crate::telemetry::GatewayEvent;

pub(super) const SECOND: i64 = 1_000;
pub(super) const HOUR: i64 = 3_600 * SECOND;
pub(super) const DAY: i64 = 24 * HOUR;

/// A store with its writer; [`TestStore::restart`] closes and opens it again.
pub(super) struct TestStore {
    writer: Option<Writer>,
    pub clock: Arc<FakeClock>,
    pub settings: Settings,
    /// False after a test broke the store on purpose.
    pub is_sound: bool,
    directory: tempfile::TempDir,
}

/// Whatever a test did, every rule of the store holds in the end.
impl Drop for TestStore {
    fn drop(&mut self) {
        if self.is_sound && !std::thread::panicking() {
            assert_eq!(verify(self.connection(), self.now()).unwrap(), []);
        }
    }
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
            is_sound: true,
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
            other @ (rusqlite::types::Value::Null
            | rusqlite::types::Value::Real(_)
            | rusqlite::types::Value::Blob(_)) => panic!("neither text nor number: {other:?}"),
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

    /// Fetches for `name@peer/run` and confirms what came with the last response.
    pub(super) fn fetch(&mut self, who: &str, commit: &[(i64, &str)]) -> Fetched {
        let identity = identity(who);
        let cursor = format!(
            "SELECT last_number FROM instances WHERE name = '{}'",
            identity.instance
        );
        let cursor = self
            .texts(&cursor)
            .first()
            .map(|text| text.parse().unwrap());
        self.write(FetchBatch {
            peer: identity.peer.clone().unwrap(),
            identity,
            cursor,
            limit: 64,
            lease_ms: 60 * SECOND,
            park_ms: None,
            commit: outcomes(commit),
            caller: CallerToken::always(),
        })
    }

    /// Commits outcomes for `name@peer/run`, whatever response they are about.
    pub(super) fn commit(&mut self, who: &str, commit: &[(i64, &str)]) {
        self.write(CommitOutcomes {
            identity: identity(who),
            cursor: None,
            commit: outcomes(commit),
        });
    }

    /// Fetches everything that is due and settles it.
    pub(super) fn settle_all(&mut self, who: &str) {
        let fetched = self.fetch(who, &[]);
        let seqs: Vec<_> = fetched
            .deliveries
            .iter()
            .map(|delivery| (delivery.seq.0, "delivered"))
            .collect();
        self.commit(who, &seqs);
    }

    /// Fails the first delivery of a queue until it is dead; tells its number.
    pub(super) fn kill_first(&mut self, who: &str) -> i64 {
        let mut seq = 0;
        for _ in 0..self.settings.strikes_max {
            let fetched = self.fetch(who, &[]);
            seq = fetched.deliveries[0].seq.0;
            self.commit(who, &[(seq, "failed")]);
            self.clock.advance(self.settings.retry_max_ms);
        }
        seq
    }

    /// How many deliveries are in each state: ready, handed, settled, dead, expired.
    pub(super) fn states(&self) -> [i64; 5] {
        [0, 1, 2, 3, 4].map(|state| {
            self.number(&format!(
                "SELECT count(*) FROM deliveries WHERE state = {state}"
            ))
        })
    }
}

/// A commit list in which each outcome says something.
pub(super) fn outcomes_with(said: &[(i64, &str, &str)]) -> Vec<CommitItem> {
    let said = said.iter().map(|(seq, outcome, detail)| CommitItem {
        seq: Seq(*seq),
        outcome: Outcome::parse(outcome).unwrap(),
        detail: Some((*detail).to_owned()),
    });
    said.collect()
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
        received_at: Timestamp(START),
        happened_at: None,
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
