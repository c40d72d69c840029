//! What is measured: tests, sizes, threads and processes; and what of it ends up under which name.

use super::super::Lab;
use lab_targets::timers::{Load, Name, Test, Times, pending_signals_max};
use std::fmt;

/// Timers of a thread.
const TIMERS: [usize; 2] = [20_000, 100_000];
/// How often a timer is created and deleted.
const LOOPS: usize = 100_000;
/// Timers that are armed.
const ARMED: usize = 100_000;
/// Timers that expire within a second.
const EXPIRING: usize = 100_000;
/// Sparse IDs: how many, and how far apart. The two numbers are those of [timer-hash].
const SPARSE: (usize, usize) = (2048, 512);
/// From so many steps along chains on, the reader is told before a sample.
const LONG_STEPS: f64 = 1e9;
/// Buckets of the designs with chains, roughly.
const BUCKETS: f64 = 512.0;

/// One test at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// What is measured.
    pub test: Test,
    /// Of each thread.
    pub timers: usize,
    /// Of each process.
    pub threads: usize,
    /// How many.
    pub processes: usize,
    /// From an ID to the next, where the caller chooses them.
    pub sparse: Option<usize>,
}

impl Case {
    /// A test in one process.
    pub fn of(test: Test, timers: usize, threads: usize) -> Case {
        Case { test, timers, threads, processes: 1, sparse: None }
    }

    /// Those with sparse IDs that every run has.
    pub fn sparse() -> Case {
        Case { sparse: Some(SPARSE.1), ..Case::of(Test::CreateGetoverrun, SPARSE.0, 1) }
    }

    /// Those that every run has, unless others are asked for.
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

    /// What is asked for.
    pub fn asked(lab: &Lab<'_>, notes: &mut Vec<String>) -> Vec<Case> {
        let settings = lab.settings;
        let asked = &settings.timers;
        let sizes = [&settings.number, &settings.threads, &asked.processes];
        if sizes.iter().all(|size| size.is_none()) && asked.sparse.is_none() {
            let mut cases = Case::defaults();
            cases.retain(|case| asked.tests.contains(&case.test));
            if lab.cpus.len() < 2 && cases.iter().any(|case| case.threads > 1) {
                notes.push("2 threads are skipped: this process may use one CPU only".to_string());
                cases.retain(|case| case.threads == 1);
            }
            return cases;
        }
        let threads = settings.threads.as_deref().unwrap_or(&[1]);
        let processes = asked.processes.as_deref().unwrap_or(&[1]);
        let mut cases = Vec::new();
        for test in asked.tests.iter().copied() {
            let default = match test {
                Test::CreateGetoverrun if asked.sparse.is_some() => &[SPARSE.0],
                Test::CreateGetoverrun => &TIMERS[..1],
                Test::CreateDelete => &[LOOPS],
                Test::Settime => &[ARMED],
                Test::Expire => &[EXPIRING],
            };
            for timers in settings.number.as_deref().unwrap_or(default).iter().copied() {
                for (threads, processes) in threads.iter().flat_map(|t| processes.iter().map(|p| (*t, *p))) {
                    let sparse = asked.sparse;
                    cases.push(Case { test, timers, threads, processes, sparse });
                }
            }
        }
        cases
    }

    /// Whether this target is not measured here; then also why, where the reader would not know.
    pub fn refuses(&self, name: Name) -> Option<Option<String>> {
        let all = self.timers * self.threads * self.processes;
        match (name, self.test) {
            (Name::Ours, Test::Expire) if self.threads * self.processes > 1 => {
                Some(Some(format!("{self} left out: one process expires timers, and no thread of it waits for them")))
            }
            (Name::Ours, Test::Expire) => None,
            (_, Test::Expire) => Some(Some("expire: ours alone".to_string())),
            (Name::GlobalLock | Name::Precheck | Name::Scaled | Name::Radix, Test::Settime) => {
                Some(Some("settime: ours and the kernel alone arm timers; the other targets are tables".to_string()))
            }
            (Name::Kernel, _) if self.sparse.is_some() => {
                Some(Some("kernel, sparse IDs left out: what its table takes cannot be seen".to_string()))
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

    /// What a thread of it does.
    pub fn load(&self, thread: usize) -> Load {
        let Case { test, timers, threads, sparse, .. } = *self;
        Load { test, timers, sparse, thread, threads }
    }

    /// Whether a sample of this target takes long, since its chains are.
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

/// A number that a sample has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// timer_create, in ns.
    Create,
    /// timer_getoverrun.
    Getoverrun,
    /// timer_delete.
    Delete,
    /// timer_settime.
    Settime,
    /// Both together.
    CreateDelete,
    /// Of the tables.
    TableBytes,
    /// Of all.
    Bytes,
    /// How late one in a hundred was, in us.
    Late,
    /// Timers that never expired.
    Lost,
}

impl Measure {
    /// Those that go into the series.
    pub const ALL: [Measure; 9] = [
        Measure::Create,
        Measure::Getoverrun,
        Measure::Delete,
        Measure::Settime,
        Measure::CreateDelete,
        Measure::TableBytes,
        Measure::Bytes,
        Measure::Late,
        Measure::Lost,
    ];

    /// Of one sample; none where its test does not have it.
    pub fn of(self, sample: &Times) -> Option<f64> {
        match self {
            Measure::Create => sample.create_ns,
            Measure::Getoverrun => sample.getoverrun_ns,
            Measure::Delete => sample.delete_ns,
            Measure::Settime => sample.settime_ns,
            Measure::CreateDelete => sample.create_delete_ns,
            Measure::TableBytes => sample.bytes.map(|bytes| bytes.table as f64),
            Measure::Bytes => sample.bytes.map(|bytes| bytes.all as f64),
            Measure::Late => sample.lateness.and_then(|lateness| lateness.p99),
            Measure::Lost => sample.lateness.map(|lateness| lateness.lost as f64),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Measure::Create => "create",
            Measure::Getoverrun => "getoverrun",
            Measure::Delete => "delete",
            Measure::Settime => "settime",
            Measure::CreateDelete => "create+delete",
            Measure::TableBytes => "table bytes",
            Measure::Bytes => "bytes",
            Measure::Late => "lateness p99",
            Measure::Lost => "lost",
        }
    }
}

/// The section in the series; the last part of a key is the threads of a process.
pub fn section(measure: Measure, case: &Case) -> String {
    let one_thread = Case { threads: 1, ..*case };
    format!("timers {}: {one_thread}", measure.text())
}
