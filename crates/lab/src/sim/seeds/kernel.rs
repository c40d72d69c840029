//! The kernel's own bucket, as it was when seeds/003 was measured: a count of waiters and a queued spin lock in one line,
//! and the hash of its private table, which is linear. What its few buckets cost is the queue of that lock, and ours is
//! another one.

use super::hash::{Call, Case, Placed};
use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::{Length, Report, current, memory, objects};
use ufutex_designs_sim::{OwnLine, Spin};

/// `futex_hash_bucket` as far as a wait that ends at once goes.
#[derive(Default)]
struct Bucket {
    waiters: AtomicU32,
    lock: Spin,
}

/// The global table's, whatever the machine: what the text has in its columns.
const GLOBAL_BUCKETS: usize = 65_536;
/// `hash_64`'s factor.
const GOLDEN_RATIO: u64 = 0x61C8_8646_80B5_83EB;
/// Where perf's arrays may begin, and from one thread's to the next: 1024 words, and what the C library puts before them.
const BASE: u64 = 0x5555_5575_92a0;
const STEP: u64 = 4096 + 16;

/// Operations of all threads in a virtual second.
pub fn run(case: &Case, call: Call, placed: Placed) -> Report {
    objects::forget_all();
    ufutex_designs_sim::prepare();
    let of_each = if case.buckets == 0 { GLOBAL_BUCKETS } else { case.buckets };
    let tables = if case.buckets == 0 { 1 } else { case.processes };
    let buckets: Vec<OwnLine<Bucket>> =
        memory::by_line(|| (0..tables * of_each).map(|_| OwnLine::default()).collect());
    let words = memory::by_line(|| (0..placed.threads * placed.words).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let length = Length::Operations { warm_up: placed.warm_up, measured: placed.measured };
    placed.simulation.length(length).run(|thread| {
        let process = thread / case.threads;
        let bucket = |number: usize| {
            if case.buckets == 0 {
                return global(process, thread % case.threads, number) % of_each;
            }
            process * of_each + private(thread % case.threads, number, of_each)
        };
        current::rendezvous();
        let mut number = 0;
        while !current::is_over() {
            current::compute(call.before_ns);
            if case.buckets == 0 {
                current::compute(call.global_ns);
            }
            let bucket = &buckets[bucket(number)].0;
            bucket.waiters.fetch_add(1, Ordering::SeqCst);
            {
                let _held = bucket.lock.lock();
                current::compute(call.read_ns);
                assert_eq!(words[thread * placed.words + number].load(Ordering::Relaxed), 0);
            }
            bucket.waiters.fetch_sub(1, Ordering::SeqCst);
            number = (number + 1) % placed.words;
            current::done(1);
        }
    })
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
