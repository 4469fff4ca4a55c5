//! The command line: one file a verb, the data in tables or JSON.
//!
//! Invariant: a command ends in one of four ways, and its exit code says in which: 0 it did what it
//! was asked; 1 it could not; 2 the configuration or the command line is wrong; 70 something
//! broke that no use of it explains. Why stands in one sentence on standard error.
//!
//! Must not decide anything about events: it asks the API, or starts the gateway that does.

mod api;
mod backup;
mod check;
mod completions;
mod conformance;
mod consume;
mod context;
mod dead;
mod doctor;
mod events;
mod explain;
mod failure;
mod file;
mod init;
mod instances;
mod intervening;
mod lifecycle;
mod list;
mod output;
mod paths;
mod progress;
mod queues;
mod redrive;
mod release;
mod replay;
mod restore;
mod run;
mod samples;
mod selecting;
mod send;
mod serving;
mod shown;
mod size;
mod source;
mod subjects;
mod table;
mod trouble;
mod tryout;
mod verify;
mod verifying;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use self::context::Context;
use self::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway try                     see an event go through, and play on
  the-loop-gateway init                    write a config and an env file to start from
  the-loop-gateway start                   start the gateway in the background
  the-loop-gateway status                  see how it is
  the-loop-gateway doctor                  see what is wrong, and what to do about it
  the-loop-gateway queues                  see what waits for whom
  the-loop-gateway explain 208             tell where an event is, and why
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
    Start(lifecycle::Start),
    Stop(lifecycle::Stop),
    Restart(lifecycle::Restart),
    Status(lifecycle::Status),
    Init(init::Init),
    Check(check::Check),
    Doctor(doctor::Doctor),
    Subjects(subjects::Subjects),
    Queues(queues::Queues),
    Instances(instances::Instances),
    Events(events::Events),
    Explain(explain::Explain),
    Dead(dead::Dead),
    Redrive(redrive::Redrive),
    Replay(replay::Replay),
    Release(release::Release),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Verify(verify::Verify),
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
    match caught(|| perform(verb, &context)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            context.output.error(&failure.to_string());
            failure.exit_code()
        }
    }
}

/// A panic is told by the runtime; the exit code is that of everything else that is our fault.
fn caught(work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Failure::Internal("a panic, told above".to_owned())))
}

fn perform(verb: Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Run(run) => run.perform(context),
        Verb::Start(start) => start.perform(context),
        Verb::Stop(stop) => stop.perform(context),
        Verb::Restart(restart) => restart.perform(context),
        Verb::Status(status) => status.perform(context),
        Verb::Init(init) => init.perform(context),
        Verb::Check(check) => check.perform(context),
        Verb::Doctor(doctor) => doctor.perform(context),
        Verb::Subjects(subjects) => subjects.perform(context),
        Verb::Queues(queues) => queues.perform(context),
        Verb::Instances(instances) => instances.perform(context),
        Verb::Events(events) => events.perform(context),
        Verb::Explain(explain) => explain.perform(context),
        Verb::Dead(dead) => dead.perform(context),
        Verb::Redrive(redrive) => redrive.perform(context),
        Verb::Replay(replay) => replay.perform(context),
        Verb::Release(release) => release.perform(context),
        Verb::Backup(backup) => backup.perform(context),
        Verb::Restore(restore) => restore.perform(context),
        Verb::Verify(verify) => verify.perform(context),
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
    fn what_is_our_fault_ends_with_70() {
        let panicked = caught(|| panic!("on purpose"));
        for failure in [
            panicked.unwrap_err(),
            Failure::Died("store"),
            Failure::Internal(String::new()),
        ] {
            assert_eq!(failure.exit_code(), ExitCode::from(70), "{failure}");
        }
        assert_eq!(Failure::Hurried.exit_code(), ExitCode::from(1));
    }

    #[test]
    fn the_config_stands_before_the_verb() {
        assert!(CommandLine::try_parse_from(["gw", "--config", "a.yaml", "check"]).is_ok());
        assert!(CommandLine::try_parse_from(["gw", "check", "--config", "a.yaml"]).is_err());
    }
}
