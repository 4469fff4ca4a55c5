//! One connection, from its handshake to its end.
//!
//! Invariant: a frame is acked on the connection that brought it or not at all, and an event only
//! after the COMMIT that holds it. What was read is decided, even while the connection closes.
//! One task owns both halves of the connection, so nothing of it outlives it.

use std::pin::Pin;
use std::rc::Rc;

use actix_rt::task::JoinHandle;
use actix_web::web::Bytes;
use awc::error::WsProtocolError;
use awc::ws::{CloseCode, Frame, Message};
use futures_util::{Stream, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout};
use tracing::Instrument;

use super::connect::FRAME_BYTES_MAX;
use super::core::{Core, FAR, Hello};
use super::intake;
use super::joiner::{Joined, Joiner};
use super::outbox::{Outbox, Wire};
use super::reason::Reason;
use crate::providers::Verified;
use crate::providers::slack::{self, Envelope, SlackVerdict};
use crate::telemetry::GatewayEvent;

/// The reading half of a connection.
pub(super) type Frames = Pin<Box<dyn Stream<Item = Result<Frame, WsProtocolError>>>>;

/// Frames waiting to be written; a peer that lets more pile up does not read.
const OUTBOX_MAX: usize = 1_024;

/// What a connection tells the one who keeps it.
#[derive(Debug)]
pub(super) enum News {
    /// It is up.
    Hello(Hello),
    /// Slack closes it, or is about to; the reason as Slack words it.
    Disconnect(String),
    /// It is gone, and nothing of it is left.
    Ended(End),
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// As ordered, in good order.
    Drained,
    /// The other side closed it.
    Closed,
    /// No frame of any kind for too long.
    Silent,
    /// An ack or a ping did not leave.
    NotWritten(Reason),
    /// What came was no WebSocket.
    Broken(Reason),
}

impl End {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Drained => Reason::new("closed as ordered"),
            Self::Closed => Reason::new("Slack closed the connection"),
            Self::Silent => Reason::new("the connection was silent for too long"),
            Self::NotWritten(reason) => Reason::new(&format!("cannot write: {reason}")),
            Self::Broken(reason) => Reason::new(&format!("cannot read: {reason}")),
        }
    }
}

