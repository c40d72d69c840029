//! `locks`: parking_lot's own benchmarks ([parking-lot]) on the published parking_lot, on parking_lot over this engine,
//! and on std's locks. A further case has many threads on several locks, where nearly every lock operation parks a
//! thread.

use crate::all::All;
use crate::flags::{self, Common, Sleeping, help_of_futexes};
use crate::locks_child::{Children, Load, Sample};
use crate::rows::{self, shown};
use crate::settings::Settings;
use crate::summary::Line;
use crate::workload::{Workload, plain};
use crate::{Head, Lab, stage};
use anyhow::Result;
use clap::Args;
use lab_measure::sample::Rounds;
use lab_measure::stats::Spread;
use lab_targets::Name;
use lab_terminal::table::ratio;
use lab_values::{self as values, List, WORK_MAX};
use serde::Serialize;
use std::time::Duration;
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};

const BUDGET_S: f64 = 12.0;
/// Length of a sample: long enough for a lock that is handed over rarely.
const SAMPLE: Duration = Duration::from_millis(40);
const SAMPLE_MIN: Duration = Duration::from_millis(1);
/// Time that a child process takes in addition to its sample.
const OVERHEAD: Duration = Duration::from_millis(3);
const ROUNDS_MIN: usize = 5;

/// Thread counts on one mutex.
const MUTEX_THREADS: [usize; 3] = [1, 2, 8];
/// Writers and readers on one lock.
const RWLOCK_THREADS: [(usize, usize); 2] = [(1, 1), (2, 6)];
/// Threads, and the mutexes that they use.
const MANY: (usize, usize) = (64, 16);
/// Threads that use the parking lot alone, and its keys.
const LOT: (usize, usize) = (2, 1024);

/// `--line`: the parking_lot version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
pub enum Version {
    /// parking_lot 0.12, on core 0.9.
    #[strum(serialize = "0.12")]
    V012,
    /// parking_lot 0.13, on core 0.10.
    #[strum(serialize = "0.13")]
    V013,
}

/// parking_lot's own benchmarks: on its core, on the engine, and std's locks
#[derive(Clone, Args)]
pub struct Locks {
    /// Threads, a comma list [default: 1,2,8 on one mutex, 64 on many-locks, 2 on lot]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    /// Writers of the reader-writer lock [default: 1; and 2]
    #[arg(long, value_name = "N", value_parser = values::number::<usize>(1, 1024, "threads"))]
    writers: Option<usize>,
    /// Readers of the reader-writer lock [default: 1; and 6]
    #[arg(long, value_name = "N", value_parser = values::number::<usize>(1, 1024, "threads"))]
    readers: Option<usize>,
    /// Mutexes of many-locks, or keys of lot [default: 16, 1024]
    #[arg(long, value_name = "N", value_parser = values::number::<usize>(1, 1 << 16, "locks"))]
    locks: Option<usize>,
    /// Steps of work while the lock is held
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number::<usize>(0, WORK_MAX, "steps"))]
    work_per_critical_section: usize,
    /// Steps of work between two locks
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::number::<usize>(0, WORK_MAX, "steps"))]
    work_between_critical_sections: usize,
    /// The version of parking_lot
    #[arg(long, default_value = "0.13", value_parser = values::one_of::<Version>())]
    line: Version,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    common: Common,
}

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    case: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    writers: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<usize>,
    work_per_critical_section: usize,
    work_between_critical_sections: usize,
    ns_per_op: Spread,
    cpu_ns_per_op: Spread,
    ops_per_sec: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_parking_lot: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_cpu_parking_lot: Option<f64>,
}

shown!(Row, |row| row.ns_per_op.median, ["parking_lot": row.ratio_parking_lot]);

/// The target name in the rows. `live` is parking_lot over this engine's scheme. std's locks on Linux use futex(2), so the
/// target `kernel` stands for them.
pub fn text(target: Name) -> &'static str {
    if target == Name::Kernel { "std" } else { target.text() }
}

/// The threads and their locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// This many threads on one mutex.
    Mutex(usize),
    /// This many writers and readers on one lock.
    RwLock(usize, usize),
    /// This many threads on this many mutexes, chosen at random. A thread yields its CPU once while it holds a mutex.
    Many(usize, usize),
    /// This many threads look up the empty queue of a random one of this many keys in the parking lot: the cost of parking
    /// and unparking without sleeping and waking.
    Lot(usize, usize),
}

impl Case {
    /// The cases of every run, which `--figures` checks.
    pub fn defaults() -> Vec<Case> {
        Self::asked(&plain())
    }

