//! `start`: the gateway in the background.

use clap::{Args, ValueEnum};

use super::{background, report};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::list::Format;
use crate::cli::run::LogFormat;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway start
  the-loop-gateway --config /etc/gateway.yaml start
  the-loop-gateway start --format json | jq -r .url

Waits until the gateway takes traffic, at most 15 s, and says where it listens. One that runs
already is left as it is. The process has a session of its own; what it would say on a console is
in gateway.log in the state root, beside gateway.pid, whose lock it holds. Under a supervisor, use
`run` instead.

Exit codes: 0 it runs, 1 it does not, 2 the config is wrong.";

/// Start the gateway in the background
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Start {
    #[command(flatten)]
    options: StartOptions,
    /// How to write what became of it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What a gateway is started with.
#[derive(Debug, Args)]
pub(super) struct StartOptions {
    /// Listen on this port of the API's host, whatever the config says; 0 takes a free one
    #[arg(long)]
    port: Option<u16>,
    /// How gateway.log is written
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

impl StartOptions {
    /// The same for `run`.
    pub(super) fn arguments(&self) -> Vec<String> {
        let format = self.log_format.to_possible_value();
        let format = format.map(|value| format!("--log-format={}", value.get_name()));
        let port = self.port.map(|port| format!("--port={port}"));
        format.into_iter().chain(port).collect()
    }
}

impl Start {
    pub(in crate::cli) fn perform(&self, context: &Context) -> Result<(), Failure> {
        let started = context
            .load_with_warnings()
            .and_then(|loaded| Context::wait_for(background::start(&loaded, &self.options)));
        report::write(started, self.format, context)
    }
}
