//! Where no secret may ever be: the store, the event log, the console, answers, panics.
//!
//! The program is brought into as many states as there are in which somebody could be tempted to
//! show one: everything works, everything is refused, the configuration is wrong, the console is
//! as talkative as it can be.

use std::any::Any;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::json;
use the_loop_gateway::config::{Environment, LoadedConfig, Search, load};
use the_loop_gateway::devkit::fake_github::Trouble;
use the_loop_gateway::devkit::slack::{Envelope, OpenAnswer, Refused};
use the_loop_gateway::http::HttpSettings;
use the_loop_gateway::providers::signature::{sign_github, sign_jira, sign_slack};

use crate::cli::program::{Ended, Home, Running};
use crate::support::gateway::{assert_holds_none_of, wait_until};
use crate::support::live::{ALL, Fakes, SECRETS, env, secret};
use crate::support::{Call, comment_on};

const CONFIG: &str = ".the-loop/gateway-config.yaml";
const ENV_FILE: &str = ".the-loop/the-loop.env";
const STATE: &str = ".the-loop/state";
const REPO: &str = "octo/repo";
/// `JIRA_EMAIL:JIRA_TOKEN` as a basic credential carries it.
const BASIC: &str = "cm9ib3QtNTVhYTEwQGFjbWUuZXhhbXBsZTpqaXJhLXBvbGwtMGY2ZTIx";
/// Which parts of the program may speak, and how much: all of them, everything.
const FILTER: &str = "RUST_LOG=trace\n";

/// Every secret, in every form in which it goes over a wire.
fn forbidden() -> Vec<String> {
    let values = SECRETS.iter().map(|(_, value)| (*value).to_owned());
    let encoded = |value: &str| form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let all: Vec<String> = values
        .flat_map(|value| [encoded(&value), value])
        .chain([BASIC.to_owned()])
        .collect();
    all
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    for value in forbidden() {
        let at = text.find(&value);
        let around = at.map(|at| text[at.saturating_sub(300)..at].to_owned());
        assert_eq!(around, None, "{what} shows {value}");
    }
}

/// The program with every ingress on, and everything that it ever said.
struct Program {
    home: Home,
    fakes: Fakes,
    running: Running,
    port: u16,
}

impl Program {
    fn config(fakes: &Fakes) -> String {
        let rooms = "  rooms: [{channel: C0ROOM, ref: 'github:octo/repo#7'}]";
        fakes.config(&ALL, &format!("{rooms}\nlisten: {{port: 0}}"))
    }

