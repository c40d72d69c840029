//! The two tables of `hash --sweep`, in the layout of [private-hash]: operations per second of one thread.

use lab_bench::sweep::Row;
use lab_bench::{Head, Lab};
use lab_terminal::table;

/// The tables of all targets, one target after another.
pub fn text(_: &Lab<'_>, rows: &[Row]) -> String {
    let mut targets: Vec<&str> = rows.iter().map(|row| row.head.target).collect();
    targets.dedup();
    let of = |target: &&str| tables(target, &rows.iter().filter(|row| row.head.target == *target).collect::<Vec<_>>());
    targets.iter().map(of).collect::<String>()
}

fn tables(target: &str, rows: &[&Row]) -> String {
    let (several, one): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.processes.is_some());
    let mut text = format!("\n### {target}: operations a second and thread, one process\n{}\n", grid(&one, "threads"));
    if let Some(Row { processes: Some(processes), head: Head { threads, futexes, .. }, .. }) = several.first() {
        text += &format!(
            "\n### {target}: {processes} processes, each with {threads} threads of {futexes} futexes on CPUs of its own\n{}\n",
            grid(&several, "threads each")
        );
        text += &sentence(target, &several);
    }
    text
}

/// A line for each number of threads, a column for each size. The second table has a line of ratios to the global
/// table.
fn grid(rows: &[&Row], first: &str) -> String {
    let slots = distinct(rows.iter().map(|row| row.slots));
    let global = rows.iter().find(|row| row.slots == 0).and_then(|row| row.head.buckets);
    let name = |slots: &usize| match (slots, global) {
        (0, Some(buckets)) => format!("G {buckets}"),
        (0, None) => "G".to_string(),
        (slots, _) => format!("P {slots}"),
    };
    let header: Vec<String> = [first.to_string()].into_iter().chain(slots.iter().map(name)).collect();
    let mut grid = table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for threads in distinct(rows.iter().map(|row| row.head.threads)) {
        let cell = |slots: &usize| {
            let row = rows.iter().find(|row| row.head.threads == threads && row.slots == *slots);
            row.map(|row| rate(row)).map_or_else(table::dash, |rate| format!("{rate:.0}"))
        };
        let cells = [threads.to_string()].into_iter().chain(slots.iter().map(cell)).collect();
        grid.add_row(table::align(cells, 0));
    }
    table::finish(grid)
}

/// Operations per second of one thread.
fn rate(row: &Row) -> f64 {
    1e9 / row.ns_per_op.median
}

fn sentence(target: &str, rows: &[&Row]) -> String {
    let global = rows.iter().find(|row| row.slots == 0).map(|row| rate(row));
    let best = rows.iter().filter(|row| row.slots != 0).map(|row| (rate(row), row.slots));
    match (global, best.max_by(|a, b| a.0.total_cmp(&b.0))) {
        (Some(global), Some((rate, slots))) => {
            format!(
                "A table of {slots} buckets for each process makes {:.2} of the global one's rate on {target}.\n",
                rate / global
            )
        }
        _ => String::new(),
    }
}

fn distinct(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_bench::Settings;
    use lab_measure::stats::Spread;
    use lab_targets::Name;

    #[test]
    fn each_cell_has_the_rate_of_one_thread_with_its_threads_and_slots() {
        let settings = Settings::default();
        let lab = Lab::new(&settings);
        let row = |threads: usize, slots: usize, ns: f64| Row {
            head: Head {
                buckets: Some(if slots == 0 { 1024 } else { slots }),
                ..Head::new(&lab, "hash", Name::Live, threads)
            },
            section: "sweep",
            slots,
            processes: None,
            early_return: false,
            stride: 4,
            ns_per_op: Spread::of(&[ns]),
            ops_per_sec: threads as f64 * 1e9 / ns,
            ratio_kernel: None,
        };
        let mut rows = vec![row(1, 0, 10.0), row(1, 4, 20.0), row(2, 0, 40.0), row(2, 4, 50.0)];
        rows.extend(
            [(0, 100.0), (4, 50.0), (8, 80.0)].map(|(slots, ns)| Row { processes: Some(3), ..row(2, slots, ns) }),
        );
        let text = tables("live", &rows.iter().collect::<Vec<_>>());
        let cells =
            |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with('|')).map(cells).collect();
        assert_eq!(lines[0], ["threads", "G 1024", "P 4"], "{text}");
        assert_eq!(lines[2], ["1", "100000000", "50000000"], "{text}");
        assert_eq!(lines[3], ["2", "25000000", "20000000"], "{text}");
        assert_eq!(lines[4], ["threads each", "G 1024", "P 4", "P 8"], "{text}");
        assert_eq!(lines[6], ["2", "10000000", "20000000", "12500000"], "{text}");
        assert!(text.contains("live: 3 processes, each with 2 threads of"), "{text}");
        assert!(
            text.contains("A table of 4 buckets for each process makes 2.00 of the global one's rate on live."),
            "{text}"
        );
    }
}
