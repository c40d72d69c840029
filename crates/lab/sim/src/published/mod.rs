//! What the seeds publish, figure by figure, for whoever compares something with it.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// By name.
type Tables = BTreeMap<String, Table>;

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| toml::from_str(include_str!("figures.toml")).expect("our own file: a test reads it, too"));

/// One table of a seed, or a part of one.
#[derive(Deserialize)]
#[cfg_attr(test, serde(deny_unknown_fields))]
struct Table {
    /// The document.
    #[cfg(test)]
    seed: String,
    columns: Vec<String>,
    /// By name; a figure for each column.
    rows: BTreeMap<String, Vec<f64>>,
    /// What the document makes of its figures.
    #[cfg(test)]
    #[serde(default)]
    said: Vec<Said>,
}

/// Two figures, and how many times the first the second is.
#[cfg(test)]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// Of each the row and the column.
    cells: [[String; 2]; 2],
    times: f64,
}

/// One figure. Whoever asks for one that is not there has written its name wrongly.
pub fn figure(table: &str, row: &str, column: &str) -> f64 {
    let find = || {
        let table = TABLES.get(table)?;
        let place = table.columns.iter().position(|name| name == column)?;
        table.rows.get(row)?.get(place).copied()
    };
    find().unwrap_or_else(|| panic!("no {row}, {column} in the published table {table}"))
}

/// The figures of a row, with their columns.
pub fn row(table: &str, row: &str) -> Vec<(&'static str, f64)> {
    let find = || {
        let table = TABLES.get(table)?;
        Some(table.columns.iter().map(String::as_str).zip(table.rows.get(row)?.iter().copied()).collect())
    };
    find().unwrap_or_else(|| panic!("no {row} in the published table {table}"))
}
