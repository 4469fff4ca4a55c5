//! The composition: what is opened, bound and started in which order, and how it ends.
//!
//! Listeners are bound before anything is started, so a port that is taken is the first error.
//! The end: not ready, held polls answered, listeners closed, appends finished, checkpoint, event
//! log flushed, lock released. An actor that is gone by itself ends the process instead: nobody
//! knows what a panic left behind.

mod filesystem;
mod hold;
mod ingresses;
mod limits;
mod live;
mod lock;
mod note;
mod notify;
mod parts;
mod sampling;
mod start_error;
mod stop;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use actix::Addr;
use actix_web::dev::Server;
use actix_web::web::Data;
use futures_util::future::join_all;

use self::ingresses::Ingresses;
use self::lock::StateLock;
use self::parts::Threads;
use self::sampling::Sampling;
use crate::actors::{
    HousekeepingActor, HousekeepingParts, IngressBoard, Liveness, QueueRegistryActor, Queues,
    Samples, Store, StoreActor, StoreDoor, StoreHealth, StoreParts, WakeThrough,
};
use crate::config::{Address, Environment, GatewayConfig, LoadedConfig};
use crate::http::{self, HttpParts, HttpSettings, HttpState, Listener, Phase, Routes};
use crate::store::{self, ReadPool, Settings, Writer};
use crate::telemetry::{EventLog, GatewayEvent, LogPlace};

pub use self::filesystem::{Filesystem, kind_of};
pub use self::hold::StateHold;
pub use self::live::LiveSettings;
pub use self::lock::{Standing, create_root, look, pid_file};
pub use self::note::RunNote;
pub use self::notify::Notify;
pub use self::parts::{Arbiters, Intervals, Parts};
pub use self::start_error::StartError;
pub use self::stop::{StopHandle, Stopped};

use self::stop::{Ending, Heard, Watch};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4_096;

/// A gateway that is bound and running; answers once [`Gateway::run_until_stopped`] is awaited.
pub struct Gateway {
    servers: Vec<Server>,
    port: u16,
    ingress_port: Option<u16>,
    http: Data<HttpState>,
    store: Store,
    queues: Queues,
    _housekeeping: Addr<HousekeepingActor>,
    _sampling: Sampling,
    ingresses: Ingresses,
    log: EventLog,
    watch: Watch,
    threads: Threads,
    notify: Notify,
    lock: StateLock,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("port", &self.port)
            .field("ingress_port", &self.ingress_port)
            .finish_non_exhaustive()
    }
}

/// The sockets of a gateway, bound before anything else is started.
struct Sockets {
    api: TcpListener,
    ingress: Option<TcpListener>,
}

impl Sockets {
    fn bind(config: &GatewayConfig, port: Option<u16>) -> Result<Self, StartError> {
        let listen = &config.listen;
        let mut address = listen.address.clone();
        address.port = port.unwrap_or(address.port);
        let ingress = listen
            .ingress
            .as_ref()
            .map(|address| bind(address, listen.exposed));
        Ok(Self {
            api: bind(&address, listen.exposed)?,
            ingress: ingress.transpose()?,
        })
    }
}

fn bind(address: &Address, exposed: bool) -> Result<TcpListener, StartError> {
    let failed = |source| StartError::Bind {
        address: address.to_string(),
        source,
    };
    let target = (address.host.as_str(), address.port);
    let socket = TcpListener::bind(target).map_err(failed)?;
    // A name can resolve to anything: look at what was bound.
    let bound = socket.local_addr().map_err(failed)?;
    if !exposed && !bound.ip().is_loopback() {
        return Err(StartError::Exposed {
            address: address.to_string(),
        });
    }
    // A burst of connections must not wait for a second try: the default would hold 128.
    rustix::net::listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
    Ok(socket)
}

impl Gateway {
    /// Opens, binds and starts everything. Needs a running actix system.
    ///
    /// # Errors
    /// When something is missing, taken, foreign or refused; nothing is left running then.
    pub fn build(loaded: &LoadedConfig, parts: &Parts) -> Result<Self, StartError> {
        let config = &loaded.config;
        limits::raise_open_files();
        create_root(&config.state_root)?;
        filesystem::check(&config.state_root)?;
        let lock = StateLock::acquire(&config.state_root)?;
        let sockets = Sockets::bind(config, parts.port)?;
        let log = EventLog::open(log_place(config), Arc::clone(&parts.clock))
            .map_err(StartError::Thread)?;
        let writer = open_writer(config, parts)?;
        let readers = store::open_readers(&config.store_path)?;
        let core = Core::start(writer, wal_path(config), &log, parts);
        let sampling = Sampling::start(&core, &readers, parts);
        let seen = (readers, sampling.samples.clone());
        let http = Data::new(http_state(&core, seen, loaded, &log, parts));
        let ingresses = Ingresses::start(&core, &http, loaded, &log, parts);
        let mut started = core.finish(sockets, (http, sampling, ingresses), log, lock)?;
        started.notify = parts.notify.clone();
        started.announce(config, parts);
        Ok(started)
    }

