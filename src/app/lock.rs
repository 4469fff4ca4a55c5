//! One gateway a state root: an advisory lock on the file that holds its process id.
//!
//! The lock is the truth, and the file is where it lies: a file that nobody has locked was left by
//! a process that died. It is taken with `flock(2)`, so `flock` of util-linux and other programs
//! can wait for it or hold it. The file is removed while it is still locked; so whoever got the
//! lock looks whether the name still leads to what was locked.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{RunNote, StartError};

/// The file in the state root.
const NAME: &str = "gateway.pid";
/// Another gateway that ends just now removes the file under us; that does not go on for ever.
const TRIES_MAX: u32 = 5;
/// Those who only look share the lock for some microseconds each.
const LOOKERS_MAX: u32 = 1_000;
/// More than a process id has digits.
const PID_BYTES_MAX: u64 = 32;

/// Whether a gateway has a state root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has the lock.
    Down,
    /// A process has it.
    Up {
        /// Its number; none when the file holds none.
        pid: Option<u32>,
        /// What it says of itself, once it listens.
        note: Option<Box<RunNote>>,
    },
}

/// Held while the gateway runs; the kernel releases it when the process dies.
#[derive(Debug)]
pub(super) struct StateLock {
    file: File,
    path: PathBuf,
    root: PathBuf,
}

/// The file that is locked.
#[must_use]
pub fn pid_file(root: &Path) -> PathBuf {
    root.join(NAME)
}

/// Makes the state root, for its owner alone.
///
/// # Errors
/// [`StartError::StateRoot`] when it cannot be made.
pub fn create_root(root: &Path) -> Result<(), StartError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(root)
        .map_err(|source| StartError::StateRoot {
            path: root.to_owned(),
            source,
        })
}

/// Looks who has a state root, without keeping anybody from taking it.
///
/// # Errors
/// When the file cannot be read or locked.
pub fn look(root: &Path) -> io::Result<Standing> {
    let path = pid_file(root);
    for _ in 0..TRIES_MAX {
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Down),
            opened => opened?,
        };
        if try_lock(&file, FlockOperation::NonBlockingLockShared)? {
            return Ok(Standing::Down);
        }
        if is_at(&file, &path)? {
            let pid = read_pid(&mut file)?;
            let note = RunNote::read(root).filter(|note| Some(note.pid) == pid);
            return Ok(Standing::Up {
                pid,
                note: note.map(Box::new),
            });
        }
    }
    // It ended again and again while we looked.
    Ok(Standing::Down)
}

impl StateLock {
    /// Takes the lock, or names the gateway that has it.
    pub(super) fn acquire(root: &Path) -> Result<Self, StartError> {
        let path = pid_file(root);
        let failed = |source| StartError::StateRoot {
            path: path.clone(),
            source,
        };
        for _ in 0..TRIES_MAX {
            let mut file = open(&path).map_err(failed)?;
            if !lock_alone(&file).map_err(failed)? {
                return Err(StartError::AlreadyRunning {
                    root: root.to_owned(),
                    pid: read_pid(&mut file).map_err(failed)?,
                });
            }
            if is_at(&file, &path).map_err(failed)? {
                write_pid(&mut file).map_err(failed)?;
                return Ok(Self {
                    file,
                    path,
                    root: root.to_owned(),
                });
            }
        }
        Err(failed(io::Error::other(
            "the lock file does not stay in its place",
        )))
    }

    /// Takes the process id out of the file again: the holder is no gateway, and nobody is to
    /// stop it as one.
    pub(super) fn withhold_pid(&self) -> Result<(), StartError> {
        self.file
            .set_len(0)
            .map_err(|source| StartError::StateRoot {
                path: self.path.clone(),
                source,
            })
    }

    /// Leaves word for the commands of this machine; withdrawn with the lock.
    pub(super) fn publish(&self, note: &RunNote) {
        if let Err(error) = note.write(&self.root) {
            tracing::warn!(%error, "other commands do not learn where the gateway listens");
        }
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        if let Err(error) = RunNote::remove(&self.root) {
            tracing::warn!(%error, "the note of a running gateway stays behind");
        }
        // While it is still locked: whoever opened it before sees that it is gone, and tries again.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the lock file stays behind");
        }
    }
}

/// Takes the lock unless another process has it for itself. Who shares it only looks, and lets go
/// at once.
fn lock_alone(file: &File) -> io::Result<bool> {
    for _ in 0..LOOKERS_MAX {
        if try_lock(file, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(true);
        }
        if !try_lock(file, FlockOperation::NonBlockingLockShared)? {
            return Ok(false);
        }
        flock(file, FlockOperation::Unlock)?;
        std::thread::yield_now();
    }
    Ok(false)
}

fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => Ok(false),
        Err(error) => Err(error.into()),
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
    writeln!(file, "{}", std::process::id())?;
    file.sync_all()
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
    fn a_look_finds_who_has_the_lock_and_takes_nothing_away() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert_eq!(look(root).unwrap(), Standing::Down);
        std::fs::write(root.join(NAME), "4000000\n").unwrap();
        assert_eq!(look(root).unwrap(), Standing::Down);
        let lock = StateLock::acquire(root).unwrap();
        let pid = Some(std::process::id());
        let note = None;
        assert_eq!(look(root).unwrap(), Standing::Up { pid, note });
        let note = RunNote::sample(std::process::id());
        lock.publish(&note);
        let note = Some(Box::new(note));
        assert_eq!(look(root).unwrap(), Standing::Up { pid, note });
        // What another process left is not believed.
        lock.publish(&RunNote::sample(1));
        let note = None;
        assert_eq!(look(root).unwrap(), Standing::Up { pid, note });
        drop(lock);
        assert_eq!(look(root).unwrap(), Standing::Down);
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
    }

    #[test]
    fn whoever_looks_keeps_no_gateway_from_starting() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::write(root.join(NAME), "").unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        look(root).unwrap();
                    }
                });
            }
            let refused = (0..200).filter(|_| StateLock::acquire(root).is_err());
            let refused = refused.count();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(refused, 0);
        });
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
