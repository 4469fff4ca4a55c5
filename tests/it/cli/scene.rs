//! A running program with one repository, and what instances and GitHub say to it.

use serde_json::{Value, json};
use the_loop_gateway::providers::signature::sign_github;

use super::program::{Ended, Home, Running};
use crate::support::gateway::comment_on;
use crate::support::{Call, Reply};

const SECRET: &str = "a secret of this test";

/// A gateway of `octo/repo` on which one strike is the last.
pub(super) struct Scene {
    pub(super) home: Home,
    pub(super) url: String,
    pub(super) port: u16,
    running: Option<Running>,
}

impl Scene {
    pub(super) fn start() -> Self {
        let home = Home::new();
        home.write(
            ".the-loop/gateway-config.yaml",
            "version: '1'\n\
             env: {file: the-loop.env}\n\
             listen: {port: 0}\n\
             store: {maxAttempts: 1}\n\
             repositories: [octo/repo]\n\
             github: {webhook: {enabled: true}}\n",
        );
        let variable = format!("THE_LOOP_GH_WEBHOOK_SECRET={SECRET}\n");
        home.write(".the-loop/the-loop.env", &variable);
        let mut scene = Self {
            home,
            url: String::new(),
            port: 0,
            running: None,
        };
        scene.start_again();
        scene
    }

    pub(super) fn start_again(&mut self) {
        let running = self.home.start(&["run"]);
        let line = running.line_with("listening on ");
        line.split_whitespace()
            .nth(2)
            .unwrap()
            .clone_into(&mut self.url);
        let (_, port) = self.url.rsplit_once(':').unwrap();
        self.port = port.parse().unwrap();
        self.running = Some(running);
    }

    /// SIGKILL: nothing of it runs any more when this returns.
    pub(super) fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Stops it in good order.
    pub(super) fn stop(&mut self) {
        let ended = self.running.take().unwrap().terminate();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }

    /// A verb, asked of the running gateway.
    pub(super) fn ask(&self, arguments: &[&str]) -> Ended {
        self.home.run(&[arguments, &["--url", &self.url]].concat())
    }

    /// What a verb writes that must succeed.
    #[track_caller]
    pub(super) fn told(&self, arguments: &[&str]) -> String {
        let ended = self.ask(arguments);
        assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
        ended.out
    }

    /// What a verb writes as JSON.
    #[track_caller]
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        let told = self.told(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"))
    }

    /// A signed comment on `octo/repo#<number>`; `guid-<id>` is its delivery id.
    pub(super) fn comment(&self, number: u64, id: u64) -> Reply {
        comment(self.port, number, id).send()
    }

    pub(super) fn api(&self, method: &str, path: &str, body: &Value) -> Value {
        let call = Call::new(self.port, method, &format!("/api/v1/gateway{path}"));
        call.json(body).send().assert(200)
    }

    pub(super) fn claim(&self, instance: &str, number: u64) {
        let claim = json!({
            "instance": instance,
            "subject": format!("loop-github-octo-repo-{number}"),
            "role": "driver",
        });
        self.api("PUT", "/claims", &claim);
    }

    /// A fetch of the one run of an instance.
    pub(super) fn fetch(&self, instance: &str, more: &Value) -> Value {
        let mut body = json!({"instance": instance, "peer": "peer", "run": "run-1"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.api("POST", "/fetch", &body)
    }

    /// Says of what was fetched last what became of it.
    pub(super) fn commit(&self, instance: &str, seq: i64, outcome: &str, detail: &str) {
        let commit = json!({
            "instance": instance,
            "peer": "peer",
            "run": "run-1",
            "commit": [{"seq": seq, "outcome": outcome, "detail": detail}],
        });
        self.api("POST", "/commit", &commit);
    }

    /// Fetches one delivery and fails it, which is its death here; tells its number.
    pub(super) fn die(&self, instance: &str) -> i64 {
        let fetched = self.fetch(instance, &json!({"max": 1, "cursor": 0}));
        let seq = fetched["deliveries"][0]["seq"].as_i64().unwrap();
        self.commit(instance, seq, "failed", "no room");
        seq
    }
}

/// A signed comment on `octo/repo#<number>`.
pub(super) fn comment(port: u16, number: u64, id: u64) -> Call {
    signed(port, id, &comment_on(number, id, "go on"))
}

/// A signed delivery of a comment.
pub(super) fn signed(port: u16, id: u64, body: &str) -> Call {
    Call::new(port, "POST", "/gh-webhook")
        .header("X-GitHub-Event", "issue_comment")
        .header("X-GitHub-Delivery", format!("guid-{id}"))
        .header("X-Hub-Signature-256", sign_github(SECRET, body.as_bytes()))
        .header("Content-Type", "application/json")
        .body(body)
}
