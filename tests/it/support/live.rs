//! A gateway that reads its configuration from files, as the real one does, and fakes of the
//! providers that the files lead to. What a test edits is what an operator would.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use actix_rt::System;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use the_loop_gateway::actors::AdapterTiming;
use the_loop_gateway::actors::slack_socket::Timing;
use the_loop_gateway::app::{Intervals, Parts, Stopped};
use the_loop_gateway::config::{Environment, Search, load};
use the_loop_gateway::devkit::fake_github::FakeGitHub;
use the_loop_gateway::devkit::fake_jira::FakeJira;
use the_loop_gateway::devkit::slack::{FakeSlack, Seen};
use the_loop_gateway::domain::Clock;
use the_loop_gateway::providers::signature::{sign_github, sign_jira, sign_slack};

use super::clock::MovedClock;
use super::gateway::{Running, assert_holds_none_of, parts, run, wait_until};
use super::{Call, Reply};

/// Every ingress.
pub(crate) const ALL: [&str; 6] = [
    "github-poll",
    "github-webhook",
    "jira-poll",
    "jira-webhook",
    "slack-http",
    "slack-socket",
];

/// Every variable, with a value that is nowhere else.
pub(crate) const SECRETS: [(&str, &str); 8] = [
    ("THE_LOOP_GH_WEBHOOK_SECRET", "gh-webhook-8d1f4a"),
    ("GITHUB_TOKEN", "ghp-poll-77c0b2"),
    ("THE_LOOP_JIRA_WEBHOOK_SECRET", "jira-webhook-31e9d7"),
    ("JIRA_EMAIL", "robot-55aa10@acme.example"),
    ("JIRA_TOKEN", "jira-poll-0f6e21"),
    ("THE_LOOP_SLACK_APP_TOKEN", "xapp-socket-92b3c4"),
    ("THE_LOOP_SLACK_BOT_TOKEN", "xoxb-reads-4410fe"),
    ("SLACK_SIGNING_SECRET", "slack-signing-6be5a0"),
];

/// The providers.
pub(crate) struct Fakes {
    pub(crate) slack: FakeSlack,
    pub(crate) github: FakeGitHub,
    /// An Enterprise Server beside github.com.
    pub(crate) enterprise: FakeGitHub,
    /// A Cloud site.
    pub(crate) jira: FakeJira,
    /// A Data Center.
    pub(crate) data_center: FakeJira,
    system: System,
}

impl Drop for Fakes {
    fn drop(&mut self) {
        self.system.stop();
    }
}

impl Fakes {
    /// Starts them on a thread of their own, which a test may not keep from answering.
    pub(crate) fn start() -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let system = System::new();
            system.block_on(async {
                let fakes = Self {
                    slack: FakeSlack::start().unwrap(),
                    github: FakeGitHub::start().unwrap(),
                    enterprise: FakeGitHub::start().unwrap(),
                    jira: FakeJira::start_cloud().unwrap(),
                    data_center: FakeJira::start_data_center().unwrap(),
                    system: System::current(),
                };
                sender.send(fakes).unwrap();
            });
            system.run().unwrap();
        });
        let fakes = receiver.recv().unwrap();
        fakes.github.create("octo/repo");
        fakes.enterprise.create("octo/other");
        fakes
    }

    /// A configuration with these ingresses enabled, and more lines.
    pub(crate) fn config(&self, enabled: &[&str], more: &str) -> String {
        let on = |name: &str| enabled.contains(&name);
        let (slack, github) = (self.slack.api_base(), self.github.api_base());
        let jira = self.jira.api_base();
        format!(
            "version: '1'
env: {{file: the-loop.env}}
state: {{root: state}}
repositories: [octo/repo]
github:
  webhook: {{enabled: {}, previousSecretEnv: GH_PREVIOUS}}
  poll: {{enabled: {}, intervalSeconds: 1, apiBase: '{github}', ci: {{enabled: false}}}}
jira:
  site: acme.atlassian.net
  projects: [PROJ]
  webhook: {{enabled: {}}}
  poll: {{enabled: {}, intervalSeconds: 1, apiBase: '{jira}', emailEnv: JIRA_EMAIL, tokenEnv: JIRA_TOKEN}}
slack:
  apiBase: '{slack}'
  socket: {{enabled: {}, catchUpSeconds: 0}}
  http: {{enabled: {}}}
{more}
",
            on("github-webhook"),
            on("github-poll"),
            on("jira-webhook"),
            on("jira-poll"),
            on("slack-socket"),
            on("slack-http"),
        )
    }

    /// How often the socket was opened.
    pub(crate) fn sockets_opened(&self) -> u64 {
        self.slack.seen().opened
    }

    /// Waits until exactly so many sockets are open.
    pub(crate) fn wait_for_sockets(&self, count: usize) {
        wait_until(&format!("{count} sockets"), || {
            self.slack.seen().live.len() == count
        });
    }

    /// Fails when there were ever two sockets at once.
    pub(crate) fn assert_never_two(&self) -> Seen {
        let seen = self.slack.seen();
        assert!(seen.live_max <= 1, "{} sockets at once", seen.live_max);
        seen
    }
}

