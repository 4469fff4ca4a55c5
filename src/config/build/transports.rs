//! The transports of the three providers, and what they declare as ours.

use std::collections::BTreeSet;

use super::{duration, is_loopback, parse_at, parse_one};
use crate::config::problem::{KeyPath, Problems};
use crate::config::raw::{
    RawGitHub, RawGitHubPoll, RawJira, RawJiraPoll, RawList, RawMonitor, RawRoom, RawSlack,
    RawSource, RawWebhook,
};
use crate::config::{
    CiPoll, EnvName, GatewayConfig, GitHubConfig, GitHubPoll, GitHubSource, JiraConfig,
    JiraDeployment, JiraPoll, Monitor, SlackConfig, SlackHttp, SlackSocket, WebhookConfig,
};
use crate::domain::{ParseError, WorkItemRef};
use crate::providers::{Declared, RepositoryPattern};

/// GitHub's transports; `declared` holds the repositories.
pub(super) fn github(raw: RawGitHub, declared: &Declared, problems: &mut Problems) -> GitHubConfig {
    let default = GitHubConfig::default();
    GitHubConfig {
        webhook: webhook("github.webhook", raw.webhook, default.webhook, problems),
        poll: github_poll(raw.poll, declared, problems),
    }
}

fn github_poll(raw: RawGitHubPoll, declared: &Declared, problems: &mut Problems) -> GitHubPoll {
    let default = GitHubPoll::default();
    let api_base = raw.api_base;
    let own = SourceRules {
        api_base: parse_one("github.poll.apiBase", api_base, problems, parse_api_base),
        token_env: None,
        labels: labels(raw.labels).unwrap_or_else(|| vec![DEFAULT_LABEL.to_owned()]),
        monitor: monitor(&raw.monitor, Monitor::default()),
    };
    let mut sources = if raw.sources.is_empty() {
        let exact = declared.repositories.iter();
        distinct(exact.filter_map(|pattern| own.source(pattern)).collect())
    } else {
        github_sources(raw.sources, &own, declared, problems)
    };
    let token_env = env_name("github.poll.tokenEnv", raw.token_env, problems);
    let token_env = token_env.unwrap_or(default.token_env);
    lend(&token_env, &mut sources);
    GitHubPoll {
        enabled: raw.enabled.unwrap_or(default.enabled),
        interval: duration(raw.interval_seconds, default.interval),
        token_env,
        ci: CiPoll {
            enabled: raw.ci.enabled.unwrap_or(default.ci.enabled),
            interval: duration(raw.ci.interval_seconds, default.ci.interval),
        },
        sources,
    }
}

/// Gives the poll's own token to the repositories that name none, on one server: a token must not
/// be shown to a server that did not make it. That is github.com's if one of them is there, else
/// the first one's.
fn lend(token_env: &EnvName, sources: &mut [GitHubSource]) {
    let without = || sources.iter().filter(|source| source.token_env.is_none());
    let home = without().find(|source| source.host == "github.com");
    let home = home.or_else(|| without().next());
    let Some(server) = home.map(|source| server_of(&source.api_base).to_owned()) else {
        return;
    };
    for source in sources {
        if source.token_env.is_none() && server_of(&source.api_base) == server {
            source.token_env = Some(token_env.clone());
        }
    }
}

/// Scheme, host and port of a base URL.
fn server_of(api_base: &str) -> &str {
    let authority = api_base.find("://").map_or(0, |at| at.saturating_add(3));
    let path = api_base.get(authority..).and_then(|rest| rest.find('/'));
    let end = path.map_or(api_base.len(), |at| authority.saturating_add(at));
    api_base.get(..end).unwrap_or(api_base)
}

const DEFAULT_LABEL: &str = "the-loop: auto-execute";

/// How the repositories of one source are polled.
struct SourceRules {
    api_base: Option<String>,
    token_env: Option<EnvName>,
    labels: Vec<String>,
    monitor: Monitor,
}

impl SourceRules {
    /// The source of a pattern that names one repository.
    fn source(&self, pattern: &RepositoryPattern) -> Option<GitHubSource> {
        let RepositoryPattern { host, owner, repo } = pattern;
        let api_base = self
            .api_base
            .clone()
            .unwrap_or_else(|| match host.as_str() {
                "github.com" => "https://api.github.com".to_owned(),
                host => format!("https://{host}/api/v3"),
            });
        Some(GitHubSource {
            host: host.clone(),
            owner: owner.clone(),
            repo: repo.clone()?,
            api_base,
            token_env: self.token_env.clone(),
            labels: self.labels.clone(),
            monitor: self.monitor,
        })
    }
}

