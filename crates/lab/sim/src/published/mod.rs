//! Published figures, each found by its table, row and column. `docs/REFERENCES.md` lists the mails that they are from.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

/// Tables by name.
type Tables = BTreeMap<String, Table>;

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| toml::from_str(include_str!("figures.toml")).expect("our own file: a test reads it, too"));

/// A mail with figures, by its short name in `docs/REFERENCES.md`. The command line also accepts its former number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// schbench on a counted private hash and on an immutable one, 2025
    #[strum(to_string = "immutable-hash", serialize = "000")]
    ImmutableHash,
    /// A bucket's chain on a cache line of its own, and the resize that never ends, 2026
    #[strum(to_string = "false-sharing", serialize = "001")]
    FalseSharing,
    /// A bucket without the pointer to its table, 2026
    #[strum(to_string = "priv-removed", serialize = "001+")]
    PrivRemoved,
    /// Reference counts of each CPU, 2025
    #[strum(to_string = "percpu-refs", serialize = "002")]
    PercpuRefs,
    /// Private hashes of several sizes and the global hash, 2016
    #[strum(to_string = "private-hash", serialize = "003")]
    PrivateHash,
    /// Four designs of a table of POSIX timers, 2025
    #[strum(to_string = "timer-hash", serialize = "004")]
    TimerHash,
}

impl Source {
    /// The short name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One table of a mail, or a part of one.
#[derive(Deserialize)]
#[cfg_attr(test, serde(deny_unknown_fields))]
struct Table {
    /// The mail that the table is from.
    #[cfg(test)]
    source: Source,
    columns: Vec<String>,
    /// Rows by name. Each has a figure for each column.
    rows: BTreeMap<String, Vec<f64>>,
    /// Ratios that the mail itself gives.
    #[cfg(test)]
    #[serde(default)]
    said: Vec<Said>,
}

/// Two figures and the mail's rounded ratio of the second to the first.
#[cfg(test)]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    /// The row and the column of each figure.
    cells: [[String; 2]; 2],
    times: f64,
}

/// A figure. Panics if a name is misspelt: the tables are fixed.
pub fn figure(table: &str, row: &str, column: &str) -> f64 {
    let find = || {
        let table = TABLES.get(table)?;
        let place = table.columns.iter().position(|name| name == column)?;
        table.rows.get(row)?.get(place).copied()
    };
    find().unwrap_or_else(|| panic!("no {row}, {column} in the published table {table}"))
}

/// The figures of a row with their columns.
pub fn row(table: &str, row: &str) -> Vec<(&'static str, f64)> {
    let find = || {
        let table = TABLES.get(table)?;
        Some(table.columns.iter().map(String::as_str).zip(table.rows.get(row)?.iter().copied()).collect())
    };
    find().unwrap_or_else(|| panic!("no {row} in the published table {table}"))
}
