//! `verify`: does everything hold that must hold of a store?

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::failure::Failure;
use super::list::Format;
use super::output::Mark;
use super::paths::tidy_path;
use super::shown::{count, plain};
use super::trouble::Trouble;
use super::verifying::{Checked, check_file};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway verify
  the-loop-gateway verify /var/backups/gateway-20261018T140211Z.db
  the-loop-gateway verify --format json | jq -r '.problems[] | .rule + \": \" + .detail'

Reads the whole file and changes nothing: its pages and indexes, every rule that its tables keep
among themselves, and each payload, which is decompressed. Works on a store that a gateway has open
as well; then it sees one moment of it, and the write-ahead log grows until it is done. Exit code 1
when something does not hold.";

/// Check everything that must hold of a store, offline
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Verify {
    /// The file [default: the store of the config]
    #[arg(value_name = "DB", value_parser = tidy_path())]
    store: Option<PathBuf>,
    /// How to write what was found
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Verify {
    pub(super) fn perform(self, context: &Context) -> Result<(), Failure> {
        let path = match self.store {
            Some(path) => path,
            None => context.load_with_warnings()?.config.store_path,
        };
        if !path.try_exists().map_err(Trouble::files(&path))? {
            return Err(Trouble::Missing(path).into());
        }
        let Checked { size, problems } = check_file(&path, context)?;
        let shown = match self.format {
            Format::Json => {
                let found = json!({
                    "path": path.display().to_string(),
                    "ok": problems.is_empty(),
                    "events": size.events,
                    "held": size.held,
                    "live": size.live,
                    "problems": problems,
                });
                serde_json::to_string_pretty(&found).map_err(Failure::Rows)?
            }
            Format::Table => {
                let verdict = match problems.len() {
                    0 => "everything holds".to_owned(),
                    many => count(
                        u64::try_from(many).unwrap_or(u64::MAX),
                        "problem",
                        "problems",
                    ),
                };
                let mut lines = vec![format!(
                    "{}: {}, {} waiting, {} held; {verdict}",
                    path.display(),
                    count(size.events, "event", "events"),
                    count(size.live, "delivery", "deliveries"),
                    super::shown::number(size.held),
                )];
                lines.extend(problems.iter().map(|problem| {
                    let line = format!("  {}", plain(&problem.to_string()));
                    context.output.marked(&line, Mark::Alarm)
                }));
                lines.join("\n")
            }
        };
        context.output.data(&shown)?;
        if problems.is_empty() {
            return Ok(());
        }
        let problems = count(
            u64::try_from(problems.len()).unwrap_or(u64::MAX),
            "rule is broken in a place that is shown",
            "places are shown where a rule is broken",
        );
        Err(Trouble::Unsound { path, problems }.into())
    }
}
