//! What models a published figure.

use super::hash::{self, Scheme};
use super::kernel;
use crate::schbench;
use crate::timers::{self, Calls, Design, Test};
use std::fmt;
use ufutex_coherence::{Report, Topology};

/// What a futex call of the kernel takes beside the table, in nanoseconds, and never anything else: on this project's machine
/// perf's operation takes 198 ns by the kernel, and 11 on ours (`docs/SIM.md`).
pub const CALL_NS: f64 = 187.0;
/// What a futex call takes beside the table in [private-hash], on a machine and a kernel of 2016. Fitted: with 256
/// private buckets, where nobody waits, an operation takes 123.9 ns there on the average of the rows of 1 to 16
/// threads, and 27.4 of them are the bucket's in the model of that machine.
const CALL_NS_OF_2016: f64 = 96.5;
/// What the same rows take longer with the global table, whose hash has more to do. Fitted as well.
const GLOBAL_HASH_NS_OF_2016: f64 = 6.7;
/// The share of a call that reads the program's word with the bucket locked: `futex_get_value_locked` in the profile of
/// [percpu-refs].
pub const SHARE_LOCKED: f64 = 0.2162;
/// The same for calls on timers: what the kernel takes there less what `scaled` takes without the kernel.
pub const TIMER_CALLS: Calls = Calls { create_ns: 670.0, getoverrun_ns: 167.0, delete_ns: 390.0 };
/// [timer-hash] does not name its machine. This one is assumed.
const TIMERS_TOPOLOGY: &str = "skylake-2s";
/// With one lock for all, how long processes take for their loop is decided by the order in which they queue, near ones after
/// each other or not, and the order lasts for thousands of loops: several runs, each with its own, are one figure.
const QUEUES: u64 = 10;
/// schbench's `-m 4 -t 256`, for a virtual time in which each worker has several requests.
const MESSAGES: usize = 4;
const WORKERS: usize = 256;
const SCHBENCH_NS: u64 = 8_000_000;

/// What of `sim timers` a figure is.
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

/// What stands for a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Operations of a thread in a second.
    Hash(hash::Case),
    /// The same of the kernel's own bucket, of 2016.
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
    /// Whose latencies, and how many threads.
    pub fn machine(&self) -> String {
        match self {
            Model::Hash(case) | Model::Kernel(case) => {
                format!("{}, {} threads", case.topology, case.threads * case.processes)
            }
            Model::Schbench { topology, .. } => format!("{topology}, {MESSAGES} × {WORKERS} threads"),
            Model::Timers { threads, .. } => format!("{TIMERS_TOPOLOGY}, {threads} threads"),
        }
    }

    /// Timers by a design's name.
    pub fn timers(design: &str, threads: usize, apart: bool, timers: usize, measure: Measure) -> Model {
        let design = design.parse().expect("a design's name");
        Model::Timers { design, threads, apart, timers, measure }
    }

    /// The one of those that come out of the same runs which stands for all of them.
    pub fn of_its_runs(self) -> Model {
        match self {
            Model::Timers { design, threads, apart, timers, measure: Measure::Getoverrun } => {
                Model::Timers { design, threads, apart, timers, measure: Measure::Create }
            }
            model => model,
        }
    }

    /// How many simulations of about the same length are one figure.
    pub fn runs(self) -> u64 {
        match self {
            Model::Timers { design, apart: true, measure: Measure::CreateDelete, .. } if design.has_one_lock() => {
                QUEUES
            }
            _ => 1,
        }
    }

    /// One of its runs: its figure, and others that come with it.
    pub fn run(self, seed: u64) -> Result<Vec<(Model, f64)>, String> {
        match self {
            Model::Hash(case) => self.rate(hash::run(&case, call(CALL_NS, 0.0)), case.threads * case.processes),
            Model::Kernel(case) => {
                let report = kernel::run(&case, call(CALL_NS_OF_2016, GLOBAL_HASH_NS_OF_2016));
                self.rate(report, case.threads * case.processes)
            }
            Model::Schbench { topology, scheme, buckets } => {
                self.rate(schbench::run(&schbench_case(topology, scheme, buckets)), 1)
            }
            Model::Timers { design, threads, apart, timers, measure } => {
                let test = if measure == Measure::CreateDelete { Test::CreateDelete } else { Test::CreateGetoverrun };
                let topology = given(TIMERS_TOPOLOGY);
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

    /// Operations in a second, of each of so many threads.
    fn rate(self, report: Report, threads: usize) -> Result<Vec<(Model, f64)>, String> {
        match report.stuck {
            0 => Ok(vec![(self, report.per_second() / threads as f64)]),
            stuck => Err(format!("{stuck} virtual threads never ended")),
        }
    }
}

/// A call of so many nanoseconds beside the table.
fn call(all_ns: f64, global_ns: f64) -> hash::Call {
    let read_ns = all_ns * SHARE_LOCKED;
    hash::Call { before_ns: all_ns - read_ns, read_ns, global_ns }
}

fn schbench_case(topology: &str, scheme: Scheme, buckets: usize) -> schbench::Case {
    schbench::Case {
        topology: given(topology),
        scheme,
        buckets,
        messages: MESSAGES,
        workers: WORKERS,
        call_ns: CALL_NS,
        measured_ns: SCHBENCH_NS,
        seed: 1,
    }
}

fn given(topology: &str) -> Topology {
    Topology::given(topology).expect("a given machine")
}
