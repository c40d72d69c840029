//! `locks`: parking_lot's own benchmarks ([parking-lot]) on the published parking_lot, on parking_lot over this engine,
//! and on std's locks. A further case has many threads on several locks, where nearly every lock operation parks a
//! thread.

use crate::locks_child::{Children, Load, Sample};
use crate::{Head, Lab, rows_of};
use anyhow::Result;
use lab_measure::sample::Rounds;
use lab_measure::stats::Spread;
use lab_targets::Name;
use serde::Serialize;
use std::fmt;
use std::time::Duration;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
pub enum Line {
    /// parking_lot 0.12, on core 0.9.
    #[strum(serialize = "0.12")]
    V012,
    /// parking_lot 0.13, on core 0.10.
    #[strum(serialize = "0.13")]
    V013,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

/// Settings of `locks`.
#[derive(Clone, Debug)]
pub struct Locks {
    /// `-t`. `None` means the workload's defaults.
    pub threads: Option<Vec<usize>>,
    /// Writers and readers, if one of their flags is given.
    pub writers_readers: Option<(usize, usize)>,
    /// `--locks`, if given: mutexes of case `many-locks`.
    pub locks: Option<usize>,
    /// Steps of work while the lock is held.
    pub inside: usize,
    /// Steps of work between two locks.
    pub between: usize,
    /// The parking_lot version.
    pub line: Line,
}

impl Default for Locks {
    fn default() -> Self {
        Self { threads: None, writers_readers: None, locks: None, inside: 1, between: 0, line: Line::V013 }
    }
}

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The target. `futexes` is the number of locks.
    #[serde(flatten)]
    pub head: Head,
    /// `mutex`, `rwlock`, `many-locks` or `lot`.
    pub case: &'static str,
    /// `rwlock` only: number of writers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writers: Option<usize>,
    /// `rwlock` only: number of readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<usize>,
    /// Steps of work while the lock is held.
    pub work_per_critical_section: usize,
    /// Steps of work between two locks.
    pub work_between_critical_sections: usize,
    /// Time of one lock and unlock, as a thread sees it.
    pub ns_per_op: Spread,
    /// CPU time of one operation, on all CPUs.
    pub cpu_ns_per_op: Spread,
    /// Rate of all threads together; median over the rounds.
    pub ops_per_sec: f64,
    /// This row's time divided by parking_lot's, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_parking_lot: Option<f64>,
    /// The same ratio for CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_cpu_parking_lot: Option<f64>,
}

/// The library whose locks are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The published parking_lot.
    ParkingLot,
    /// parking_lot over this engine.
    Ufutex,
    /// The standard library.
    Std,
}

impl Target {
    /// The target name in the rows. `live` is the engine's scheme.
    pub fn text(self) -> &'static str {
        match self {
            Self::ParkingLot => Name::ParkingLot.text(),
            Self::Ufutex => Name::Live.text(),
            Self::Std => "std",
        }
    }
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
        Self::of(&Locks::default(), &MUTEX_THREADS, MANY.0)
    }

    /// The requested cases.
    fn asked(asked: &Locks) -> Vec<Case> {
        match &asked.threads {
            // Threads of a reader-writer lock have flags of their own.
            Some(threads) => {
                let mut cases: Vec<_> = threads.iter().copied().map(Case::Mutex).collect();
                if let Some((writers, readers)) = asked.writers_readers {
                    cases.push(Case::RwLock(writers, readers));
                }
                let locks = asked.locks.unwrap_or(MANY.1);
                cases.extend(threads.iter().map(|threads| Case::Many(*threads, locks)));
                cases.extend(threads.iter().map(|threads| Case::Lot(*threads, locks)));
                cases
            }
            None => Self::of(asked, &MUTEX_THREADS, MANY.0),
        }
    }

    fn of(locks: &Locks, mutex: &[usize], many: usize) -> Vec<Case> {
        let mut cases: Vec<_> = mutex.iter().copied().map(Case::Mutex).collect();
        match locks.writers_readers {
            Some((writers, readers)) => cases.push(Case::RwLock(writers, readers)),
            None => cases.extend(RWLOCK_THREADS.map(|(writers, readers)| Case::RwLock(writers, readers))),
        }
        cases.push(Case::Many(many, locks.locks.unwrap_or(MANY.1)));
        cases.push(Case::Lot(LOT.0, locks.locks.unwrap_or(LOT.1)));
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
        let (inside, between) = (asked.inside, asked.between);
        let lot = matches!(self, Self::Lot(..));
        Load { writers, readers, locks, inside, between, lot, yields, length }
    }
}

