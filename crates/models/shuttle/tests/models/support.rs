//! Shared by the models: their runs, the test that a mutant is caught, and the system to run in.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::{Config as ShuttleConfig, FailurePersistence, MaxSteps, Runner};
use ufutex_shuttle::model::{AtomicU32, Mutant, Ordering, with_mutant};
use ufutex_shuttle::scheme::Scheme;
use ufutex_shuttle::{Access, Clock, Config, Domain, Fault, Key, System, Target, Timeout, WaitOptions};

/// Runs `model` on `schedules` schedules, or on as many as `UFUTEX_MODEL_SCHEDULES` sets: half of them with few
/// preemptions at random points (PCT), half completely random. The schedules are the same each time, unless
/// `SHUTTLE_RANDOM_SEED` is set.
///
/// If `UFUTEX_MODEL_SECONDS` is set, stops after that time and prints how far it has come, for `.ci/models-deep`.
pub fn check(schedules: usize, model: fn()) {
    let schedules = asked("UFUTEX_MODEL_SCHEDULES").unwrap_or(schedules);
    let Some(limit) = asked("UFUTEX_MODEL_SECONDS") else { return run(schedules, config(), model) };
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    let mut config = config();
    config.max_time = Some(Duration::from_secs(limit as u64) / 2);
    let (before, begin) = (EXECUTIONS.load(Relaxed), Instant::now());
    run(schedules, config, move || {
        EXECUTIONS.fetch_add(1, Relaxed);
        model();
    });
    let executions = EXECUTIONS.load(Relaxed) - before;
    let end = if executions >= schedules { "finished" } else { "cut off" };
    eprintln!(
        "\nexplored: {schedules} schedules, {end}, {executions} executions, {:.1} s",
        begin.elapsed().as_secs_f64()
    );
}

/// The number in an environment variable.
fn asked(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn run(schedules: usize, config: ShuttleConfig, model: impl Fn() + Copy + Send + Sync + 'static) {
    const SEED: u64 = 7;
    const PREEMPTIONS: usize = 4;
    Runner::new(PctScheduler::new_from_seed(SEED, PREEMPTIONS, schedules / 2), config.clone()).run(model);
    Runner::new(RandomScheduler::new_from_seed(SEED, schedules / 2), config).run(model);
}

fn config() -> ShuttleConfig {
    let mut config = ShuttleConfig::new();
    config.stack_size = 128 * 1024;
    config.silence_warnings = true;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config
}

/// Makes a test that `$model` fails with `$mutant` in the engine, within `$schedules` schedules: as many as the model is run on
/// without the mutant.
macro_rules! catches {
    ($test:ident, $mutant:ident, $schedules:expr, $model:expr) => {
        #[test]
        fn $test() {
            let name = concat!(module_path!(), "::", stringify!($test));
            let mutant = ufutex_shuttle::model::Mutant::$mutant;
            $crate::support::assert_catches(name, mutant, $schedules, $model);
        }
    };
}

pub(crate) use catches;

/// The body of [`catches`]. The model runs in a process of its own, because a broken engine may do anything.
pub fn assert_catches(test: &str, mutant: Mutant, schedules: usize, model: fn()) {
    const APART: &str = "UFUTEX_MODEL_APART";
    if std::env::var_os(APART).is_some() {
        return with_mutant(mutant, || check(schedules, model));
    }
    let (_, name) = test.split_once("::").expect("a test is in a module");
    let output = Command::new(std::env::current_exe().expect("a test has a file"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(APART, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("a test can run itself");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("running 1 test"), "no test {name}:\n{printed}");
    assert!(!output.status.success(), "the model holds although the engine is broken");
}

/// A futex word whose address is chosen.
pub struct Word {
    pub value: AtomicU32,
    address: u64,
}

impl Word {
    /// A word at `address` that holds 0.
    pub fn at(address: u64) -> Self {
        Self { value: AtomicU32::new(0), address }
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
        Ok(self.value.load(Ordering::SeqCst))
    }
    fn compare_exchange(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        Ok(self.value.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst))
    }
    fn fault_in(&self, _access: Access) -> Result<(), Fault> {
        Ok(())
    }
}

/// A deadline that a model does not wait for: a thread that would sleep until then times out at once.
pub fn some_time() -> WaitOptions {
    WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, Duration::MAX))
}

/// A domain whose first table has two slots, and two words of one cache line, so in one bucket.
pub struct World<S: Scheme> {
    pub domain: Domain<S>,
    pub words: [Word; 2],
}

impl<S: Scheme> World<S> {
    pub fn new() -> Arc<Self> {
        let config = Config::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2);
        let system = System::with_config(config).expect("the models' configuration is valid");
        let domain = Domain::with_options_in(&system, ufutex_shuttle::Options::new());
        // In the first bucket, which a move reaches first. In the second one `GlobalSkipsRecheck` is found too rarely.
        Arc::new(Self { domain, words: [Word::at(0x10c0), Word::at(0x10c4)] })
    }

    /// Resizes the table to these sizes, one after the other.
    pub fn resize(&self, sizes: &[usize]) {
        for &slots in sizes {
            self.domain.set_slots(slots).expect("a table can be made");
        }
    }
}
