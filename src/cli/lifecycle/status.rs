//! `status`: how the gateway of this configuration is, whether it runs or not.
//!
//! What runs is told by the lock, how it is by itself, what it holds by its files. Where one of
//! them does not answer, the others still do.

use std::path::Path;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::log::path_of;
use super::meant::{Meant, Which};
use super::{Fault, Process, background, if_there, shown_path, status_text};
use crate::app;
use crate::cli::api::Api;
use crate::cli::check::SecretState;
use crate::cli::context::{Context, reached_at};
use crate::cli::failure::Failure;
use crate::cli::file::{self, Rows};
use crate::cli::instances;
use crate::cli::list::Format;
use crate::cli::shown::Times;
use crate::config::GatewayConfig;
use crate::domain::Clock;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway status
  the-loop-gateway status --format json | jq '.ingresses[] | select(.state != \"up\")'
  the-loop-gateway --config /etc/gateway.yaml status --absolute

Shows the process, its ingresses and the socket, the store and its WAL, the instances within their
lease, which secrets are set, and what waits for a restart. `doctor` says what to do about it. A
config that was broken meanwhile is one of the problems, as long as it says where its state root is;
else --state-root does.

Exit codes: 0 it runs and is well, 1 it does not run or something is wrong, 2 the config does not
say which one is meant.";

const API: &str = "/api/v1/gateway";

/// Show how the gateway is
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Status {
    #[command(flatten)]
    which: Which,
    /// How to write it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Show moments as they are, in UTC, and not by their distance
    #[arg(long)]
    absolute: bool,
}

/// All that is known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    pub(super) ok: bool,
    pub(super) running: bool,
    pub(super) ready: bool,
    /// 0 when none runs.
    pub(super) pid: u32,
    pub(super) started_at: Option<String>,
    pub(super) version: Option<String>,
    pub(super) url: Option<String>,
    pub(super) webhooks_url: Option<String>,
    pub(super) supervised: bool,
    pub(super) config: Option<String>,
    pub(super) pidfile: String,
    pub(super) logfile: Option<String>,
    pub(super) event_log: String,
    pub(super) store: StoreFiles,
    pub(super) socket: Option<String>,
    pub(super) ingresses: Vec<Ingress>,
    pub(super) instances: Vec<Live>,
    pub(super) unattended: Vec<String>,
    pub(super) restart_required: Vec<String>,
    pub(super) secrets: Vec<SecretState>,
    /// Why it is not ok, in words.
    pub(super) problems: Vec<String>,
}

/// The store as files, and what the running gateway counts in it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoreFiles {
    pub(super) path: String,
    pub(super) bytes: Option<u64>,
    pub(super) wal_bytes: Option<u64>,
    pub(super) events: Option<u64>,
    pub(super) held: Option<u64>,
}

/// One ingress.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ingress {
    pub(super) name: String,
    pub(super) state: String,
    #[serde(flatten)]
    pub(super) details: Details,
}

/// What is behind the word of an ingress.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Details {
    pub(super) since: Option<String>,
    pub(super) error: Option<String>,
    pub(super) variable: Option<String>,
    pub(super) connections: Option<u64>,
    /// The sources that are not up.
    pub(super) sources: std::collections::BTreeMap<String, Value>,
}

/// An instance whose lease lasts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Live {
    pub(super) instance: String,
    pub(super) expires_in: f64,
    pub(super) backlog: u64,
}

/// `GET health`, as far as it is shown.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Health {
    pub(in crate::cli) ok: bool,
    pub(in crate::cli) version: String,
    pub(in crate::cli) ingresses: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    ingress_details: std::collections::BTreeMap<String, Details>,
    slack: Socket,
    store: StoreHealth,
    event_log: Part,
    #[serde(default)]
    pub(in crate::cli) restart_required: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Socket {
    socket: String,
}

#[derive(Debug, Deserialize)]
struct StoreHealth {
    ok: bool,
    events: u64,
    held: u64,
}

#[derive(Debug, Deserialize)]
struct Part {
    ok: bool,
}

#[derive(Debug, Deserialize)]
struct SubjectRow {
    subject: String,
    unattended: bool,
}

impl Status {
    pub(in crate::cli) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let meant = self.which.meant(context)?;
        for warning in &meant.warnings {
            context.output.note(&warning.to_string());
        }
        let shown = Context::wait_for(Shown::look(&meant, context))?;
        let text = match self.format {
            Format::Json => serde_json::to_string_pretty(&shown).map_err(Failure::Rows)?,
            Format::Table => {
                let times = if self.absolute {
                    Times::Absolute
                } else {
                    Times::RelativeTo(context.clock.now())
                };
                status_text::lines(&shown, times, context.output)
            }
        };
        context.output.data(&text)?;
        match (shown.ok, shown.running) {
            (true, _) => Ok(()),
            (false, false) => Err(Fault::NotRunning.into()),
            (false, true) => Err(Fault::Unwell(shown.problems.join("; ")).into()),
        }
    }
}

