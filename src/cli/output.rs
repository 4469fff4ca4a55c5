//! Where the command line writes: the only module of it that does.
//!
//! Data goes to standard output and must arrive, except that a reader who has seen enough (`head`)
//! is no failure. A story is told as far as somebody listens. Everything else goes to standard
//! error. Colour only marks what the words say anyway.

use std::io::{self, IsTerminal, Write};

use super::Failure;
use crate::config::{EnvName, Environment};

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const PLAIN: &str = "\u{1b}[0m";
/// No colour: what `NO_COLOR` forbids stays out.
const CLEAR_LINE: &str = "\u{1b}[2K";

/// Writes for a person or a pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    data_is_styled: bool,
    notes_are_styled: bool,
}

/// How a line of data is marked on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Not at all.
    None,
    /// As a heading.
    Heading,
    /// As something that needs a person.
    Alarm,
}

impl Output {
    /// Styled where a terminal reads, unless `NO_COLOR` is set.
    pub(super) fn of_process(environment: &Environment) -> Self {
        let colours =
            EnvName::parse("NO_COLOR").is_ok_and(|name| !environment.secret(&name).is_set());
        Self {
            data_is_styled: colours && io::stdout().is_terminal(),
            notes_are_styled: colours && io::stderr().is_terminal(),
        }
    }

    /// True when standard error may be coloured.
    pub(super) const fn notes_are_styled(self) -> bool {
        self.notes_are_styled
    }

    /// A line of data with its mark, when data is styled at all.
    pub(super) fn marked(self, line: &str, mark: Mark) -> String {
        let code = match mark {
            Mark::Heading if self.data_is_styled => BOLD,
            Mark::Alarm if self.data_is_styled => RED,
            Mark::None | Mark::Heading | Mark::Alarm => return line.to_owned(),
        };
        format!("{code}{line}{PLAIN}")
    }

    /// Writes what was asked for, and a line break.
    ///
    /// # Errors
    /// [`Failure::Output`] when it could not be written, other than to a closed pipe.
    pub(super) fn data(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Where data goes that is written piece by piece.
    pub(super) fn stream(self) -> Box<dyn Write + Send> {
        Box::new(io::stdout())
    }

    /// Tells the next line of a story; nobody has to listen.
    pub(super) fn say(self, line: &str) {
        let mut out = io::stdout().lock();
        drop(writeln!(out, "{line}").and_then(|()| out.flush()));
    }

    /// As [`Output::say`], for a story without an end: false when nobody listens any more.
    pub(super) fn tell(self, line: &str) -> bool {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
    }

    /// True when a person watches standard error.
    pub(super) fn notes_are_watched(self) -> bool {
        io::stderr().is_terminal()
    }

    /// Says how far something is: over the line before on a terminal, else as a line of its own.
    pub(super) fn passing(self, text: &str) {
        let mut err = io::stderr().lock();
        let written = if self.notes_are_watched() {
            write!(err, "\r{CLEAR_LINE}{text}").and_then(|()| err.flush())
        } else {
            writeln!(err, "{text}")
        };
        drop(written);
    }

    /// Takes the passing line away.
    pub(super) fn end_passing(self) {
        if self.notes_are_watched() {
            let mut err = io::stderr().lock();
            drop(write!(err, "\r{CLEAR_LINE}").and_then(|()| err.flush()));
        }
    }

    /// Says what is good to know beside the data.
    pub(super) fn note(self, text: &str) {
        self.to_stderr("note", BOLD, text);
    }

    /// Says why the command failed.
    pub(super) fn error(self, text: &str) {
        self.to_stderr("error", RED, text);
    }

    fn to_stderr(self, word: &str, code: &str, text: &str) {
        let mut err = io::stderr().lock();
        let written = if self.notes_are_styled {
            writeln!(err, "{code}{word}:{PLAIN} {text}")
        } else {
            writeln!(err, "{word}: {text}")
        };
        drop(written);
    }
}

#[cfg(test)]
impl Output {
    /// Never styled.
    pub(super) const PLAIN: Self = Self {
        data_is_styled: false,
        notes_are_styled: false,
    };
}
