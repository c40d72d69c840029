//! The section about POSIX timers: create, look up, delete; bytes.

use super::count;
use crate::page::document::{Bars, Block, Drawing, Look, Picture, Section, Table};
use lab_bench::TimersRow;
use lab_bench::survey::timers::Found;

/// Pictures of the largest dense case with one thread and of the sparse case; the rest is in a table.
pub fn section(found: &Found) -> Section {
    let mut pictures = Vec::new();
    pictures.extend(bars(found, "Create a timer, one thread", "nanoseconds", |row| row.create_ns));
    pictures.extend(bars(found, "Look a timer up (getoverrun), one thread", "nanoseconds", |row| row.getoverrun_ns));
    pictures
        .extend(bars(found, "Memory of a timer", "bytes a timer, with all that finds it", |row| row.bytes_per_timer));
    let mut blocks = vec![
        Block::Words(
            "The tests of [timer-hash]: each thread creates its timers, reads each one's overrun, and deletes them. ours is the \
            engine's table; global-lock, precheck, scaled and radix are designs that Linux has had or tried, without the cost of a \
            system call; kernel is this machine's kernel, with it."
                .to_string(),
        ),
        Block::Pictures(pictures),
        Block::Table(table(&found.rows)),
        Block::Means(means(found)),
    ];
    blocks.extend(found.notes.iter().cloned().map(Block::Note));
    Section { id: "timers", name: "POSIX timers", title: title(found), blocks }
}

/// The rows in the pictures: one thread, dense IDs, the most timers.
fn shown(found: &Found) -> Vec<&TimersRow> {
    let dense = |row: &&TimersRow| row.test == "create-getoverrun" && row.threads == 1 && row.sparse.is_none();
    let most = found.rows.iter().filter(dense).map(|row| row.timers).max();
    found.rows.iter().filter(dense).filter(|row| Some(row.timers) == most).collect()
}

fn bars(found: &Found, title: &str, unit: &str, figure: fn(&TimersRow) -> Option<f64>) -> Option<Picture> {
    let rows = shown(found);
    let timers = rows.first()?.timers;
    let bars: Vec<_> =
        rows.iter().filter_map(|row| Some((row.target.to_string(), Look::of(row.target), figure(row)?))).collect();
    let sentence: Vec<_> = bars.iter().map(|(name, _, value)| format!("{name} {value:.0}")).collect();
    (!bars.is_empty()).then(|| Picture {
        title: format!("{title}, {}", super::thousands(timers as f64) + " timers"),
        description: format!("{unit}: {}.", sentence.join(", ")),
        drawing: Drawing::Bars(Bars { unit: unit.to_string(), bars }),
        table: None,
    })
}

fn table(rows: &[TimersRow]) -> Table {
    let header = [
        "target",
        "timers",
        "threads",
        "create, ns",
        "getoverrun, ns",
        "delete, ns",
        "create+delete, ns",
        "bytes/timer",
        "table, KiB",
    ];
    let mut table = Table::new("Every case, nanoseconds for one timer as a thread sees it", 1, &header);
    let ns = |time: Option<f64>| time.map_or("-".to_string(), |time| format!("{time:.1}"));
    for row in rows {
        let apart = row.sparse.map_or(String::new(), |stride| format!(", IDs {stride} apart"));
        table.rows.push(vec![
            row.target.to_string(),
            format!("{}{apart}", super::thousands(row.timers as f64)),
            row.threads.to_string(),
            ns(row.create_ns),
            ns(row.getoverrun_ns),
            ns(row.delete_ns),
            ns(row.create_delete_ns),
            row.bytes_per_timer.map_or("-".to_string(), |bytes| format!("{bytes:.0}")),
            row.table_bytes.map_or("-".to_string(), |bytes| format!("{:.1}", bytes as f64 / 1024.0)),
        ]);
    }
    table
}

fn of<'a>(rows: &[&'a TimersRow], target: &str) -> Option<&'a TimersRow> {
    rows.iter().find(|row| row.target == target).copied()
}

fn title(found: &Found) -> String {
    let rows = shown(found);
    match of(&rows, "ours").map(|row| (row.create_ns, row.getoverrun_ns)) {
        Some((Some(create), Some(look_up))) => {
            let timers = rows.first().map_or(0, |row| row.timers);
            format!(
                "Among {} timers one is created in {create:.0} ns and found in {look_up:.0}",
                super::thousands(timers as f64)
            )
        }
        _ => "Creating, finding and deleting timers".to_string(),
    }
}

fn means(found: &Found) -> String {
    let rows = shown(found);
    let mut parts = Vec::new();
    for rival in ["global-lock", "scaled", "radix", "kernel"] {
        let ratio = || Some(of(&rows, rival)?.create_ns? / of(&rows, "ours")?.create_ns?);
        parts.extend(ratio().map(|ratio| format!("{rival} takes {ratio:.1} times as long")));
    }
    let mut text = match (parts.is_empty(), rows.first()) {
        (false, Some(row)) => format!("To create {} in one thread {}. ", count(row.timers, "timer"), parts.join(", ")),
        _ => String::new(),
    };
    let sparse = |target: &str| {
        found.rows.iter().find(|row| row.target == target && row.sparse.is_some()).and_then(|row| row.table_bytes)
    };
    if let (Some(ours), Some(radix)) = (sparse("ours"), sparse("radix")) {
        text += &format!(
            "With sparse IDs, as in a restored checkpoint, a radix tree takes {:.0} KiB to find 2048 timers, and ours takes {:.0}.",
            radix as f64 / 1024.0,
            ours as f64 / 1024.0
        );
    }
    if text.is_empty() { "There are no samples of ours.".to_string() } else { text.trim_end().to_string() }
}