/// A running connection. Dropping it ends the connection at once.
#[derive(Debug)]
pub(super) struct LinkHandle {
    news: mpsc::UnboundedReceiver<News>,
    order: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl LinkHandle {
    /// What happens next. After the end it is the end again.
    pub(super) async fn next(&mut self) -> News {
        let news = self.news.recv().await;
        news.unwrap_or(News::Ended(End::Closed))
    }

    /// Finishes what is in flight, writes the acks, closes; returns when nothing is left.
    pub(super) async fn drain(mut self) -> End {
        self.order.send_replace(());
        loop {
            if let News::Ended(end) = self.next().await {
                return end;
            }
        }
    }
}

impl Drop for LinkHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Lets a connection run as a task of its own.
pub(super) fn start(core: Rc<Core>, wire: Wire, frames: Frames) -> LinkHandle {
    let (news, news_receiver) = mpsc::unbounded_channel();
    let (order, order_receiver) = watch::channel(());
    let link = Link::new(core, wire, frames, news.clone(), order_receiver);
    let connection = async move {
        let end = link.run().await;
        if news.send(News::Ended(end)).is_err() {
            tracing::debug!("nobody keeps the connection that ended");
        }
    };
    let task = actix_rt::spawn(connection.instrument(tracing::debug_span!("socket")));
    LinkHandle {
        news: news_receiver,
        order,
        task,
    }
}

/// The answer to an envelope.
struct Ack {
    text: String,
    /// When the envelope came.
    came_at: std::time::Instant,
}

struct Link {
    core: Rc<Core>,
    outbox: Outbox,
    frames: Frames,
    joiner: Joiner,
    news: mpsc::UnboundedSender<News>,
    order: watch::Receiver<()>,
    decisions: mpsc::UnboundedReceiver<Option<Ack>>,
    decided: mpsc::UnboundedSender<Option<Ack>>,
    /// When the envelopes came whose acks are leaving; as many as the outbox holds at most.
    leaving: Vec<std::time::Instant>,
    /// Appends of this connection that are not decided yet.
    undecided: usize,
    pings: Interval,
    silent_at: Instant,
    stuck_at: Option<Instant>,
    drained_at: Option<Instant>,
}

impl Link {
    fn new(
        core: Rc<Core>,
        wire: Wire,
        frames: Frames,
        news: mpsc::UnboundedSender<News>,
        order: watch::Receiver<()>,
    ) -> Self {
        let (decided, decisions) = mpsc::unbounded_channel();
        let timing = core.timing();
        let now = Instant::now();
        let mut pings = interval_at(after(now, timing.ping_every), timing.ping_every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let silent_at = after(now, timing.silence_max);
        Self {
            core,
            outbox: Outbox::new(wire),
            frames,
            joiner: Joiner::new(FRAME_BYTES_MAX),
            news,
            order,
            decisions,
            decided,
            leaving: Vec::new(),
            undecided: 0,
            pings,
            silent_at,
            stuck_at: None,
            drained_at: None,
        }
    }

    async fn run(mut self) -> End {
        let end = loop {
            if let Some(end) = self.step().await {
                break end;
            }
        };
        let is_orderly = match end {
            End::Drained | End::Closed => true,
            End::Silent | End::NotWritten(_) | End::Broken(_) => false,
        };
        if is_orderly {
            self.say_goodbye(&end).await;
        }
        end
    }

    /// Waits for the next thing to happen and does what it asks for. What ends the connection
    /// comes first, then what leaves it, then what comes in.
    async fn step(&mut self) -> Option<End> {
        if self.is_drained() {
            return Some(End::Drained);
        }
        let may_read = self.core.gate.has_room();
        let far = after(Instant::now(), FAR);
        tokio::select! { biased;
            () = sleep_until(self.drained_at.unwrap_or(far)) => Some(End::Drained),
            () = sleep_until(self.silent_at), if may_read => Some(End::Silent),
            () = sleep_until(self.stuck_at.unwrap_or(far)) => {
                Some(End::NotWritten(Reason::new("nothing leaves")))
            }
            _ = self.order.changed(), if self.drained_at.is_none() => {
                self.drained_at = Some(after(Instant::now(), self.core.timing().drain_max));
                None
            }
            Some(decision) = self.decisions.recv() => self.decide(decision),
            written = self.outbox.drive(), if !self.outbox.is_idle() => self.written(written),
            _ = self.pings.tick() => self.write(Message::Ping(Bytes::new())),
            () = self.core.gate.room(), if !may_read => {
                // Nobody listened, so the silence was not the other side's.
                self.heard();
                None
            }
            frame = self.frames.next(), if may_read => self.read(frame),
        }
    }

    /// True when an order to drain is carried out.
    fn is_drained(&self) -> bool {
        self.drained_at.is_some() && self.undecided == 0 && self.outbox.is_idle()
    }

    fn heard(&mut self) {
        self.silent_at = after(Instant::now(), self.core.timing().silence_max);
    }

    // Out.

    fn write(&mut self, message: Message) -> Option<End> {
        if self.outbox.len() >= OUTBOX_MAX {
            return Some(End::NotWritten(Reason::new("too much is waiting to leave")));
        }
        self.outbox.push(message);
        if self.stuck_at.is_none() {
            self.stuck_at = Some(after(Instant::now(), self.core.timing().write_max));
        }
        None
    }

    fn written(&mut self, result: Result<(), WsProtocolError>) -> Option<End> {
        self.stuck_at = None;
        match result {
            Ok(()) => {
                self.count_left();
                None
            }
            Err(error) => Some(End::NotWritten(Reason::new(&error.to_string()))),
        }
    }

    /// Everything in the outbox has left.
    fn count_left(&mut self) {
        let now = self.core.clock.instant();
        for came_at in self.leaving.drain(..) {
            let took = now.saturating_duration_since(came_at);
            self.core.metrics.acked(took);
        }
    }

    fn decide(&mut self, ack: Option<Ack>) -> Option<End> {
        self.undecided = self.undecided.saturating_sub(1);
        ack.and_then(|ack| self.acknowledge(ack))
    }

    fn acknowledge(&mut self, ack: Ack) -> Option<End> {
        let end = self.write(Message::Text(ack.text.into()));
        if end.is_none() {
            self.leaving.push(ack.came_at);
        }
        end
    }

    // In.

    fn read(&mut self, frame: Option<Result<Frame, WsProtocolError>>) -> Option<End> {
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Some(End::Broken(Reason::new(&error.to_string()))),
            None => return Some(End::Closed),
        };
        self.heard();
        match frame {
            Frame::Text(text) => self.take(&text),
            Frame::Continuation(piece) => match self.joiner.push(piece) {
                Joined::Text(text) => self.take(&text),
                Joined::Nothing => None,
                Joined::TooLarge => Some(End::Broken(Reason::new("a message is too large"))),
            },
            Frame::Ping(payload) => self.write(Message::Pong(payload)),
            Frame::Close(_) => Some(End::Closed),
            Frame::Pong(_) | Frame::Binary(_) => None,
        }
    }

