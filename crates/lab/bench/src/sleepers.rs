//! Threads that sleep on one word until they are requeued or woken: used by `requeue`, `wake-parallel` and `wake -w`.
//!
//! User space cannot see when futex(2) has queued a waiter. perf sleeps for 100 ms and assumes it. Here the threads
//! count themselves before they wait, and a short sleep follows. If a sample then finds too few waiters it is dropped,
//! and the next one sleeps longer.

use crate::rows::{self, Cell as TableCell, Shown};
use crate::{Lab, Ratios};
use anyhow::{Result, bail, ensure};
use lab_measure::pool::Pool;
use lab_measure::sample::Rounds;
use lab_measure::stats::Spread;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Default number of threads that sleep.
pub const THREADS: [usize; 1] = [1000];
/// Assumed time of a sample for each thread: to start, to sleep and to be woken.
const THREAD_GUESS: Duration = Duration::from_micros(25);
/// Sleep between the last thread's count and the sample: at first …
const SETTLE_MIN: Duration = Duration::from_millis(1);
/// … and at most.
const SETTLE_MAX: Duration = Duration::from_millis(128);
/// How often the main thread checks the count.
const POLL: Duration = Duration::from_micros(50);
/// A waiter that sleeps longer than this has been lost by its target.
const LOST: Duration = Duration::from_secs(20);

/// A pool of threads that sleep on one word.
pub struct Sleepers {
    pool: Pool,
    settle: Cell<Duration>,
}

impl Sleepers {
    /// Makes a pool of `threads` threads.
    pub fn new(lab: &Lab<'_>, threads: usize) -> Result<Sleepers> {
        Ok(Sleepers { pool: Pool::new(threads, &lab.cpus)?, settle: Cell::new(SETTLE_MIN) })
    }

    /// Has `threads` threads call `wait`, which returns whether it succeeded, and calls `measure` when they should
    /// sleep. `measure` must wake all of them, and returns `None` if some were not asleep.
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
                    arrived.fetch_add(1, Ordering::AcqRel); // [Lc]
                    wait()
                }
            };
            let mut measured = None;
            let waits = self.pool.run(threads, job, || {
                // [Lc]: the threads are about to sleep. `measure` finds out whether they do.
                while arrived.load(Ordering::Acquire) < threads {
                    std::thread::sleep(POLL);
                }
                std::thread::sleep(self.settle.get());
                measured = measure();
            })?;
            let failed = waits.iter().filter(|well| !**well).count();
            ensure!(failed == 0, "{failed} of {threads} waits had a wrong result");
            if let Some(measured) = measured {
                return Ok(measured);
            }
            if self.settle.get() >= SETTLE_MAX {
                bail!("some of {threads} threads do not sleep {} ms after their calls", self.settle.get().as_millis());
            }
            self.settle.set(2 * self.settle.get());
        }
    }
}

/// Calls `some`, which wakes some sleepers and returns their number, until `left` of them are awake.
pub fn wake_rest(mut left: usize, some: impl Fn() -> usize) {
    let start = Instant::now();
    while left > 0 {
        left = left.saturating_sub(some());
        if left > 0 {
            std::thread::sleep(POLL);
            assert!(start.elapsed() < LOST, "{left} waiters are lost");
        }
    }
}

/// Rounds for samples in which these numbers of threads go to sleep and are woken.
pub fn rounds(lab: &Lab<'_>, budget_s: f64, threads: impl Iterator<Item = usize>) -> Rounds {
    lab.rounds_of(budget_s, threads.map(|threads| THREAD_GUESS * threads as u32 + Duration::from_millis(2)).sum())
}

/// The table. `cells` returns a row's target, its waiters or wakers (`at_once` is their header), its times (`ns`: their
/// header, and the digits) and its ratios.
pub fn text<R: Shown>(
    rows: &[R],
    at_once: &'static str,
    (ns, digits): (&'static str, usize),
    cells: impl Fn(&R) -> (TableCell<'static>, usize, Spread, Ratios),
) -> String {
    rows::table(rows, 1, |row| {
        let (target, number, times, ratios) = cells(row);
        let mut columns = vec![target, ("threads", row.head().threads.to_string()), (at_once, number.to_string())];
        columns.push(rows::buckets(row.head()));
        columns.extend(rows::spread(ns, &times, digits));
        columns.extend(rows::ratios(&ratios));
        columns
    })
}
