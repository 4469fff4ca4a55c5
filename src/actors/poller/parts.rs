//! What a poller is made of: what it reads, how often, and the doors that it talks through.

use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;

use super::credentials::Credentials;
use super::gate::Gate;
use super::http::HttpTiming;
use super::store::PollStore;
use crate::actors::messages::IngressChanged;
use crate::config::{GitHubSource, JiraDeployment};
use crate::domain::Clock;
use crate::providers::Declared;

/// What a poller reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollSource {
    /// A repository.
    GitHub {
        /// Which one, and what of it.
        repository: GitHubSource,
        /// How often checks are read; `None`: never.
        checks_every: Option<Duration>,
    },
    /// A Jira project.
    Jira(JiraProject),
}

/// A Jira project that is polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JiraProject {
    /// `host[:port]` of the site in lower case.
    pub site: String,
    /// The project's key.
    pub key: String,
    /// What the site is.
    pub deployment: JiraDeployment,
    /// The URL of the API root, without a trailing `/`.
    pub api_base: String,
    /// The labels of which an issue must carry all.
    pub labels: Vec<String>,
}

impl PollSource {
    /// The name of this ingress in status and records.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::GitHub { repository, .. } => {
                format!("github-poll:{}", shown(repository))
            }
            Self::Jira(project) => format!("jira-poll:{}/{}", project.site, project.key),
        }
    }

    /// What the ledger calls it.
    pub(super) fn key(&self) -> String {
        let key = match self {
            Self::GitHub { repository, .. } => {
                let GitHubSource {
                    host, owner, repo, ..
                } = repository;
                format!("github:{host}/{owner}/{repo}")
            }
            Self::Jira(project) => format!("jira:{}/{}", project.site, project.key),
        };
        key.to_ascii_lowercase()
    }
}

/// A repository as an entry of `repositories` writes it.
pub(super) fn shown(repository: &GitHubSource) -> String {
    let GitHubSource {
        host, owner, repo, ..
    } = repository;
    if host == "github.com" {
        format!("{owner}/{repo}")
    } else {
        format!("{host}/{owner}/{repo}")
    }
}

/// Everything that a poller needs.
#[derive(Debug, Clone)]
pub struct PollerParts {
    /// What it reads.
    pub source: PollSource,
    /// The time between two rounds.
    pub interval: Duration,
    /// What proves to the API who asks.
    pub credentials: Credentials,
    /// What it shares with the other pollers of the same API and token.
    pub gate: Arc<Gate>,
    /// How long a request may take.
    pub timing: HttpTiming,
    /// What is declared as ours.
    pub declared: Arc<Declared>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where events and the ledger go.
    pub store: PollStore,
    /// Who hears of changes of state.
    pub status: Recipient<IngressChanged>,
}
