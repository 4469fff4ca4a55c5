//! The actor against the fake Slack and a real store.
//!
//! Nothing here sleeps: every test waits for what it wants to see, with a deadline.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    reason = "small numbers of tests, and a panic for whatever is not expected"
)]

mod catch_up;
mod failures;
mod lifecycle;
mod live;
mod split;
mod store;
mod wire;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, Context, Handler, Message};
use tokio::sync::watch;

use self::store::TestStore;
use super::{Recorder, SlackSocketActor, SocketParts, SocketSettings, SocketStore, Timing};
use crate::actors::messages::{IngressChanged, IngressState, StopIngress};
use crate::config::Secret;
use crate::devkit::slack::{FakeSlack, PATIENCE, Seen};
use crate::domain::{Clock, SystemClock};
use crate::outbound::Limits;
use crate::providers::Declared;
use crate::telemetry::{GatewayEvent, Metrics};

const APP_TOKEN: &str = "xapp-1-A0FAKE-2-secret";
const BOT_TOKEN: &str = "xoxb-1-2-secret";
const CHANNEL: &str = "C0ROOM";
const WORK_ITEM: &str = "github:octo/repo#1";

/// What was said, and a bell that rings at each new word.
#[derive(Debug)]
struct Heard<T> {
    words: Mutex<Vec<T>>,
    bell: watch::Sender<()>,
}

impl<T: Clone> Heard<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: Mutex::default(),
            bell: watch::Sender::new(()),
        })
    }

    fn add(&self, word: T) {
        self.words.lock().unwrap().push(word);
        self.bell.send_replace(());
    }

    fn all(&self) -> Vec<T> {
        self.words.lock().unwrap().clone()
    }

    async fn until<R>(&self, wanted: &str, probe: impl Fn(&[T]) -> Option<R>) -> R
    where
        T: std::fmt::Debug,
    {
        let mut bell = self.bell.subscribe();
        let found = async {
            loop {
                bell.mark_unchanged();
                if let Some(found) = probe(&self.all()) {
                    return found;
                }
                bell.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("waited in vain until {wanted}; heard: {:?}", self.all()))
    }
}

/// The supervisor, as far as these tests need one.
struct Supervisor(Arc<Heard<IngressChanged>>);

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<IngressChanged> for Supervisor {
    type Result = ();

    fn handle(&mut self, change: IngressChanged, _: &mut Self::Context) {
        self.0.add(change);
    }
}

/// Short waits where a test waits for them to pass, long ones where it must not see them.
fn quick() -> Timing {
    Timing {
        limits: Limits::default(),
        call: Duration::from_secs(10),
        hello: Duration::from_secs(10),
        ping_every: Duration::from_secs(10),
        silence_max: Duration::from_secs(30),
        write_max: Duration::from_secs(10),
        drain_max: Duration::from_secs(10),
        close_max: Duration::from_secs(10),
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(50),
        slow_retry: Duration::from_millis(50),
        rate_limit_default: Duration::from_millis(50),
        catch_up_gap: Duration::ZERO,
        settle: Duration::ZERO,
        activity_every: Duration::from_millis(5),
    }
}

/// A fake Slack, a store, and what was heard; the actor comes and goes.
struct World {
    slack: FakeSlack,
    store: Addr<TestStore>,
    log: Arc<store::Log>,
    states: Arc<Heard<IngressChanged>>,
    records: Arc<Heard<GatewayEvent>>,
    settings: SocketSettings,
    declared: Declared,
    has_bot_token: bool,
}

impl World {
    fn new() -> Self {
        let slack = FakeSlack::start().unwrap();
        let (store, log) = TestStore::start_new();
        Self {
            settings: SocketSettings {
                api_base: slack.api_base(),
                catch_up_every: None,
                timing: quick(),
                ..SocketSettings::default()
            },
            slack,
            store,
            log,
            states: Heard::new(),
            records: Heard::new(),
            declared: Declared::default(),
            has_bot_token: false,
        }
    }

    /// Room for the messages of the tests: everything said in [`CHANNEL`] is about [`WORK_ITEM`].
    fn with_room() -> Self {
        let mut world = Self::new();
        let work_item = crate::domain::WorkItemRef::parse(WORK_ITEM).unwrap();
        world.declared.rooms.insert(CHANNEL.to_owned(), work_item);
        world
    }

    fn connect(&self) -> Addr<SlackSocketActor> {
        SlackSocketActor::new(self.parts()).start()
    }

    fn parts(&self) -> SocketParts {
        let records = Arc::clone(&self.records);
        SocketParts {
            name: "slack-socket".to_owned(),
            settings: self.settings.clone(),
            app_token: Secret::new(APP_TOKEN),
            bot_token: Secret::new(if self.has_bot_token { BOT_TOKEN } else { "" }),
            declared: Arc::new(self.declared.clone()),
            clock: Arc::new(SystemClock),
            store: SocketStore::of(&self.store),
            status: Supervisor(Arc::clone(&self.states)).start().recipient(),
            recorder: Recorder::new(move |event| records.add(event)),
            metrics: Metrics::default(),
        }
    }

    /// Connects, and waits until the connection with this number is up.
    async fn up(&self, connection: u64) -> Addr<SlackSocketActor> {
        let actor = self.connect();
        self.until_up(connection).await;
        actor
    }

    async fn until_up(&self, connection: u64) {
        let is_open = |seen: &Seen| (seen.live == [connection]).then_some(());
        self.until("the connection is open", is_open).await;
        self.until_state(IngressState::Up).await;
    }

    async fn until<R>(&self, wanted: &'static str, probe: impl Fn(&Seen) -> Option<R>) -> R {
        let found = self.slack.until(wanted, probe).await;
        found.unwrap_or_else(|error| panic!("{error}; states: {:?}", self.states.all()))
    }

    /// Waits until an envelope is acked; tells over which connection.
    async fn until_acked(&self, envelope: &crate::devkit::slack::Envelope) -> u64 {
        let id = envelope.envelope_id.clone();
        let ack = move |seen: &Seen| {
            let ack = seen.acks.iter().find(|ack| ack.envelope_id == id);
            ack.map(|ack| ack.connection)
        };
        self.until("the envelope is acked", ack).await
    }

    /// Waits until the last state reported is this one; tells its error.
    async fn until_state(&self, state: IngressState) -> Option<String> {
        let is_last = |states: &[IngressChanged]| {
            let last = states.last()?;
            (last.state == state).then(|| last.error.clone())
        };
        self.states.until(state.as_str(), is_last).await
    }

    /// Waits until this state was reported; tells its error.
    async fn until_was(&self, state: IngressState) -> Option<String> {
        let was = |states: &[IngressChanged]| {
            let change = states.iter().find(|change| change.state == state)?;
            Some(change.error.clone())
        };
        self.states.until(state.as_str(), was).await
    }

    async fn until_recorded(&self, name: &'static str) -> GatewayEvent {
        let is_it = |events: &[GatewayEvent]| {
            let event = events.iter().find(|event| event.name() == name);
            event.cloned()
        };
        self.records.until(name, is_it).await
    }
}

/// Ends the actor as a crash would.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Kill;

impl Handler<Kill> for SlackSocketActor {
    type Result = ();

    fn handle(&mut self, _: Kill, ctx: &mut Self::Context) {
        ctx.terminate();
    }
}

async fn stop(actor: Addr<SlackSocketActor>) {
    actor.send(StopIngress).await.unwrap();
}
