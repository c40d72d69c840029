//! `locks`: parking_lot's own benchmarks ([parking-lot]), with parking_lot as it is published, with parking_lot on this
//! engine, and with std. Besides: many threads on several locks, where nearly every lock parks somebody.

use super::locks_child::{Children, Load, Sample};
use super::{Lab, Outcome};
use crate::Row;
use crate::settings::{Locks, Settings};
use anyhow::Result;
use lab_measure::sample::{self, Course};
use lab_measure::stats::Spread;
use lab_targets::Name;
use std::time::Duration;

const BUDGET_S: f64 = 12.0;
/// Long enough for a lock that is handed over now and then only.
const SAMPLE: Duration = Duration::from_millis(40);
const SAMPLE_MIN: Duration = Duration::from_millis(1);
/// What a process costs besides.
const OVERHEAD: Duration = Duration::from_millis(3);
const ROUNDS_MIN: usize = 5;

/// Threads on one mutex.
const MUTEX_THREADS: [usize; 3] = [1, 2, 8];
/// Threads that write and read.
const RWLOCK_THREADS: [(usize, usize); 2] = [(1, 1), (2, 6)];
/// Threads on many locks, and how many locks.
const MANY: (usize, usize) = (64, 16);
/// Threads that use the lot alone, for how many locks.
const LOT: (usize, usize) = (2, 1024);

/// Whose locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// parking_lot as it is published.
    ParkingLot,
    /// parking_lot on this engine.
    Ufutex,
    /// The standard library's.
    Std,
}

impl Target {
    /// As in the rows; `live` is the engine's scheme.
    pub fn text(self) -> &'static str {
        match self {
            Self::ParkingLot => Name::ParkingLot.text(),
            Self::Ufutex => Name::Live.text(),
            Self::Std => "std",
        }
    }

    fn name(self) -> Name {
        if self == Self::Ufutex { Name::Live } else { Name::ParkingLot }
    }
}

/// What the threads do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// So many threads on one mutex.
    Mutex(usize),
    /// So many writers and readers on one lock.
    RwLock(usize, usize),
    /// So many threads on so many mutexes, which they choose by chance; whoever has one leaves its CPU to others once.
    Many(usize, usize),
    /// So many threads, each of which has the lot look at the queues of so many locks, chosen by chance, where nobody is
    /// parked: what parking and unparking cost besides sleeping and waking.
    Lot(usize, usize),
}

impl Case {
    /// What all runs measure, and the figures judge.
    pub fn defaults() -> Vec<Case> {
        Self::of(&Locks::default(), &MUTEX_THREADS, MANY.0)
    }

    /// What is asked for.
    fn asked(settings: &Settings) -> Vec<Case> {
        match &settings.threads {
            // Threads of a reader-writer lock are asked for by their own flags.
            Some(threads) => {
                let mut cases: Vec<_> = threads.iter().copied().map(Case::Mutex).collect();
                if let Some((writers, readers)) = settings.locks.writers_readers {
                    cases.push(Case::RwLock(writers, readers));
                }
                let locks = settings.locks.locks.unwrap_or(MANY.1);
                cases.extend(threads.iter().map(|threads| Case::Many(*threads, locks)));
                cases.extend(threads.iter().map(|threads| Case::Lot(*threads, locks)));
                cases
            }
            None => Self::of(&settings.locks, &MUTEX_THREADS, MANY.0),
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

    /// As in the rows.
    pub fn text(self) -> &'static str {
        match self {
            Self::Mutex(_) => "mutex",
            Self::RwLock(..) => "rwlock",
            Self::Many(..) => "many-locks",
            Self::Lot(..) => "lot",
        }
    }

    /// The section in the series.
    pub fn section(self) -> String {
        match self {
            Self::Mutex(_) => "locks mutex".to_string(),
            Self::RwLock(writers, readers) => format!("locks rwlock {writers}+{readers}"),
            Self::Many(_, locks) => format!("locks many {locks}"),
            Self::Lot(_, locks) => format!("locks lot {locks}"),
        }
    }

    /// All of them.
    pub fn threads(self) -> usize {
        match self {
            Self::Mutex(threads) | Self::Many(threads, _) | Self::Lot(threads, _) => threads,
            Self::RwLock(writers, readers) => writers + readers,
        }
    }

    fn load(self, settings: &Settings, length: Duration) -> Load {
        let (writers, readers, locks) = match self {
            Self::Mutex(threads) => (threads, 0, 1),
            Self::RwLock(writers, readers) => (writers, readers, 1),
            Self::Many(threads, locks) | Self::Lot(threads, locks) => (threads, 0, locks),
        };
        let yields = matches!(self, Self::Many(..));
        let (inside, between) = (settings.locks.inside, settings.locks.between);
        let lot = matches!(self, Self::Lot(..));
        Load { writers, readers, locks, inside, between, lot, yields, length }
    }
}

/// Measures all targets, interleaved, each sample in a process of its own.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let settings = lab.settings;
    let (targets, mut notes) = targets(settings);
    let cases = Case::asked(settings);
    let mut competitors = Vec::new();
    for case in cases {
        // std has no lot that others could use.
        let has = |target: &&Target| **target != Target::Std || !matches!(case, Case::Lot(..));
        competitors.extend(targets.iter().filter(has).map(|target| (case, *target)));
    }
    if competitors.is_empty() {
        return Ok(Outcome { rows: Vec::new(), notes });
    }
    let children = match Children::build(settings) {
        Ok(children) => children,
        Err(error) => {
            notes.push(format!("left out: its programs cannot be built here: {error:#}"));
            return Ok(Outcome { rows: Vec::new(), notes });
        }
    };
    let (course, length) = pace(lab, competitors.len());
    let progress = lab.progress(&format!("locks: {} rows, {} rounds", competitors.len(), course.rounds), course.rounds);
    let samples = sample::rounds(course, competitors.len(), &progress, |number| {
        let (case, target) = competitors[number];
        children.sample(target, &case.load(settings, length))
    })?;
    drop(progress);
    for ((case, target), samples) in competitors.iter().zip(&samples) {
        let put = |series: &mut lab_measure::series::Series, section: String, of: fn(&Sample) -> f64| {
            series.put((&section, target.text(), case.threads()), samples.iter().map(of).collect());
        };
        put(&mut lab.series, case.section(), |sample| sample.ns_per_op);
        put(&mut lab.series, cpu(*case), |sample| sample.cpu_ns_per_op);
    }
    let rows = competitors.iter().zip(&samples).map(|((case, target), samples)| row(lab, *case, *target, samples));
    Ok(Outcome { rows: rows.collect(), notes })
}

