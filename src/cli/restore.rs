//! `restore`: a copy in place of the store, with numbers that nothing stale can hit.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::backup::{copy_with_progress, parent_of, stamp, sync_directory};
use super::context::Context;
use super::failure::Failure;
use super::list::Format;
use super::paths::tidy_path;
use super::shown::{count, number};
use super::trouble::Trouble;
use super::verifying::{check, must_be_sound};
use crate::app::{StartError, StateHold};
use crate::config::GatewayConfig;
use crate::domain::Clock;
use crate::store::{
    CheckpointMode, NUMBERS_RAISED_BY, StoreSize, checkpoint, open_writer, raise_numbers,
};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway restore /var/backups/gateway-20261018T140211Z.db
  the-loop-gateway --config /etc/the-loop-gateway/gateway-config.yaml restore gateway.db

Stop the gateway first; it refuses while one runs on the state root. The instances may go on: they
wait for it. The source is only read. The copy of it is brought to the present version, verified, and its numbers
are raised by a million, so that what an instance still says about deliveries of the lost time hits
nothing. The store that was there is kept beside it, with the time in its name.

What was settled after the backup is delivered again. What arrived after it is gone, except for
what the pollers, the catch-up of Slack or a redelivery bring.";

/// What belongs to a store beside its file.
const COMPANIONS: [&str; 3] = ["", "-wal", "-shm"];

/// Put a backup in place of the store
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Restore {
    /// The backup
    #[arg(value_name = "SRC", value_parser = tidy_path())]
    source: PathBuf,
    /// How to write what was done
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Restore {
    pub(super) fn perform(self, context: &Context) -> Result<(), Failure> {
        let config = context.load_with_warnings()?.config;
        let restored = restore(&self.source, &config, context)?;
        context.output.data(&restored.shown(self.format)?)
    }
}

/// What was done.
struct Restored {
    store: PathBuf,
    kept: Option<PathBuf>,
    size: StoreSize,
}

fn restore(source: &Path, config: &GatewayConfig, context: &Context) -> Result<Restored, Trouble> {
    let store = &config.store_path;
    if !source.try_exists().map_err(Trouble::files(source))? {
        return Err(Trouble::Missing(source.to_owned()));
    }
    // No gateway starts until this is over.
    let _hold = StateHold::take(&config.state_root).map_err(trouble_of)?;
    refuse_the_store_itself(source, store)?;
    let directory = parent_of(store);
    std::fs::create_dir_all(directory).map_err(Trouble::files(directory))?;
    let scratch = tempfile::Builder::new()
        .prefix(".gateway-restore-")
        .tempdir_in(directory)
        .map_err(Trouble::files(directory))?;
    let copy = scratch.path().join("copy.db");
    copy_with_progress(source, &copy, context)?;
    let size = make_ready(source, &copy, context)?;
    let kept = set_aside(store, context)?;
    std::fs::rename(&copy, store).map_err(Trouble::files(store))?;
    sync_directory(directory)?;
    Ok(Restored {
        store: store.clone(),
        kept,
        size,
    })
}

fn trouble_of(error: StartError) -> Trouble {
    match error {
        running @ StartError::AlreadyRunning { .. } => Trouble::InUse(running),
        StartError::StateRoot { path, source } => Trouble::files(path)(source),
        other @ (StartError::NetworkFilesystem { .. }
        | StartError::Bind { .. }
        | StartError::Exposed { .. }
        | StartError::Store(_)
        | StartError::Thread(_)
        | StartError::Serve(_)) => Trouble::InUse(other),
    }
}

fn refuse_the_store_itself(source: &Path, store: &Path) -> Result<(), Trouble> {
    let is_same = match (source.canonicalize(), store.canonicalize()) {
        (Ok(source), Ok(store)) => source == store,
        _ => false,
    };
    if is_same {
        return Err(Trouble::TheStoreItself(source.to_owned()));
    }
    Ok(())
}

/// Brings the copy to the present version, verifies it, and raises its numbers.
fn make_ready(source: &Path, copy: &Path, context: &Context) -> Result<StoreSize, Trouble> {
    let connection = open_writer(copy)?;
    let size = must_be_sound(source, &check(&connection, context)?)?;
    raise_numbers(&connection)?;
    checkpoint(&connection, CheckpointMode::Truncate)?;
    // Closed by the last one that has it open, a store is one file again.
    drop(connection);
    Ok(size)
}

/// Moves the present store out of the way, whatever state it is in; `None` when there is none.
///
/// The file goes first: a log without its file is ignored, a file without its log would be
/// taken for the whole.
fn set_aside(store: &Path, context: &Context) -> Result<Option<PathBuf>, Trouble> {
    let suffix = format!(".before-restore-{}", stamp(context.clock.now()));
    let kept = with_end(store, &suffix);
    let mut is_any = false;
    for companion in COMPANIONS {
        let (from, to) = (with_end(store, companion), with_end(&kept, companion));
        match std::fs::symlink_metadata(&to) {
            Ok(_) => return Err(Trouble::Exists(to)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Trouble::files(to)(error)),
        }
        match std::fs::rename(&from, &to) {
            Ok(()) => is_any = true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Trouble::files(from)(error)),
        }
    }
    Ok(is_any.then_some(kept))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut text = path.as_os_str().to_owned();
    text.push(end);
    text.into()
}

impl Restored {
    fn shown(&self, format: Format) -> Result<String, Failure> {
        let Self { store, kept, size } = self;
        match format {
            Format::Json => {
                let done = json!({
                    "store": store.display().to_string(),
                    "kept": kept.as_ref().map(|kept| kept.display().to_string()),
                    "events": size.events,
                    "held": size.held,
                    "live": size.live,
                    "numbersRaisedBy": NUMBERS_RAISED_BY,
                    "verified": true,
                });
                serde_json::to_string_pretty(&done).map_err(Failure::Rows)
            }
            Format::Table => {
                let kept = kept.as_ref().map_or(String::new(), |kept| {
                    format!("\nthe store that was there is kept as {}", kept.display())
                });
                Ok(format!(
                    "{} restored and verified: {}, {} waiting, {} held; numbers raised by {}{kept}\n\
                     next: start the gateway",
                    store.display(),
                    count(size.events, "event", "events"),
                    count(size.live, "delivery", "deliveries"),
                    number(size.held),
                    number(NUMBERS_RAISED_BY.unsigned_abs()),
                ))
            }
        }
    }
}
