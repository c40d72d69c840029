//! The summary after several workloads: a line for each, so that the result fits one screen.

use crate::rows::{Shown, beside_rivals};
use lab_terminal::table;

/// The summary line of one workload.
pub struct Line {
    /// The meaning and the unit of the figures.
    pub what: &'static str,
    /// The figure of `live`.
    pub ours: f64,
    /// The figure of the kernel.
    pub kernel: Option<f64>,
    /// The figure of parking_lot.
    pub parking_lot: Option<f64>,
    /// The comparison in words.
    pub so: String,
}

impl Line {
    /// The line of the first row of `live`, which is the simplest. `None` if `live` was not measured.
    pub fn first<R: Shown, C: PartialEq>(what: &'static str, rows: &[R], case: impl Fn(&R) -> C) -> Option<Line> {
        Self::about(what, of(rows, "live").next()?, rows, case)
    }

    /// The line of the last row of `live`, which has the most threads.
    pub fn last<R: Shown, C: PartialEq>(what: &'static str, rows: &[R], case: impl Fn(&R) -> C) -> Option<Line> {
        Self::about(what, of(rows, "live").last()?, rows, case)
    }

    fn about<R: Shown, C: PartialEq>(what: &'static str, ours: &R, rows: &[R], case: impl Fn(&R) -> C) -> Option<Line> {
        let rival = |target| of(rows, target).find(|row| case(row) == case(ours)).map(Shown::time);
        let (kernel, parking_lot) = (rival("kernel"), rival("parking_lot"));
        Some(Line { what, ours: ours.time(), kernel, parking_lot, so: beside_rivals(ours) })
    }
}

fn of<'a, R: Shown>(rows: &'a [R], target: &'a str) -> impl Iterator<Item = &'a R> {
    rows.iter().filter(move |row| row.variant().is_none() && row.head().target == target)
}

/// The table of all lines.
pub fn text(lines: &[(&'static str, Line)]) -> String {
    let mut all = table::new(&["workload", "what", "live", "kernel", "parking_lot", "live is"]);
    let number = |figure: f64| if figure < 100.0 { format!("{figure:.1}") } else { format!("{figure:.0}") };
    for (name, line) in lines {
        let rivals = [line.kernel, line.parking_lot].map(|rival| rival.map_or_else(table::dash, number));
        let mut cells = vec![name.to_string(), line.what.to_string(), number(line.ours)];
        cells.extend(rivals);
        let mut cells = table::align(cells, 2);
        cells.push(line.so.clone().into());
        all.add_row(cells);
    }
    table::finish(all)
}
