//! `backup`: a copy of the store, made while the gateway runs, and verified.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::json;
use tempfile::TempPath;

use super::context::Context;
use super::failure::Failure;
use super::list::Format;
use super::paths::tidy_path;
use super::progress::{Progress, share};
use super::shown::{bytes, count, number, span};
use super::trouble::Trouble;
use super::verifying::{check_file, must_be_sound};
use crate::domain::{Clock, Timestamp};
use crate::store::{Copied, StoreSize, copy_store, settle_copy};

/// A gateway that runs meanwhile goes first.
const NICENESS: i32 = 19;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway backup /var/backups/gateway.db
  the-loop-gateway backup /var/backups            a file with the time in its name
  the-loop-gateway backup /mnt/usb --format json | jq -r .backup

The gateway may run, at full ingest too: the copy is one moment of its store. Nothing is refused,
but single requests wait for the disk, some tenths of a second, and the write-ahead log grows until
the copy is made. The copy is verified before it gets its name; an existing file is never
overwritten. It holds payloads: treat it like the store.

The config, the env file with its secrets, and the event log are not in it: they are files that any
backup can copy.";

/// Copy the store while the gateway runs, and verify the copy
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Backup {
    /// The file to write, or a directory for one with the time in its name
    #[arg(value_name = "DEST", value_parser = tidy_path())]
    destination: PathBuf,
    /// The store to copy [default: the store of the config]
    #[arg(long, value_name = "DB", value_parser = tidy_path())]
    store: Option<PathBuf>,
    /// How to write what was done
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Backup {
    pub(super) fn perform(self, context: &Context) -> Result<(), Failure> {
        let store = match self.store {
            Some(path) => path,
            None => context.load_with_warnings()?.config.store_path,
        };
        if !store.try_exists().map_err(Trouble::files(&store))? {
            return Err(Failure::NoStore(store));
        }
        let destination = file_at(self.destination, context.clock.now());
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::debug!(%error, "the backup runs as if it were urgent");
        }
        let began = context.clock.instant();
        let (copied, size) = back_up(&store, &destination, context)?;
        let done = Done {
            destination,
            copied,
            size,
            took_ms: milliseconds_since(began, context),
        };
        context.output.data(&done.shown(self.format)?)
    }
}

fn milliseconds_since(began: Instant, context: &Context) -> u64 {
    let took = context.clock.instant().saturating_duration_since(began);
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// The file itself, or one in the directory.
fn file_at(destination: PathBuf, now: Timestamp) -> PathBuf {
    if destination.is_dir() {
        destination.join(format!("gateway-{}.db", stamp(now)))
    } else {
        destination
    }
}

/// A moment as part of a file's name: `20261018T140211Z`.
pub(super) fn stamp(now: Timestamp) -> String {
    let text = now.to_string();
    let (seconds, _) = text.split_once('.').unwrap_or((&text, ""));
    let digits: String = seconds.chars().filter(|c| !"-:".contains(*c)).collect();
    format!("{digits}Z")
}

fn back_up(
    store: &Path,
    destination: &Path,
    context: &Context,
) -> Result<(Copied, StoreSize), Trouble> {
    refuse_existing(destination)?;
    let directory = parent_of(destination);
    // Under another name until it is whole and sound: what has the name is a backup.
    let scratch = tempfile::Builder::new()
        .prefix(".gateway-backup-")
        .tempdir_in(directory)
        .map_err(Trouble::files(directory))?;
    let copy = scratch.path().join("copy.db");
    let copied = copy_with_progress(store, &copy, context)?;
    settle_copy(&copy)?;
    let size = must_be_sound(store, &check_file(&copy, context)?)?;
    let copy = TempPath::try_from_path(copy).map_err(Trouble::files(directory))?;
    copy.persist_noclobber(destination).map_err(|error| {
        if error.error.kind() == std::io::ErrorKind::AlreadyExists {
            Trouble::Exists(destination.to_owned())
        } else {
            Trouble::files(destination)(error.error)
        }
    })?;
    sync_directory(directory)?;
    Ok((copied, size))
}

fn refuse_existing(path: &Path) -> Result<(), Trouble> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Err(Trouble::Exists(path.to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Trouble::files(path)(error)),
    }
}

/// The directory of a file.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// Waits until the disk has the names in a directory.
pub(super) fn sync_directory(directory: &Path) -> Result<(), Trouble> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(Trouble::files(directory))
}

/// Copies a store and tells how far it is.
pub(super) fn copy_with_progress(
    store: &Path,
    copy: &Path,
    context: &Context,
) -> Result<Copied, Trouble> {
    let mut progress = Progress::begin(context);
    let copied = copy_store(store, copy, &mut |copied| {
        progress.tell(|| {
            let log = match copied.log_growth {
                0 => String::new(),
                grown => format!("; the write-ahead log grew by {}", bytes(grown)),
            };
            format!("copying: {}{log}", share(copied.bytes, copied.of))
        });
    })?;
    Ok(copied)
}

/// What was done.
struct Done {
    destination: PathBuf,
    copied: Copied,
    size: StoreSize,
    took_ms: u64,
}

impl Done {
    fn shown(&self, format: Format) -> Result<String, Failure> {
        let Self {
            destination,
            copied,
            size,
            took_ms,
        } = self;
        match format {
            Format::Json => {
                let done = json!({
                    "backup": destination.display().to_string(),
                    "bytes": copied.bytes,
                    "logGrowthBytes": copied.log_growth,
                    "events": size.events,
                    "held": size.held,
                    "live": size.live,
                    "tookMs": took_ms,
                    "verified": true,
                });
                serde_json::to_string_pretty(&done).map_err(Failure::Rows)
            }
            Format::Table => Ok(format!(
                "{}: {} in {}, verified\n{}, {} waiting, {} held",
                destination.display(),
                bytes(copied.bytes),
                span(*took_ms),
                count(size.events, "event", "events"),
                count(size.live, "delivery", "deliveries"),
                number(size.held)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_gets_a_file_with_the_time_in_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let now = Timestamp(1_792_332_131_120);
        assert_eq!(
            file_at(directory.path().to_owned(), now),
            directory.path().join("gateway-20261018T140211Z.db")
        );
        let file = directory.path().join("mine.db");
        assert_eq!(file_at(file.clone(), now), file);
        assert_eq!(parent_of(Path::new("mine.db")), Path::new("."));
        assert_eq!(parent_of(Path::new("a/mine.db")), Path::new("a"));
    }
}
