//! What threads do: as in parking_lot's own benchmarks, some work with the lock and some without, in turn.

use crate::lock::Lock;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A sample.
pub struct Shape {
    /// Threads that lock to write.
    pub writers: u32,
    /// Threads that lock to read.
    pub readers: u32,
    /// One for all threads; or several, and each time one of them by chance.
    pub locks: u32,
    /// Steps of work with the lock.
    pub inside: u32,
    /// Steps of work between two locks.
    pub between: u32,
    /// Whether whoever has a lock leaves its CPU to others once: then nearly everybody has to park.
    pub yields: bool,
    pub length: Duration,
}

pub struct Done {
    /// Locks with their unlocks, of all threads.
    pub operations: u64,
    pub time: Duration,
}

/// A lock on two cache lines of its own.
#[repr(align(128))]
struct Alone<L>(L);

pub fn run<L: Lock>(shape: &Shape) -> Done {
    let locks: Vec<Alone<L>> = (0..shape.locks).map(|_| Alone(L::new())).collect();
    let threads = shape.writers + shape.readers;
    let (start, stop) = (Barrier::new(threads as usize + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (locks, start, stop) = (&locks, &start, &stop);
        let thread = |number: u32| {
            scope.spawn(move || {
                start.wait();
                if number < shape.writers {
                    repeat(shape, locks, number, stop, |lock, value| {
                        lock.write(|shared| *shared += inside(shape, value));
                    })
                } else {
                    repeat(shape, locks, number, stop, |lock, value| {
                        lock.read(|shared| *value += *shared + inside(shape, value));
                    })
                }
            })
        };
        let threads: Vec<_> = (0..threads).map(thread).collect();
        start.wait();
        let began = Instant::now();
        std::thread::sleep(shape.length);
        stop.store(true, Relaxed);
        let time = began.elapsed();
        let operations = threads.into_iter().map(|thread| thread.join().expect("nobody panics")).sum();
        Done { operations, time }
    })
}

/// Locks until it is told to stop; answers how often.
fn repeat<L: Lock>(
    shape: &Shape,
    locks: &[Alone<L>],
    number: u32,
    stop: &AtomicBool,
    lock: impl Fn(&L, &mut f64),
) -> u64 {
    let (mut operations, mut value) = (0, f64::from(number));
    let mut random = u64::from(number) + 1;
    while !stop.load(Relaxed) {
        lock(&choose(locks, &mut random).0, &mut value);
        step(shape.between, &mut value);
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
    // Xorshift.
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    &all[(*random >> 32) as usize % all.len()]
}

/// What is done with the lock.
#[inline]
fn inside(shape: &Shape, value: &mut f64) -> f64 {
    if shape.yields {
        std::thread::yield_now();
    }
    step(shape.inside, value)
}

/// So many steps, each of which needs the one before.
#[inline]
fn step(steps: u32, value: &mut f64) -> f64 {
    for _ in 0..steps {
        *value = black_box(*value) * 0.99 + 1.0;
    }
    *value
}
