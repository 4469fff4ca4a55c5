//! The command line: one file a verb, the data in tables or JSON.
//!
//! Invariant: a command ends in one of four ways, and its exit code says in which: 0 it did what it
//! was asked; 1 it could not; 2 the configuration or the command line is wrong; 70 something
//! broke that no use of it explains. Why stands in one sentence on standard error.
//!
//! Must not decide anything about events: it asks the API, or starts the gateway that does.

mod api;
mod check;
mod completions;
mod conformance;
mod consume;
mod context;
mod failure;
mod file;
mod init;
mod instances;
mod list;
mod output;
mod queues;
mod run;
mod samples;
mod send;
mod serving;
mod shown;
mod subjects;
mod table;
mod tryout;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::context::Context;
use self::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway try                     see an event go through, and play on
  the-loop-gateway init                    write a config and an env file to start from
  the-loop-gateway run                     start the gateway
  the-loop-gateway queues                  see what waits for whom
  the-loop-gateway --config gw.yaml check  check a config that lies elsewhere

Exit codes: 0 done, 1 failed, 2 wrong configuration or usage, 70 internal error.";

const CONFIG_HELP: &str = "\
The config file; stands before the verb [default: $THE_LOOP_GATEWAY_CONFIG, else \
./.the-loop/gateway-config.yaml, else ~/.the-loop/gateway-config.yaml]";

/// One ingress for a fleet of the-loop instances: stores what GitHub, Jira and Slack send, and
/// hands it to the instances that work on it.
#[derive(Debug, Parser)]
#[command(name = "the-loop-gateway", version, after_help = EXAMPLES)]
struct CommandLine {
    #[arg(long, value_name = "FILE", help = CONFIG_HELP)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Run),
    Init(init::Init),
    Check(check::Check),
    Subjects(subjects::Subjects),
    Queues(queues::Queues),
    Instances(instances::Instances),
    Send(send::Send),
    Consume(consume::Consume),
    Conformance(conformance::Conformance),
    Try(tryout::Try),
    Completions(completions::Completions),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let CommandLine { config, verb } = CommandLine::parse();
    let context = Context::of_process(config);
    #[cfg(feature = "broken-promises")]
    match crate::broken::choose_from_environment() {
        Ok(Some(one)) => context
            .output
            .note(&format!("this test build breaks a promise: {}", one.name())),
        Ok(None) => {}
        Err(unknown) => {
            context.output.error(&unknown.to_string());
            return ExitCode::from(2);
        }
    }
    match perform(verb, &context) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            context.output.error(&failure.to_string());
            failure.exit_code()
        }
    }
}

fn perform(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Run(run) => run.perform(context),
        Verb::Init(init) => init.perform(context),
        Verb::Check(check) => check.perform(context),
        Verb::Subjects(subjects) => subjects.perform(context),
        Verb::Queues(queues) => queues.perform(context),
        Verb::Instances(instances) => instances.perform(context),
        Verb::Send(send) => send.perform(context),
        Verb::Consume(consume) => consume.perform(context),
        Verb::Conformance(conformance) => conformance.perform(context),
        Verb::Try(tryout) => tryout.perform(context),
        Verb::Completions(completions) => completions.perform(context, CommandLine::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_each_verb_has_examples() {
        let command = CommandLine::command();
        command.clone().debug_assert();
        let verbs = command.get_subcommands();
        let verbs: Vec<_> = verbs
            .flat_map(|verb| verb.get_subcommands().chain([verb]))
            .collect();
        assert!(verbs.iter().any(|verb| verb.get_name() == "github"));
        for verb in verbs {
            let help = verb
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(help.starts_with("Examples:\n"), "{}", verb.get_name());
        }
    }

    #[test]
    fn the_config_stands_before_the_verb() {
        assert!(CommandLine::try_parse_from(["gw", "--config", "a.yaml", "check"]).is_ok());
        assert!(CommandLine::try_parse_from(["gw", "check", "--config", "a.yaml"]).is_err());
    }
}
