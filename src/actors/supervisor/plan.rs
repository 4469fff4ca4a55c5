//! What a configuration asks for: which ingress runs, with what, and why another one does not.
//!
//! Pure: the same configuration and the same variables make the same plan, and two plans tell
//! what has to be stopped, started and replaced.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::super::messages::IngressState;
use super::super::poller::{Credentials, JiraProject, PollSource};
use crate::config::{
    EnvName, Environment, GatewayConfig, JiraDeployment, JiraPoll, Secret, SlackSocket,
};

/// The ingresses, in the words of the configuration and of health.
pub(super) const INGRESSES: [&str; 6] = [
    GITHUB_POLL,
    "github-webhook",
    JIRA_POLL,
    "jira-webhook",
    "slack-http",
    SLACK_SOCKET,
];
const GITHUB_POLL: &str = "github-poll";
const JIRA_POLL: &str = "jira-poll";
const SLACK_SOCKET: &str = "slack-socket";

/// What is wanted.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Of each ingress, how it stands without asking an adapter; absent: its adapters say.
    pub(super) fixed: BTreeMap<&'static str, Fixed>,
    /// Of each source that is not asked, how it stands; by the name that its adapter would have.
    pub(super) withheld: BTreeMap<String, Fixed>,
    /// The adapters by name.
    pub(super) adapters: BTreeMap<String, Spec>,
}

/// How an ingress stands that has no adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fixed {
    pub(super) state: IngressState,
    pub(super) error: Option<String>,
    pub(super) variable: Option<String>,
}

/// One adapter. Two that are equal need not replace each other.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Spec {
    /// Slack's socket.
    Socket(SocketSpec),
    /// A source that is polled.
    Poller(PollerSpec),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SocketSpec {
    pub(super) api_base: String,
    pub(super) socket: SlackSocket,
    pub(super) tokens: Tokens,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct PollerSpec {
    pub(super) source: PollSource,
    pub(super) interval: Duration,
    pub(super) tokens: Tokens,
}

/// Variables and where their values are looked up. Equal when names and values are.
#[derive(Clone)]
pub(super) struct Tokens {
    environment: Environment,
    names: Vec<EnvName>,
}

impl Tokens {
    /// The value of a variable.
    pub(super) fn secret(&self, name: &EnvName) -> Secret {
        self.environment.secret(name)
    }

    /// How they are sent to an API: one is a bearer token, two are a name and a token.
    pub(super) fn credentials(&self) -> Option<Credentials> {
        let environment = self.environment.clone();
        match self.names.as_slice() {
            [token] => Some(Credentials::bearer(environment, token.clone())),
            [user, token] => Some(Credentials::basic(environment, user.clone(), token.clone())),
            _ => None,
        }
    }

    /// Why nobody can be asked with them.
    fn lack(&self) -> Option<Fixed> {
        if self.names.is_empty() {
            let error = "no token is named for this server: name a tokenEnv for it";
            return Some(Fixed::failed(error));
        }
        let unset = self.names.iter().find(|name| !self.secret(name).is_set());
        unset.map(Fixed::missing)
    }
}

impl PartialEq for Tokens {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |name| self.secret(name).expose() == other.secret(name).expose();
        self.names == other.names && self.names.iter().all(is_same)
    }
}

/// Says which variables, never what they hold.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokens").field(&self.names).finish()
    }
}

impl Fixed {
    const fn plain(state: IngressState) -> Self {
        Self {
            state,
            error: None,
            variable: None,
        }
    }

    fn missing(variable: &EnvName) -> Self {
        Self {
            state: IngressState::MissingSecret,
            error: Some(format!("{variable} is not set")),
            variable: Some(variable.to_string()),
        }
    }

    fn failed(error: &str) -> Self {
        Self {
            state: IngressState::Failed,
            error: Some(error.to_owned()),
            variable: None,
        }
    }

    fn route(is_enabled: bool, secrets: &[Secret], variable: &EnvName) -> Self {
        match (is_enabled, secrets) {
            (false, _) => Self::plain(IngressState::Disabled),
            (true, []) => Self::missing(variable),
            (true, [..]) => Self::plain(IngressState::Up),
        }
    }
}

impl Plan {
    /// What a configuration asks for. Slack's tokens have an environment of their own: they stay
    /// what they were when the socket was first opened.
    pub(super) fn of(
        config: &GatewayConfig,
        environment: &Environment,
        slack_environment: &Environment,
    ) -> Self {
        let mut plan = Self::default();
        plan.routes(config, environment);
        plan.socket(config, slack_environment);
        plan.github(config, environment);
        plan.jira(config, environment);
        plan
    }

