//! The Slack socket before the real store: actors on threads of their own, real files, the fake
//! Slack. What comes in goes out to an instance, in order, once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Addr, Arbiter, Context, Handler};
use the_loop_gateway::actors::messages::WakeThrough;
use the_loop_gateway::actors::slack_socket::{
    Recorder, SlackSocketActor, SocketParts, SocketSettings, SocketStore, Timing,
};
use the_loop_gateway::actors::{
    Close, IngressChanged, IngressState, Liveness, QueueRegistryActor, StopIngress, StoreActor,
    StoreDoor, StoreHealth, StoreParts, Submit,
};
use the_loop_gateway::config::Secret;
use the_loop_gateway::devkit::slack::{FakeSlack, Post, Seen};
use the_loop_gateway::domain::{
    Binding, CallerToken, Clock, Identity, InstanceName, PeerId, Provider, Role, RunId,
    SystemClock, WorkItemRef,
};
use the_loop_gateway::providers::Declared;
use the_loop_gateway::store::{
    FetchBatch, PutBinding, PutClaim, Settings, Write, Writer, open_readers, open_writer,
};
use the_loop_gateway::telemetry::{EventLog, Metrics};

use super::support::gateway::wait_until;

const CHANNEL: &str = "C0THREADS";
const THREAD: &str = "1700000000.000100";

/// Remembers the last state of the socket.
struct Supervisor(Arc<Mutex<Option<IngressState>>>);

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<IngressChanged> for Supervisor {
    type Result = ();

    fn handle(&mut self, change: IngressChanged, _: &mut Self::Context) {
        *self.0.lock().unwrap() = Some(change.state);
    }
}

/// A store and a socket as the gateway composes them.
struct Composed {
    store: Addr<StoreActor>,
    socket: Addr<SlackSocketActor>,
    threads: [Arbiter; 2],
}

impl Composed {
    async fn start(directory: &tempfile::TempDir, slack: &FakeSlack) -> Self {
        let threads = [Arbiter::new(), Arbiter::new()];
        let store = start_store(directory, &threads[0]);
        let state = Arc::default();
        let parts = SocketParts {
            name: "slack-socket".to_owned(),
            settings: SocketSettings {
                api_base: slack.api_base(),
                catch_up_every: None,
                timing: Timing {
                    catch_up_gap: Duration::ZERO,
                    ..Timing::default()
                },
                ..SocketSettings::default()
            },
            app_token: Secret::new("xapp-1"),
            bot_token: Secret::new("xoxb-1"),
            declared: Arc::new(Declared::default()),
            clock: Arc::new(SystemClock),
            store: SocketStore::of(&store),
            status: Supervisor(Arc::clone(&state)).start().recipient(),
            recorder: Recorder::from(EventLog::silent(Arc::new(SystemClock))),
            metrics: Metrics::default(),
        };
        let socket = SlackSocketActor::start_in_arbiter(&threads[1].handle(), |_| {
            SlackSocketActor::new(parts)
        });
        slack.until("it is connected", is_connected).await.unwrap();
        Self {
            store,
            socket,
            threads,
        }
    }

    async fn submit<W: Write>(&self, write: W) -> W::Reply {
        self.store.send(Submit(write)).await.unwrap().unwrap()
    }

    /// An instance that drives the work item of the thread.
    async fn register(&self) {
        let work_item = WorkItemRef::parse("github:octo/repo#1").unwrap();
        self.submit(PutClaim {
            identity: instance(),
            subject: work_item.subject(),
            role: Role::Driver,
        })
        .await;
        let binding = Binding {
            provider: Provider::Slack,
            key: format!("{CHANNEL}/{THREAD}"),
            work_item,
        };
        let identity = instance();
        self.submit(PutBinding { identity, binding }).await;
    }

