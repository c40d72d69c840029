//! Shared by the models: their exploration, the test that a mutant is caught, and the smallest system to run in.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::apart;
use loom::sync::Arc;
use loom::thread::JoinHandle;
use ufutex_loom::model::{AtomicU32, Mutant, Ordering, with_mutant};
use ufutex_loom::{
    Access, Clock, Domain, DomainOptions, Error, Fault, Key, Queued, Scheme, System, SystemConfig, Target, Timeout,
    WaitOptions, Waiter,
};

/// The preemptions of [`check_pair`].
pub const PAIR: usize = 3;
/// The preemptions of [`check`].
pub const TRIO: usize = 2;
/// The preemptions of [`check_crowd`].
pub const CROWD: usize = 1;

/// Explores the interleavings with at most two preemptions, or with as many as `UFUTEX_MODEL_BOUND` sets.
pub fn check(model: impl Fn() + Sync + Send + 'static) {
    explore(asked_bound().unwrap_or(TRIO), model);
}

/// Like [`check`], with up to three preemptions, for models of two threads, and for one of three that needs them.
pub fn check_pair(model: impl Fn() + Sync + Send + 'static) {
    explore(asked_bound().unwrap_or(PAIR), model);
}

/// Like [`check`], with one preemption, for models of three threads with much to do.
pub fn check_crowd(model: impl Fn() + Sync + Send + 'static) {
    explore(asked_bound().unwrap_or(CROWD), model);
}

fn asked_bound() -> Option<usize> {
    asked("UFUTEX_MODEL_BOUND")
}

/// The number in an environment variable.
fn asked<N: std::str::FromStr>(name: &str) -> Option<N> {
    std::env::var(name).ok()?.parse().ok()
}

/// Explores `model`. If `UFUTEX_MODEL_SECONDS` is set, stops after that time and prints how far it has come, for
/// `.ci/models-deep`.
fn explore(bound: usize, model: impl Fn() + Sync + Send + 'static) {
    if explored_apart() {
        return;
    }
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.max_branches = 20_000;
    let Some(limit) = asked("UFUTEX_MODEL_SECONDS").map(Duration::from_secs) else { return builder.check(model) };
    builder.max_duration = Some(limit);
    builder.checkpoint_interval = 100; // the time is looked at as often
    let executions = std::sync::Arc::new(AtomicU64::new(0));
    let (counted, begin) = (executions.clone(), Instant::now());
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let (executions, took) = (executions.load(Relaxed), begin.elapsed());
    let end = if took < limit { "finished" } else { "cut off" };
    eprintln!("\nexplored: bound {bound}, {end}, {executions} executions, {:.1} s", took.as_secs_f64());
}

/// Runs the calling test in a child process, unless this process is that child. Returns `true` in the parent, where the
/// models must then not be explored. Why: loom maps and unmaps a stack for each thread of each execution, and in a
/// process with other running threads each of these calls waits for them. On 2 CPUs all tests would take half as long
/// again.
fn explored_apart() -> bool {
    std::thread_local! {
        static EXPLORED: Cell<bool> = const { Cell::new(false) };
    }
    if apart::is_apart() {
        return false;
    }
    if !EXPLORED.replace(true) {
        let thread = std::thread::current();
        let (status, printed) = apart::run(thread.name().expect("a test's thread has the name of the test"));
        assert!(status.success(), "{printed}");
        eprint!("{printed}");
    }
    true
}

/// Makes a test that `$model` fails with `$mutant` in the engine, and not only by running for ever. `$bound` is the number of
/// preemptions with which the model is explored without the mutant: a model that fails with more may be wrong itself.
macro_rules! catches {
    ($test:ident, $mutant:ident, $bound:expr, $model:expr) => {
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            $crate::support::assert_catches(name, ufutex_loom::model::Mutant::$mutant, $bound, $model);
        }
    };
}

/// Makes a test that with `$mutant` in the engine a thread of `$model` loops for ever.
macro_rules! hangs {
    ($test:ident, $mutant:ident, $bound:expr, $model:expr) => {
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            $crate::support::assert_hangs(name, ufutex_loom::model::Mutant::$mutant, $bound, $model);
        }
    };
}

pub(crate) use {catches, hangs};

/// The body of [`catches`].
pub fn assert_catches(test: &str, mutant: Mutant, bound: usize, model: fn()) {
    let Some(output) = run_apart(test, mutant, bound, model) else { return };
    assert!(!output.contains(ENDLESS), "the broken engine only runs for ever:\n{output}");
}

/// The body of [`hangs`].
pub fn assert_hangs(test: &str, mutant: Mutant, bound: usize, model: fn()) {
    let Some(output) = run_apart(test, mutant, bound, model) else { return };
    assert!(output.contains(ENDLESS), "the broken engine fails in another way:\n{output}");
}

/// A part of loom's message for a model in which a thread loops for ever.
const ENDLESS: &str = "maximum number of branches";

