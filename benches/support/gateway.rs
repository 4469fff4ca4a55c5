//! The production build on a free port, and the same handler without a store beside it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use actix_web::web::{Bytes, Data, PayloadConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use the_loop_gateway::app::{Gateway, Parts, StopHandle};
use the_loop_gateway::config::{ConfigFingerprint, Environment, GatewayConfig, LoadedConfig};
use the_loop_gateway::domain::Timestamp;
use the_loop_gateway::providers::signature::{Secrets, verify_github};
use the_loop_gateway::providers::{Declared, Headers, RepositoryPattern, Verdict, github};

use super::payloads::SECRET;

/// A gateway that runs on a thread of its own until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: StopHandle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Starts a gateway that declares `octo/repo`.
    pub(crate) fn start(root: &Path) -> Self {
        Self::of(root, "octo/repo", Parts::default())
    }

    /// Starts a gateway that declares a repository, built with these parts.
    pub(crate) fn of(root: &Path, repository: &str, parts: Parts) -> Self {
        let change = |config: &mut GatewayConfig| {
            config.github.webhook.enabled = true;
            config.declared = declared(repository);
        };
        let variables = [("THE_LOOP_GH_WEBHOOK_SECRET", SECRET)];
        Self::with_parts(root, change, &variables, parts)
    }

    /// Starts a gateway of a configuration and the variables of its secrets.
    pub(crate) fn with(
        root: &Path,
        change: impl FnOnce(&mut GatewayConfig),
        variables: &[(&'static str, &'static str)],
    ) -> Self {
        Self::with_parts(root, change, variables, Parts::default())
    }

    /// As [`Running::with`], built with other parts.
    pub(crate) fn with_parts(
        root: &Path,
        change: impl FnOnce(&mut GatewayConfig),
        variables: &[(&'static str, &'static str)],
        parts: Parts,
    ) -> Self {
        let mut config = GatewayConfig::rooted_at(root);
        config.listen.address.port = 0;
        change(&mut config);
        let environment = Environment::given(variables.iter().copied());
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            actix_rt::System::new().block_on(async move {
                let loaded = LoadedConfig {
                    config,
                    environment,
                    fingerprint: ConfigFingerprint::look(None, None),
                    warnings: Vec::new(),
                };
                let gateway = Gateway::build(&loaded, &parts).expect("a gateway");
                sender
                    .send((gateway.port(), gateway.stop_handle()))
                    .expect("a listener");
                gateway.run_until_stopped().await;
            });
        });
        let (port, stop) = receiver.recv().expect("a port");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }
}

impl Running {
    /// Batches and writes that the store has committed so far.
    pub(crate) fn batches(&self) -> (f64, f64) {
        let text = super::api::get(self.address, "/metrics");
        let sum = |name: &str| {
            text.lines()
                .filter(|line| !line.starts_with('#') && line.contains(name))
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum()
        };
        (
            sum("store_batch_writes_count"),
            sum("store_batch_writes_sum"),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop("measured");
        if let Some(thread) = self.thread.take() {
            thread.join().expect("an orderly end");
        }
    }
}

fn declared(repository: &str) -> Declared {
    Declared {
        repositories: vec![RepositoryPattern::parse(repository).expect("a pattern")],
        ..Declared::default()
    }
}

struct Head<'a>(&'a HttpRequest);

impl Headers for Head<'_> {
    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.headers().get(name).map(|value| value.as_bytes())
    }
}

/// The ceiling: read, verify, parse and compress as the gateway does, then answer.
pub(crate) fn without_store() -> SocketAddr {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        actix_rt::System::new().block_on(async move {
            let secrets = Secrets::new(SECRET.to_owned(), None).expect("a secret");
            let shared = Data::new((Arc::new(secrets), declared("octo/repo")));
            let server = HttpServer::new(move || {
                App::new()
                    .app_data(shared.clone())
                    .app_data(PayloadConfig::new(64 << 20))
                    .route("/gh-webhook", web::post().to(answer))
            })
            .workers(std::thread::available_parallelism().map_or(2, usize::from))
            .disable_signals()
            .bind(("127.0.0.1", 0))
            .expect("a port");
            sender.send(server.addrs()[0]).expect("a listener");
            server.run().await.expect("a server");
        });
    });
    receiver.recv().expect("an address")
}

async fn answer(
    request: HttpRequest,
    body: Bytes,
    shared: Data<(Arc<Secrets>, Declared)>,
) -> HttpResponse {
    let (secrets, declared) = shared.get_ref();
    let header = request
        .headers()
        .get("x-hub-signature-256")
        .map(|value| value.as_bytes());
    let (verified, _) = verify_github(secrets, header, &body[..]).expect("a signature");
    let verdict = github::parse(&Head(&request), verified, declared, Timestamp(0));
    match verdict.expect("a payload") {
        Verdict::Append(arrival) => {
            assert!(arrival.payload.text_bytes() > 0);
            HttpResponse::Accepted().json(serde_json::json!({"status": "accepted"}))
        }
        Verdict::Drop(dropped) => panic!("{dropped:?}"),
    }
}
