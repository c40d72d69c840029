//! `wasm`.

use crate::rows::{self, Shown, count, each, takes};
use crate::summary::Line;
use lab_bench::wasm::Row;
use lab_bench::{Head, Lab};
use lab_terminal::table;

impl Shown for Row {
    fn head(&self) -> &Head {
        &self.head
    }

    fn time(&self) -> f64 {
        self.ns_per_op.median
    }

    fn over(&self) -> Vec<(&'static str, Option<f64>)> {
        vec![("wasmtime", self.ratio_wasmtime)]
    }

    fn variant(&self) -> Option<&'static str> {
        (self.early_return == Some(true)).then_some("early return")
    }
}

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let header = ["target", "operation", "words", "threads", "buckets", "ns/op", "p10", "p90", "Mop/s", "/ wasmtime"];
    let mut table = table::new(&header);
    for row in rows {
        let words = if row.case == "one" { "one".to_string() } else { format!("{} each", row.head.futexes) };
        let (operation, threads) = (row.operation.to_string(), rows::threads(&row.head));
        let mut cells = vec![rows::target(row), operation, words, threads, rows::buckets(&row.head)];
        cells.extend(rows::spread(&row.ns_per_op, 1));
        cells.push(rows::mops(row.ops_per_sec, 1));
        cells.push(table::ratio(row.ratio_wasmtime));
        table.add_row(table::align(cells, 2));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn sentence(rows: &[Row]) -> String {
    let words: Vec<_> = rows.iter().filter(|row| row.case == "words").cloned().collect();
    each(
        &words,
        |row| (row.operation, row.head.threads),
        |row| {
            let (target, threads) = (row.head.target, count(row.head.threads, "thread"));
            takes(row, &format!("{target} with {threads}: a {}", row.operation), 1)
        },
    )
}

/// The summary line.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::first("memory.atomic.wait32, ns", rows, |row| (row.head.threads, row.case, row.operation))
}
