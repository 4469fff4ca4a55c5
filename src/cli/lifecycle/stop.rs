//! `stop`: ends the gateway in order.

use clap::Args;

use super::meant::Which;
use super::{background, report};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::list::Format;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway stop
  the-loop-gateway --config /etc/gateway.yaml stop
  the-loop-gateway stop --state-root ~/.the-loop/gateway
  the-loop-gateway stop --format json | jq -r .outcome

Sends SIGTERM to the process that holds the lock of the state root, and waits at most 12 s: held
polls are answered, what is being stored is stored, the file is closed. Where none runs there is
nothing to do. A config that was broken meanwhile is told and keeps nobody from it, as long as it
says where its state root is; else --state-root does.

Exit codes: 0 none runs any more, 1 it still does, 2 the config does not say which one is meant.";

/// Stop the gateway
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Stop {
    #[command(flatten)]
    which: Which,
    /// How to write what became of it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Stop {
    pub(in crate::cli) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let stopped = self
            .which
            .meant(context)
            .and_then(|meant| Context::wait_for(background::stop(meant.root())));
        report::write(stopped, self.format, context)
    }
}