    /// The requested cases.
    fn asked(asked: &Locks) -> Vec<Case> {
        let all = asked.threads.as_ref().map(|threads| &threads[..]);
        let mut cases: Vec<_> = all.unwrap_or(&MUTEX_THREADS).iter().copied().map(Case::Mutex).collect();
        match (asked.writers, asked.readers) {
            // Threads of a reader-writer lock have flags of their own.
            (None, None) if all.is_some() => {}
            (None, None) => cases.extend(RWLOCK_THREADS.map(|(writers, readers)| Case::RwLock(writers, readers))),
            (writers, readers) => cases.push(Case::RwLock(writers.unwrap_or(1), readers.unwrap_or(1))),
        }
        let (many, lot) = (all.unwrap_or(&[MANY.0]), all.unwrap_or(&[LOT.0]));
        // With `-t` both have the same number of locks by default.
        let keys = if all.is_some() { MANY.1 } else { LOT.1 };
        cases.extend(many.iter().map(|threads| Case::Many(*threads, asked.locks.unwrap_or(MANY.1))));
        cases.extend(lot.iter().map(|threads| Case::Lot(*threads, asked.locks.unwrap_or(keys))));
        cases
    }

    /// The case name in the rows.
    pub fn text(self) -> &'static str {
        match self {
            Self::Mutex(_) => "mutex",
            Self::RwLock(..) => "rwlock",
            Self::Many(..) => "many-locks",
            Self::Lot(..) => "lot",
        }
    }

    /// Section of the results in `Lab::series`.
    pub fn section(self) -> String {
        match self {
            Self::Mutex(_) => "locks mutex".to_string(),
            Self::RwLock(writers, readers) => format!("locks rwlock {writers}+{readers}"),
            Self::Many(_, locks) => format!("locks many {locks}"),
            Self::Lot(_, locks) => format!("locks lot {locks}"),
        }
    }

    /// Number of all threads.
    pub fn threads(self) -> usize {
        match self {
            Self::Mutex(threads) | Self::Many(threads, _) | Self::Lot(threads, _) => threads,
            Self::RwLock(writers, readers) => writers + readers,
        }
    }

    fn load(self, asked: &Locks, length: Duration) -> Load {
        let (writers, readers, locks) = match self {
            Self::Mutex(threads) => (threads, 0, 1),
            Self::RwLock(writers, readers) => (writers, readers, 1),
            Self::Many(threads, locks) | Self::Lot(threads, locks) => (threads, 0, locks),
        };
        let yields = matches!(self, Self::Many(..));
        let (inside, between) = (asked.work_per_critical_section, asked.work_between_critical_sections);
        let lot = matches!(self, Self::Lot(..));
        Load { writers, readers, locks, inside, between, lot, yields, length }
    }
}

