//! The model of each published figure, and its constants.

use super::hash::{self, Scheme};
use super::kernel;
use crate::schbench;
use crate::timers::{self, Calls, Design, Test};
use std::fmt;
use std::time::Duration;
use ufutex_coherence::{Report, Topology};

/// Nanoseconds of a kernel futex call beyond the table, in all models but that of 2016. On this project's machine
/// perf's operation takes 198 ns in the kernel and 11 ns in the engine (`docs/SIM.md`).
pub const CALL_NS: f64 = 187.0;
/// Nanoseconds of a futex call beyond the table in [private-hash], on a machine and kernel of 2016. Fitted: with 256
/// private buckets, where threads do not contend, an operation takes 123.9 ns there, averaged over the rows of 1 to 16
/// threads. In the model of that machine 27.4 ns of these are the bucket's.
const CALL_NS_OF_2016: f64 = 96.5;
/// Additional nanoseconds of the same rows with the global table, whose hash does more work. Fitted as well.
const GLOBAL_HASH_NS_OF_2016: f64 = 6.7;
/// The share of a call that reads the program's word with the bucket locked: `futex_get_value_locked` in the profile of
/// [percpu-refs].
pub const SHARE_LOCKED: f64 = 0.2162;
/// Nanoseconds of timer calls beyond the table: what the kernel takes, less what `scaled` takes outside the kernel,
/// both measured on this project's machine.
pub const TIMER_CALLS: Calls = Calls { create_ns: 670.0, getoverrun_ns: 167.0, delete_ns: 390.0 };
/// [timer-hash] does not name its machine. This one is assumed.
const TIMERS_TOPOLOGY: &str = "skylake-2s";
/// Number of runs for a figure of processes that share one lock. How long their loops take depends on the order in
/// which they queue for the lock, near ones after each other or not. An order lasts for thousands of loops.
const QUEUES: u64 = 10;
/// schbench's `-m 4 -t 256`, for a virtual time in which each worker does several requests.
const MESSAGES: usize = 4;
const WORKERS: usize = 256;
const SCHBENCH_NS: u64 = 8_000_000;

/// The figure of `sim timers` that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    Create,
    Getoverrun,
    CreateDelete,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Create => "create",
            Measure::Getoverrun => "getoverrun",
            Measure::CreateDelete => "create and delete",
        })
    }
}

/// The model of a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Operations of a thread in a second.
    Hash(hash::Case),
    /// Operations of a thread in a second with the kernel's bucket of 2016.
    Kernel(hash::Case),
    /// Requests in a second.
    Schbench { topology: &'static str, scheme: Scheme, buckets: usize },
    /// Nanoseconds of a call.
    Timers { design: Design, threads: usize, apart: bool, timers: usize, measure: Measure },
}

impl From<hash::Case> for Model {
    fn from(case: hash::Case) -> Model {
        Model::Hash(case)
    }
}

impl Model {
    /// The modelled machine, and the number of threads.
    pub fn machine(&self) -> String {
        match self {
            Model::Hash(case) | Model::Kernel(case) => {
                format!("{}, {} threads", case.topology, case.threads * case.processes)
            }
            Model::Schbench { topology, .. } => format!("{topology}, {MESSAGES} × {WORKERS} threads"),
            Model::Timers { threads, .. } => format!("{TIMERS_TOPOLOGY}, {threads} threads"),
        }
    }

    /// The model of timers in a design, by the design's name.
    pub fn timers(design: &str, threads: usize, apart: bool, timers: usize, measure: Measure) -> Model {
        let design = design.parse().expect("a design's name");
        Model::Timers { design, threads, apart, timers, measure }
    }

    /// Some models come out of the same runs. Returns the one that stands for all of them.
    pub fn of_its_runs(self) -> Model {
        match self {
            Model::Timers { design, threads, apart, timers, measure: Measure::Getoverrun } => {
                Model::Timers { design, threads, apart, timers, measure: Measure::Create }
            }
            model => model,
        }
    }

    /// Number of simulations for one figure. All take about equally long.
    pub fn runs(self) -> u64 {
        match self {
            Model::Timers { design, apart: true, measure: Measure::CreateDelete, .. } if design.has_one_lock() => {
                QUEUES
            }
            _ => 1,
        }
    }

    /// Makes one run. Returns this model's figure and those of other models from the same run.
    pub fn run(self, seed: u64) -> Result<Vec<(Model, f64)>, String> {
        match self {
            Model::Hash(case) => {
                let report = hash::run(&case, &machine(case.topology), call(CALL_NS, 0.0));
                self.rate(report, case.threads * case.processes)
            }
            Model::Kernel(case) => {
                let call = call(CALL_NS_OF_2016, GLOBAL_HASH_NS_OF_2016);
                let report = kernel::run(&case, &machine(case.topology), call);
                self.rate(report, case.threads * case.processes)
            }
            Model::Schbench { topology, scheme, buckets } => {
                self.rate(schbench::run(&schbench_case(topology, scheme, buckets)), 1)
            }
            Model::Timers { design, threads, apart, timers, measure } => {
                let test = if measure == Measure::CreateDelete { Test::CreateDelete } else { Test::CreateGetoverrun };
                let topology = machine(TIMERS_TOPOLOGY);
                let case = timers::Case { topology, test, design, threads, apart, timers, calls: TIMER_CALLS, seed };
                let (times, _) = timers::run(&case)?;
                let each = [
                    (Measure::Create, times.create_ns),
                    (Measure::Getoverrun, times.getoverrun_ns),
                    (Measure::CreateDelete, times.create_delete_ns),
                ];
                let with = |measure| Model::Timers { design, threads, apart, timers, measure };
                Ok(each.into_iter().filter_map(|(measure, time)| Some((with(measure), time?))).collect())
            }
        }
    }

    /// The operations of each of `threads` threads in a second.
    fn rate(self, report: Report, threads: usize) -> Result<Vec<(Model, f64)>, String> {
        match report.stuck {
            0 => Ok(vec![(self, report.per_second() / threads as f64)]),
            stuck => Err(format!("{stuck} virtual threads never ended")),
        }
    }
}

/// A given machine.
fn machine(name: &str) -> Topology {
    Topology::given(name).expect("a given machine")
}

/// The costs of a call that takes `all_ns` nanoseconds beyond the table.
fn call(all_ns: f64, global_ns: f64) -> hash::Call {
    let read_ns = all_ns * SHARE_LOCKED;
    hash::Call { before_ns: all_ns - read_ns, read_ns, global_ns }
}

fn schbench_case(topology: &str, scheme: Scheme, buckets: usize) -> schbench::Case {
    schbench::Case {
        topology: machine(topology),
        scheme,
        buckets,
        messages: MESSAGES,
        workers: WORKERS,
        call_ns: CALL_NS,
        measured_ns: SCHBENCH_NS,
        seed: 1,
        spin: Duration::ZERO,
    }
}
