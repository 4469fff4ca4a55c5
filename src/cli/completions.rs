//! `completions`: the script by which a shell completes the command line.

use clap::{Args, Command};
use clap_complete::Shell;

use super::context::Context;
use super::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway completions bash > ~/.local/share/bash-completion/completions/the-loop-gateway
  the-loop-gateway completions zsh > \"${fpath[1]}/_the-loop-gateway\"
  the-loop-gateway completions fish > ~/.config/fish/completions/the-loop-gateway.fish";

/// Write the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn perform(&self, context: &Context, mut command: Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        context.output.data(&String::from_utf8_lossy(&script))
    }
}
