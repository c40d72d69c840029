//! What timers have delivered, beside what the clock says that they have to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ufutex::timer::{Deliver, Notice, Notify, Timers};

/// A timer that was set to a point in time.
#[derive(Clone, Copy, Default)]
pub struct Book {
    pub first: Duration,
    /// 0 for one that expires once.
    pub interval: Duration,
    /// Expirations that were delivered, overruns included.
    pub told: u128,
}

impl Book {
    /// How often it has expired when the clock shows `now`.
    pub fn due(&self, now: Duration) -> u128 {
        let Some(passed) = now.checked_sub(self.first) else { return 0 };
        if self.interval.is_zero() { 1 } else { passed.as_nanos() / self.interval.as_nanos() + 1 }
    }
}

/// Timers that may be set at a time.
pub const BOOKS: usize = 32;

/// Takes each expiry when it comes, and checks its overrun.
#[derive(Default)]
pub struct Ledger {
    books: [Mutex<Book>; BOOKS],
    delivered: AtomicU64,
    /// The first that was wrong: a panic would end in the driver's thread.
    wrong: Mutex<Option<String>>,
}

pub fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Ledger {
    pub fn book(&self, number: usize) -> MutexGuard<'_, Book> {
        self.books[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many expiries were delivered, each with its overrun.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    /// What was wrong first.
    pub fn wrong(&self) -> Option<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Deliver for Ledger {
    fn expired(&self, timers: &Timers, notice: Notice) {
        let Notify::Signal { value, .. } = notice.notify() else { return };
        let mut book = self.book(value as usize);
        // The engine looks at the clock between these two looks, however late this thread runs: so the bounds hold on any
        // machine.
        let before = now();
        let Some(expired) = timers.take(notice) else { return };
        let after = now();
        self.delivered.fetch_add(1, Relaxed);
        book.told += 1 + u128::try_from(expired.overrun).unwrap_or(0);
        let (least, most) = (book.due(before), book.due(after));
        if !(least..=most).contains(&book.told) {
            let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            let (told, interval) = (book.told, book.interval);
            wrong.get_or_insert_with(|| {
                format!("{told} expirations are told of a timer every {interval:?}: not from {least} to {most}")
            });
        }
    }
}