impl Workload for Locks {
    const NAME: &'static str = "locks";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  target         parking_lot; live: parking_lot over this engine; std: the standard library (--targets kernel)
  case           mutex; rwlock with writers and readers; many-locks: on `futexes` mutexes; lot: the parking lot below
                 the locks, looking up keys without parked threads
  work_per_critical_section, work_between_critical_sections   steps of work
  ns_per_op      {p10, median, p90} of one lock and unlock as a thread sees it; ops_per_sec of all threads
  cpu_ns_per_op  the same in CPU time of all threads
  ratio_parking_lot, ratio_cpu_parking_lot   this row's times divided by parking_lot's: the median over the rounds
Cargo builds the programs when they are first run.",
            "  ufutex bench locks -t 2 --line 0.12",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        flags::targets(self.common.settings(), self.sleeping.targets.as_ref(), Name::VARIANTS)
    }

    /// Its programs must be built first, so it is only in runs that check the bounds.
    fn in_all(all: &All) -> Vec<Self> {
        all.figures.then(|| Locks { threads: all.threads.clone(), ..plain() }).into_iter().collect()
    }

    /// Measures all targets, one sample of each in a round. Each sample is a new process.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        if lab.settings.shared {
            notes.push("left out with -S: its locks are private".to_string());
            return Ok(Vec::new());
        }
        let mut targets = vec![Name::ParkingLot, Name::Live, Name::Kernel];
        targets.retain(|name| lab.settings.targets.contains(name));
        if targets.is_empty() {
            notes.push("left out: only the targets live, parking_lot and kernel (std's locks) have locks".to_string());
        }
        let mut competitors = Vec::new();
        for case in Case::asked(self) {
            // std does not export its parking lot.
            let has = |target: &&Name| **target != Name::Kernel || !matches!(case, Case::Lot(..));
            competitors.extend(targets.iter().filter(has).map(|target| (case, *target)));
        }
        if competitors.is_empty() {
            return Ok(Vec::new());
        }
        let children = match Children::build(self.line, lab.settings.silent) {
            Ok(children) => children,
            Err(error) => {
                notes.push(format!("left out: its programs cannot be built here: {error:#}"));
                return Ok(Vec::new());
            }
        };
        let (rounds, length) = pace(lab, competitors.len());
        let measured = lab.measure(
            &stage(Self::NAME, &competitors),
            rounds,
            &competitors,
            |_, (case, target)| children.sample(*target, &case.load(self, length)),
            (
                |(case, target)| (case.section().into(), text(*target).into(), case.threads()),
                |sample: &Sample| sample.ns_per_op,
            ),
            |_, (case, target), samples| (*case, *target, samples.to_vec()),
        )?;
        for (case, target, samples) in &measured {
            let cpu_ns = samples.iter().map(|sample| sample.cpu_ns_per_op).collect();
            lab.series.put((&cpu(*case), text(*target), case.threads()), cpu_ns);
        }
        Ok(measured.iter().map(|(case, target, samples)| row(lab, self, *case, *target, samples)).collect())
    }

    fn text(&self, rows: &[Row]) -> String {
        rows::table(rows, 2, |row| {
            let target = if row.head.target == "live" { "parking_lot on ufutex" } else { row.head.target };
            let threads = match (row.writers, row.readers) {
                (Some(writers), Some(readers)) => format!("{writers}w {readers}r"),
                _ => row.head.threads.to_string(),
            };
            let mut cells = vec![("target", target.to_string()), ("case", row.case.to_string())];
            cells.extend([("threads", threads), ("locks", row.head.futexes.to_string())]);
            cells.extend(rows::spread("ns/op", &row.ns_per_op, 0));
            cells.push(("/ parking_lot", ratio(row.ratio_parking_lot)));
            cells.push(("CPU ns/op", format!("{:.0}", row.cpu_ns_per_op.median)));
            cells.push(("CPU / parking_lot", ratio(row.ratio_cpu_parking_lot)));
            cells
        })
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::first("lock and unlock, ns", rows, |row| (row.head.threads, row.case, row.writers))
    }
}

/// Section of the CPU times in `Lab::series`.
pub fn cpu(case: Case) -> String {
    format!("{}, CPU", case.section())
}

/// Like [`lab_measure::sample::Pace`], for samples that are processes.
fn pace(lab: &Lab<'_>, competitors: usize) -> (Rounds, Duration) {
    let (budget, settings) = (lab.budget(BUDGET_S), lab.settings);
    let competitors = competitors as u32;
    let fitting = (budget.as_nanos() / ((SAMPLE + OVERHEAD) * competitors).as_nanos()) as usize;
    let rounds = settings.repeat.unwrap_or(fitting.saturating_sub(1).max(ROUNDS_MIN));
    let length = match (settings.repeat, settings.runtime_s) {
        (Some(_), None) => SAMPLE,
        _ => (budget / (competitors * (rounds as u32 + 1))).clamp(SAMPLE_MIN, SAMPLE),
    };
    let limit = settings.repeat.is_none().then_some(budget);
    (Rounds { count: rounds, warm_up: true, limit }, length)
}

fn row(lab: &Lab<'_>, asked: &Locks, case: Case, target: Name, samples: &[Sample]) -> Row {
    let spread = |of: fn(&Sample) -> f64| Spread::of(&samples.iter().map(of).collect::<Vec<_>>());
    let ratio = |section: String| {
        let key = |target: Name| (section.as_str(), text(target), case.threads());
        lab.series.ratio(key(target), key(Name::ParkingLot))
    };
    let (writers, readers) = match case {
        Case::RwLock(writers, readers) => (Some(writers), Some(readers)),
        _ => (None, None),
    };
    Row {
        head: Head {
            futexes: if let Case::Many(_, locks) | Case::Lot(_, locks) = case { locks } else { 1 },
            repeat: samples.len(),
            ..Head::of_rival(lab, Locks::NAME, text(target), case.threads())
        },
        case: case.text(),
        writers,
        readers,
        work_per_critical_section: asked.work_per_critical_section,
        work_between_critical_sections: asked.work_between_critical_sections,
        ns_per_op: spread(|sample| sample.ns_per_op),
        cpu_ns_per_op: spread(|sample| sample.cpu_ns_per_op),
        ops_per_sec: spread(|sample| sample.ops_per_sec).median,
        ratio_parking_lot: ratio(case.section()),
        ratio_cpu_parking_lot: ratio(cpu(case)),
    }
}