    fn take(&mut self, text: &[u8]) -> Option<End> {
        let Ok(text) = std::str::from_utf8(text) else {
            tracing::debug!("skipping a frame that is not UTF-8");
            return None;
        };
        let declared = self.core.declared();
        let text = Verified::by_connection(text);
        match slack::read_frame(text, &declared, self.core.now()) {
            slack::Frame::Hello {
                num_connections,
                app_id,
                ..
            } => self.tell(News::Hello(Hello {
                connections: num_connections,
                app: app_id,
            })),
            slack::Frame::Disconnect { reason } => self.tell(News::Disconnect(reason)),
            slack::Frame::Envelope(envelope) => self.carry_out(*envelope),
            slack::Frame::Ignored => None,
        }
    }

    fn tell(&self, news: News) -> Option<End> {
        // Nobody to tell: the task is about to be ended.
        let is_told = self.news.send(news).is_ok();
        (!is_told).then_some(End::Drained)
    }

    fn carry_out(&mut self, envelope: Envelope) -> Option<End> {
        let ack = Ack {
            text: envelope.ack(),
            came_at: self.core.clock.instant(),
        };
        match envelope.verdict {
            SlackVerdict::Append(arrival) => {
                self.undecided = self.undecided.saturating_add(1);
                let decided = self.decided.clone();
                intake::append(&self.core, arrival, move |is_decided| {
                    if decided.send(is_decided.then_some(ack)).is_err() {
                        tracing::debug!("decided after its connection was gone, not acked");
                    }
                });
                return None;
            }
            SlackVerdict::Drop(dropped) => self.core.record_dropped(dropped),
            SlackVerdict::Heartbeat { channel, ts, nonce } => {
                self.core.record(GatewayEvent::Heartbeat {
                    channel_id: channel,
                    ts,
                    nonce,
                });
            }
            SlackVerdict::Options | SlackVerdict::Challenge(_) | SlackVerdict::SslCheck => {}
        }
        self.acknowledge(ack)
    }

    // The end.

    /// Closes in the orderly way, so that Slack forgets the connection at once and keeps no ghost
    /// of it. What still comes in is stored; it cannot be acked any more.
    async fn say_goodbye(&mut self, end: &End) {
        self.outbox
            .push(Message::Close(Some(CloseCode::Normal.into())));
        let close_max = self.core.timing().close_max;
        let is_theirs = *end == End::Closed;
        let farewell = async {
            if self.outbox.drive().await.is_err() || is_theirs {
                return;
            }
            while let Some(Ok(frame)) = self.frames.next().await {
                if matches!(frame, Frame::Close(_)) || self.read(Some(Ok(frame))).is_some() {
                    return;
                }
            }
        };
        let is_answered = timeout(close_max, farewell).await.is_ok();
        let is_shut = timeout(close_max, self.outbox.shut()).await.is_ok();
        tracing::debug!(is_answered, is_shut, "closed a connection");
    }
}

fn after(moment: Instant, span: std::time::Duration) -> Instant {
    moment.checked_add(span).unwrap_or(moment)
}
