//! The production build on a free port, in a directory of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::web::Data;
use serde_json::{Value, json};
use the_loop_gateway::app::{
    Gateway, Intervals, LiveSettings, Parts, StartError, StopHandle, Stopped,
};
use the_loop_gateway::config::{ConfigFingerprint, Environment, GatewayConfig, LoadedConfig};
use the_loop_gateway::domain::Clock;
use the_loop_gateway::http::{HttpState, Timeouts};
use the_loop_gateway::providers::RepositoryPattern;
use the_loop_gateway::providers::signature::{sign_github, sign_jira, sign_slack};
use the_loop_gateway::store::verify;

use super::clock::MovedClock;
use super::{Call, Reply};

pub(crate) const GITHUB_SECRET: &str = "github-secret-of-the-tests";
pub(crate) const JIRA_SECRET: &str = "jira-secret-of-the-tests";
pub(crate) const SLACK_SECRET: &str = "slack-secret-of-the-tests";

/// Variables of every test gateway.
const VARIABLES: [(&str, &str); 3] = [
    ("THE_LOOP_GH_WEBHOOK_SECRET", GITHUB_SECRET),
    ("THE_LOOP_JIRA_WEBHOOK_SECRET", JIRA_SECRET),
    ("SLACK_SIGNING_SECRET", SLACK_SECRET),
];

/// A running gateway. Dropping it stops it in good order, and fails the test when something of
/// what it leaves behind is not right.
pub(crate) struct TestGateway {
    pub(crate) port: u16,
    pub(crate) ingress_port: u16,
    pub(crate) clock: Arc<MovedClock>,
    comments: AtomicU64,
    /// Asking twice makes it hurry.
    is_asked_to_stop: AtomicBool,
    stop: StopHandle,
    http: Data<HttpState>,
    live: LiveSettings,
    thread: Option<JoinHandle<Stopped>>,
    config: GatewayConfig,
    parts: Parts,
    directory: tempfile::TempDir,
}

impl TestGateway {
    /// A gateway for `octo/repo` and `acme/*`, the Jira project PROJ and Slack over HTTP.
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// As [`TestGateway::start`], with something changed.
    pub(crate) fn with(change: impl FnOnce(&mut GatewayConfig)) -> Self {
        Self::built(change, |_| {})
    }

    /// As [`TestGateway::with`], with something changed of what it is built with, too.
    pub(crate) fn built(
        change: impl FnOnce(&mut GatewayConfig),
        change_parts: impl FnOnce(&mut Parts),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config_at(&directory.path().join("state"));
        change(&mut config);
        let clock = Arc::new(MovedClock::default());
        let mut parts = parts(&clock);
        change_parts(&mut parts);
        let running = run(loaded(config.clone()), parts.clone()).unwrap();
        Self {
            port: running.port,
            ingress_port: running.ingress_port,
            clock,
            comments: AtomicU64::new(0),
            is_asked_to_stop: AtomicBool::new(false),
            stop: running.stop,
            http: running.http,
            live: running.live,
            thread: Some(running.thread),
            config,
            parts,
            directory,
        }
    }