/// The lines of an env file, with some variables in place of the usual ones; an empty value leaves
/// a variable out.
pub(crate) fn env(instead: &[(&str, &str)]) -> String {
    let mut values: BTreeMap<&str, &str> = SECRETS.into();
    values.extend(instead.iter().copied());
    values.retain(|_, value| !value.is_empty());
    values
        .iter()
        .fold(String::new(), |mut text, (name, value)| {
            writeln!(text, "{name}={value}").unwrap();
            text
        })
}

/// A running gateway over files. Dropping it stops it, and looks for secrets where none may be.
pub(crate) struct LiveGateway {
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) port: u16,
    running: Option<Running>,
    directory: tempfile::TempDir,
}

impl LiveGateway {
    /// A gateway with these files, which looks at them every 20 ms.
    pub(crate) fn start(config: &str, env: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut gateway = Self {
            clock: Arc::default(),
            port: 0,
            running: None,
            directory,
        };
        gateway.edit_env(env);
        gateway.edit(config);
        gateway.run();
        gateway
    }

    /// Starts it, or starts it again.
    pub(crate) fn run(&mut self) {
        let path = self.path("gateway-config.yaml");
        let search = Search {
            explicit: Some(path),
            directory: self.directory.path().to_owned(),
        };
        let home = self.directory.path().display().to_string();
        let loaded = load(&search, &Environment::given([("HOME", home.as_str())])).unwrap();
        let timing = Timing {
            catch_up_gap: Duration::ZERO,
            settle: Duration::ZERO,
            backoff_min: Duration::from_millis(20),
            ..Timing::default()
        };
        let parts = Parts {
            intervals: Intervals {
                reload: Duration::from_millis(20),
                ..parts(&self.clock).intervals
            },
            adapters: AdapterTiming {
                socket: timing,
                ..AdapterTiming::default()
            },
            port: Some(0),
            ..parts(&self.clock)
        };
        let running = run(loaded, parts).unwrap();
        self.port = running.port;
        self.running = Some(running);
    }

