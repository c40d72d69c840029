//! `lock-pi`.

use crate::rows::{self, count, each, shown, takes};
use crate::summary::Line;
use lab_bench::Lab;
use lab_bench::lock_pi::Row;
use lab_terminal::table;

shown!(Row, |row| row.ns_per_op.median, ["the kernel": row.ratio_kernel]);

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let header = ["target", "threads", "locks", "buckets", "ns/lock+unlock", "p10", "p90", "Mop/s", "/ kernel"];
    let mut table = table::new(&header);
    for row in rows {
        let locks = row.head.futexes.to_string();
        let mut cells = vec![rows::target(row), rows::threads(&row.head), locks, rows::buckets(&row.head)];
        cells.extend(rows::spread(&row.ns_per_op, 1));
        cells.push(rows::mops(row.ops_per_sec, 2));
        cells.push(table::ratio(row.ratio_kernel));
        table.add_row(table::align(cells, 1));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn sentence(rows: &[Row]) -> String {
    each(
        rows,
        |row| row.head.threads,
        |row| {
            let locks =
                if row.head.futexes == 1 { "one lock".to_string() } else { format!("{} locks", row.head.futexes) };
            let (target, threads) = (row.head.target, count(row.head.threads, "thread"));
            takes(row, &format!("{target}: lock and unlock by {threads} on {locks}"), 0)
        },
    )
}

/// The summary line. The row with the most threads shows the effect best.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::last("a PI lock of all threads, ns", rows, |row| (row.head.threads, row.multi))
}
