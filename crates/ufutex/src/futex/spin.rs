//! Decides how long a waiting thread spins before it sleeps, from how long earlier waits took.
//!
//! A thread that sleeps and is woken loses tens of microseconds if its CPU has gone idle meanwhile. Many wakes come sooner than
//! that. So a thread may spin first, queued as if it slept, and a wake that finds it spinning makes no system call. The limit is
//! a multiple of what earlier waits took. After each spin in a row that did not pay, twice as many waits sleep at once.
//!
//! The kernel spins only while a lock's owner has a CPU (`rtmutex_spin_on_owner()` in `kernel/locking/rtmutex.c`). The engine
//! does not know that. Instead, a thread stops when it has lost its own CPU, and after 2 us if all CPUs but one have threads
//! that spin: the one that wakes it needs a CPU.

use super::domain::Domain;
use super::key::Target;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::platform::{Watched, is_gap};
use crate::sys::unwind::Otherwise;

/// Number of records of a domain, a power of two.
const RECORDS: usize = 64;

/// A domain's records of its waits. A word's hash picks one, which the word may share with others.
pub(super) type Spins = [AtomicU64; RECORDS];

// In nanoseconds.

/// Limit for the first waiter of a lock. It takes about as long to wake a thread, so the waiter can also wait for an owner that is
/// being woken.
#[cfg(feature = "pi")]
const FIRST_WAITER: u32 = 30_000;
/// A thread that spins for longer takes a permit, of which a system has one fewer than CPUs. Without one it sleeps.
const WITHOUT_PERMIT: u64 = 2_000;
/// Limit while no spin has paid.
const UNKNOWN: u64 = 50_000;
/// The least limit that an average gives. A sleep costs about as much.
const LEAST: u64 = 30_000;

/// The limit is this many times the average.
const TIMES: u64 = 4;
/// After this many failures in a row, or more, one in 8192 waits spins.
const MOST_FAILURES: u64 = 13;
/// As `MOST_FAILURES`, for the first waiters of locks: one in 256.
const MOST_OF_LOCKS: u64 = 8;

/// What is known of the waits for a word: a hint. Threads load and store it without a lock, so one may undo another's change.
#[derive(Clone, Copy, Default)]
struct Record {
    /// What a wait that spun took, in nanoseconds: a moving average, of which the last one is a quarter, from the first spin on
    /// that paid. 0: none has.
    average: u64,
    /// How many spins in a row have not paid, up to `MOST_FAILURES`.
    failures: u64,
    /// How many of the next waits sleep at once.
    skips: u64,
}

impl Record {
    fn load(place: &AtomicU64) -> Self {
        let bits = place.load(Ordering::Relaxed);
        Self { average: bits >> 32, failures: bits >> 16 & 0xffff, skips: bits & 0xffff }
    }

    fn store(self, place: &AtomicU64) {
        place.store(self.average.min(u32::MAX.into()) << 32 | self.failures << 16 | self.skips, Ordering::Relaxed);
    }

    /// The number of waits that sleep at once after `failures` in a row.
    fn skips_after(failures: u64) -> u64 {
        (1 << failures) - 1
    }

    /// For how many nanoseconds the wait that begins now spins, at most `longest`. `None`: it sleeps at once.
    fn begin(place: &AtomicU64, longest: u64) -> Option<u64> {
        let known = Self::load(place);
        if known.skips != 0 {
            Self { skips: known.skips - 1, ..known }.store(place);
            return None;
        }
        if known.failures != 0 {
            // One of those that begin now spins, and not all until the first of them has ended.
            Self { skips: Self::skips_after(known.failures), ..known }.store(place);
        }
        let limit = if known.average == 0 { UNKNOWN } else { (TIMES * known.average).max(LEAST) };
        Some(limit.min(longest))
    }

