//! What happened, a line a fact; the same seed gives the same text.

use std::fmt::Write;

/// The text of a simulation.
#[derive(Debug, Default)]
pub struct History {
    text: String,
}

impl History {
    /// Adds a line.
    pub fn note(&mut self, line: impl std::fmt::Display) {
        // A String takes every text.
        let _written = writeln!(self.text, "{line}");
    }

    /// All of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The last lines.
    #[must_use]
    pub fn tail(&self, lines: usize) -> String {
        let all: Vec<&str> = self.text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}