/// Measures all targets, one sample of each in a round. Each sample is a new process.
pub fn run(lab: &mut Lab<'_>, asked: &Locks, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    if lab.settings.shared {
        notes.push("left out with -S: its locks are private".to_string());
        return Ok(Vec::new());
    }
    let targets = targets(&lab.settings.targets);
    if targets.is_empty() {
        notes.push("left out: only the targets live, parking_lot and kernel (std's locks) have locks".to_string());
    }
    let cases = Case::asked(asked);
    let mut competitors = Vec::new();
    for case in cases {
        // std does not export its parking lot.
        let has = |target: &&Target| **target != Target::Std || !matches!(case, Case::Lot(..));
        competitors.extend(targets.iter().filter(has).map(|target| (case, *target)));
    }
    if competitors.is_empty() {
        return Ok(Vec::new());
    }
    let children = match Children::build(asked.line, lab.settings.silent) {
        Ok(children) => children,
        Err(error) => {
            notes.push(format!("left out: its programs cannot be built here: {error:#}"));
            return Ok(Vec::new());
        }
    };
    let (rounds, length) = pace(lab, competitors.len());
    let progress = lab.progress(&format!("locks: {} rows, {} rounds", competitors.len(), rounds.count), rounds.count);
    let samples = lab.rounds(rounds, competitors.len(), &progress, |number| {
        let (case, target) = competitors[number];
        children.sample(target, &case.load(asked, length))
    })?;
    drop(progress);
    for ((case, target), samples) in competitors.iter().zip(&samples) {
        let put = |series: &mut lab_measure::series::Series, section: String, of: fn(&Sample) -> f64| {
            series.put((&section, target.text(), case.threads()), samples.iter().map(of).collect());
        };
        put(&mut lab.series, case.section(), |sample| sample.ns_per_op);
        put(&mut lab.series, cpu(*case), |sample| sample.cpu_ns_per_op);
    }
    Ok(rows_of(&competitors, &samples, |(case, target), samples| row(lab, asked, *case, *target, samples)))
}

/// Section of the CPU times in `Lab::series`.
pub fn cpu(case: Case) -> String {
    format!("{}, CPU", case.section())
}

/// The targets that have locks.
fn targets(names: &[Name]) -> Vec<Target> {
    // std's locks on Linux use futex(2), so target `kernel` stands for them.
    let all = [(Name::ParkingLot, Target::ParkingLot), (Name::Live, Target::Ufutex), (Name::Kernel, Target::Std)];
    all.into_iter().filter(|(name, _)| names.contains(name)).map(|(_, target)| target).collect()
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

fn row(lab: &Lab<'_>, asked: &Locks, case: Case, target: Target, samples: &[Sample]) -> Row {
    let spread = |of: fn(&Sample) -> f64| Spread::of(&samples.iter().map(of).collect::<Vec<_>>());
    let ratio = |section: String| {
        let key = |target: Target| (section.as_str(), target.text(), case.threads());
        lab.series.ratio(key(target), key(Target::ParkingLot))
    };
    let (writers, readers) = match case {
        Case::RwLock(writers, readers) => (Some(writers), Some(readers)),
        _ => (None, None),
    };
    Row {
        head: Head {
            futexes: if let Case::Many(_, locks) | Case::Lot(_, locks) = case { locks } else { 1 },
            repeat: samples.len(),
            ..Head::of_rival(lab, "locks", target.text(), case.threads())
        },
        case: case.text(),
        writers,
        readers,
        work_per_critical_section: asked.inside,
        work_between_critical_sections: asked.between,
        ns_per_op: spread(|sample| sample.ns_per_op),
        cpu_ns_per_op: spread(|sample| sample.cpu_ns_per_op),
        ops_per_sec: spread(|sample| sample.ops_per_sec).median,
        ratio_parking_lot: ratio(case.section()),
        ratio_cpu_parking_lot: ratio(cpu(case)),
    }
}
