//! Text tables, the same on a terminal and in Markdown.

use comfy_table::{Cell, CellAlignment, Table, presets};
use std::io::IsTerminal;

/// The text of a table. In each row the first `words` cells are aligned left, and the others right.
pub fn text(header: &[&str], words: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = new(header);
    for row in rows {
        let place = |number| if number < words { CellAlignment::Left } else { CellAlignment::Right };
        table.add_row(row.into_iter().enumerate().map(|(number, cell)| Cell::new(cell).set_alignment(place(number))));
    }
    finish(table)
}

/// As [`text`], without the columns for which the output is too narrow, and with a line that names them. The columns of
/// `spare` go first, in that order, and then the last ones. Two columns always stay.
pub fn fitted(header: &[&str], words: usize, rows: Vec<Vec<String>>, spare: &[&str]) -> String {
    let Some(room) = width() else { return text(header, words, rows) };
    within(room, header, words, rows, spare)
}

fn within(room: usize, header: &[&str], words: usize, rows: Vec<Vec<String>>, spare: &[&str]) -> String {
    let width = |column: &usize| {
        let cells = rows.iter().map(|row| row[*column].as_str()).chain([header[*column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut kept: Vec<usize> = (0..header.len()).collect();
    let mut left_out = Vec::new();
    // Each column has a blank on both sides and a bar behind it.
    while kept.len() > 2 && kept.iter().map(|column| width(column) + 3).sum::<usize>() + 1 > room {
        let place = |name: &&str| kept.iter().position(|column| header[*column] == *name);
        let place = spare.iter().find_map(place).unwrap_or(kept.len() - 1);
        let name = header[kept.remove(place)];
        if !left_out.contains(&name) {
            left_out.push(name);
        }
    }
    let header: Vec<&str> = kept.iter().map(|column| header[*column]).collect();
    let words = kept.iter().filter(|column| **column < words).count();
    let rows = rows.iter().map(|row| kept.iter().map(|column| row[*column].clone()).collect());
    let mut table = text(&header, words, rows);
    if !left_out.is_empty() {
        table += &format!("\n({room} columns are too few for: {})", left_out.join("; "));
    }
    table
}

/// The number of columns of the output: `COLUMNS`, or the terminal's. `None` if neither says it.
pub fn width() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    given.or_else(|| Table::new().width().map(usize::from)).filter(|columns| *columns > 0)
}

/// Makes an empty table. The first column's header is aligned left, the others right.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.iter().map(|title| {
        let cell = Cell::new(title);
        if *title == header[0] { cell } else { cell.set_alignment(CellAlignment::Right) }
    }));
    table
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [&str; 5] = ["target", "ns", "p10", "p90", "/ kernel"];

    fn narrow(room: usize) -> Vec<String> {
        let row = ["live", "12", "10", "14", "0.500"].map(str::to_string).to_vec();
        within(room, &HEADER, 1, vec![row], &["p90", "p10"]).lines().map(str::to_string).collect()
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_in_their_order_and_named() {
        assert_eq!(narrow(40)[2], "| live   | 12 |  10 |  14 |    0.500 |");
        assert_eq!(narrow(40).len(), 3);
        assert_eq!(narrow(38), narrow(40), "it is 38 columns wide");
        assert_eq!(narrow(37)[2], "| live   | 12 |  10 |    0.500 |");
        assert_eq!(narrow(37)[3], "(37 columns are too few for: p90)");
        assert_eq!(narrow(30)[2..], ["| live   | 12 |    0.500 |", "(30 columns are too few for: p90; p10)"]);
    }

    #[test]
    fn without_spare_columns_the_last_ones_go_and_two_stay() {
        assert_eq!(narrow(20)[2..], ["| live   | 12 |", "(20 columns are too few for: p90; p10; / kernel)"]);
        assert_eq!(narrow(1)[2], "| live   | 12 |");
    }
}