fn github_sources(
    raw: RawList<RawSource>,
    own: &SourceRules,
    declared: &Declared,
    problems: &mut Problems,
) -> Vec<GitHubSource> {
    let mut sources = Vec::new();
    let mut seen = BTreeSet::new();
    let declared_is_known = !problems.spoil_any_of(&["repositories"]);
    for (index, raw) in raw.into_iter().enumerate() {
        let Some(raw) = raw else { continue };
        let at = KeyPath::of("github.poll.sources").join(index);
        let api_base = parse_at(at.join("apiBase"), raw.api_base, problems, parse_api_base);
        let token_env = raw.token_env;
        let rules = SourceRules {
            api_base: api_base.or_else(|| own.api_base.clone()),
            token_env: parse_at(at.join("tokenEnv"), token_env, problems, EnvName::parse),
            labels: labels(raw.labels).unwrap_or_else(|| own.labels.clone()),
            monitor: monitor(&raw.monitor, own.monitor),
        };
        let at = at.join("repositories");
        for (index, text) in raw.repositories.into_iter().enumerate() {
            let Some(text) = text else { continue };
            let parsed = RepositoryPattern::parse(&text).map(|pattern| rules.source(&pattern));
            match parsed {
                Err(error) => problems.add(at.join(index), error.to_string()),
                Ok(None) => problems.add(at.join(index), "must name one repository"),
                Ok(Some(source)) => {
                    let GitHubSource {
                        host, owner, repo, ..
                    } = &source;
                    if declared_is_known && !declared.has_repository(host, owner, repo) {
                        problems.add(at.join(index), "is not declared in repositories");
                    }
                    if !seen.insert(identity(&source)) {
                        problems.add(at.join(index), "is polled already");
                    }
                    sources.push(source);
                }
            }
        }
    }
    sources
}

fn identity(source: &GitHubSource) -> String {
    format!("{}/{}/{}", source.host, source.owner, source.repo).to_ascii_lowercase()
}

fn distinct(sources: Vec<GitHubSource>) -> Vec<GitHubSource> {
    let mut seen = BTreeSet::new();
    sources
        .into_iter()
        .filter(|source| seen.insert(identity(source)))
        .collect()
}

fn labels(raw: Option<RawList<String>>) -> Option<Vec<String>> {
    raw.map(|labels| labels.into_iter().flatten().collect())
}

fn monitor(raw: &RawMonitor, default: Monitor) -> Monitor {
    Monitor {
        issues: raw.issues.unwrap_or(default.issues),
        pull_requests: raw.pull_requests.unwrap_or(default.pull_requests),
    }
}

/// Jira's transports; declares the site and its projects.
pub(super) fn jira(raw: RawJira, declared: &mut Declared, problems: &mut Problems) -> JiraConfig {
    let default = JiraConfig::default();
    declared.jira_site = parse_one("jira.site", raw.site, problems, parse_site);
    declared.jira_projects = raw.projects.into_iter().flatten().collect();
    let deployment = match (raw.deployment.as_deref(), raw.cloud_id) {
        (Some("data-center"), _) => JiraDeployment::DataCenter,
        (Some("cloud-scoped"), Some(cloud_id)) => JiraDeployment::CloudScoped { cloud_id },
        _ => JiraDeployment::Cloud,
    };
    let default_base = match (&deployment, &declared.jira_site) {
        (JiraDeployment::CloudScoped { cloud_id }, Some(_)) => {
            Some(format!("https://api.atlassian.com/ex/jira/{cloud_id}"))
        }
        (JiraDeployment::Cloud | JiraDeployment::DataCenter, Some(site)) => {
            Some(format!("https://{site}"))
        }
        (_, None) => None,
    };
    JiraConfig {
        deployment,
        webhook: webhook("jira.webhook", raw.webhook, default.webhook, problems),
        poll: jira_poll(raw.poll, default_base, problems),
    }
}

fn jira_poll(raw: RawJiraPoll, default_base: Option<String>, problems: &mut Problems) -> JiraPoll {
    let default = JiraPoll::default();
    JiraPoll {
        enabled: raw.enabled.unwrap_or(default.enabled),
        interval: duration(raw.interval_seconds, default.interval),
        email_env: env_name("jira.poll.emailEnv", raw.email_env, problems),
        token_env: env_name("jira.poll.tokenEnv", raw.token_env, problems),
        api_base: parse_one("jira.poll.apiBase", raw.api_base, problems, parse_api_base)
            .or(default_base),
        labels: labels(raw.labels).unwrap_or(default.labels),
    }
}

fn parse_site(text: &str) -> Result<String, ParseError> {
    WorkItemRef::jira(text, "KEY-1")
        .map(|_| text.to_ascii_lowercase())
        .ok_or(ParseError(
            "must be a host name with a dot, or a host and its port",
        ))
}

