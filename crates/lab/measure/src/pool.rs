//! Worker threads that exist through all samples of a workload, and the gate at which they start and stop together.

use crate::interrupt;
use crate::machine::{self, OwnLine};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// Enough for every job, and small enough for thousands of workers.
const STACK_BYTES: usize = 256 * 1024;
/// How often the main thread checks whether all workers have started. It sleeps in between, to leave the CPUs to them.
const START_POLL: Duration = Duration::from_micros(50);

/// Ctrl-C does not shorten a sample below this.
const LEAST: Duration = Duration::from_millis(15);
/// A worker that waits at a gate yields its CPU each time it has checked this often. After `YIELDS` yields it sleeps.
const SPINS: u32 = 1 << 12;
const YIELDS: u32 = 8;

type Task = Box<dyn FnOnce() + Send>;

/// Persistent worker threads, numbered from 0.
pub struct Pool {
    workers: Vec<Sender<(usize, Task)>>,
    cpus: Vec<usize>,
}

impl Pool {
    /// Starts the workers. Each job pins them round-robin to `cpus`.
    pub fn new(threads: usize, cpus: &[usize]) -> Result<Pool> {
        let workers = (0..threads).map(|number| spawn(number, threads)).collect::<Result<_>>()?;
        Ok(Pool { workers, cpus: cpus.to_vec() })
    }

    /// Runs `job(worker)` on the first `threads` workers, and `meanwhile` on this thread. Returns all results.
    pub fn run<R: Send + 'static>(
        &self,
        threads: usize,
        job: impl Fn(usize) -> R + Send + Sync + 'static,
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<R>> {
        self.run_on(threads, &self.cpus, job, meanwhile)
    }

    /// Like [`Pool::run`], on the given CPUs in place of the pool's.
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
                // The main thread keeps the receiver until it has the result, so the channel is open.
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

/// A gate that all workers pass together, and a flag that stops them. Each has cache lines of its own.
pub struct Gate {
    parties: usize,
    arrived: OwnLine<AtomicUsize>,
    stop: OwnLine<AtomicBool>,
}

impl Gate {
    /// A gate for this many workers.
    pub fn new(parties: usize) -> Arc<Gate> {
        Arc::new(Gate { parties, arrived: OwnLine::default(), stop: OwnLine::default() })
    }

    /// Spins until all workers have arrived. A worker that waits for long yields and then sleeps: if there are more
    /// threads than CPUs, its spinning would delay the ones that it waits for.
    pub fn pass_together(&self) {
        // [La]: what a worker did before the gate happens before what any worker does behind it.
        self.arrived.0.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0u32;
        // [La]
        while self.arrived.0.load(Ordering::Acquire) < self.parties {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(SPINS) {
                if spins < YIELDS * SPINS { std::thread::yield_now() } else { std::thread::sleep(START_POLL) }
            }
        }
    }

    /// For the main thread: sleeps until all workers have passed.
    pub fn sleep_until_passed(&self) {
        // [La]
        while self.arrived.0.load(Ordering::Acquire) < self.parties {
            std::thread::sleep(START_POLL);
        }
    }

    /// For the main thread: lets the workers run for `length`, then stops them. Ctrl-C may shorten that, down to
    /// `LEAST`: a shorter sample still has a valid rate.
    pub fn stop_after(&self, length: Duration) {
        self.sleep_until_passed();
        let least = length.min(LEAST);
        std::thread::sleep(least);
        interrupt::sleep(length - least);
        self.stop.0.store(true, Ordering::Release); // [Lb]
    }

    /// Whether the sample is over.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stop.0.load(Ordering::Acquire) // [Lb]
    }

    /// Ends the sample.
    pub fn stop(&self) {
        self.stop.0.store(true, Ordering::Release); // [Lb]
    }
}
