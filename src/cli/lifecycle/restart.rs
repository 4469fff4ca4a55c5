//! `restart`: the same gateway as a new process.

use clap::Args;

use super::report::{Outcome, Report};
use super::start::StartOptions;
use super::{Fault, Process, background, report};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::list::Format;
use crate::config::LoadedConfig;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway restart
  the-loop-gateway --config /etc/gateway.yaml restart

As `stop` and then `start`; where none runs it is started. The config is looked at first: one that
cannot be used stops nothing. A gateway that a supervisor keeps is not touched.

Exit codes: 0 it runs, 1 it does not or the old one still does, 2 the config is wrong.";

/// Stop the gateway and start it again
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Restart {
    #[command(flatten)]
    options: StartOptions,
    /// How to write what became of it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Restart {
    pub(in crate::cli) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let restarted = context
            .load_with_warnings()
            .and_then(|loaded| Context::wait_for(self.restart(&loaded)));
        report::write(restarted, self.format, context)
    }

    async fn restart(&self, loaded: &LoadedConfig) -> Result<Report, Failure> {
        let root = &loaded.config.state_root;
        let kept = Process::of(root)?.filter(|process| {
            let note = process.note.as_ref();
            note.is_some_and(|note| note.is_supervised)
        });
        if let Some(Process { pid, .. }) = kept {
            return Err(Fault::Supervised { pid }.into());
        }
        let before = background::stop(root).await?.outcome;
        let mut after = background::start(loaded, &self.options).await?;
        if before == Outcome::Stopped {
            after.outcome = Outcome::Restarted;
        }
        Ok(after)
    }
}
