//! Tables of text, the same on a terminal and in a Markdown page.

use comfy_table::{Cell, CellAlignment, Table, presets};
use std::io::IsTerminal;

/// An empty table: the first column to the left, the others to the right.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.iter().map(|title| {
        let cell = Cell::new(title);
        if *title == header[0] { cell } else { cell.set_alignment(CellAlignment::Right) }
    }));
    table
}

/// Words to the left, numbers to the right.
pub fn align(cells: Vec<String>, words: usize) -> Vec<Cell> {
    let place = |number| {
        if number < words { CellAlignment::Left } else { CellAlignment::Right }
    };
    cells.into_iter().enumerate().map(|(number, text)| Cell::new(text).set_alignment(place(number))).collect()
}

/// The table's text. It has no colours unless stdout is a terminal that takes them.
pub fn finish(mut table: Table) -> String {
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if !coloured {
        table.force_no_tty();
    }
    table.to_string()
}

/// Stands for a figure that there is not.
pub fn dash() -> String {
    "-".to_string()
}

/// A ratio with three digits.
pub fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(dash, |ratio| format!("{ratio:.3}"))
}
