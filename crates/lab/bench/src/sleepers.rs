//! Threads that all sleep at one word until they are moved or woken: what `requeue` and `wake-parallel` begin with.
//!
//! From outside nobody sees when futex(2) has queued a waiter. perf sleeps for a tenth of a second and hopes; here the
//! threads say when they are about to wait, a short sleep follows, and a sample that then finds too few of them is
//! thrown away: the next one sleeps longer.

use super::Lab;
use anyhow::{Result, bail, ensure};
use lab_measure::pool::Pool;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// From the call of the last wait until all sleep: at first …
const SETTLE_MIN: Duration = Duration::from_millis(1);
/// … and at most.
const SETTLE_MAX: Duration = Duration::from_millis(128);
/// How often the main thread looks whether all are about to wait.
const POLL: Duration = Duration::from_micros(50);
/// A waiter that sleeps longer than this has been lost by its target.
const LOST: Duration = Duration::from_secs(20);

/// The threads.
pub struct Sleepers {
    pool: Pool,
    settle: Cell<Duration>,
}

impl Sleepers {
    /// Up to so many.
    pub fn new(lab: &Lab<'_>, threads: usize) -> Result<Sleepers> {
        Ok(Sleepers { pool: Pool::new(threads, &lab.cpus)?, settle: Cell::new(SETTLE_MIN) })
    }

    /// Has `threads` threads call `wait`, which says whether it went well, and `measure` when they sleep. That answers
    /// nothing where they did not all, and lets them all go in any case.
    pub fn sample<R>(
        &self,
        threads: usize,
        wait: impl Fn() -> bool + Clone + Send + Sync + 'static,
        measure: impl Fn() -> Option<R>,
    ) -> Result<R> {
        loop {
            let arrived = Arc::new(AtomicUsize::new(0));
            let job = {
                let (arrived, wait) = (arrived.clone(), wait.clone());
                move |_worker: usize| {
                    arrived.fetch_add(1, Ordering::AcqRel);
                    wait()
                }
            };
            let mut measured = None;
            let waits = self.pool.run(threads, job, || {
                while arrived.load(Ordering::Acquire) < threads {
                    std::thread::sleep(POLL);
                }
                std::thread::sleep(self.settle.get());
                measured = measure();
            })?;
            let failed = waits.iter().filter(|well| !**well).count();
            ensure!(failed == 0, "{failed} of {threads} waits did not end as they must");
            if let Some(measured) = measured {
                return Ok(measured);
            }
            if self.settle.get() >= SETTLE_MAX {
                bail!("{threads} threads do not all sleep {} ms after their calls", self.settle.get().as_millis());
            }
            self.settle.set(2 * self.settle.get());
        }
    }
}

/// Repeats `some`, which lets some of the sleepers go and answers how many, until as many as `left` have gone.
pub fn let_go(mut left: usize, some: impl Fn() -> usize) {
    let start = Instant::now();
    while left > 0 {
        left = left.saturating_sub(some());
        if left > 0 {
            std::thread::sleep(POLL);
            assert!(start.elapsed() < LOST, "{left} waiters are lost");
        }
    }
}
