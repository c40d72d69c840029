//! A condition variable whose broadcast wakes one waiter, and requeues the others to the mutex.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use ufutex::{DomainOptions, System};

use crate::guest::{CMP_REQUEUE, PAGES, Process};
use crate::{say, scheduler};

const MUTEX: u64 = PAGES;
/// The condition variable: changes with each broadcast.
const SEQUENCE: u64 = PAGES + 64;
/// What waiters wait for, under the mutex: that the next round begins.
const ROUND: u64 = PAGES + 128;

const WAITERS: u32 = 5;
const ROUNDS: u32 = 200;

pub fn check(system: &System) {
    let process = Process::new(system, DomainOptions::new());
    let woken = Arc::new(AtomicU32::new(0));
    let wait = |_| {
        let woken = woken.clone();
        process.spawn(0, move |thread| {
            thread.lock(MUTEX);
            for round in 1..=ROUNDS {
                while thread.load(ROUND) < round {
                    let sequence = thread.load(SEQUENCE);
                    thread.unlock(MUTEX);
                    assert_eq!(thread.wait(SEQUENCE, sequence), 0, "condvar: no broadcast without all waiters");
                    woken.fetch_add(1, SeqCst);
                    thread.lock_contended(MUTEX);
                }
            }
            thread.unlock(MUTEX);
        })
    };
    let waiters: Vec<_> = (0..WAITERS).map(wait).collect();
    let its_process = process.clone();
    let broadcaster = process.spawn(0, move |thread| {
        for round in 1..=ROUNDS {
            while its_process.waiters(SEQUENCE) < WAITERS as usize {
                scheduler::reschedule();
            }
            thread.lock(MUTEX);
            thread.store(ROUND, round);
            thread.count(SEQUENCE);
            let sequence = thread.load(SEQUENCE);
            let all = i32::MAX as u64;
            let notified = thread.futex(SEQUENCE, CMP_REQUEUE, 1, all, MUTEX, sequence);
            assert_eq!(notified, WAITERS as isize, "condvar: woken and requeued");
            thread.unlock(MUTEX);
        }
    });
    waiters.into_iter().chain([broadcaster]).for_each(|child| child.join());
    assert_eq!(woken.load(SeqCst), WAITERS * ROUNDS, "condvar: each wake once");
    assert_eq!(process.domain.who_waits(1).iter().count(), 0);
    say!("condvar: {ROUNDS} broadcasts woke each of {WAITERS} waiters, by requeue");
}