    /// Stops it in good order.
    pub(crate) fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.stop("test");
            assert_eq!(running.thread.join().unwrap(), Stopped::InOrder);
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.path("state")
    }

    /// Replaces the config file at once, as a careful editor does.
    pub(crate) fn edit(&self, text: &str) {
        replace(&self.path("gateway-config.yaml"), text);
    }

    /// Replaces the env file at once.
    pub(crate) fn edit_env(&self, text: &str) {
        replace(&self.path("the-loop.env"), text);
    }

    /// Replaces the config file and waits until it is in force.
    pub(crate) fn reload(&self, text: &str) -> Value {
        let before = self.records("config.reloaded").len();
        self.edit(text);
        self.wait_for_records("config.reloaded", before + 1)
            .pop()
            .unwrap()
    }

    /// Replaces the env file and waits until it is in force.
    pub(crate) fn reload_env(&self, text: &str) -> Value {
        let before = self.records("config.reloaded").len();
        self.edit_env(text);
        self.wait_for_records("config.reloaded", before + 1)
            .pop()
            .unwrap()
    }

    // What it says.

    pub(crate) fn health(&self) -> Value {
        Call::new(self.port, "GET", "/api/v1/gateway/health")
            .send()
            .assert(200)
    }

    /// The word of an ingress.
    pub(crate) fn state_of(&self, ingress: &str) -> String {
        let health = self.health();
        health["ingresses"][ingress].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, ingress: &str, state: &str) {
        wait_until(
            &format!("{ingress} to be {state}: {}", self.health()),
            || self.state_of(ingress) == state,
        );
    }

    /// Waits until these ingresses are up and all others are disabled.
    #[track_caller]
    pub(crate) fn wait_for_exactly(&self, up: &[&str]) {
        let expected: BTreeMap<&str, &str> = ALL
            .iter()
            .map(|name| (*name, if up.contains(name) { "up" } else { "disabled" }))
            .collect();
        let mut seen = Value::Null;
        wait_until(&format!("exactly {up:?}"), || {
            seen = self.health();
            seen["ingresses"] == json!(expected)
        });
    }

    /// The records of a kind so far.
    pub(crate) fn records(&self, event: &str) -> Vec<Value> {
        let path = self.root().join("logs/events.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|record| record["event"] == event)
            .collect()
    }

    /// Waits until there are so many records of a kind.
    #[track_caller]
    pub(crate) fn wait_for_records(&self, event: &str, count: usize) -> Vec<Value> {
        let mut found = Vec::new();
        wait_until(&format!("{count} records of {event}"), || {
            found = self.records(event);
            found.len() >= count
        });
        found
    }

    /// The texts of one column, from outside.
    #[expect(clippy::disallowed_methods, reason = "the test looks from outside")]
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = self.root().join("gateway.db");
        let connection = Connection::open_with_flags(path, flags).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    /// The delivery ids of all stored events.
    pub(crate) fn stored(&self) -> Vec<String> {
        self.texts("SELECT delivery_id FROM events ORDER BY id")
    }

    // What providers and instances send.

    pub(crate) fn api(&self, method: &str, path: &str, body: &Value) -> Reply {
        Call::new(self.port, method, &format!("/api/v1/gateway{path}"))
            .json(body)
            .send()
    }

    /// A GitHub delivery, signed with a secret.
    pub(crate) fn github(&self, secret: &str, id: &str, body: &str) -> Call {
        Call::new(self.port, "POST", "/gh-webhook")
            .header("X-GitHub-Event", "issue_comment")
            .header("X-GitHub-Delivery", id)
            .header("X-Hub-Signature-256", sign_github(secret, body.as_bytes()))
            .header("Content-Type", "application/json")
            .body(body)
    }

    /// A Jira delivery.
    pub(crate) fn jira(&self, id: &str, body: &str) -> Call {
        Call::new(self.port, "POST", "/jira-webhook")
            .header("X-Atlassian-Webhook-Identifier", id)
            .header(
                "X-Hub-Signature",
                sign_jira(secret("THE_LOOP_JIRA_WEBHOOK_SECRET"), body.as_bytes()),
            )
            .header("Content-Type", "application/json")
            .body(body)
    }

    /// An event of Slack, signed now.
    pub(crate) fn slack(&self, body: &str) -> Call {
        let now = self.clock.now().0.div_euclid(1000);
        let signature = sign_slack(secret("SLACK_SIGNING_SECRET"), now, body.as_bytes());
        Call::new(self.port, "POST", "/slack/events")
            .header("X-Slack-Request-Timestamp", now)
            .header("X-Slack-Signature", signature)
            .header("Content-Type", "application/json")
            .body(body)
    }
}

/// The usual value of a variable.
pub(crate) fn secret(name: &str) -> &'static str {
    let found = SECRETS.into_iter().find(|(known, _)| *known == name);
    found.unwrap().1
}

fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(&next, path).unwrap();
}

impl Drop for LiveGateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Some(running) = &self.running {
                running.stop.stop("test");
            }
            return;
        }
        let values = SECRETS.map(|(_, value)| value);
        if self.running.is_some() {
            let answers = [
                Call::new(self.port, "GET", "/api/v1/gateway/health").send(),
                self.github("wrong", "guid-of-nobody", "{}").send(),
                Call::new(self.port, "POST", "/slack/events").send(),
                Call::new(self.port, "GET", "/metrics").send(),
            ];
            for answer in answers {
                for value in values {
                    assert!(!answer.text().contains(value), "{}", answer.text());
                }
            }
        }
        self.stop();
        assert_holds_none_of(&self.root(), &values);
    }
}
