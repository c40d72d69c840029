//! What has been done, counted by the threads that did it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that orders nothing.
#[derive(Default)]
pub struct Tally(AtomicU64);

impl Tally {
    pub fn add(&self, number: usize) {
        self.0.fetch_add(number as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one world.
        #[derive(Default)]
        pub struct Counts {
            $($(#[$doc])* pub $name: Tally,)*
        }

        impl Counts {
            /// The names of all counts, in order.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// The counts, in the order of their names.
            pub fn all(&self) -> Vec<u64> {
                vec![$(self.$name.get()),*]
            }
        }
    };
}

impl Counts {
    /// Waits that a wake has ended, at all kinds of words.
    pub fn wakes(&self) -> u64 {
        self.received.get() + self.balls_received.get() + self.drops_received.get() + self.passes_received.get()
    }

    /// Expirations of all timers.
    pub fn expiries(&self) -> u64 {
        self.timers_expired.get() + self.expirations.get() + self.manual_expirations.get()
    }
}

/// What all worlds have done so far, in a line. Progress and report have the same figures.
pub fn summary(all: &[&Counts]) -> String {
    let sum = |of: fn(&Counts) -> u64| all.iter().map(|counts| of(counts)).sum::<u64>();
    let (wakes, expiries, resizes) = (sum(Counts::wakes), sum(Counts::expiries), sum(|counts| counts.resizes.get()));
    format!("{wakes} wakes, {expiries} expiries, {resizes} resizes")
}

counts! {
    /// Waiters of the crowd that wakes, requeues and wake_op say they have woken.
    woken,
    /// Waits of the crowd that a wake has ended, of threads and futures.
    received,
    /// Waiters that requeues say they have moved, all words.
    requeued,
    timed_out,
    interrupted,
    /// Waits that found another value.
    mismatched,
    /// Waiters at the words of pairs that wakes say they have woken.
    balls_woken,
    /// Waits at those words that a wake has ended.
    balls_received,
    balls_thrown,
    balls_caught,
    futures_begun,
    /// Futures that have ended by themselves, for whatever reason.
    futures_done,
    futures_timed_out,
    /// Futures that `end` has ended before.
    futures_ended,
    futures_dropped,
    /// Waiters at words whose futures may be dropped, as wakes count them.
    drops_woken,
    /// Waits at those words that a wake has ended, as far as their futures were not dropped.
    drops_received,
    /// Wakes of a future that was dropped before it was polled.
    passes_made,
    /// Waiters that those wakes have counted: one for each.
    passes_woken,
    /// Wakes that the next future received.
    passes_received,
    pi_sections,
    robust_sections,
    deadlocks,
    deaths,
    /// Tasks that died because they were interrupted while they waited.
    killed_waiters,
    /// Locks that tasks held when they died, of either kind.
    locks_orphaned,
    /// Locks that were taken over with OWNER_DIED.
    locks_recovered,
    /// Settings of timers that expire once.
    timers_armed,
    /// Such settings that ended by an expiry.
    timers_expired,
    /// Such settings that ended because the timer was set again or deleted before its expiry.
    timers_cancelled,
    /// Notices that became void before they were taken.
    timers_voided,
    /// Expirations of timers with an interval, with overruns.
    expirations,
    /// Expirations on clocks that only the test moves.
    manual_expirations,
    resizes,
    node_changes,
    clock_jumps,
    interrupts,
}
