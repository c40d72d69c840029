//! Throughput by threads.

use super::{mops, times_as_fast};
use crate::page::document::{Block, Curve, Curves, Drawing, Look, Picture, Section, Table};
use lab_bench::survey::hammer::Measured;
use lab_bench::survey::scaling::Scaling;
use lab_targets::Operation;

/// One picture for waits, one for wakes.
pub fn section(found: &Scaling, cpus: usize) -> Section {
    let pictures = [Operation::WaitDiffers, Operation::WakeNobody].map(|operation| picture(found, operation));
    let mut blocks = vec![
        Block::Words(
            "Each thread has 1024 words of its own, in one array as perf's, and goes through them again and again: a wait on a word \
             that has another value, and a wake where nobody waits. Both are what a program with little contention does most."
                .to_string(),
        ),
        Block::Pictures(pictures.into_iter().filter(|picture| picture.table.is_some()).collect()),
        Block::Means(means(found, cpus)),
        Block::Note(format!(
            "Points are medians of short samples taken in turn, bands reach from p10 to p90. live has the size that it chose itself; \
             the others have 1024 buckets, the kernel's hash too where it can be told. Beyond {cpus} threads they share the CPUs."
        )),
    ];
    blocks.extend(found.notes.iter().cloned().map(Block::Note));
    Section { id: "scaling", name: "Scaling", title: title(found, cpus), blocks }
}

fn of(found: &Scaling, operation: Operation) -> impl Iterator<Item = &Measured> {
    found.measured.iter().filter(move |one| one.spec.operation == operation)
}

/// The rate of a target with a given number of threads.
pub fn rate(found: &Scaling, operation: Operation, name: &str, threads: usize) -> Option<f64> {
    of(found, operation).find(|one| one.row.target == name && one.row.threads == threads).map(|one| one.rate.median)
}

fn picture(found: &Scaling, operation: Operation) -> Picture {
    let mut names: Vec<&str> = Vec::new();
    for one in of(found, operation) {
        if !names.contains(&one.row.target) {
            names.push(one.row.target);
        }
    }
    let (title, unit) = match operation {
        Operation::WaitDiffers => ("Waits on a word that differs, by threads", "million waits a second, all threads"),
        Operation::WakeNobody => ("Wakes where nobody waits, by threads", "million wakes a second, all threads"),
    };
    let point = |name: &str, threads: usize| {
        let one = of(found, operation).find(|one| one.row.target == name && one.row.threads == threads)?;
        Some([one.rate.p10, one.rate.median, one.rate.p90].map(|rate| rate / 1e6))
    };
    let curves = names.iter().map(|name| Curve {
        name: name.to_string(),
        look: Look::of(name),
        points: found.threads.iter().map(|threads| point(name, *threads)).collect(),
    });
    let curves: Vec<_> = curves.collect();
    let table = table(found, operation, &names);
    let description = curves.iter().filter_map(|curve| {
        let (first, last) = (curve.points.first().copied()??, curve.points.last().copied()??);
        Some(format!("{} from {:.1} to {:.1}", curve.name, first[1], last[1]))
    });
    Picture {
        title: title.to_string(),
        description: format!(
            "{unit}, from the fewest threads to the most: {}.",
            description.collect::<Vec<_>>().join(", ")
        ),
        drawing: Drawing::Curves(Curves {
            x_label: "threads".to_string(),
            x: found.threads.iter().map(ToString::to_string).collect(),
            y_label: unit.to_string(),
            curves,
        }),
        table: (!names.is_empty()).then_some(table),
    }
}

fn table(found: &Scaling, operation: Operation, names: &[&str]) -> Table {
    let mut header = vec!["target".to_string()];
    header.extend(found.threads.iter().map(|threads| super::count(*threads, "thread")));
    let cell = |name: &str, threads: usize| {
        let one = of(found, operation).find(|one| one.row.target == name && one.row.threads == threads);
        one.map_or("-".to_string(), |one| {
            format!("{} ({} to {})", mops(one.rate.median), mops(one.rate.p10), mops(one.rate.p90))
        })
    };
    let rows = names.iter().map(|name| {
        let cells = found.threads.iter().map(|threads| cell(name, *threads));
        std::iter::once(name.to_string()).chain(cells).collect()
    });
    Table {
        caption: "Million operations a second of all threads: median (p10 to p90)".to_string(),
        header,
        rows: rows.collect(),
        words: 1,
        groups: Vec::new(),
    }
}

/// The most threads that do not share a CPU.
fn most(found: &Scaling, cpus: usize) -> usize {
    found.threads.iter().copied().filter(|threads| *threads <= cpus).max().unwrap_or(1)
}

fn title(found: &Scaling, cpus: usize) -> String {
    let (most, wait) = (most(found, cpus), Operation::WaitDiffers);
    let gain = |name: &str| Some(rate(found, wait, name, most)? / rate(found, wait, name, 1)?);
    match (gain("live"), gain("atomic")) {
        (Some(live), Some(atomic)) if most > 1 => {
            format!("On {most} CPUs live does {live:.1} times what it does on one; one shared count, {atomic:.1} times")
        }
        _ => match rate(found, wait, "live", 1) {
            Some(live) => format!("live does {} million waits a second on one CPU", mops(live)),
            None => "Throughput by threads".to_string(),
        },
    }
}

fn means(found: &Scaling, cpus: usize) -> String {
    let (most, wait) = (most(found, cpus), Operation::WaitDiffers);
    let mut parts = Vec::new();
    for rival in ["kernel", "parking_lot", "atomic"] {
        if let (Some(live), Some(other)) = (rate(found, wait, "live", most), rate(found, wait, rival, most)) {
            parts.push(format!("{} {rival}", times_as_fast(live / other)));
        }
    }
    if parts.is_empty() {
        return "There are no samples of live to say anything about.".to_string();
    }
    let threads = super::count(most, "thread");
    let mut text = format!("With {threads} waits on live are {}. ", parts.join(", "));
    text += "live and fixed write nothing that other threads' operations write, unless they meet in a bucket; atomic writes one \
             counter in every operation, so each thread added makes the others slower. The kernel's column holds the price of \
             its system call.";
    text
}
