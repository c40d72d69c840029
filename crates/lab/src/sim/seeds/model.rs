//! What models a published figure, and the figures that have been modelled already.

use super::hash::{self, Scheme};
use super::kernel;
use crate::sim::schbench;
use crate::sim::timers::{self, Calls, Design, Test};
use clap::ValueEnum;
use std::collections::HashMap;
use std::fmt;
use ufutex_coherence::Topology;

/// What a futex call of the kernel takes beside the table, in nanoseconds, and never anything else: on this project's machine
/// perf's operation takes 198 ns by the kernel, and 11 on ours (`docs/SIM.md`).
pub const CALL_NS: f64 = 187.0;
/// The same for seeds/003, on a machine and a kernel of 2016: one thread's operation takes 116 ns there, whatever its private
/// table, and 15 on ours in the model of that machine.
const CALL_NS_OF_2016: f64 = 101.0;
/// How much of it reads the program's word, with the bucket locked: `futex_get_value_locked` in the profile of seeds/002.
pub const SHARE_LOCKED: f64 = 0.2162;
/// What hashing for the global table took longer in seeds/003: `jhash2` of four words is 28 steps of a cycle in a row, a
/// product and a shift are 4.
const GLOBAL_HASH_CYCLES: f64 = 24.0;
/// The same for calls on timers: what the kernel takes there less what `scaled` takes without the kernel.
pub const TIMER_CALLS: Calls = Calls { create_ns: 670.0, getoverrun_ns: 167.0, delete_ns: 390.0 };
/// The machine of seeds/004 is not in its text.
const TIMERS_TOPOLOGY: &str = "skylake-2s";
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
        let design = Design::from_str(design, false).expect("a design's name");
        Model::Timers { design, threads, apart, timers, measure }
    }
}

/// Figures that have been modelled.
#[derive(Default)]
pub struct Figures {
    known: HashMap<Model, f64>,
}

impl Figures {
    /// The figure, modelled now if it has not been before.
    pub fn get(&mut self, model: &Model) -> Result<f64, String> {
        if let Some(known) = self.known.get(model) {
            return Ok(*known);
        }
        match *model {
            Model::Hash(case) => {
                let report = hash::run(&case, call(CALL_NS, 0.0));
                self.all_ended(model, report.stuck)?;
                self.known.insert(*model, report.per_second() / (case.threads * case.processes) as f64);
            }
            Model::Kernel(case) => {
                let report = kernel::run(&case, call(CALL_NS_OF_2016, GLOBAL_HASH_CYCLES / given(case.topology).ghz));
                self.all_ended(model, report.stuck)?;
                self.known.insert(*model, report.per_second() / (case.threads * case.processes) as f64);
            }
            Model::Schbench { topology, scheme, buckets } => {
                let report = schbench::run(&schbench_case(topology, scheme, buckets));
                self.all_ended(model, report.stuck)?;
                self.known.insert(*model, report.per_second());
            }
            Model::Timers { design, threads, apart, timers, measure } => {
                self.timers(design, threads, apart, timers, measure)?;
            }
        }
        self.known.get(model).copied().ok_or_else(|| format!("{model:?} was not modelled"))
    }

    fn all_ended(&self, model: &Model, stuck: usize) -> Result<(), String> {
        if stuck > 0 { Err(format!("{stuck} virtual threads of {model:?} never ended")) } else { Ok(()) }
    }

    /// Both calls of a run at once.
    fn timers(
        &mut self,
        design: Design,
        threads: usize,
        apart: bool,
        count: usize,
        measure: Measure,
    ) -> Result<(), String> {
        let test = if measure == Measure::CreateDelete { Test::CreateDelete } else { Test::CreateGetoverrun };
        let topology = given(TIMERS_TOPOLOGY);
        let case = timers::Case { topology, test, design, threads, apart, timers: count, calls: TIMER_CALLS, seed: 1 };
        let (times, _) = timers::run(&case)?;
        let all = [
            (Measure::Create, times.create_ns),
            (Measure::Getoverrun, times.getoverrun_ns),
            (Measure::CreateDelete, times.create_delete_ns),
        ];
        for (measure, time) in all {
            if let Some(time) = time {
                self.known.insert(Model::Timers { design, threads, apart, timers: count, measure }, time);
            }
        }
        Ok(())
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
