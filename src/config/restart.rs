//! What a running gateway cannot take over from a changed configuration.

use std::fmt;

use super::{EnvName, GatewayConfig, LoadedConfig, default_event_log};

/// A change that waits for a restart; every other change applies at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestartRequired {
    /// `listen.host` or `listen.port`.
    ListenAddress,
    /// `listen.ingress`.
    IngressAddress,
    /// `state.root`.
    StateRoot,
    /// `store.path`.
    StorePath,
    /// `slack.socket.appTokenEnv`, or the token that it names.
    SlackAppToken,
    /// `slack.socket.botTokenEnv`, or the token that it names.
    SlackBotToken,
}

impl RestartRequired {
    /// What differs between the configuration that the gateway started with and a newer one.
    #[must_use]
    pub fn between(started: &LoadedConfig, newer: &LoadedConfig) -> Vec<Self> {
        let (old, new) = (&started.config, &newer.config);
        let (old_socket, new_socket) = (&old.slack.socket, &new.slack.socket);
        let token_differs = |old: &EnvName, new: &EnvName| {
            let (old_token, new_token) = (
                started.environment.secret(old),
                newer.environment.secret(new),
            );
            old != new || old_token.expose() != new_token.expose()
        };
        let old_store = old.store_path.strip_prefix(&old.state_root);
        let new_store = new.store_path.strip_prefix(&new.state_root);
        let differs = [
            (
                Self::ListenAddress,
                old.listen.address != new.listen.address,
            ),
            (
                Self::IngressAddress,
                old.listen.ingress != new.listen.ingress,
            ),
            (Self::StateRoot, old.state_root != new.state_root),
            (Self::StorePath, old_store.ok() != new_store.ok()),
            (
                Self::SlackAppToken,
                token_differs(&old_socket.app_token_env, &new_socket.app_token_env),
            ),
            (
                Self::SlackBotToken,
                token_differs(&old_socket.bot_token_env, &new_socket.bot_token_env),
            ),
        ];
        differs
            .into_iter()
            .filter_map(|(what, differs)| differs.then_some(what))
            .collect()
    }
}

/// The key that the operator knows.
impl fmt::Display for RestartRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ListenAddress => "listen.host and listen.port",
            Self::IngressAddress => "listen.ingress",
            Self::StateRoot => "state.root",
            Self::StorePath => "store.path",
            Self::SlackAppToken => "slack.socket.appTokenEnv",
            Self::SlackBotToken => "slack.socket.botTokenEnv",
        })
    }
}

impl GatewayConfig {
    /// This configuration with whatever waits for a restart as it was at the start: what applies
    /// now.
    #[must_use]
    pub fn with_start_settings_of(mut self, started: &Self) -> Self {
        if self.observability.event_log_path == default_event_log(&self.state_root) {
            self.observability.event_log_path = default_event_log(&started.state_root);
        }
        self.state_root.clone_from(&started.state_root);
        self.store_path.clone_from(&started.store_path);
        self.listen.address.clone_from(&started.listen.address);
        self.listen.ingress.clone_from(&started.listen.ingress);
        let (socket, socket_at_start) = (&mut self.slack.socket, &started.slack.socket);
        socket
            .app_token_env
            .clone_from(&socket_at_start.app_token_env);
        socket
            .bot_token_env
            .clone_from(&socket_at_start.bot_token_env);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::tests::loaded;

    #[test]
    fn only_addresses_paths_and_slack_tokens_wait_for_a_restart() {
        use RestartRequired::{
            IngressAddress, ListenAddress, SlackAppToken, SlackBotToken, StateRoot, StorePath,
        };
        let started = loaded("{}");
        for (text, expected) in [
            ("listen: {port: 1}", vec![ListenAddress]),
            ("listen: {host: '::1'}", vec![ListenAddress]),
            ("listen: {ingress: {port: 1}}", vec![IngressAddress]),
            ("state: {root: elsewhere}", vec![StateRoot]),
            ("store: {path: other.db}", vec![StorePath]),
            ("slack: {socket: {appTokenEnv: OTHER}}", vec![SlackAppToken]),
            ("slack: {socket: {botTokenEnv: OTHER}}", vec![SlackBotToken]),
            ("store: {retentionDays: 1, maxAttempts: 9}", vec![]),
            (
                "listen: {maxOpenRequests: 1, allowedHosts: [a.example]}",
                vec![],
            ),
            (
                "github: {webhook: {enabled: true, secretEnv: OTHER, path: /other}}",
                vec![],
            ),
            (
                "slack: {http: {enabled: true, signingSecretEnv: OTHER}}",
                vec![],
            ),
        ] {
            assert_eq!(
                RestartRequired::between(&started, &loaded(text)),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_slack_token_that_changed_under_its_name_waits_too() {
        let named = loaded("{}");
        let mut newer = loaded("{}");
        newer.environment = crate::config::Environment::given([("THE_LOOP_SLACK_APP_TOKEN", "a")]);
        let waiting = RestartRequired::between(&named, &newer);
        assert_eq!(waiting, [RestartRequired::SlackAppToken]);
        assert_eq!(waiting[0].to_string(), "slack.socket.appTokenEnv");
    }

    #[test]
    fn what_applies_now_keeps_what_waits_for_a_restart() {
        let started = loaded("{}");
        let newer = loaded(
            "{listen: {port: 1, maxOpenRequests: 7}, state: {root: elsewhere}, \
             slack: {socket: {appTokenEnv: OTHER}}}",
        );
        let applied = LoadedConfig {
            config: newer.config.clone().with_start_settings_of(&started.config),
            ..newer
        };
        assert!(RestartRequired::between(&started, &applied).is_empty());
        assert_eq!(applied.config.listen.open_requests_max, 7);
        let event_log = &applied.config.observability.event_log_path;
        assert_eq!(*event_log, started.config.observability.event_log_path);
    }
}
