//! The sentence below a table, computed from its rows: what the reader sees.

use super::figures::Figure;
use lab_bench::Row;
use lab_bench::{GIVE_UP, Lab, Workload};

/// For one workload.
pub fn workload(lab: &Lab<'_>, workload: Workload, rows: &[Row]) -> String {
    match workload {
        Workload::Hash => hammered(lab, rows, "A wait on a word that differs"),
        Workload::Wake if lab.settings.nwakers.is_some() => wake_many(rows),
        Workload::Wake => hammered(lab, rows, "A wake where nobody waits"),
        Workload::Resize => resize(rows),
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

fn find<'a>(rows: &'a [Row], target: &str, pick: impl Fn(&Row) -> bool) -> Option<&'a Row> {
    rows.iter().find(|row| row.target == target && row.early_return != Some(true) && pick(row))
}

/// "3.1 times as fast as" the other, or "at 1.2 times the time of" it, from this time over that time.
pub(super) fn against(ratio: Option<f64>, other: &str) -> Option<String> {
    let ratio = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
    Some(if (0.97..=1.03).contains(&ratio) {
        format!("as fast as {other}")
    } else if ratio < 1.0 {
        format!("{:.1} times as fast as {other}", 1.0 / ratio)
    } else {
        format!("at {ratio:.2} times the time of {other}")
    })
}

