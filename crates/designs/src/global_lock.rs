//! `global-lock`: Linux before 6.15. One hash of 512 buckets for all processes, and one lock for the hash.

use crate::OwnLine;
use crate::chain::{self, Chain};
use crate::process::{Index, to_id};
use crate::spin::Spin;
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;
use crate::timer::Timer;

/// The kernel's number of buckets, which did not depend on the machine.
const BUCKETS: usize = 512;

/// The hash. With `PRECHECK` it works as described in `precheck.rs`.
pub struct Hash<const PRECHECK: bool> {
    lock: OwnLine<Spin>,
    chains: Vec<Chain>,
}

impl<const PRECHECK: bool> Default for Hash<PRECHECK> {
    fn default() -> Self {
        Self { lock: OwnLine::default(), chains: (0..BUCKETS).map(Chain::new).collect() }
    }
}

impl<const PRECHECK: bool> Hash<PRECHECK> {
    /// Whether a timer has the ID, valid or not. The caller may hold the lock or not.
    #[inline]
    pub(super) fn is_taken(&self, owner: usize, id: i32) -> bool {
        let bucket = bucket(owner, id);
        self.chains[bucket].find(bucket, |timer| timer.holds(owner, id)).is_some()
    }
}

impl<const PRECHECK: bool> Index for Hash<PRECHECK> {
    #[inline]
    fn insert(&self, owner: usize, id: i32, timer: &Timer) -> bool {
        if PRECHECK && !crate::precheck::allows(self, owner, id) {
            return false;
        }
        let _held = self.lock.0.lock();
        if self.is_taken(owner, id) {
            return false;
        }
        self.chains[bucket(owner, id)].push(timer);
        true
    }

    /// Before Eric Dumazet's check, the hash's lock also guarded the next ID. With the check it became an atomic
    /// number.
    #[inline]
    fn insert_next(&self, owner: usize, next: &AtomicU32, timer: &Timer) -> Option<i32> {
        if PRECHECK {
            let id = to_id(next.fetch_add(1, Relaxed));
            timer.reserve(owner, id);
            return self.insert(owner, id, timer).then_some(id);
        }
        let _held = self.lock.0.lock();
        let number = next.load(Relaxed);
        next.store(number.wrapping_add(1), Relaxed);
        let id = to_id(number);
        if self.is_taken(owner, id) {
            return None;
        }
        timer.reserve(owner, id);
        self.chains[bucket(owner, id)].push(timer);
        Some(id)
    }

    #[inline]
    fn find(&self, owner: usize, id: i32) -> Option<&Timer> {
        let bucket = bucket(owner, id);
        self.chains[bucket].find(bucket, |timer| timer.is(owner, id))
    }

    #[inline]
    fn remove(&self, _owner: usize, _id: i32, timer: &Timer) {
        let _held = self.lock.0.lock();
        chain::unlink(timer);
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.chains)
    }

    #[cfg(feature = "sim")]
    fn name(&self) {
        crate::names::name("hash_lock", std::slice::from_ref(&self.lock));
        crate::names::name("chain", &self.chains);
    }
}

/// The index of a bucket: the folded address of the process is mixed with the ID and multiplied by the golden ratio,
/// and the upper bits are taken.
#[inline]
pub(super) fn bucket(owner: usize, id: i32) -> usize {
    let folded = owner as u32 ^ (owner >> 32) as u32;
    ((folded ^ id as u32).wrapping_mul(0x61C8_8647) >> (32 - BUCKETS.ilog2())) as usize
}
