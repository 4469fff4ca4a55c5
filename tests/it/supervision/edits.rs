//! What an operator changes, and what comes of it.

use std::fs;

use serde_json::{Value, json};
use the_loop_gateway::devkit::slack::Envelope;

use crate::support::comment_on;
use crate::support::gateway::wait_until;
use crate::support::live::{ALL, Fakes, LiveGateway, env, secret};

const GITHUB_SECRET: &str = "THE_LOOP_GH_WEBHOOK_SECRET";

/// All ingresses but some.
fn but(names: &[&str]) -> Vec<&'static str> {
    let rest = ALL.into_iter().filter(|name| !names.contains(name));
    rest.collect()
}

/// Scenario: any subset of the transports runs from one file, and an edit starts and stops exactly
/// what it says.
#[test]
fn any_subset_runs_and_an_edit_starts_and_stops_exactly_that() {
    let fakes = Fakes::start();
    let gateway = LiveGateway::start(&fakes.config(&[], ""), &env(&[]));
    gateway.wait_for_exactly(&[]);
    assert_eq!(gateway.health()["ok"], true);
    assert!(gateway.records("ingress.changed").is_empty());
    for name in ALL {
        gateway.reload(&fakes.config(&[name], ""));
        gateway.wait_for_exactly(&[name]);
    }
    gateway.reload(&fakes.config(&ALL, ""));
    gateway.wait_for_exactly(&ALL);
    let opened = fakes.sockets_opened();
    for name in but(&["slack-socket"]) {
        let rest = but(&[name]);
        gateway.reload(&fakes.config(&rest, ""));
        gateway.wait_for_exactly(&rest);
    }
    assert_eq!(fakes.sockets_opened(), opened, "the socket was not meant");
    gateway.reload(&fakes.config(&but(&["slack-socket"]), ""));
    fakes.wait_for_sockets(0);
    gateway.wait_for_exactly(&but(&["slack-socket"]));
    assert_eq!(gateway.health()["slack"]["socket"], "off");
    gateway.reload(&fakes.config(&[], ""));
    gateway.wait_for_exactly(&[]);
    fakes.assert_never_two();
}

/// Scenario: a route that is switched off answers 404, and nothing else changes.
#[test]
fn a_route_answers_as_the_file_says() {
    let fakes = Fakes::start();
    let gateway = LiveGateway::start(&fakes.config(&["github-webhook"], ""), &env(&[]));
    let send = |id: &str, comment| {
        let body = comment_on(1, comment, "hello");
        gateway.github(secret(GITHUB_SECRET), id, &body).send()
    };
    send("guid-1", 1).assert(202);
    gateway.reload(&fakes.config(&["jira-webhook"], ""));
    send("guid-2", 2).assert_error(404, "not-found");
    gateway.jira("jira-1", "{}").send().assert(202);
    gateway.reload(&fakes.config(&["github-webhook"], ""));
    send("guid-3", 3).assert(202);
    assert_eq!(gateway.stored(), ["guid-1", "guid-3"]);
}

/// Scenario: a secret is missing; that ingress says which variable, and nothing else is off.
#[test]
fn a_missing_secret_names_its_variable_and_keeps_nothing_else_off() {
    let fakes = Fakes::start();
    let config = fakes.config(&ALL, "");
    let no_app_token = env(&[("THE_LOOP_SLACK_APP_TOKEN", "")]);
    let gateway = LiveGateway::start(&config, &no_app_token);
    assert_missing(&gateway, "slack-socket", "THE_LOOP_SLACK_APP_TOKEN");
    assert_eq!(gateway.health()["slack"]["socket"], "down");
    assert_eq!(fakes.sockets_opened(), 0);
    gateway.reload_env(&env(&[]));
    gateway.wait_for_exactly(&ALL);
    for (variable, ingress) in [
        (GITHUB_SECRET, "github-webhook"),
        ("GITHUB_TOKEN", "github-poll"),
        ("THE_LOOP_JIRA_WEBHOOK_SECRET", "jira-webhook"),
        ("JIRA_EMAIL", "jira-poll"),
        ("JIRA_TOKEN", "jira-poll"),
        ("SLACK_SIGNING_SECRET", "slack-http"),
    ] {
        gateway.reload_env(&env(&[(variable, "")]));
        assert_missing(&gateway, ingress, variable);
        gateway.reload_env(&env(&[]));
        gateway.wait_for_exactly(&ALL);
    }
    assert_eq!(fakes.sockets_opened(), 1);
}

