//! What requests need of the configuration; replaced as a whole when it changes.

use std::time::Duration;

use super::guard::OwnNames;
use crate::config::{AllowedInstances, Environment, GatewayConfig, Secret};
use crate::domain::Provider;
use crate::providers::{Declared, Secrets};

/// The settings in force.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    pub(super) instances: AllowedInstances,
    pub(super) declared: Declared,
    pub(super) names: OwnNames,
    pub(super) github: Door,
    pub(super) jira: Door,
    pub(super) slack: Door,
    pub(super) wait_max: Duration,
    pub(super) open_requests_max: u64,
    pub(super) body_bytes_max: u64,
    pub(super) long_polls_max: u64,
    pub(super) metrics_enabled: bool,
}

/// The route of a provider.
#[derive(Debug, Clone)]
pub(super) struct Door {
    /// Without a trailing `/`; Slack's routes are below it.
    path: String,
    /// `None` when it is disabled, or enabled without its secret.
    pub(super) secrets: Option<Secrets>,
}

/// What a provider sends to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ingress {
    GitHub,
    Jira,
    SlackEvents,
    SlackInteractions,
    SlackCommands,
}

impl Ingress {
    pub(super) const fn provider(self) -> Provider {
        match self {
            Self::GitHub => Provider::GitHub,
            Self::Jira => Provider::Jira,
            Self::SlackEvents | Self::SlackInteractions | Self::SlackCommands => Provider::Slack,
        }
    }
}

impl HttpSettings {
    /// What a configuration says, with the secrets that its variables hold now.
    #[must_use]
    pub fn new(config: &GatewayConfig, environment: &Environment) -> Self {
        let webhook = |webhook: &crate::config::WebhookConfig| Door {
            path: webhook.path.clone(),
            secrets: live(webhook.enabled, || webhook.secrets(environment)),
        };
        let slack = &config.slack.http;
        Self {
            instances: config.instances.clone(),
            declared: config.declared.clone(),
            names: OwnNames::new(&config.listen.address.host, &config.listen.allowed_hosts),
            github: webhook(&config.github.webhook),
            jira: webhook(&config.jira.webhook),
            slack: Door {
                path: "/slack".to_owned(),
                secrets: live(slack.enabled, || slack.secrets(environment)),
            },
            wait_max: config.consume.wait_max,
            open_requests_max: count(config.listen.open_requests_max),
            body_bytes_max: config.listen.body_bytes_in_flight_max,
            long_polls_max: count(config.consume.long_polls_max),
            metrics_enabled: config.observability.metrics_enabled,
        }
    }

    /// The provider's route at a path; a trailing `/` is as good as none.
    pub(super) fn ingress_at(&self, path: &str) -> Option<Ingress> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if path == self.github.path {
            return Some(Ingress::GitHub);
        }
        if path == self.jira.path {
            return Some(Ingress::Jira);
        }
        match path.strip_prefix(self.slack.path.as_str())? {
            "/events" => Some(Ingress::SlackEvents),
            "/interactions" => Some(Ingress::SlackInteractions),
            "/commands" => Some(Ingress::SlackCommands),
            _ => None,
        }
    }

    /// The secrets of a route; `None` when it does not answer.
    pub(super) const fn secrets(&self, ingress: Ingress) -> Option<&Secrets> {
        match ingress {
            Ingress::GitHub => self.github.secrets.as_ref(),
            Ingress::Jira => self.jira.secrets.as_ref(),
            Ingress::SlackEvents | Ingress::SlackInteractions | Ingress::SlackCommands => {
                self.slack.secrets.as_ref()
            }
        }
    }
}

fn live(is_enabled: bool, secrets: impl FnOnce() -> Vec<Secret>) -> Option<Secrets> {
    if !is_enabled {
        return None;
    }
    let found = secrets();
    let mut values = found
        .iter()
        .map(|secret| secret.expose().unwrap_or_default().to_owned());
    Secrets::new(values.next()?, values.next())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config() -> GatewayConfig {
        let mut config = GatewayConfig::rooted_at(Path::new("/nowhere"));
        config.github.webhook.enabled = true;
        config.slack.http.enabled = true;
        config
    }

    #[test]
    fn a_route_answers_when_it_is_enabled_and_has_its_secret() {
        let environment = Environment::given([("THE_LOOP_GH_WEBHOOK_SECRET", "s")]);
        let settings = HttpSettings::new(&config(), &environment);
        assert!(settings.secrets(Ingress::GitHub).is_some());
        assert!(settings.secrets(Ingress::Jira).is_none());
        assert!(settings.secrets(Ingress::SlackEvents).is_none());
    }

    #[test]
    fn a_trailing_slash_is_as_good_as_none() {
        let settings = HttpSettings::new(&config(), &Environment::given([]));
        for (path, ingress) in [
            ("/gh-webhook", Some(Ingress::GitHub)),
            ("/gh-webhook/", Some(Ingress::GitHub)),
            ("/jira-webhook/", Some(Ingress::Jira)),
            ("/slack/events", Some(Ingress::SlackEvents)),
            ("/slack/commands/", Some(Ingress::SlackCommands)),
            ("/slack/interactions", Some(Ingress::SlackInteractions)),
            ("/gh-webhook//", None),
            ("/slack", None),
            ("/slack/", None),
            ("/GH-webhook", None),
            ("/", None),
        ] {
            assert_eq!(settings.ingress_at(path), ingress, "{path}");
        }
    }
}
