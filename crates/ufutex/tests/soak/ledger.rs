//! Compares the expirations that timers have delivered with the number that follows from the clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ufutex::timer::{Deliver, Notice, Notify, Timers};

use crate::common::libc;

/// The record of one timer.
#[derive(Clone, Copy, Default)]
pub struct Book {
    pub first: Duration,
    /// Interval of the timer. `0` means that it expires once.
    pub interval: Duration,
    /// Number of delivered expirations, including overruns.
    pub delivered: u128,
}

impl Book {
    /// The number of expirations that are due at the time `now`.
    pub fn due(&self, now: Duration) -> u128 {
        let Some(passed) = now.checked_sub(self.first) else { return 0 };
        if self.interval.is_zero() { 1 } else { passed.as_nanos() / self.interval.as_nanos() + 1 }
    }
}

/// Maximum number of timers that are set at a time.
pub const BOOKS: usize = 32;

/// Takes each expiry when it is delivered, and checks its overrun.
#[derive(Default)]
pub struct Ledger {
    books: [Mutex<Book>; BOOKS],
    delivered: AtomicU64,
    /// The first error. It is stored because a panic here would only end the driver's thread.
    wrong: Mutex<Option<String>>,
}

pub fn now() -> Duration {
    crate::common::kernel::now(libc::CLOCK_MONOTONIC)
}

impl Ledger {
    pub fn book(&self, number: usize) -> MutexGuard<'_, Book> {
        self.books[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of delivered expiries. An expiry and its overrun count once.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }

    /// The first error, if any.
    pub fn wrong(&self) -> Option<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Deliver for Ledger {
    fn expired(&self, timers: &Timers, notice: Notice) {
        let Notify::Signal { value, .. } = notice.notify() else { return };
        let mut book = self.book(value as usize);
        // The engine reads the clock between these two reads, however late this thread runs. So the bounds hold on
        // every machine.
        let before = now();
        let Some(expired) = timers.take(notice) else { return };
        let after = now();
        self.delivered.fetch_add(1, Relaxed);
        book.delivered += 1 + u128::try_from(expired.overrun).unwrap_or(0);
        let (least, most) = (book.due(before), book.due(after));
        if !(least..=most).contains(&book.delivered) {
            let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            let (delivered, interval) = (book.delivered, book.interval);
            wrong.get_or_insert_with(|| {
                format!("a timer of {interval:?} delivered {delivered} expirations, not {least} to {most}")
            });
        }
    }
}