#[track_caller]
fn assert_missing(gateway: &LiveGateway, ingress: &str, variable: &str) {
    gateway.wait_for_state(ingress, "missing-secret");
    wait_until("the others to be up", || {
        let health = gateway.health();
        but(&[ingress])
            .iter()
            .all(|name| health["ingresses"][name] == "up")
    });
    let health = gateway.health();
    assert_eq!(health["ok"], false);
    let details = &health["ingressDetails"][ingress];
    assert_eq!(details["variable"], variable);
    assert!(details["since"].is_string(), "{details}");
    let is_it = |record: &Value| {
        record["ingress"] == ingress
            && record["state"] == "missing-secret"
            && record["variable"] == variable
    };
    wait_until("the record", || {
        gateway.records("ingress.changed").iter().any(is_it)
    });
}

/// Scenario: a bad edit changes nothing and is recorded once; so is a file that vanished.
#[test]
fn a_bad_edit_changes_nothing_and_is_recorded_once() {
    let fakes = Fakes::start();
    let good = fakes.config(&["github-webhook", "slack-socket"], "");
    let gateway = LiveGateway::start(&good, &env(&[]));
    gateway.wait_for_exactly(&["github-webhook", "slack-socket"]);
    let bad = good.replace("enabled: true", "enabled: perhaps");
    gateway.edit(&bad);
    let failed = gateway.wait_for_records("config.reload-failed", 1);
    let error = failed[0]["error"].as_str().unwrap();
    assert!(error.contains("github.webhook.enabled"), "{error}");
    assert!(!error.contains("perhaps"), "{error}");
    fs::remove_file(gateway.path("gateway-config.yaml")).unwrap();
    let failed = gateway.wait_for_records("config.reload-failed", 2);
    let error = failed[1]["error"].as_str().unwrap();
    assert!(error.contains("gateway-config.yaml"), "{error}");
    let body = comment_on(1, 1, "hello");
    let sent = gateway.github(secret(GITHUB_SECRET), "guid-1", &body);
    sent.send().assert(202);
    gateway.wait_for_exactly(&["github-webhook", "slack-socket"]);
    assert_eq!(fakes.sockets_opened(), 1);
    assert!(gateway.records("config.reloaded").is_empty());
    let mended = gateway.reload(&fakes.config(&["github-webhook"], "instances: [laptop]"));
    assert_eq!(mended["detail"], "changed: slack, instances");
    assert_eq!(gateway.records("config.reload-failed").len(), 2);
    gateway.wait_for_exactly(&["github-webhook"]);
}

/// Scenario: a webhook's secret is rotated without a gap.
#[test]
fn a_rotated_secret_applies_at_once_and_the_old_one_until_it_is_taken_away() {
    let fakes = Fakes::start();
    let config = fakes.config(&["github-webhook"], "");
    let gateway = LiveGateway::start(&config, &env(&[]));
    let old = secret(GITHUB_SECRET);
    let status = |secret: &str, number: u64| {
        let body = comment_on(1, number, "hello");
        let sent = gateway.github(secret, &format!("guid-{number}"), &body);
        sent.send().status
    };
    assert_eq!((status(old, 1), status("brand-new", 2)), (202, 401));
    let both = [(GITHUB_SECRET, "brand-new"), ("GH_PREVIOUS", old)];
    let reloaded = gateway.reload_env(&env(&both));
    assert_eq!(reloaded["detail"], "changed: env");
    assert_eq!(reloaded.get("restart_required"), None);
    assert_eq!((status(old, 3), status("brand-new", 4)), (202, 202));
    gateway.reload_env(&env(&[(GITHUB_SECRET, "brand-new")]));
    assert_eq!((status(old, 5), status("brand-new", 6)), (401, 202));
}

