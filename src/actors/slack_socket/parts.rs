//! What the actor is made of: its settings, its time limits, and the doors that it talks through.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Recipient};

use crate::actors::messages::{IngressChanged, Submit};
use crate::config::{Secret, SlackConfig};
use crate::domain::Clock;
use crate::outbound::Limits;
use crate::providers::Declared;
use crate::store::{Append, FindUnseen, ListSlackReadings, NoteSlackActivity, NoteSlackMark};
use crate::telemetry::{EventLog, GatewayEvent, Metrics};

/// What the configuration says.
#[derive(Debug, Clone)]
pub struct SocketSettings {
    /// The URL of the Web API, without a trailing `/`.
    pub api_base: String,
    /// The time between two rounds of the catch-up; `None`: only after connecting.
    pub catch_up_every: Option<Duration>,
    /// The messages that only the catch-up brought after which a split is suspected; 0: never.
    pub split_check_beats: u32,
    /// Whether the next connection opens before the refreshed one closes.
    pub overlap_on_refresh: bool,
    /// The time limits.
    pub timing: Timing,
}

impl Default for SocketSettings {
    fn default() -> Self {
        Self::of(&SlackConfig::default())
    }
}

impl SocketSettings {
    /// What a configuration says, with the usual time limits.
    #[must_use]
    pub fn of(config: &SlackConfig) -> Self {
        let socket = &config.socket;
        Self {
            api_base: config.api_base.clone(),
            catch_up_every: socket.catch_up_interval,
            split_check_beats: socket.split_check_beats,
            overlap_on_refresh: socket.overlap_on_refresh,
            timing: Timing::default(),
        }
    }
}

/// How long things may take, and how long to wait between them.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The steps of a request or of a WebSocket handshake.
    pub limits: Limits,
    /// A whole call of the Web API, the body of its answer included.
    pub call: Duration,
    /// From the handshake to `hello`.
    pub hello: Duration,
    /// Between two pings of ours.
    pub ping_every: Duration,
    /// Without a frame of any kind; then the connection counts as dead.
    pub silence_max: Duration,
    /// For an ack to leave; then the connection counts as dead.
    pub write_max: Duration,
    /// For the acks of what is in flight before an orderly close.
    pub drain_max: Duration,
    /// For the other side to close too.
    pub close_max: Duration,
    /// The first wait after a failure.
    pub backoff_min: Duration,
    /// The longest wait after a failure.
    pub backoff_max: Duration,
    /// Between tries when somebody has to mend something first.
    pub slow_retry: Duration,
    /// After `ratelimited` without `Retry-After`.
    pub rate_limit_default: Duration,
    /// Between two requests of the catch-up: Slack allows about fifty a minute.
    pub catch_up_gap: Duration,
    /// How long a message has to come over the socket by itself before the catch-up takes it.
    pub settle: Duration,
    /// Between two notes of which conversations were active.
    pub activity_every: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            call: Duration::from_secs(20),
            hello: Duration::from_secs(10),
            ping_every: Duration::from_secs(20),
            silence_max: Duration::from_secs(60),
            write_max: Duration::from_secs(10),
            drain_max: Duration::from_secs(2),
            close_max: Duration::from_secs(1),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            slow_retry: Duration::from_secs(300),
            rate_limit_default: Duration::from_secs(30),
            catch_up_gap: Duration::from_millis(1_200),
            settle: Duration::from_secs(10),
            activity_every: Duration::from_secs(10),
        }
    }
}

/// The store, as far as this actor uses it.
#[derive(Clone)]
pub struct SocketStore {
    pub(super) append: Recipient<Submit<Append>>,
    pub(super) activity: Recipient<Submit<NoteSlackActivity>>,
    pub(super) mark: Recipient<Submit<NoteSlackMark>>,
    pub(super) readings: Recipient<Submit<ListSlackReadings>>,
    pub(super) unseen: Recipient<Submit<FindUnseen>>,
}

impl SocketStore {
    /// The doors of one actor that keeps the store.
    #[must_use]
    pub fn of<A>(store: &Addr<A>) -> Self
    where
        A: Actor
            + Handler<Submit<Append>>
            + Handler<Submit<NoteSlackActivity>>
            + Handler<Submit<NoteSlackMark>>
            + Handler<Submit<ListSlackReadings>>
            + Handler<Submit<FindUnseen>>,
        A::Context: ToEnvelope<A, Submit<Append>>
            + ToEnvelope<A, Submit<NoteSlackActivity>>
            + ToEnvelope<A, Submit<NoteSlackMark>>
            + ToEnvelope<A, Submit<ListSlackReadings>>
            + ToEnvelope<A, Submit<FindUnseen>>,
    {
        Self {
            append: store.clone().recipient(),
            activity: store.clone().recipient(),
            mark: store.clone().recipient(),
            readings: store.clone().recipient(),
            unseen: store.clone().recipient(),
        }
    }
}

/// Takes the records for the event log.
#[derive(Clone)]
pub struct Recorder(Arc<dyn Fn(GatewayEvent) + Send + Sync>);

impl Recorder {
    /// A recorder that hands each record to a function, which must not block.
    #[must_use]
    pub fn new(take: impl Fn(GatewayEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(super) fn record(&self, event: GatewayEvent) {
        (self.0)(event);
    }
}

impl From<EventLog> for Recorder {
    fn from(log: EventLog) -> Self {
        Self::new(move |event| log.record(event))
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

/// Everything that the actor needs.
pub struct SocketParts {
    /// The name of this ingress in status and records.
    pub name: String,
    /// What the configuration says.
    pub settings: SocketSettings,
    /// The app-level token, which opens connections.
    pub app_token: Secret,
    /// The bot token, which reads conversations; unset: no catch-up.
    pub bot_token: Secret,
    /// What is declared as ours.
    pub declared: Arc<Declared>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where events go.
    pub store: SocketStore,
    /// Who hears of changes of state.
    pub status: Recipient<IngressChanged>,
    /// Where records go.
    pub recorder: Recorder,
    /// Where waits are counted.
    pub metrics: Metrics,
}

impl fmt::Debug for SocketParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketParts")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SocketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketStore").finish_non_exhaustive()
    }
}
