//! What a running gateway says of itself to the commands of its machine.
//!
//! Invariant: believed only while the lock is held by the process that it names. The file with the
//! process id stays what every tool expects of one; what is more to know stands here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Address;

const NAME: &str = "gateway.json";
const BYTES_MAX: u64 = 64 * 1024;

/// Where a running gateway is reached, and since when it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunNote {
    /// The process.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// Since when it listens: RFC 3339 in UTC.
    pub started_at: String,
    /// Where the API listens, with the port that it really has.
    pub api: Address,
    /// Where the routes of the providers listen, when that is elsewhere.
    pub ingress: Option<Address>,
    /// The file of the configuration.
    pub config: Option<PathBuf>,
    /// True when a supervisor hears how it is, and so starts and stops it.
    pub is_supervised: bool,
}

impl RunNote {
    /// The note in a state root, if there is one that can be read.
    pub(super) fn read(root: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = File::open(root.join(NAME)).ok()?;
        file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Replaces the note, whole.
    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".gateway-")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(root)?;
        let text = serde_json::to_string(self)?;
        writeln!(file, "{text}")?;
        file.persist(root.join(NAME))?;
        Ok(())
    }

    pub(super) fn remove(root: &Path) -> io::Result<()> {
        match std::fs::remove_file(root.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

#[cfg(test)]
impl RunNote {
    pub(super) fn sample(pid: u32) -> Self {
        Self {
            pid,
            version: "1.2.3".to_owned(),
            started_at: "2026-10-18T12:00:00.000Z".to_owned(),
            api: Address {
                host: "127.0.0.1".to_owned(),
                port: 8790,
            },
            ingress: None,
            config: None,
            is_supervised: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_replaced_whole_and_one_that_cannot_be_read_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert_eq!(RunNote::read(root), None);
        for pid in [1, 2] {
            RunNote::sample(pid).write(root).unwrap();
            assert_eq!(RunNote::read(root), Some(RunNote::sample(pid)));
        }
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 1);
        std::fs::write(root.join(NAME), "{\"pid\": 1").unwrap();
        assert_eq!(RunNote::read(root), None);
        RunNote::remove(root).unwrap();
        RunNote::remove(root).unwrap();
    }
}
