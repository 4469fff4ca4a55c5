//! How the events of each provider arrive.

use std::time::Duration;

use super::{EnvName, Environment, Secret};

/// A route that a provider posts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Whether it answers.
    pub enabled: bool,
    /// Its path, without a trailing `/`.
    pub path: String,
    /// The variable of the secret.
    pub secret_env: EnvName,
    /// The variable of a second secret that is accepted too, while the secret is being changed.
    pub previous_secret_env: Option<EnvName>,
}

impl WebhookConfig {
    fn at(path: &str, secret_env: EnvName) -> Self {
        Self {
            enabled: false,
            path: path.to_owned(),
            secret_env,
            previous_secret_env: None,
        }
    }

    /// The current secret, then the previous one if it is set; empty: the route answers 404.
    #[must_use]
    pub fn secrets(&self, environment: &Environment) -> Vec<Secret> {
        environment.current_and_previous(&self.secret_env, self.previous_secret_env.as_ref())
    }
}

/// How GitHub events arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubConfig {
    /// The route.
    pub webhook: WebhookConfig,
    /// The poller.
    pub poll: GitHubPoll,
}

impl Default for GitHubConfig {
    fn default() -> Self {
        Self {
            webhook: WebhookConfig::at("/gh-webhook", EnvName::GITHUB_WEBHOOK),
            poll: GitHubPoll::default(),
        }
    }
}

/// Reading GitHub's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubPoll {
    /// Whether to poll.
    pub enabled: bool,
    /// The time between two rounds over a repository.
    pub interval: Duration,
    /// The variable of the token of the repositories that name none of their own.
    pub token_env: EnvName,
    /// Check runs and statuses of claimed pull requests.
    pub ci: CiPoll,
    /// The repositories, each once; filled whether polling is enabled or not.
    pub sources: Vec<GitHubSource>,
}

impl Default for GitHubPoll {
    fn default() -> Self {
        Self {
            enabled: false,
            interval: Duration::from_secs(60),
            token_env: EnvName::GITHUB_TOKEN,
            ci: CiPoll {
                enabled: true,
                interval: Duration::from_secs(300),
            },
            sources: Vec::new(),
        }
    }
}

/// Reading check runs and statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiPoll {
    /// Whether a poll reads them.
    pub enabled: bool,
    /// The time between two rounds.
    pub interval: Duration,
}

/// One repository that is polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubSource {
    /// `host[:port]` in lower case; `github.com` when the entry names none.
    pub host: String,
    /// The owner as the configuration spells it.
    pub owner: String,
    /// The repository as the configuration spells it.
    pub repo: String,
    /// The URL of the REST API, without a trailing `/`.
    pub api_base: String,
    /// The variable of the token that is sent there; `None`: no token is meant for that server.
    pub token_env: Option<EnvName>,
    /// The labels of which an open item must carry all for its presence to be reported.
    pub labels: Vec<String>,
    /// Which items to report.
    pub monitor: Monitor,
}

/// Which items a poll reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Monitor {
    /// Issues.
    pub issues: bool,
    /// Pull requests.
    pub pull_requests: bool,
}

impl Default for Monitor {
    fn default() -> Self {
        Self {
            issues: true,
            pull_requests: true,
        }
    }
}

/// How Jira events arrive; the site and the projects are in
/// [`Declared`](crate::providers::Declared).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JiraConfig {
    /// What the site is.
    pub deployment: JiraDeployment,
    /// The route.
    pub webhook: WebhookConfig,
    /// The poller.
    pub poll: JiraPoll,
}

impl Default for JiraConfig {
    fn default() -> Self {
        Self {
            deployment: JiraDeployment::Cloud,
            webhook: WebhookConfig::at("/jira-webhook", EnvName::JIRA_WEBHOOK),
            poll: JiraPoll::default(),
        }
    }
}

/// What a Jira site is, and so how its API is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JiraDeployment {
    /// Cloud, with a token of the account: e-mail address and token, API version 3.
    Cloud,
    /// Cloud, with a token with scopes: the same through api.atlassian.com.
    CloudScoped {
        /// The site's id there.
        cloud_id: String,
    },
    /// Data Center or Server: a bearer token, API version 2.
    DataCenter,
}

/// Reading Jira's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JiraPoll {
    /// Whether to poll.
    pub enabled: bool,
    /// The time between two rounds over a project.
    pub interval: Duration,
    /// The variable of the e-mail address; set when an enabled poll needs it.
    pub email_env: Option<EnvName>,
    /// The variable of the token; set when polling is enabled.
    pub token_env: Option<EnvName>,
    /// The URL of the API root, without a trailing `/`; set when the site is.
    pub api_base: Option<String>,
    /// The labels of which an issue must carry all.
    pub labels: Vec<String>,
}

impl Default for JiraPoll {
    fn default() -> Self {
        Self {
            enabled: false,
            interval: Duration::from_secs(60),
            email_env: None,
            token_env: None,
            api_base: None,
            labels: vec!["the-loop:auto-execute".to_owned()],
        }
    }
}

/// How Slack events arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackConfig {
    /// The URL of the Web API, without a trailing `/`.
    pub api_base: String,
    /// The Socket Mode connection.
    pub socket: SlackSocket,
    /// The HTTP routes.
    pub http: SlackHttp,
}

impl Default for SlackConfig {
    fn default() -> Self {
        Self {
            api_base: "https://slack.com/api".to_owned(),
            socket: SlackSocket::default(),
            http: SlackHttp::default(),
        }
    }
}

/// The app's one Socket Mode connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackSocket {
    /// Whether to connect.
    pub enabled: bool,
    /// The variable of the app-level token.
    pub app_token_env: EnvName,
    /// The variable of the bot token, which the catch-up reads with.
    pub bot_token_env: EnvName,
    /// The messages that only the catch-up brought after which a split is suspected; 0: never.
    pub split_check_beats: u32,
    /// The time between two catch-up rounds; `None`: only after connecting.
    pub catch_up_interval: Option<Duration>,
    /// Whether the next connection opens before the refreshed one closes.
    pub overlap_on_refresh: bool,
}

impl Default for SlackSocket {
    fn default() -> Self {
        Self {
            enabled: false,
            app_token_env: EnvName::SLACK_APP_TOKEN,
            bot_token_env: EnvName::SLACK_BOT_TOKEN,
            split_check_beats: 3,
            catch_up_interval: Some(Duration::from_secs(900)),
            overlap_on_refresh: false,
        }
    }
}

/// The routes for events, interactions and commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlackHttp {
    /// Whether they answer.
    pub enabled: bool,
    /// The variable of the signing secret.
    pub signing_secret_env: EnvName,
    /// The variable of a second signing secret that is accepted too.
    pub previous_signing_secret_env: Option<EnvName>,
}

impl SlackHttp {
    /// The current secret, then the previous one if it is set; empty: the routes answer 404.
    #[must_use]
    pub fn secrets(&self, environment: &Environment) -> Vec<Secret> {
        let previous = self.previous_signing_secret_env.as_ref();
        environment.current_and_previous(&self.signing_secret_env, previous)
    }
}

impl Default for SlackHttp {
    fn default() -> Self {
        Self {
            enabled: false,
            signing_secret_env: EnvName::SLACK_SIGNING_SECRET,
            previous_signing_secret_env: None,
        }
    }
}