    /// The port of the API.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The port of the providers' routes, when they have one of their own.
    #[must_use]
    pub const fn ingress_port(&self) -> Option<u16> {
        self.ingress_port
    }

    /// Stops the gateway from elsewhere.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.watch.handle()
    }

    /// What requests are answered with.
    #[must_use]
    pub fn http(&self) -> Data<HttpState> {
        self.http.clone()
    }

    /// What a changed configuration is put in force with.
    #[must_use]
    pub fn live_settings(&self) -> LiveSettings {
        LiveSettings {
            http: self.http.clone(),
            store: self.store.clone(),
        }
    }

    fn announce(&self, config: &GatewayConfig, parts: &Parts) {
        self.http.enter(Phase::Serving);
        self.lock.publish(&self.note(config, parts));
        let ingress = self.ingress_port.map(|port| port.to_string());
        self.log.record(GatewayEvent::Started {
            version: env!("CARGO_PKG_VERSION"),
            listen: self.port.to_string(),
            ingress,
        });
        tracing::info!(
            port = self.port,
            ingress_port = self.ingress_port,
            "listening"
        );
    }

    fn note(&self, config: &GatewayConfig, parts: &Parts) -> RunNote {
        let at = |address: &Address, port| Address {
            host: address.host.clone(),
            port,
        };
        let ingress = config.listen.ingress.as_ref().zip(self.ingress_port);
        RunNote {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: parts.clock.now().to_string(),
            api: at(&config.listen.address, self.port),
            ingress: ingress.map(|(address, port)| at(address, port)),
            config: config.path.clone(),
            is_supervised: parts.notify.is_heard(),
        }
    }

    /// Lets SIGINT and SIGTERM stop the gateway, the second one makes it hurry; and SIGHUP look at
    /// its configuration at once.
    ///
    /// # Errors
    /// When the system does not let the process hear signals.
    pub fn stop_on_signals(&self) -> Result<(), StartError> {
        stop::heed_signals(&self.stop_handle())?;
        stop::look_on_signal(&self.ingresses.config_watch)
    }

    /// Answers requests until somebody asks it to stop, or until it cannot go on.
    pub async fn run_until_stopped(self) -> Stopped {
        let Self {
            servers,
            http,
            store,
            queues,
            ingresses,
            log,
            mut watch,
            threads,
            notify,
            lock,
            port,
            ..
        } = self;
        let keeping_alive = actix_rt::spawn(notify.clone().keep_alive(store.clone()));
        let ending = Ending {
            http,
            supervisor: ingresses.supervisor.clone(),
            queues,
            handles: servers.iter().map(Server::handle).collect(),
            store,
        };
        let mut serving = actix_rt::spawn(join_all(servers));
        notify.ready(&format!("listening on port {port}"));
        let heard = tokio::select! {
            heard = watch.hear() => heard,
            _ended = &mut serving => Heard::Gone("listener"),
        };
        let reason = match heard {
            Heard::Asked(reason) => reason,
            Heard::Gone(actor) => return stop::died(&log, actor),
        };
        notify.stopping();
        let interrupted = tokio::select! {
            in_time = ending.run_bounded(reason) => (!in_time).then_some(Heard::Asked(reason)),
            heard = watch.hear() => Some(heard),
        };
        match interrupted {
            None => {}
            Some(Heard::Asked(_)) => return Stopped::Cut,
            Some(Heard::Gone(actor)) => return stop::died(&log, actor),
        }
        serving.abort();
        keeping_alive.abort();
        log.record(GatewayEvent::Stopped { reason });
        stop::flush(log).await;
        threads.end();
        drop(lock);
        Stopped::InOrder
    }
}

/// The actors, before anything is answered.
struct Core {
    store: Store,
    queues: Queues,
    health: StoreHealth,
    housekeeping: Addr<HousekeepingActor>,
    liveness: Liveness,
    threads: Threads,
}

impl Core {
    fn start(writer: Writer, wal_path: PathBuf, log: &EventLog, parts: &Parts) -> Self {
        let (threads, liveness) = (Threads::start(parts.arbiters), Liveness::default());
        let health = StoreHealth::default();
        let store_parts = StoreParts {
            writer,
            clock: Arc::clone(&parts.clock),
            log: log.clone(),
            health: health.clone(),
            alive: liveness.alive("store"),
        };
        let has_threads = parts.arbiters == Arbiters::Own;
        let store = threads.on_store(move || {
            let store = StoreActor::new(store_parts);
            if has_threads {
                store.checkpointing_beside()
            } else {
                store
            }
        });
        let door = StoreDoor {
            fetch: store.clone().recipient(),
            commit: store.clone().recipient(),
        };
        let (clock, alive) = (Arc::clone(&parts.clock), liveness.alive("queue registry"));
        let queues = threads.on_queues(move || QueueRegistryActor::new(door, clock, alive));
        // Nothing else is in the mailbox yet, so there is room.
        if let Err(error) = store.try_send(WakeThrough(queues.clone().recipient())) {
            tracing::error!(%error, "the store wakes nobody");
        }
        let keeping = HousekeepingParts {
            store: store.clone(),
            health: health.clone(),
            clock: Arc::clone(&parts.clock),
            wal_path,
            every: parts.intervals.housekeeping,
            sweep_every: parts.intervals.sweep,
            alive: liveness.alive("housekeeping"),
        };
        let housekeeping = threads.on_queues(move || HousekeepingActor::new(keeping));
        Self {
            store,
            queues,
            health,
            housekeeping,
            liveness,
            threads,
        }
    }

