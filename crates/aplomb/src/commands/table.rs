//! Tables for the terminal: comfy-table without lines, columns two blanks apart.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// An empty table. `header`: the names of its columns; a leading '>' aligns a column to the right.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    let names = header.iter().map(|name| name.trim_start_matches('>'));
    table.load_preset(NOTHING).set_header(names);
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, 2));
        if name.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The text of a table, without blanks at the ends of its lines.
pub fn text(table: &Table) -> String {
    table.trim_fmt() + "\n"
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
