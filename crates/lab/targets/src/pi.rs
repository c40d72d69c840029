//! perf's `lock-pi`: locks and unlocks by the calls alone, without a C library's fast path in user space.

use super::Futex;
use super::loops::Tally;
use lab_measure::clock;
use lab_measure::pool::Gate;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Pairs of lock and unlock between two checks of the stop flag, if no thread sleeps with the lock.
const BATCH: usize = 64;

/// Locks and unlocks until the gate is stopped. `hold` is the time that a thread sleeps with the lock, as in perf.
pub fn hammer<F: Futex>(futex: &F, lock: &AtomicU32, hold: Option<Duration>, gate: &Gate) -> Tally {
    let task = futex.task();
    let batch = if hold.is_some() { 1 } else { BATCH };
    let mut failed = repeat(futex, lock, &task, hold, 1);
    gate.pass_together();
    let (start, on_cpu) = (Instant::now(), clock::thread_cpu_time());
    let mut operations = 0;
    while operations == 0 || !gate.stopped() {
        failed += repeat(futex, lock, &task, hold, batch);
        operations += batch as u64;
    }
    let (on_cpu, end) = (clock::thread_cpu_time() - on_cpu, Instant::now());
    Tally { operations, start, end, on_cpu, failed }
}

/// Locks and unlocks `times` times. Returns the number of failures.
#[inline(never)]
fn repeat<F: Futex>(futex: &F, lock: &AtomicU32, task: &F::Task, hold: Option<Duration>, times: usize) -> u64 {
    let mut failed = 0;
    for _ in 0..times {
        let locked = futex.lock_pi(lock, task);
        if let Some(hold) = hold {
            std::thread::sleep(hold);
        }
        failed += u64::from(!locked || !futex.unlock_pi(lock, task));
    }
    failed
}