/// Runs `model` with `mutant` in a process of its own, which must fail. Returns its output.
fn run_apart(test: &str, mutant: Mutant, bound: usize, model: fn()) -> Option<String> {
    apart::run_apart(test, || {
        // From few preemptions to many, because fewer are explored faster.
        let most = asked_bound().unwrap_or(bound);
        with_mutant(mutant, || (1..=most).for_each(|bound| explore(bound, model)));
    })
}

/// A deadline that a model does not wait for: a thread that would sleep until then times out at once.
pub const NEVER: Timeout = Timeout::At(Clock::Monotonic, Duration::MAX);

/// A wait until [`NEVER`].
pub fn some_time() -> WaitOptions {
    WaitOptions::new().timeout(NEVER)
}

/// A futex word whose address, and so its bucket, is the same in each run of a model.
pub struct Word {
    value: AtomicU32,
    address: u64,
}

impl Word {
    /// A word at `address` that holds 0.
    pub fn at(address: u64) -> Self {
        Self { value: AtomicU32::new(0), address }
    }

    /// The value of the word, for a thread that no other thread races with.
    pub fn value(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    /// A relaxed store: its order before the emptiness check is the engine's task.
    pub fn store(&self, value: u32) {
        self.value.store(value, Ordering::Relaxed);
    }
}

impl Key for &Word {
    fn address(&self) -> u64 {
        self.address
    }
}

impl Target for &Word {
    type Value = u32;

    fn load(&self) -> Result<u32, Fault> {
        Ok(self.value.load(Ordering::Acquire))
    }
    fn compare_exchange(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        Ok(self.value.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire))
    }
    fn fault_in(&self, _access: Access) -> Result<(), Fault> {
        Ok(())
    }
}

/// Found by trying: in a table of two slots this word is in the other bucket than the first word.
pub const OTHER: u64 = 0x10c0;

/// A domain without a table, and two words that are in different buckets of a table of two slots.
pub struct World {
    pub domain: Domain,
    pub word: Word,
    pub other: Word,
}

impl World {
    /// Makes a world whose domain will make a table of two slots.
    pub fn new() -> Self {
        Self::of(Scheme::Live)
    }

    /// As [`new`](Self::new), on a scheme.
    pub fn of(scheme: Scheme) -> Self {
        Self::with_options(DomainOptions::new().scheme(scheme))
    }

    fn with_options(options: DomainOptions) -> Self {
        let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
        let system = System::with_config(config).expect("the models' configuration is valid");
        let domain = Domain::with_options(&system, options.early_return(false));
        Self { domain, word: Word::at(0x1000), other: Word::at(OTHER) }
    }

    /// Makes a world whose threads spin before they sleep.
    pub fn spinning() -> Arc<Self> {
        let world = Self::with_options(DomainOptions::new().spin(Duration::from_micros(1)));
        world.domain.set_slots(2).expect("a table can be made");
        Arc::new(world)
    }

    /// Makes a world with a table of `slots` slots, or with the global table if `slots` is 0.
    pub fn with_slots(slots: usize) -> Arc<Self> {
        Self::with_slots_of(Scheme::Live, slots)
    }

    /// As [`with_slots`](Self::with_slots), on a scheme.
    pub fn with_slots_of(scheme: Scheme, slots: usize) -> Arc<Self> {
        let world = Self::of(scheme);
        world.domain.set_slots(slots).expect("a table can be made");
        Arc::new(world)
    }

    /// Stores 1 and wakes one waiter. Returns the number of woken waiters.
    pub fn store_and_wake(&self) -> usize {
        self.word.store(1);
        self.domain.wake(&self.word, 1)
    }

    /// Queues `waiter` if the word holds 0. It does not sleep: `Queued::is_woken` shows later whether it was woken.
    pub fn queue<'w, 'd>(&'d self, waiter: std::pin::Pin<&'w mut Waiter<'d>>) -> Result<Queued<'w, 'd>, Error> {
        self.domain.prepare_with(waiter, &self.word, 0, &WaitOptions::new(), Waker::noop().clone())
    }
}

/// Starts a thread that resizes the table to these sizes, one after the other.
pub fn resize(world: &Arc<World>, sizes: &'static [usize]) -> JoinHandle<()> {
    let world = world.clone();
    loom::thread::spawn(move || {
        for &slots in sizes {
            world.domain.set_slots(slots).expect("a table can be made");
        }
    })
}

/// Asserts that after one wait and one wake the waiter saw the new value, or the waker saw the waiter.
pub fn assert_not_lost(queued: Result<Queued<'_, '_>, Error>, woken: usize) {
    match queued {
        Ok(mut queued) => {
            assert_eq!(woken, 1, "the waiter is queued, and the waker saw nobody");
            assert!(queued.is_woken());
            assert!(!queued.cancel());
        }
        Err(error) => {
            assert_eq!(error, Error::Again);
            assert_eq!(woken, 0);
        }
    }
}
