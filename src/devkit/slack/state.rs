//! What the fake is to do, and what it has seen.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{mpsc, watch};

use super::connection::Command;
use super::conversations::Conversations;
use super::envelope;
use crate::domain::{Clock, SystemClock};

/// How a connection is greeted.
#[derive(Debug, Clone)]
pub struct HelloPlan {
    /// False: the connection opens and nothing is said.
    pub at_once: bool,
    /// The count in `hello`; `None`: the true one.
    pub num_connections: Option<u64>,
    /// Seconds until a refresh, as announced.
    pub approximate_connection_time: u64,
}

impl Default for HelloPlan {
    fn default() -> Self {
        Self {
            at_once: true,
            num_connections: None,
            approximate_connection_time: 18_060,
        }
    }
}

/// What a method answers instead of its result.
#[derive(Debug, Clone)]
pub enum Refused {
    /// `ok: false` with this code.
    Code(&'static str),
    /// 429 and `ratelimited`, with `Retry-After` in seconds when given.
    RateLimited(Option<u64>),
    /// An HTTP status without a body.
    Status(u16),
}

/// What `apps.connections.open` answers once.
#[derive(Debug, Clone)]
pub enum OpenAnswer {
    /// No URL.
    Refused(Refused),
    /// This URL, which may lead nowhere.
    Url(String),
}

/// One ack that came in.
#[derive(Debug, Clone)]
pub struct Ack {
    /// The envelope that it is for.
    pub envelope_id: String,
    /// Its payload, where it has one.
    pub payload: Option<serde_json::Value>,
    /// The connection that it came over.
    pub connection: u64,
    /// When.
    pub at: Instant,
}

/// One call of the Web API.
#[derive(Debug, Clone)]
pub struct ApiCall {
    /// The method's name.
    pub method: String,
    /// Its arguments, without the token.
    pub arguments: BTreeMap<String, String>,
    /// When.
    pub at: Instant,
}

/// What happened so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The acks in the order of their arrival.
    pub acks: Vec<Ack>,
    /// Text frames that are no acks.
    pub strange_frames: usize,
    /// The numbers of the connections that are open, without ghosts.
    pub live: Vec<u64>,
    /// The largest number of connections that were open at once.
    pub live_max: usize,
    /// How many connections were opened.
    pub opened: u64,
    /// WebSocket pings of the app.
    pub pings: usize,
    /// Connections that the app closed with a close frame.
    pub closed_well: usize,
    /// The calls of the Web API.
    pub calls: Vec<ApiCall>,
}

impl Seen {
    /// How often a method was called.
    #[must_use]
    pub fn calls_of(&self, method: &str) -> usize {
        self.calls
            .iter()
            .filter(|call| call.method == method)
            .count()
    }

    /// True when an envelope is acked.
    #[must_use]
    pub fn is_acked(&self, envelope_id: &str) -> bool {
        self.acks.iter().any(|ack| ack.envelope_id == envelope_id)
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) address: SocketAddr,
    pub(super) hello: HelloPlan,
    pub(super) open_answers: VecDeque<OpenAnswer>,
    pub(super) call_answers: VecDeque<Refused>,
    pub(super) refuse_handshakes: Option<u16>,
    pub(super) page_max: usize,
    pub(super) conversations: Conversations,
    pub(super) seen: Seen,
    tickets: BTreeMap<String, bool>,
    connections: BTreeMap<u64, mpsc::UnboundedSender<Command>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            hello: HelloPlan::default(),
            open_answers: VecDeque::new(),
            call_answers: VecDeque::new(),
            refuse_handshakes: None,
            page_max: usize::MAX,
            conversations: Conversations::default(),
            seen: Seen::default(),
            tickets: BTreeMap::new(),
            connections: BTreeMap::new(),
        }
    }
}

impl State {
    pub(super) fn seen(&self) -> Seen {
        self.seen.clone()
    }

    pub(super) fn ack_count(&self) -> usize {
        self.seen.acks.len()
    }

    /// A URL that opens one connection, once.
    pub(super) fn new_url(&mut self) -> String {
        let ticket = format!("ticket-{}", self.tickets.len());
        self.tickets.insert(ticket.clone(), false);
        format!(
            "ws://{}/link/?ticket={ticket}&app_id={}",
            self.address,
            envelope::APP
        )
    }

    /// True when the ticket was issued and not used yet; it is used now.
    pub(super) fn redeem(&mut self, ticket: &str) -> bool {
        match self.tickets.get_mut(ticket) {
            Some(used) => !std::mem::replace(used, true),
            None => false,
        }
    }

    /// Counts a connection in; returns its number and what it is told to do.
    pub(super) fn connected(&mut self) -> (u64, mpsc::UnboundedReceiver<Command>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.seen.opened = self.seen.opened.saturating_add(1);
        let number = self.seen.opened;
        self.connections.insert(number, sender);
        self.seen.live.push(number);
        self.seen.live_max = self.seen.live_max.max(self.seen.live.len());
        (number, receiver)
    }

    /// Counts a connection out.
    pub(super) fn gone(&mut self, number: u64) {
        self.connections.remove(&number);
        self.seen.live.retain(|live| *live != number);
    }

    pub(super) fn hello_text(&self) -> String {
        let live = u64::try_from(self.seen.live.len()).unwrap_or(u64::MAX);
        let connections = self.hello.num_connections.unwrap_or(live);
        envelope::hello(connections, self.hello.approximate_connection_time)
    }

    pub(super) fn called(&mut self, method: &str, arguments: BTreeMap<String, String>) {
        self.seen.calls.push(ApiCall {
            method: method.to_owned(),
            arguments,
            at: SystemClock.instant(),
        });
    }
}

/// The state behind a lock, and the bell that is rung at every change.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }
}

impl Shared {
    /// Reads or changes the state, and tells everybody who waits.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_replace(());
        result
    }

    pub(super) fn change_nothing<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn listens_at(&self, address: SocketAddr) {
        self.change(|state| state.address = address);
    }

    /// Tells a connection, or the newest one, what to do; false when there is none.
    pub(super) fn command(&self, number: Option<u64>, command: Command) -> bool {
        self.change_nothing(|state| {
            let newest = state.connections.keys().next_back().copied();
            let sender = number
                .or(newest)
                .and_then(|number| state.connections.get(&number));
            sender.is_some_and(|sender| sender.send(command).is_ok())
        })
    }
}