pub(super) fn join(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The row that the sentence is about: `live`, or the first of the table.
fn hero(rows: &[Row], pick: impl Fn(&Row) -> bool + Copy) -> Option<&Row> {
    find(rows, "live", pick).or_else(|| rows.iter().find(|row| pick(row)))
}

fn hammered(lab: &Lab<'_>, rows: &[Row], what: &str) -> String {
    let (Some(least), Some(most)) =
        (rows.iter().map(|row| row.threads).min(), rows.iter().map(|row| row.threads).max())
    else {
        return String::new();
    };
    let Some(one) = hero(rows, |row| row.threads == least) else {
        return String::new();
    };
    let time = one.ns_per_op.map_or(f64::NAN, |spread| spread.median);
    let others = join([
        against(one.ratio_kernel.filter(|_| one.target != "kernel"), "the kernel"),
        against(one.ratio_parking_lot.filter(|_| one.target != "parking_lot"), "parking_lot"),
    ]);
    let threads = if least == 1 { "1 thread".to_string() } else { format!("{least} threads") };
    let mut text = format!("{what} takes {time:.1} ns on {} with {threads}", one.target);
    if !others.is_empty() {
        text += &format!(", {others}");
    }
    if most > least {
        let scaling = |target: &str| {
            let key = |threads| (one.workload, target, threads);
            lab.series.ratio(key(most), key(least)).map(|ratio| format!("{ratio:.2} on {target}"))
        };
        let targets = ["live", "atomic", "kernel", "parking_lot"];
        let scaling = join(targets.map(scaling));
        if !scaling.is_empty() {
            text += &format!("; {most} threads multiply an operation's time by {scaling}");
        }
    }
    text + "."
}

fn resize(rows: &[Row]) -> String {
    let say = |row: &Row| {
        let time = row.resize_us.unwrap_or(f64::NAN);
        match row.completed {
            Some(true) => format!("{} in {time:.0} us", row.target),
            _ => format!(
                "{} in {:.0} % of the tries within {} ms",
                row.target,
                100.0 * row.completed_share.unwrap_or(0.0),
                GIVE_UP.as_millis()
            ),
        }
    };
    let mut threads: Vec<_> = rows.iter().map(|row| row.threads).collect();
    threads.dedup();
    let sentence = threads.iter().map(|threads| {
        let these = rows.iter().filter(|row| row.threads == *threads).map(|row| Some(say(row)));
        format!("under {threads} hammering threads the resize completes: {}", join(these))
    });
    capital(&(sentence.collect::<Vec<_>>().join("; ") + "."))
}

fn growth(rows: &[Row]) -> String {
    let Some(most) = rows.iter().map(|row| row.threads).max() else {
        return String::new();
    };
    let worst = |target| {
        find(rows, target, |row| row.threads == most)
            .and_then(|row| row.first_wait_us)
            .map(|tail| format!("{target} {:.1} us", tail.max))
    };
    let targets = ["live", "fixed", "atomic", "percpu", "global", "parking_lot"];
    format!("The slowest of {most} threads' first waits takes {}.", join(targets.map(worst)))
}

fn ping_pong(rows: &[Row]) -> String {
    let say = |cpus: usize| {
        let row = hero(rows, |row| row.cpus == Some(cpus))?;
        let time = row.ns_per_op?.median;
        let others = join([
            against(row.ratio_kernel.filter(|_| row.target != "kernel"), "the kernel"),
            against(row.ratio_parking_lot.filter(|_| row.target != "parking_lot"), "parking_lot"),
        ]);
        let others = if others.is_empty() { others } else { format!(" ({others})") };
        Some(format!(
            "{} wakes a sleeping thread in {time:.0} ns on {cpus} CPU{}{others}",
            row.target,
            if cpus == 1 { "" } else { "s" }
        ))
    };
    capital(&(join([say(1), say(2)]) + "."))
}

/// "X takes 12 ns (3.1 times as fast as the kernel)", for a row.
fn takes(row: &Row, what: &str) -> Option<String> {
    let time = row.ns_per_op?.median;
    let others = join([
        against(row.ratio_kernel.filter(|_| row.target != "kernel"), "the kernel"),
        against(row.ratio_parking_lot.filter(|_| row.target != "parking_lot"), "parking_lot"),
    ]);
    let others = if others.is_empty() { others } else { format!(" ({others})") };
    Some(format!("{what} takes {time:.0} ns{others}"))
}

/// One part for each different value that `of` has in the rows, about its hero.
fn each<T: PartialEq>(rows: &[Row], of: impl Fn(&Row) -> T, say: impl Fn(&Row) -> Option<String>) -> String {
    let mut values: Vec<T> = Vec::new();
    for row in rows {
        let value = of(row);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let parts = values.iter().map(|value| hero(rows, |row| of(row) == *value).and_then(&say));
    let parts: Vec<_> = parts.flatten().collect();
    if parts.is_empty() { String::new() } else { capital(&(parts.join("; ") + ".")) }
}

fn requeue(rows: &[Row]) -> String {
    each(
        rows,
        |row| (row.threads, row.nrequeue),
        |row| {
            let (count, of) = (row.nrequeue?, row.threads);
            takes(row, &format!("{}: a waiter of {of} that are moved {count} at a time", row.target))
        },
    )
}

fn wake_parallel(rows: &[Row]) -> String {
    each(
        rows,
        |row| row.threads,
        |row| takes(row, &format!("{}: each wake by {} threads of {} sleepers", row.target, row.nwakers?, row.threads)),
    )
}

fn wake_many(rows: &[Row]) -> String {
    each(
        rows,
        |row| row.threads,
        |row| takes(row, &format!("{}: each wake of {} sleepers with {} a call", row.target, row.threads, row.nwakes?)),
    )
}

fn lock_pi(rows: &[Row]) -> String {
    each(
        rows,
        |row| row.threads,
        |row| {
            let locks = if row.futexes == 1 { "one lock".to_string() } else { format!("{} locks", row.futexes) };
            takes(row, &format!("{}: lock and unlock by {} on {locks}", row.target, count(row.threads, "thread")))
        },
    )
}

fn locks(rows: &[Row]) -> String {
    let ours = || rows.iter().filter(|row| row.target == "live" && row.ratio_parking_lot.is_some());
    let ratio = |row: &&Row| row.ratio_parking_lot.unwrap_or(f64::NAN);
    let worst = ours().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let best = ours().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (Some(worst), Some(best)) = (worst, best) else { return String::new() };
    let say = |row: &Row| {
        let (case, threads) = (row.case.unwrap_or_default(), count(row.threads, "thread"));
        format!("{:.2} of that on its own core with {threads} ({case})", row.ratio_parking_lot.unwrap_or(f64::NAN))
    };
    format!("parking_lot's time on ufutex is {} at best, {} at worst.", say(best), say(worst))
}

pub(super) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn crowd(rows: &[Row]) -> String {
    let Some(target) = hero(rows, |row| row.case.is_some()).map(|row| row.target) else {
        return String::new();
    };
    let say = |case: &str, (name, kind): (&str, &str)| {
        let these = rows.iter().filter(|row| (row.target, row.case) == (target, Some(case)));
        let most = these.filter(|row| row.waiter_kind == Some(name)).max_by_key(|row| row.waiters)?;
        let (waiters, ratio, time) = (most.waiters?, most.ratio_fewest?, most.ns_per_op?.median);
        Some(format!("{time:.0} ns with {waiters} {case} {kind}s, {ratio:.2} times that with the fewest"))
    };
    let kinds = [("future", "future"), ("custom", "custom waiter")];
    let cases = ["distinct", "same-bucket"].into_iter();
    let parts: Vec<_> = cases.flat_map(|case| kinds.map(|kind| say(case, kind))).flatten().collect();
    format!("A wake of one waiter on {target} takes {}.", parts.join("; "))
}

fn wasm(rows: &[Row]) -> String {
    let words: Vec<_> = rows.iter().filter(|row| row.case == Some("words")).cloned().collect();
    let say = |row: &Row| {
        let time = row.ns_per_op?.median;
        let rival = against(row.ratio_wasmtime.filter(|_| row.target != "wasmtime"), "wasmtime");
        let rival = rival.map_or_else(String::new, |rival| format!(" ({rival})"));
        let (operation, threads) = (row.operation?, count(row.threads, "thread"));
        Some(format!("{}: a {operation} takes {time:.1} ns with {threads}{rival}", row.target))
    };
    each(&words, |row| (row.operation, row.threads), say)
}

/// For the size policy's section.
pub fn sizes(rows: &[Row]) -> String {
    let Some(load) = rows.iter().find(|row| row.policy.as_deref() == Some("load")) else {
        return String::new();
    };
    let best = rows.iter().filter(|row| row.policy.as_deref() != Some("load"));
    let rate = |row: &Row| row.ops_per_sec.unwrap_or(0.0);
    let best = best.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    format!(
        "From nothing the load policy came to {} buckets and does {:.1} % of the throughput of the best explicit size, -b {}.",
        load.buckets.unwrap_or(0),
        100.0 * load.share_of_best.unwrap_or(f64::NAN),
        best.and_then(|row| row.policy.clone()).unwrap_or_default()
    )
}

/// For the figures.
pub fn figures(figures: &[Figure]) -> String {
    let count = |verdict| figures.iter().filter(|figure| figure.met() == verdict).count();
    let missed: Vec<_> =
        figures.iter().filter(|figure| figure.met() == Some(false)).map(|figure| figure.name).collect();
    let missed = if missed.is_empty() { String::new() } else { format!(": {}", missed.join("; ")) };
    let unknown = count(None);
    let unknown = if unknown == 0 { String::new() } else { format!("; {unknown} not measured") };
    format!(
        "{} of {} figures are met, {} missed{missed}{unknown}.",
        count(Some(true)),
        figures.len(),
        count(Some(false))
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
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
