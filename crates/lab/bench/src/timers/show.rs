//! The tables and sentences of `timers`.

use super::Row;
use crate::rows::{self, against, count, is_contradiction, join};
use crate::summary::Line;
use lab_terminal::table;

/// A table and a sentence for each test.
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
    let found = |row: &Row| {
        let parts = [
            ("creates a timer", (|row| row.create_ns) as Time, row.ratios[0]),
            ("finds it", |row| row.getoverrun_ns, row.ratios[1]),
        ];
        join(parts.into_iter().map(|(does, time, ratio)| {
            time(row).map(|ns| format!("{does} in {ns:.0} ns{}", than(rows, row, ratio, time, RADIX)))
        }))
    };
    format!("{table}\n{does}{}", sentence(rows, found))
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
    let found = |row: &Row| {
        let time = row.create_delete_ns.unwrap_or(f64::NAN);
        format!("takes {time:.0} ns for both{}", than(rows, row, row.ratios[2], |row| row.create_delete_ns, RADIX))
    };
    format!("{table}\n{does}{}", sentence(rows, found))
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
    let found = |row: &Row| {
        let time = row.settime_ns.unwrap_or(f64::NAN);
        format!("arms a timer in {time:.0} ns{}", than(rows, row, row.ratios[3], |row| row.settime_ns, KERNEL))
    };
    format!("{table}\n{does}{}", sentence(rows, found))
}

/// The sentence about the engine's row of each case, or the first row if the engine has none.
fn sentence(rows: &[&Row], found: impl Fn(&Row) -> String) -> String {
    let main_row = if rows.iter().any(|row| row.target == "ours") { "ours" } else { rows[0].target };
    let these = rows.iter().filter(|row| row.target == main_row && row.sparse.is_none());
    let of = |row: &Row| {
        let mut who = format!("{} with {}", row.timers, count(row.threads, "thread"));
        if row.processes > 1 {
            who += &format!(" in each of {} processes", row.processes);
        }
        format!("{who}: {main_row} {}", found(row))
    };
    let parts: Vec<_> = these.map(|row| of(row)).collect();
    if parts.is_empty() { String::new() } else { format!(" {}.", parts.join("; ")) }
}

/// One of the times of a row: the median of the rounds.
type Time = fn(&Row) -> Option<f64>;
/// The target and the name in sentences of what is compared with.
type Rival = (&'static str, &'static str);
const RADIX: Rival = ("radix", "the radix tree");
const KERNEL: Rival = ("kernel", "the kernel");

/// The comparison of `row` with a rival, whose row is among `rows`. `ratio` is the median of the rounds' ratios.
fn than(rows: &[&Row], row: &Row, ratio: Option<f64>, time: Time, (target, name): Rival) -> String {
    if row.target == target {
        return String::new();
    }
    let case = |row: &Row| (row.timers, row.threads, row.processes, row.sparse);
    let rival = rows.iter().find(|one| one.target == target && case(one) == case(row));
    let quotient = rival.and_then(|rival| Some(time(row)? / time(rival)?));
    let text = match (ratio, quotient) {
        (Some(ratio), Some(quotient)) if is_contradiction(ratio, quotient) => Some(format!(
            "no clear difference from {name}: the median of the rounds' ratios is {ratio:.2}, the ratio of the median times {quotient:.2}"
        )),
        _ => against(ratio, name),
    };
    text.map_or_else(String::new, |text| format!(" ({text})"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &'static str, ns: f64, ratio: Option<f64>) -> Row {
        Row {
            workload: "timers",
            test: "settime",
            target,
            timers: 1000,
            threads: 1,
            processes: 1,
            sparse: None,
            create_ns: None,
            getoverrun_ns: None,
            delete_ns: None,
            settime_ns: Some(ns),
            create_delete_ns: None,
            bytes_per_timer: None,
            table_bytes: None,
            lateness_us: None,
            lost: None,
            repeat: 5,
            cpus_apart_ns: None,
            cpus_distance: None,
            ratios: [None, None, None, ratio],
        }
    }

    #[test]
    fn a_ratio_that_contradicts_the_times_of_its_table_distinguishes_nothing() {
        let said = |ours, ratio| {
            let (ours, kernel) = (row("ours", ours, Some(ratio)), row("kernel", 100.0, None));
            than(&[&kernel, &ours], &ours, ours.ratios[3], |row| row.settime_ns, KERNEL)
        };
        assert_eq!(said(50.0, 0.5), " (2.0 times as fast as the kernel)");
        assert_eq!(said(120.0, 1.2), " (at 1.20 times the time of the kernel)");
        let both = " (no clear difference from the kernel: the median of the rounds' ratios is";
        assert_eq!(said(110.0, 0.9), format!("{both} 0.90, the ratio of the median times 1.10)"));
        assert_eq!(said(80.0, 1.25), format!("{both} 1.25, the ratio of the median times 0.80)"));
        let kernel = row("kernel", 100.0, Some(1.0));
        assert_eq!(than(&[&kernel], &kernel, Some(1.0), |row| row.settime_ns, KERNEL), "");
    }
}
