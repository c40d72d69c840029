//! `hash --sweep`: the two tables of [private-hash]. The first is of one process, by threads and buckets. The second
//! has a process on each node, or on each of several sets of CPUs, by buckets.
//!
//! Each process is a domain of the engine: the domains of a system share its global table, as the kernel's processes
//! do. The kernel is measured in child processes, since a process that has left the global hash cannot go back to it.

pub mod child;
mod places;

use crate::hammer::{Hammer, times_and_rate};
use crate::workers::{self, Sample};
use crate::{Head, Lab, Ratios, children, rows_of};
use anyhow::{Result, ensure};
use child::Report;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape, Subject, Words};
use places::Places;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Slots in the first table. 0 means the global table.
const ONE: [usize; 8] = [0, 4, 8, 16, 32, 64, 128, 256];
/// Slots in the second table.
const SEVERAL: [usize; 11] = [0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
const BUDGET_S: f64 = 30.0;

/// Settings of `hash --sweep`.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Threads and words.
    pub hammer: Hammer,
    /// `-b`. Empty means the slots of [private-hash].
    pub slots: Vec<usize>,
    /// `-p`, if given.
    pub processes: Option<usize>,
}

/// One row of the results: a cell of one of the two tables.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Always `sweep`.
    pub section: &'static str,
    /// Requested slots. 0 means the global table.
    pub slots: usize,
    /// Second table only: number of processes, each with `head.threads` threads on its own CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<usize>,
    /// Always false.
    pub early_return: bool,
    /// Distance between two words, in bytes.
    pub stride: usize,
    /// Time of one operation, as a thread sees it.
    pub ns_per_op: Spread,
    /// Rate of all threads together; median over the rounds.
    pub ops_per_sec: f64,
    /// This row's time divided by the kernel's, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_kernel: Option<f64>,
}

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
struct Field {
    pool: Pool,
    words: Arc<Vec<Words>>,
    hammer: Hammer,
    places: Places,
}

/// Measures both tables of all targets, one sample of each cell in a round.
pub fn run(lab: &mut Lab<'_>, asked: &Sweep, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let places = Places::new(&lab.cpus, asked.processes, notes);
    let cells = line_up(lab, asked, &places, notes)?;
    let most = cells.iter().map(|cell| cell.threads * cell.processes()).max().unwrap_or(1);
    let words = workers::words(&asked.hammer, most);
    let field = Field { pool: Pool::new(most, &lab.cpus)?, words, hammer: asked.hammer.clone(), places };
    let turns = |cell: &Cell| (cell.threads * cell.processes()).div_ceil(lab.cpus.len());
    let all_turns = cells.iter().map(turns).sum();
    let pace = lab.pace(BUDGET_S, all_turns);
    let stage = format!("hash, sweep: {} cells, {} rounds", cells.len(), pace.rounds.count);
    let progress = lab.progress(&stage, pace.rounds.count);
    let samples =
        lab.rounds(pace.rounds, cells.len(), &progress, |number| once(lab, &field, &cells[number], pace.sample))?;
    drop(progress);
    for (cell, samples) in cells.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((&cell.section(), cell.name.text(), cell.threads), times);
    }
    Ok(rows_of(&cells, &samples, |cell, samples| row(lab, asked, cell, samples)))
}

fn line_up(lab: &Lab<'_>, asked: &Sweep, places: &Places, notes: &mut Vec<String>) -> Result<Vec<Cell>> {
    let threads = asked.hammer.threads.clone().unwrap_or_else(|| THREADS.to_vec());
    let most = threads.iter().copied().max().unwrap_or(1);
    let mut cells = Vec::new();
    for name in lab.sleeping_targets() {
        match name {
            Name::Global => notes.push("global left out: it is column G of the other targets".to_string()),
            Name::ParkingLot => notes.push("parking_lot left out: the size of its one table cannot be set".to_string()),
            _ => {
                let chosen = |all: &[usize]| if asked.slots.is_empty() { all.to_vec() } else { asked.slots.clone() };
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
fn once(lab: &Lab<'_>, field: &Field, cell: &Cell, length: Duration) -> Result<Sample> {
    let cpus = field.places.of(cell.table, cell.threads);
    if cell.name == Name::Kernel {
        return in_children(field, cell, &cpus, length);
    }
    let has_cpus = cell.threads * cell.processes() <= lab.own_cpus();
    let mut tallies = Vec::new();
    for _ in 0..workers::TRIES {
        tallies = hammer(field, cell, &cpus, length)?;
        if !has_cpus || !workers::is_disturbed(&tallies) {
            break;
        }
    }
    Ok(Sample::of(&tallies))
}

fn hammer(field: &Field, cell: &Cell, cpus: &[usize], length: Duration) -> Result<Vec<lab_targets::loops::Tally>> {
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

fn in_children(field: &Field, cell: &Cell, cpus: &[usize], length: Duration) -> Result<Sample> {
    let arguments = |number: usize| {
        let mine: Vec<_> = cpus[number * cell.threads..][..cell.threads].iter().map(ToString::to_string).collect();
        let numbers = [
            ("--threads", cell.threads),
            ("--futexes", field.hammer.futexes),
            ("--stride", field.hammer.stride_bytes),
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

fn row(lab: &Lab<'_>, asked: &Sweep, cell: &Cell, samples: &[Sample]) -> Row {
    let (times, rate) = times_and_rate(samples);
    let buckets = match cell.subjects.first() {
        Some(subject) => subject.buckets(),
        None => Some(cell.slots).filter(|slots| *slots > 0),
    };
    let head = Head {
        futexes: asked.hammer.futexes,
        buckets,
        policy: cell.name.is_ours().then(|| if cell.slots == 0 { "global".into() } else { cell.slots.to_string() }),
        repeat: samples.len(),
        ..Head::new(lab, "hash", cell.name, cell.threads)
    };
    Row {
        head: head.on_cpus(lab, cell.threads * cell.processes()),
        section: "sweep",
        slots: cell.slots,
        processes: matches!(cell.table, Table::ByProcesses(_)).then(|| cell.processes()),
        early_return: false,
        stride: asked.hammer.stride_bytes,
        ns_per_op: times,
        ops_per_sec: rate,
        ratio_kernel: Ratios::of(&lab.series, &cell.section(), cell.name.text(), cell.threads).kernel,
    }
}
