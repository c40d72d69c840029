//! Runs of models. Two packages compile this file.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config as ShuttleConfig, FailurePersistence, MaxSteps, Runner};

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
