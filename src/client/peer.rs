//! The file that holds the installation's peer id, locked while a process uses it.
//!
//! The lock is `flock` on the file itself, so `flock -n gateway-peer.json true` tells whether a
//! client runs. The file is written in place: a new file would have another lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::domain::{ParseError, PeerId, RunId};

const FILE_BYTES_MAX: u64 = 4096;
const ID_BYTES: usize = 16;
/// How often another file may take the path's place while we lock it.
const REPLACED_MAX: usize = 5;

/// Why the peer id cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Another process uses it.
    #[error(
        "{} is in use by process {}; stop it, or give this one another directory",
        path.display(), pid.map_or_else(|| "(unknown)".to_owned(), |pid| pid.to_string())
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The first process, when the file tells.
        pid: Option<u32>,
    },
    /// The file cannot be used.
    #[error("{} cannot be used: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        fault: io::Error,
    },
    /// There are no random bytes for an id.
    #[error("no id could be made: {0}")]
    NoRandomness(getrandom::Error),
    /// An id that we made is none.
    #[error("a new id {0}")]
    NoId(#[from] ParseError),
}

/// The peer id, and the lock on its file; dropping it lets another process in.
#[derive(Debug)]
pub(super) struct PeerFile {
    peer: PeerId,
    _locked: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    peer: String,
    pid: u32,
}

impl PeerFile {
    /// Locks the file, made with a new id when there is none.
    pub(super) fn lock(path: &Path) -> Result<Self, PeerError> {
        let at = |fault| PeerError::File {
            path: path.to_owned(),
            fault,
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(at)?;
        }
        for _ in 0..REPLACED_MAX {
            let file = open(path).map_err(at)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&file, path).map_err(at)? => return Self::hold(file, path),
                // Somebody replaced the file between our opening and locking it.
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(PeerError::InUse {
                        path: path.to_owned(),
                        pid: read(&file).map_err(at)?.map(|content| content.pid),
                    });
                }
                Err(errno) => return Err(at(errno.into())),
            }
        }
        Err(at(io::Error::other("it is replaced again and again")))
    }

    fn hold(file: File, path: &Path) -> Result<Self, PeerError> {
        let at = |fault| PeerError::File {
            path: path.to_owned(),
            fault,
        };
        let known = read(&file).map_err(at)?;
        let known = known.and_then(|content| PeerId::parse(&content.peer).ok());
        if known.is_none() && file.metadata().map_err(at)?.len() > 0 {
            tracing::warn!(path = %path.display(), "the file held no peer id; a new one is made");
        }
        let peer = match known {
            Some(peer) => peer,
            None => PeerId::parse(&new_id()?)?,
        };
        let content = Content {
            peer: peer.to_string(),
            pid: std::process::id(),
        };
        write(&file, &content).map_err(at)?;
        Ok(Self {
            peer,
            _locked: file,
        })
    }

    /// The installation's id.
    pub(super) const fn peer(&self) -> &PeerId {
        &self.peer
    }
}

/// A new id for this process.
pub(super) fn new_run() -> Result<RunId, PeerError> {
    Ok(RunId::parse(&new_id()?)?)
}

fn new_id() -> Result<String, PeerError> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(PeerError::NoRandomness)?;
    Ok(hex::encode(bytes))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// True when the path still leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// What the file says; `None` when it says nothing that can be used.
///
/// Only the first value counts: a process that died while it wrote may have left more behind it.
fn read(file: &File) -> io::Result<Option<Content>> {
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    let mut values = serde_json::Deserializer::from_slice(&text).into_iter();
    Ok(values.next().and_then(Result::ok))
}

fn write(mut file: &File, content: &Content) -> io::Result<()> {
    let mut text = serde_json::to_vec(content)?;
    text.push(b'\n');
    file.write_all_at(&text, 0)?;
    file.set_len(u64::try_from(text.len()).unwrap_or(FILE_BYTES_MAX))?;
    file.flush()?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(directory: &tempfile::TempDir) -> PathBuf {
        directory.path().join("local/gateway-peer.json")
    }

    #[test]
    fn the_peer_id_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let first = PeerFile::lock(&path(&directory)).unwrap();
        let peer = first.peer().clone();
        drop(first);
        assert_eq!(PeerFile::lock(&path(&directory)).unwrap().peer(), &peer);
    }

    #[test]
    fn a_second_holder_is_refused_and_told_the_firsts_process() {
        let directory = tempfile::tempdir().unwrap();
        let first = PeerFile::lock(&path(&directory)).unwrap();
        let refused = PeerFile::lock(&path(&directory)).unwrap_err();
        let ours = std::process::id();
        assert!(
            matches!(refused, PeerError::InUse { pid: Some(pid), .. } if pid == ours),
            "{refused}"
        );
        assert!(refused.to_string().contains(&ours.to_string()));
        drop(first);
        assert!(PeerFile::lock(&path(&directory)).is_ok());
    }

    #[test]
    fn the_file_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let _locked = PeerFile::lock(&path(&directory)).unwrap();
        let mode = fs::metadata(path(&directory)).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    #[test]
    fn a_file_without_a_peer_id_gets_one_and_garbage_behind_it_is_no_matter() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(&directory);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (text, kept) in [
            ("", None),
            ("not json", None),
            ("{\"peer\":\"-bad\",\"pid\":1}", None),
            ("{\"peer\":\"kept\",\"pid\":1}\n2}", Some("kept")),
        ] {
            fs::write(&path, text).unwrap();
            let locked = PeerFile::lock(&path).unwrap();
            let peer = locked.peer().to_string();
            assert_eq!(peer.len(), kept.map_or(32, str::len), "{text:?}");
            let read: Content = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            assert_eq!(read.peer, peer);
        }
    }

    #[test]
    fn a_run_id_is_new_each_time() {
        assert_ne!(new_run().unwrap(), new_run().unwrap());
    }
}
