//! `start`, `stop`, `restart`, `status`: the gateway as a process of this machine.
//!
//! Invariant: who runs is told by the lock on the file with the process id, and by nothing else.
//! Each verb can be repeated: what is so already is no failure.

mod background;
mod fault;
mod log;
mod meant;
mod report;
mod restart;
mod start;
mod status;
mod status_text;
mod stop;

use std::path::{Path, PathBuf};

use self::fault::no_look;
use super::failure::Failure;
use crate::app::{self, RunNote, Standing};

pub(super) use self::fault::Fault;
pub(super) use self::log::keep_bounded as keep_log_bounded;
pub(super) use self::restart::Restart;
pub(super) use self::start::Start;
pub(super) use self::status::{Health, Status, health, length_of, unattended, wal_of};
pub(super) use self::stop::Stop;

/// The process that has the lock, and what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: u32,
    /// Where it listens; none while it starts.
    pub(super) note: Option<Box<RunNote>>,
}

impl Process {
    /// The gateway that runs on a state root.
    ///
    /// # Errors
    /// When that cannot be told, or when what has the lock is no gateway.
    pub(super) fn of(root: &Path) -> Result<Option<Self>, Failure> {
        match app::look(root).map_err(|fault| no_look(root, fault))? {
            Standing::Down => Ok(None),
            Standing::Up { pid: None, .. } => Err(Fault::Nameless(app::pid_file(root)).into()),
            Standing::Up {
                pid: Some(pid),
                note,
            } => Ok(Some(Self { pid, note })),
        }
    }
}

/// Leaves the session of whoever started this process, so that it outlives their terminal.
pub(super) fn leave_session() -> Result<(), Failure> {
    match rustix::process::setsid() {
        Ok(_) => Ok(()),
        // It leads one already.
        Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(Fault::Spawn(error.into()).into()),
    }
}

/// A path as JSON shows it.
fn shown_path(path: &Path) -> String {
    path.display().to_string()
}

/// The file, if it is there.
fn if_there(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}
