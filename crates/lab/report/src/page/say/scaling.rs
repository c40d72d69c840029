//! The section about throughput by threads.

use super::{mops, times_as_fast};
use crate::page::document::{Block, Curve, Curves, Drawing, Look, Picture, Section, Table};
use lab_bench::survey::hammer::Measured;
use lab_bench::survey::scaling::Scaling;
use lab_targets::Operation;

/// One picture of waits, one of wakes.
pub fn section(found: &Scaling, cpus: usize) -> Section {
    let pictures = [Operation::WaitDiffers, Operation::WakeNoWaiter].map(|operation| picture(found, operation));
    let mut blocks = vec![
        Block::Words(
            "Each thread has 1024 words of its own in one array, as in perf, and repeats an operation on them in turn: a wait on a \
            word that has another value, or a wake of a word without waiters. A program with little contention mostly does these."
                .to_string(),
        ),
        Block::Pictures(pictures.into_iter().filter(|picture| picture.table.is_some()).collect()),
        Block::Means(means(found, cpus)),
        Block::Note(format!(
            "Points are medians of short samples taken in turn, and bands reach from p10 to p90. live has the size that it chose \
            itself. The others have 1024 buckets; so does the kernel's hash if its size can be set. More than {cpus} threads share \
            the CPUs."
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
    of(found, operation)
        .find(|one| one.row.head.target == name && one.row.head.threads == threads)
        .map(|one| one.rate.median)
}

fn picture(found: &Scaling, operation: Operation) -> Picture {
    let mut names: Vec<&str> = Vec::new();
    for one in of(found, operation) {
        if !names.contains(&one.row.head.target) {
            names.push(one.row.head.target);
        }
    }
    let (title, unit) = match operation {
        Operation::WaitDiffers => ("Waits on a word that differs, by threads", "million waits a second, all threads"),
        Operation::WakeNoWaiter => {
            ("Wakes of words without waiters, by threads", "million wakes a second, all threads")
        }
    };
    let point = |name: &str, threads: usize| {
        let one = of(found, operation).find(|one| one.row.head.target == name && one.row.head.threads == threads)?;
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
        let one = of(found, operation).find(|one| one.row.head.target == name && one.row.head.threads == threads);
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

/// The largest number of threads that do not share a CPU.
fn most(found: &Scaling, cpus: usize) -> usize {
    found.threads.iter().copied().filter(|threads| *threads <= cpus).max().unwrap_or(1)
}

fn title(found: &Scaling, cpus: usize) -> String {
    let (most, wait) = (most(found, cpus), Operation::WaitDiffers);
    let gain = |name: &str| Some(rate(found, wait, name, most)? / rate(found, wait, name, 1)?);
    match (gain("live"), gain("atomic")) {
        (Some(live), Some(atomic)) if most > 1 => {
            format!(
                "On {most} CPUs live has {live:.1} times its rate on one; with one shared count it is {atomic:.1} times"
            )
        }
        _ => match rate(found, wait, "live", 1) {
            Some(live) => format!("live does {} million waits per second on one CPU", mops(live)),
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
        return "There are no samples of live.".to_string();
    }
    let threads = super::count(most, "thread");
    let mut text = format!("With {threads} waits on live are {}. ", parts.join(", "));
    text += "Threads on live or fixed share no written memory unless their words share a bucket. With atomic each operation \
    writes one counter, so each further thread slows the others. The kernel's column includes its system call.";
    text
}