/// The section of the same samples' CPU time.
pub fn cpu(case: Case) -> String {
    format!("{}, CPU", case.section())
}

/// `--targets`, as far as they have locks; std is there unless others are asked for.
fn targets(settings: &Settings) -> (Vec<Target>, Vec<String>) {
    let has = |name| settings.targets.contains(&name);
    let mut targets = Vec::new();
    if has(Name::ParkingLot) {
        targets.push(Target::ParkingLot);
    }
    if has(Name::Live) {
        targets.push(Target::Ufutex);
    }
    if has(Name::Kernel) {
        // Whose locks are a word and futex(2).
        targets.push(Target::Std);
    }
    let notes = if targets.is_empty() {
        vec!["left out: only live, parking_lot and kernel (std's locks) have such locks".to_string()]
    } else {
        Vec::new()
    };
    (targets, notes)
}

/// As [`sample::Pace`], for processes.
fn pace(lab: &Lab<'_>, competitors: usize) -> (Course, Duration) {
    let (budget, settings) = (lab.budget(BUDGET_S), lab.settings);
    let competitors = competitors as u32;
    let fitting = (budget.as_nanos() / ((SAMPLE + OVERHEAD) * competitors).as_nanos()) as usize;
    let rounds = settings.repeat.unwrap_or(fitting.saturating_sub(1).max(ROUNDS_MIN));
    let length = match (settings.repeat, settings.runtime_s) {
        (Some(_), None) => SAMPLE,
        _ => (budget / (competitors * (rounds as u32 + 1))).clamp(SAMPLE_MIN, SAMPLE),
    };
    let limit = settings.repeat.is_none().then_some(budget);
    (Course { rounds, warm_up: true, limit }, length)
}

fn row(lab: &Lab<'_>, case: Case, target: Target, samples: &[Sample]) -> Row {
    let locks = &lab.settings.locks;
    let spread = |of: fn(&Sample) -> f64| Spread::of(&samples.iter().map(of).collect::<Vec<_>>());
    let ratio = |section: String| {
        let key = |target: Target| (section.as_str(), target.text(), case.threads());
        lab.series.ratio(key(target), key(Target::ParkingLot))
    };
    let readers_writers = match case {
        Case::RwLock(writers, readers) => (Some(writers), Some(readers)),
        _ => (None, None),
    };
    Row {
        target: target.text(),
        futexes: if let Case::Many(_, locks) | Case::Lot(_, locks) = case { locks } else { 1 },
        layout: None,
        case: Some(case.text()),
        writers: readers_writers.0,
        readers: readers_writers.1,
        work_per_critical_section: Some(locks.inside),
        work_between_critical_sections: Some(locks.between),
        ns_per_op: Some(spread(|sample| sample.ns_per_op)),
        cpu_ns_per_op: Some(spread(|sample| sample.cpu_ns_per_op)),
        ops_per_sec: Some(spread(|sample| sample.ops_per_sec).median),
        ratio_parking_lot: ratio(case.section()),
        ratio_cpu_parking_lot: ratio(cpu(case)),
        repeat: samples.len(),
        ..Row::new(lab, "locks", target.name(), case.threads())
    }
}
