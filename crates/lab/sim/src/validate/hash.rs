//! perf's `hash` ([perf-bench]) on the machines of the published figures: every thread waits on words of its own that
//! hold another value, so that what an operation does is to reach its bucket, lock it, look, and unlock it.

use crate::words::Words;
use std::cell::Cell;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex_coherence::{Length, Report, Simulation, Topology, current, memory, objects};
use ufutex_sim::layout::{Layout as TableLayout, Lean, Packed, Split};
use ufutex_sim::scheme::{Atomic, Fixed, Live, PerCpu, Scheme as TableScheme};
use ufutex_sim::{Config, Domain, Error, Options, Policy, System};

/// How an operation reaches its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// Never resized: nothing is counted.
    Fixed,
    /// One count for all.
    Atomic,
    /// A count for each CPU.
    #[strum(serialize = "percpu")]
    PerCpu,
    /// The same while a resize waits for a count of zero, which never comes.
    Stalled,
    /// Ours.
    Live,
}

/// What a bucket looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// A line, and nothing in it that only finds the table.
    Lean,
    /// A line with the table's address in it.
    Packed,
    /// A line for the lock, one for the chain.
    Split,
}

/// What a call of the kernel takes beside the table.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Before it gets there.
    pub before_ns: f64,
    /// To read the program's word, with the bucket locked.
    pub read_ns: f64,
    /// More to hash for the global table, in the kernel of `kernel.rs`.
    pub global_ns: f64,
}

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Where, by its name.
    pub topology: &'static str,
    /// Threads of each process.
    pub threads: usize,
    /// Processes; each has its threads on a socket of its own.
    pub processes: usize,
    pub scheme: Scheme,
    pub layout: Layout,
    /// Buckets of each process; 0: those of the system's global table.
    pub buckets: usize,
}

impl Case {
    /// One process with lean buckets and an immutable table.
    pub const fn new(topology: &'static str, threads: usize, buckets: usize) -> Case {
        Case { topology, threads, processes: 1, scheme: Scheme::Fixed, layout: Layout::Lean, buckets }
    }

    /// With another scheme.
    pub const fn by(self, scheme: Scheme) -> Case {
        Case { scheme, ..self }
    }

    /// With another layout.
    pub const fn of(self, layout: Layout) -> Case {
        Case { layout, ..self }
    }

    /// With so many processes.
    pub const fn processes(self, processes: usize) -> Case {
        Case { processes, ..self }
    }
}

/// perf's: words of each thread.
pub const WORDS: usize = 1024;
/// Operations of a thread before: once through its words. The table is made in them.
const WARM: usize = WORDS;
/// Operations of a thread that are measured.
const MEASURED: usize = 256;
/// How large the table is for which the resize that stalls was begun late: what the kernel makes for two threads.
const STALLED_BUCKETS: usize = 16;

/// Operations of all threads in a virtual second.
pub fn run(case: &Case, call: Call) -> Report {
    match case.layout {
        Layout::Lean => with_layout::<Lean>(case, call),
        Layout::Packed => with_layout::<Packed>(case, call),
        Layout::Split => with_layout::<Split>(case, call),
    }
}

fn with_layout<L: TableLayout>(case: &Case, call: Call) -> Report {
    match case.scheme {
        Scheme::Fixed => simulate::<Fixed, L>(case, call),
        Scheme::Atomic => simulate::<Atomic, L>(case, call),
        Scheme::PerCpu | Scheme::Stalled => simulate::<PerCpu, L>(case, call),
        Scheme::Live => simulate::<Live, L>(case, call),
    }
}

fn simulate<S: TableScheme<L>, L: TableLayout>(case: &Case, call: Call) -> Report {
    let topology = Topology::given(case.topology).expect("a given machine");
    let threads = case.threads * case.processes;
    let words = Words::as_if_by_line(threads, WORDS).read_ns(call.read_ns);
    let domains = domains::<S, L>(case, topology.cpus());
    let stalls = case.scheme == Scheme::Stalled;
    let (warm, is_begun) = (Cell::new(0), Cell::new(false));
    let simulation = Simulation::new(&topology).placement(placement(case, &topology, stalls)).seed(1);
    simulation.length(length(threads)).run(|thread| {
        current::rendezvous();
        if thread == threads {
            // Begun when the table is there and in use; whoever else can go on is told by `is_over`.
            while warm.get() < threads * WARM / 2 {
                current::nap(1_000);
            }
            is_begun.set(true);
            let _ = domains[0].set_slots_while(case.buckets, || !current::is_over());
            return;
        }
        let domain = &domains[thread / case.threads];
        let mut number = 0;
        while !current::is_over() {
            current::compute(call.before_ns);
            let waited = domain.wait(words.word(thread, number), 1);
            assert_eq!(waited, Err(Error::Again), "the word is 0");
            number = (number + 1) % WORDS;
            warm.set(warm.get() + 1);
            if stalls && thread == 0 && !is_begun.get() && warm.get() >= threads * WARM / 2 {
                // It may share a core with whoever resizes, who is to begin now.
                current::yield_now();
            }
            current::done(1);
        }
    })
}

/// So many operations of each thread, warm and measured.
pub fn length(threads: usize) -> Length {
    Length::Operations { warm_up: (threads * WARM) as u64, measured: (threads * MEASURED) as u64 }
}

/// One domain for each process, in one system.
fn domains<S: TableScheme<L>, L: TableLayout>(case: &Case, cpus: usize) -> Vec<Box<Domain<S, L>>> {
    objects::forget_all();
    let buckets = if case.scheme == Scheme::Stalled { STALLED_BUCKETS } else { case.buckets };
    let options = || Options::new().policy(Policy::Fixed(buckets)).early_return(false);
    let domains: Vec<_> = memory::by_line(|| {
        let system = System::<L>::with_config(Config::new().hash_seed(7).cpus(cpus)).expect("a valid configuration");
        (0..case.processes).map(|_| Box::new(Domain::with_options(&system, options()))).collect()
    });
    domains.iter().for_each(|domain| domain.name_objects());
    domains
}

/// Threads of one process fill the machine core by core, siblings last; of several, a socket each.
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
        // Whoever resizes has a core that nobody else uses, if there is one.
        cpus.push((cpus.len() % topology.cpus()) as u16);
    }
    cpus
}
