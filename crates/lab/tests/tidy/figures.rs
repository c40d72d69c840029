//! Figures of the reference run: each stands in its data file, and the pages repeat it.

use std::fmt::Write;

/// The tables of `docs/data/report.csv`, each with the beginning of its title.
struct Report<'a>(&'a str);

impl Report<'_> {
    /// The number in a column of the first row that begins with these cells.
    fn number(&self, table: &str, row: &[&str], column: &str) -> f64 {
        let cell = self.cell(table, row, column);
        cell.parse().unwrap_or_else(|_| panic!("{table}, {row:?}, {column}: {cell} is no number"))
    }

    fn cell(&self, table: &str, row: &[&str], column: &str) -> &str {
        let tables = self.0.split("\n\n# ");
        let text =
            tables.into_iter().find(|text| text.starts_with(table)).unwrap_or_else(|| panic!("no table {table}"));
        let mut lines = text.lines().skip(1).map(cells);
        let head = lines.next().unwrap_or_default();
        let at = head.iter().position(|name| *name == column).unwrap_or_else(|| panic!("{table}: no column {column}"));
        let found = lines.find(|cells| cells.starts_with(row)).unwrap_or_else(|| panic!("{table}: no row {row:?}"));
        found[at]
    }
}

/// The cells of a line. Those in quotation marks contain commas.
fn cells(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let split = line.split(move |letter| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted
    });
    split.map(|cell| cell.trim_matches('"')).collect()
}

/// Three digits, as the pages have them.
fn digits(number: f64) -> String {
    match number {
        large if large >= 100.0 => format!("{}", large.round()),
        some if some >= 1.0 => format!("{some:.1}"),
        small => format!("{small:.2}"),
    }
}

/// A row of a page's table.
fn row(first: &str, others: impl IntoIterator<Item = String>) -> String {
    let mut row = format!("| {first} |");
    for cell in others {
        // Writing to a string does not fail.
        let _ = write!(row, "{}{cell} |", if cell.is_empty() { "" } else { " " });
    }
    row
}

/// Rows that the pages do not have as the data file has them.
pub fn other(report: &str, read: impl Fn(&str) -> String) -> Vec<String> {
    let report = Report(report);
    let (waits, wakes, resize) = ("Waits on a word", "Wakes of words", "A resize from");
    let rate = |table, target, threads| report.number(table, &[target, threads], "median");
    let mut rows = Vec::new();
    for (name, target) in [
        ("ufutex (the target `live`)", "live"),
        ("parking_lot_core 0.10", "parking_lot"),
        ("futex(2) of Linux 6.18 on its private hash, system call included", "kernel"),
    ] {
        // Of two threads, which make so many million calls a second together.
        let ns = 2.0 * 1000.0 / rate(waits, target, "2");
        rows.push(("README.md", row(name, [format!("{} ns", digits(ns))])));
    }
    for (name, threads) in [("1 thread", "1"), ("2 threads", "2")] {
        let targets = ["live", "fixed", "percpu", "global", "parking_lot", "atomic", "kernel"];
        let cells = targets.map(|target| report.cell(waits, &[target, threads], "median").to_string());
        rows.push(("docs/RESULTS.md", row(name, cells)));
    }
    for target in ["live", "kernel", "atomic", "percpu"] {
        let of = |column| report.cell(resize, &[target], column);
        let time = if of("in effect") == "0" { "given up after 200 ms" } else { of("median time") };
        let after = of("after").trim_start_matches('-');
        rows.push(("docs/RESULTS.md", row(target, [time, of("before"), of("under way"), after].map(String::from))));
    }
    for column in ["create", "getoverrun"] {
        let of = |(target, timers)| {
            let ns = report.number("POSIX timers", &[target, timers, "1"], &format!("{column}, ns"));
            digits(ns)
        };
        let designs = [
            ("ours", "100000"),
            ("radix", "100000"),
            ("scaled", "100000"),
            ("global-lock", "100000"),
            ("kernel", "50000"),
        ];
        rows.push(("docs/RESULTS.md", row(column, designs.map(of))));
    }
    for (name, table, one, other, threads) in [
        ("hash, 1 thread, live / parking_lot (Zen 3: 0.62; Zen 4: 0.59)", waits, "live", "parking_lot", "1"),
        ("hash, 2 threads, live / parking_lot", waits, "live", "parking_lot", "2"),
        ("hash, 1 thread, live / fixed", waits, "live", "fixed", "1"),
        ("hash, 1 thread, percpu / live", waits, "percpu", "live", "1"),
        ("wake, 1 thread, live / parking_lot", wakes, "live", "parking_lot", "1"),
    ] {
        // A thread's times, so the rates are divided the other way.
        let ratio = rate(table, other, threads) / rate(table, one, threads);
        rows.push(("docs/BENCHMARKS.md", format!("{} ", row(name, [format!("{ratio:.2}")]))));
    }
    for (name, table, threads) in
        [("hash, 1 thread", waits, "1"), ("hash, 2 threads", waits, "2"), ("wake, 1 thread", wakes, "1")]
    {
        let ratio = rate(table, "kernel", threads) / rate(table, "live", threads);
        rows.push((
            "docs/BENCHMARKS.md",
            format!("{} ", row(&format!("{name}, live / kernel"), [format!("{ratio:.3}")])),
        ));
    }
    rows.retain(|(page, row)| !read(page).contains(row));
    rows.into_iter().map(|(page, row)| format!("{page} has not what report.csv has: {row}")).collect()
}

#[test]
fn figure_that_a_page_has_otherwise_is_found() {
    assert_eq!(cells("a,\"b, c\",d"), ["a", "b, c", "d"]);
    assert_eq!(row("atomic", ["20.1", "", "x"].map(String::from)), "| atomic | 20.1 | | x |");
    assert_eq!([1958.8, 39.4, 0.556].map(digits), ["1959", "39.4", "0.56"]);
}
