//! `requeue`.

use crate::rows::{self, each, shown, takes};
use crate::summary::Line;
use lab_bench::Lab;
use lab_bench::requeue::Row;

shown!(Row, |row| row.ns_per_op.median, ["the kernel": row.ratios.kernel, "parking_lot": row.ratios.parking_lot]);

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let cells = |row: &Row| (target(row), row.nrequeue, row.ns_per_op, row.ratios);
    format!("{}\n{}", rows::sleepers_table(rows, ("at once", "ns/waiter", 1), cells), sentence(rows))
}

fn target(row: &Row) -> String {
    if row.pi { format!("{} (pi)", row.head.target) } else { rows::target(row) }
}

fn sentence(rows: &[Row]) -> String {
    each(
        rows,
        |row| (row.head.threads, row.nrequeue),
        |row| {
            let (target, threads, nrequeue) = (row.head.target, row.head.threads, row.nrequeue);
            takes(row, &format!("{target}: a waiter of {threads} that are moved {nrequeue} at a time"), 0)
        },
    )
}

/// The summary line.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::first("a waiter requeued, ns", rows, |row| (row.head.threads, row.nrequeue))
}
