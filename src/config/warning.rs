//! What an operator should hear about a configuration that is valid all the same.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{EnvFileWarning, GatewayConfig};

/// Something odd; returned, never printed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigWarning {
    /// There is no file, so the built-in defaults hold and no transport is enabled.
    #[error(
        "no gateway config found ({}); the built-in defaults hold",
        Looked(looked)
    )]
    NoFile {
        /// Where one could have been.
        looked: Vec<PathBuf>,
    },
    /// The env file.
    #[error(transparent)]
    EnvFile(#[from] EnvFileWarning),
    /// A transport of GitHub is enabled, and every event is dropped.
    #[error("repositories is empty: every GitHub event is dropped")]
    NoRepositories,
    /// Polling GitHub is enabled without a repository to poll.
    #[error("github.poll is enabled, but no entry of repositories names one repository to poll")]
    NothingToPoll,
    /// Polling GitHub is enabled for repositories of several hosts, and one has no token.
    #[error(
        "{host} is not polled: the token of github.poll.tokenEnv is sent to one server only; \
         name a tokenEnv for {host} in github.poll.sources"
    )]
    HostWithoutToken {
        /// The host that no token is meant for.
        host: String,
    },
    /// A transport of Jira is enabled, and every event is dropped.
    #[error("jira.projects is empty: every Jira event is dropped")]
    NoProjects,
}

struct Looked<'a>(&'a [PathBuf]);

impl std::fmt::Display for Looked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, path) in self.0.iter().enumerate() {
            write!(
                f,
                "{}{}",
                if index == 0 { "looked at " } else { ", " },
                path.display()
            )?;
        }
        Ok(())
    }
}

/// What is odd about a configuration, whatever file it came from.
pub(super) fn of_config(config: &GatewayConfig) -> Vec<ConfigWarning> {
    let GatewayConfig {
        declared,
        github,
        jira,
        ..
    } = config;
    let mut warnings = Vec::new();
    let github_is_on = github.webhook.enabled || github.poll.enabled;
    if github_is_on && declared.repositories.is_empty() {
        warnings.push(ConfigWarning::NoRepositories);
    } else if github.poll.enabled && github.poll.sources.is_empty() {
        warnings.push(ConfigWarning::NothingToPoll);
    }
    if github.poll.enabled {
        let sources = github.poll.sources.iter();
        let without = sources.filter(|source| source.token_env.is_none());
        let hosts: BTreeSet<&String> = without.map(|source| &source.host).collect();
        warnings.extend(
            hosts
                .into_iter()
                .cloned()
                .map(|host| ConfigWarning::HostWithoutToken { host }),
        );
    }
    if (jira.webhook.enabled || jira.poll.enabled) && declared.jira_projects.is_empty() {
        warnings.push(ConfigWarning::NoProjects);
    }
    warnings
}
