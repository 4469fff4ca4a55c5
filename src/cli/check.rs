//! `check`: is the configuration right, and which of its secrets are there?

use std::collections::BTreeSet;

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::failure::Failure;
use super::list::Format;
use super::table::{Column, TableRow, render};
use crate::config::{ConfigError, EnvName, Environment, GatewayConfig, GitHubPoll, LoadedConfig};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway check
  the-loop-gateway --config /etc/gateway.yaml check
  the-loop-gateway check --format json

Exits with 0 when the configuration can be used and with 2 when it cannot; then every problem is
named by its place in the file. Secrets are shown by name, never by value. One that is not set
leaves its transport off and is no error.";

/// Check the configuration and say which secrets are set
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Check {
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What `--format json` shows.
#[derive(Serialize)]
struct Report {
    ok: bool,
    path: Option<String>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
    secrets: Vec<SecretState>,
}

#[derive(Serialize)]
struct Problem {
    path: String,
    message: String,
}

/// One secret that an enabled transport wants.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SecretState {
    /// The variable.
    pub(super) name: String,
    /// Whether it has a value.
    pub(super) set: bool,
    /// The key of the config that names it.
    pub(super) used_by: &'static str,
}

impl Check {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let loaded = context.load();
        if self.format == Format::Json {
            let report = match &loaded {
                Ok(loaded) => Some(Report::of_config(loaded)),
                Err(Failure::Config(error)) => Some(Report::of_error(error)),
                Err(_) => None,
            };
            let shown = report.and_then(|report| serde_json::to_string_pretty(&report).ok());
            shown.map_or(Ok(()), |shown| context.output.data(&shown))?;
            return loaded.map(drop);
        }
        let loaded = loaded?;
        for warning in &loaded.warnings {
            context.output.note(&warning.to_string());
        }
        context.output.data(&sentences(&loaded, context))
    }
}

fn sentences(loaded: &LoadedConfig, context: &Context) -> String {
    let config = &loaded.config;
    let verdict = match &config.path {
        Some(path) => format!("{} is valid", path.display()),
        None => "there is no config file; the built-in defaults are valid".to_owned(),
    };
    let listens = match &config.listen.ingress {
        Some(ingress) => format!(
            "listens on {}; webhooks on {ingress}",
            config.listen.address
        ),
        None => format!("listens on {}", config.listen.address),
    };
    let secrets = secrets_of(config, &loaded.environment);
    if secrets.is_empty() {
        return format!("{verdict}\n{listens}\nno transport is enabled, so no secret is needed");
    }
    let columns = [
        Column::Text("secret"),
        Column::Text("is"),
        Column::Text("for"),
    ];
    let rows: Vec<TableRow> = secrets.iter().map(SecretState::row).collect();
    format!(
        "{verdict}\n{listens}\n\n{}",
        render(&columns, &rows, context.output)
    )
}

impl Report {
    fn of_config(loaded: &LoadedConfig) -> Self {
        Self {
            ok: true,
            path: loaded
                .config
                .path
                .as_ref()
                .map(|path| path.display().to_string()),
            problems: Vec::new(),
            warnings: loaded.warnings.iter().map(ToString::to_string).collect(),
            secrets: secrets_of(&loaded.config, &loaded.environment),
        }
    }

    fn of_error(error: &ConfigError) -> Self {
        let (path, problems) = match error {
            ConfigError::Invalid { path, problems } | ConfigError::Exposed { path, problems } => {
                let problems = problems.iter().map(|problem| Problem {
                    path: problem.path.clone(),
                    message: problem.message.clone(),
                });
                (path, problems.collect())
            }
            ConfigError::Unreadable { path, fault } => {
                let message = format!("cannot be read: {fault}");
                (
                    path,
                    vec![Problem {
                        path: "(root)".to_owned(),
                        message,
                    }],
                )
            }
        };
        Self {
            ok: false,
            path: Some(path.display().to_string()),
            problems,
            warnings: Vec::new(),
            secrets: Vec::new(),
        }
    }
}

impl SecretState {
    /// As a row of a table: the variable, whether it is set, for what.
    pub(super) fn row(&self) -> TableRow {
        TableRow {
            cells: vec![
                self.name.clone(),
                if self.set { "set" } else { "unset" }.to_owned(),
                self.used_by.to_owned(),
            ],
            alarming: !self.set,
        }
    }
}

/// The secrets that the enabled transports want, in the order of the file.
pub(super) fn secrets_of(config: &GatewayConfig, environment: &Environment) -> Vec<SecretState> {
    wanted(config)
        .into_iter()
        .filter_map(|(used_by, name)| Some((used_by, name?)))
        .map(|(used_by, name)| SecretState {
            name: name.to_string(),
            set: environment.secret(name).is_set(),
            used_by,
        })
        .collect()
}

