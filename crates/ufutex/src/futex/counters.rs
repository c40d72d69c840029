//! A domain's counters, and the count of its waiters.
//!
//! The shortest operations take some fifty instructions. So operations are counted only on request: a bit of `WaitPath`
//! sends them to a function that is not inlined, which counts in the cache line that the thread's hint selects.

use alloc::vec::Vec;
use core::ptr::NonNull;

use super::domain::Domain;
use super::place::Place;
use crate::error::Error;
use crate::lock::Lock;
use crate::sync::{AtomicU64, Tally, thread_shard};
use crate::sys::admission::{self, Admission, Permits};
use crate::sys::lazy::Lazy;
use crate::sys::platform::PlatformRef;
use crate::sys::probe::probe;
use crate::table::bucket::MAX_WAITERS;
use crate::table::size::Contention;

/// The counters of a domain since it was made: [`Domain::counters`].
///
/// Refusals and events of its tables are always counted, from the first wait on, if there is memory for the counters.
/// Operations are counted, exactly, with [`DomainOptions::counters`](crate::DomainOptions::counters); without it their counters
/// are 0. The counters are read one after another while other threads go on counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Operations: waits for a wake or a lock that were queued, however they ended.
    pub waits: u64,
    /// Operations: waits that found another value (`EAGAIN`).
    pub mismatches: u64,
    /// Operations: wakes that woke at least one waiter.
    pub wakes: u64,
    /// Operations: waiters that wakes and requeues woke.
    pub woken: u64,
    /// Operations: wakes that woke no waiter.
    pub empty_wakes: u64,
    /// Operations: requeues that woke or moved at least one waiter. No requeue is counted as a wake.
    pub requeues: u64,
    /// Operations: waiters that those requeues moved to another word.
    pub requeued: u64,
    /// Always: moves of all waiters to a table of another size, or to or from the global table, that have ended.
    pub resizes: u64,
    /// Always: operations that found their bucket locked by another thread.
    pub contended_locks: u64,
    /// Always: the most keys (words) that stood in one bucket when a waiter of this domain was queued there.
    pub longest_chain: u64,
    /// Always: waits refused because of [`max_waiters`](crate::DomainOptions::max_waiters), or by a full bucket (`ENOMEM`).
    pub refused_waiters: u64,
    /// Always: [`Domain::prctl_futex_hash`] for more than [`max_slots`](crate::SystemConfig::max_slots) (`ENOMEM`).
    pub refused_slots: u64,
    /// Always: tables refused because of [`max_table_bytes`](crate::DomainOptions::max_table_bytes), the domain's or the
    /// system's.
    pub refused_tables: u64,
    /// Always: waits for more words than [`SystemConfig::max_waitv`](crate::SystemConfig::max_waitv) (`EINVAL`).
    pub refused_waitv: u64,
}

impl Counters {
    /// The difference to `earlier`, which are counters of the same domain. `longest_chain`, a maximum, stays as it is.
    ///
    /// ```
    /// # use std::sync::atomic::AtomicU32;
    /// use ufutex::{Domain, DomainOptions, System};
    /// let domain = Domain::with_options(&System::new(), DomainOptions::new().counters(true));
    /// let before = domain.counters();
    /// assert!(domain.wait(&AtomicU32::new(0), 1).is_err());
    /// assert_eq!(domain.counters().since(&before).mismatches, 1);
    /// ```
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        macro_rules! less_earlier {
            ($($counter:ident)*) => {
                Self { $($counter: self.$counter.saturating_sub(earlier.$counter),)* longest_chain: self.longest_chain }
            };
        }
        less_earlier! {
            waits mismatches wakes woken empty_wakes requeues requeued resizes contended_locks
            refused_waiters refused_slots refused_tables refused_waitv
        }
    }
}

#[derive(Default)]
#[repr(align(64))]
pub(super) struct CounterShard {
    pub waits: Tally,
    pub mismatches: Tally,
    pub wakes: Tally,
    pub woken: Tally,
    pub empty_wakes: Tally,
    pub requeues: Tally,
    pub requeued: Tally,
}

