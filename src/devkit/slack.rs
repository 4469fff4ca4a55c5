//! A Slack on the loopback address: the Web API calls that Socket Mode and the catch-up need, and
//! the WebSocket, with every way in which the real one is known to misbehave.
//!
//! Invariant: what it reports (acks, connections, pings) is recorded at the moment that it
//! happens on the wire. [`FakeSlack`] can be used from any thread; the server runs in the System
//! that started it.

mod api;
mod connection;
mod conversations;
mod envelope;
mod state;
mod wire;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, web};

use self::connection::Command;
use self::state::Shared;

pub use self::conversations::Post;
pub use self::envelope::Envelope;
pub use self::state::{Ack, ApiCall, HelloPlan, OpenAnswer, Refused, Seen};

/// How long [`FakeSlack::until`] waits for what it was told to see.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What was waited for did not happen.
#[derive(Debug, thiserror::Error)]
#[error("waited in vain until {wanted}; seen: {seen:?}")]
pub struct InVain {
    wanted: &'static str,
    seen: Box<Seen>,
}

/// The running server, and what it is to do next.
#[derive(Clone)]
pub struct FakeSlack {
    shared: Arc<Shared>,
    server: ServerHandle,
    address: SocketAddr,
}

impl fmt::Debug for FakeSlack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSlack")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl FakeSlack {
    /// Starts a server on a free port, in the current System.
    ///
    /// # Errors
    /// When the loopback address has no free port.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let data = web::Data::from(Arc::clone(&shared));
        let server =
            HttpServer::new(move || App::new().app_data(data.clone()).configure(api::routes))
                .workers(1)
                .disable_signals()
                .bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = server.addrs().first().copied();
        let address = address.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
        shared.listens_at(address);
        let server = server.run();
        let handle = server.handle();
        actix_rt::spawn(server);
        Ok(Self {
            shared,
            server: handle,
            address,
        })
    }

    /// Closes every connection and the port.
    pub async fn stop(&self) {
        self.server.stop(false).await;
    }

    /// What `slack.apiBase` has to be.
    #[must_use]
    pub fn api_base(&self) -> String {
        format!("http://{}/api", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    // What comes next.

    /// How connections are greeted from now on.
    pub fn greet(&self, plan: HelloPlan) {
        self.shared.change(|state| state.hello = plan);
    }

    /// Answers the next `apps.connections.open` with this instead of a URL; several queue up.
    pub fn answer_open(&self, answer: OpenAnswer) {
        self.shared
            .change(|state| state.open_answers.push_back(answer));
    }

    /// Answers every WebSocket handshake with this status, until told otherwise.
    pub fn refuse_handshakes(&self, status: Option<u16>) {
        self.shared.change(|state| state.refuse_handshakes = status);
    }

    /// Answers the next call of any other method with this; several queue up.
    pub fn answer_call(&self, answer: Refused) {
        self.shared
            .change(|state| state.call_answers.push_back(answer));
    }

    /// At most this many messages in an answer of `conversations.*`, whatever the caller asks.
    pub fn page_size(&self, messages: usize) {
        self.shared.change(|state| state.page_max = messages.max(1));
    }

    // What is sent. Without a number it goes to the newest connection; false: there is none.

    /// Sends an envelope.
    pub fn push(&self, envelope: &Envelope) -> bool {
        self.push_all(std::slice::from_ref(envelope))
    }

    /// Sends several envelopes in one write.
    pub fn push_all(&self, envelopes: &[Envelope]) -> bool {
        let texts = envelopes.iter().map(Envelope::text).collect();
        self.shared.command(None, Command::Texts(texts))
    }

    /// Sends an envelope over a certain connection.
    pub fn push_over(&self, connection: u64, envelope: &Envelope) -> bool {
        let command = Command::Texts(vec![envelope.text()]);
        self.shared.command(Some(connection), command)
    }

    /// Sends a text frame, whatever it says.
    pub fn push_text(&self, text: &str) -> bool {
        self.shared
            .command(None, Command::Texts(vec![text.to_owned()]))
    }

    /// Sends an envelope in continuation frames of so many bytes.
    pub fn push_in_pieces(&self, envelope: &Envelope, piece_bytes: usize) -> bool {
        let text = envelope.text();
        self.shared
            .command(None, Command::Pieces { text, piece_bytes })
    }

    /// Sends the `hello` that was withheld.
    pub fn hello(&self) -> bool {
        self.shared.command(None, Command::Hello)
    }

    /// Sends a `disconnect` frame; the connection stays open.
    pub fn disconnect(&self, reason: &str) -> bool {
        self.push_text(&envelope::disconnect(reason))
    }

    /// Closes the connection in the orderly way.
    pub fn close(&self) -> bool {
        self.shared.command(None, Command::Close)
    }

    /// Sends the first half of a frame and drops the TCP connection.
    pub fn cut_in_mid_frame(&self, envelope: &Envelope) -> bool {
        self.shared.command(None, Command::Cut(envelope.text()))
    }

    /// Neither reads nor writes any more, without closing. From then on the connection counts as
    /// a ghost: it is not among [`Seen::live`].
    pub fn go_half_open(&self) -> bool {
        self.shared.command(None, Command::Freeze)
    }

    // What people say.

    /// Puts a message into its conversation without telling the app; returns its `ts`.
    pub fn post(&self, post: Post) -> String {
        self.shared.change(|state| state.conversations.post(post).0)
    }

    /// Puts a message into its conversation and sends the event of it; returns its `ts`.
    pub fn say(&self, post: Post) -> String {
        let channel = post.channel.clone();
        let (ts, message) = self.shared.change(|state| state.conversations.post(post));
        self.push(&Envelope::message(&channel, &message));
        ts
    }

    // What happened.

    /// Everything recorded so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.change_nothing(state::State::seen)
    }

    /// How many acks came so far; cheaper than all that was [`seen`](FakeSlack::seen).
    #[must_use]
    pub fn ack_count(&self) -> usize {
        self.shared.change_nothing(state::State::ack_count)
    }

    /// Waits until the probe finds what it looks for.
    ///
    /// # Errors
    /// When it does not within [`PATIENCE`].
    pub async fn until<T>(
        &self,
        wanted: &'static str,
        probe: impl Fn(&Seen) -> Option<T>,
    ) -> Result<T, InVain> {
        let mut changes = self.shared.changes();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(found) = probe(&self.seen()) {
                    return Some(found);
                }
                changes.changed().await.ok()?;
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.ok().flatten().ok_or_else(|| InVain {
            wanted,
            seen: Box::new(self.seen()),
        })
    }
}
