//! Worker threads that live through all samples of a workload, and the gate they start and stop at.

use crate::interrupt;
use crate::machine::{self, OwnLine};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// Enough for every job; small, so that thousands of workers fit.
const STACK_BYTES: usize = 256 * 1024;
/// How often the main thread looks whether all workers have started; it sleeps between, the CPUs belong to them.
const START_POLL: Duration = Duration::from_micros(50);

/// No sample is cut below this.
const LEAST: Duration = Duration::from_millis(15);
/// How often somebody who waits at a gate looks before a yield, and how often it yields before it sleeps.
const SPINS: u32 = 1 << 12;
const YIELDS: u32 = 8;

type Task = Box<dyn FnOnce() + Send>;

/// Persistent workers, numbered from 0.
pub struct Pool {
    workers: Vec<Sender<(usize, Task)>>,
    cpus: Vec<usize>,
}

impl Pool {
    /// Starts the workers; job by job they are pinned round-robin to `cpus`.
    pub fn new(threads: usize, cpus: &[usize]) -> Result<Pool> {
        let workers = (0..threads).map(|number| spawn(number, threads)).collect::<Result<_>>()?;
        Ok(Pool { workers, cpus: cpus.to_vec() })
    }

    /// Runs `job(worker)` on the first `threads` workers and `meanwhile` here; the results are in order of the workers.
    pub fn run<R: Send + 'static>(
        &self,
        threads: usize,
        job: impl Fn(usize) -> R + Send + Sync + 'static,
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<R>> {
        self.run_on(threads, &self.cpus, job, meanwhile)
    }

    /// The same, on other CPUs than the pool's own.
    pub fn run_on<R: Send + 'static>(
        &self,
        threads: usize,
        cpus: &[usize],
        job: impl Fn(usize) -> R + Send + Sync + 'static,
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<R>> {
        let job = Arc::new(job);
        let mut results = Vec::new();
        for (number, worker) in self.workers[..threads].iter().enumerate() {
            let (sender, receiver) = mpsc::sync_channel(1);
            results.push(receiver);
            let job = job.clone();
            let task: Task = Box::new(move || {
                // The main thread keeps the receiver until it has the result.
                let _ = sender.send(job(number));
            });
            worker.send((cpus[number % cpus.len()], task)).ok().context("a worker ended early")?;
        }
        meanwhile();
        results.into_iter().map(|result| result.recv().context("a worker ended without a result")).collect()
    }
}

fn spawn(number: usize, threads: usize) -> Result<Sender<(usize, Task)>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new()
        .name(format!("worker {number}"))
        .stack_size(STACK_BYTES)
        .spawn(move || serve(&receiver))
        .with_context(|| format!("cannot start thread {number} of {threads}"))?;
    Ok(sender)
}

fn serve(tasks: &Receiver<(usize, Task)>) {
    let mut pinned_to = None;
    while let Ok((cpu, task)) = tasks.recv() {
        if pinned_to != Some(cpu) {
            machine::pin(cpu);
            pinned_to = Some(cpu);
        }
        task();
    }
}

/// All workers pass together, and stop when told. Each flag has lines of its own.
pub struct Gate {
    parties: usize,
    arrived: OwnLine<AtomicUsize>,
    stop: OwnLine<AtomicBool>,
}

impl Gate {
    /// For this many workers.
    pub fn new(parties: usize) -> Arc<Gate> {
        Arc::new(Gate { parties, arrived: OwnLine::default(), stop: OwnLine::default() })
    }

    /// Spins until all have arrived; yields, and sleeps at last, where there are more threads than CPUs or other work: who
    /// spins keeps the others from arriving.
    pub fn pass_together(&self) {
        self.arrived.0.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.arrived.0.load(Ordering::Acquire) < self.parties {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(SPINS) {
                if spins < YIELDS * SPINS { std::thread::yield_now() } else { std::thread::sleep(START_POLL) }
            }
        }
    }

    /// For the main thread: sleeps until all have passed.
    pub fn sleep_until_passed(&self) {
        while self.arrived.0.load(Ordering::Acquire) < self.parties {
            std::thread::sleep(START_POLL);
        }
    }

    /// For the main thread: lets the workers run for so long, then stops them. The rate of a long sample that the user
    /// cuts short is as good.
    pub fn stop_after(&self, length: Duration) {
        self.sleep_until_passed();
        let least = length.min(LEAST);
        std::thread::sleep(least);
        interrupt::sleep(length - least);
        self.stop.0.store(true, Ordering::Release);
    }

    /// Whether the sample is over.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stop.0.load(Ordering::Acquire)
    }

    /// Ends the sample.
    pub fn stop(&self) {
        self.stop.0.store(true, Ordering::Release);
    }
}
