//! A store with a real file, that can be told to be slow, to fail, or to die.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, Addr, Context, Handler, Message, ResponseFuture};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Clock, Heard, SystemClock};
use crate::actors::messages::Submit;

use crate::store::{Append, NoteSlackMark, Settings, StoreError, Write, Writer, open_writer};

/// One append, once it was committed.
#[derive(Debug, Clone)]
pub(super) struct Committed {
    pub(super) delivery_id: String,
    pub(super) at: Instant,
}

/// What the store did.
#[derive(Debug)]
pub(super) struct Log {
    /// Delivery ids of the appends that arrived, in order.
    pub(super) arrived: Arc<Heard<String>>,
    /// The appends that were committed, in order; whatever became of them.
    pub(super) committed: Arc<Heard<Committed>>,
    /// The marks that were noted, in order.
    pub(super) marked: Arc<Heard<String>>,
}

/// How appends are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Willing,
    /// Keeps appends without an answer.
    Holding,
    /// As on a full disk.
    Failing,
}

type Held = Box<dyn FnOnce(&mut TestStore)>;

pub(super) struct TestStore {
    writer: Writer,
    mood: Mood,
    held: VecDeque<Held>,
    log: Arc<Log>,
    _dir: tempfile::TempDir,
}

impl TestStore {
    pub(super) fn start_new() -> (Addr<Self>, Arc<Log>) {
        let dir = tempfile::tempdir().unwrap();
        let connection = open_writer(&dir.path().join("gateway.db")).unwrap();
        let log = Arc::new(Log {
            arrived: Heard::new(),
            committed: Heard::new(),
            marked: Heard::new(),
        });
        let store = Self {
            writer: Writer::new(connection, Settings::default(), Arc::new(SystemClock)),
            mood: Mood::Willing,
            held: VecDeque::new(),
            log: Arc::clone(&log),
            _dir: dir,
        };
        (store.start(), log)
    }

    fn commit<W: Write>(&mut self, write: W) -> Result<W::Reply, StoreError> {
        let delivery_id = delivery_id_of(&write);
        let any: &dyn Any = &write;
        let mark = any.downcast_ref::<NoteSlackMark>();
        let mark = mark.map(|mark| mark.last_ts.clone());
        let (reply, report) = self.writer.commit_one(write);
        if let Some(delivery_id) = delivery_id.filter(|_| reply.is_ok()) {
            assert!(report.failure.is_none());
            let at = SystemClock.instant();
            self.log.committed.add(Committed { delivery_id, at });
        }
        mark.into_iter().for_each(|mark| self.log.marked.add(mark));
        reply
    }
}

fn delivery_id_of<W: Write>(write: &W) -> Option<String> {
    let any: &dyn Any = write;
    let append = any.downcast_ref::<Append>()?;
    Some(append.arrival.delivery_id.clone())
}

impl Actor for TestStore {
    type Context = Context<Self>;
}

impl<W: Write> Handler<Submit<W>> for TestStore {
    type Result = ResponseFuture<Result<W::Reply, StoreError>>;

    fn handle(&mut self, Submit(write): Submit<W>, _: &mut Self::Context) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        let delivery_id = delivery_id_of(&write);
        let mood = match delivery_id {
            Some(delivery_id) => {
                self.log.arrived.add(delivery_id);
                self.mood
            }
            None => Mood::Willing,
        };
        let work: Held = match mood {
            Mood::Willing | Mood::Holding => Box::new(move |store| {
                drop(answer.send(store.commit(write)));
            }),
            Mood::Failing => Box::new(move |_| {
                drop(answer.send(Err(StoreError::Aborted("disk full".to_owned()))));
            }),
        };
        if mood == Mood::Holding {
            self.held.push_back(work);
        } else {
            work(self);
        }
        Box::pin(async move {
            let gone = || Err(StoreError::Aborted("the store is gone".to_owned()));
            answered.await.unwrap_or_else(|_| gone())
        })
    }
}

/// Changes how appends are treated; what is held is let go unless it says to hold.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Be(pub(super) Mood);

impl Handler<Be> for TestStore {
    type Result = ();

    fn handle(&mut self, Be(mood): Be, _: &mut Self::Context) {
        self.mood = mood;
        if mood != Mood::Holding {
            while let Some(work) = self.held.pop_front() {
                work(self);
            }
        }
    }
}

