//! The kernel's own bucket, as it was when [private-hash] was measured: a count of waiters and a queued spin lock in
//! one line, and the hash of its private table, which is linear. What its few buckets cost is the queue of that lock,
//! and ours is another one.

use super::hash::{Call, Case, WORDS, length, placement};
use crate::words::Words;
use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::topology::Thread;
use ufutex_coherence::{Report, Simulation, Topology, current, memory, objects};
use ufutex_designs_sim::{OwnLine, Spin};

/// `futex_hash_bucket` as far as a wait that ends at once goes.
#[derive(Default)]
struct Bucket {
    waiters: AtomicU32,
    lock: Spin,
}

/// Buckets of the global table, whatever the machine: the number in [private-hash].
const GLOBAL_BUCKETS: usize = 65_536;
/// The factor of `hash_64` ([kernel-hash]).
const GOLDEN_RATIO: u64 = 0x61C8_8646_80B5_83EB;
/// Where perf's arrays may begin, and from one thread's to the next: its 1024 words and what pthread_create(3) allocates
/// after them for the thread's own variables, each with what the C library puts before it.
const BASE: u64 = 0x5555_5575_92a0;
const STEP: u64 = 4096 + 16 + 288;
/// How far the time of a call may be off its mean, as a share of that. Threads that walk a linear hash in step would never
/// meet, or always. Measured on this project's machine: the standard deviation of calls one after the other is 11 % of their
/// mean without the slowest hundredth, as that of a time which may be anywhere within a fifth.
const UNEVEN: f64 = 0.2;
/// Runs, each with threads that begin elsewhere in their words, until there were so many threads, which is what makes the rates
/// of 4 and of 8 threads good to half a per cent; and how many at least and at most.
const THREADS: usize = 288;
const RUNS_MIN: usize = 3;
const RUNS_MAX: usize = 72;

/// Operations of all threads in a virtual second.
pub fn run(case: &Case, call: Call) -> Report {
    let runs = (THREADS / (case.threads * case.processes)).clamp(RUNS_MIN, RUNS_MAX);
    let mut all = once(case, call, 1);
    for run in 1..runs as u64 {
        // Given up: the others would be, too.
        if all.stuck > 0 {
            break;
        }
        all.add(&once(case, call, 1 + run));
    }
    all
}

fn once(case: &Case, call: Call, seed: u64) -> Report {
    objects::forget_all();
    ufutex_designs_sim::prepare();
    let buckets: Vec<OwnLine<Bucket>> =
        memory::by_line(|| (0..all_buckets(case)).map(|_| OwnLine::default()).collect());
    let threads = case.threads * case.processes;
    let words = Words::new(threads, WORDS);
    let topology = without_sleep(case.topology);
    let simulation = Simulation::new(&topology).placement(placement(case, &topology, false)).seed(seed);
    simulation.length(length(threads)).run(|thread| {
        let mut number = current::below(WORDS as u64) as usize;
        current::rendezvous();
        while !current::is_over() {
            current::compute(call.before_ns * (1.0 - UNEVEN + 2.0 * UNEVEN * share()));
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

/// Who queues for the lock sleeps in the model, and spins in truth: it must take no time.
fn without_sleep(name: &str) -> Topology {
    let topology = Topology::given(name).expect("a given machine");
    let none = 0.0;
    let thread = Thread { syscall: none, sleep: none, wake: none, wakeup: none, switch: none, ..topology.thread };
    Topology { thread, ..topology }
}

/// From 0 to 1 by chance.
fn share() -> f64 {
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

/// Of the process's address and the word's: `jhash2`, in place of which any good hash will do.
fn global(process: usize, thread: usize, number: usize) -> usize {
    let mixed = (address(thread, number) ^ (process as u64 + 1) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 29) as usize
}
