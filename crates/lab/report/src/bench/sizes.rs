//! The second part of `hash`: `live` at each size and under its load policy.

use crate::rows;
use lab_bench::Lab;
use lab_bench::sizes::Row;
use lab_terminal::table;

/// The table, and the sentence below it.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let header = ["live with -b", "threads", "buckets", "ns/op", "p10", "p90", "Mop/s", "of the best -b"];
    let mut table = table::new(&header);
    for row in rows {
        let mut cells = vec![policy(row).to_string(), rows::threads(&row.head), rows::buckets(&row.head)];
        cells.extend(rows::spread(&row.ns_per_op, 1));
        cells.push(rows::mops(row.ops_per_sec, 1));
        cells.push(table::ratio(row.share_of_best));
        table.add_row(table::align(cells, 1));
    }
    format!("{}\n{}", table::finish(table), sentence(rows))
}

fn policy(row: &Row) -> &str {
    row.head.policy.as_deref().unwrap_or_default()
}

fn sentence(rows: &[Row]) -> String {
    let Some(load) = rows.iter().find(|row| policy(row) == "load") else { return String::new() };
    let sizes = rows.iter().filter(|row| policy(row) != "load");
    let best = sizes.max_by(|a, b| a.ops_per_sec.total_cmp(&b.ops_per_sec));
    format!(
        "From nothing the load policy came to {} buckets and does {:.1} % of the throughput of the best explicit size, -b {}.",
        load.head.buckets.unwrap_or(0),
        100.0 * load.share_of_best.unwrap_or(f64::NAN),
        best.map_or("", policy)
    )
}
