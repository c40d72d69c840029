//! `growth`.

use crate::rows::{self, Shown, join, shown};
use crate::summary::Line;
use lab_bench::Lab;
use lab_bench::growth::Row;
use lab_terminal::table;

shown!(Row, |row| row.first_wait_us.max, ["parking_lot": row.ratio_parking_lot]);

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let header = ["target", "threads", "buckets", "first wait p50, us", "p99", "max", "max / parking_lot"];
    let mut table = table::new(&header);
    for row in rows {
        let mut cells = vec![rows::target(row), row.head.threads.to_string(), rows::buckets(&row.head)];
        cells.extend(rows::tail(&row.first_wait_us));
        cells.push(table::ratio(row.ratio_parking_lot));
        table.add_row(table::align(cells, 1));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn sentence(rows: &[Row]) -> String {
    let Some(most) = rows.iter().map(|row| row.head.threads).max() else { return String::new() };
    let of_most = rows.iter().filter(|row| row.head.threads == most);
    let worst = of_most.map(|row| Some(format!("{} {:.1} us", row.head.target, row.time())));
    format!("The slowest of {most} threads' first waits takes {}.", join(worst))
}

/// The summary line. The row with the most threads shows the effect best.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::last("the slowest first wait, us", rows, |row| row.head.threads)
}
