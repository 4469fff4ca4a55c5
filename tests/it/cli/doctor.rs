//! `doctor`, before gateways that are well and before those that are not.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use the_loop_gateway::devkit::slack::HelloPlan;
use the_loop_gateway::domain::{Clock, SystemClock};

use super::program::{Ended, Home, Running, only_for_its_owner};
use super::{CONFIG, ENV_FILE};
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, env};

const SEPARATE: &str = "listen: {port: 0, ingress: {host: 127.0.0.1, port: 0}}";
const SHARED: &str = "listen: {port: 0}";

/// A home with a config, its gateway and the fakes that it leads to.
struct Patient {
    fakes: Fakes,
    home: Home,
    running: Option<Running>,
    api: String,
    webhooks: String,
}

impl Patient {
    fn new(enabled: &[&str], listen: &str) -> Self {
        let patient = Self {
            fakes: Fakes::start(),
            home: Home::new(),
            running: None,
            api: String::new(),
            webhooks: String::new(),
        };
        patient
            .home
            .write(CONFIG, &patient.fakes.config(enabled, listen));
        let path = patient.home.write(ENV_FILE, &env(&[]));
        only_for_its_owner(&path);
        patient
    }

    fn start(mut self) -> Self {
        let running = self.home.start(&["run"]);
        let url = |line: String| line.split_whitespace().nth(2).unwrap().to_owned();
        self.api = url(running.line_with("listening on "));
        if std::fs::read_to_string(self.home.path(CONFIG))
            .unwrap()
            .contains("ingress:")
        {
            self.webhooks = url(running.line_with("for webhooks"));
        }
        self.running = Some(running);
        self
    }

    fn doctor(&self, more: &[&str]) -> Ended {
        self.home.run(&[&["doctor"], more].concat())
    }
}

/// Fails unless each of these is a line, apart from what follows it.
#[track_caller]
fn assert_lines(ended: &Ended, lines: &[&str]) {
    for line in lines {
        let is_there = ended.out.lines().any(|own| own.starts_with(line));
        assert!(is_there, "{line}\n{}{}", ended.out, ended.err);
    }
}

#[track_caller]
fn assert_none_wrong(ended: &Ended) {
    let wrong: Vec<&str> = ended
        .out
        .lines()
        .filter(|it| it.starts_with("[!]"))
        .collect();
    assert_eq!(wrong, Vec::<&str>::new());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn nothing_is_wrong_with_a_gateway_that_is_well_and_what_cannot_be_told_is_said() {
    let patient = Patient::new(&["github-webhook", "jira-webhook", "slack-http"], SEPARATE).start();
    let ended = patient.doctor(&[]);
    assert_none_wrong(&ended);
    let path = format!(
        "[?]  webhook         github-webhook takes a signed ping at {}/gh-webhook",
        patient.webhooks
    );
    assert_lines(
        &ended,
        &[
            "[ok] config          ",
            "[ok] secrets         THE_LOOP_GH_WEBHOOK_SECRET is set",
            "[ok] secrets         GH_PREVIOUS is not set",
            "[ok] lock            process ",
            "[ok] state root      ",
            "[ok] filesystem      ",
            "[ok] descriptors     ",
            "[ok] sqlite          3.",
            "[ok] store           ",
            "[ok] wal             ",
            "[ok] gateway         answers at http://127.0.0.1:",
            "[ok] gateway         takes traffic",
            "[ok] ingress         github-webhook is up",
            "[ok] listener        webhooks have one of their own",
            &path,
            "[?]  webhook         jira-webhook takes a signed ping",
            "[?]  webhook         slack-http takes a signed ping",
            "[?]  clock           ",
            "[ok] jira comments   none",
            "[ok] subjects        none is unattended",
        ],
    );
    for secret in crate::support::live::SECRETS {
        assert!(!ended.out.contains(secret.1), "{}", ended.out);
    }
    let json = patient.doctor(&["--format", "json"]);
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["ok"], true);
    let checks = report["checks"].as_array().unwrap();
    assert!(
        checks
            .iter()
            .any(|one| one["check"] == "wal" && one["mark"] == "ok")
    );
    // A ping is recorded, and never stored.
    let events = patient.home.run(&["status", "--format", "json"]);
    let status: Value = serde_json::from_str(&events.out).unwrap();
    assert_eq!(status["store"]["events"], 0);
}