impl Shown {
    async fn look(meant: &Meant, context: &Context) -> Result<Self, Failure> {
        let config = &meant.config;
        let process = Process::of(meant.root())?;
        let mut shown = Self::of_files(meant, process.as_ref());
        let Some(process) = process else {
            let rows = |which| file::rows(which, &config.store_path, context.clock.now());
            shown.take_rows(
                rows(Rows::Instances).unwrap_or_default(),
                rows(Rows::Subjects).unwrap_or_default(),
            );
            return Ok(shown);
        };
        let base = process.note.as_ref().map(|note| reached_at(&note.api));
        let Some(base) = base.transpose()? else {
            shown.problems.push("it does not listen yet".to_owned());
            return Ok(shown);
        };
        let api = Api::new(base)?;
        match health(&api).await {
            Ok(health) => shown.take_health(health),
            Err(failure) => {
                shown.problems.push(failure.to_string());
                return Ok(shown);
            }
        }
        shown.ready = background::is_ready(&process).await;
        if !shown.ready {
            shown.problems.push("it takes no traffic".to_owned());
        }
        let instances = api
            .get_all(&format!("{API}/instances"), "instances")
            .await?;
        let subjects = api.get_all(&format!("{API}/subjects"), "subjects").await?;
        shown.take_rows(instances, subjects);
        shown.ok = shown.ok && shown.ready && !meant.is_config_wrong;
        Ok(shown)
    }

    fn of_files(meant: &Meant, process: Option<&Process>) -> Self {
        let config = &meant.config;
        let note = process.and_then(|process| process.note.as_deref());
        let url = |address| reached_at(address).ok().map(|base| base.to_string());
        let path = note.and_then(|note| note.config.as_ref());
        let path = path.or(config.path.as_ref());
        let log = if_there(path_of(&config.state_root));
        Self {
            ok: false,
            running: process.is_some(),
            ready: false,
            pid: process.map_or(0, |process| process.pid),
            started_at: note.map(|note| note.started_at.clone()),
            version: note.map(|note| note.version.clone()),
            url: note.and_then(|note| url(&note.api)),
            webhooks_url: note.and_then(|note| url(note.ingress.as_ref()?)),
            supervised: note.is_some_and(|note| note.is_supervised),
            config: path.map(|path| shown_path(path)),
            pidfile: shown_path(&app::pid_file(&config.state_root)),
            logfile: log.map(|path| shown_path(&path)),
            event_log: shown_path(&config.observability.event_log_path),
            store: StoreFiles::of(config),
            socket: None,
            ingresses: Vec::new(),
            instances: Vec::new(),
            unattended: Vec::new(),
            restart_required: Vec::new(),
            secrets: meant.secrets(),
            problems: meant.problems(),
        }
    }

    fn take_health(&mut self, health: Health) {
        self.ok = health.ok;
        self.problems.extend(health.problems());
        self.version = Some(health.version);
        self.socket = Some(health.slack.socket);
        self.store.events = Some(health.store.events);
        self.store.held = Some(health.store.held);
        self.restart_required = health.restart_required;
        let mut details = health.ingress_details;
        let rows = health.ingresses.into_iter().map(|(name, state)| Ingress {
            details: details.remove(&name).unwrap_or_default(),
            name,
            state,
        });
        self.ingresses = rows.collect();
    }

    /// Rows that are not as this version has them are left out: the lists say more of them.
    fn take_rows(&mut self, instances: Vec<Value>, subjects: Vec<Value>) {
        let rows = instances.into_iter().map(serde_json::from_value);
        let live =
            rows.filter_map(|row: Result<instances::Row, _>| row.ok().filter(|row| row.lease.live));
        self.instances = live
            .map(|row| Live {
                instance: row.instance,
                expires_in: row.lease.expires_in,
                backlog: row.backlog,
            })
            .collect();
        self.unattended = unattended(subjects);
    }
}

/// The subjects that nobody attends to.
pub(in crate::cli) fn unattended(subjects: Vec<Value>) -> Vec<String> {
    let rows = subjects.into_iter().map(serde_json::from_value);
    let rows = rows.filter_map(|row: Result<SubjectRow, _>| row.ok());
    let unattended = rows.filter(|row| row.unattended);
    unattended.map(|row| row.subject).collect()
}

/// How a running gateway says that it is.
pub(in crate::cli) async fn health(api: &Api) -> Result<Health, Failure> {
    let health = api.get(&format!("{API}/health")).await?;
    serde_json::from_value(health).map_err(Failure::Rows)
}

impl Health {
    /// What is wrong, in words; empty when it is ok.
    pub(in crate::cli) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.store.ok {
            problems.push("the store refuses writes".to_owned());
        }
        if !self.event_log.ok {
            problems.push("the event log cannot be written".to_owned());
        }
        let at_fault = self
            .ingresses
            .iter()
            .filter(|(_, state)| matches!(state.as_str(), "missing-secret" | "failed"));
        problems.extend(at_fault.map(|(name, state)| format!("{name} is {state}")));
        problems
    }

    /// What is behind the word of an ingress.
    pub(in crate::cli) fn error_of(&self, ingress: &str) -> Option<&str> {
        self.ingress_details.get(ingress)?.error.as_deref()
    }

    /// How many connections of its app Slack counts.
    pub(in crate::cli) fn socket_connections(&self) -> Option<u64> {
        self.ingress_details.get("slack-socket")?.connections
    }
}

impl StoreFiles {
    fn of(config: &GatewayConfig) -> Self {
        let path = &config.store_path;
        Self {
            path: shown_path(path),
            bytes: length_of(path),
            wal_bytes: length_of(&wal_of(path)),
            events: None,
            held: None,
        }
    }
}

/// The WAL of a store.
pub(in crate::cli) fn wal_of(store: &Path) -> std::path::PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// The length of a file; none when it is not there.
pub(in crate::cli) fn length_of(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path).ok()?.len())
}
