//! `hash --sweep`: the two tables of [private-hash]. The first has one process, by threads and buckets. The second has
//! a process on each node, or on each of several sets of CPUs, by buckets.
//!
//! A process of ours is a domain: all domains of a system share its global table, as the kernel's processes do. The
//! kernel is measured in children of this program, since a process cannot give back the global hash.

pub mod child;
mod places;

use super::arena::{self, Sample};
use super::{Lab, children};
use crate::{Outcome, Row};
use anyhow::{Result, ensure};
use child::Report;
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample::{self, Pace};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape, Subject, Words};
use places::Places;
use std::sync::Arc;
use std::time::Duration;

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Of the first table; 0 is the global one.
const ONE: [usize; 8] = [0, 4, 8, 16, 32, 64, 128, 256];
/// Of the second.
const SEVERAL: [usize; 11] = [0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
const BUDGET_S: f64 = 30.0;

/// Which of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One process.
    ByThreads,
    /// So many.
    ByProcesses(usize),
}

/// One cell of a table of one target.
struct Cell {
    name: Name,
    table: Table,
    /// Of each process.
    threads: usize,
    /// 0: the global table.
    slots: usize,
    /// Empty of the kernel's.
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

/// What all cells share.
struct Field {
    pool: Pool,
    words: Arc<Vec<Words>>,
    places: Places,
}

/// Measures both tables of every target, all cells interleaved.
pub fn run(lab: &mut Lab<'_>, sizes: &[usize]) -> Result<Outcome> {
    let mut notes = Vec::new();
    let places = Places::new(&lab.cpus, lab.settings.processes, &mut notes);
    let cells = line_up(lab, sizes, &places, &mut notes)?;
    let most = cells.iter().map(|cell| cell.threads * cell.processes()).max().unwrap_or(1);
    let field = Field { pool: Pool::new(most, &lab.cpus)?, words: arena::words(lab.settings, most), places };
    let settings = lab.settings;
    let turns = |cell: &Cell| (cell.threads * cell.processes()).div_ceil(lab.cpus.len());
    let all_turns = cells.iter().map(turns).sum();
    let pace = Pace::new(lab.budget(BUDGET_S), settings.runtime_s.is_some(), settings.repeat, all_turns);
    let stage = format!("hash, sweep: {} cells, {} rounds", cells.len(), pace.course.rounds);
    let progress = lab.progress(&stage, pace.course.rounds);
    let samples =
        sample::rounds(pace.course, cells.len(), &progress, |number| once(lab, &field, &cells[number], pace.sample))?;
    drop(progress);
    for (cell, samples) in cells.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((&cell.section(), cell.name.text(), cell.threads), times);
    }
    let measured = cells.iter().zip(&samples).filter(|(_, samples)| !samples.is_empty());
    let rows = measured.map(|(cell, samples)| row(lab, cell, samples)).collect();
    Ok(Outcome { rows, notes })
}

fn line_up(lab: &Lab<'_>, sizes: &[usize], places: &Places, notes: &mut Vec<String>) -> Result<Vec<Cell>> {
    let threads = lab.settings.threads.clone().unwrap_or_else(|| THREADS.to_vec());
    let most = threads.iter().copied().max().unwrap_or(1);
    let mut cells = Vec::new();
    for name in lab.sleeping_targets() {
        match name {
            Name::Global => notes.push("global left out: it is the others' column G".to_string()),
            Name::ParkingLot => notes.push("parking_lot left out: it has one table, of its own size".to_string()),
            _ => {
                let chosen = |all: &[usize]| if sizes.is_empty() { all.to_vec() } else { sizes.to_vec() };
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
            let shape = Shape { layout: settings.layout, policy, shared: false, early_return: false };
            cell.subjects = lab_targets::build_processes(name, &shape, cell.processes())?;
        }
        Ok(cell)
    };
    let is_possible = |slots: &usize| *slots == 0 || name != Name::Kernel || lab_targets::kernel_has_private_hash();
    sizes.iter().copied().filter(is_possible).map(cell).collect()
}

/// One sample; once more where a thread that need not share its CPU had none for a while.
fn once(lab: &Lab<'_>, field: &Field, cell: &Cell, length: Duration) -> Result<Sample> {
    let cpus = field.places.of(cell.table, cell.threads);
    if cell.name == Name::Kernel {
        return in_children(lab, cell, &cpus, length);
    }
    let has_cpus = cell.threads * cell.processes() <= lab.cpus.len();
    let mut tallies = Vec::new();
    for _ in 0..arena::TRIES {
        tallies = hammer(field, cell, &cpus, length)?;
        if !has_cpus || !arena::is_disturbed(&tallies) {
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
    ensure!(failed == 0, "{}: {failed} waits did not end as they must", cell.name);
    Ok(tallies)
}

fn in_children(lab: &Lab<'_>, cell: &Cell, cpus: &[usize], length: Duration) -> Result<Sample> {
    let arguments = |number: usize| {
        let mine: Vec<_> = cpus[number * cell.threads..][..cell.threads].iter().map(ToString::to_string).collect();
        let numbers = [
            ("--threads", cell.threads),
            ("--futexes", lab.settings.futexes),
            ("--stride", lab.settings.stride_bytes),
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

fn row(lab: &Lab<'_>, cell: &Cell, samples: &[Sample]) -> Row {
    let times: Vec<_> = samples.iter().map(|sample| sample.ns_per_op).collect();
    let rates: Vec<_> = samples.iter().map(|sample| sample.ops_per_sec).collect();
    let section = cell.section();
    let key = |name: Name| (section.as_str(), name.text(), cell.threads);
    let buckets = match cell.subjects.first() {
        Some(subject) => subject.buckets(),
        None => Some(cell.slots).filter(|slots| *slots > 0),
    };
    Row {
        section: Some("sweep"),
        futexes: lab.settings.futexes,
        buckets,
        slots: Some(cell.slots),
        processes: matches!(cell.table, Table::ByProcesses(_)).then(|| cell.processes()),
        policy: cell.name.is_ours().then(|| if cell.slots == 0 { "global".into() } else { cell.slots.to_string() }),
        early_return: Some(false),
        stride: Some(lab.settings.stride_bytes),
        ns_per_op: Some(Spread::of(&times)),
        ops_per_sec: Some(Spread::of(&rates).median),
        ratio_kernel: lab.series.ratio(key(cell.name), key(Name::Kernel)),
        repeat: samples.len(),
        ..Row::new(lab, "hash", cell.name, cell.threads)
    }
    .on_cpus(lab, cell.threads * cell.processes())
}
