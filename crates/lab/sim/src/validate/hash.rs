//! perf's `hash` ([perf-bench]) on the machines of the published figures. Each thread waits on its own words, which
//! hold another value. So an operation reaches its bucket, locks it, compares the word, and unlocks the bucket.

use crate::engine::{self, Domain, Waited, Wanted};
use crate::settings;
use crate::words::Words;
pub use lab_targets::Layout;
use lab_targets::Policy;
use std::cell::Cell;
use std::time::Duration;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex_coherence::{Length, Report, Simulation, Topology, current};

/// How an operation reaches its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// Never resized: nothing is counted.
    Fixed,
    /// One shared reference count.
    Atomic,
    /// A reference count for each CPU.
    #[strum(serialize = "percpu")]
    PerCpu,
    /// Per-CPU counts while a resize waits for zero, which never comes.
    Stalled,
    /// The engine's `live`.
    Live,
}

impl Scheme {
    /// The engine's scheme.
    pub fn of_table(self) -> settings::Scheme {
        match self {
            Self::Fixed => settings::Scheme::Fixed,
            Self::Atomic => settings::Scheme::Atomic,
            Self::PerCpu | Self::Stalled => settings::Scheme::Percpu,
            Self::Live => settings::Scheme::Live,
        }
    }
}

/// Costs of a kernel call beyond the table.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Nanoseconds before the table is reached.
    pub before_ns: f64,
    /// Nanoseconds to read the program's word with the bucket locked.
    pub read_ns: f64,
    /// Additional nanoseconds to hash for the global table, in the kernel of `kernel.rs`.
    pub global_ns: f64,
}

/// The parameters of one simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// The name of the machine.
    pub topology: &'static str,
    /// Threads of each process.
    pub threads: usize,
    /// Number of processes. Each has its threads on a socket of its own.
    pub processes: usize,
    pub scheme: Scheme,
    pub layout: Layout,
    /// Buckets of each process. 0 means the namespace's global table.
    pub buckets: usize,
}

impl Case {
    /// One process with lean buckets and a table that is never resized.
    pub const fn new(topology: &'static str, threads: usize, buckets: usize) -> Case {
        Case { topology, threads, processes: 1, scheme: Scheme::Fixed, layout: Layout::Lean, buckets }
    }

    /// Changes the scheme.
    pub const fn by(self, scheme: Scheme) -> Case {
        Case { scheme, ..self }
    }

    /// Changes the layout.
    pub const fn of(self, layout: Layout) -> Case {
        Case { layout, ..self }
    }

    /// Changes the number of processes.
    pub const fn processes(self, processes: usize) -> Case {
        Case { processes, ..self }
    }
}

/// Words of each thread: perf's default.
pub const WORDS: usize = 1024;
/// Operations of a thread that are not measured: once through its words. The first of them makes the table.
const WARM: usize = WORDS;
/// Measured operations of a thread.
const MEASURED: usize = 256;
/// Size of the table before the resize that stalls: the kernel's size for two threads.
const STALLED_BUCKETS: usize = 16;

/// Runs a case on its machine. An operation is a wait.
pub fn run(case: &Case, topology: &Topology, call: Call) -> Report {
    let threads = case.threads * case.processes;
    let words = Words::as_if_by_line(threads, WORDS).read_ns(call.read_ns);
    let domains = domains(case, topology.cpus());
    let stalls = case.scheme == Scheme::Stalled;
    let (warm, is_begun) = (Cell::new(0), Cell::new(false));
    let simulation = Simulation::new(topology).placement(placement(case, topology, stalls)).seed(1);
    simulation.length(length(threads)).run(|thread| {
        current::rendezvous();
        if thread == threads {
            // Begins when the table exists and is in use. `is_over` ends the attempt.
            while warm.get() < threads * WARM / 2 {
                current::nap(1_000);
            }
            is_begun.set(true);
            let _ = domains[0].set_slots_while(case.buckets, &mut || !current::is_over());
            return;
        }
        let domain = &domains[thread / case.threads];
        let mut number = 0;
        while !current::is_over() {
            current::compute(call.before_ns);
            let waited = domain.wait(words.word(thread, number), 1);
            assert_eq!(waited, Waited::Differs, "the word is 0");
            number = (number + 1) % WORDS;
            warm.set(warm.get() + 1);
            if stalls && thread == 0 && !is_begun.get() && warm.get() >= threads * WARM / 2 {
                // Lets the resizing thread begin, which may share this core.
                current::yield_now();
            }
            current::done(1);
        }
    })
}

/// The warm-up and the measured operations of `threads` threads.
pub fn length(threads: usize) -> Length {
    Length::Operations { warm_up: (threads * WARM) as u64, measured: (threads * MEASURED) as u64 }
}

/// Makes a domain for each process, in one system.
fn domains(case: &Case, cpus: usize) -> Vec<Box<dyn Domain>> {
    let buckets = if case.scheme == Scheme::Stalled { STALLED_BUCKETS } else { case.buckets };
    let (scheme, policy) = (case.scheme.of_table(), Policy::Fixed(buckets));
    let wanted = Wanted { scheme, policy, early_return: false, spin: Duration::ZERO, seed: 7, cpus };
    engine::make(case.layout, wanted, case.processes).expect("a valid configuration")
}

/// The threads of one process fill the machine core by core, hyper-threads last. Several processes have a socket each.
pub fn placement(case: &Case, topology: &Topology, stalls: bool) -> Vec<u16> {
    let (cores, per_socket) = (topology.cores(), topology.cores() / topology.sockets);
    let cpu = |process: usize, thread: usize| {
        if case.processes == 1 {
            return (thread % topology.cpus()) as u16;
        }
        let first = process % topology.sockets * per_socket;
        (first + thread % per_socket + thread / per_socket % topology.threads_per_core * cores) as u16
    };
    let number = |number: usize| cpu(number / case.threads, number % case.threads);
    let mut cpus: Vec<u16> = (0..case.processes * case.threads).map(number).collect();
    if stalls {
        // The resizing thread has a core of its own, if there is one.
        cpus.push((cpus.len() % topology.cpus()) as u16);
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_differ_where_they_say_they_do() {
        let call = Call { before_ns: 5.0, read_ns: 0.0, global_ns: 0.0 };
        let topology = Topology::given("epyc-9d64").expect("a given machine");
        let [lean, packed, split] = [Layout::Lean, Layout::Packed, Layout::Split]
            .map(|layout| run(&Case::new("epyc-9d64", 16, 256).by(Scheme::Live).of(layout), &topology, call));
        let back = |report: &Report| {
            let of = report.hot.iter().filter(|hot| (hot.place.object, hot.place.field) == ("Bucket", "priv"));
            of.map(|hot| report.per_operation(hot.hitm())).sum::<f64>()
        };
        assert!(back(&packed) > 0.0, "{:?}", packed.hot);
        assert_eq!(back(&lean) + back(&split), 0.0);
        assert!(packed.counts.loads * lean.operations > lean.counts.loads * packed.operations);
    }
}
