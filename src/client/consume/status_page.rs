//! `GET /api/v1/gateway`: how this instance stands towards its gateway, for a dashboard.
//!
//! Read-only, and only for whoever names this host: a web page elsewhere cannot read it by
//! pointing a name of its own at us.

use std::io;
use std::net::{IpAddr, SocketAddr};

use actix_web::dev::ServerHandle;
use actix_web::http::header::HOST;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use serde_json::{Value, json};

use crate::client::views::Views;
use crate::client::{Client, GatewayUrl, State, Status};

const ROUTE: &str = "/api/v1/gateway";
/// Seconds that a stop waits for open requests.
const SHUTDOWN_SECONDS: u64 = 1;

/// The page while it is served.
#[derive(Debug)]
pub struct StatusPage {
    address: SocketAddr,
    server: ServerHandle,
}

#[derive(Clone)]
struct Shown {
    client: Client,
    url: GatewayUrl,
    address: SocketAddr,
}

impl StatusPage {
    /// Serves the page of a client at an address; needs a running actix system.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn serve(listen: SocketAddr, client: Client, url: GatewayUrl) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let shown = Shown {
            client,
            url,
            address,
        };
        let server = HttpServer::new(move || {
            let views = Views::new(shown.url.clone());
            App::new()
                .app_data(web::Data::new(shown.clone()))
                .app_data(web::Data::new(views))
                .route(ROUTE, web::get().to(show))
                .default_service(web::to(not_found))
        })
        .workers(1)
        .disable_signals()
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .listen(listener)?
        .run();
        let handle = server.handle();
        drop(actix_rt::spawn(server));
        Ok(Self {
            address,
            server: handle,
        })
    }

    /// Where it is served.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves it no more.
    pub async fn stop(self) {
        self.server.stop(true).await;
    }
}

async fn show(
    request: HttpRequest,
    shown: web::Data<Shown>,
    views: web::Data<Views>,
) -> HttpResponse {
    if !names_us(&request, shown.address) {
        return HttpResponse::Forbidden().json(json!({"error": "forbidden-origin",
            "message": "The Host is not this one."}));
    }
    let status = shown.client.status();
    let (health, queue) = (views.health().await, views.queue(&status.instance).await);
    HttpResponse::Ok()
        .insert_header(("cache-control", "no-store"))
        .json(page(&status, health.as_ref(), queue.as_ref()))
}

async fn not_found() -> HttpResponse {
    HttpResponse::NotFound().json(json!({"error": "not-found",
        "message": "There is no such thing here."}))
}

/// True when the `Host` is loopback or the address that we listen on.
fn names_us(request: &HttpRequest, address: SocketAddr) -> bool {
    let host = request.headers().get(HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_ours = |ip: IpAddr| ip.is_loopback() || ip == address.ip();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_ours)
}

fn page(status: &Status, health: Option<&Value>, queue: Option<&Value>) -> Value {
    let claims: Vec<Value> = (status.claims.iter())
        .map(|(subject, role)| json!({"subject": subject.as_str(), "role": role}))
        .collect();
    json!({
        "configured": true,
        "url": status.url,
        "state": status.state.as_str(),
        "why": why(&status.state),
        "instance": status.instance,
        "peer": status.peer_fingerprint,
        "since": status.since.to_string(),
        "committed": status.committed.map(|seq| seq.0),
        "mode": {
            "pollIntervalSeconds": status.poll_interval.as_secs_f64(),
            "longPollSeconds": status.long_poll.as_secs_f64(),
        },
        "claims": claims,
        "health": health,
        "queue": queue,
        "inHand": status.in_hand,
        "unconfirmed": status.unconfirmed,
        "targetsDown": status.targets_down,
        "outcomes": status.outcomes,
    })
}

fn why(state: &State) -> Option<String> {
    match state {
        State::Connecting | State::Connected => None,
        State::Refused { why } => Some(why.to_string()),
        State::Unreachable { why } => Some(why.clone()),
        State::Off { why } => Some(why.to_string()),
    }
}
