//! What became of a process, in one row or one JSON object.

use serde::Serialize;

use super::{Process, shown_path};
use crate::cli::context::{Context, reached_at};
use crate::cli::failure::Failure;
use crate::cli::list::Format;
use crate::cli::shown::span;

const SERVICE: &str = "gateway";

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Started,
    AlreadyRunning,
    Restarted,
    Stopped,
    NotRunning,
    Failed,
    Misconfigured,
}

impl Outcome {
    const fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::AlreadyRunning => "already-running",
            Self::Restarted => "restarted",
            Self::Stopped => "stopped",
            Self::NotRunning => "not-running",
            Self::Failed => "failed",
            Self::Misconfigured => "misconfigured",
        }
    }
}

/// What became of a process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    service: &'static str,
    pub(super) outcome: Outcome,
    /// 0 when none runs or ran.
    pid: u32,
    url: Option<String>,
    logfile: Option<String>,
    detail: String,
}

impl Report {
    /// A gateway that runs.
    pub(super) fn up(outcome: Outcome, process: &Process, log: Option<&std::path::Path>) -> Self {
        let api = process.note.as_ref().map(|note| reached_at(&note.api));
        let url = api.and_then(Result::ok).map(|base| base.to_string());
        let place = url.as_ref().map(|url| format!(", {url}"));
        Self {
            service: SERVICE,
            outcome,
            pid: process.pid,
            detail: format!("process {}{}", process.pid, place.unwrap_or_default()),
            url,
            logfile: log.map(shown_path),
        }
    }

    /// A gateway that ran.
    pub(super) fn stopped(pid: u32, after_ms: u64) -> Self {
        Self {
            service: SERVICE,
            outcome: Outcome::Stopped,
            pid,
            url: None,
            logfile: None,
            detail: format!("process {pid}, after {}", span(after_ms)),
        }
    }

    /// None ran.
    pub(super) fn not_running() -> Self {
        Self {
            service: SERVICE,
            outcome: Outcome::NotRunning,
            pid: 0,
            url: None,
            logfile: None,
            detail: String::new(),
        }
    }

    fn failed(failure: &Failure) -> Self {
        let is_of_config = matches!(failure, Failure::Config(_))
            || matches!(failure, Failure::Lifecycle(fault) if fault.is_of_config());
        Self {
            outcome: if is_of_config {
                Outcome::Misconfigured
            } else {
                Outcome::Failed
            },
            detail: failure.to_string(),
            ..Self::not_running()
        }
    }

    fn row(&self) -> String {
        format!("{SERVICE}  {:<15}  {}", self.outcome.word(), self.detail)
    }
}

/// Writes what became of it; a failure only as JSON, for it is told on standard error anyway.
pub(super) fn write(
    report: Result<Report, Failure>,
    format: Format,
    context: &Context,
) -> Result<(), Failure> {
    let shown = match (&report, format) {
        (Ok(report), Format::Table) => report.row(),
        (Err(_), Format::Table) => return report.map(drop),
        (Ok(report), Format::Json) => json(report)?,
        (Err(failure), Format::Json) => json(&Report::failed(failure))?,
    };
    context.output.data(&shown)?;
    report.map(drop)
}

fn json(report: &Report) -> Result<String, Failure> {
    serde_json::to_string_pretty(report).map_err(Failure::Rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_became_of_which_process() {
        let process = Process {
            pid: 42,
            note: None,
        };
        let up = Report::up(Outcome::AlreadyRunning, &process, None);
        assert_eq!(up.row(), "gateway  already-running  process 42");
        assert_eq!(
            Report::stopped(42, 120).row(),
            "gateway  stopped          process 42, after 120 ms"
        );
        assert_eq!(
            Report::not_running().row().trim_end(),
            "gateway  not-running"
        );
    }
}
