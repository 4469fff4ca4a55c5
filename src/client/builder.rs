//! How a client is made.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::api::Api;
use super::board::{Board, Listener};
use super::desk::Bounds;
use super::handle::Client;
use super::peer::{self, PeerError, PeerFile};
use super::session::{Command, Parts, Session, Settings};
use super::status::{Event, State, Status};
use super::wire::{Actors, Registration};
use super::{BackOff, GatewayUrl, Handler};
use crate::digest;
use crate::domain::{
    Clock, EventActor, Identity, InstanceName, Role, RunId, Subject, SystemClock, WorkItemRef,
};

/// Calls that wait for the client's thread at once.
const COMMANDS_MAX: usize = 1_024;

/// Why a client cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The peer file is in use or cannot be used.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// There is no thread to run on.
    #[error("no thread could be started: {0}")]
    Thread(#[source] io::Error),
    /// There is no HTTP client.
    #[error("{0}")]
    Http(String),
}

/// What a started client holds on to.
struct Life {
    peer_file: PeerFile,
    run: RunId,
    commands: mpsc::Receiver<Command>,
    board: watch::Sender<Status>,
}

/// What a client is to be; see [`Client::builder`].
pub struct ClientBuilder {
    url: GatewayUrl,
    peer_file: PathBuf,
    instance: InstanceName,
    actors: Actors,
    registrations: Vec<Registration>,
    settings: Settings,
    patience: Duration,
    listener: Option<Listener>,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("url", &self.url)
            .field("instance", &self.instance)
            .field("peer_file", &self.peer_file)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(super) fn new(url: GatewayUrl, peer_file: PathBuf) -> Self {
        Self {
            url,
            peer_file,
            instance: InstanceName::unnamed(),
            actors: Actors::default(),
            registrations: Vec::new(),
            settings: Settings {
                bounds: Bounds {
                    concurrency: 8,
                    batch: 64,
                    in_hand: 256,
                    back_off: BackOff::default(),
                },
                back_off: BackOff::default(),
                long_poll: Duration::from_secs(25),
                poll_interval: Duration::from_secs(1),
                lease: Duration::from_secs(60),
                linger: Duration::from_millis(20),
                stop_grace: Duration::from_secs(30),
                stop_patience: Duration::from_secs(5),
            },
            patience: Duration::from_secs(15),
            listener: None,
        }
    }

    /// The name whose queue is fetched. Default: `default`.
    #[must_use]
    pub fn instance(mut self, instance: InstanceName) -> Self {
        self.instance = instance;
        self
    }

    /// Works for this account: gets its events that nobody's claim covers. All actors together
    /// replace what the instance was registered for before; none at all is a registration too.
    #[must_use]
    pub fn actor(mut self, actor: EventActor) -> Self {
        self.actors.of(actor.provider).push(actor.name);
        self
    }

    /// Works on this subject from the start.
    #[must_use]
    pub fn claim(mut self, subject: Subject, role: Role) -> Self {
        self.registrations.push(Registration::Claim(subject, role));
        self
    }

    /// Which Slack channels belong to which work items; replaces what the instance published.
    #[must_use]
    pub fn rooms(mut self, rooms: Vec<(String, WorkItemRef)>) -> Self {
        self.registrations.push(Registration::Rooms(rooms));
        self
    }

    /// How long the gateway may hold a fetch while nothing is due; zero for plain polling.
    /// Default: 25 s.
    #[must_use]
    pub const fn long_poll(mut self, wait: Duration) -> Self {
        self.settings.long_poll = wait;
        self
    }

