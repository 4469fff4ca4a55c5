//! The program. All of it is in the library; see [`the_loop_gateway::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    the_loop_gateway::cli::main()
}
