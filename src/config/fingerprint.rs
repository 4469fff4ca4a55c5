//! What the files held when they were read, so that a later look tells whether they changed.
//!
//! It is the content that counts, read through symbolic links: editors that rename, and links that
//! are swapped, change neither time stamps nor inodes in a way one could rely on.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::env_file::ENV_FILE_BYTES_MAX;
use super::load::CONFIG_FILE_BYTES_MAX;
use super::problem::ReadFault;

/// The content of the config file and of its env file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigFingerprint {
    pub(super) config: FileState,
    pub(super) env_file: FileState,
}

/// What became of the files since an earlier look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// Nothing.
    Unchanged,
    /// There is something new to load.
    Changed,
    /// A file that was there is not there now, or the env file cannot be read any more: keep what
    /// is loaded, for it may be on its way back.
    Vanished,
}

/// One file as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileState {
    Absent,
    Unreadable,
    Content([u8; 32]),
}

impl ConfigFingerprint {
    /// Looks at the files now; `None` stands for a file that is not configured.
    #[must_use]
    pub fn look(config: Option<&Path>, env_file: Option<&Path>) -> Self {
        Self {
            config: FileState::look(config, CONFIG_FILE_BYTES_MAX),
            env_file: FileState::look(env_file, ENV_FILE_BYTES_MAX),
        }
    }

    /// What changed between an earlier look and this one.
    #[must_use]
    pub fn change_since(&self, earlier: &Self) -> FileChange {
        let config_vanished = earlier.config.is_content() && self.config == FileState::Absent;
        let same_config = self.config == earlier.config;
        if config_vanished || same_config && self.lost_env_file(earlier) {
            FileChange::Vanished
        } else if self == earlier {
            FileChange::Unchanged
        } else {
            FileChange::Changed
        }
    }

    /// True when the env file could be read earlier and cannot be read now.
    pub(super) const fn lost_env_file(&self, earlier: &Self) -> bool {
        earlier.env_file.is_content() && !self.env_file.is_content()
    }
}

impl FileState {
    fn look(path: Option<&Path>, bytes_max: u64) -> Self {
        path.map_or(Self::Absent, |path| {
            Self::of(&read_bounded(path, bytes_max))
        })
    }

    /// The state that a read found.
    pub(super) fn of(read: &Result<FileRead, ReadFault>) -> Self {
        match read {
            Ok(read) => Self::Content(Sha256::digest(&read.bytes).into()),
            Err(ReadFault::Io(error)) if error.kind() == io::ErrorKind::NotFound => Self::Absent,
            Err(_) => Self::Unreadable,
        }
    }

    const fn is_content(self) -> bool {
        matches!(self, Self::Content(_))
    }
}

/// The bytes of a file and its mode.
pub(super) struct FileRead {
    bytes: Vec<u8>,
    pub(super) mode: u32,
}

impl FileRead {
    /// The text, without a byte-order mark.
    pub(super) fn text(self) -> Result<String, ReadFault> {
        let text = String::from_utf8(self.bytes).or(Err(ReadFault::NotUtf8))?;
        Ok(text
            .strip_prefix('\u{feff}')
            .map(str::to_owned)
            .unwrap_or(text))
    }
}

/// Reads a regular file of bounded size; a pipe would block and a device might never end.
pub(super) fn read_bounded(path: &Path, bytes_max: u64) -> Result<FileRead, ReadFault> {
    if !fs::metadata(path)?.is_file() {
        return Err(ReadFault::NotAFile);
    }
    let file = File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if length > bytes_max {
        return Err(ReadFault::TooLarge(bytes_max));
    }
    Ok(FileRead { bytes, mode })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_swapped_link_and_a_rename_count_by_what_is_read_through_them() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("one"), "listen: {}").unwrap();
        fs::write(at("same"), "listen: {}").unwrap();
        fs::write(at("two"), "store: {}").unwrap();
        let link = at("gateway-config.yaml");
        let relink = |target: &str| {
            symlink(at(target), at("new")).unwrap();
            fs::rename(at("new"), &link).unwrap();
        };
        relink("one");
        let first = ConfigFingerprint::look(Some(&link), None);
        relink("same");
        let same = ConfigFingerprint::look(Some(&link), None);
        relink("two");
        let second = ConfigFingerprint::look(Some(&link), None);
        assert_eq!(same.change_since(&first), FileChange::Unchanged);
        assert_eq!(second.change_since(&same), FileChange::Changed);
    }

    #[test]
    fn what_is_gone_is_kept_and_what_comes_is_loaded() {
        let content = |byte| FileState::Content([byte; 32]);
        let look = |config, env_file| ConfigFingerprint { config, env_file };
        let (absent, unreadable) = (FileState::Absent, FileState::Unreadable);
        for (earlier, now, change) in [
            (
                look(content(1), absent),
                look(content(1), absent),
                FileChange::Unchanged,
            ),
            (
                look(content(1), absent),
                look(content(1), content(2)),
                FileChange::Changed,
            ),
            (
                look(content(1), content(2)),
                look(content(1), content(3)),
                FileChange::Changed,
            ),
            (
                look(content(1), content(2)),
                look(content(1), absent),
                FileChange::Vanished,
            ),
            (
                look(content(1), content(2)),
                look(content(1), unreadable),
                FileChange::Vanished,
            ),
            (
                look(content(1), content(2)),
                look(content(3), absent),
                FileChange::Changed,
            ),
            (
                look(content(1), content(2)),
                look(absent, content(2)),
                FileChange::Vanished,
            ),
            (
                look(content(1), absent),
                look(unreadable, absent),
                FileChange::Changed,
            ),
            (
                look(absent, absent),
                look(absent, absent),
                FileChange::Unchanged,
            ),
        ] {
            assert_eq!(now.change_since(&earlier), change, "{earlier:?} {now:?}");
        }
    }

    #[test]
    fn a_file_beyond_its_bound_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "123456").unwrap();
        assert!(read_bounded(&path, 6).is_ok());
        assert!(matches!(
            read_bounded(&path, 5),
            Err(ReadFault::TooLarge(5))
        ));
        assert!(matches!(
            read_bounded(directory.path(), 5),
            Err(ReadFault::NotAFile)
        ));
    }
}
