//! Why a process was not started or stopped, or is not well.

use std::io;
use std::path::{Path, PathBuf};

use crate::app;
use crate::cli::failure::Failure;

/// Why a process was not started or stopped, or is not well; each sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Fault {
    /// The lock is held by something that left no process id.
    #[error("something holds the lock on {}, and it is no gateway; `fuser` names it", .0.display())]
    Nameless(PathBuf),
    /// The program cannot be run in the background.
    #[error("no process can be started: {0}")]
    Spawn(#[source] io::Error),
    /// The process ended before it was ready.
    #[error("the gateway did not start: {reason}; its log is {}", log.display())]
    NotStarted {
        /// What it said last.
        reason: String,
        /// Where it said it.
        log: PathBuf,
        /// True when it blamed its configuration.
        is_of_config: bool,
    },
    /// The process runs, and is not ready in time.
    #[error(
        "process {pid} runs, but is not ready after {seconds} s; it is left to itself: `status` \
         says when it is, and {} says what it does",
        log.display()
    )]
    NotReady {
        /// The process.
        pid: u32,
        /// How long it had.
        seconds: u64,
        /// Where it says what it does.
        log: PathBuf,
    },
    /// A signal could not be sent.
    #[error("process {pid} cannot be told to stop: {fault}; it may belong to another user")]
    Signal {
        /// The process.
        pid: u32,
        /// Why.
        #[source]
        fault: io::Error,
    },
    /// The process was told to stop, and goes on.
    #[error(
        "process {pid} has not ended within {seconds} s; `stop` once more makes it hurry, and \
         SIGKILL ends it, which loses nothing that was acknowledged"
    )]
    StillRunning {
        /// The process.
        pid: u32,
        /// How long it had.
        seconds: u64,
    },
    /// Something else starts and stops the process.
    #[error(
        "process {pid} is kept by a supervisor, which would not know the new one; restart it \
         there, as with `systemctl restart the-loop-gateway`"
    )]
    Supervised {
        /// The process.
        pid: u32,
    },
    /// No gateway runs.
    #[error("the gateway is not running; `the-loop-gateway start` starts it")]
    NotRunning,
    /// It runs, and something is wrong.
    #[error("the gateway is not well: {0}")]
    Unwell(String),
    /// The examination found something.
    #[error("{found} of {made} checks found something wrong")]
    Findings {
        /// How many.
        found: usize,
        /// Of how many.
        made: usize,
    },
}

impl Fault {
    /// True when the configuration has to be changed.
    pub(in crate::cli) const fn is_of_config(&self) -> bool {
        match self {
            Self::NotStarted { is_of_config, .. } => *is_of_config,
            Self::Nameless(_)
            | Self::Spawn(_)
            | Self::NotReady { .. }
            | Self::Signal { .. }
            | Self::StillRunning { .. }
            | Self::Supervised { .. }
            | Self::NotRunning
            | Self::Unwell(_)
            | Self::Findings { .. } => false,
        }
    }
}

/// It cannot be told whether a gateway runs.
pub(super) fn no_look(root: &Path, fault: io::Error) -> Failure {
    Failure::Read {
        path: app::pid_file(root),
        fault,
    }
}
