//! `wake -w`.

use crate::rows::{self, each, shown, takes};
use crate::summary::Line;
use lab_bench::Lab;
use lab_bench::wake_many::Row;

shown!(Row, |row| row.ns_per_op.median, ["the kernel": row.ratios.kernel, "parking_lot": row.ratios.parking_lot]);

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let cells = |row: &Row| (rows::target(row), row.nwakes, row.ns_per_op, row.ratios);
    format!("{}\n{}", rows::sleepers_table(rows, ("at once", "ns/wake", 0), cells), sentence(rows))
}

fn sentence(rows: &[Row]) -> String {
    each(
        rows,
        |row| (row.head.threads, row.nwakes),
        |row| {
            let (target, threads, nwakes) = (row.head.target, row.head.threads, row.nwakes);
            takes(row, &format!("{target}: each wake of {threads} sleepers with {nwakes} a call"), 0)
        },
    )
}

/// The summary line.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::first("a sleeper woken, ns", rows, |row| (row.head.threads, row.nwakes))
}
