//! The tables of `timers`.

use super::Row;
use crate::rows::{self, against, join};
use crate::summary::Line;
use lab_terminal::table;

/// A table for each test, and what the test does.
pub fn text(rows: &[Row]) -> String {
    type Say = fn(&[&Row]) -> String;
    let tests: [(&str, Say); 4] = [
        ("create-getoverrun", create_getoverrun),
        ("create-delete", create_delete),
        ("settime", settime),
        ("expire", expire),
    ];
    let mut parts = Vec::new();
    for (test, say) in tests {
        let rows: Vec<_> = rows.iter().filter(|row| row.test == test).collect();
        if !rows.is_empty() {
            parts.push(say(&rows));
        }
    }
    parts.join("\n\n")
}

/// The summary line: creating a timer.
pub fn line(rows: &[Row]) -> Option<Line> {
    let of = |target| rows.iter().find(|row| row.target == target && row.create_ns.is_some());
    let (ours, kernel) = (of("ours")?.create_ns?, of("kernel").and_then(|row| row.create_ns));
    let so = join([against(kernel.map(|kernel| ours / kernel), "the kernel")]);
    Some(Line { what: "timer_create, ns", ours, kernel, parking_lot: None, so })
}

fn create_getoverrun(rows: &[&Row]) -> String {
    let table = rows::table(rows, 1, |row| {
        let timers = row.sparse.map_or_else(|| row.timers.to_string(), |by| format!("{}, IDs {by} apart", row.timers));
        let kib = |bytes: usize| format!("{:.1}", bytes as f64 / 1024.0);
        vec![
            ("target", row.target.to_string()),
            ("timers", timers),
            ("threads", threads(row)),
            ("create, ns", ns(row.create_ns)),
            ("/ radix", table::ratio(row.ratios[0])),
            ("getoverrun, ns", ns(row.getoverrun_ns)),
            ("/ radix", table::ratio(row.ratios[1])),
            ("delete, ns", ns(row.delete_ns)),
            ("bytes/timer", row.bytes_per_timer.map_or_else(table::dash, |bytes| format!("{bytes:.0}"))),
            ("table, KiB", row.table_bytes.map_or_else(table::dash, kib)),
        ]
    });
    let does = "Each thread creates its timers, then asks each for its overruns; when all have, they delete them.";
    format!("{table}\n{does}")
}

fn create_delete(rows: &[&Row]) -> String {
    let table = rows::table(rows, 1, |row| {
        let time = ("create and delete, ns", ns(row.create_delete_ns));
        vec![
            ("target", row.target.to_string()),
            ("loops", row.timers.to_string()),
            ("threads", threads(row)),
            time,
            ("/ radix", table::ratio(row.ratios[2])),
        ]
    });
    let does = "Each thread creates a timer and deletes it, again and again: no other timer is there.";
    format!("{table}\n{does}")
}

fn expire(rows: &[&Row]) -> String {
    let table = rows::table(rows, 1, |row| {
        let late = row.lateness_us.unwrap_or_default();
        vec![
            ("target", row.target.to_string()),
            ("timers", row.timers.to_string()),
            ("late p50, us", ns(late.p50)),
            ("p99, us", ns(late.p99)),
            ("max, us", ns(late.max)),
            ("lost", row.lost.unwrap_or(0).to_string()),
        ]
    });
    let does = "The timers are armed for points in time that are spread over a second; late is when each is delivered.";
    format!("{table}\n{does}")
}

fn settime(rows: &[&Row]) -> String {
    let table = rows::table(rows, 1, |row| {
        vec![
            ("target", row.target.to_string()),
            ("armed timers", row.timers.to_string()),
            ("threads", threads(row)),
            ("settime, ns", ns(row.settime_ns)),
            ("/ kernel", table::ratio(row.ratios[3])),
        ]
    });
    let does = "All timers are armed for days, and each is armed again, in random order.";
    format!("{table}\n{does}")
}

/// Threads of each process, and the number of processes.
fn threads(row: &Row) -> String {
    let count = if row.processes > 1 {
        format!("{} in each of {}", row.threads, row.processes)
    } else {
        row.threads.to_string()
    };
    row.cpus_distance.map_or_else(|| count.clone(), |word| format!("{count} ({word})"))
}

fn ns(time: Option<f64>) -> String {
    time.map_or_else(table::dash, |time| format!("{time:.1}"))
}
