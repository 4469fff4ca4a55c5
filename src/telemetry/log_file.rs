//! The file of the event log: append, rotate, survive a disk that refuses.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the event log lies and how large it may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlace {
    /// The file.
    pub path: PathBuf,
    /// The size at which it is rotated.
    pub bytes_max: u64,
    /// Rotated files that are kept: `<name>.1` is the newest.
    pub kept: u32,
}

/// The open file; closed after a failure and opened again by the next append.
#[derive(Debug)]
pub(super) struct LogFile {
    place: LogPlace,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    inode: u64,
}

impl LogFile {
    pub(super) const fn new(place: LogPlace) -> Self {
        Self { place, open: None }
    }

    /// Writes elsewhere, or within other bounds, from the next append on.
    pub(super) fn replace_place(&mut self, place: LogPlace) {
        if self.place.path != place.path {
            self.open = None;
        }
        self.place = place;
    }

    pub(super) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Appends whole lines. After an error none of them is in the file.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let result = self.try_append(lines);
        if result.is_err() {
            self.open = None;
        }
        result
    }

    fn try_append(&mut self, lines: &[u8]) -> io::Result<()> {
        let added = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.place.open()?,
        };
        if open.bytes > 0 && open.bytes.saturating_add(added) > self.place.bytes_max {
            drop(open);
            self.place.rotate()?;
            open = self.place.open()?;
        }
        if let Err(error) = open.file.write_all(lines) {
            // A torn line would make its neighbour unreadable.
            open.file.set_len(open.bytes)?;
            return Err(error);
        }
        open.bytes = open.bytes.saturating_add(added);
        self.open = Some(open);
        Ok(())
    }

    /// Forgets the file when something else has moved or removed it, so that the name comes back.
    pub(super) fn follow_name(&mut self) {
        let inode_now = std::fs::metadata(&self.place.path).map(|found| found.ino());
        if let Some(open) = &self.open
            && inode_now.ok() != Some(open.inode)
        {
            self.open = None;
        }
    }
}

impl LogPlace {
    fn open(&self) -> io::Result<Open> {
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)?;
        let found = file.metadata()?;
        Ok(Open {
            file,
            bytes: found.len(),
            inode: found.ino(),
        })
    }

    fn rotate(&self) -> io::Result<()> {
        if self.kept == 0 {
            return std::fs::remove_file(&self.path);
        }
        for number in (1..self.kept).rev() {
            rename_if_there(
                &self.rotated(number),
                &self.rotated(number.saturating_add(1)),
            )?;
        }
        rename_if_there(&self.path, &self.rotated(1))
    }

    fn rotated(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path, kept: u32) -> LogPlace {
        LogPlace {
            path: directory.join("logs/events.jsonl"),
            bytes_max: 10,
            kept,
        }
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_full_file_is_rotated_and_the_name_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path(), 2);
        let mut file = LogFile::new(place.clone());
        for line in ["aaaaaaa\n", "bbbbbbb\n", "ccccccc\n", "ddddddd\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        assert_eq!(read(&place.path), "ddddddd\n");
        assert_eq!(read(&place.rotated(1)), "ccccccc\n");
        assert_eq!(read(&place.rotated(2)), "bbbbbbb\n");
        assert!(!place.rotated(3).try_exists().unwrap());
    }

    #[test]
    fn nothing_is_kept_when_nothing_shall_be() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path(), 0);
        let mut file = LogFile::new(place.clone());
        file.append(b"aaaaaaa\n").unwrap();
        file.append(b"bbbbbbb\n").unwrap();
        assert_eq!(read(&place.path), "bbbbbbb\n");
        assert!(!place.rotated(1).try_exists().unwrap());
    }

    #[test]
    fn an_existing_file_is_continued() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path(), 1);
        LogFile::new(place.clone()).append(b"a\n").unwrap();
        LogFile::new(place.clone()).append(b"b\n").unwrap();
        assert_eq!(read(&place.path), "a\nb\n");
    }

    #[test]
    fn a_file_that_was_moved_away_comes_back_under_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path(), 1);
        let mut file = LogFile::new(place.clone());
        file.append(b"a\n").unwrap();
        std::fs::rename(&place.path, directory.path().join("moved")).unwrap();
        file.follow_name();
        file.append(b"b\n").unwrap();
        assert_eq!(read(&place.path), "b\n");
    }
}
