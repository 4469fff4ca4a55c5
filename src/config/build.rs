//! From the raw file to the configuration: defaults, paths, and what no schema can check.
//!
//! Each part that is wrong is named and gets its default, so that one pass finds everything; the
//! result counts only when nothing was named.

mod transports;

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::problem::{KeyPath, Problems};
use super::raw::{RawConfig, RawConsume, RawList, RawListen, RawObservability, RawRange, RawStore};
use super::{
    Address, AllowedInstances, ConsumeLimits, GatewayConfig, Listen, MILLIS_PER_DAY,
    MILLIS_PER_SECOND, Observability, StoreLimits, default_event_log, tidied,
};
use crate::domain::{InstanceName, Millis, ParseError};
use crate::providers::{Declared, RepositoryPattern};

/// Where relative paths and `~` lead to.
pub(super) struct Places {
    pub(super) file: PathBuf,
    directory: PathBuf,
    home: Option<PathBuf>,
}

impl Places {
    /// The places of the file at an absolute path.
    pub(super) fn of(file: &Path, home: Option<PathBuf>) -> Self {
        let directory = file.parent().unwrap_or(file).to_owned();
        Self {
            file: file.to_owned(),
            directory,
            home,
        }
    }

    /// A path of the file, made absolute from `base`.
    fn resolve(&self, text: &str, base: &Path) -> Result<PathBuf, ParseError> {
        let path = Path::new(text);
        let below_home = match path.components().next() {
            Some(Component::Normal(first)) if first.as_encoded_bytes().starts_with(b"~") => path
                .strip_prefix("~")
                .or(Err(ParseError("only ~ and ~/ stand for a home")))?,
            _ => return Ok(tidied(&base.join(path))),
        };
        let home = self
            .home
            .as_deref()
            .ok_or(ParseError("~ cannot be expanded without HOME"))?;
        Ok(tidied(&home.join(below_home)))
    }
}

/// Builds the configuration, adds what is wrong, and returns what would expose the gateway.
pub(super) fn build(
    raw: RawConfig,
    places: &Places,
    problems: &mut Problems,
) -> (GatewayConfig, Problems) {
    let default = GatewayConfig::below_home(places.home.as_deref().unwrap_or(Path::new("")));
    let mut path_at = |key: &str, text: Option<String>, base: &Path| {
        let resolved = places.resolve(&text?, base);
        resolved
            .map_err(|error| problems.spoil(KeyPath::of(key), error.to_string()))
            .ok()
    };
    let env_file = path_at("env.file", raw.env.file, &places.directory);
    let state_root = raw
        .state
        .root
        .or_else(|| Some("~/.the-loop/gateway".to_owned()));
    let state_root = path_at("state.root", state_root, &places.directory);
    let state_root = state_root.unwrap_or(default.state_root);
    let store_path = path_at("store.path", raw.store.path.clone(), &state_root);
    let store_path = store_path.unwrap_or_else(|| state_root.join("gateway.db"));
    let event_log = raw.observability.event_log.path.clone();
    let event_log = path_at("observability.eventLog.path", event_log, &places.directory);
    let event_log = event_log.unwrap_or_else(|| default_event_log(&state_root));
    check_store_path(&store_path, &state_root, problems);
    let repositories = parse_each(
        "repositories",
        raw.repositories,
        problems,
        RepositoryPattern::parse,
    );
    let instances = parse_each("instances", raw.instances, problems, InstanceName::parse);
    let mut declared = Declared {
        repositories,
        ..Declared::default()
    };
    let config = GatewayConfig {
        path: Some(places.file.clone()),
        env_file,
        state_root,
        store_path,
        listen: listen(raw.listen, problems),
        store: store(&raw.store, problems),
        consume: consume(&raw.consume, problems),
        github: transports::github(raw.github, &declared, problems),
        jira: transports::jira(raw.jira, &mut declared, problems),
        slack: transports::slack(raw.slack, &mut declared, problems),
        instances: AllowedInstances(instances.into_iter().collect()),
        observability: observability(&raw.observability, event_log, &default.observability),
        declared,
    };
    transports::check_routes(&config, problems);
    let exposures = exposures(&config.listen);
    (config, exposures)
}

