//! The client as a command: any program can be an instance.
//!
//! Three ways to hand a delivery on: post it again to the receiver of an instance, run a command,
//! or print it. What becomes of it is told to the gateway in the same few words each time; what
//! cannot be reached is left alone, and nothing is settled meanwhile.

mod exec;
mod form;
mod forward;
mod print;
mod status_page;
mod verdict;

pub use exec::Exec;
pub use forward::{Forward, Target};
pub use print::Print;
pub use status_page::StatusPage;

use super::{Client, ClientBuilder, StartError};

/// Where deliveries go.
#[derive(Debug)]
pub enum Sink {
    /// Posted again, signed anew.
    Forward(Forward),
    /// To the standard input of a command.
    Exec(Exec),
    /// To a writer, a line each.
    Print(Print),
}

/// Starts a client that hands its deliveries on.
///
/// # Errors
/// As [`StartError`] says.
pub fn start(builder: ClientBuilder, sink: Sink) -> Result<Client, StartError> {
    match sink {
        Sink::Forward(forward) => builder.start_with(move || forward.into_handler()),
        Sink::Exec(exec) => builder.start(exec),
        Sink::Print(print) => builder.start(print),
    }
}

#[cfg(test)]
mod tests;