fn wanted(config: &GatewayConfig) -> Vec<(&'static str, Option<&EnvName>)> {
    let GatewayConfig {
        github,
        jira,
        slack,
        ..
    } = config;
    let mut wanted = Vec::new();
    if github.webhook.enabled {
        wanted.extend([
            ("github.webhook.secretEnv", Some(&github.webhook.secret_env)),
            (
                "github.webhook.previousSecretEnv",
                github.webhook.previous_secret_env.as_ref(),
            ),
        ]);
    }
    if github.poll.enabled {
        wanted.extend(tokens_of(&github.poll));
    }
    if jira.webhook.enabled {
        wanted.extend([
            ("jira.webhook.secretEnv", Some(&jira.webhook.secret_env)),
            (
                "jira.webhook.previousSecretEnv",
                jira.webhook.previous_secret_env.as_ref(),
            ),
        ]);
    }
    if jira.poll.enabled {
        wanted.extend([
            ("jira.poll.emailEnv", jira.poll.email_env.as_ref()),
            ("jira.poll.tokenEnv", jira.poll.token_env.as_ref()),
        ]);
    }
    if slack.socket.enabled {
        wanted.extend([
            (
                "slack.socket.appTokenEnv",
                Some(&slack.socket.app_token_env),
            ),
            (
                "slack.socket.botTokenEnv",
                Some(&slack.socket.bot_token_env),
            ),
        ]);
    }
    if slack.http.enabled {
        wanted.extend([
            (
                "slack.http.signingSecretEnv",
                Some(&slack.http.signing_secret_env),
            ),
            (
                "slack.http.previousSigningSecretEnv",
                slack.http.previous_signing_secret_env.as_ref(),
            ),
        ]);
    }
    wanted
}

/// The poll's own token where it is used, and those of single sources; each once.
fn tokens_of(poll: &GitHubPoll) -> Vec<(&'static str, Option<&EnvName>)> {
    let used: BTreeSet<&EnvName> = poll
        .sources
        .iter()
        .filter_map(|source| source.token_env.as_ref())
        .collect();
    let own = &poll.token_env;
    let is_used = used.is_empty() || used.contains(own);
    let others = used.iter().filter(|name| **name != own);
    let others = others.map(|name| ("github.poll.sources[].tokenEnv", Some(*name)));
    let own = is_used.then_some(("github.poll.tokenEnv", Some(own)));
    own.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_of_the_poll_is_wanted_once() {
        let text = "github: {poll: {enabled: true, sources: [\
            {repositories: [octo/one, octo/two]}, \
            {repositories: [ghe.example/octo/three], tokenEnv: GHE}, \
            {repositories: [octo/four], tokenEnv: GHE}]}}";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.yaml");
        std::fs::write(
            &path,
            format!("repositories: [octo/*, ghe.example/octo/*]\n{text}"),
        )
        .unwrap();
        let search = crate::config::Search {
            explicit: Some(path),
            directory: folder.path().to_owned(),
        };
        let loaded = crate::config::load(&search, &Environment::given([("HOME", "/nowhere")]));
        let loaded = loaded.unwrap();
        let wanted = tokens_of(&loaded.config.github.poll);
        let shown: Vec<_> = wanted
            .into_iter()
            .map(|(used_by, name)| (used_by, name.unwrap().as_str().to_owned()))
            .collect();
        let expected = [
            ("github.poll.tokenEnv", "GITHUB_TOKEN".to_owned()),
            ("github.poll.sources[].tokenEnv", "GHE".to_owned()),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_secrets_of_enabled_transports_are_named_and_those_of_others_are_not() {
        let mut config = GatewayConfig::rooted_at(std::path::Path::new("/nowhere"));
        let environment = Environment::given([("THE_LOOP_SLACK_APP_TOKEN", "xapp-not-real")]);
        assert_eq!(secrets_of(&config, &environment), []);
        config.github.webhook.enabled = true;
        config.slack.socket.enabled = true;
        let shown: Vec<String> = secrets_of(&config, &environment)
            .iter()
            .map(|secret| secret.row().cells.join(" "))
            .collect();
        assert_eq!(
            shown,
            [
                "THE_LOOP_GH_WEBHOOK_SECRET unset github.webhook.secretEnv",
                "THE_LOOP_SLACK_APP_TOKEN set slack.socket.appTokenEnv",
                "THE_LOOP_SLACK_BOT_TOKEN unset slack.socket.botTokenEnv",
            ]
        );
    }
}
