//! What a gateway in the background writes to its console: a file beside the lock.
//!
//! Invariant: it does not grow without bound. The process has the file open, so a full one is
//! copied and emptied; lines that fall between the two are lost, and the event log has the record.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::fault::Fault;
use crate::cli::failure::Failure;

const NAME: &str = "gateway.log";
const BYTES_MAX: u64 = 16 * 1024 * 1024;
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// As much of its end as a reason can be in.
const TAIL_BYTES_MAX: u64 = 16 * 1024;
const TAIL_LINES: usize = 5;

/// The file, and where the process that is about to start will begin to write.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    from: u64,
}

/// Where the log of a state root is.
pub(super) fn path_of(root: &Path) -> PathBuf {
    root.join(NAME)
}

impl Log {
    /// Opens it for a process that is about to start.
    pub(super) fn open(root: &Path) -> Result<Self, Failure> {
        let path = path_of(root);
        let opened = (|| {
            shorten(&path)?;
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(&path)?;
            let from = file.metadata()?.len();
            Ok((file, from))
        })();
        match opened {
            Ok((file, from)) => Ok(Self { path, file, from }),
            Err(fault) => Err(Failure::Write { path, fault }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file as a standard output.
    pub(super) fn as_output(&self) -> Result<Stdio, Failure> {
        let file = self.file.try_clone().map_err(Fault::Spawn)?;
        Ok(file.into())
    }

    /// Why the process ended, as it said itself: its error, else the last lines.
    pub(super) fn last_words(&self) -> String {
        let text = tail_from(&self.path, self.from).unwrap_or_default();
        let said = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("error: "));
        if let Some(said) = said {
            return said.to_owned();
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let first = lines.len().saturating_sub(TAIL_LINES);
        let last = lines.get(first..).unwrap_or_default();
        if last.is_empty() {
            "it ended without a word".to_owned()
        } else {
            last.join("\n")
        }
    }
}

fn tail_from(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(
        from.max(length.saturating_sub(TAIL_BYTES_MAX)),
    ))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Keeps the log within its bound, as long as the caller's system runs.
pub(in crate::cli) fn keep_bounded(root: &Path) {
    let path = path_of(root);
    actix_rt::spawn(async move {
        let mut due = tokio::time::interval(LOOK_EVERY);
        loop {
            due.tick().await;
            let path = path.clone();
            let shortened = actix_rt::task::spawn_blocking(move || shorten(&path)).await;
            if let Ok(Err(error)) = shortened {
                tracing::warn!(%error, "the console's log cannot be shortened");
            }
        }
    });
}

/// Keeps a full log as the only old one, and begins anew.
fn shorten(path: &Path) -> io::Result<()> {
    let length = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.len(),
    };
    if length <= BYTES_MAX {
        return Ok(());
    }
    let mut old = path.as_os_str().to_owned();
    old.push(".1");
    std::fs::copy(path, &old)?;
    OpenOptions::new().write(true).open(path)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_words_are_those_of_this_start_alone() {
        let directory = tempfile::tempdir().unwrap();
        let earlier = Log::open(directory.path()).unwrap();
        assert_eq!(earlier.last_words(), "it ended without a word");
        (&earlier.file).write_all(b"error: an old one\n").unwrap();
        let log = Log::open(directory.path()).unwrap();
        (&log.file).write_all(b"one\n\ntwo\n").unwrap();
        assert_eq!(log.last_words(), "one\ntwo");
        (&log.file)
            .write_all(b"error: the port is taken\n")
            .unwrap();
        assert_eq!(log.last_words(), "the port is taken");
    }

    #[test]
    fn a_full_log_is_set_aside_under_the_process_that_writes_it() {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(directory.path()).unwrap();
        (&log.file).write_all(b"old\n").unwrap();
        log.file.set_len(BYTES_MAX + 1).unwrap();
        shorten(log.path()).unwrap();
        (&log.file).write_all(b"new\n").unwrap();
        assert_eq!(std::fs::read(log.path()).unwrap(), b"new\n");
        let old = directory.path().join("gateway.log.1");
        assert_eq!(std::fs::metadata(old).unwrap().len(), BYTES_MAX + 1);
        shorten(log.path()).unwrap();
        assert_eq!(std::fs::read(log.path()).unwrap(), b"new\n");
    }
}
