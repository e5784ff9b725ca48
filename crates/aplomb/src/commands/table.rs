//! Aligned columns.

/// Rows of cells with a header, numbers to the right.
#[derive(Debug)]
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// `header`: names of the columns; a leading '>' aligns one to the right.
    pub fn new(header: &[&str]) -> Self {
        Self {
            right: header.iter().map(|h| h.starts_with('>')).collect(),
            rows: vec![header
                .iter()
                .map(|h| h.trim_start_matches('>').to_owned())
                .collect()],
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// All lines, without spaces at their ends.
    pub fn text(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|r| r.get(column))
                .map(|c| c.chars().count())
                .max()
        };
        let widths: Vec<usize> = (0..self.right.len())
            .map(|c| width(c).unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let pad = " ".repeat(width - cell.chars().count());
                line += &if *right {
                    format!("{pad}{cell}  ")
                } else {
                    format!("{cell}{pad}  ")
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut t = Table::new(&["name", ">use"]);
        t.row(vec!["mplayer".into(), "4 %".into()]);
        t.row(vec!["é".into(), "100 %".into()]);
        assert_eq!(t.text(), "name       use\nmplayer    4 %\né        100 %\n");
    }
}
