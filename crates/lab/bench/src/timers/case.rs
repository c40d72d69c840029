//! The cases of `timers` (test, size, threads, processes) and the figures that each one has.

use super::Timers;
use crate::Lab;
use lab_targets::timers::{Load, Name, Test, Times, pending_signals_max};
use std::fmt;
use strum::VariantArray;

/// Default numbers of timers of a thread.
const TIMERS: [usize; 2] = [20_000, 100_000];
/// Default number of create-and-delete loops.
const LOOPS: usize = 100_000;
/// Default number of armed timers.
const ARMED: usize = 100_000;
/// Default number of timers that expire within a second.
const EXPIRING: usize = 100_000;
/// Default of the sparse case: number of IDs and the distance between them, as in [timer-hash].
const SPARSE: (usize, usize) = (2048, 512);
/// A sample with more steps along chains than this is announced.
const LONG_STEPS: f64 = 1e9;
/// Buckets of the designs with chains, roughly.
const BUCKETS: f64 = 512.0;

/// One test at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The test.
    pub test: Test,
    /// Timers of each thread.
    pub timers: usize,
    /// Threads of each process.
    pub threads: usize,
    /// Number of processes.
    pub processes: usize,
    /// Distance between two IDs, if the caller chooses the IDs.
    pub sparse: Option<usize>,
}

impl Case {
    /// A test in one process.
    pub fn of(test: Test, timers: usize, threads: usize) -> Case {
        Case { test, timers, threads, processes: 1, sparse: None }
    }

    /// The sparse case of every run.
    pub fn sparse() -> Case {
        Case { sparse: Some(SPARSE.1), ..Case::of(Test::CreateGetoverrun, SPARSE.0, 1) }
    }

    /// The cases of every run without size flags.
    fn defaults() -> Vec<Case> {
        use Test::{CreateDelete, CreateGetoverrun, Expire, Settime};
        vec![
            Case::of(CreateGetoverrun, TIMERS[0], 1),
            Case::of(CreateGetoverrun, TIMERS[0], 2),
            Case::of(CreateGetoverrun, TIMERS[1], 1),
            Case::sparse(),
            Case::of(CreateDelete, LOOPS, 1),
            Case::of(CreateDelete, LOOPS, 2),
            Case::of(Settime, ARMED, 1),
            Case::of(Expire, EXPIRING, 1),
        ]
    }

    /// The requested cases.
    pub fn asked(lab: &Lab<'_>, asked: &Timers, notes: &mut Vec<String>) -> Vec<Case> {
        let sizes = [&asked.number, &asked.threads, &asked.processes];
        if sizes.iter().all(|size| size.is_none()) && asked.sparse.is_none() {
            let mut cases = Case::defaults();
            cases.retain(|case| asked.tests().contains(&case.test));
            if lab.cpus.len() < 2 && cases.iter().any(|case| case.threads > 1) {
                notes.push("2 threads left out: this process may use only one CPU".to_string());
                cases.retain(|case| case.threads == 1);
            }
            return cases;
        }
        let threads = asked.threads.as_ref().map_or(&[1][..], |threads| threads);
        let processes = asked.processes.as_ref().map_or(&[1][..], |processes| processes);
        let mut cases = Vec::new();
        for test in asked.tests().iter().copied() {
            let default = match test {
                Test::CreateGetoverrun if asked.sparse.is_some() => &[SPARSE.0][..],
                Test::CreateGetoverrun => &TIMERS[..1],
                Test::CreateDelete => &[LOOPS],
                Test::Settime => &[ARMED],
                Test::Expire => &[EXPIRING],
            };
            for timers in asked.number.as_ref().map_or(default, |number| number).iter().copied() {
                for (threads, processes) in threads.iter().flat_map(|t| processes.iter().map(|p| (*t, *p))) {
                    let sparse = asked.sparse;
                    cases.push(Case { test, timers, threads, processes, sparse });
                }
            }
        }
        cases
    }

