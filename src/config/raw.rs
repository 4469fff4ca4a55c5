//! The file as serde reads it, key for key; an absent key is `None`.
//!
//! A list holds `None` where the schema refused an element, so that the others keep their place.

use serde::Deserialize;

pub(super) type RawList<T> = Vec<Option<T>>;

macro_rules! raw {
    ($($name:ident { $($field:ident: $kind:ty,)* })*) => {
        $(
            #[derive(Default, Deserialize)]
            #[serde(default, rename_all = "camelCase")]
            pub(super) struct $name {
                $(pub(super) $field: $kind,)*
            }
        )*
    };
}

raw! {
    RawConfig {
        env: RawEnv,
        state: RawState,
        listen: RawListen,
        store: RawStore,
        consume: RawConsume,
        repositories: RawList<String>,
        github: RawGitHub,
        jira: RawJira,
        slack: RawSlack,
        instances: RawList<String>,
        observability: RawObservability,
    }
    RawEnv {
        file: Option<String>,
    }
    RawState {
        root: Option<String>,
    }
    RawListen {
        host: Option<String>,
        port: Option<u16>,
        exposed: Option<bool>,
        ingress: Option<RawAddress>,
        allowed_hosts: RawList<String>,
        max_open_requests: Option<u32>,
        max_body_bytes_in_flight: Option<u64>,
    }
    RawAddress {
        host: Option<String>,
        port: Option<u16>,
    }
    RawStore {
        path: Option<String>,
        retention_days: Option<u32>,
        max_bytes: Option<u64>,
        max_attempts: Option<u32>,
        retry_backoff_seconds: RawRange,
        dedup_window: Option<u32>,
        unbound_grace_seconds: Option<u32>,
    }
    RawRange {
        min: Option<u32>,
        max: Option<u32>,
    }
    RawConsume {
        max_batch: Option<u32>,
        max_batch_bytes: Option<u64>,
        max_wait_seconds: Option<u32>,
        max_long_polls: Option<u32>,
        lease_seconds: RawRange,
        hand_timeout_seconds: Option<u32>,
    }
    RawWebhook {
        enabled: Option<bool>,
        path: Option<String>,
        secret_env: Option<String>,
        previous_secret_env: Option<String>,
    }
    RawGitHub {
        webhook: RawWebhook,
        poll: RawGitHubPoll,
    }
    RawGitHubPoll {
        enabled: Option<bool>,
        interval_seconds: Option<u32>,
        token_env: Option<String>,
        api_base: Option<String>,
        labels: Option<RawList<String>>,
        monitor: RawMonitor,
        ci: RawCi,
        sources: RawList<RawSource>,
    }
    RawMonitor {
        issues: Option<bool>,
        pull_requests: Option<bool>,
    }
    RawCi {
        enabled: Option<bool>,
        interval_seconds: Option<u32>,
    }
    RawSource {
        repositories: RawList<String>,
        token_env: Option<String>,
        api_base: Option<String>,
        labels: Option<RawList<String>>,
        monitor: RawMonitor,
    }
    RawJira {
        site: Option<String>,
        deployment: Option<String>,
        cloud_id: Option<String>,
        projects: RawList<String>,
        webhook: RawWebhook,
        poll: RawJiraPoll,
    }
    RawJiraPoll {
        enabled: Option<bool>,
        interval_seconds: Option<u32>,
        email_env: Option<String>,
        token_env: Option<String>,
        api_base: Option<String>,
        labels: Option<RawList<String>>,
    }
    RawSlack {
        api_base: Option<String>,
        socket: RawSocket,
        http: RawSlackHttp,
        rooms: RawList<RawRoom>,
    }
    RawSocket {
        enabled: Option<bool>,
        app_token_env: Option<String>,
        bot_token_env: Option<String>,
        split_check_beats: Option<u32>,
        catch_up_seconds: Option<u32>,
        overlap_on_refresh: Option<bool>,
    }
    RawSlackHttp {
        enabled: Option<bool>,
        signing_secret_env: Option<String>,
        previous_signing_secret_env: Option<String>,
    }
    RawRoom {
        channel: Option<String>,
        r#ref: Option<String>,
    }
    RawObservability {
        event_log: RawEventLog,
        metrics: RawMetrics,
    }
    RawEventLog {
        path: Option<String>,
        max_bytes: Option<u64>,
        keep: Option<u32>,
    }
    RawMetrics {
        enabled: Option<bool>,
    }
}
