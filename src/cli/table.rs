//! Tables for people: aligned columns, no frame, one line a row.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::output::{Mark, Output};

/// What stands in a column, and so on which side it is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// Words, aligned left.
    Text(&'static str),
    /// Numbers, aligned right.
    Number(&'static str),
}

impl Column {
    const fn title(self) -> &'static str {
        match self {
            Self::Text(title) | Self::Number(title) => title,
        }
    }

    const fn alignment(self) -> CellAlignment {
        match self {
            Self::Text(_) => CellAlignment::Left,
            Self::Number(_) => CellAlignment::Right,
        }
    }
}

/// One row, a cell for each column.
#[derive(Debug, Clone)]
pub(super) struct TableRow {
    /// The cells.
    pub(super) cells: Vec<String>,
    /// True when it needs a person.
    pub(super) alarming: bool,
}

const GAP: u16 = 2;

/// The table as lines. Whole lines are marked, so that no escape code counts as width.
pub(super) fn render(columns: &[Column], rows: &[TableRow], output: Output) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|column| Cell::new(column.title())));
    table.add_rows(
        rows.iter()
            .map(|row| row.cells.iter().map(|cell| one_line(cell))),
    );
    for (index, column) in columns.iter().enumerate() {
        if let Some(shown) = table.column_mut(index) {
            shown.set_padding((0, GAP));
            shown.set_cell_alignment(column.alignment());
        }
    }
    let heading = std::iter::once(Mark::Heading);
    let marks = heading.chain(rows.iter().map(|row| {
        if row.alarming {
            Mark::Alarm
        } else {
            Mark::None
        }
    }));
    let lines = table.lines().zip(marks);
    let marked = lines.map(|(line, mark)| output.marked(line.trim_end(), mark));
    marked.collect::<Vec<_>>().join("\n")
}

/// A cell must not break the line: rows and marks are matched by line.
fn one_line(cell: &str) -> Cell {
    Cell::new(super::shown::plain(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> TableRow {
        TableRow {
            cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
            alarming: false,
        }
    }

    #[test]
    fn words_are_aligned_left_and_numbers_right_without_a_frame() {
        let columns = [
            Column::Text("instance"),
            Column::Number("backlog"),
            Column::Text("oldest"),
        ];
        let rows = [
            row(&["laptop", "12", "42 s ago"]),
            row(&["a-longer-name", "1,000", "-"]),
        ];
        assert_eq!(
            render(&columns, &rows, Output::PLAIN),
            "instance       backlog  oldest\n\
             laptop              12  42 s ago\n\
             a-longer-name    1,000  -"
        );
    }

    #[test]
    fn a_text_with_line_breaks_and_escape_codes_stays_one_plain_line() {
        let shown = render(
            &[Column::Text("name")],
            &[row(&["a\n\u{1b}[2Jb"])],
            Output::PLAIN,
        );
        assert_eq!(shown, "name\na\u{fffd}\u{fffd}[2Jb");
    }
}
