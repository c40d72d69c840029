//! Parts of the tables of all futex workloads, and of the summary.

use crate::{Head, Ratios};
use lab_measure::stats::Spread;
use lab_terminal::table::{self, dash};

/// A row as its table and the summary need it.
pub trait Shown {
    /// The fields that all rows have.
    fn head(&self) -> &Head;

    /// The time that the workload measures, in the workload's unit.
    fn time(&self) -> f64;

    /// The name of each rival, and this row's time divided by the rival's.
    fn over(&self) -> Vec<(&'static str, Option<f64>)>;

    /// What the target does that it does not do by default, if this row is of such a variant.
    fn variant(&self) -> Option<&'static str> {
        None
    }
}

/// Implements [`Shown`] for a row type: its time, and its `Ratios` or ratios to single rivals. `variant` is optional.
macro_rules! shown {
    ($row:ty, |$this:ident| $time:expr, [$($rival:literal: $ratio:expr),*] $(, $variant:expr)?) => {
        shown!($row, |$this| $time, vec![$(($rival, $ratio)),*] $(, $variant)?);
    };
    ($row:ty, |$this:ident| $time:expr, $over:expr $(, $variant:expr)?) => {
        impl $crate::rows::Shown for $row {
            fn head(&self) -> &$crate::Head {
                &self.head
            }

            fn time(&self) -> f64 {
                let $this = self;
                $time
            }

            fn over(&self) -> Vec<(&'static str, Option<f64>)> {
                let $this = self;
                // Unused if the workload has no rivals.
                let _ = $this;
                $over
            }

            $(fn variant(&self) -> Option<&'static str> {
                let $this = self;
                $variant
            })?
        }
    };
}
pub(crate) use shown;

/// "3.1 times as fast as" `other`, or "at 1.2 times the time of" it. `ratio` is this time divided by the other's.
pub fn against(ratio: Option<f64>, other: &str) -> Option<String> {
    let ratio = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    Some(if (0.97..=1.03).contains(&ratio) {
        format!("as fast as {other}")
    } else if ratio < 1.0 {
        format!("{:.1} times as fast as {other}", 1.0 / ratio)
    } else {
        format!("at {ratio:.2} times the time of {other}")
    })
}

/// Whether the median of the rounds' ratios and the quotient of the median times say the opposite: one of them is faster, and
/// the other slower.
pub fn is_contradiction(ratio: f64, quotient: f64) -> bool {
    (ratio - 1.0) * (quotient - 1.0) < 0.0
}

/// Joins the parts that are not `None` with commas.
pub fn join(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The cell of the target's name.
pub fn target<R: Shown>(row: &R) -> Cell<'static> {
    let target = row.head().target;
    ("target", row.variant().map_or_else(|| target.to_string(), |variant| format!("{target} ({variant})")))
}

/// The cell of the thread count.
pub fn threads(head: &Head) -> Cell<'static> {
    ("threads", with_distance(head.threads, head))
}

/// A number of threads or CPUs, with the distance between the CPUs.
pub fn with_distance(count: usize, head: &Head) -> String {
    head.cpus_distance.map_or_else(|| count.to_string(), |word| format!("{count} ({word})"))
}

/// The cell of the bucket count.
pub fn buckets(head: &Head) -> Cell<'static> {
    ("buckets", head.buckets.map_or_else(dash, |buckets| buckets.to_string()))
}

/// The cells of median, p10, p90. `ns` is the header of the median.
pub fn spread(ns: &'static str, spread: &Spread, digits: usize) -> [Cell<'static>; 3] {
    [(ns, spread.median), ("p10", spread.p10), ("p90", spread.p90)]
        .map(|(header, time)| (header, format!("{time:.digits$}")))
}

/// The cell of a rate, in millions per second.
pub fn mops(rate: f64, digits: usize) -> Cell<'static> {
    ("Mop/s", format!("{:.digits$}", rate / 1e6))
}

/// The cells of the ratios to the rivals.
pub fn ratios(ratios: &Ratios) -> [Cell<'static>; 2] {
    [("/ kernel", table::ratio(ratios.kernel)), ("/ parking_lot", table::ratio(ratios.parking_lot))]
}

/// A cell with its column's header.
pub type Cell<'a> = (&'a str, String);

/// The columns that a narrow table leaves out, in this order. A header without a unit has that of the one before it, and goes
/// first.
pub const SPARE: [&str; 19] = [
    "p10",
    "p90",
    "Mop/s",
    "max",
    "returns",
    "stuck, %",
    "p99.9",
    "table, KiB",
    "bytes/timer",
    "CPU ns",
    "work ns",
    "CPU / parking_lot",
    "CPU ns/op",
    "delete, ns",
    "missed, us",
    "op p99, us",
    "p99",
    "buckets",
    "completed",
];

/// The table of all rows: `cells` returns a row's. The first `words` cells of a row are aligned left.
pub fn table<'a, R>(rows: &[R], words: usize, cells: impl Fn(&R) -> Vec<Cell<'a>>) -> String {
    let header: Vec<_> = rows.first().map(&cells).unwrap_or_default().into_iter().map(|(header, _)| header).collect();
    let cells = rows.iter().map(|row| cells(row).into_iter().map(|(_, cell)| cell).collect());
    table::fitted(&header, words, cells.collect(), &SPARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_reads_as_faster_slower_or_the_same() {
        let says = |ratio| against(Some(ratio), "it");
        assert_eq!(says(0.25).as_deref(), Some("4.0 times as fast as it"));
        assert_eq!(says(2.0).as_deref(), Some("at 2.00 times the time of it"));
        assert_eq!(says(1.01).as_deref(), Some("as fast as it"));
        assert_eq!(against(Some(f64::NAN), "it"), None);
        assert_eq!(against(None, "it"), None);
    }
}
