//! `crowd`.

use crate::rows::{self, main_row, shown};
use crate::summary::Line;
use lab_bench::Lab;
use lab_bench::crowd::Row;
use lab_terminal::table;

shown!(Row, |row| row.ns_per_op.median, []);

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let header = ["target", "case", "kind", "waiters", "buckets", "ns/wake", "p10", "p90", "/ fewest"];
    let mut table = table::new(&header);
    for row in rows {
        let Row { waiters, domains, .. } = row;
        let waiters = if *domains > 1 { format!("{domains} x {waiters}") } else { waiters.to_string() };
        let (case, kind) = (row.case.to_string(), row.waiter_kind.to_string());
        let mut cells = vec![rows::target(row), case, kind, waiters, rows::buckets(&row.head)];
        cells.extend(rows::spread(&row.ns_per_op, 1));
        cells.push(table::ratio(row.ratio_fewest));
        table.add_row(table::align(cells, 3));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn sentence(rows: &[Row]) -> String {
    let Some(target) = main_row(rows, |_: &Row| true).map(|row| row.head.target) else { return String::new() };
    let say = |case: &str, (name, kind): (&str, &str)| {
        let these = rows.iter().filter(|row| (row.head.target, row.case, row.waiter_kind) == (target, case, name));
        let most = these.max_by_key(|row| row.waiters)?;
        let (waiters, ratio, time) = (most.waiters, most.ratio_fewest?, most.ns_per_op.median);
        Some(format!("{time:.0} ns with {waiters} {case} {kind}s, {ratio:.2} times that with the fewest"))
    };
    let kinds = [("future", "future"), ("custom", "custom waiter")];
    let cases = ["distinct", "same-bucket"].into_iter();
    let parts: Vec<_> = cases.flat_map(|case| kinds.map(|kind| say(case, kind))).flatten().collect();
    format!("A wake of one waiter on {target} takes {}.", parts.join("; "))
}

/// The summary line.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::first("a wake in a crowd, ns", rows, |row| row.case)
}
