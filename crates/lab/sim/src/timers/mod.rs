//! `ufutex sim timers`: the designs of a timer table and ours, on virtual cores.

mod loops;
mod ours;
mod report;

pub use report::print;

use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex_coherence::topology::Thread;
use ufutex_coherence::{Report, Topology, memory};
use ufutex_designs_sim::{Emulated, global_lock, precheck, radix, scaled};

/// The checked settings of `sim timers`.
pub struct Settings {
    pub topology: Topology,
    pub cores: Vec<usize>,
    pub designs: Vec<Design>,
    pub tests: Vec<Test>,
    pub timers: usize,
    pub processes: bool,
    pub kernel: bool,
    pub seed: u64,
    pub silent: bool,
    pub json: bool,
}

/// A design of a timer table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Design {
    /// The engine's table.
    Ours,
    /// One hash, one lock: Linux before 6.15.
    GlobalLock,
    /// One hash, one lock, and a check before it.
    Precheck,
    /// One hash by CPUs, a lock in each bucket: Linux since 6.15.
    Scaled,
    /// A radix tree in each process.
    Radix,
}

impl Design {
    /// All designs, in the order of comparisons.
    pub const ALL: [Design; 5] = [Design::Ours, Design::GlobalLock, Design::Precheck, Design::Scaled, Design::Radix];

    /// Whether all processes share one lock.
    pub fn has_one_lock(self) -> bool {
        matches!(self, Design::GlobalLock | Design::Precheck)
    }

    /// The printed name.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// The modelled test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Test {
    /// Each thread creates its timers, then reads each one's overrun.
    CreateGetoverrun,
    /// Each thread creates and deletes timers in a loop.
    CreateDelete,
}

impl Test {
    /// The printed name.
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// Nanoseconds of a call beyond the table: entry into the kernel and return, memory allocation, and plain instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// timer_create.
    pub create_ns: f64,
    /// timer_getoverrun.
    pub getoverrun_ns: f64,
    /// timer_delete.
    pub delete_ns: f64,
}

/// The parameters of one simulation.
#[derive(Clone, Debug)]
pub struct Case {
    /// The modelled machine.
    pub topology: Topology,
    /// The test.
    pub test: Test,
    /// The design of the table.
    pub design: Design,
    /// Number of virtual threads.
    pub threads: usize,
    /// Whether each thread is in a process of its own.
    pub apart: bool,
    /// Timers of each thread. In `create-delete`, repetitions.
    pub timers: usize,
    /// Costs of calls beyond the table.
    pub calls: Calls,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Average virtual nanoseconds of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// timer_create.
    pub create_ns: Option<f64>,
    /// timer_getoverrun.
    pub getoverrun_ns: Option<f64>,
    /// A timer_create and a timer_delete.
    pub create_delete_ns: Option<f64>,
}

impl Times {
    fn mean(all: &[Times]) -> Times {
        let mean = |of: fn(&Times) -> Option<f64>| {
            let sum: Option<f64> = all.iter().map(of).sum();
            sum.filter(|_| !all.is_empty()).map(|sum| sum / all.len() as f64)
        };
        Times {
            create_ns: mean(|times| times.create_ns),
            getoverrun_ns: mean(|times| times.getoverrun_ns),
            create_delete_ns: mean(|times| times.create_delete_ns),
        }
    }
}

/// Runs a case.
pub fn run(case: &Case) -> Result<(Times, Report), String> {
    ufutex_coherence::objects::forget_all();
    let mut case = case.clone();
    // Threads sleep only to queue for a spin lock. In truth they spin, on cores of their own, so a sleep takes no time.
    case.topology.thread =
        Thread { syscall: 0.0, sleep: 0.0, wake: 0.0, wakeup: 0.0, switch: 0.0, ..case.topology.thread };
    let processes = if case.apart { case.threads } else { 1 };
    match case.design {
        Design::Ours => loops::run(&memory::by_line(|| ours::processes(processes))?, &case),
        Design::GlobalLock => {
            let index = global_lock::Hash::<false>::default;
            loops::run(&memory::by_line(|| Emulated::sharing(index(), processes)), &case)
        }
        Design::Precheck => {
            let index = precheck::Checking::default;
            loops::run(&memory::by_line(|| Emulated::sharing(index(), processes)), &case)
        }
        Design::Scaled => {
            let index = || scaled::Scaled::new(case.topology.cpus());
            loops::run(&memory::by_line(|| Emulated::sharing(index(), processes)), &case)
        }
        Design::Radix => loops::run(&memory::by_line(|| Emulated::apart(radix::Radix::default, processes)), &case),
    }
}