    /// Stops it and starts it again over the same files.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let running = run(loaded(self.config.clone()), self.parts.clone()).unwrap();
        self.port = running.port;
        self.ingress_port = running.ingress_port;
        self.http = running.http;
        self.live = running.live;
        self.stop = running.stop;
        self.is_asked_to_stop = AtomicBool::new(false);
        self.thread = Some(running.thread);
    }

    /// Lets it come back on the same port after a restart.
    pub(crate) fn keep_port(&mut self) {
        self.config.listen.address.port = self.port;
    }

    /// Tries to start a second gateway over the same files.
    pub(crate) fn second(&self) -> Option<StartError> {
        run(loaded(self.config.clone()), self.parts.clone()).err()
    }

    /// Asks it to stop, without waiting.
    pub(crate) fn ask_to_stop(&self) {
        if !self.is_asked_to_stop.swap(true, Ordering::Relaxed) {
            self.stop.stop("test");
        }
    }

    /// Puts a changed configuration in force, as a reload does.
    pub(crate) fn reload(&mut self, change: impl FnOnce(&mut GatewayConfig)) {
        change(&mut self.config);
        let (live, config) = (self.live.clone(), self.config.clone());
        let applied = std::thread::spawn(move || {
            let loaded = loaded(config);
            actix_rt::System::new().block_on(async move { live.apply(&loaded).await })
        });
        applied.join().unwrap().unwrap();
    }

    /// Stops it in good order.
    pub(crate) fn stop(&mut self) {
        if self.thread.is_some() {
            self.ask_to_stop();
            self.wait_for_stop();
        }
    }

    /// Waits until it has stopped in good order, after it was asked to.
    pub(crate) fn wait_for_stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            assert_eq!(thread.join().unwrap(), Stopped::InOrder);
            assert_eq!(
                self.http.in_progress(),
                (0, 0),
                "requests or polls left over"
            );
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.config.state_root
    }

    pub(crate) fn config(&self) -> &GatewayConfig {
        &self.config
    }

    // Requests.

    pub(crate) fn call(&self, method: &str, target: &str) -> Call {
        Call::new(self.port, method, target)
    }

    /// A request of the API, under its prefix.
    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> Reply {
        let call = self.call(method, &format!("/api/v1/gateway{path}"));
        if body.is_null() {
            call.send()
        } else {
            call.json(body).send()
        }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.api("GET", path, &Value::Null)
    }

    /// A request of the API without a body.
    pub(crate) fn get_with(&self, method: &str, path: &str) -> Reply {
        self.api(method, path, &Value::Null)
    }

    /// A signed GitHub delivery.
    pub(crate) fn github(&self, kind: &str, id: &str, body: &str) -> Call {
        Call::new(self.ingress_port, "POST", "/gh-webhook")
            .header("X-GitHub-Event", kind)
            .header("X-GitHub-Delivery", id)
            .header(
                "X-Hub-Signature-256",
                sign_github(GITHUB_SECRET, body.as_bytes()),
            )
            .header("Content-Type", "application/json")
            .body(body)
    }

    /// Sends a comment on `octo/repo#<number>` with ids of its own; `guid-<n>` is its delivery id.
    #[track_caller]
    pub(crate) fn comment(&self, number: u64) -> u64 {
        let id = self.comments.fetch_add(1, Ordering::Relaxed) + 1;
        self.comment_again(number, id).send().assert(202);
        id
    }

    /// The comment that [`TestGateway::comment`] sent with this id, once more.
    pub(crate) fn comment_again(&self, number: u64, id: u64) -> Call {
        let body = comment_on(number, id, "go on");
        self.github("issue_comment", &format!("guid-{id}"), &body)
    }

    /// A signed Jira delivery.
    pub(crate) fn jira(&self, id: &str, body: &str) -> Call {
        Call::new(self.ingress_port, "POST", "/jira-webhook")
            .header("X-Atlassian-Webhook-Identifier", id)
            .header("X-Hub-Signature", sign_jira(JIRA_SECRET, body.as_bytes()))
            .header("Content-Type", "application/json")
            .body(body)
    }

    /// A request of Slack, signed now.
    pub(crate) fn slack(&self, route: &str, content_type: &str, body: &str) -> Call {
        let now = self.clock.now().0.div_euclid(1000);
        Call::new(self.ingress_port, "POST", &format!("/slack/{route}"))
            .header("X-Slack-Request-Timestamp", now)
            .header(
                "X-Slack-Signature",
                sign_slack(SLACK_SECRET, now, body.as_bytes()),
            )
            .header("Content-Type", content_type)
            .body(body)
    }

    /// Claims the subject of `github:octo/repo#<number>`.
    pub(crate) fn claim(&self, instance: &str, number: u64) -> Value {
        let body = json!({
            "instance": instance,
            "peer": format!("peer-of-{instance}"),
            "subject": format!("loop-github-octo-repo-{number}"),
            "role": "driver",
        });
        self.api("PUT", "/claims", &body).assert(200)
    }

    /// A fetch of the one run of an instance.
    pub(crate) fn fetch_call(&self, instance: &str, more: &Value) -> Call {
        let mut body = json!({
            "instance": instance,
            "peer": format!("peer-of-{instance}"),
            "run": "run-1",
        });
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        self.call("POST", "/api/v1/gateway/fetch").json(&body)
    }

    pub(crate) fn fetch(&self, instance: &str, more: &Value) -> Value {
        self.fetch_call(instance, more).send().assert(200)
    }

    /// Waits until exactly so many requests are being answered.
    pub(crate) fn wait_for_open(&self, count: u64) {
        wait_until(&format!("{count} open requests"), || {
            self.http.in_progress().0 == count
        });
    }

    /// Waits until exactly so many polls are held.
    pub(crate) fn wait_for_held(&self, count: u64) {
        wait_until(&format!("{count} held polls"), || {
            self.http.in_progress().1 == count
        });
    }

    /// Waits until a fetch of this name has reached the store.
    pub(crate) fn wait_for_lease(&self, instance: &str) {
        // Without a peer: refused while a lease is live, and takes none.
        let commit = json!({"instance": instance, "commit": []});
        wait_until(&format!("a lease of {instance}"), || {
            self.api("POST", "/commit", &commit).status == 409
        });
    }

    // What it left on the disk.

    /// The records of the event log so far, those named, after a restart-free flush.
    pub(crate) fn records(&self, event: &str) -> Vec<Value> {
        let path = self.root().join("logs/events.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|record| record["event"] == event)
            .collect()
    }

    /// Waits until the event log holds so many records of a kind.
    pub(crate) fn wait_for_records(&self, event: &str, count: usize) -> Vec<Value> {
        let mut found = Vec::new();
        wait_until(&format!("{count} records of {event}"), || {
            found = self.records(event);
            found.len() >= count
        });
        found
    }

    /// Leaves the files as they are: broken on purpose.
    pub(crate) fn leave_broken(self) {
        drop(std::fs::remove_file(&self.config.store_path));
        drop(std::fs::remove_dir(&self.config.store_path));
    }

    fn assert_sound(&self) {
        let path = &self.config.store_path;
        if !path.try_exists().unwrap() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "the test looks from outside")]
        let connection = rusqlite::Connection::open(path).unwrap();
        let verdict: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok");
        let problems = verify(&connection, self.clock.now()).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        assert!(!self.root().join("gateway.pid").try_exists().unwrap());
        assert_holds_none_of(self.root(), &VARIABLES.map(|(_, secret)| secret));
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The test has failed already; do not hide why.
            self.ask_to_stop();
            return;
        }
        self.stop();
        self.assert_sound();
    }
}