#[test]
fn at_the_public_url_it_finds_whether_webhooks_arrive_and_whether_strangers_reach_the_api() {
    let patient = Patient::new(&["github-webhook", "jira-webhook", "slack-http"], SEPARATE).start();
    let ended = patient.doctor(&["--public-url", &patient.webhooks]);
    assert_none_wrong(&ended);
    assert_lines(
        &ended,
        &[
            "[ok] exposure        ",
            "[ok] webhook         github-webhook takes a signed ping at",
            "[ok] webhook         jira-webhook takes a signed ping at",
            "[ok] webhook         slack-http takes a signed ping at",
        ],
    );
    let misled = patient.doctor(&["--public-url", &patient.api]);
    assert_eq!(misled.code, Some(1));
    assert_lines(
        &misled,
        &[
            "[!]  exposure        ",
            "[!]  webhook         github-webhook at ",
            "[!]  webhook         slack-http at ",
        ],
    );
    assert!(
        misled.out.contains("answers 404; nothing answers there"),
        "{}",
        misled.out
    );
    assert!(
        misled.err.contains("checks found something wrong"),
        "{}",
        misled.err
    );
    let prefixed = patient.doctor(&["--public-url", &format!("{}/front/", patient.webhooks)]);
    assert!(
        prefixed.out.contains("/front/gh-webhook: answers 404"),
        "{}",
        prefixed.out
    );
}

#[test]
fn webhooks_on_the_listener_of_the_api_are_wrong() {
    let patient = Patient::new(&["github-webhook"], SHARED).start();
    let ended = patient.doctor(&["--public-url", &patient.api]);
    assert_eq!(ended.code, Some(1));
    assert_lines(
        &ended,
        &[
            "[!]  listener        webhooks share the API's",
            "[!]  exposure        ",
            "[ok] webhook         github-webhook takes a signed ping",
        ],
    );
}

#[test]
fn a_secret_that_the_gateway_does_not_have_is_found() {
    let patient = Patient::new(&["github-webhook"], SEPARATE).start();
    // As if the gateway had been started with other variables than this shell has.
    let other = [("THE_LOOP_GH_WEBHOOK_SECRET", "another one")];
    let ended = patient.home.start_with(&["doctor"], &other).end();
    assert_eq!(ended.code, Some(1));
    assert_lines(&ended, &["[!]  webhook         github-webhook at "]);
    assert!(
        ended.out.contains("answers 401; it has another secret"),
        "{}",
        ended.out
    );
}

