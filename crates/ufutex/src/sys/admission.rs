//! Limits how many waiters a domain may have, and how many timers a process.
//!
//! A wait that is queued takes a permit, and gives it back when it has been woken. So that threads do not all write one cache
//! line, most permits are kept in shards: a thread gives its permit back to the shard from which it will take the next one.
//!
//! A waiter takes none from another thread's shard. So a wait may be refused although other shards have free permits. With a
//! small limit, where that would matter, all threads share the first shard.
//!
//! The shards of timers have a lock, and a create that finds none in its own checks the others.

use crate::sync::{Tally, thread_shard};

/// Shards of waiters' permits, a power of two. Timers have as many, one of which is common to all threads.
pub const SHARDS: usize = 8;
/// Permits that are moved at once between `free` and a shard.
const BATCH: u64 = 256;
/// The most free permits that a shard keeps, apart from those that are being moved.
const KEPT_MAX: u64 = 2 * BATCH;
/// From this limit on threads have shards of their own, which can keep at most a sixteenth.
const SHARED_FROM: u64 = 16 * SHARDS as u64 * KEPT_MAX;

/// Free permits of some threads: atomic, or behind a lock that the caller holds.
pub trait FreePermits {
    /// Takes `n` permits, or none. Returns whether it took them.
    fn take(&mut self, n: u64) -> bool;
    fn add(&mut self, n: u64) -> u64;
}

impl FreePermits for &Tally {
    fn take(&mut self, n: u64) -> bool {
        Tally::take(self, n)
    }

    fn add(&mut self, n: u64) -> u64 {
        self.add_and_get(n)
    }
}

impl FreePermits for u64 {
    fn take(&mut self, n: u64) -> bool {
        self.checked_sub(n).map(|left| *self = left).is_some()
    }

    fn add(&mut self, n: u64) -> u64 {
        *self += n;
        *self
    }
}

#[derive(Default)]
#[repr(align(64))]
pub struct PermitsShard(Tally);

/// The shards of a domain, made for its first waiter.
pub type Permits = [PermitsShard; SHARDS];

/// The permits of a domain or of a process's timers. They may be taken without a shard and given back to one.
pub struct Admission {
    max: u64,
    /// Free permits that are in no shard.
    free: Tally,
}

impl Admission {
    pub fn new(max: u64) -> Self {
        Self { max, free: Tally::of(max) }
    }

    /// The permits that are taken, if the shards keep `kept` free ones. Approximate while threads take some.
    pub fn taken(&self, kept: u64) -> u64 {
        self.max.saturating_sub(self.free.get()).saturating_sub(kept)
    }

    /// Takes a permit, if there is one in `own` or in no shard.
    #[inline]
    pub fn take(&self, own: Option<&mut impl FreePermits>) -> bool {
        let Some(own) = own else { return self.free.take(1) };
        if own.take(1) {
            return true;
        }
        if self.is_sharded() && self.free.take(BATCH) {
            own.add(BATCH - 1);
            return true;
        }
        // One check of `free` is enough. With one shard for all, `free` gets no permit back, and a thread takes from it only
        // after it has seen the shard empty. If it is empty here, each permit was taken, or about to be, when such a thread
        // last saw the shard empty. So of as many threads as there are permits, none is refused.
        self.free.take(1)
    }

    #[inline]
    pub fn give_back(&self, own: Option<&mut impl FreePermits>) {
        let Some(own) = own else { return self.free.add(1) };
        if own.add(1) >= KEPT_MAX && self.is_sharded() && own.take(BATCH) {
            self.free.add(BATCH);
        }
    }

    #[inline]
    pub fn is_sharded(&self) -> bool {
        self.max >= SHARED_FROM
    }

    pub fn own<'s>(&self, shards: &'s Permits) -> &'s Tally {
        &shards[if self.is_sharded() { thread_shard(SHARDS) } else { 0 }].0
    }
}

pub fn kept(shards: &Permits) -> u64 {
    shards.iter().fold(0, |kept, shard| kept.saturating_add(shard.0.get()))
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    struct Domain {
        admission: Admission,
        shards: Permits,
    }

    impl Domain {
        fn new(max: u64) -> Self {
            Self { admission: Admission::new(max), shards: Permits::default() }
        }

        fn take(&self) -> bool {
            self.admission.take(Some(&mut self.admission.own(&self.shards)))
        }

        fn give_back(&self) {
            self.admission.give_back(Some(&mut self.admission.own(&self.shards)));
        }

        fn taken(&self) -> u64 {
            self.admission.taken(kept(&self.shards))
        }
    }

    #[test]
    fn shards_may_come_when_permits_have_been_taken() {
        let permits = Domain::new(SHARED_FROM);
        assert!((0..3 * KEPT_MAX).all(|_| permits.admission.take(None::<&mut u64>)));
        assert_eq!((permits.admission.taken(0), permits.taken()), (3 * KEPT_MAX, 3 * KEPT_MAX));
        (0..3 * KEPT_MAX).for_each(|_| permits.give_back());
        assert_eq!(permits.taken(), 0);
    }

    /// Has threads take and keep permits until there are no more. Returns how many they took.
    fn taken_by_threads(permits: &Domain) -> u64 {
        std::thread::scope(|scope| {
            let threads = [(); 16]
                .map(|()| scope.spawn(|| (0..=permits.admission.max).take_while(|_| permits.take()).count() as u64));
            threads.map(|thread| thread.join().expect("nobody panics")).iter().sum()
        })
    }

    #[test]
    fn permits_are_as_many_as_the_limit_says() {
        for max in [0, 1, 1000, SHARED_FROM - 1] {
            let permits = Domain::new(max);
            assert_eq!((taken_by_threads(&permits), permits.taken()), (max, max));
            (0..max).for_each(|_| permits.give_back());
            for _ in 0..4 {
                let all = || (0..=max).take_while(|_| permits.take()).map(|_| ()).count() as u64;
                let found = std::thread::scope(|scope| scope.spawn(all).join().expect("nobody panics"));
                assert_eq!(found, max);
                (0..max).for_each(|_| permits.give_back());
            }
        }
    }

    #[test]
    fn permits_of_a_large_limit_are_nearly_as_many_and_never_more() {
        let permits = Domain::new(SHARED_FROM + 100);
        let taken = taken_by_threads(&permits);
        assert!(taken <= SHARED_FROM + 100 && taken > SHARED_FROM - SHARED_FROM / 16, "{taken}");
        assert_eq!(permits.admission.free.get(), 0, "the rest is taken one by one");
        assert_eq!(permits.taken(), taken);
        (0..taken).for_each(|_| permits.give_back());
        assert_eq!(permits.taken(), 0);
        assert!(permits.shards.iter().all(|shard| shard.0.get() <= KEPT_MAX + BATCH));
        let again = taken_by_threads(&permits);
        assert!(again <= SHARED_FROM + 100 && again > SHARED_FROM - SHARED_FROM / 16, "{again}");
    }

    #[test]
    fn thread_that_waits_again_and_again_finds_its_own_permit() {
        let permits = Domain::new(SHARED_FROM);
        let mut own = permits.admission.own(&permits.shards);
        for _ in 0..3 * BATCH {
            assert!(permits.admission.take(Some(&mut own)));
            assert_eq!(permits.taken(), 1);
            permits.admission.give_back(Some(&mut own));
        }
        assert_eq!(permits.admission.free.get(), SHARED_FROM - BATCH, "moved once");
    }
}