    /// How long plain polling waits at least after an empty answer; longer when the gateway says
    /// so. Default: 1 s.
    #[must_use]
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll_interval = interval;
        self
    }

    /// How long the name stays this process's after its last answer. Default: 60 s.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Deliveries worked on at once, each of another subject; at least 1. Default: 8.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.settings.bounds.concurrency = concurrency.max(1);
        self
    }

    /// Deliveries asked for at once, at least 1; four times as many may be in hand. Default: 64.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.settings.bounds.batch = batch.max(1);
        self.settings.bounds.in_hand = batch.max(1).saturating_mul(4);
        self
    }

    /// How long to wait between attempts while the gateway does not answer, or a target is down.
    /// Default: 1 s, doubling to 60 s.
    #[must_use]
    pub const fn back_off(mut self, back_off: BackOff) -> Self {
        self.settings.back_off = back_off;
        self.settings.bounds.back_off = back_off;
        self
    }

    /// How long an answer may take, beyond the time that a fetch is held. Default: 15 s.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long handlers may go on after a stop; what is not finished then is released.
    /// Default: 30 s.
    #[must_use]
    pub const fn stop_grace(mut self, grace: Duration) -> Self {
        self.settings.stop_grace = grace;
        self
    }

    /// Hears of events, on the client's thread; must not block it.
    #[must_use]
    pub fn on_event(mut self, listener: impl FnMut(&Event) + Send + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Starts a client with this handler, on a thread of its own.
    ///
    /// # Errors
    /// As [`StartError`] says; first of all when another process uses the peer file.
    pub fn start<H: Handler + Send>(self, handler: H) -> Result<Client, StartError> {
        self.start_with(move || handler)
    }

    /// As [`ClientBuilder::start`], with a handler that is made on the client's thread and never
    /// leaves it.
    ///
    /// # Errors
    /// As [`ClientBuilder::start`].
    pub fn start_with<H: Handler>(
        self,
        make: impl FnOnce() -> H + Send + 'static,
    ) -> Result<Client, StartError> {
        let peer_file = PeerFile::lock(&self.peer_file)?;
        let run = peer::new_run()?;
        let (commands, asked) = mpsc::channel(COMMANDS_MAX);
        let (board, status) = watch::channel(self.first_status(&peer_file));
        let life = Life {
            peer_file,
            run,
            commands: asked,
            board,
        };
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let work = move || {
            let tell_ready = |is_ready| drop(ready.send(is_ready));
            let system = actix_rt::System::new();
            system.block_on(self.live(life, make, tell_ready));
        };
        let named = std::thread::Builder::new().name("gateway-client".to_owned());
        drop(named.spawn(work).map_err(StartError::Thread)?);
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Client::new(commands, status)),
            Ok(Err(why)) => Err(StartError::Http(why)),
            Err(_gone) => Err(StartError::Http("the client's thread ended".to_owned())),
        }
    }

    async fn live<H: Handler>(
        self,
        life: Life,
        make: impl FnOnce() -> H,
        tell_ready: impl FnOnce(Result<(), String>),
    ) {
        let identity = Identity {
            instance: self.instance,
            peer: Some(life.peer_file.peer().clone()),
            run: Some(life.run),
        };
        let api = match Api::new(self.url, identity, self.patience) {
            Ok(api) => api,
            Err(why) => return tell_ready(Err(why.to_string())),
        };
        tell_ready(Ok(()));
        let mut session = Session::new(Parts {
            settings: self.settings,
            api,
            handler: make(),
            actors: self.actors,
            commands: life.commands,
            board: Board::new(life.board, self.listener),
        });
        session.publish(self.registrations);
        let (end, board) = session.run().await;
        // Whoever waits for the end may start the next client at once.
        drop(life.peer_file);
        board.end(end);
    }

    fn first_status(&self, peer_file: &PeerFile) -> Status {
        Status {
            url: self.url.to_string(),
            instance: self.instance.to_string(),
            peer_fingerprint: digest::fingerprint(peer_file.peer().as_str()),
            state: State::Connecting,
            since: SystemClock.now(),
            committed: None,
            long_poll: self.settings.long_poll,
            poll_interval: self.settings.poll_interval,
            claims: Vec::new(),
            in_hand: 0,
            running: 0,
            unconfirmed: 0,
            targets_down: Vec::new(),
            outcomes: std::collections::BTreeMap::new(),
        }
    }
}
