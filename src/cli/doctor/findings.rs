//! What was found, told as it is found: a long check must not hold back the others.

use serde::Serialize;
use serde_json::json;

use super::verdict;
use crate::cli::failure::Failure;
use crate::cli::list::Format;
use crate::cli::output::{Mark, Output};
use crate::cli::shown::plain;

const CHECK_WIDTH: usize = 15;

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Wrong,
    Unsure,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    mark: Verdict,
    text: String,
}

/// What was found so far.
#[derive(Debug)]
pub(super) struct Findings {
    format: Format,
    output: Output,
    found: Vec<Finding>,
}

impl Findings {
    pub(super) const fn new(format: Format, output: Output) -> Self {
        Self {
            format,
            output,
            found: Vec::new(),
        }
    }

    /// It is well.
    pub(super) fn ok(&mut self, check: &'static str, text: String) -> Result<(), Failure> {
        self.add(check, Verdict::Ok, text)
    }

    /// It is wrong; the text says what to do.
    pub(super) fn wrong(&mut self, check: &'static str, text: String) -> Result<(), Failure> {
        self.add(check, Verdict::Wrong, text)
    }

    /// It cannot be told from here.
    pub(super) fn unsure(&mut self, check: &'static str, text: String) -> Result<(), Failure> {
        self.add(check, Verdict::Unsure, text)
    }

    /// It is so.
    pub(super) fn add(
        &mut self,
        check: &'static str,
        mark: Verdict,
        text: String,
    ) -> Result<(), Failure> {
        let finding = Finding { check, mark, text };
        if self.format == Format::Table {
            self.output.data(&finding.line(self.output))?;
        }
        self.found.push(finding);
        Ok(())
    }

    /// Sums up; an error when something is wrong.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let count = |mark| self.found.iter().filter(|one| one.mark == mark).count();
        let wrong = count(Verdict::Wrong);
        let text = match self.format {
            Format::Table => format!(
                "\n{} well, {wrong} wrong, {} not to be told from here",
                count(Verdict::Ok),
                count(Verdict::Unsure)
            ),
            Format::Json => {
                let report = json!({"ok": wrong == 0, "checks": self.found});
                serde_json::to_string_pretty(&report).map_err(Failure::Rows)?
            }
        };
        self.output.data(&text)?;
        Ok(verdict(wrong, self.found.len())?)
    }
}

impl Finding {
    fn line(&self, output: Output) -> String {
        let (sign, mark) = match self.mark {
            Verdict::Ok => ("[ok]", Mark::None),
            Verdict::Wrong => ("[!] ", Mark::Alarm),
            Verdict::Unsure => ("[?] ", Mark::None),
        };
        let text = plain(&self.text);
        output.marked(&format!("{sign} {:<CHECK_WIDTH$} {text}", self.check), mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::lifecycle::Fault;

    #[test]
    fn a_line_begins_with_its_mark_and_stays_one_line() {
        let line = |mark, text: &str| {
            let finding = Finding {
                check: "clock",
                mark,
                text: text.to_owned(),
            };
            finding.line(Output::PLAIN)
        };
        assert_eq!(line(Verdict::Ok, "right"), "[ok] clock           right");
        assert_eq!(line(Verdict::Wrong, "late"), "[!]  clock           late");
        assert_eq!(
            line(Verdict::Unsure, "a\nb\u{1b}"),
            "[?]  clock           a\u{fffd}b\u{fffd}"
        );
    }

    #[test]
    fn only_what_is_wrong_makes_an_error() {
        let mut findings = Findings::new(Format::Json, Output::PLAIN);
        findings.ok("a", String::new()).unwrap();
        findings.unsure("b", String::new()).unwrap();
        findings.finish().unwrap();
        let mut findings = Findings::new(Format::Json, Output::PLAIN);
        findings.ok("a", String::new()).unwrap();
        findings.wrong("b", String::new()).unwrap();
        let end = findings.finish();
        assert!(matches!(
            end,
            Err(Failure::Lifecycle(Fault::Findings { found: 1, made: 2 }))
        ));
    }
}
