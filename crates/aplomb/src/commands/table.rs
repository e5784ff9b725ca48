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
}
