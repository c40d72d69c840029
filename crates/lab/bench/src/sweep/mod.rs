//! `hash --sweep`: the two tables of [private-hash]. The first is of one process, by threads and buckets. The second
//! has a process on each node, or on each of several sets of CPUs, by buckets.
//!
//! Each process is a domain of the engine: the domains of a system share its global table, as the kernel's processes
//! do. The kernel is measured in child processes, since a process that has left the global hash cannot go back to it.

pub mod child;
mod places;

use crate::hammer::Row;
use crate::hash::Hash;
use crate::settings::Buckets;
use crate::workers::{self, Disturbances, Sample};
use crate::{Head, Lab, Ratios, children};
use anyhow::{Result, ensure};
use child::Report;
use lab_measure::pool::{Gate, Pool};
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape, Subject, Words};
use lab_terminal::table;
use places::Places;
use std::sync::Arc;
use std::time::Duration;

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Slots in the first table. 0 means the global table.
const ONE: [usize; 8] = [0, 4, 8, 16, 32, 64, 128, 256];
/// Slots in the second table.
const SEVERAL: [usize; 11] = [0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
const BUDGET_S: f64 = 30.0;

/// One of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One process.
    ByThreads,
    /// This many processes.
    ByProcesses(usize),
}

/// One cell of a table, for one target.
struct Cell {
    name: Name,
    table: Table,
    /// Number of threads of each process.
    threads: usize,
    /// 0 means the global table.
    slots: usize,
    /// One for each process. Empty for the kernel, which is measured in children.
    subjects: Vec<Arc<dyn Subject>>,
}

impl Cell {
    fn processes(&self) -> usize {
        match self.table {
            Table::ByThreads => 1,
            Table::ByProcesses(processes) => processes,
        }
    }

    fn section(&self) -> String {
        format!("sweep {:?} {}", self.table, self.slots)
    }
}

/// What all cells use.
struct Field<'a> {
    pool: Pool,
    words: Arc<Vec<Words>>,
    asked: &'a Hash,
    places: Places,
}

/// Measures both tables of all targets, one sample of each cell in a round.
pub fn run(lab: &mut Lab<'_>, asked: &Hash, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let places = Places::new(&lab.cpus, asked.processes.as_ref().map(|processes| processes[0]), notes);
    let cells = line_up(lab, asked, &places, notes)?;
    let most = cells.iter().map(|cell| cell.threads * cell.processes()).max().unwrap_or(1);
    let words = workers::words(&asked.words, most);
    let field = Field { pool: Pool::new(most, &lab.cpus)?, words, asked, places };
    let turns = |cell: &Cell| (cell.threads * cell.processes()).div_ceil(lab.cpus.len());
    let pace = lab.pace(BUDGET_S, cells.iter().map(turns).sum());
    lab.measure(
        &format!("hash, sweep: {} cells", cells.len()),
        pace.rounds,
        &cells,
        |lab, cell| once(lab, &field, cell, pace.sample),
        (|cell| (cell.section().into(), cell.name.text().into(), cell.threads), |sample: &Sample| sample.ns_per_op),
        |lab, cell, samples| row(lab, asked, cell, samples),
    )
}

fn line_up(lab: &Lab<'_>, asked: &Hash, places: &Places, notes: &mut Vec<String>) -> Result<Vec<Cell>> {
    let threads = asked.threads.as_ref().map_or(&THREADS[..], |threads| threads);
    let most = threads.iter().copied().max().unwrap_or(1);
    let exact = |size: &Buckets| if let Buckets::Exactly(slots) = size { Some(*slots) } else { None };
    let slots: Vec<usize> = asked.perfs.tables.sizes().iter().filter_map(exact).collect();
    let mut cells = Vec::new();
    for name in lab.sleeping_targets() {
        match name {
            Name::Global => notes.push("global left out: it is column G of the other targets".to_string()),
            Name::ParkingLot => notes.push("parking_lot left out: the size of its one table cannot be set".to_string()),
            _ => {
                let chosen = |all: &[usize]| if slots.is_empty() { all.to_vec() } else { slots.clone() };
                for threads in threads.iter().copied() {
                    cells.extend(row_of_cells(lab, name, Table::ByThreads, threads, &chosen(&ONE))?);
                }
                let table = Table::ByProcesses(places.sets.len());
                cells.extend(row_of_cells(lab, name, table, most, &chosen(&SEVERAL))?);
            }
        }
    }
    if lab.settings.targets.contains(&Name::Kernel) && !lab_targets::kernel_has_private_hash() {
        notes.push("kernel: no PR_FUTEX_HASH here (6.16 and later): column G only".to_string());
    }
    Ok(cells)
}

fn row_of_cells(lab: &Lab<'_>, name: Name, table: Table, threads: usize, sizes: &[usize]) -> Result<Vec<Cell>> {
    let settings = lab.settings;
    let cell = |slots: usize| {
        let mut cell = Cell { name, table, threads, slots, subjects: Vec::new() };
        if name != Name::Kernel {
            let policy = Policy::Fixed(slots);
            let shape = Shape::new(settings.layout, policy);
            cell.subjects = lab_targets::build_processes(name, &shape, cell.processes())?;
        }
        Ok(cell)
    };
    let is_possible = |slots: &usize| *slots == 0 || name != Name::Kernel || lab_targets::kernel_has_private_hash();
    sizes.iter().copied().filter(is_possible).map(cell).collect()
}

