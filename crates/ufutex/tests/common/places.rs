//! Leaked domains, tasks and words, so that a thread that is never woken does not use freed memory.

use std::sync::atomic::AtomicU32;

use ufutex::{Domain, Task};

use super::domains::domain;

pub type Word = &'static AtomicU32;

pub fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub fn lasting_domain() -> &'static Domain {
    forever(domain())
}

/// A leaked task.
pub fn lasting_task(domain: &Domain, tid: u32) -> &'static Task {
    forever(domain.task(tid).expect("the TID is free"))
}

/// Words that hold 0, each in a cache line of its own.
pub fn words<const N: usize>() -> [Word; N] {
    #[repr(align(64))]
    struct Line(AtomicU32);
    [(); N].map(|()| &forever(Line(AtomicU32::new(0))).0)
}

/// Words of one cache line, which hash to one bucket.
pub fn neighbours<const N: usize>() -> [Word; N] {
    #[repr(align(64))]
    struct Line<const N: usize>([AtomicU32; N]);
    forever(Line([const { AtomicU32::new(0) }; N])).0.each_ref()
}

/// Pairs of words, in one bucket and in most likely different buckets.
pub fn pairs() -> [[Word; 2]; 4] {
    [neighbours(), words(), words(), words()]
}