fn listen(raw: RawListen, problems: &mut Problems) -> Listen {
    let default = Listen::default();
    let host = |key: &str, host: Option<String>, problems: &mut Problems| {
        parse_one(key, host, problems, parse_host).unwrap_or_else(|| default.address.host.clone())
    };
    let address = Address {
        host: host("listen.host", raw.host, problems),
        port: raw.port.unwrap_or(default.address.port),
    };
    let ingress = raw.ingress.map(|raw| Address {
        host: host("listen.ingress.host", raw.host, problems),
        port: raw.port.unwrap_or_default(),
    });
    if let Some(ingress) = &ingress
        && ingress.port == address.port
        && ingress.port != 0
        && !problems.spoil_any_of(&["listen.port", "listen.ingress"])
    {
        problems.add(
            KeyPath::of("listen.ingress.port"),
            "must differ from listen.port",
        );
    }
    let allowed_hosts = parse_each(
        "listen.allowedHosts",
        raw.allowed_hosts,
        problems,
        parse_host,
    );
    Listen {
        address,
        ingress,
        exposed: raw.exposed.unwrap_or(default.exposed),
        allowed_hosts: allowed_hosts
            .iter()
            .map(|host| host.to_ascii_lowercase())
            .collect(),
        open_requests_max: count(raw.max_open_requests, default.open_requests_max),
        body_bytes_in_flight_max: raw
            .max_body_bytes_in_flight
            .unwrap_or(default.body_bytes_in_flight_max),
    }
}

fn store(raw: &RawStore, problems: &mut Problems) -> StoreLimits {
    let default = StoreLimits::default();
    let retry_backoff_ms = range(
        "store.retryBackoffSeconds",
        &raw.retry_backoff_seconds,
        (default.retry_backoff_min_ms, default.retry_backoff_max_ms),
        problems,
    );
    StoreLimits {
        retention_ms: raw.retention_days.map_or(default.retention_ms, |days| {
            Millis::from(days).saturating_mul(MILLIS_PER_DAY)
        }),
        bytes_max: raw.max_bytes.unwrap_or(default.bytes_max),
        strikes_max: raw.max_attempts.unwrap_or(default.strikes_max),
        retry_backoff_min_ms: retry_backoff_ms.0,
        retry_backoff_max_ms: retry_backoff_ms.1,
        dedup_window: raw.dedup_window.map_or(default.dedup_window, u64::from),
        unbound_grace_ms: millis(raw.unbound_grace_seconds, default.unbound_grace_ms),
    }
}

fn consume(raw: &RawConsume, problems: &mut Problems) -> ConsumeLimits {
    let default = ConsumeLimits::default();
    let lease_ms = range(
        "consume.leaseSeconds",
        &raw.lease_seconds,
        (default.lease_min_ms, default.lease_max_ms),
        problems,
    );
    ConsumeLimits {
        batch_max: count(raw.max_batch, default.batch_max),
        batch_bytes_max: raw.max_batch_bytes.unwrap_or(default.batch_bytes_max),
        wait_max: duration(raw.max_wait_seconds, default.wait_max),
        long_polls_max: count(raw.max_long_polls, default.long_polls_max),
        lease_min_ms: lease_ms.0,
        lease_max_ms: lease_ms.1,
        hand_timeout_ms: millis(raw.hand_timeout_seconds, default.hand_timeout_ms),
    }
}

fn observability(
    raw: &RawObservability,
    event_log_path: PathBuf,
    default: &Observability,
) -> Observability {
    Observability {
        event_log_path,
        event_log_bytes_max: raw
            .event_log
            .max_bytes
            .unwrap_or(default.event_log_bytes_max),
        event_logs_kept: raw.event_log.keep.unwrap_or(default.event_logs_kept),
        metrics_enabled: raw.metrics.enabled.unwrap_or(default.metrics_enabled),
    }
}

