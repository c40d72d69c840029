//! How long a waiting thread watches for its wake before it sleeps, by what came of it at earlier waits.
//!
//! A thread that is put to sleep and woken again loses tens of microseconds where its CPU sleeps too, and so does what it
//! works for. Many wakes come sooner. So a thread may spin for a while, queued as if it slept, and a wake that finds it
//! spinning makes no system call. How long it spins follows from how long the word's last waits took. The more waits in a
//! row have spun in vain, the more of the next ones sleep at once.
//!
//! The kernel stops a thread that spins for a lock's owner when the owner loses its CPU, which the engine does not know. A
//! thread here stops when it has lost its own CPU, and when so many others spin that none is left for who wakes them.

use core::time::Duration;

use super::domain::Domain;
use super::key::Target;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::platform::{Watched, is_gap};
use crate::sys::unwind::Otherwise;

/// Number of records of a domain, a power of two. A word has one by its hash, perhaps together with other words.
const RECORDS: usize = 64;

/// What came of spinning for the words of a domain.
pub(super) struct Spins([Record; RECORDS]);

/// What is known of the waits for a word. Threads change it at the same time, and may undo each other's changes: it is a
/// hint.
struct Record(AtomicU64);

/// How many nanoseconds the first waiter of a lock spins at most, whatever the domain's options say: about as long as it
/// takes to wake a thread, so that it can also wait for an owner that is being woken.
#[cfg(feature = "pi")]
pub(super) const FIRST_WAITER_NS: u32 = 30_000;
/// A thread that spins for longer than this takes one of the system's places for those that do.
const WITHOUT_PLACE: Duration = Duration::from_micros(2);
/// How many nanoseconds a thread spins at least, if it spins: about as long as a sleep costs.
const LEAST_NS: u64 = 20_000;
/// How many nanoseconds the first wait for a word spins.
const FIRST_NS: u64 = 50_000;
/// It spins for this many times the length of the word's last waits.
const TIMES: u64 = 4;
/// After this many failures or more, one in 4096 waits spins.
const MOST_FAILURES: u64 = 12;
/// If waits take longer than a thread may spin, one wait in 16 is looked at.
const UNSEEN: u64 = 15;

/// A record's parts.
#[derive(Clone, Copy)]
struct Known {
    /// How many nanoseconds a wait takes: a moving average. 0 before the first wait.
    expected: u64,
    /// How many waits in a row have spun in vain.
    failures: u64,
    /// How many waits are to sleep at once from now on.
    skips: u64,
}

impl Record {
    fn load(&self) -> Known {
        let bits = self.0.load(Ordering::Relaxed);
        Known { expected: bits >> 32, failures: bits >> 16 & 0xffff, skips: bits & 0xffff }
    }

    fn store(&self, known: Known) {
        let bits = known.expected.min(u32::MAX.into()) << 32 | known.failures << 16 | known.skips;
        self.0.store(bits, Ordering::Relaxed);
    }

    /// For how many nanoseconds the wait that begins now is to spin, of at most `longest`: 0 if it is only to be looked at.
    /// `None`: neither.
    fn begin(&self, longest: u64) -> Option<u64> {
        let known = self.load();
        if known.skips != 0 {
            self.store(Known { skips: known.skips - 1, ..known });
            return None;
        }
        Some(match known.expected {
            0 => FIRST_NS.min(longest),
            expected if expected > longest => 0,
            expected => (TIMES * expected).max(LEAST_NS).min(longest),
        })
    }

    /// Notes that a wait took so many nanoseconds, that it `spun`, and whether it slept, or lost its CPU, all the same.
    fn end(&self, length: u64, spun: bool, slept: bool) {
        let mut known = self.load();
        known.expected = if known.expected == 0 { length.max(1) } else { (3 * known.expected + length).div_ceil(4) };
        known.failures = if slept { (known.failures + u64::from(spun)).min(MOST_FAILURES) } else { 0 };
        if slept {
            known.skips = if spun { (1 << known.failures) - 1 } else { UNSEEN };
        }
        self.store(known);
    }
}

impl Spins {
    pub fn new() -> Self {
        Self(core::array::from_fn(|_| Record(AtomicU64::new(0))))
    }
}

/// Takes one of so many places, for as long as the result lives.
fn place(taken: &AtomicU32, places: u32) -> Option<impl Drop> {
    // Relaxed: the number guards no memory.
    let place = Otherwise::new(|| _ = taken.fetch_sub(1, Ordering::Relaxed));
    (taken.fetch_add(1, Ordering::Relaxed) < places).then_some(place)
}

impl Domain {
    /// What [`Operation::spins`](super::operation::Operation::spins) of a wait for this word is.
    pub(super) fn may_spin_for<T: Target>(&self, word: &T) -> Option<(&Self, u32, u32)> {
        (self.longest_spin != 0).then(|| (self, self.longest_spin, self.place(word).hash))
    }