    fn start() -> Self {
        let (fakes, home) = (Fakes::start(), Home::new());
        home.write(CONFIG, &Self::config(&fakes));
        home.write(ENV_FILE, &(FILTER.to_owned() + &env(&[])));
        let running = home.start(&["run"]);
        let line = running.line_with("listening on ");
        let (_, port) = line.trim().rsplit_once(':').unwrap();
        let port = port.trim_end_matches('/').parse().unwrap();
        Self {
            home,
            fakes,
            running,
            port,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends a request; whatever is answered is clean.
    fn ask(&self, call: &Call) -> u16 {
        let reply = call.send();
        assert_clean("an answer", &reply.text());
        let headers = format!("{:?}", reply.headers);
        assert_clean("a header", &headers);
        reply.status
    }

    fn call(&self, method: &str, target: &str) -> Call {
        Call::new(self.port, method, target)
    }

    fn health(&self) -> serde_json::Value {
        let health = self
            .call("GET", "/api/v1/gateway/health")
            .send()
            .assert(200);
        assert_clean("health", &health.to_string());
        health
    }

    fn wait_for_all(&self, state: &str) {
        wait_until(&format!("all to be {state}: {}", self.health()), || {
            let health = self.health();
            ALL.iter().all(|name| health["ingresses"][name] == state)
        });
    }

    /// One event over each ingress.
    fn everything_works(&self) {
        self.wait_for_all("up");
        let number = self.fakes.github.open_issue(REPO, "octocat", &[]);
        self.fakes.github.comment(REPO, number, "octocat", "hello");
        self.fakes
            .jira
            .create("PROJ", "ann", &["the-loop:auto-execute"]);
        let message =
            json!({"type": "message", "user": "U1", "text": "hello", "ts": "1700000000.1"});
        self.fakes
            .slack
            .push(&Envelope::message("C0ROOM", &message));
        let body = comment_on(99, 99, "hello");
        assert_eq!(
            self.ask(&self.github(secret("THE_LOOP_GH_WEBHOOK_SECRET"), &body)),
            202
        );
        let body = json!({"webhookEvent": "jira:issue_updated", "timestamp": 1,
            "issue": {"id": "1", "key": "PROJ-99", "self": "https://acme.atlassian.net/x"}});
        let key = secret("THE_LOOP_JIRA_WEBHOOK_SECRET");
        assert_eq!(self.ask(&self.jira(key, &body.to_string())), 202);
        let message =
            json!({"type": "message", "user": "U1", "text": "again", "ts": "1700000000.2"});
        let body = Envelope::message("C0ROOM", &message).payload;
        assert_eq!(
            self.ask(&self.slack(secret("SLACK_SIGNING_SECRET"), &body)),
            200
        );
        wait_until("all of it is stored", || {
            self.health()["store"]["events"] == 6
        });
    }

    fn github(&self, key: &str, body: &str) -> Call {
        self.call("POST", "/gh-webhook")
            .header("X-GitHub-Event", "issue_comment")
            .header("X-GitHub-Delivery", "guid-1")
            .header("X-Hub-Signature-256", sign_github(key, body.as_bytes()))
            .header("Content-Type", "application/json")
            .body(body)
    }

    fn jira(&self, key: &str, body: &str) -> Call {
        self.call("POST", "/jira-webhook")
            .header("X-Hub-Signature", sign_jira(key, body.as_bytes()))
            .header("Content-Type", "application/json")
            .body(body)
    }

    fn slack(&self, key: &str, body: &str) -> Call {
        let now = jiff::Timestamp::now().as_second();
        self.call("POST", "/slack/events")
            .header("X-Slack-Request-Timestamp", now)
            .header("X-Slack-Signature", sign_slack(key, now, body.as_bytes()))
            .header("Content-Type", "application/json")
            .body(body)
    }

    /// Requests that are refused, also such that carry secrets where they do not belong.
    fn strangers_and_blunders(&self) {
        let body = comment_on(1, 1, "hello");
        for call in [
            self.github("wrong", &body),
            self.jira("wrong", &body),
            self.slack("wrong", &body),
            self.github(secret("THE_LOOP_GH_WEBHOOK_SECRET"), "no json"),
            self.slack(secret("SLACK_SIGNING_SECRET"), "[]"),
        ] {
            assert!((400..500).contains(&self.ask(&call)));
        }
        let everything: Vec<&str> = SECRETS.iter().map(|(_, value)| *value).collect();
        let token = everything.join(",");
        for target in [
            "/api/v1/gateway/nothing",
            "/api/v1/gateway/health",
            "/api/v1/gateway/ready",
            "/api/v1/gateway/subjects",
            "/api/v1/gateway/queues",
            "/api/v1/gateway/instances",
            "/api/v1/gateway/events",
            "/api/v1/gateway/dead",
            "/api/v1/gateway/fetch",
            "/metrics",
            "/",
            "/gh-webhook",
            "/jira-webhook",
            "/slack/events",
        ] {
            let plain = self.call("GET", target);
            self.ask(&plain.header("Authorization", format!("Bearer {token}")));
            self.ask(&self.call("POST", target).json(&json!({})));
            self.ask(&self.call("DELETE", target).header("Cookie", &token));
        }
    }

    /// Every provider refuses the tokens, hangs up, or leads elsewhere.
    fn everything_is_refused(&self) {
        let Self { fakes, .. } = self;
        for trouble in [
            Trouble::Redirect(302, "http://127.0.0.1:9/elsewhere".to_owned()),
            Trouble::Body("[{"),
            Trouble::Cut,
        ] {
            fakes.github.trouble("/repos", Some(2), trouble);
        }
        fakes.github.require_token("another");
        fakes.jira.require_authorization("Basic another", true);
        for _ in 0..3 {
            let refused = Refused::Code("invalid_auth");
            fakes.slack.answer_open(OpenAnswer::Refused(refused));
        }
        fakes.slack.answer_call(Refused::Code("invalid_auth"));
        fakes.slack.close();
        let polls_and_socket = ["github-poll", "jira-poll", "slack-socket"];
        wait_until("all of it has failed", || {
            let health = self.health();
            polls_and_socket
                .iter()
                .all(|name| health["ingresses"][name] == "failed")
        });
    }

    /// A secret was pasted where the name of a variable belongs, while it runs.
    fn a_bad_edit(&self) {
        let pasted = Self::config(&self.fakes);
        let app_token = secret("THE_LOOP_SLACK_APP_TOKEN");
        let pasted = pasted
            .replace(
                "tokenEnv: JIRA_TOKEN",
                &format!("tokenEnv: {}", secret("JIRA_TOKEN")),
            )
            .replace(
                "catchUpSeconds: 0",
                &format!("catchUpSeconds: 0, appTokenEnv: {app_token}"),
            );
        self.home.write(CONFIG, &pasted);
        let log = self.home.path(STATE).join("logs/events.jsonl");
        wait_until("the refusal is recorded", || {
            std::fs::read_to_string(&log)
                .unwrap()
                .contains("config.reload-failed")
        });
    }
}

/// A verb; what it writes is clean, whatever comes of it.
fn verb(home: &Home, arguments: &[&str]) -> Ended {
    let ended = home.run(arguments);
    assert_clean(&format!("{arguments:?}"), &(ended.out.clone() + &ended.err));
    ended
}

#[test]
fn no_secret_is_shown_whatever_happens() {
    let program = Program::start();
    program.everything_works();
    let url = program.url();
    for name in ["subjects", "queues", "instances"] {
        let listed = verb(&program.home, &[name, "--url", &url, "--format", "json"]);
        assert_eq!(listed.code, Some(0), "{}", listed.err);
    }
    let sent = verb(&program.home, &["send", "github", "ping", "--url", &url]);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    program.strangers_and_blunders();
    program.everything_is_refused();
    program.a_bad_edit();
    for format in ["table", "json"] {
        let check = verb(&program.home, &["check", "--format", format]);
        assert_eq!(check.code, Some(2));
    }
    assert_eq!(verb(&program.home, &["run"]).code, Some(2));
    program.home.write(CONFIG, &Program::config(&program.fakes));
    assert_eq!(verb(&program.home, &["check"]).code, Some(0));
    let Program { home, running, .. } = program;
    let ended = running.terminate();
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("TRACE"), "the console is not talkative");
    assert_clean("the console", &(ended.out + &ended.err));
    let forbidden = forbidden();
    let forbidden: Vec<&str> = forbidden.iter().map(String::as_str).collect();
    assert_holds_none_of(&home.path(STATE), &forbidden);
    let log = std::fs::read_to_string(home.path(STATE).join("logs/events.jsonl")).unwrap();
    for record in ["ingress.changed", "config.reload-failed", "gateway.dropped"] {
        assert!(log.contains(record), "{record} was not provoked");
    }
}

/// What a panic over a value would print: its `Debug` output is the message.
fn panic_over(value: impl Debug) -> String {
    let over = || panic!("not what was expected: {value:#?} {value:?}");
    let panicked: Box<dyn Any + Send> = catch_unwind(AssertUnwindSafe(over)).unwrap_err();
    *panicked.downcast::<String>().unwrap()
}

fn loaded(directory: &Path) -> LoadedConfig {
    let fakes = Fakes::start();
    std::fs::write(directory.join("c.yaml"), fakes.config(&ALL, "")).unwrap();
    std::fs::write(directory.join("the-loop.env"), env(&[])).unwrap();
    let search = Search {
        explicit: Some(directory.join("c.yaml")),
        directory: directory.to_owned(),
    };
    load(&search, &Environment::given([("HOME", "/nowhere")])).unwrap()
}

#[test]
fn no_panic_over_anything_that_holds_a_secret_shows_it() {
    let directory = tempfile::tempdir().unwrap();
    let loaded = loaded(directory.path());
    let settings = HttpSettings::new(&loaded.config, &loaded.environment);
    let secrets = loaded.config.github.webhook.secrets(&loaded.environment);
    assert_eq!(
        secrets[0].expose(),
        Some(secret("THE_LOOP_GH_WEBHOOK_SECRET"))
    );
    for text in [
        panic_over(&secrets),
        panic_over(&settings),
        panic_over(&loaded.environment),
        panic_over(&loaded),
    ] {
        assert!(text.starts_with("not what was expected"), "{text}");
        assert_clean("a panic", &text);
    }
}