/// Two bounds in milliseconds; the lower must not be above the upper.
fn range(
    key: &str,
    raw: &RawRange,
    default: (Millis, Millis),
    problems: &mut Problems,
) -> (Millis, Millis) {
    let (min, max) = (millis(raw.min, default.0), millis(raw.max, default.1));
    if min > max && !problems.spoil_any_of(&[key]) {
        match raw.min {
            Some(_) => problems.add(KeyPath::of(key).join("min"), "is above max"),
            None => problems.add(KeyPath::of(key).join("max"), "is below min"),
        }
    }
    (min, max)
}

fn check_store_path(store_path: &Path, state_root: &Path, problems: &mut Problems) {
    let (real_path, real_root) = (followed(store_path), followed(state_root));
    let is_below = real_path.starts_with(&real_root) && real_path != real_root;
    if !is_below && !problems.spoil_any_of(&["store.path", "state.root"]) {
        problems.add(KeyPath::of("store.path"), "must lie below state.root");
    }
}

/// The path with its symbolic links followed, as far as it exists.
fn followed(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|ancestor| {
        Some((
            ancestor.canonicalize().ok()?,
            path.strip_prefix(ancestor).ok()?,
        ))
    });
    let (mut real, rest) = existing.unwrap_or((PathBuf::new(), path));
    for component in rest.components() {
        match component {
            Component::ParentDir => {
                real.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                real.push(component);
            }
        }
    }
    real
}

fn exposures(listen: &Listen) -> Problems {
    let mut exposures = Problems::default();
    let ingress = listen
        .ingress
        .as_ref()
        .map(|address| ("listen.ingress.host", address));
    for (key, address) in [("listen.host", &listen.address)]
        .into_iter()
        .chain(ingress)
    {
        if !listen.exposed && !is_loopback(&address.host) {
            exposures.add(
                KeyPath::of(key),
                "is not a loopback address; listen.exposed: true confirms that this is meant",
            );
        }
    }
    exposures
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn parse_host(text: &str) -> Result<String, ParseError> {
    if text.contains(':') && text.parse::<IpAddr>().is_err() {
        return Err(ParseError(
            "must be an IP address or a host name, without a port",
        ));
    }
    Ok(text.to_owned())
}

fn parse_one<T>(
    key: &str,
    text: Option<String>,
    problems: &mut Problems,
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> Option<T> {
    parse_at(KeyPath::of(key), text, problems, parse)
}

/// As [`parse_one`], for a key below an element of a list.
fn parse_at<T>(
    at: KeyPath,
    text: Option<String>,
    problems: &mut Problems,
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> Option<T> {
    let parsed = parse(&text?);
    parsed
        .map_err(|error| problems.spoil(at, error.to_string()))
        .ok()
}

fn parse_each<T>(
    key: &str,
    texts: RawList<String>,
    problems: &mut Problems,
    parse: impl Fn(&str) -> Result<T, ParseError>,
) -> Vec<T> {
    let mut parsed = Vec::with_capacity(texts.len());
    for (index, text) in texts.into_iter().enumerate() {
        match text.map(|text| parse(&text)) {
            Some(Ok(item)) => parsed.push(item),
            Some(Err(error)) => problems.spoil(KeyPath::of(key).join(index), error.to_string()),
            None => {}
        }
    }
    parsed
}

fn count(raw: Option<u32>, default: usize) -> usize {
    raw.map_or(default, |count| {
        usize::try_from(count).unwrap_or(usize::MAX)
    })
}

fn duration(seconds: Option<u32>, default: Duration) -> Duration {
    seconds.map_or(default, |seconds| Duration::from_secs(u64::from(seconds)))
}

fn millis(seconds: Option<u32>, default: Millis) -> Millis {
    let to_millis = |seconds| Millis::from(seconds).saturating_mul(MILLIS_PER_SECOND);
    seconds.map_or(default, to_millis)
}
