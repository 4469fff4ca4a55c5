//! A token is shown to the server that made it, and to no other.

use the_loop_gateway::devkit::fake_github::FakeGitHub;

use super::wait_for_events;
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, LiveGateway, env, secret};

const ELSEWHERE: &str = "ghe.corp.example/octo/other";

/// Both servers polled, the other one with these lines.
fn config(fakes: &Fakes, other: &str) -> String {
    let poll = fakes.config(&["github-poll"], "");
    let sources = format!(
        "poll: {{sources: [{{repositories: [octo/repo]}}, {{repositories: [{ELSEWHERE}], {other}}}], "
    );
    poll.replace("[octo/repo]", &format!("[octo/repo, {ELSEWHERE}]"))
        .replace(
            "  poll: {enabled: true, intervalSeconds: 1, apiBase",
            &format!("  {sources}enabled: true, intervalSeconds: 1, apiBase"),
        )
}

fn comment(github: &FakeGitHub, repository: &str) {
    let number = github.open_issue(repository, "octocat", &[]);
    github.comment(repository, number, "ann", "hello");
}

#[test]
fn each_server_is_asked_with_its_own_token() {
    let fakes = Fakes::start();
    fakes.github.require_token(secret("GITHUB_TOKEN"));
    fakes.enterprise.require_token("ghe-token-5d2c");
    let other = format!(
        "apiBase: '{}', tokenEnv: GHE_TOKEN",
        fakes.enterprise.api_base()
    );
    let env = env(&[("GHE_TOKEN", "ghe-token-5d2c")]);
    let gateway = LiveGateway::start(&config(&fakes, &other), &env);
    gateway.wait_for_exactly(&["github-poll"]);
    comment(&fakes.github, "octo/repo");
    comment(&fakes.enterprise, "octo/other");
    wait_for_events(&gateway, 2);
    for asked in [fakes.github.asked(), fakes.enterprise.asked()] {
        assert!(asked.iter().all(|one| one.status != 401), "{asked:?}");
    }
    let mut items = gateway.texts("SELECT work_item FROM events");
    items.sort();
    assert_eq!(
        items,
        ["github:ghe.corp.example/octo/other#1", "github:octo/repo#1"]
    );
}

#[test]
fn a_server_without_a_token_of_its_own_is_not_asked_and_health_says_so() {
    let fakes = Fakes::start();
    let other = format!("apiBase: '{}'", fakes.enterprise.api_base());
    let gateway = LiveGateway::start(&config(&fakes, &other), &env(&[]));
    let sources = || gateway.health()["ingressDetails"]["github-poll"]["sources"].clone();
    wait_until("the other one goes on", || {
        // Those that are up are not listed.
        sources()["octo/repo"].is_null() && sources()[ELSEWHERE].is_object()
    });
    comment(&fakes.github, "octo/repo");
    wait_for_events(&gateway, 1);
    let source = sources()[ELSEWHERE].clone();
    assert_eq!(source["state"], "failed", "{source}");
    let error = source["error"].as_str().unwrap();
    assert!(error.contains("tokenEnv"), "{error}");
    assert_eq!(gateway.state_of("github-poll"), "failed");
    assert!(fakes.enterprise.asked().is_empty());
    // The variable is named but not set; then it is set.
    let other = format!("{other}, tokenEnv: GHE_TOKEN");
    gateway.reload(&config(&fakes, &other));
    wait_until("it names the variable", || {
        let source = sources()[ELSEWHERE].clone();
        let error = source["error"].as_str().unwrap_or_default();
        source["state"] == "missing-secret" && error.contains("GHE_TOKEN")
    });
    let details = gateway.health()["ingressDetails"]["github-poll"].clone();
    assert_eq!(details["variable"], "GHE_TOKEN");
    assert!(fakes.enterprise.asked().is_empty());
    gateway.reload_env(&env(&[("GHE_TOKEN", "ghe-token-5d2c")]));
    gateway.wait_for_exactly(&["github-poll"]);
}