    fn routes(&mut self, config: &GatewayConfig, environment: &Environment) {
        let webhooks = [
            ("github-webhook", &config.github.webhook),
            ("jira-webhook", &config.jira.webhook),
        ];
        for (name, webhook) in webhooks {
            let secrets = webhook.secrets(environment);
            let route = Fixed::route(webhook.enabled, &secrets, &webhook.secret_env);
            self.fixed.insert(name, route);
        }
        let http = &config.slack.http;
        let secrets = http.secrets(environment);
        let route = Fixed::route(http.enabled, &secrets, &http.signing_secret_env);
        self.fixed.insert("slack-http", route);
    }

    fn socket(&mut self, config: &GatewayConfig, environment: &Environment) {
        let socket = &config.slack.socket;
        let app_token = &socket.app_token_env;
        if !socket.enabled {
            let off = Fixed::plain(IngressState::Disabled);
            self.fixed.insert(SLACK_SOCKET, off);
        } else if !environment.secret(app_token).is_set() {
            self.fixed.insert(SLACK_SOCKET, Fixed::missing(app_token));
        } else {
            let tokens = Tokens {
                environment: environment.clone(),
                names: vec![app_token.clone(), socket.bot_token_env.clone()],
            };
            let spec = SocketSpec {
                api_base: config.slack.api_base.clone(),
                socket: socket.clone(),
                tokens,
            };
            self.adapters
                .insert(SLACK_SOCKET.to_owned(), Spec::Socket(spec));
        }
    }

    fn github(&mut self, config: &GatewayConfig, environment: &Environment) {
        let poll = &config.github.poll;
        if !poll.enabled {
            let off = Fixed::plain(IngressState::Disabled);
            self.fixed.insert(GITHUB_POLL, off);
            return;
        }
        let checks_every = poll.ci.enabled.then_some(poll.ci.interval);
        let sources = poll.sources.iter().map(|repository| {
            let tokens = Tokens {
                environment: environment.clone(),
                names: repository.token_env.iter().cloned().collect(),
            };
            let repository = repository.clone();
            let source = PollSource::GitHub {
                repository,
                checks_every,
            };
            (source, tokens)
        });
        self.pollers(GITHUB_POLL, sources.collect(), poll.interval);
    }

    fn jira(&mut self, config: &GatewayConfig, environment: &Environment) {
        let poll = &config.jira.poll;
        if !poll.enabled {
            let off = Fixed::plain(IngressState::Disabled);
            self.fixed.insert(JIRA_POLL, off);
            return;
        }
        let tokens = Tokens {
            environment: environment.clone(),
            names: jira_variables(poll, &config.jira.deployment),
        };
        let sources = jira_sources(config).into_iter();
        let sources = sources.map(|source| (source, tokens.clone()));
        self.pollers(JIRA_POLL, sources.collect(), poll.interval);
    }

    /// The sources of an ingress. What keeps all of them off keeps the ingress off; what keeps
    /// some of them off is said of those.
    fn pollers(
        &mut self,
        ingress: &'static str,
        sources: Vec<(PollSource, Tokens)>,
        interval: Duration,
    ) {
        let reasons: Vec<_> = sources.iter().map(|(_, tokens)| tokens.lack()).collect();
        let common = match reasons.split_first() {
            None => Some(Fixed::failed("nothing is named that could be polled")),
            Some((first, others)) if others.iter().all(|one| one == first) => first.clone(),
            Some(_) => None,
        };
        if let Some(common) = common {
            self.fixed.insert(ingress, common);
            return;
        }
        for ((source, tokens), reason) in sources.into_iter().zip(reasons) {
            let name = source.name();
            if let Some(reason) = reason {
                self.withheld.insert(name, reason);
                continue;
            }
            let spec = PollerSpec {
                source,
                interval,
                tokens,
            };
            self.adapters.insert(name, Spec::Poller(spec));
        }
    }
}

/// The variables that prove to Jira who asks: what a checked configuration does not name is not
/// needed.
fn jira_variables(poll: &JiraPoll, deployment: &JiraDeployment) -> Vec<EnvName> {
    let user = match deployment {
        JiraDeployment::Cloud | JiraDeployment::CloudScoped { .. } => poll.email_env.as_ref(),
        JiraDeployment::DataCenter => None,
    };
    user.into_iter().chain(&poll.token_env).cloned().collect()
}

fn jira_sources(config: &GatewayConfig) -> Vec<PollSource> {
    let poll = &config.jira.poll;
    let (Some(site), Some(api_base)) = (&config.declared.jira_site, &poll.api_base) else {
        return Vec::new();
    };
    let projects = config.declared.jira_projects.iter();
    let source = |key: &String| {
        PollSource::Jira(JiraProject {
            site: site.clone(),
            key: key.clone(),
            deployment: config.jira.deployment.clone(),
            api_base: api_base.clone(),
            labels: poll.labels.clone(),
        })
    };
    projects.map(source).collect()
}

/// The ingress that an adapter is a part of, and its source there.
pub(super) fn ingress_of(adapter: &str) -> (&str, Option<&str>) {
    adapter
        .split_once(':')
        .map_or((adapter, None), |(ingress, source)| (ingress, Some(source)))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
