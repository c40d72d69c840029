//! `hash` and `wake`.

use crate::rows::{self, Shown, beside_rivals, count, join, main_row};
use crate::summary::Line;
use lab_bench::hammer::Row;
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
        (self.early_return == Some(true)).then_some("early return")
    }
}

/// Table and sentence of `hash`.
pub fn hash(lab: &Lab<'_>, rows: &[Row]) -> String {
    text(lab, rows, "A wait on a word that differs")
}

/// Table and sentence of `wake`.
pub fn wake(lab: &Lab<'_>, rows: &[Row]) -> String {
    text(lab, rows, "A wake of a word without waiters")
}

/// The summary line of `hash`.
pub fn hash_line(rows: &[Row]) -> Option<Line> {
    line(rows, "a wait that differs, ns")
}

/// The summary line of `wake`.
pub fn wake_line(rows: &[Row]) -> Option<Line> {
    line(rows, "a wake without waiters, ns")
}

fn text(lab: &Lab<'_>, rows: &[Row], what: &str) -> String {
    let header = ["target", "threads", "buckets", "ns/op", "p10", "p90", "Mop/s", "/ kernel", "/ parking_lot"];
    let mut table = table::new(&header);
    for row in rows {
        let mut cells = vec![rows::target(row), rows::threads(&row.head), rows::buckets(&row.head)];
        cells.extend(rows::spread(&row.ns_per_op, 1));
        cells.push(rows::mops(row.ops_per_sec, 1));
        cells.extend([row.ratios.kernel, row.ratios.parking_lot].map(table::ratio));
        table.add_row(table::align(cells, 1));
    }
    format!("{}\n{}", table::finish(table), sentence(lab, rows, what))
}

fn sentence(lab: &Lab<'_>, rows: &[Row], what: &str) -> String {
    let threads = || rows.iter().map(|row| row.head.threads);
    let (Some(least), Some(most)) = (threads().min(), threads().max()) else { return String::new() };
    let Some(one) = main_row(rows, |row| row.head.threads == least) else { return String::new() };
    let mut text = format!("{what} takes {:.1} ns on {} with {}", one.time(), one.head.target, count(least, "thread"));
    let others = beside_rivals(one);
    if !others.is_empty() {
        text += &format!(", {others}");
    }
    if most > least {
        let scaling = |target: &str| {
            let key = |threads| (one.head.workload, target, threads);
            lab.series.ratio(key(most), key(least)).map(|ratio| format!("{ratio:.2} on {target}"))
        };
        let scaling = join(["live", "atomic", "kernel", "parking_lot"].map(scaling));
        if !scaling.is_empty() {
            text += &format!("; {most} threads multiply an operation's time by {scaling}");
        }
    }
    text + "."
}

fn line(rows: &[Row], what: &'static str) -> Option<Line> {
    Line::first(what, rows, |row| row.head.threads)
}
