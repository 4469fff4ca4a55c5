mod finding;
mod refusals;
mod schema;
mod secrecy;

use super::*;

const HOME: &str = "/home/ada";

/// The configuration of a text, as a file in a directory that exists nowhere.
fn parse_text(text: &str) -> Result<GatewayConfig, ConfigError> {
    let file = Path::new("/nowhere/etc/gateway-config.yaml");
    parse(text, &Places::of(file, Some(PathBuf::from(HOME))))
}

/// The same with what comes with it; the text must be valid.
pub(in crate::config) fn loaded(text: &str) -> LoadedConfig {
    let config = parse_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    LoadedConfig {
        config,
        environment: Environment::given([]),
        fingerprint: ConfigFingerprint::look(None, None),
        warnings: Vec::new(),
    }
}

/// What is wrong with a text, a line each.
fn problems_of(text: &str) -> Vec<String> {
    match parse_text(text) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid { problems, .. } | ConfigError::Exposed { problems, .. }) => {
            problems.iter().map(ToString::to_string).collect()
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_a_file_says_is_what_the_structs_hold() {
    let config = loaded(
        "
version: '1'
env: {file: the-loop.env}
state: {root: ~/state}
listen: {host: localhost, port: 1, ingress: {host: '::1', port: 2}, allowedHosts: [GW.Example]}
store: {path: data/gw.db, retentionDays: 2, retryBackoffSeconds: {min: 1, max: 2}}
consume: {maxWaitSeconds: 0, leaseSeconds: {max: 20}}
repositories: [octo/repo, octo/*, ghe.example/octo/other]
github:
  webhook: {enabled: true, path: /hooks/gh/, secretEnv: A, previousSecretEnv: B}
  poll:
    labels: [one]
    sources:
      - {repositories: [octo/repo, octo/second], labels: [two], monitor: {issues: false}}
      - {repositories: [ghe.example/octo/other]}
jira:
  site: ACME.atlassian.net
  deployment: cloud-scoped
  cloudId: abc-1
  projects: [KEY]
slack:
  socket: {catchUpSeconds: 0}
  rooms: [{channel: C0123, ref: 'github:octo/repo#1'}]
instances: [laptop]
observability: {eventLog: {path: ../events.jsonl}}
",
    )
    .config;
    assert_eq!(
        config.env_file.unwrap(),
        Path::new("/nowhere/etc/the-loop.env")
    );
    assert_eq!(config.state_root, Path::new("/home/ada/state"));
    assert_eq!(config.store_path, Path::new("/home/ada/state/data/gw.db"));
    assert_eq!(config.listen.address.to_string(), "localhost:1");
    assert_eq!(config.listen.ingress.unwrap().to_string(), "[::1]:2");
    assert!(config.listen.allowed_hosts.contains("gw.example"));
    assert_eq!(config.store.retention_ms, 172_800_000);
    assert_eq!(
        (
            config.store.retry_backoff_min_ms,
            config.store.retry_backoff_max_ms
        ),
        (1000, 2000)
    );
    assert!(config.consume.wait_max.is_zero());
    assert_eq!(
        (config.consume.lease_min_ms, config.consume.lease_max_ms),
        (10_000, 20_000)
    );
    assert!(config.declared.has_repository("github.com", "octo", "any"));
    assert_eq!(config.github.webhook.path, "/hooks/gh");
    assert_eq!(
        config.github.webhook.previous_secret_env.unwrap().as_str(),
        "B"
    );
    assert_eq!(
        config.declared.jira_site.as_deref(),
        Some("acme.atlassian.net")
    );
    let base = config.jira.poll.api_base;
    assert_eq!(
        base.as_deref(),
        Some("https://api.atlassian.com/ex/jira/abc-1")
    );
    assert_eq!(config.slack.socket.catch_up_interval, None);
    assert_eq!(
        config.declared.rooms["C0123"].to_string(),
        "github:octo/repo#1"
    );
    assert!(!config.instances.0.is_empty());
    let event_log = config.observability.event_log_path;
    assert_eq!(event_log, Path::new("/nowhere/events.jsonl"));
}

#[test]
fn sources_take_from_the_poll_what_they_do_not_say() {
    let text = "
repositories: [octo/*, ghe.example/octo/other]
github:
  poll:
    labels: [one]
    monitor: {pullRequests: false}
    sources:
      - {repositories: [octo/repo], labels: [two], monitor: {issues: false}}
      - {repositories: [ghe.example/octo/other]}
";
    let sources = loaded(text).config.github.poll.sources;
    let seen: Vec<_> = sources
        .iter()
        .map(|source| {
            let monitor = (source.monitor.issues, source.monitor.pull_requests);
            (
                source.repo.as_str(),
                source.labels[0].as_str(),
                monitor,
                source.api_base.as_str(),
            )
        })
        .collect();
    let expected = [
        ("repo", "two", (false, false), "https://api.github.com"),
        ("other", "one", (true, false), "https://ghe.example/api/v3"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn without_sources_every_entry_that_names_one_repository_is_polled() {
    let sources = loaded("repositories: [octo/repo, octo/*, Octo/Repo]")
        .config
        .github
        .poll
        .sources;
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0].labels, ["the-loop: auto-execute"]);
}

/// The server and the token of each repository that is polled.
fn tokens_of(text: &str) -> Vec<(String, Option<String>)> {
    let sources = loaded(text).config.github.poll.sources.into_iter();
    let token = |source: crate::config::GitHubSource| {
        let variable = source.token_env.map(|name| name.as_str().to_owned());
        (source.api_base, variable)
    };
    sources.map(token).collect()
}

#[test]
fn a_token_is_for_one_server_only() {
    const GITHUB: &str = "https://api.github.com";
    const GHE: &str = "https://ghe.example/api/v3";
    let some = |name: &str| Some(name.to_owned());
    for (text, expected) in [
        (
            "repositories: [ghe.example/a/b, a/b]",
            vec![(GHE, None), (GITHUB, some("GITHUB_TOKEN"))],
        ),
        (
            "repositories: [ghe.example/a/b, ghe.example/a/c]",
            vec![(GHE, some("GITHUB_TOKEN")), (GHE, some("GITHUB_TOKEN"))],
        ),
        (
            "{repositories: [ghe.example/a/b, a/b], github: {poll: {apiBase: 'https://one.example/x'}}}",
            vec![
                ("https://one.example/x", some("GITHUB_TOKEN")),
                ("https://one.example/x", some("GITHUB_TOKEN")),
            ],
        ),
        (
            "{repositories: [ghe.example/a/*, a/*], github: {poll: {tokenEnv: A, sources: [
                {repositories: [a/b]}, {repositories: [ghe.example/a/b], tokenEnv: B},
                {repositories: [a/c], tokenEnv: C},
                {repositories: [ghe.example/a/c], apiBase: 'https://api.github.com/', labels: [x]}]}}}",
            vec![
                (GITHUB, some("A")),
                (GHE, some("B")),
                (GITHUB, some("C")),
                (GITHUB, some("A")),
            ],
        ),
    ] {
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(server, token)| (server.to_owned(), token))
            .collect();
        assert_eq!(tokens_of(text), expected, "{text}");
    }
}

#[test]
fn a_token_of_a_source_is_named_as_one_and_no_value_is_repeated() {
    let source = |more: &str| {
        format!(
            "{{repositories: [a/b], github: {{poll: {{sources: [{{repositories: [a/b], {more}}}]}}}}}}"
        )
    };
    let problems = problems_of(&source("tokenEnv: ghp_0123456789"));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("github.poll.sources[0].tokenEnv: "));
    assert!(!problems[0].contains("ghp_"));
    let problems = problems_of(&source("apiBase: 'http://ghe.example/api/v3'"));
    assert_eq!(
        problems,
        ["github.poll.sources[0].apiBase: must be https, for its host is not loopback"]
    );
}

#[test]
fn a_transport_that_cannot_do_what_it_looks_like_is_a_warning() {
    for (text, expected) in [
        (
            "github: {webhook: {enabled: true}}",
            "repositories is empty",
        ),
        (
            "{repositories: [octo/*], github: {poll: {enabled: true}}}",
            "no entry of repositories",
        ),
        (
            "jira: {site: a.example, webhook: {enabled: true}}",
            "jira.projects is empty",
        ),
        (
            "{repositories: [a/b, ghe.example/a/b], github: {poll: {enabled: true}}}",
            "ghe.example is not polled",
        ),
    ] {
        let warnings = warning::of_config(&loaded(text).config);
        assert_eq!(warnings.len(), 1, "{text}");
        assert!(
            warnings[0].to_string().contains(expected),
            "{}",
            warnings[0]
        );
    }
    assert!(warning::of_config(&loaded("{}").config).is_empty());
}

#[test]
fn a_file_of_comments_is_the_defaults() {
    for text in ["", "# nothing\n", "{}", "---\n", "\u{feff}# nothing"] {
        assert!(problems_of(text).is_empty(), "{text:?}");
    }
}
