//! `locks`.

use crate::rows::{self, count, shown};
use crate::summary::Line;
use lab_bench::Lab;
use lab_bench::locks::Row;
use lab_terminal::table;

shown!(Row, |row| row.ns_per_op.median, ["parking_lot": row.ratio_parking_lot]);

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let header =
        ["target", "case", "threads", "locks", "ns/op", "p10", "p90", "/ parking_lot", "CPU ns/op", "/ parking_lot"];
    let mut table = table::new(&header);
    for row in rows {
        let target = if row.head.target == "live" { "parking_lot on ufutex" } else { row.head.target };
        let threads = match (row.writers, row.readers) {
            (Some(writers), Some(readers)) => format!("{writers}w {readers}r"),
            _ => row.head.threads.to_string(),
        };
        let mut cells = vec![target.to_string(), row.case.to_string(), threads, row.head.futexes.to_string()];
        cells.extend(rows::spread(&row.ns_per_op, 0));
        cells.push(table::ratio(row.ratio_parking_lot));
        cells.push(format!("{:.0}", row.cpu_ns_per_op.median));
        cells.push(table::ratio(row.ratio_cpu_parking_lot));
        table.add_row(table::align(cells, 2));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn sentence(rows: &[Row]) -> String {
    let ours =
        || rows.iter().filter(|row| row.head.target == "live").filter_map(|row| Some((row, row.ratio_parking_lot?)));
    let (best, worst) = (ours().min_by(|a, b| a.1.total_cmp(&b.1)), ours().max_by(|a, b| a.1.total_cmp(&b.1)));
    let (Some(best), Some(worst)) = (best, worst) else { return String::new() };
    let say = |(row, ratio): (&Row, f64)| {
        let threads = count(row.head.threads, "thread");
        format!("{ratio:.2} of that on its own core with {threads} ({})", row.case)
    };
    format!("parking_lot's time on ufutex is {} at best, {} at worst.", say(best), say(worst))
}

/// The summary line.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::first("lock and unlock, ns", rows, |row| (row.head.threads, row.case, row.writers))
}
