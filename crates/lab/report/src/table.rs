//! The comparison tables, in Markdown's form: they can be pasted into a page as they are.

use super::figures::{Bound, Figure};
use comfy_table::{Attribute, Cell, CellAlignment, Color};
use lab_bench::Row;
use lab_bench::{GIVE_UP, Lab, Workload};
use lab_measure::stats::Tail;
use lab_terminal::table::{align, dash, finish, new, ratio};

/// One workload's rows.
pub fn workload(lab: &Lab<'_>, workload: Workload, rows: &[Row]) -> String {
    match workload {
        Workload::Wake if lab.settings.nwakers.is_some() => wake_many(rows),
        Workload::Hash | Workload::Wake => hammered(rows),
        Workload::Resize => resize(lab, rows),
        Workload::Growth => growth(rows),
        Workload::PingPong => ping_pong(rows),
        Workload::Requeue => requeue(rows),
        Workload::WakeParallel => wake_parallel(rows),
        Workload::LockPi => lock_pi(rows),
        Workload::Crowd => crowd(rows),
        Workload::Wasm => wasm(rows),
        Workload::Locks => locks(rows),
        // See `timers.rs`.
        Workload::Timers => String::new(),
    }
}

fn hammered(rows: &[Row]) -> String {
    let mut table = new(&["target", "threads", "buckets", "ns/op", "p10", "p90", "Mop/s", "/ kernel", "/ parking_lot"]);
    for row in rows {
        let mut cells = vec![target(row), threads(row), buckets(row)];
        cells.extend(spread(row, 1));
        cells.push(row.ops_per_sec.map_or_else(dash, |rate| format!("{:.1}", rate / 1e6)));
        cells.extend([ratio(row.ratio_kernel), ratio(row.ratio_parking_lot)]);
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn ping_pong(rows: &[Row]) -> String {
    let mut table = new(&["target", "CPUs", "buckets", "ns one way", "p10", "p90", "/ kernel", "/ parking_lot"]);
    for row in rows {
        let cpus = row.cpus.unwrap_or(1);
        let mut cells = vec![row.target.to_string(), with_distance(cpus, row), buckets(row)];
        cells.extend(spread(row, 0));
        cells.extend([ratio(row.ratio_kernel), ratio(row.ratio_parking_lot)]);
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn resize(lab: &Lab<'_>, rows: &[Row]) -> String {
    let (from, to) = lab.settings.resize;
    let resize = format!("{from} to {to}, us");
    let mut table = new(&["target", "threads", &resize, "completed", "op p50, us", "p99", "max", "/ kernel"]);
    for row in rows {
        let time = row.resize_us.unwrap_or(f64::NAN);
        let given_up = time >= GIVE_UP.as_micros() as f64 && row.completed == Some(false);
        let mut cells = vec![
            row.target.to_string(),
            threads(row),
            if given_up { format!("> {:.0}", GIVE_UP.as_micros()) } else { format!("{time:.0}") },
            completed(row),
        ];
        cells.extend(tail(row.op_pause_us));
        cells.push(if given_up { dash() } else { ratio(row.ratio_kernel) });
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn completed(row: &Row) -> String {
    match (row.completed, row.completed_share) {
        (Some(true), _) => "yes".to_string(),
        (_, Some(share)) if share > 0.0 => format!("{:.0} % of {}", 100.0 * share, row.repeat),
        _ => "no".to_string(),
    }
}

fn growth(rows: &[Row]) -> String {
    let mut table = new(&["target", "threads", "buckets", "first wait p50, us", "p99", "max", "max / parking_lot"]);
    for row in rows {
        let mut cells = vec![row.target.to_string(), row.threads.to_string(), buckets(row)];
        cells.extend(tail(row.first_wait_us));
        cells.push(ratio(row.ratio_parking_lot));
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn requeue(rows: &[Row]) -> String {
    let header = ["target", "threads", "at once", "buckets", "ns/waiter", "p10", "p90", "/ kernel", "/ parking_lot"];
    let mut table = new(&header);
    for row in rows {
        let target = if row.pi == Some(true) { format!("{} (pi)", row.target) } else { row.target.to_string() };
        let at_once = row.nrequeue.map_or_else(dash, |count| count.to_string());
        let mut cells = vec![target, row.threads.to_string(), at_once, buckets(row)];
        cells.extend(spread(row, 1));
        cells.extend([ratio(row.ratio_kernel), ratio(row.ratio_parking_lot)]);
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn wake_parallel(rows: &[Row]) -> String {
    let header = ["target", "threads", "wakers", "buckets", "ns/wake", "p10", "p90", "/ kernel", "/ parking_lot"];
    let mut table = new(&header);
    for row in rows {
        let nwakers = row.nwakers.map_or_else(dash, |count| count.to_string());
        let mut cells = vec![row.target.to_string(), row.threads.to_string(), nwakers, buckets(row)];
        cells.extend(spread(row, 0));
        cells.extend([ratio(row.ratio_kernel), ratio(row.ratio_parking_lot)]);
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn wake_many(rows: &[Row]) -> String {
    let header = ["target", "threads", "at once", "buckets", "ns/wake", "p10", "p90", "/ kernel", "/ parking_lot"];
    let mut table = new(&header);
    for row in rows {
        let nwakes = row.nwakes.map_or_else(dash, |count| count.to_string());
        let mut cells = vec![row.target.to_string(), row.threads.to_string(), nwakes, buckets(row)];
        cells.extend(spread(row, 0));
        cells.extend([ratio(row.ratio_kernel), ratio(row.ratio_parking_lot)]);
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn lock_pi(rows: &[Row]) -> String {
    let header = ["target", "threads", "locks", "buckets", "ns/lock+unlock", "p10", "p90", "Mop/s", "/ kernel"];
    let mut table = new(&header);
    for row in rows {
        let mut cells = vec![row.target.to_string(), threads(row), row.futexes.to_string(), buckets(row)];
        cells.extend(spread(row, 1));
        cells.push(row.ops_per_sec.map_or_else(dash, |rate| format!("{:.2}", rate / 1e6)));
        cells.push(ratio(row.ratio_kernel));
        table.add_row(align(cells, 1));
    }
    finish(table)
}

fn crowd(rows: &[Row]) -> String {
    let header = ["target", "case", "kind", "waiters", "buckets", "ns/wake", "p10", "p90", "/ fewest"];
    let mut table = new(&header);
    for row in rows {
        let waiters = match (row.waiters, row.domains) {
            (Some(waiters), Some(domains)) if domains > 1 => format!("{domains} x {waiters}"),
            (waiters, _) => waiters.map_or_else(dash, |waiters| waiters.to_string()),
        };
        let (case, kind) = (row.case.unwrap_or_default(), row.waiter_kind.unwrap_or_default());
        let mut cells = vec![row.target.to_string(), case.to_string(), kind.to_string(), waiters, buckets(row)];
        cells.extend(spread(row, 1));
        cells.push(ratio(row.ratio_fewest));
        table.add_row(align(cells, 3));
    }
    finish(table)
}

fn wasm(rows: &[Row]) -> String {
    let header = ["target", "operation", "words", "threads", "buckets", "ns/op", "p10", "p90", "Mop/s", "/ wasmtime"];
    let mut table = new(&header);
    for row in rows {
        let words = if row.case == Some("one") { "one".to_string() } else { format!("{} each", row.futexes) };
        let operation = row.operation.unwrap_or_default().to_string();
        let mut cells = vec![target(row), operation, words, threads(row), buckets(row)];
        cells.extend(spread(row, 1));
        cells.push(row.ops_per_sec.map_or_else(dash, |rate| format!("{:.1}", rate / 1e6)));
        cells.push(ratio(row.ratio_wasmtime));
        table.add_row(align(cells, 2));
    }
    finish(table)
}

fn locks(rows: &[Row]) -> String {
    let header =
        ["target", "case", "threads", "locks", "ns/op", "p10", "p90", "/ parking_lot", "CPU ns/op", "/ parking_lot"];
    let mut table = new(&header);
    for row in rows {
        let target = if row.target == "live" { "parking_lot on ufutex" } else { row.target };
        let threads = match (row.writers, row.readers) {
            (Some(writers), Some(readers)) => format!("{writers}w {readers}r"),
            _ => row.threads.to_string(),
        };
        let case = row.case.unwrap_or_default();
        let mut cells = vec![target.to_string(), case.to_string(), threads, row.futexes.to_string()];
        cells.extend(spread(row, 0));
        cells.push(ratio(row.ratio_parking_lot));
        cells.push(row.cpu_ns_per_op.map_or_else(dash, |spread| format!("{:.0}", spread.median)));
        cells.push(ratio(row.ratio_cpu_parking_lot));
        table.add_row(align(cells, 2));
    }
    finish(table)
}

/// `live` at each size and under its load policy.
pub fn sizes(rows: &[Row]) -> String {
    let mut table = new(&["live with -b", "threads", "buckets", "ns/op", "p10", "p90", "Mop/s", "of the best -b"]);
    for row in rows {
        let policy = row.policy.clone().unwrap_or_default();
        let mut cells = vec![policy, threads(row), buckets(row)];
        cells.extend(spread(row, 1));
        cells.push(row.ops_per_sec.map_or_else(dash, |rate| format!("{:.1}", rate / 1e6)));
        cells.push(ratio(row.share_of_best));
        table.add_row(align(cells, 1));
    }
    finish(table)
}

/// The last table.
pub fn figures(figures: &[Figure]) -> String {
    let mut table = new(&["figure", "measured", "bound", "met"]);
    for figure in figures {
        let bound = match figure.bound {
            Bound::AtMost(bound) => format!("at most {bound} {}", figure.unit),
            Bound::AtLeast(bound) => format!("at least {bound} {}", figure.unit),
        };
        let measured = figure.measured.map_or_else(dash, |measured| number(measured, figure.unit));
        let verdict = match figure.met() {
            Some(true) => Cell::new("yes").fg(Color::Green),
            Some(false) => Cell::new("NO").fg(Color::Red).add_attribute(Attribute::Bold),
            None => Cell::new("not measured"),
        };
        let measured = Cell::new(measured).set_alignment(CellAlignment::Right);
        table.add_row(vec![Cell::new(figure.name), measured, Cell::new(bound.trim_end()), verdict]);
    }
    finish(table)
}

fn number(value: f64, unit: &str) -> String {
    let digits = if unit == "bytes" || unit == "us" { 0 } else { 2 };
    format!("{value:.digits$} {unit}").trim_end().to_string()
}

/// What the row is called.
fn target(row: &Row) -> String {
    if row.early_return == Some(true) { format!("{} (early return)", row.target) } else { row.target.to_string() }
}

fn threads(row: &Row) -> String {
    with_distance(row.threads, row)
}

fn with_distance(count: usize, row: &Row) -> String {
    row.cpus_distance.map_or_else(|| count.to_string(), |word| format!("{count} ({word})"))
}

fn buckets(row: &Row) -> String {
    row.buckets.map_or_else(dash, |buckets| buckets.to_string())
}

/// Median, p10, p90.
fn spread(row: &Row, digits: usize) -> [String; 3] {
    row.ns_per_op.map_or_else(
        || [dash(), dash(), dash()],
        |spread| [spread.median, spread.p10, spread.p90].map(|time| format!("{time:.digits$}")),
    )
}

fn tail(tail: Option<Tail>) -> [String; 3] {
    tail.map_or_else(
        || [dash(), dash(), dash()],
        |tail| [tail.p50, tail.p99, tail.max].map(|time| format!("{time:.2}")),
    )
}