/// A gateway on a thread of its own.
pub(crate) struct Running {
    pub(crate) port: u16,
    ingress_port: u16,
    http: Data<HttpState>,
    live: LiveSettings,
    pub(crate) stop: StopHandle,
    pub(crate) thread: JoinHandle<Stopped>,
}

/// Builds a gateway and lets it run.
pub(crate) fn run(loaded: LoadedConfig, parts: Parts) -> Result<Running, StartError> {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        actix_rt::System::new().block_on(async move {
            match Gateway::build(&loaded, &parts) {
                Ok(gateway) => {
                    let ports = (gateway.port(), gateway.ingress_port());
                    let handles = (
                        gateway.http(),
                        gateway.live_settings(),
                        gateway.stop_handle(),
                    );
                    sender.send(Ok((ports, handles))).unwrap();
                    gateway.run_until_stopped().await
                }
                Err(error) => {
                    sender.send(Err(error)).unwrap();
                    Stopped::Cut
                }
            }
        })
    });
    let ((port, ingress_port), (http, live, stop)) = receiver.recv().unwrap()?;
    Ok(Running {
        port,
        ingress_port: ingress_port.unwrap_or(port),
        http,
        live,
        stop,
        thread,
    })
}

fn loaded(config: GatewayConfig) -> LoadedConfig {
    LoadedConfig {
        config,
        environment: Environment::given(VARIABLES),
        fingerprint: ConfigFingerprint::look(None, None),
        warnings: Vec::new(),
    }
}

/// Intervals and time limits for tests.
pub(crate) fn parts(clock: &Arc<MovedClock>) -> Parts {
    Parts {
        clock: Arc::<MovedClock>::clone(clock),
        intervals: Intervals {
            housekeeping: Duration::from_millis(50),
            sweep: Duration::from_millis(200),
            reload: Duration::from_millis(50),
            ..Intervals::default()
        },
        timeouts: Timeouts {
            head: Duration::from_secs(2),
            body: Duration::from_secs(2),
        },
        ..Parts::default()
    }
}

fn config_at(root: &Path) -> GatewayConfig {
    let mut config = GatewayConfig::rooted_at(root);
    config.listen.address.port = 0;
    config.github.webhook.enabled = true;
    config.jira.webhook.enabled = true;
    config.slack.http.enabled = true;
    config.declared.repositories = ["octo/repo", "acme/*"]
        .map(|text| RepositoryPattern::parse(text).unwrap())
        .into();
    config.declared.jira_site = Some("acme.atlassian.net".to_owned());
    config.declared.jira_projects.insert("PROJ".to_owned());
    config
}

/// Fails when a file below a directory holds one of the secrets.
#[track_caller]
pub(crate) fn assert_holds_none_of(directory: &Path, secrets: &[&str]) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_holds_none_of(&path, secrets);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        for secret in secrets {
            let is_there = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!is_there, "{} holds a secret", path.display());
        }
    }
}

/// Waits for a condition, looking again and again until a deadline.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = jiff::Timestamp::now();
    while !is_so() {
        let waited = jiff::Timestamp::now().duration_since(began);
        assert!(waited.as_secs() < 30, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The payload of a comment on `octo/repo#<number>`.
pub(crate) fn comment_on(number: u64, comment: u64, text: &str) -> String {
    json!({
        "action": "created",
        "issue": {"number": number, "title": "Sort the list"},
        "comment": {"id": comment, "body": text, "user": {"login": "octocat"}},
        "repository": {
            "id": 77,
            "name": "repo",
            "full_name": "octo/repo",
            "owner": {"login": "octo"},
            "html_url": "https://github.com/octo/repo",
        },
        "sender": {"login": "octocat"},
    })
    .to_string()
}

pub(crate) fn store_path(gateway: &TestGateway) -> PathBuf {
    gateway.config().store_path.clone()
}