#[test]
fn a_gateway_that_is_down_is_examined_by_its_files() {
    let patient = Patient::new(&["github-webhook"], SEPARATE);
    let before = patient.doctor(&[]);
    assert_eq!(before.code, Some(1));
    assert_lines(
        &before,
        &[
            "[ok] lock            nobody holds",
            "[?]  state root      ",
            "[?]  store           ",
            "[!]  gateway         it does not run",
            "[?]  webhook         github-webhook is not asked",
        ],
    );
    let mut patient = patient.start();
    let running = patient.running.take().unwrap();
    assert_eq!(running.terminate().code, Some(0));
    let after = patient.doctor(&[]);
    assert_lines(
        &after,
        &[
            "[ok] store           ",
            "[!]  gateway         it does not run",
        ],
    );
    let database = patient.home.path(".the-loop/state/gateway.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x5a);
    std::fs::write(&database, bytes).unwrap();
    let damaged = patient.doctor(&[]);
    assert_eq!(damaged.code, Some(1));
    assert_lines(&damaged, &["[!]  store           "]);
}

#[test]
fn a_config_that_cannot_be_used_and_secrets_that_are_not_set_are_named() {
    let home = Home::new();
    home.write(CONFIG, "version: '1'\nlisten: {port: high}\nunheard: 1\n");
    let wrong = home.run(&["doctor"]);
    assert_eq!(wrong.code, Some(1));
    assert_lines(&wrong, &["[!]  config          ", "[?]  the rest        "]);
    for place in ["listen.port", "unheard"] {
        assert!(wrong.out.contains(place), "{}", wrong.out);
    }
    home.write(CONFIG, "version: '1'\ngithub: {webhook: {enabled: true}}\n");
    let unset = home.run(&["doctor"]);
    assert_lines(
        &unset,
        &[
            "[!]  config          repositories is empty",
            "[!]  secrets         THE_LOOP_GH_WEBHOOK_SECRET is not set",
        ],
    );
}

#[test]
fn a_state_root_that_cannot_be_made_is_wrong() {
    let home = Home::new();
    home.write("in-the-way", "");
    for root in ["in-the-way", "in-the-way/state"] {
        home.write(
            CONFIG,
            &format!("state: {{root: ../{root}}}\nlisten: {{port: 0}}\n"),
        );
        let ended = home.run(&["doctor"]);
        assert_eq!(ended.code, Some(1), "{}", ended.err);
        let path = home.path(root).display().to_string();
        let line = format!("[!]  state root      {path} cannot hold a store: ");
        assert_lines(&ended, &[&line]);
        assert!(
            ended.out.contains("in-the-way is no directory"),
            "{}",
            ended.out
        );
    }
}

#[test]
fn the_providers_are_asked_what_they_think_of_the_tokens() {
    let enabled = ["github-poll", "jira-poll", "slack-socket"];
    let patient = Patient::new(&enabled, SEPARATE);
    let (github, slack) = (&patient.fakes.github, &patient.fakes.slack);
    github.limit(4_321, 600);
    let accepted = patient.doctor(&[]);
    assert_lines(
        &accepted,
        &[
            "[ok] token           GITHUB_TOKEN at ",
            "[ok] token           JIRA_TOKEN at ",
            "[ok] token           THE_LOOP_SLACK_APP_TOKEN is accepted by Slack",
            "[ok] token           THE_LOOP_SLACK_BOT_TOKEN is accepted by Slack",
        ],
    );
    assert!(
        accepted.out.contains("4,321 of 5,000 requests are left"),
        "{}",
        accepted.out
    );
    // The fakes' clocks stand still, long ago.
    assert_lines(&accepted, &["[!]  clock           "]);
    github.limit(3, 600);
    slack.answer_call(the_loop_gateway::devkit::slack::Refused::Code(
        "token_revoked",
    ));
    let refused = patient.doctor(&[]);
    assert_eq!(refused.code, Some(1));
    assert_lines(
        &refused,
        &[
            "[!]  token           GITHUB_TOKEN at ",
            "[!]  token           THE_LOOP_SLACK_BOT_TOKEN: Slack says token_revoked",
        ],
    );
    github.require_token("another");
    let refused = patient.doctor(&[]);
    assert!(refused.out.contains("it is refused"), "{}", refused.out);
    for secret in crate::support::live::SECRETS {
        assert!(!refused.out.contains(secret.1), "{}", refused.out);
    }
}

#[test]
fn a_second_listener_of_the_slack_app_is_found() {
    let patient = Patient::new(&["slack-socket"], SEPARATE);
    patient.fakes.slack.greet(HelloPlan {
        num_connections: Some(2),
        ..HelloPlan::default()
    });
    let patient = patient.start();
    wait_until("the socket", || {
        let status = patient.home.run(&["status"]);
        status
            .out
            .contains("socket      up; Slack counts 2 connections of its app")
    });
    let split = patient.doctor(&[]);
    assert_lines(
        &split,
        &[
            "[ok] ingress         slack-socket is up",
            "[?]  socket          Slack counted 2 connections",
        ],
    );
}

#[test]
fn jira_comments_that_are_lost_for_want_of_their_twin_are_found() {
    let patient = Patient::new(&["jira-webhook"], SEPARATE);
    let now = SystemClock.now();
    let hour = i64::try_from(Duration::from_secs(3600).as_millis()).unwrap();
    let mut log = String::new();
    for ago in [3, 2] {
        let ts = now.plus(-ago * hour);
        writeln!(
            log,
            "{{\"ts\":\"{ts}\",\"source\":\"gateway\",\"event\":\"gateway.dropped\",\
             \"provider\":\"jira\",\"transport\":\"webhook\",\"reason\":\"keyless\",\
             \"kind\":\"comment_created\"}}"
        )
        .unwrap();
    }
    patient
        .home
        .write(".the-loop/state/logs/events.jsonl", &log);
    let ended = patient.doctor(&[]);
    assert_lines(
        &ended,
        &["[!]  jira comments   2 comments of the last 7 days came without the issue's key, and 2"],
    );
}
