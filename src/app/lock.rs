//! One gateway a state root: an advisory lock on the file that holds its process id.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::StartError;

/// The file in the state root.
const NAME: &str = "gateway.pid";
/// Another gateway that ends just now removes the file under us; that does not go on for ever.
const TRIES_MAX: u32 = 5;
/// More than a process id has digits.
const PID_BYTES_MAX: u64 = 32;

/// Held while the gateway runs; the kernel releases it when the process dies.
#[derive(Debug)]
pub(super) struct StateLock {
    _file: File,
    path: PathBuf,
}

/// Makes the state root, for its owner alone.
pub(super) fn create_root(root: &Path) -> Result<(), StartError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(root)
        .map_err(|source| StartError::StateRoot {
            path: root.to_owned(),
            source,
        })
}

impl StateLock {
    /// Takes the lock, or names the gateway that has it.
    pub(super) fn acquire(root: &Path) -> Result<Self, StartError> {
        let path = root.join(NAME);
        let failed = |source| StartError::StateRoot {
            path: path.clone(),
            source,
        };
        for _ in 0..TRIES_MAX {
            let mut file = open(&path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                    return Err(StartError::AlreadyRunning {
                        root: root.to_owned(),
                        pid: read_pid(&mut file).map_err(failed)?,
                    });
                }
                Err(error) => return Err(failed(error.into())),
            }
            if is_at(&file, &path).map_err(failed)? {
                write_pid(&mut file).map_err(failed)?;
                return Ok(Self { _file: file, path });
            }
        }
        Err(failed(io::Error::other(
            "the lock file does not stay in its place",
        )))
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // While it is still locked: whoever opened it before sees that it is gone, and tries again.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the lock file stays behind");
        }
    }
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

/// True when the file that is open is the one that has the name.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok(named.ino() == open.ino() && named.dev() == open.dev()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_pid(file: &mut File) -> io::Result<Option<u32>> {
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().parse().ok())
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_gateway_is_refused_and_the_first_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let first = StateLock::acquire(directory.path()).unwrap();
        let second = StateLock::acquire(directory.path());
        assert!(matches!(
            second,
            Err(StartError::AlreadyRunning { pid: Some(pid), .. }) if pid == std::process::id()
        ));
        drop(first);
        assert!(!directory.path().join(NAME).try_exists().unwrap());
        StateLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn what_a_dead_gateway_left_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(NAME), "4000000\nand more\n").unwrap();
        let lock = StateLock::acquire(directory.path()).unwrap();
        let text = std::fs::read_to_string(&lock.path).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }

    #[test]
    fn a_root_is_made_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("a/b");
        create_root(&root).unwrap();
        let mode = std::fs::metadata(&root).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        create_root(&root).unwrap();
    }
}
