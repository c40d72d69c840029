//! Threads on all CPUs lock one mutex, and are preempted whenever a tick comes, also while they hold it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;

use ufutex::{DomainOptions, System};

use crate::cpu::{self, CPUS};
use crate::guest::{PAGES, Process};
use crate::{say, scheduler};

const MUTEX: u64 = PAGES;
const COUNT: u64 = PAGES + 64;

const THREADS: u32 = 6;
const ROUNDS: u32 = 4000;

pub fn check(system: &System) {
    let process = Process::new(system, DomainOptions::new());
    let seen = Arc::new(AtomicUsize::new(0));
    let start = |_| {
        let seen = seen.clone();
        process.spawn(0, move |thread| {
            // All CPUs take part.
            while seen.fetch_or(1 << cpu::index(), SeqCst) != (1 << CPUS) - 1 {}
            for round in 0..ROUNDS {
                thread.lock(MUTEX);
                thread.count(COUNT);
                if round % 64 == 0 {
                    scheduler::reschedule(); // others find the mutex locked
                }
                thread.unlock(MUTEX);
            }
        })
    };
    (0..THREADS).map(start).collect::<Vec<_>>().into_iter().for_each(|child| child.join());
    let sum = process.spawn(0, |thread| assert_eq!(thread.load(COUNT), THREADS * ROUNDS, "mutex: wrong sum"));
    sum.join();
    assert_eq!(process.domain.who_waits(1).iter().count(), 0);
    say!("mutex: {THREADS} threads on {CPUS} CPUs counted to {}", THREADS * ROUNDS);
}
