//! Running a closure on virtual threads.

use std::cell::RefCell;
use std::io;
use std::sync::OnceLock;

use crate::coroutine::VirtualThread;
use crate::current;
use crate::machine::Machine;
use crate::statistics::Report;
use crate::topology::Topology;

static GIVEN_UP: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets a function that ends simulations early, for a program that may be interrupted. All simulations of the program
/// call it again and again. If it returns `true`, they end, and their threads are [`stuck`](Report::stuck). Only the
/// first call of `give_up_when` has an effect.
pub fn give_up_when(asked: fn() -> bool) {
    let _ = GIVEN_UP.set(asked);
}

/// The part of a simulation that is measured. Warming up begins when all threads have met ([`current::rendezvous`]), or
/// with the simulation if they never do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// The whole simulation.
    Whole,
    /// A time in virtual nanoseconds.
    Time {
        /// The time before measuring begins.
        warm_up_ns: u64,
        /// The time that is measured.
        measured_ns: u64,
    },
    /// A number of operations of all threads together.
    Operations {
        /// The operations before measuring begins.
        warm_up: u64,
        /// The operations that are measured.
        measured: u64,
    },
}

/// The settings for a run of virtual threads.
///
/// ```ignore
/// let counter = AtomicU64::new(0);
/// let report = Simulation::new(&Topology::given("epyc-9d64").unwrap())
///     .threads(8)
///     .length(Length::Operations { warm_up: 100, measured: 10_000 })
///     .run(|_thread| {
///         current::rendezvous();
///         while !current::is_over() {
///             counter.fetch_add(1, Relaxed);
///             current::done(1);
///         }
///     });
/// println!("{:.0} additions a second", report.per_second());
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    topology: Topology,
    placement: Vec<u16>,
    seed: u64,
    length: Length,
    limit_ns: u64,
}

impl Simulation {
    /// A simulation on this machine: one thread, seed 0, measured as a whole, for at most a virtual minute.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        Self {
            topology: topology.clone(),
            placement: vec![0],
            seed: 0,
            length: Length::Whole,
            limit_ns: 60_000_000_000,
        }
    }

    /// Runs thread `i` on hardware thread `i`. If there are more threads than hardware threads, they share them.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.placement = (0..threads).map(|thread| (thread % self.topology.cpus()) as u16).collect();
        self
    }

    /// Runs thread `i` on hardware thread `placement[i]`.
    ///
    /// # Panics
    /// If there is no such hardware thread.
    #[must_use]
    pub fn placement(mut self, placement: Vec<u16>) -> Self {
        assert!(
            placement.iter().all(|cpu| usize::from(*cpu) < self.topology.cpus()),
            "a hardware thread beyond the last"
        );
        self.placement = placement;
        self
    }

    /// Sets the seed of all random choices.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets which part is measured.
    #[must_use]
    pub fn length(mut self, length: Length) -> Self {
        self.length = length;
        self
    }

    /// Sets when the simulation is given up, in virtual nanoseconds. Threads that still run then are
    /// [`stuck`](Report::stuck).
    #[must_use]
    pub fn limit_ns(mut self, limit_ns: u64) -> Self {
        self.limit_ns = limit_ns;
        self
    }

    /// Runs `body` on every thread, with the thread's number, until all have ended or none can go on. A thread that
    /// cannot go on never drops what it holds. If there is no memory for all stacks, no thread begins, and all are
    /// [`stuck`](Report::stuck).
    pub fn run(&self, body: impl Fn(usize)) -> Report {
        let machine = RefCell::new(Machine::new(self.topology.clone(), &self.placement, self.seed, self.length));
        let body = &body;
        let thread = |number: usize| {
            // SAFETY: `body` outlives this function, and a thread that has not ended by then never goes on.
            unsafe { VirtualThread::new(Box::new(move || body(number))) }
        };
        let Ok(mut threads) = (0..self.placement.len()).map(thread).collect::<io::Result<Vec<_>>>() else {
            return machine.borrow().report();
        };
        let limit = self.limit_ns.saturating_mul(1000);
        let is_given_up = GIVEN_UP.get().copied().unwrap_or(|| false);
        while !is_given_up()
            && let Some(next) = current::uncounted(|| machine.borrow_mut().next_thread(limit))
        {
            if current::run(&machine, || threads[next].resume()) {
                current::uncounted(|| machine.borrow_mut().end_thread());
            }
        }
        machine.borrow().report()
    }
}
