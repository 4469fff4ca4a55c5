//! Which filesystems can hold a store: SQLite's WAL needs shared memory and locks that work.

use std::path::Path;

use super::StartError;

/// What is known of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filesystem {
    /// Nothing speaks against it, as far as this system tells.
    Fine,
    /// A store on it would be damaged sooner or later; its name.
    Refused(&'static str),
    /// It may be fine, and cannot be told from one that is not; its name.
    Doubtful(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A store on it would be damaged sooner or later.
    Refused,
    /// It may be fine, and cannot be told from one that is not.
    Doubtful,
}

/// The kernel's number of a filesystem, its name, and what to do about it. Linux only: elsewhere
/// the number means something else.
const KNOWN: &[(u64, &str, Verdict)] = &[
    // Locks and shared memory do not reach across machines, and a write can be acknowledged
    // before the server has it.
    (0x6969, "nfs", Verdict::Refused),
    (0x517b, "smb", Verdict::Refused),
    (0xff53_4d42, "cifs", Verdict::Refused),
    (0xfe53_4d42, "smb2", Verdict::Refused),
    (0x0102_1997, "9p", Verdict::Refused),
    (0x5346_414f, "afs", Verdict::Refused),
    (0x7375_7245, "coda", Verdict::Refused),
    (0x00c3_6400, "ceph", Verdict::Refused),
    (0x0bd0_0bd0, "lustre", Verdict::Refused),
    (0x786f_4256, "vboxsf", Verdict::Refused),
    // As good as the program behind it: sshfs and s3fs are not, an encrypted directory and the
    // shared folders of some container machines are.
    (0x6573_5546, "fuse", Verdict::Doubtful),
];

/// Refuses a state root on a network filesystem.
pub(super) fn check(root: &Path) -> Result<(), StartError> {
    match kind_of(root)? {
        Filesystem::Fine => Ok(()),
        Filesystem::Refused(name) => Err(StartError::NetworkFilesystem {
            path: root.to_owned(),
            name,
        }),
        Filesystem::Doubtful(name) => {
            tracing::warn!(
                filesystem = name,
                "the state root is on a filesystem that may lose what was acknowledged"
            );
            Ok(())
        }
    }
}

/// What kind of filesystem a directory is on.
///
/// # Errors
/// [`StartError::StateRoot`] when the directory cannot be looked at.
pub fn kind_of(root: &Path) -> Result<Filesystem, StartError> {
    let number = number_of(root)?;
    let known = KNOWN.iter().find(|(known, ..)| Some(*known) == number);
    Ok(match known {
        None => Filesystem::Fine,
        Some((_, name, Verdict::Refused)) => Filesystem::Refused(name),
        Some((_, name, Verdict::Doubtful)) => Filesystem::Doubtful(name),
    })
}

#[cfg(target_os = "linux")]
fn number_of(root: &Path) -> Result<Option<u64>, StartError> {
    let found = rustix::fs::statfs(root).map_err(|error| StartError::StateRoot {
        path: root.to_owned(),
        source: error.into(),
    })?;
    // Numbers with the highest of 32 bits set come sign-extended.
    Ok(u64::try_from(found.f_type & 0xffff_ffff).ok())
}

#[cfg(not(target_os = "linux"))]
fn number_of(_: &Path) -> Result<Option<u64>, StartError> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_directory_may_hold_a_store() {
        let directory = tempfile::tempdir().unwrap();
        check(directory.path()).unwrap();
    }

    #[test]
    fn every_number_is_known_once() {
        let numbers: std::collections::BTreeSet<u64> =
            KNOWN.iter().map(|(number, ..)| *number).collect();
        assert_eq!(numbers.len(), KNOWN.len());
    }
}
