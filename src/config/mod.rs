//! What the operator decided: one YAML file, checked against a schema, turned into plain structs.
//!
//! Invariant: a [`GatewayConfig`] is complete and consistent, so nothing past [`load()`] checks it
//! again; it names secrets and never holds one. A span that is compared with stored times is in
//! [`Millis`]; one that a timer waits for is a [`Duration`].

mod build;
mod document;
mod env_file;
mod fingerprint;
mod load;
mod problem;
mod raw;
mod reload;
mod restart;
mod secrets;
mod template;
mod tidy;
mod transports;
mod warning;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use env_file::{EnvFile, EnvFileLine, EnvFileWarning};
pub use fingerprint::{ConfigFingerprint, FileChange};
pub use load::{LoadedConfig, SCHEMA, Search, load, salvage};
pub use problem::{ConfigError, PathProblem, ReadFault};
pub use reload::Reload;
pub use restart::RestartRequired;
pub use secrets::{EnvName, Environment, Secret};
pub use template::{InitChoices, new_secret, render_config, render_env, write_new};
pub use tidy::tidied;
pub use transports::{
    CiPoll, GitHubConfig, GitHubPoll, GitHubSource, JiraConfig, JiraDeployment, JiraPoll, Monitor,
    SlackConfig, SlackHttp, SlackSocket, WebhookConfig,
};
pub use warning::ConfigWarning;

use serde::{Deserialize, Serialize};

use crate::domain::{InstanceName, Millis};
use crate::providers::Declared;

/// The whole configuration; [`Default`] is what holds without a file.
#[derive(Debug, Clone)]
pub struct GatewayConfig {
    /// The file that it was read from, absolute but with its symbolic links; `None` without one.
    pub path: Option<PathBuf>,
    /// The file that secrets may come from besides the process environment.
    pub env_file: Option<PathBuf>,
    /// The directory of the store, the lock and the logs.
    pub state_root: PathBuf,
    /// The file of the database, below `state_root`.
    pub store_path: PathBuf,
    /// Where and how HTTP is answered.
    pub listen: Listen,
    /// How long and how often the store keeps trying.
    pub store: StoreLimits,
    /// What instances may ask for.
    pub consume: ConsumeLimits,
    /// What is ours: repositories, the Jira site and its projects, rooms.
    pub declared: Declared,
    /// How GitHub events arrive.
    pub github: GitHubConfig,
    /// How Jira events arrive.
    pub jira: JiraConfig,
    /// How Slack events arrive.
    pub slack: SlackConfig,
    /// Who may use the consumer API.
    pub instances: AllowedInstances,
    /// What the gateway tells of itself.
    pub observability: Observability,
}

impl GatewayConfig {
    /// The built-in defaults with another state root: loopback, no transport enabled.
    #[must_use]
    pub fn rooted_at(state_root: &Path) -> Self {
        Self {
            path: None,
            env_file: None,
            state_root: state_root.to_owned(),
            store_path: state_root.join("gateway.db"),
            listen: Listen::default(),
            store: StoreLimits::default(),
            consume: ConsumeLimits::default(),
            declared: Declared::default(),
            github: GitHubConfig::default(),
            jira: JiraConfig::default(),
            slack: SlackConfig::default(),
            instances: AllowedInstances::default(),
            observability: Observability {
                event_log_path: default_event_log(state_root),
                event_log_bytes_max: 100 * 1024 * 1024,
                event_logs_kept: 5,
                metrics_enabled: true,
            },
        }
    }

    /// The built-in defaults below a home directory.
    #[must_use]
    pub(crate) fn below_home(home: &Path) -> Self {
        Self::rooted_at(&home.join(".the-loop/gateway"))
    }
}

/// The built-in defaults, with the state root below the home directory of the process.
impl Default for GatewayConfig {
    fn default() -> Self {
        Self::below_home(&Environment::process().home().unwrap_or_default())
    }
}

fn default_event_log(state_root: &Path) -> PathBuf {
    state_root.join("logs/events.jsonl")
}