    /// Has the calling thread, which waits for a key with this hash, sleep by `sleep`. If that is likely to pay, it spins
    /// before, by `spin`, for at most `longest` nanoseconds.
    ///
    /// Threads spin only where the waking thread can run at the same time.
    #[inline]
    pub(crate) fn spin_and_sleep<R>(
        &self,
        longest: u32,
        hash: u32,
        spin: impl Fn(Duration) -> Watched,
        sleep: impl FnOnce() -> R,
    ) -> R {
        if longest == 0 || !self.platform().may_spin() {
            return sleep();
        }
        let others = self.system.globals().cpus().saturating_sub(1) as u32;
        let (on, spins) = (self.platform(), self.spins.get_or_make(|| Ok(Spins::new())));
        let (true, Ok(spins)) = (others > 0, spins) else { return sleep() };
        let record = &spins.0[hash as usize & (RECORDS - 1)];
        let (Some(length), Some(began)) = (record.begin(longest.into()), on.monotonic_ns()) else { return sleep() };
        let length = Duration::from_nanos(length);
        let rest = length.saturating_sub(WITHOUT_PLACE);
        let watched = match (!length.is_zero()).then(|| spin(length.min(WITHOUT_PLACE))) {
            Some(Watched::TimeIsUp) if !rest.is_zero() => place(&self.system.inner.spinners, others).map(|_place| spin(rest)),
            watched => watched,
        };
        let result = sleep();
        let now = on.monotonic_ns().unwrap_or(began);
        // On one CPU the thread that wakes this one may have taken that from it.
        let paid = matches!(watched, Some(Watched::Done { looked }) if !is_gap(looked, now));
        record.end(now.saturating_sub(began), !length.is_zero(), !paid);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex::config::SystemConfig;
    use crate::futex::system::System;

    const LONGEST: u64 = 200_000;

    /// How many waits in a row sleep at once from now on.
    fn skipped(record: &Record) -> usize {
        core::iter::from_fn(|| record.begin(LONGEST).is_none().then_some(())).count()
    }

    #[test]
    fn fewer_waits_spin_after_each_failure() {
        let record = Record(AtomicU64::new(0));
        let after_failure = || {
            record.end(100_000, true, true);
            skipped(&record)
        };
        let counts: [usize; 14] = core::array::from_fn(|_| after_failure());
        assert_eq!(counts, [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 4095, 4095]);
    }

    #[test]
    fn every_wait_spins_again_after_a_success() {
        let record = Record(AtomicU64::new(0));
        (0..4).for_each(|_| record.end(100_000, true, true));
        assert_eq!(skipped(&record), 15);
        record.end(1000, true, false);
        assert_eq!(skipped(&record), 0);
        record.end(100_000, true, true);
        assert_eq!(skipped(&record), 1, "the failures before the success do not count");
    }

    #[test]
    fn length_follows_that_of_the_last_waits() {
        let record = Record(AtomicU64::new(0));
        assert_eq!(record.begin(LONGEST), Some(FIRST_NS));
        assert_eq!(record.begin(30_000), Some(30_000));
        record.end(10_000, true, false);
        assert_eq!(record.begin(LONGEST), Some(40_000));
        assert_eq!(record.begin(30_000), Some(30_000));
        (0..30).for_each(|_| record.end(100, true, false));
        assert_eq!(record.begin(LONGEST), Some(LEAST_NS));
        (0..30).for_each(|_| record.end(90_000, true, false));
        assert_eq!(record.begin(LONGEST), Some(LONGEST));
    }

    #[test]
    fn word_whose_waits_are_long_is_looked_at_now_and_then() {
        let record = Record(AtomicU64::new(0));
        (0..30).for_each(|_| record.end(1_000_000, true, true));
        record.end(1_000_000, false, true);
        assert_eq!(skipped(&record), 15);
        (0..30).for_each(|_| record.end(100, false, true));
        assert_eq!(skipped(&record), 15);
        assert_eq!(record.begin(LONGEST), Some(LEAST_NS), "the waits have become short");
    }

    #[test]
    fn spin_that_lost_its_cpu_has_failed() {
        let domain = Domain::new(&System::with_config(SystemConfig::new().cpus(2)).expect("a configuration"));
        let failures = || domain.spins.get().map_or(0, |spins| spins.0[0].load().failures);
        let now = || domain.platform().monotonic_ns().expect("a host has a clock");
        domain.spin_and_sleep(1000, 0, |_| Watched::Done { looked: u64::MAX }, || ());
        assert_eq!(failures(), 0);
        // The wake had come when the thread ran again.
        domain.spin_and_sleep(1000, 0, |_| Watched::Done { looked: now() - 10_000 }, || ());
        assert_eq!(failures(), 1);
        domain.spin_and_sleep(1000, 0, |_| unreachable!("the next wait sleeps"), || ());
        domain.spin_and_sleep(1000, 0, |_| Watched::CpuIsLost, || ());
        assert_eq!(failures(), 2);
    }

    #[test]
    fn places_are_given_back() {
        let taken = AtomicU32::new(0);
        let first = place(&taken, 2);
        let second = place(&taken, 2);
        assert!(first.is_some() && second.is_some() && place(&taken, 2).is_none());
        drop(first);
        assert!(place(&taken, 2).is_some());
        drop(second);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
