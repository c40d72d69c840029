//! `bench locks`: parking_lot on both versions of its core, and std.

use crate::common::skipped::skip;
use crate::common::{text, ufutex};
use crate::{assert_keys, assert_numbers, of, rows};

/// Whether the programs of `locks` can be built here. That needs parking_lot from its registry.
pub fn has_locks() -> bool {
    let output = ufutex(&["bench", "locks", "-t", "1", "--targets", "live", "-r", "0.01", "--repeat", "1", "--json"]);
    let said = text(&output.stderr);
    let reason = said.lines().find(|line| line.contains("cannot be built here"));
    if let Some(reason) = reason {
        skip(reason);
    }
    reason.is_none()
}

#[test]
fn locks_rows_compare_parking_lot_on_both_cores_and_std() {
    if !has_locks() {
        return;
    }
    let rows = rows(&["locks", "-t", "2", "--writers", "1", "--locks", "3", "-r", "0.05", "--repeat", "1"]);
    let cases = |target| of(&rows, target).iter().map(|row| row["case"].clone()).collect::<Vec<_>>();
    assert_eq!(cases("std"), ["mutex", "rwlock", "many-locks"]);
    for target in ["parking_lot", "live"] {
        assert_eq!(cases(target), ["mutex", "rwlock", "many-locks", "lot"]);
    }
    for row in &rows {
        assert_numbers(row, "ns_per_op", &["p10", "median", "p90"]);
        assert_numbers(row, "cpu_ns_per_op", &["p10", "median", "p90"]);
        assert_keys(row, &["ratio_parking_lot", "ratio_cpu_parking_lot", "work_per_critical_section"]);
    }
    let old = self::rows(&["locks", "-t", "1", "--targets", "live", "--line", "0.12", "-r", "0.01", "--repeat", "1"]);
    assert_eq!(old.len(), 3, "without the reader-writer lock, whose threads have flags of their own");
}