/// Ends the store as a crash would: nobody is answered.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Die;

impl Handler<Die> for TestStore {
    type Result = ();

    fn handle(&mut self, _: Die, ctx: &mut Self::Context) {
        ctx.terminate();
    }
}

/// Looks into the file, or changes it.
#[derive(Message)]
#[rtype(result = "T")]
struct With<T: Send + 'static>(Box<dyn FnOnce(&Connection) -> T + Send>);

impl<T: Send + 'static> Handler<With<T>> for TestStore {
    type Result = actix::MessageResult<With<T>>;

    fn handle(&mut self, With(work): With<T>, _: &mut Self::Context) -> Self::Result {
        actix::MessageResult(work(self.writer.connection()))
    }
}

async fn with<T: Send + 'static>(
    store: &Addr<TestStore>,
    work: impl FnOnce(&Connection) -> T + Send + 'static,
) -> T {
    store.send(With(Box::new(work))).await.unwrap()
}

/// The events in the file: `transport delivery_id`, in order.
pub(super) async fn events(store: &Addr<TestStore>) -> Vec<String> {
    with(store, |connection| {
        let sql = "SELECT transport || ' ' || delivery_id FROM events ORDER BY id";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    })
    .await
}

/// What named the work item of each event in the file, in order.
pub(super) async fn resolutions(store: &Addr<TestStore>) -> Vec<String> {
    with(store, |connection| {
        let sql = "SELECT substr(resolved_by, 1, instr(resolved_by || ':', ':') - 1)
                   FROM events ORDER BY id";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    })
    .await
}

/// The texts of the messages in the file, in order.
pub(super) async fn texts(store: &Addr<TestStore>) -> Vec<String> {
    let payloads: Vec<(Vec<u8>, i64)> = with(store, |connection| {
        let sql = "SELECT payload, payload_bytes FROM events ORDER BY id";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    })
    .await;
    let text = |(compressed, bytes): (Vec<u8>, i64)| {
        let bytes = u64::try_from(bytes).unwrap();
        let payload = crate::domain::Payload::from_stored(compressed, bytes);
        let json: serde_json::Value = serde_json::from_slice(&payload.text().unwrap()).unwrap();
        json["event"]["text"].as_str().unwrap_or("-").to_owned()
    };
    payloads.into_iter().map(text).collect()
}

/// Binds a Slack thread to a work item, as of some time ago.
pub(super) async fn bind(store: &Addr<TestStore>, key: &str, work_item: &str, ago: Duration) {
    let (key, work_item) = (key.to_owned(), work_item.to_owned());
    let at = SystemClock.now().0 - i64::try_from(ago.as_millis()).unwrap();
    with(store, move |connection| {
        let parsed = crate::domain::WorkItemRef::parse(&work_item).unwrap();
        let sql = "INSERT INTO bindings VALUES ('slack', ?1, ?2, ?3, ?4, 1, ?5, ?5)";
        let subject = parsed.subject().key();
        let params = rusqlite::params![key, parsed.key(), work_item, subject, at];
        connection.execute(sql, params).unwrap();
    })
    .await;
}

/// Gives the work item a consumer.
pub(super) async fn claim(store: &Addr<TestStore>, work_item: &str) {
    let subject = crate::domain::WorkItemRef::parse(work_item)
        .unwrap()
        .subject();
    with(store, move |connection| {
        let sql = "INSERT INTO instances (id, name, created_at_ms) VALUES (1, 'one', 1)";
        connection.execute(sql, []).unwrap();
        let sql = "INSERT INTO claims (subject_key, instance_id, role, subject, claimed_at_ms)
                   VALUES (?1, 1, 'driver', ?2, 1)";
        let params = rusqlite::params![subject.key(), subject.as_str()];
        connection.execute(sql, params).unwrap();
    })
    .await;
}

/// The marks in the file: `channel/thread last_ts`.
pub(super) async fn marks(store: &Addr<TestStore>) -> Vec<String> {
    with(store, |connection| {
        let sql = "SELECT channel || '/' || thread_ts || ' ' || last_ts FROM slack_marks
                   ORDER BY channel, thread_ts";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    })
    .await
}
