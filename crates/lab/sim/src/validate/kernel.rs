//! The kernel's bucket at the time of [private-hash]: a count of waiters and a queued spin lock in one line. The hash
//! of its private tables is linear. With few buckets the queue of the lock dominates, and the engine's lock has another
//! queue, so the engine cannot stand for it.

use super::hash::{Call, Case, WORDS, length, placement};
use crate::words::Words;
use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::topology::Thread;
use ufutex_coherence::{Report, Simulation, Topology, current, memory, objects};
use ufutex_designs_sim::{OwnLine, Spin};

/// The part of `futex_hash_bucket` that a wait on a differing word uses.
#[derive(Default)]
struct Bucket {
    waiters: AtomicU32,
    lock: Spin,
}

/// Buckets of the global table in [private-hash]. Their number does not depend on the machine here.
const GLOBAL_BUCKETS: usize = 65_536;
/// The factor of `hash_64` ([kernel-hash]).
const GOLDEN_RATIO: u64 = 0x61C8_8646_80B5_83EB;
/// Address of the first array of perf, and distance to the next thread's: 1024 words and the 288 bytes that
/// pthread_create(3) allocates after them for thread-local variables, each with malloc's header.
const BASE: u64 = 0x5555_5575_92a0;
const STEP: u64 = 4096 + 16 + 288;
/// A call's time varies by up to this share of its mean. If all calls took the same time, threads that walk a linear
/// hash in step would collide never or always. On this project's machine the standard deviation of successive calls,
/// without the slowest hundredth, was 11 % of the mean. A uniform distribution within a fifth of the mean has that.
const UNEVEN: f64 = 0.2;
/// Number of threads of all runs of a case together, within `RUNS_MIN` and `RUNS_MAX` runs. Each run starts the threads
/// at other words. With this number the rates of 4 and of 8 threads are accurate to half a per cent.
const THREADS: usize = 288;
const RUNS_MIN: usize = 3;
const RUNS_MAX: usize = 72;

/// Runs a case on its machine. An operation is a wait.
pub fn run(case: &Case, topology: &Topology, call: Call) -> Report {
    let topology = without_sleep(topology.clone());
    let runs = (THREADS / (case.threads * case.processes)).clamp(RUNS_MIN, RUNS_MAX);
    let mut all = once(case, &topology, call, 1);
    for run in 1..runs as u64 {
        // The first run did not end, so the others would not either.
        if all.stuck > 0 {
            break;
        }
        all.add(&once(case, &topology, call, 1 + run));
    }
    all
}

fn once(case: &Case, topology: &Topology, call: Call, seed: u64) -> Report {
    objects::forget_all();
    ufutex_designs_sim::prepare();
    let buckets: Vec<OwnLine<Bucket>> =
        memory::by_line(|| (0..all_buckets(case)).map(|_| OwnLine::default()).collect());
    let threads = case.threads * case.processes;
    let words = Words::new(threads, WORDS);
    let simulation = Simulation::new(topology).placement(placement(case, topology, false)).seed(seed);
    simulation.length(length(threads)).run(|thread| {
        let mut number = current::below(WORDS as u64) as usize;
        current::rendezvous();
        while !current::is_over() {
            current::compute(call.before_ns * (1.0 - UNEVEN + 2.0 * UNEVEN * uniform()));
            if case.buckets == 0 {
                current::compute(call.global_ns);
            }
            let bucket = &buckets[bucket(case, thread, number)].0;
            bucket.waiters.fetch_add(1, Ordering::SeqCst);
            {
                let _held = bucket.lock.lock();
                current::compute(call.read_ns);
                assert_eq!(words.host(thread, number).load(Ordering::Relaxed), 0);
            }
            bucket.waiters.fetch_sub(1, Ordering::SeqCst);
            number = (number + 1) % WORDS;
            current::done(1);
        }
    })
}

/// Threads that queue for the lock sleep in the model, and spin in truth. So a sleep takes no time.
fn without_sleep(topology: Topology) -> Topology {
    let none = 0.0;
    let thread = Thread { syscall: none, sleep: none, wake: none, wakeup: none, switch: none, ..topology.thread };
    Topology { thread, ..topology }
}

/// A random number from 0 to 1.
fn uniform() -> f64 {
    const PARTS: u64 = 1 << 20;
    current::below(PARTS) as f64 / PARTS as f64
}

fn all_buckets(case: &Case) -> usize {
    if case.buckets == 0 { GLOBAL_BUCKETS } else { case.processes * case.buckets }
}

fn bucket(case: &Case, thread: usize, number: usize) -> usize {
    let (process, thread) = (thread / case.threads, thread % case.threads);
    if case.buckets == 0 {
        return global(process, thread, number) % GLOBAL_BUCKETS;
    }
    process * case.buckets + private(thread, number, case.buckets)
}

fn address(thread: usize, number: usize) -> u64 {
    BASE + thread as u64 * STEP + number as u64 * 4
}

/// `hash_long`: the upper bits of a product.
fn private(thread: usize, number: usize, buckets: usize) -> usize {
    (address(thread, number).wrapping_mul(GOLDEN_RATIO) >> (64 - buckets.ilog2())) as usize
}

/// Hashes the process and the address. The kernel uses `jhash2`, and any good hash does as well here.
fn global(process: usize, thread: usize, number: usize) -> usize {
    let mixed = (address(thread, number) ^ (process as u64 + 1) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 29) as usize
}
