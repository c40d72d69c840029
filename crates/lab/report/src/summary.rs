//! The end of a run of several workloads: one line each, so that the reader finds the result on one screen.

use super::sentence::{against, join};
use lab_bench::timers::Row as TimersRow;
use lab_bench::{Row, Workload};
use lab_terminal::table;

/// What one workload found, in its first row of `live`.
pub struct Line {
    name: &'static str,
    /// What the figures are of, with their unit.
    what: &'static str,
    ours: f64,
    kernel: Option<f64>,
    parking_lot: Option<f64>,
    /// What that means, in words.
    so: String,
}

impl Line {
    /// `None` if `live` was not measured.
    pub fn of(workload: Workload, rows: &[Row]) -> Option<Line> {
        let (mut what, figure) = figure(workload)?;
        let is_plain = |row: &&Row| row.early_return != Some(true);
        let all = |target: &'static str| rows.iter().filter(is_plain).filter(move |row| row.target == target);
        // With the most threads growth and locks show what they are about. Of the others the first row is the plainest.
        let is_of_many = matches!(workload, Workload::Growth | Workload::LockPi);
        let ours = if is_of_many { all("live").next_back() } else { all("live").next() }?;
        if ours.nwakes.is_some() {
            what = "a sleeper woken, ns";
        }
        let of = |target| all(target).find(|row| is_same_case(row, ours)).and_then(figure);
        let ratios = [
            against(ours.ratio_kernel, "the kernel"),
            against(ours.ratio_parking_lot, "parking_lot"),
            against(ours.ratio_wasmtime, "wasmtime"),
        ];
        Some(Line {
            name: workload.into(),
            what,
            ours: figure(ours)?,
            kernel: of("kernel"),
            parking_lot: of("parking_lot"),
            so: join(ratios),
        })
    }

    /// The same of `timers`, whose rows are of another kind: creating a timer.
    pub fn of_timers(rows: &[TimersRow]) -> Option<Line> {
        let of = |target| rows.iter().find(|row| row.target == target && row.create_ns.is_some());
        let (ours, kernel) = (of("ours")?.create_ns?, of("kernel").and_then(|row| row.create_ns));
        let so = join([against(kernel.map(|kernel| ours / kernel), "the kernel")]);
        Some(Line { name: Workload::Timers.into(), what: "timer_create, ns", ours, kernel, parking_lot: None, so })
    }
}

type Figure = fn(&Row) -> Option<f64>;

/// What stands for a workload.
fn figure(workload: Workload) -> Option<(&'static str, Figure)> {
    let ns_per_op: Figure = |row| row.ns_per_op.map(|spread| spread.median);
    Some(match workload {
        Workload::Hash => ("a wait on another value, ns", ns_per_op),
        Workload::Wake => ("a wake of nobody, ns", ns_per_op),
        Workload::Resize => ("a new table size, us", |row| row.resize_us),
        Workload::Growth => ("the slowest first wait, us", |row| row.first_wait_us.map(|tail| tail.max)),
        Workload::PingPong => ("one way, ns", ns_per_op),
        Workload::Requeue => ("a waiter requeued, ns", ns_per_op),
        Workload::WakeParallel => ("a waiter woken, ns", ns_per_op),
        Workload::LockPi => ("a PI lock of all threads, ns", ns_per_op),
        Workload::Crowd => ("a wake in a crowd, ns", ns_per_op),
        Workload::Wasm => ("memory.atomic.wait32, ns", ns_per_op),
        Workload::Locks => ("lock and unlock, ns", ns_per_op),
        Workload::Timers => return None,
    })
}

fn is_same_case(one: &Row, other: &Row) -> bool {
    let threads = |row: &Row| (row.threads, row.cpus, row.writers, row.readers, row.nwakers);
    let case = |row: &Row| (threads(row), row.case, row.operation, row.nrequeue, row.pi, row.nwakes, row.multi);
    case(one) == case(other)
}

/// The table of all workloads.
pub fn text(lines: &[Line]) -> String {
    let mut all = table::new(&["workload", "what", "live", "kernel", "parking_lot", "live is"]);
    let number = |figure: f64| if figure < 100.0 { format!("{figure:.1}") } else { format!("{figure:.0}") };
    for line in lines {
        let rivals = [line.kernel, line.parking_lot].map(|rival| rival.map_or_else(table::dash, number));
        let mut cells = vec![line.name.to_string(), line.what.to_string(), number(line.ours)];
        cells.extend(rivals);
        let mut cells = table::align(cells, 2);
        cells.push(line.so.clone().into());
        all.add_row(cells);
    }
    table::finish(all)
}