/// Hardly more threads count at once.
const MAX_SHARDS: usize = 128;

pub(super) struct Counting {
    waiters: Admission,
    /// A power of two of shards, made with the domain if its operations are counted, or by the first that finds memory.
    operations: Lazy<Vec<CounterShard>>,
    /// Made before the first waiter is queued. If there is no memory then, it is tried again when a key gets waiters.
    pub rest: Lazy<RareCounts>,
}

/// What a domain without waiters does not need.
pub(super) struct RareCounts {
    permits: Permits,
    pub contention: Lock<Contention>,
    pub longest_chain: Tally,
    refused_waiters: Tally,
    pub refused_slots: Tally,
    pub refused_waitv: Tally,
    /// A guest's next request for slots begins when the monotonic clock shows this time, in nanoseconds.
    pub next_request: AtomicU64,
}

impl Counting {
    /// `counted_cpus` is the number of CPUs that run operations, if operations are to be counted.
    pub fn new(max_waiters: usize, counted_cpus: Option<usize>) -> Self {
        let this = Self { waiters: Admission::new(max_waiters as u64), operations: Lazy::new(), rest: Lazy::new() };
        if let Some(cpus) = counted_cpus {
            let _or_later = this.operations(|| cpus);
        }
        this
    }

    fn operations(&self, cpus: impl FnOnce() -> usize) -> Result<&Vec<CounterShard>, Error> {
        self.operations.get_or_make(|| {
            let (cpus, mut shards) = (cpus(), Vec::new());
            let wanted = if cpus > 1 { (2 * cpus).next_power_of_two().min(MAX_SHARDS) } else { 1 };
            let number = [wanted, 1].into_iter().find(|&number| shards.try_reserve_exact(number).is_ok());
            // Not by `resize_with`, whose unrolled loop takes 1.4 KB.
            (0..number.ok_or(Error::NoMemory)?).for_each(|_| shards.push(CounterShard::default()));
            Ok(shards)
        })
    }

    /// What is seldom counted. `None` if there is no memory for it. The caller has no bucket locked.
    #[cold]
    pub fn rest_or_make(&self, on: PlatformRef) -> Option<&RareCounts> {
        let rest = || {
            Ok(RareCounts {
                permits: Permits::default(),
                contention: Lock::new(on, Contention::default()),
                longest_chain: Tally::default(),
                refused_waiters: Tally::default(),
                refused_slots: Tally::default(),
                refused_waitv: Tally::default(),
                next_request: AtomicU64::new(0),
            })
        };
        self.rest.get_or_make(rest).ok()
    }

    #[inline]
    fn own_permits(&self) -> Option<&Tally> {
        self.rest.get().map(|rest| self.waiters.own(&rest.permits))
    }

    fn sum(&self, of: impl Fn(&CounterShard) -> &Tally) -> u64 {
        let shards = self.operations.get().into_iter().flatten();
        shards.fold(0, |sum, shard| sum.wrapping_add(of(shard).get()))
    }
}