/// One sample. It is taken again if each thread had a CPU to itself and one of them was disturbed.
fn once(lab: &Lab<'_>, field: &Field<'_>, cell: &Cell, length: Duration) -> Result<Sample> {
    let cpus = field.places.of(cell.table, cell.threads);
    if cell.name == Name::Kernel {
        return in_children(field, cell, &cpus, length);
    }
    let has_cpus = cell.threads * cell.processes() <= lab.own_cpus();
    Disturbances::default().sample(has_cpus, || hammer(field, cell, &cpus, length))
}

fn hammer(field: &Field<'_>, cell: &Cell, cpus: &[usize], length: Duration) -> Result<Vec<lab_targets::loops::Tally>> {
    let (all, each) = (cell.threads * cell.processes(), cell.threads);
    let gate = Gate::new(all);
    let job = {
        let (subjects, words, gate) = (cell.subjects.clone(), field.words.clone(), gate.clone());
        move |worker: usize| subjects[worker / each].hammer(Operation::WaitDiffers, &words[worker], &gate)
    };
    let tallies = field.pool.run_on(all, cpus, job, || gate.stop_after(length))?;
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    ensure!(failed == 0, "{}: {failed} waits had a wrong result", cell.name);
    Ok(tallies)
}

fn in_children(field: &Field<'_>, cell: &Cell, cpus: &[usize], length: Duration) -> Result<Sample> {
    let arguments = |number: usize| {
        let mine: Vec<_> = cpus[number * cell.threads..][..cell.threads].iter().map(ToString::to_string).collect();
        let numbers = [
            ("--threads", cell.threads),
            ("--futexes", field.asked.words.number.futexes),
            ("--stride", field.asked.words.stride),
            ("--slots", cell.slots),
            ("--microseconds", length.as_micros() as usize),
        ];
        let mut arguments = vec!["sweep-child".to_string(), "--cpus".to_string(), mine.join(",")];
        arguments.extend(numbers.iter().flat_map(|(flag, number)| [flag.to_string(), number.to_string()]));
        arguments
    };
    let reports: Vec<Result<Report, String>> = children::measure(cell.processes(), arguments)?;
    let reports = reports.into_iter().collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::msg)?;
    Ok(Report::together(&reports))
}

fn row(lab: &Lab<'_>, asked: &Hash, cell: &Cell, samples: &[Sample]) -> Row {
    let buckets = match cell.subjects.first() {
        Some(subject) => subject.buckets(),
        None => Some(cell.slots).filter(|slots| *slots > 0),
    };
    let head = Head {
        futexes: asked.words.number.futexes,
        buckets,
        policy: cell.name.is_ours().then(|| if cell.slots == 0 { "global".into() } else { cell.slots.to_string() }),
        repeat: samples.len(),
        ..Head::new(lab, "hash", cell.name, cell.threads)
    };
    Row {
        section: Some("sweep"),
        slots: Some(cell.slots),
        processes: matches!(cell.table, Table::ByProcesses(_)).then(|| cell.processes()),
        early_return: Some(false),
        ratios: Ratios::of(&lab.series, &cell.section(), cell.name.text(), cell.threads),
        ..Row::of_samples(head.on_cpus(lab, cell.threads * cell.processes()), &asked.words, samples)
    }
}

/// The tables of all targets, one target after another.
pub fn text(rows: &[Row]) -> String {
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
    let slots = distinct(rows.iter().filter_map(|row| row.slots));
    let global = rows.iter().find(|row| row.slots == Some(0)).and_then(|row| row.head.buckets);
    let name = |slots: &usize| match (slots, global) {
        (0, Some(buckets)) => format!("G {buckets}"),
        (0, None) => "G".to_string(),
        (slots, _) => format!("P {slots}"),
    };
    let header: Vec<String> = [first.to_string()].into_iter().chain(slots.iter().map(name)).collect();
    let line = |threads: usize| {
        let cell = |slots: &usize| {
            let row = rows.iter().find(|row| row.head.threads == threads && row.slots == Some(*slots));
            row.map(|row| rate(row)).map_or_else(table::dash, |rate| format!("{rate:.0}"))
        };
        [threads.to_string()].into_iter().chain(slots.iter().map(cell)).collect()
    };
    let lines = distinct(rows.iter().map(|row| row.head.threads)).into_iter().map(line).collect();
    table::fitted(&header.iter().map(String::as_str).collect::<Vec<_>>(), 0, lines, &[])
}

/// Operations per second of one thread.
fn rate(row: &Row) -> f64 {
    1e9 / row.ns_per_op.median
}

fn sentence(target: &str, rows: &[&Row]) -> String {
    let global = rows.iter().find(|row| row.slots == Some(0)).map(|row| rate(row));
    let best = rows.iter().filter(|row| row.slots != Some(0)).map(|row| (rate(row), row.slots.unwrap_or(0)));
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
    use crate::Settings;
    use lab_measure::stats::Spread;

    #[test]
    fn each_cell_has_the_rate_of_one_thread_with_its_threads_and_slots() {
        let settings = Settings::default();
        let lab = Lab::new(&settings);
        let row = |threads: usize, slots: usize, ns: f64| {
            let buckets = Some(if slots == 0 { 1024 } else { slots });
            let head = Head { buckets, ..Head::new(&lab, "hash", Name::Live, threads) };
            Row { slots: Some(slots), ..Row::new(head, Spread::of(&[ns])) }
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