/// A host to bind and its port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// An IP address or a host name.
    pub host: String,
    /// The TCP port; 0 lets the system choose.
    pub port: u16,
}

/// As for a URL: an IPv6 address in brackets.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Where and how HTTP is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The listener of the API, and of the providers' routes unless `ingress` is set.
    pub address: Address,
    /// The listener that the providers' routes answer on, alone.
    pub ingress: Option<Address>,
    /// True when an address other than loopback is meant.
    pub exposed: bool,
    /// Further names that a `Host` header may carry, lower case, without port.
    pub allowed_hosts: BTreeSet<String>,
    /// Requests in progress at once.
    pub open_requests_max: usize,
    /// Bytes of request bodies held at once.
    pub body_bytes_in_flight_max: u64,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: Address {
                host: "127.0.0.1".to_owned(),
                port: 8790,
            },
            ingress: None,
            exposed: false,
            allowed_hosts: BTreeSet::new(),
            open_requests_max: 4096,
            body_bytes_in_flight_max: 256 * 1024 * 1024,
        }
    }
}

/// How long and how often the store keeps trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLimits {
    /// How long settled deliveries stay and unsettled ones wait; dead ones stay twice as long.
    pub retention_ms: Millis,
    /// The size above which settled deliveries go early and held ones expire.
    pub bytes_max: u64,
    /// The strikes after which a delivery is dead.
    pub strikes_max: u32,
    /// The wait after the first strike.
    pub retry_backoff_min_ms: Millis,
    /// The wait that no back-off exceeds.
    pub retry_backoff_max_ms: Millis,
    /// How many of the newest seen keys outlive their event whatever their age.
    pub dedup_window: u64,
    /// How long an event of an unknown work item waits to be resolved; 0 drops it at once.
    pub unbound_grace_ms: Millis,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            retention_ms: 7 * MILLIS_PER_DAY,
            bytes_max: 8 * 1024 * 1024 * 1024,
            strikes_max: 3,
            retry_backoff_min_ms: 30_000,
            retry_backoff_max_ms: 900_000,
            dedup_window: 10_000,
            unbound_grace_ms: 120_000,
        }
    }
}

const MILLIS_PER_SECOND: Millis = 1000;
const MILLIS_PER_DAY: Millis = 86_400 * MILLIS_PER_SECOND;

/// What instances may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumeLimits {
    /// Deliveries in one response.
    pub batch_max: usize,
    /// Bytes of payload in one response; the first delivery always fits.
    pub batch_bytes_max: u64,
    /// How long an empty fetch is held at most; zero: never.
    pub wait_max: Duration,
    /// Fetches held at once.
    pub long_polls_max: usize,
    /// The shortest lease.
    pub lease_min_ms: Millis,
    /// The longest lease.
    pub lease_max_ms: Millis,
    /// How long a delivery may be in hand without an outcome.
    pub hand_timeout_ms: Millis,
}

impl Default for ConsumeLimits {
    fn default() -> Self {
        Self {
            batch_max: 256,
            batch_bytes_max: 16 * 1024 * 1024,
            wait_max: Duration::from_secs(30),
            long_polls_max: 2048,
            lease_min_ms: 10_000,
            lease_max_ms: 300_000,
            hand_timeout_ms: 3_600_000,
        }
    }
}

/// The names that may use the consumer API; empty admits any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedInstances(pub BTreeSet<InstanceName>);

impl AllowedInstances {
    /// True when the name may use the consumer API.
    #[must_use]
    pub fn admit(&self, name: &InstanceName) -> bool {
        self.0.is_empty() || self.0.contains(name)
    }
}

/// What the gateway tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observability {
    /// The file of the event log.
    pub event_log_path: PathBuf,
    /// The size after which it is rotated.
    pub event_log_bytes_max: u64,
    /// How many rotated files are kept.
    pub event_logs_kept: u32,
    /// Whether `/metrics` answers.
    pub metrics_enabled: bool,
}
