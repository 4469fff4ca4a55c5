//! Starting a gateway that goes on by itself, and waiting until it is ready; stopping one.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use super::fault::Fault;
use super::log::{Log, path_of};
use super::report::{Outcome, Report};
use super::{Process, start::StartOptions};
use crate::app;
use crate::cli::api::Api;
use crate::cli::context::reached_at;
use crate::cli::failure::Failure;
use crate::config::LoadedConfig;
use crate::domain::{Clock, SystemClock};

/// How long a gateway may take to be ready, and to end.
pub(super) const READY_MAX: Duration = Duration::from_secs(15);
pub(super) const STOP_MAX: Duration = Duration::from_secs(12);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const READY: &str = "/api/v1/gateway/ready";
/// The exit code of a gateway that blames its configuration.
const WRONG_CONFIG: i32 = 2;
/// A supervisor that waits for the caller must not hear of a process that it does not know.
const OF_SUPERVISOR: [&str; 4] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_FDS",
];

/// Starts a gateway unless one runs, and waits until it is ready.
pub(super) async fn start(
    loaded: &LoadedConfig,
    options: &StartOptions,
) -> Result<Report, Failure> {
    let root = &loaded.config.state_root;
    app::create_root(root)?;
    if let Some(process) = Process::of(root)? {
        let path = path_of(root);
        let process = ready(root, None, process.pid, &path).await?;
        let log = super::if_there(path);
        return Ok(Report::up(
            Outcome::AlreadyRunning,
            &process,
            log.as_deref(),
        ));
    }
    let log = Log::open(root)?;
    let child = spawn(loaded, options, &log)?;
    let pid = child.id();
    let process = ready(root, Some((child, &log)), pid, log.path()).await?;
    let outcome = if process.pid == pid {
        Outcome::Started
    } else {
        Outcome::AlreadyRunning
    };
    Ok(Report::up(outcome, &process, Some(log.path())))
}

fn spawn(loaded: &LoadedConfig, options: &StartOptions, log: &Log) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(Fault::Spawn)?;
    let mut command = Command::new(program);
    if let Some(path) = &loaded.config.path {
        // Found once: a directory that may be removed is not held, and no other file found.
        command.arg("--config").arg(path);
        command.current_dir(&loaded.config.state_root);
    }
    command
        .args(["run", "--detached"])
        .args(options.arguments());
    for variable in OF_SUPERVISOR {
        command.env_remove(variable);
    }
    command
        .stdin(Stdio::null())
        .stdout(log.as_output()?)
        .stderr(log.as_output()?);
    Ok(command.spawn().map_err(Fault::Spawn)?)
}

/// Waits until the gateway with this process id is ready. One that was started here may end
/// meanwhile; if it does because somebody else was faster, that one is waited for.
async fn ready(
    root: &Path,
    mut started: Option<(Child, &Log)>,
    mut pid: u32,
    log: &Path,
) -> Result<Process, Failure> {
    let until = deadline(READY_MAX);
    let mut due = ticks();
    loop {
        due.tick().await;
        let found = Process::of(root).unwrap_or_default();
        if let Some((child, log)) = &mut started
            && let Some(status) = child.try_wait().map_err(Fault::Spawn)?
        {
            let other = found.as_ref().filter(|found| found.pid != pid);
            pid = other.ok_or_else(|| not_started(status, log))?.pid;
            started = None;
        }
        if let Some(found) = found.filter(|found| found.pid == pid)
            && timeout_at(until, is_ready(&found))
                .await
                .unwrap_or_default()
        {
            return Ok(found);
        }
        if Instant::now() >= until {
            return Err(Fault::NotReady {
                pid,
                seconds: READY_MAX.as_secs(),
                log: log.to_owned(),
            }
            .into());
        }
    }
}

fn not_started(status: ExitStatus, log: &Log) -> Fault {
    Fault::NotStarted {
        reason: log.last_words(),
        log: log.path().to_owned(),
        is_of_config: status.code() == Some(WRONG_CONFIG),
    }
}

/// Whether a gateway says of itself that it takes traffic.
pub(super) async fn is_ready(process: &Process) -> bool {
    let base = process.note.as_ref().map(|note| reached_at(&note.api));
    let Some(Ok(base)) = base else {
        return false;
    };
    match Api::new(base) {
        Ok(api) => api.get(READY).await.is_ok(),
        Err(_) => false,
    }
}

/// Tells a gateway to stop, and waits until it is gone.
pub(super) async fn stop(root: &Path) -> Result<Report, Failure> {
    let Some(Process { pid, .. }) = Process::of(root)? else {
        return Ok(Report::not_running());
    };
    let began = SystemClock.instant();
    terminate(pid)?;
    let until = deadline(STOP_MAX);
    let mut due = ticks();
    loop {
        due.tick().await;
        let is_there = Process::of(root)?.is_some_and(|found| found.pid == pid);
        if !is_there {
            let took = SystemClock.instant().saturating_duration_since(began);
            let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            return Ok(Report::stopped(pid, took));
        }
        if Instant::now() >= until {
            let seconds = STOP_MAX.as_secs();
            return Err(Fault::StillRunning { pid, seconds }.into());
        }
    }
}

fn terminate(pid: u32) -> Result<(), Failure> {
    let failed = |fault| Fault::Signal { pid, fault };
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))?;
    match kill_process(number, Signal::TERM) {
        // It ended by itself meanwhile.
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(failed(error.into()).into()),
    }
}

fn deadline(after: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(after).unwrap_or(now)
}

fn ticks() -> tokio::time::Interval {
    let mut due = interval(LOOK_EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    due
}
