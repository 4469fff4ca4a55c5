//! A listener and what answers on it.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{App, HttpServer};

use super::state::HttpState;
use super::{Routes, admission, configure};

/// Longer than the idle time of common load balancers, so that the gateway is not the one that
/// closes a connection that they are about to use.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long a client may take to close a connection that is over.
const DISCONNECT_MAX: Duration = Duration::from_secs(2);
/// What a stop waits for: appends in progress.
const SHUTDOWN_SECONDS: u64 = 3;

/// How slow a client may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// A head that is slower is answered 408, without a body.
    pub head: Duration,
    /// A body that is slower is answered 408, and the connection ends.
    pub body: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
        }
    }
}

/// How long a provider is kept waiting for a store that is busy, before it is answered 503.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// GitHub gives up after 10 s and never comes again; Jira waits longer.
    pub webhooks: Duration,
    /// Slack shows its user an error after 3 s.
    pub slack: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            webhooks: Duration::from_secs(8),
            slack: Duration::from_millis(2_500),
        }
    }
}

/// A bound listener and what it answers.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// Which routes.
    pub routes: Routes,
    /// Threads that answer.
    pub workers: usize,
}

/// Starts to answer on a listener.
///
/// The caller handles signals and stops the server through its handle.
///
/// # Errors
/// When the socket cannot be used.
pub fn serve(listener: Listener, state: &Data<HttpState>) -> io::Result<Server> {
    let Listener {
        socket,
        routes,
        workers,
    } = listener;
    let shared = state.clone();
    let app = move || {
        App::new()
            .app_data(shared.clone())
            .wrap(from_fn(admission::count_open))
            .configure(move |config| configure(config, routes))
    };
    let server = HttpServer::new(app)
        .workers(workers)
        .tcp_nodelay(true)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(state.parts.timeouts.head)
        .client_disconnect_timeout(DISCONNECT_MAX)
        // A caller that hung up must be noticed: its fetch must not be handed anything.
        .h1_allow_half_closed(false)
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .disable_signals()
        .listen(socket)?;
    Ok(server.run())
}
