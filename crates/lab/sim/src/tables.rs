//! The printed tables: throughput by cores, costs of an operation, and the cache lines with the most transfers.

use super::row::{HotField, Row};
use lab_terminal::table;

/// The most fields that are printed for a run. `--json` has the rest.
const FIELDS_MAX: usize = 6;
/// Fields with fewer transfers per operation are left out.
const WORTH_SHOWING: f64 = 0.005;

/// The tables of all rows of a workload.
pub fn text(rows: &[Row]) -> String {
    let mut text = throughput(rows);
    text += &format!("\n\nPer operation:\n{}", costs(rows));
    for row in rows.iter().filter(|row| row.hot.iter().any(is_worth_showing)) {
        text += &format!("\n\nTransferred lines, {}:\n{}", title(row), lines(row));
    }
    text
}

fn title(row: &Row) -> String {
    format!("{} {} on {} cores", row.scheme, row.layout, row.cores)
}

fn throughput(rows: &[Row]) -> String {
    if rows.iter().any(|row| row.resize.is_some()) {
        return resizes(rows);
    }
    let cells = |row: &Row| {
        vec![
            row.scheme.clone(),
            row.layout.clone(),
            row.buckets.to_string(),
            row.cores.to_string(),
            format!("{:.2}", row.ops_per_sec / 1e6),
            row.spread.map_or_else(String::new, |spread| format!("{:.1} %", spread * 100.0)),
            format!("{:.1}", row.ns_per_op),
            format!("{:.2}", row.hitm_per_op),
        ]
    };
    let header = ["scheme", "layout", "buckets", "cores", "Mop/s", "+-", "ns/op", "HITM/op"];
    table::text(&header, 2, rows.iter().map(cells))
}

fn resizes(rows: &[Row]) -> String {
    let header = [
        "scheme",
        "layout",
        "cores",
        "resize, us",
        "completed",
        "op p50, us",
        "p99",
        "max",
        "Mop/s before",
        "during",
        "after",
    ];
    let rate = |rate: f64| format!("{:.2}", rate / 1e6);
    let cells = |row: &Row| {
        let resize = row.resize.as_ref()?;
        Some(vec![
            row.scheme.clone(),
            row.layout.clone(),
            row.cores.to_string(),
            format!("{:.1}", resize.resize_us),
            if resize.completed { "yes" } else { "given up" }.to_string(),
            format!("{:.2}", resize.op_pause_us.p50),
            format!("{:.2}", resize.op_pause_us.p99),
            format!("{:.2}", resize.op_pause_us.max),
            rate(resize.ops_per_sec_before),
            rate(resize.ops_per_sec_during),
            rate(resize.ops_per_sec_after),
        ])
    };
    table::text(&header, 2, rows.iter().filter_map(cells))
}

fn costs(rows: &[Row]) -> String {
    let header = ["scheme", "layout", "buckets", "cores", "loads", "stores", "locked", "near", "far", "memory", "HITM"];
    let cells = |row: &Row| {
        let mut cells = vec![row.scheme.clone(), row.layout.clone(), row.buckets.to_string(), row.cores.to_string()];
        let figures = [
            row.loads_per_op,
            row.stores_per_op,
            row.locked_per_op,
            row.transfers_near_per_op,
            row.transfers_far_per_op,
            row.from_memory_per_op,
            row.hitm_per_op,
        ];
        cells.extend(figures.map(|figure| format!("{figure:.2}")));
        cells
    };
    table::text(&header, 2, rows.iter().map(cells))
}

fn is_worth_showing(hot: &HotField) -> bool {
    hot.transfers >= WORTH_SHOWING
}

/// Prints what perf c2c ([perf-c2c]) reports.
fn lines(row: &Row) -> String {
    let header = ["object", "field", "functions", "offset", "HITM/op", "near", "far", "transfers", "waited, ns"];
    let cells = |hot: &HotField| {
        let mut cells =
            vec![hot.object.to_string(), hot.field.to_string(), functions(hot), format!("{:#x}", hot.offset)];
        let figures = [hot.hitm, hot.hitm_near, hot.hitm_far, hot.transfers];
        cells.extend(figures.map(|figure| format!("{figure:.2}")));
        cells.push(format!("{:.0}", hot.waited_ns));
        cells
    };
    table::text(&header, 3, row.hot.iter().filter(|hot| is_worth_showing(hot)).take(FIELDS_MAX).map(cells))
}

fn functions(hot: &HotField) -> String {
    let shown = hot.functions.iter().filter(|function| function.share >= 0.05).take(3);
    shown
        .map(|function| {
            let place =
                if function.file.is_empty() { String::new() } else { format!(" {}:{}", function.file, function.line) };
            format!("{}{place} ({:.0} %)", function.name, function.share * 100.0)
        })
        .collect::<Vec<_>>()
        .join(", ")
}