/// Scenario: a poller's token is rotated; the pollers that use it begin anew, and only they.
#[test]
fn a_rotated_token_of_a_poller_applies_at_once() {
    let fakes = Fakes::start();
    fakes.github.require_token("ghp-next");
    let gateway = LiveGateway::start(&fakes.config(&["github-poll", "jira-poll"], ""), &env(&[]));
    gateway.wait_for_state("github-poll", "failed");
    let details = gateway.health()["ingressDetails"]["github-poll"].clone();
    let error = details["error"].as_str().unwrap();
    assert!(error.starts_with("octo/repo: 401"), "{error}");
    assert_eq!(details["sources"]["octo/repo"]["state"], "failed");
    gateway.reload_env(&env(&[("GITHUB_TOKEN", "ghp-next")]));
    gateway.wait_for_exactly(&["github-poll", "jira-poll"]);
}

/// Scenario: what cannot change while it runs says that it waits for a restart.
#[test]
fn addresses_and_slack_tokens_wait_for_a_restart_and_health_says_so() {
    let fakes = Fakes::start();
    let on = ["slack-socket"];
    let mut gateway = LiveGateway::start(&fakes.config(&on, ""), &env(&[]));
    gateway.wait_for_exactly(&on);
    assert_eq!(gateway.health().get("restartRequired"), None);
    let reloaded = gateway.reload(&fakes.config(&on, "listen: {port: 9, maxOpenRequests: 77}"));
    let listen = json!(["listen.host and listen.port"]);
    assert_eq!(reloaded["restart_required"], listen);
    assert_eq!(gateway.health()["restartRequired"], listen);
    let reloaded = gateway.reload_env(&env(&[("THE_LOOP_SLACK_APP_TOKEN", "xapp-next")]));
    let both = json!(["listen.host and listen.port", "slack.socket.appTokenEnv"]);
    assert_eq!(reloaded["restart_required"], both);
    gateway.wait_for_exactly(&on);
    assert_eq!(fakes.sockets_opened(), 1);
    gateway.reload(&fakes.config(&on, ""));
    gateway.reload_env(&env(&[]));
    assert_eq!(gateway.health().get("restartRequired"), None);
    gateway.stop();
    fakes.wait_for_sockets(0);
    assert_eq!(fakes.assert_never_two().closed_well, 1);
    gateway.run();
    gateway.wait_for_exactly(&on);
}

/// Scenario: the socket's own settings change; it is replaced, one after the other.
#[test]
fn a_replaced_socket_is_gone_before_its_successor_comes() {
    let fakes = Fakes::start();
    let config = fakes.config(&["slack-socket"], "");
    let gateway = LiveGateway::start(&config, &env(&[]));
    gateway.wait_for_exactly(&["slack-socket"]);
    for beats in 4..8_u64 {
        let opened = fakes.sockets_opened();
        let socket = format!("catchUpSeconds: 0, splitCheckBeats: {beats}");
        gateway.reload(&config.replace("catchUpSeconds: 0", &socket));
        wait_until("the next socket", || fakes.sockets_opened() == opened + 1);
        gateway.wait_for_exactly(&["slack-socket"]);
        let envelope = Envelope::command("C1", "/the-loop", "hello");
        fakes.slack.push(&envelope);
        wait_until("an ack", || {
            fakes.slack.seen().is_acked(&envelope.envelope_id)
        });
    }
    fakes.assert_never_two();
}
