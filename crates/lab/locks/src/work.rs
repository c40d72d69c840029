//! The work of the threads. As in parking_lot's own benchmarks, each thread works with the lock and without it in turn.

use crate::lock::Lock;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The parameters of a sample.
pub struct Parameters {
    /// Threads that lock for writing.
    pub writers: u32,
    /// Threads that lock for reading.
    pub readers: u32,
    /// Number of locks. If there are several, a thread picks one at random each time.
    pub locks: u32,
    /// Steps of work with the lock held.
    pub inside: u32,
    /// Steps of work between an unlock and the next lock.
    pub between: u32,
    /// Whether a thread yields its CPU once with the lock held. Then nearly all threads have to park.
    pub yields: bool,
    pub length: Duration,
}

pub struct Done {
    /// Pairs of lock and unlock, of all threads.
    pub operations: u64,
    pub time: Duration,
}

/// A lock on two cache lines of its own, because CPUs may prefetch lines in pairs.
#[repr(align(128))]
struct OwnLines<L>(L);

pub fn run<L: Lock>(parameters: &Parameters) -> Done {
    let locks: Vec<OwnLines<L>> = (0..parameters.locks).map(|_| OwnLines(L::new())).collect();
    let threads = parameters.writers + parameters.readers;
    let (start, stop) = (Barrier::new(threads as usize + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (locks, start, stop) = (&locks, &start, &stop);
        let thread = |number: u32| {
            scope.spawn(move || {
                start.wait();
                if number < parameters.writers {
                    repeat(parameters, locks, number, stop, |lock, value| {
                        lock.write(|shared| *shared += inside(parameters, value));
                    })
                } else {
                    repeat(parameters, locks, number, stop, |lock, value| {
                        lock.read(|shared| *value += *shared + inside(parameters, value));
                    })
                }
            })
        };
        let threads: Vec<_> = (0..threads).map(thread).collect();
        start.wait();
        let began = Instant::now();
        std::thread::sleep(parameters.length);
        stop.store(true, Relaxed);
        let time = began.elapsed();
        let operations = threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum();
        Done { operations, time }
    })
}

/// Locks and unlocks until `stop` is set. Returns the number of pairs.
fn repeat<L: Lock>(
    parameters: &Parameters,
    locks: &[OwnLines<L>],
    number: u32,
    stop: &AtomicBool,
    lock: impl Fn(&L, &mut f64),
) -> u64 {
    let (mut operations, mut value) = (0, f64::from(number));
    let mut random = u64::from(number) + 1;
    while !stop.load(Relaxed) {
        lock(&choose(locks, &mut random).0, &mut value);
        step(parameters.between, &mut value);
        operations += 1;
    }
    black_box(value);
    operations
}

#[inline]
fn choose<'l, T>(all: &'l [T], random: &mut u64) -> &'l T {
    if all.len() == 1 {
        return &all[0];
    }
    // Xorshift with 64 bits.
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    &all[(*random >> 32) as usize % all.len()]
}

/// The work with the lock held.
#[inline]
fn inside(parameters: &Parameters, value: &mut f64) -> f64 {
    if parameters.yields {
        std::thread::yield_now();
    }
    step(parameters.inside, value)
}

/// Does `steps` steps, each of which depends on the result of the one before.
#[inline]
fn step(steps: u32, value: &mut f64) -> f64 {
    for _ in 0..steps {
        *value = black_box(*value) * 0.99 + 1.0;
    }
    *value
}
