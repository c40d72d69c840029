//! Waits that end by a timeout, on both clocks; a lock that is not to be had in time; and timeouts that meet wakes,
//! where each wake that was counted has to arrive.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;
use core::time::Duration;

use ufutex::platform::{Clock, Platform};
use ufutex::{DomainOptions, System, pi::Priority};

use crate::guest::{ETIMEDOUT, LOCK_PI, PAGES, Process, Thread, WAIT, WAIT_BITSET};
use crate::platform::Kernel;
use crate::{clock, say, scheduler};

const WORD: u64 = PAGES;
const LOCK: u64 = PAGES + 64;
/// A timespec for each of the waiters.
const TIMES: u64 = PAGES + 4096;

const LENGTH: Duration = Duration::from_millis(5);
const WAITERS: u64 = 3;
const ROUNDS: u32 = 100;

pub fn check(system: &System) {
    let process = Process::new(system, DomainOptions::new());
    let owner = process.spawn(10, |thread| {
        thread.lock_pi(LOCK);
        thread.wait(WORD, 0); // until the others have timed out
        assert_eq!(scheduler::me().1, Priority::realtime(10), "timeout: a loan was not given back");
        thread.unlock_pi(LOCK);
    });
    while process.waiters(WORD) == 0 {
        scheduler::sleep_a_tick();
    }
    let waiter = process.spawn(20, |thread| {
        times_out(thread, clock::uptime(), LOCK, LOCK_PI, Kernel::now(Clock::Realtime) + LENGTH);
        times_out(thread, clock::uptime(), WORD + 8, WAIT_BITSET, clock::uptime() + LENGTH);
        times_out(thread, clock::uptime(), WORD + 8, WAIT, LENGTH);
        assert_eq!(thread.wake(WORD, 1), 1);
    });
    [owner, waiter].into_iter().for_each(|child| child.join());
    let (woken, timed_out) = meet_wakes(&process);
    assert_eq!(process.domain.who_waits(1).iter().count(), 0);
    say!(
        "timeout: three kinds end, none early; of {} waits {woken} were woken, {timed_out} timed out",
        woken + timed_out
    );
}

/// An operation whose timeout passes. Its other arguments suit all three operations. `begin` is read before `time`.
fn times_out(thread: &Thread, begin: Duration, address: u64, operation: u64, time: Duration) {
    thread.write_time(TIMES, time);
    assert_eq!(thread.futex(address, operation, 0, TIMES, 0, u32::MAX), ETIMEDOUT);
    assert!(clock::uptime() >= begin + LENGTH, "timeout: too early");
}

/// Waiters whose timeouts end with the next tick or the one after it, and a thread that wakes one of them in each tick.
fn meet_wakes(process: &Arc<Process>) -> (u32, u32) {
    let (woken, timed_out) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let waiter = |number| {
        let (woken, timed_out) = (woken.clone(), timed_out.clone());
        process.spawn(30, move |thread| {
            let time = TIMES + 16 * number;
            thread.write_time(time, Duration::from_micros(500 * number));
            for _ in 0..ROUNDS {
                match thread.futex(WORD, WAIT, 0, time, 0, 0) {
                    0 => woken.fetch_add(1, SeqCst),
                    ETIMEDOUT => timed_out.fetch_add(1, SeqCst),
                    other => panic!("timeout: FUTEX_WAIT: {other}"),
                };
            }
        })
    };
    let waiters: Vec<_> = (1..=WAITERS).map(waiter).collect();
    let ended = timed_out.clone();
    let all = WAITERS as u32 * ROUNDS;
    let (arrived, counted) = (woken.clone(), Arc::new(AtomicU32::new(0)));
    let count = counted.clone();
    let waker = process.spawn(30, move |thread| {
        while arrived.load(SeqCst) + ended.load(SeqCst) < all {
            // The tick that wakes this thread ends waits too.
            scheduler::sleep_a_tick();
            count.fetch_add(thread.wake(WORD, 1) as u32, SeqCst);
        }
    });
    waiters.into_iter().chain([waker]).for_each(|child| child.join());
    assert_eq!(counted.load(SeqCst), woken.load(SeqCst), "timeout: each wake that was counted has come");
    (woken.load(SeqCst), timed_out.load(SeqCst))
}