impl Domain {
    /// The current values of the counters. It stops no operation and allocates nothing.
    ///
    /// ```
    /// # use std::sync::atomic::AtomicU32;
    /// use ufutex::{Domain, DomainOptions, System};
    /// let domain = Domain::with_options(&System::new(), DomainOptions::new().counters(true));
    /// domain.wake(&AtomicU32::new(0), 1);
    /// assert_eq!(domain.counters().empty_wakes, 1);
    /// ```
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (counting, store) = (&self.counting, self.tables.store.get());
        let rest = |of: fn(&RareCounts) -> &Tally| counting.rest.get().map_or(0, |rest| of(rest).get());
        Counters {
            waits: counting.sum(|s| &s.waits),
            mismatches: counting.sum(|s| &s.mismatches),
            wakes: counting.sum(|s| &s.wakes),
            woken: counting.sum(|s| &s.woken),
            empty_wakes: counting.sum(|s| &s.empty_wakes),
            requeues: counting.sum(|s| &s.requeues),
            requeued: counting.sum(|s| &s.requeued),
            resizes: store.map_or(0, |store| store.resizes.get()),
            contended_locks: store.map_or(0, |store| store.contended.get()),
            longest_chain: rest(|rest| &rest.longest_chain),
            refused_waiters: rest(|rest| &rest.refused_waiters),
            refused_slots: rest(|rest| &rest.refused_slots),
            refused_tables: store.map_or(0, |store| store.refused.get()),
            refused_waitv: rest(|rest| &rest.refused_waitv),
        }
    }

    /// How many waiters the domain has now, queued or woken without having received the wake: at most
    /// [`DomainOptions::max_waiters`](crate::DomainOptions::max_waiters), and approximate while waits begin and end.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let kept = self.counting.rest.get().map_or(0, |rest| admission::kept(&rest.permits));
        self.counting.waiters.taken(kept) as usize
    }

    #[inline(always)]
    pub(super) fn count(&self, what: impl FnOnce(&CounterShard)) {
        if self.wait_path.is_counted() {
            self.count_slowly(what);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_slowly(&self, what: impl FnOnce(&CounterShard)) {
        if let Ok(shards) = self.counting.operations(|| self.system.globals().cpus()) {
            what(&shards[thread_shard(shards.len())]);
        }
    }

    #[inline(always)]
    pub(super) fn note_wake(&self, place: &Place, woken: usize) {
        self.count(move |c| {
            if woken == 0 {
                c.empty_wakes.add(1);
            } else {
                c.wakes.add(1);
                c.woken.add(woken as u64);
            }
        });
        if woken > 0 {
            probe!(wake, place.address, woken);
            self.observe(|observer| observer.woke(self.key(place).word(), woken));
        }
    }

    /// Counts a waiter that is about to join a bucket with `in_bucket` waiters. With [`Error::NoMemory`], counts the refusal.
    pub(super) fn admit_waiter(&self, in_bucket: u32) -> Result<(), Error> {
        let counting = &self.counting;
        if in_bucket < MAX_WAITERS && counting.waiters.take(counting.own_permits().as_mut()) {
            return Ok(());
        }
        if let Some(rest) = counting.rest.get() {
            rest.refused_waiters.add(1);
        }
        Err(Error::NoMemory)
    }

    /// As `note_waiter`, for a waiter that has been queued, whose entry is at this address.
    pub(super) fn note_queued<E>(&self, place: &Place, entry: NonNull<E>, new_chain: Option<u32>) {
        self.count(|c| c.waits.add(1));
        probe!(wait_begin, place.address, place.hash);
        self.observe(|observer| observer.wait_began(entry.addr().get(), self.key(place).word()));
        self.note_waiter(new_chain, place);
    }

    pub(super) fn dismiss_waiter(&self) {
        self.counting.waiters.give_back(self.counting.own_permits().as_mut());
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::futex::system::System;

    #[test]
    fn operations_of_each_number_of_cpus_have_their_shards() {
        let shards = |cpus| Counting::new(1, Some(cpus)).operations.get().map(Vec::len);
        assert_eq!([1, 2, 3, 8, 64, 1000].map(shards), [1, 4, 8, 16, 128, 128].map(Some));
        assert!(Counting::new(1, None).operations.get().is_none(), "no operation is counted");
    }

    #[test]
    fn waiter_that_a_bucket_could_not_count_is_refused() {
        let domain = Domain::new(&System::new());
        domain.prepare_to_wait();
        assert_eq!(domain.admit_waiter(MAX_WAITERS - 1), Ok(()));
        assert_eq!(domain.admit_waiter(MAX_WAITERS), Err(Error::NoMemory));
        assert_eq!((domain.waiting(), domain.counters().refused_waiters), (1, 1));
        domain.dismiss_waiter();
    }
}
