use std::path::Path;

use super::*;
use crate::config::GitHubSource;
use crate::config::Monitor;

fn source(repo: &str) -> GitHubSource {
    GitHubSource {
        host: "github.com".to_owned(),
        owner: "octo".to_owned(),
        repo: repo.to_owned(),
        api_base: "http://127.0.0.1:1".to_owned(),
        token_env: EnvName::parse("GITHUB_TOKEN").ok(),
        labels: Vec::new(),
        monitor: Monitor::default(),
    }
}

/// Everything enabled.
fn config() -> GatewayConfig {
    let mut config = GatewayConfig::rooted_at(Path::new("/nowhere"));
    config.github.webhook.enabled = true;
    config.github.poll.enabled = true;
    config.github.poll.sources = vec![source("one"), source("two")];
    config.jira.webhook.enabled = true;
    config.jira.poll.enabled = true;
    config.jira.poll.email_env = EnvName::parse("JIRA_EMAIL").ok();
    config.jira.poll.token_env = EnvName::parse("JIRA_TOKEN").ok();
    config.jira.poll.api_base = Some("http://127.0.0.1:1".to_owned());
    config.declared.jira_site = Some("acme.atlassian.net".to_owned());
    config.declared.jira_projects.insert("PROJ".to_owned());
    config.slack.socket.enabled = true;
    config.slack.http.enabled = true;
    config
}

const VARIABLES: [(&str, &str); 7] = [
    ("GITHUB_TOKEN", "a"),
    ("JIRA_EMAIL", "b"),
    ("JIRA_TOKEN", "c"),
    ("SLACK_SIGNING_SECRET", "d"),
    ("THE_LOOP_GH_WEBHOOK_SECRET", "e"),
    ("THE_LOOP_JIRA_WEBHOOK_SECRET", "f"),
    ("THE_LOOP_SLACK_APP_TOKEN", "g"),
];

fn plan(config: &GatewayConfig, environment: &Environment) -> Plan {
    Plan::of(config, environment, environment)
}

#[test]
fn nothing_is_wanted_of_the_defaults() {
    let config = GatewayConfig::rooted_at(Path::new("/nowhere"));
    let plan = plan(&config, &Environment::given(VARIABLES));
    assert!(plan.adapters.is_empty());
    let names: Vec<&str> = plan.fixed.keys().copied().collect();
    assert_eq!(names, INGRESSES);
    let is_off = |fixed: &Fixed| fixed.state == IngressState::Disabled;
    assert!(plan.fixed.values().all(is_off), "{plan:?}");
}

#[test]
fn each_missing_variable_keeps_one_ingress_off_and_is_named() {
    let whole = plan(&config(), &Environment::given(VARIABLES));
    assert_eq!(whole.adapters.len(), 4);
    for (missing, ingress) in [
        ("GITHUB_TOKEN", "github-poll"),
        ("JIRA_EMAIL", "jira-poll"),
        ("JIRA_TOKEN", "jira-poll"),
        ("SLACK_SIGNING_SECRET", "slack-http"),
        ("THE_LOOP_GH_WEBHOOK_SECRET", "github-webhook"),
        ("THE_LOOP_JIRA_WEBHOOK_SECRET", "jira-webhook"),
        ("THE_LOOP_SLACK_APP_TOKEN", "slack-socket"),
    ] {
        let rest = VARIABLES.into_iter().filter(|(name, _)| *name != missing);
        let plan = plan(&config(), &Environment::given(rest));
        let off = plan
            .fixed
            .iter()
            .filter(|(_, fixed)| fixed.state != IngressState::Up);
        let off: Vec<_> = off.collect();
        assert_eq!(off.len(), 1, "{missing}: {plan:?}");
        let (name, fixed) = off[0];
        assert_eq!(
            (*name, fixed.state, fixed.variable.as_deref()),
            (ingress, IngressState::MissingSecret, Some(missing))
        );
    }
}

#[test]
fn a_spec_changes_with_its_token_and_not_with_other_variables() {
    let before = plan(&config(), &Environment::given(VARIABLES));
    let with = |name: &str, value| {
        let rest = VARIABLES.into_iter().filter(|(known, _)| *known != name);
        let environment = Environment::given(rest.chain([(name, value)]));
        plan(&config(), &environment).adapters
    };
    assert_eq!(with("SLACK_SIGNING_SECRET", "other"), before.adapters);
    let after = with("GITHUB_TOKEN", "other");
    for (name, spec) in &before.adapters {
        let is_same = after.get(name) == Some(spec);
        assert_eq!(is_same, !name.starts_with("github-poll:"), "{name}");
    }
    assert!(!format!("{after:?}").contains("other"));
}

#[test]
fn a_source_without_its_token_is_kept_off_alone_and_says_why() {
    let mut config = config();
    config.github.poll.sources.push(GitHubSource {
        token_env: None,
        ..source("elsewhere")
    });
    config.github.poll.sources.push(GitHubSource {
        token_env: EnvName::parse("OTHER_TOKEN").ok(),
        ..source("other")
    });
    let plan = plan(&config, &Environment::given(VARIABLES));
    assert!(!plan.fixed.contains_key("github-poll"));
    let asked: Vec<&str> = plan.adapters.keys().map(String::as_str).collect();
    assert_eq!(
        asked,
        [
            "github-poll:octo/one",
            "github-poll:octo/two",
            "jira-poll:acme.atlassian.net/PROJ",
            "slack-socket",
        ]
    );
    let [elsewhere, other] =
        ["elsewhere", "other"].map(|repo| &plan.withheld[&format!("github-poll:octo/{repo}")]);
    assert_eq!(elsewhere.state, IngressState::Failed);
    let error = elsewhere.error.as_deref().unwrap();
    assert!(error.contains("tokenEnv"), "{error}");
    assert_eq!(other.state, IngressState::MissingSecret);
    assert_eq!(other.variable.as_deref(), Some("OTHER_TOKEN"));
}

#[test]
fn a_poll_of_nothing_is_said_to_fail() {
    let mut config = config();
    config.github.poll.sources.clear();
    let plan = plan(&config, &Environment::given(VARIABLES));
    assert_eq!(plan.fixed["github-poll"].state, IngressState::Failed);
}
