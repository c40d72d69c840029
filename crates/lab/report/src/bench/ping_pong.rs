//! `ping-pong`.

use crate::rows::{self, Shown, beside_rivals, capital, count, join, main_row};
use crate::summary::Line;
use lab_bench::ping_pong::Row;
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
        vec![("the kernel", self.ratios.kernel), ("parking_lot", self.ratios.parking_lot)]
    }

    fn variant(&self) -> Option<&'static str> {
        self.spin.then_some("spin")
    }
}

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let header = [
        "target",
        "threads",
        "CPUs",
        "work ns",
        "buckets",
        "ns one way",
        "p10",
        "p90",
        "CPU ns",
        "/ kernel",
        "/ parking_lot",
    ];
    let mut table = table::new(&header);
    for row in rows {
        let cpus = rows::with_distance(row.cpus, &row.head);
        let mut cells = vec![
            rows::target(row),
            row.head.threads.to_string(),
            cpus,
            row.work_ns.to_string(),
            rows::buckets(&row.head),
        ];
        cells.extend(rows::spread(&row.ns_per_op, 0));
        cells.push(format!("{:.0}", row.cpu_ns_per_op.median));
        cells.extend([row.ratios.kernel, row.ratios.parking_lot].map(table::ratio));
        table.add_row(table::align(cells, 1));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn sentence(rows: &[Row]) -> String {
    let say = |cpus: usize| {
        let is_first_case = |row: &Row| (row.head.threads, row.work_ns) == (rows[0].head.threads, rows[0].work_ns);
        let row = main_row(rows, |row: &Row| row.cpus == cpus && is_first_case(row))?;
        let others = beside_rivals(row);
        let others = if others.is_empty() { others } else { format!(" ({others})") };
        let (target, time) = (row.head.target, row.time());
        let work = if row.work_ns == 0 { String::new() } else { format!(", {} of them work,", row.work_ns) };
        Some(format!("{target} wakes a sleeping thread in {time:.0} ns{work} on {}{others}", count(cpus, "CPU")))
    };
    capital(&(join([say(1), say(2)]) + "."))
}

/// The summary line.
pub fn line(rows: &[Row]) -> Option<Line> {
    Line::first("one way, ns", rows, |row| (row.cpus, row.head.threads, row.work_ns))
}