    /// Notes that a wait which spun took `length` nanoseconds, and whether spinning `paid`.
    fn end(place: &AtomicU64, longest: u64, length: u64, paid: bool) {
        let known = Self::load(place);
        let average = match known.average {
            0 if paid => length.max(1),
            // A spin that never paid does not become longer.
            0 => 0,
            // One long wait after many short ones leaves a limit below `longest`.
            average => (3 * average + length.clamp(1, 2 * longest)).div_ceil(4),
        };
        let no_spin_would_pay = known.average == 0 || length / 4 > longest;
        Self { average, ..known }.store(place);
        Self::note(place, paid, if no_spin_would_pay { 3 } else { 1 }, MOST_FAILURES);
    }

    /// Notes whether spinning `paid`. If not, that counts as `weight` failures, of which `most` are kept.
    fn note(place: &AtomicU64, paid: bool, weight: u64, most: u64) {
        let known = Self::load(place);
        let failures = if paid { 0 } else { (known.failures + weight).min(most.max(known.failures)) };
        Self { failures, skips: Self::skips_after(failures), ..known }.store(place);
    }
}

/// All bits of the hash count: neighbours differ in some, and the words of a node may have the lowest in common.
fn record_of(spins: &Spins, hash: u32) -> &AtomicU64 {
    &spins[(hash.wrapping_mul(0x9e37_79b9) >> 26) as usize & (RECORDS - 1)]
}

/// Takes one of `permits` until the result is dropped. `None` if all are taken.
fn permit(taken: &AtomicU32, permits: u32) -> Option<impl Drop> {
    // Relaxed: the number guards no memory.
    let permit = Otherwise::new(|| _ = taken.fetch_sub(1, Ordering::Relaxed));
    (taken.fetch_add(1, Ordering::Relaxed) < permits).then_some(permit)
}

/// A wait that may spin before its thread sleeps.
pub struct MaySpin<'d> {
    domain: &'d Domain,
    /// In nanoseconds.
    longest: u32,
    /// Of the key.
    hash: u32,
    /// It is the first waiter of a lock: see `docs/decisions/pi-first-waiter-spins.md`.
    is_first: bool,
}

impl Domain {
    /// For a wait for a key with this hash. `None` if the domain's options say that it sleeps at once.
    #[inline]
    pub(super) fn may_spin(&self, hash: u32) -> Option<MaySpin<'_>> {
        (self.longest_spin != 0).then_some(MaySpin { domain: self, longest: self.longest_spin, hash, is_first: false })
    }

    /// As `may_spin`, for a wait that was begun some time ago.
    pub(super) fn may_spin_for<T: Target>(&self, word: &T) -> Option<MaySpin<'_>> {
        (self.longest_spin != 0).then(|| self.place(word).hash).and_then(|hash| self.may_spin(hash))
    }

    /// For the first waiter of a lock. On the host's platform it may spin whatever the options say.
    #[cfg(feature = "pi")]
    pub(super) fn first_waiter_may_spin(&self, hash: u32) -> Option<MaySpin<'_>> {
        let may_spin = self.longest_spin != 0 || self.platform().is_host();
        may_spin.then_some(MaySpin { domain: self, longest: FIRST_WAITER, hash, is_first: true })
    }
}

