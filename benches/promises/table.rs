//! What was measured, against what is promised.

use std::fmt;

use comfy_table::{Table as Grid, presets};

/// The rows so far.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

struct Row {
    name: String,
    measured: String,
    target: String,
    is_met: Option<bool>,
}

impl Table {
    /// A promise that the number is not above a bound.
    pub(crate) fn at_most(&mut self, name: &str, number: f64, bound: f64, unit: &str) {
        self.add(name, (number, "≤", bound, unit), number <= bound);
    }

    /// A promise that the number is not below a bound.
    pub(crate) fn at_least(&mut self, name: &str, number: f64, bound: f64, unit: &str) {
        self.add(name, (number, "≥", bound, unit), number >= bound);
    }

    fn add(
        &mut self,
        name: &str,
        (number, sign, bound, unit): (f64, &str, f64, &str),
        is_met: bool,
    ) {
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" {unit}")
        };
        self.0.push(Row {
            name: name.to_owned(),
            measured: format!("{}{unit}", shown(number)),
            target: format!("{sign} {}{unit}", shown(bound)),
            is_met: Some(is_met),
        });
    }

    /// A number that nothing is promised of.
    pub(crate) fn note(&mut self, name: &str, measured: String) {
        self.0.push(Row {
            name: name.to_owned(),
            measured,
            target: String::new(),
            is_met: None,
        });
    }
}

/// Three digits that count.
fn shown(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING);
        grid.set_header(["promise", "measured", "target", ""]);
        for row in &self.0 {
            let verdict = match row.is_met {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "",
            };
            grid.add_row([&row.name, &row.measured, &row.target, verdict]);
        }
        write!(f, "{grid}")
    }
}