    /// `None` if this target can be measured. Otherwise `Some` with the reason, if a note should state it.
    pub fn refuses(&self, name: Name) -> Option<Option<String>> {
        let all = self.timers * self.threads * self.processes;
        match (name, self.test) {
            (Name::Ours, Test::Expire) if self.threads * self.processes > 1 => {
                Some(Some(format!("{self} left out: expire has one process and one thread")))
            }
            (Name::Ours, Test::Expire) => None,
            (_, Test::Expire) => Some(Some("expire: only ours is measured".to_string())),
            (Name::GlobalLock | Name::Precheck | Name::Scaled | Name::Radix, Test::Settime) => {
                Some(Some("settime: only ours and kernel arm timers; the other targets are tables".to_string()))
            }
            (Name::Kernel, _) if self.sparse.is_some() => {
                Some(Some("kernel, sparse IDs left out: the size of its table cannot be seen".to_string()))
            }
            (Name::Kernel, Test::CreateGetoverrun | Test::Settime) => {
                let most = pending_signals_max().filter(|most| all > *most)?;
                Some(Some(format!(
                    "kernel, {self} left out: a user may have {most} pending signals and timers (RLIMIT_SIGPENDING)"
                )))
            }
            _ => None,
        }
    }

    /// The work of one thread.
    pub fn load(&self, thread: usize) -> Load {
        let Case { test, timers, threads, sparse, .. } = *self;
        Load { test, timers, sparse, thread, threads }
    }

    /// Whether a sample of this target takes long because of its long chains.
    pub fn is_long(&self, name: Name) -> bool {
        let all = (self.timers * self.threads * self.processes) as f64;
        let has_chains = matches!(name, Name::GlobalLock | Name::Precheck | Name::Scaled);
        has_chains && self.test == Test::CreateGetoverrun && 2.0 * all * all / BUCKETS > LONG_STEPS
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.test, self.timers)?;
        for (count, thing) in [(self.threads, "threads"), (self.processes, "processes")] {
            if count > 1 {
                write!(f, " x {count} {thing}")?;
            }
        }
        self.sparse.map_or(Ok(()), |stride| write!(f, ", {stride} apart"))
    }
}

/// A figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, VariantArray)]
pub enum Measure {
    /// Time of timer_create, in ns.
    Create,
    /// Time of timer_getoverrun, in ns.
    Getoverrun,
    /// Time of timer_delete, in ns.
    Delete,
    /// Time of timer_settime, in ns.
    Settime,
    /// Time of timer_create and timer_delete together, in ns.
    CreateDelete,
    /// Bytes of the tables.
    TableBytes,
    /// Bytes of everything.
    Bytes,
    /// The 99th percentile of the lateness, in us.
    Late,
    /// Number of timers that did not expire.
    Lost,
}

/// A figure in one sample. `None` if the test does not measure it.
type Of = fn(&Times) -> Option<f64>;

impl Measure {
    /// Its name in `Lab::series`, and where it is in a sample.
    fn entry(self) -> (&'static str, Of) {
        match self {
            Measure::Create => ("create", |sample| sample.create_ns),
            Measure::Getoverrun => ("getoverrun", |sample| sample.getoverrun_ns),
            Measure::Delete => ("delete", |sample| sample.delete_ns),
            Measure::Settime => ("settime", |sample| sample.settime_ns),
            Measure::CreateDelete => ("create+delete", |sample| sample.create_delete_ns),
            Measure::TableBytes => ("table bytes", |sample| sample.bytes.map(|bytes| bytes.table as f64)),
            Measure::Bytes => ("bytes", |sample| sample.bytes.map(|bytes| bytes.all as f64)),
            Measure::Late => ("lateness p99", |sample| sample.lateness.and_then(|lateness| lateness.p99)),
            Measure::Lost => ("lost", |sample| sample.lateness.map(|lateness| lateness.lost as f64)),
        }
    }

    /// The figure in each sample that has it.
    pub fn of(self, samples: &[Times]) -> Vec<f64> {
        samples.iter().filter_map(self.entry().1).collect()
    }
}

/// Section of the results in `Lab::series`. The last part of a key is the number of threads of a process.
pub fn section(measure: Measure, case: &Case) -> String {
    let one_thread = Case { threads: 1, ..*case };
    format!("timers {}: {one_thread}", measure.entry().0)
}