    /// What the instance is handed, from the first one on.
    async fn handed(&self) -> Vec<String> {
        let fetched = self
            .submit(FetchBatch {
                identity: instance(),
                peer: PeerId::parse("peer").unwrap(),
                cursor: Some(0),
                limit: 1_000,
                lease_ms: 60_000,
                park_ms: None,
                commit: Vec::new(),
                caller: CallerToken::always(),
            })
            .await;
        let deliveries = fetched.deliveries.into_iter();
        let text = |payload: the_loop_gateway::domain::Payload| {
            let json: serde_json::Value = serde_json::from_slice(&payload.text().unwrap()).unwrap();
            json["event"]["text"].as_str().unwrap().to_owned()
        };
        deliveries
            .map(|delivery| text(delivery.event.payload))
            .collect()
    }

    async fn stop(self) {
        self.socket.send(StopIngress).await.unwrap();
        self.store.send(Close).await.unwrap().unwrap();
        for thread in self.threads {
            thread.stop();
            thread.join().unwrap();
        }
    }
}

fn instance() -> Identity {
    Identity {
        instance: InstanceName::parse("one").unwrap(),
        peer: Some(PeerId::parse("peer").unwrap()),
        run: Some(RunId::parse("run-1").unwrap()),
    }
}

fn is_connected(seen: &Seen) -> Option<()> {
    (seen.live.len() == 1).then_some(())
}

fn start_store(directory: &tempfile::TempDir, thread: &Arbiter) -> Addr<StoreActor> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let connection = open_writer(&directory.path().join("gateway.db")).unwrap();
    let liveness = Liveness::default();
    let parts = StoreParts {
        writer: Writer::new(connection, Settings::default(), Arc::clone(&clock)),
        clock: Arc::clone(&clock),
        log: EventLog::silent(Arc::clone(&clock)),
        health: StoreHealth::default(),
        alive: liveness.alive("store"),
    };
    let store = StoreActor::start_in_arbiter(&thread.handle(), |_| StoreActor::new(parts));
    let door = StoreDoor {
        fetch: store.clone().recipient(),
        commit: store.clone().recipient(),
    };
    let queues = QueueRegistryActor::new(door, clock, liveness.alive("queues")).start();
    store.try_send(WakeThrough(queues.recipient())).unwrap();
    store
}

/// Scenario: one app, one gateway; every reply of a thread reaches the instance that drives it.
#[actix::test]
async fn a_burst_is_acked_and_handed_out_in_its_order() {
    let directory = tempfile::tempdir().unwrap();
    let slack = FakeSlack::start().unwrap();
    let composed = Composed::start(&directory, &slack).await;
    composed.register().await;
    let expected: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    for text in &expected {
        slack.say(Post::reply(CHANNEL, THREAD, text));
    }
    let all = |seen: &Seen| (seen.acks.len() == 500).then_some(());
    slack.until("all are acked", all).await.unwrap();
    let handed = composed.handed().await;
    assert_eq!(handed, expected[..handed.len()]);
    assert_eq!(handed.len(), 256, "as many as one response may have");
    composed.stop().await;
}

/// Scenario: the gateway restarts while people talk.
#[actix::test]
async fn a_restart_over_the_same_file_loses_nothing_and_doubles_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let slack = FakeSlack::start().unwrap();
    slack.post(Post {
        ts: Some(THREAD.to_owned()),
        ..Post::top(CHANNEL, "root")
    });
    let composed = Composed::start(&directory, &slack).await;
    composed.register().await;
    slack.say(Post::reply(CHANNEL, THREAD, "before"));
    let acked = |count: usize| move |seen: &Seen| (seen.acks.len() == count).then_some(());
    slack.until("it is acked", acked(1)).await.unwrap();
    composed.stop().await;
    for text in ["while down 1", "while down 2"] {
        slack.post(Post::reply(CHANNEL, THREAD, text));
    }
    let composed = Composed::start(&directory, &slack).await;
    let readers = open_readers(&directory.path().join("gateway.db")).unwrap();
    wait_until("what was missed is stored", || {
        let sql = "SELECT count(*) FROM events";
        let connection = readers.get().unwrap();
        let events: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        events == 3
    });
    slack.say(Post::reply(CHANNEL, THREAD, "after"));
    slack.until("it is acked", acked(2)).await.unwrap();
    let expected = ["before", "while down 1", "while down 2", "after"];
    assert_eq!(composed.handed().await, expected);
    assert_eq!(slack.seen().live_max, 1);
    composed.stop().await;
}
