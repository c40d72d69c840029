//! Text tables, the same on a terminal and in Markdown.

use comfy_table::{Cell, CellAlignment, Table, presets};
use std::io::IsTerminal;

/// Makes an empty table. The first column is aligned left, the others right.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.iter().map(|title| {
        let cell = Cell::new(title);
        if *title == header[0] { cell } else { cell.set_alignment(CellAlignment::Right) }
    }));
    table
}

/// Aligns the first `words` cells left and the others right.
pub fn align(cells: Vec<String>, words: usize) -> Vec<Cell> {
    let place = |number| {
        if number < words { CellAlignment::Left } else { CellAlignment::Right }
    };
    cells.into_iter().enumerate().map(|(number, text)| Cell::new(text).set_alignment(place(number))).collect()
}

/// The table's text. It has colours only if stdout is a terminal and `NO_COLOR` is not set.
pub fn finish(mut table: Table) -> String {
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if !coloured {
        table.force_no_tty();
    }
    table.to_string()
}

/// Stands for a missing figure.
pub fn dash() -> String {
    "-".to_string()
}

/// A ratio with three decimals.
pub fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(dash, |ratio| format!("{ratio:.3}"))
}