/// Slack's transports; declares the rooms.
pub(super) fn slack(
    raw: RawSlack,
    declared: &mut Declared,
    problems: &mut Problems,
) -> SlackConfig {
    let default = SlackConfig::default();
    let (socket, http) = (raw.socket, raw.http);
    rooms(raw.rooms, declared, problems);
    let mut env = |key: &str, raw: Option<String>| env_name(key, raw, problems);
    let socket = SlackSocket {
        enabled: socket.enabled.unwrap_or(default.socket.enabled),
        app_token_env: env("slack.socket.appTokenEnv", socket.app_token_env)
            .unwrap_or(default.socket.app_token_env),
        bot_token_env: env("slack.socket.botTokenEnv", socket.bot_token_env)
            .unwrap_or(default.socket.bot_token_env),
        split_check_beats: socket
            .split_check_beats
            .unwrap_or(default.socket.split_check_beats),
        catch_up_interval: match socket.catch_up_seconds {
            Some(0) => None,
            seconds => default
                .socket
                .catch_up_interval
                .map(|own| duration(seconds, own)),
        },
        overlap_on_refresh: socket
            .overlap_on_refresh
            .unwrap_or(default.socket.overlap_on_refresh),
    };
    let http = SlackHttp {
        enabled: http.enabled.unwrap_or(default.http.enabled),
        signing_secret_env: env("slack.http.signingSecretEnv", http.signing_secret_env)
            .unwrap_or(default.http.signing_secret_env),
        previous_signing_secret_env: env(
            "slack.http.previousSigningSecretEnv",
            http.previous_signing_secret_env,
        ),
    };
    let api_base = parse_one("slack.apiBase", raw.api_base, problems, parse_api_base);
    SlackConfig {
        api_base: api_base.unwrap_or(default.api_base),
        socket,
        http,
    }
}

fn rooms(raw: RawList<RawRoom>, declared: &mut Declared, problems: &mut Problems) {
    for (index, room) in raw.into_iter().enumerate() {
        let at = KeyPath::of("slack.rooms").join(index);
        let Some(RawRoom { channel, r#ref }) = room else {
            continue;
        };
        let work_item = r#ref.map(|text| WorkItemRef::parse(&text));
        if let Some(Err(error)) = &work_item {
            problems.add(at.join("ref"), error.to_string());
        }
        if let (Some(channel), Some(Ok(work_item))) = (channel, work_item)
            && declared.rooms.insert(channel, work_item).is_some()
        {
            problems.add(
                at.join("channel"),
                "is the room of another work item already",
            );
        }
    }
}

fn webhook(
    key: &str,
    raw: RawWebhook,
    default: WebhookConfig,
    problems: &mut Problems,
) -> WebhookConfig {
    let at = |name: &str| format!("{key}.{name}");
    WebhookConfig {
        enabled: raw.enabled.unwrap_or(default.enabled),
        path: parse_one(&at("path"), raw.path, problems, parse_route).unwrap_or(default.path),
        secret_env: env_name(&at("secretEnv"), raw.secret_env, problems)
            .unwrap_or(default.secret_env),
        previous_secret_env: env_name(&at("previousSecretEnv"), raw.previous_secret_env, problems),
    }
}

const TAKEN_ROUTES: [&str; 5] = [
    "/api",
    "/metrics",
    "/slack/commands",
    "/slack/events",
    "/slack/interactions",
];

/// A route as it is compared: without a `/` at its end.
fn parse_route(text: &str) -> Result<String, ParseError> {
    let route = text.strip_suffix('/').unwrap_or(text);
    let mut segments = route.split('/').skip(1).peekable();
    if segments.peek().is_none() || segments.any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(ParseError(
            "must be / and segments that are not empty, . or ..",
        ));
    }
    if TAKEN_ROUTES.contains(&route) || route.starts_with("/api/") {
        return Err(ParseError("is a route of the API, of /metrics or of Slack"));
    }
    Ok(route.to_owned())
}

/// Refuses one route for two providers.
pub(super) fn check_routes(config: &GatewayConfig, problems: &mut Problems) {
    let (github, jira) = (&config.github.webhook.path, &config.jira.webhook.path);
    if github != jira {
        return;
    }
    if *jira == JiraConfig::default().webhook.path {
        problems.add(
            KeyPath::of("github.webhook.path"),
            "is the route of jira.webhook",
        );
    } else {
        problems.add(
            KeyPath::of("jira.webhook.path"),
            "is the route of github.webhook",
        );
    }
}

/// A base URL without a `/` at its end; a token must not travel in the clear.
fn parse_api_base(text: &str) -> Result<String, ParseError> {
    if let Some(rest) = text.strip_prefix("http://") {
        let authority = rest.split('/').next().unwrap_or_default();
        let host = match authority
            .strip_prefix('[')
            .and_then(|host| host.split_once(']'))
        {
            Some((host, _)) => host,
            None => authority.split(':').next().unwrap_or_default(),
        };
        if !is_loopback(host) {
            return Err(ParseError("must be https, for its host is not loopback"));
        }
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn env_name(key: &str, raw: Option<String>, problems: &mut Problems) -> Option<EnvName> {
    parse_one(key, raw, problems, EnvName::parse)
}