    fn finish(
        self,
        sockets: Sockets,
        (http, sampling, ingresses): (Data<HttpState>, Sampling, Ingresses),
        log: EventLog,
        lock: StateLock,
    ) -> Result<Gateway, StartError> {
        let port = port_of(&sockets.api)?;
        let ingress_port = sockets.ingress.as_ref().map(port_of).transpose()?;
        let routes = match sockets.ingress {
            Some(_) => Routes::Api,
            None => Routes::All,
        };
        let workers = workers();
        let mut servers = vec![serve(sockets.api, routes, workers, &http)?];
        if let Some(socket) = sockets.ingress {
            servers.push(serve(socket, Routes::Ingress, workers, &http)?);
        }
        Ok(Gateway {
            servers,
            port,
            ingress_port,
            http,
            store: self.store,
            queues: self.queues,
            _housekeeping: self.housekeeping,
            _sampling: sampling,
            ingresses,
            log,
            watch: Watch::new(self.liveness),
            threads: self.threads,
            notify: Notify::default(),
            lock,
        })
    }
}

fn serve(
    socket: TcpListener,
    routes: Routes,
    workers: usize,
    http: &Data<HttpState>,
) -> Result<Server, StartError> {
    let listener = Listener {
        socket,
        routes,
        workers,
    };
    http::serve(listener, http).map_err(StartError::Serve)
}

fn port_of(socket: &TcpListener) -> Result<u16, StartError> {
    socket
        .local_addr()
        .map(|address: SocketAddr| address.port())
        .map_err(StartError::Serve)
}

/// Each answers many requests; more threads than cores only help while one decompresses.
fn workers() -> usize {
    const WORKERS: std::ops::RangeInclusive<usize> = 2..=8;
    std::thread::available_parallelism()
        .map_or(*WORKERS.start(), usize::from)
        .clamp(*WORKERS.start(), *WORKERS.end())
}

fn http_state(
    core: &Core,
    (readers, samples): (ReadPool, Samples),
    loaded: &LoadedConfig,
    log: &EventLog,
    parts: &Parts,
) -> HttpState {
    let http_parts = HttpParts {
        store: core.store.clone(),
        queues: core.queues.clone(),
        readers,
        store_path: loaded.config.store_path.clone(),
        samples,
        health: core.health.clone(),
        board: IngressBoard::default(),
        log: log.clone(),
        clock: Arc::clone(&parts.clock),
        timeouts: parts.timeouts,
        patience: parts.patience,
    };
    let environment: &Environment = &loaded.environment;
    HttpState::new(http_parts, HttpSettings::new(&loaded.config, environment))
}

fn open_writer(config: &GatewayConfig, parts: &Parts) -> Result<Writer, StartError> {
    let connection = store::open_writer(&config.store_path)?;
    let clock = Arc::clone(&parts.clock);
    let writer = Writer::new(connection, store_settings(config), clock);
    Ok(writer.within(parts.page_limit.clone()))
}

fn wal_path(config: &GatewayConfig) -> PathBuf {
    let mut path = config.store_path.clone().into_os_string();
    path.push("-wal");
    PathBuf::from(path)
}

fn log_place(config: &GatewayConfig) -> LogPlace {
    LogPlace {
        path: config.observability.event_log_path.clone(),
        bytes_max: config.observability.event_log_bytes_max,
        kept: config.observability.event_logs_kept,
    }
}

/// The bounds of the store that a configuration sets.
#[must_use]
pub fn store_settings(config: &GatewayConfig) -> Settings {
    let (limits, consume) = (&config.store, &config.consume);
    Settings {
        retention_ms: limits.retention_ms,
        store_bytes_max: limits.bytes_max,
        strikes_max: limits.strikes_max,
        retry_min_ms: limits.retry_backoff_min_ms,
        retry_max_ms: limits.retry_backoff_max_ms,
        seen_keys_min: limits.dedup_window,
        grace_ms: limits.unbound_grace_ms,
        batch_max: u32::try_from(consume.batch_max).unwrap_or(u32::MAX),
        batch_bytes_max: consume.batch_bytes_max,
        wait_max_ms: i64::try_from(consume.wait_max.as_millis()).unwrap_or(i64::MAX),
        lease_min_ms: consume.lease_min_ms,
        lease_max_ms: consume.lease_max_ms,
        hand_timeout_ms: consume.hand_timeout_ms,
    }
}