impl MaySpin<'_> {
    /// Sleeps by `sleep`, which returns `Ok` if a wake has come. If the wait may spin, and earlier waits suggest that it pays,
    /// the thread spins first, by `spin`, which takes a number of nanoseconds. `sleep` is called in any case: if the spin saw
    /// the wake it returns at once.
    pub fn sleep<E>(
        may_spin: Option<Self>,
        spin: impl Fn(u64) -> Watched,
        sleep: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(this) = may_spin else { return sleep() };
        let spun = this.spin(&spin);
        let result = sleep();
        if let Some((record, began, watched)) = spun {
            this.note(record, began, watched, result.is_ok());
        }
        result
    }

    /// Returns the record, when the wait began, and how the spin ended. `None` if there is nothing to note.
    #[inline(never)]
    fn spin(&self, spin: &dyn Fn(u64) -> Watched) -> Option<(&AtomicU64, u64, Watched)> {
        let (domain, longest) = (self.domain, self.longest.into());
        let on = domain.platform();
        // With one CPU, the thread that is to wake this one could not run.
        let permits = u32::try_from(domain.system.globals().cpus() - 1).unwrap_or(u32::MAX);
        if permits == 0 || !on.may_spin() {
            return None;
        }
        let spins = domain.spins.get_or_make(|| Ok(core::array::from_fn(|_| AtomicU64::new(0)))).ok()?;
        let record = record_of(spins, self.hash);
        let (limit, began) = (Record::begin(record, longest)?, on.monotonic_ns()?);
        if self.is_first {
            let watched = spin(longest);
            // The owner may have had the CPU.
            let watched = if watched == Watched::CpuIsLost { spin(longest) } else { watched };
            return Some((record, began, watched));
        }
        let mut watched = spin(limit.min(WITHOUT_PERMIT));
        if watched == Watched::TimeIsUp && limit > WITHOUT_PERMIT {
            // Without a permit nothing has been learnt.
            let _permit = permit(&domain.system.inner.spinners, permits)?;
            watched = spin(limit - WITHOUT_PERMIT);
        }
        (watched != Watched::DoneBefore).then_some((record, began, watched))
    }

    #[inline(never)]
    fn note(&self, record: &AtomicU64, began: u64, watched: Watched, is_woken: bool) {
        if self.is_first {
            let paid = matches!(watched, Watched::Done { .. } | Watched::DoneBefore);
            return Record::note(record, paid, 1, MOST_OF_LOCKS);
        }
        let now = self.domain.platform().monotonic_ns().unwrap_or(began);
        // If both threads are on one CPU, the wake came when the waker had taken it from this one: there is a gap.
        let paid = is_woken && matches!(watched, Watched::Done { looked } if !is_gap(looked, now));
        Record::end(record, self.longest.into(), now.saturating_sub(began), paid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex::config::{DomainOptions, SystemConfig};
    use crate::futex::system::System;
    use crate::sync::AtomicU32;
    use crate::sys::platform::Given;
    use core::time::Duration;
    use std::cell::Cell;

    const LONGEST: u64 = 200_000;

    fn fails(record: &AtomicU64, length: u64) {
        Record::end(record, LONGEST, length, false);
    }

    fn pays(record: &AtomicU64, length: u64) {
        Record::end(record, LONGEST, length, true);
    }

    /// How many waits in a row sleep at once from now on.
    fn skipped(record: &AtomicU64) -> usize {
        core::iter::from_fn(|| Record::begin(record, LONGEST).is_none().then_some(())).count()
    }

    #[test]
    fn fewer_waits_spin_after_each_failure() {
        let record = AtomicU64::new(0);
        pays(&record, 1000);
        let after_failure = || {
            fails(&record, 100_000);
            skipped(&record)
        };
        let counts: [usize; 14] = core::array::from_fn(|_| after_failure());
        assert_eq!(counts, [1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 8191]);
    }

    #[test]
    fn word_for_which_spinning_cannot_pay_is_soon_left_alone() {
        type Fails = fn(&AtomicU64);
        let never_paid: Fails = |record| fails(record, 1000);
        let far_too_long: Fails = |record| fails(record, 5 * LONGEST);
        for (fails, has_paid) in [(never_paid, false), (far_too_long, true)] {
            let record = AtomicU64::new(0);
            if has_paid {
                pays(&record, 1000);
            }
            let after_failure = || {
                fails(&record);
                skipped(&record)
            };
            let counts: [usize; 6] = core::array::from_fn(|_| after_failure());
            assert_eq!(counts, [7, 63, 511, 4095, 8191, 8191]);
        }
    }

    #[test]
    fn spin_that_never_paid_does_not_become_longer() {
        let record = AtomicU64::new(0);
        fails(&record, 52_000);
        assert!((0..7).all(|_| Record::begin(&record, LONGEST).is_none()));
        assert_eq!(Record::begin(&record, LONGEST), Some(UNKNOWN));
    }

    #[test]
    fn of_many_waits_that_begin_after_failures_one_spins() {
        let record = AtomicU64::new(0);
        pays(&record, 1000);
        (0..5).for_each(|_| fails(&record, 100_000));
        let waits: std::vec::Vec<_> = (0..3 * 32).map(|_| Record::begin(&record, LONGEST).is_some()).collect();
        assert_eq!(waits.iter().filter(|&&spins| spins).count(), 3);
    }

    #[test]
    fn every_wait_spins_again_after_a_success() {
        let record = AtomicU64::new(0);
        pays(&record, 1000);
        (0..4).for_each(|_| fails(&record, 100_000));
        assert_eq!(skipped(&record), 15);
        pays(&record, 1000);
        assert_eq!(skipped(&record), 0);
        fails(&record, 100_000);
        assert_eq!(skipped(&record), 1, "the failures before the success do not count");
    }

    #[test]
    fn limit_follows_the_length_of_the_last_waits() {
        let record = AtomicU64::new(0);
        assert_eq!(Record::begin(&record, LONGEST), Some(UNKNOWN));
        assert_eq!(Record::begin(&record, 30_000), Some(30_000));
        pays(&record, 10_000);
        assert_eq!(Record::begin(&record, LONGEST), Some(40_000));
        assert_eq!(Record::begin(&record, 30_000), Some(30_000));
        (0..30).for_each(|_| pays(&record, 100));
        assert_eq!(Record::begin(&record, LONGEST), Some(LEAST));
        (0..30).for_each(|_| pays(&record, 90_000));
        assert_eq!(Record::begin(&record, LONGEST), Some(LONGEST));
    }

    #[test]
    fn waits_of_any_length_leave_a_record_that_spins_again() {
        for length in [0, 1, 31_000, 2 * LONGEST, u64::from(u32::MAX) + 7, u64::MAX] {
            let record = AtomicU64::new(0);
            pays(&record, 1000);
            (0..30).for_each(|_| fails(&record, length));
            assert_eq!(skipped(&record), 8191);
            // Short waits are found by the first wait that spins.
            pays(&record, 1000);
            (0..12).for_each(|_| pays(&record, 1000));
            assert!(Record::begin(&record, LONGEST).is_some_and(|limit| limit < LONGEST / 4), "{length}");
        }
        let record = AtomicU64::new(0);
        (0..30).for_each(|_| pays(&record, 1000));
        fails(&record, u64::MAX);
        assert!(Record::load(&record).average <= LONGEST, "an outlier counts little");
    }

    fn domain() -> Domain {
        Domain::new(&system(SystemConfig::new().cpus(2)))
    }

    fn wait(domain: &Domain, spin: impl Fn(u64) -> Watched, woken: Result<(), ()>) {
        let may_spin = MaySpin { domain, longest: 10_000, hash: 0, is_first: false };
        let _as_sleep_says = MaySpin::sleep(Some(may_spin), spin, || woken);
    }

    fn failures(domain: &Domain) -> u64 {
        domain.spins.get().map_or(0, |spins| Record::load(record_of(spins, 0)).failures)
    }

    #[test]
    fn spin_that_lost_its_cpu_or_saw_no_wake_has_failed() {
        let woken = Watched::Done { looked: u64::MAX };
        // The wake had come when the thread ran again.
        let late = Watched::Done { looked: 0 };
        let (before, lost) = (Watched::DoneBefore, Watched::CpuIsLost);
        for (watched, result, has_failed) in
            [(woken, Ok(()), 0), (before, Ok(()), 0), (late, Ok(()), 3), (lost, Ok(()), 3), (woken, Err(()), 3)]
        {
            let domain = domain();
            wait(&domain, |_| watched, result);
            assert_eq!(failures(&domain), has_failed, "{watched:?} {result:?}");
            wait(&domain, |_| watched, result);
            assert_eq!(failures(&domain), has_failed, "a wait that sleeps at once is not noted");
        }
    }

    fn system(config: SystemConfig) -> System {
        System::with_config(config).expect("a configuration")
    }

    #[test]
    fn no_thread_spins_with_one_cpu_or_on_a_platform_that_does_not_want_it() {
        for config in [SystemConfig::new().cpus(1), SystemConfig::new().cpus(2).platform::<Given>()] {
            let domain = Domain::new(&system(config));
            wait(&domain, |_| panic!("it spins"), Ok(()));
        }
    }

    #[test]
    fn waits_may_spin_if_the_options_say_so_and_first_waiters_on_the_host_always() {
        let (host, given) = (system(SystemConfig::new()), system(SystemConfig::new().platform::<Given>()));
        for (system, is_host) in [(&host, true), (&given, false)] {
            for spin in [Duration::ZERO, Duration::from_nanos(1)] {
                let domain = Domain::with_options(system, DomainOptions::new().spin(spin));
                let may = !spin.is_zero();
                assert_eq!(
                    (domain.may_spin(0).is_some(), domain.may_spin_for(&&AtomicU32::new(0)).is_some()),
                    (may, may)
                );
                #[cfg(feature = "pi")]
                assert_eq!(domain.first_waiter_may_spin(0).is_some(), may || is_host);
                let _without_pi = is_host;
            }
        }
    }

    #[cfg(feature = "pi")]
    #[test]
    fn first_waiter_of_a_lock_spins_in_one_piece_and_again_if_it_lost_its_cpu() {
        let done = Watched::Done { looked: 0 };
        for (watched, spins, has_failed) in
            [(Watched::CpuIsLost, 2, 1), (Watched::TimeIsUp, 1, 1), (done, 1, 0), (Watched::DoneBefore, 1, 0)]
        {
            let domain = domain();
            let spun = Cell::new(0);
            let spin = |ns| {
                assert_eq!(ns, u64::from(FIRST_WAITER));
                spun.set(spun.get() + 1);
                watched
            };
            let _ = MaySpin::sleep(domain.first_waiter_may_spin(0), spin, || Ok::<(), ()>(()));
            assert_eq!((spun.get(), failures(&domain)), (spins, has_failed), "{watched:?}");
        }
    }

    #[test]
    fn thread_without_a_permit_sleeps_soon_and_notes_nothing() {
        let domain = domain();
        let spun = Cell::new(0);
        let spin = |ns| {
            spun.set(spun.get() + ns);
            Watched::TimeIsUp
        };
        let taken = permit(&domain.system.inner.spinners, 1);
        wait(&domain, spin, Ok(()));
        assert_eq!((spun.take(), failures(&domain)), (WITHOUT_PERMIT, 0));
        drop(taken);
        wait(&domain, spin, Ok(()));
        assert_eq!((spun.take(), failures(&domain)), (10_000, 3));
        assert_eq!(domain.system.inner.spinners.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn words_side_by_side_and_words_of_a_node_have_records_of_their_own() {
        let spins: Spins = core::array::from_fn(|_| AtomicU64::new(0));
        for step in [1 << 10, 1 << 16] {
            let records = (0..16u32).map(|i| core::ptr::from_ref(record_of(&spins, i * step)).addr());
            let apart = records.collect::<std::collections::BTreeSet<_>>().len();
            assert!(apart >= 10, "{apart} of 16");
        }
    }

    #[test]
    fn permits_are_given_back() {
        let taken = AtomicU32::new(0);
        let first = permit(&taken, 2);
        let second = permit(&taken, 2);
        assert!(first.is_some() && second.is_some() && permit(&taken, 2).is_none());
        drop(first);
        assert!(permit(&taken, 2).is_some());
        drop(second);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
