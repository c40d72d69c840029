//! One bucket: a lock word, a queue, and a note of its last user.

use super::list::BucketQueue;
use super::store::TableStore;
use crate::lock::{LIVE, LOCKED, ONE_WAITER, StateLock};
use crate::sync::{Ordering, UnsafeCell, thread_hint};
use crate::sys::lazy::Lazy;
use crate::sys::platform::PlatformRef;
use crate::sys::probe::probe;

/// A bucket with this many waiters takes no new ones: a quarter of what it can count, because moves may bring more.
pub const MAX_WAITERS: u32 = u32::MAX / ONE_WAITER / 4;

/// A bucket, one cache line. All zeroes mean: not live, unlocked, empty.
#[repr(C, align(64))]
pub struct Bucket {
    lock: StateLock,
    /// The platform of contenders. Set before another thread can reach the bucket.
    pub on: PlatformRef,
    /// Guarded by `lock`.
    traffic: UnsafeCell<Traffic>,
    /// Guarded by `lock`.
    queue: UnsafeCell<BucketQueue>,
}

/// The last use of the bucket. It shows when the bucket goes back and forth between threads that use different cache
/// lines: the only contention that more buckets would cure.
#[derive(Default)]
#[repr(C)]
struct Traffic {
    thread: u32,
    /// The hash of the cache line.
    line: u32,
    transfers: u32,
}

// SAFETY: the cells are touched only by the holder of `lock` (through a `Guard`), or by a mover before the bucket is live.
// `Guard::insert` requires nodes that may be used from any thread.
unsafe impl Sync for Bucket {}
// SAFETY: as for `Sync`. A bucket owns nothing that is bound to a thread.
unsafe impl Send for Bucket {}

impl Bucket {
    /// Locks the bucket if it is live. Counts in `store`, if there is one, that another thread holds the lock.
    #[inline(always)]
    pub fn lock(&self, store: &Lazy<TableStore>) -> Option<Guard<'_>> {
        if self.lock.lock_if_idle(&self.on) {
            return Some(Guard { bucket: self, state: LIVE });
        }
        self.lock_busy(store)
    }

    /// Locks a bucket that has waiters, is locked, or is not live.
    #[cold]
    #[inline(never)]
    fn lock_busy(&self, store: &Lazy<TableStore>) -> Option<Guard<'_>> {
        let state = match self.lock.try_lock(&self.on) {
            Some(done) => done?,
            None => {
                if let Some(store) = store.get() {
                    store.contended.add(1);
                }
                probe!(contended, self.address().addr());
                self.lock.lock(&self.on)?
            }
        };
        Some(Guard { bucket: self, state })
    }

    /// For movers: as [`lock`](Self::lock), but not counted.
    #[inline(never)]
    pub fn lock_to_move(&self) -> Option<Guard<'_>> {
        let state = self.lock.lock(&self.on)?;
        Some(Guard { bucket: self, state })
    }

    /// Locks the bucket if it is live and no thread holds it.
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        let state = self.lock.try_lock(&self.on)??;
        Some(Guard { bucket: self, state })
    }

    /// Whether the bucket is live at this moment. A mover needs the bucket's lock to make it not live, and to make it live
    /// the lock of the bucket that the keys come from.
    pub fn is_live(&self) -> bool {
        self.lock.peek(Ordering::Acquire) & LIVE != 0 // [E]
    }

    pub fn is_locked(&self) -> bool {
        self.lock.peek(Ordering::Relaxed) & LOCKED != 0
    }

    pub fn waiters(&self) -> u32 {
        self.lock.peek(Ordering::Relaxed) / ONE_WAITER
    }

    /// Whether this bucket proves, without a lock, that there is no waiter for its keys: it is live, unlocked and
    /// empty, each of which is needed. The caller has executed [B] before.
    #[inline(always)]
    pub fn proves_empty(&self) -> bool {
        self.lock.peek(Ordering::Acquire) == LIVE // [E]: Acquire, so that [G] is read after it
    }

    /// Writes to a target bucket, so that its page is present before the mover locks the source.
    pub fn touch(&self) {
        if !self.is_live() {
            // SAFETY: a bucket that is not live belongs to the domain's only mover.
            self.traffic.with_mut(|t| unsafe { *t = Traffic::default() });
        }
    }

    pub fn make_live(&self) {
        self.lock.make_live();
    }

    /// Makes this bucket live and locked. The store can be Relaxed: the mover's unlock of the old buckets is a Release ([E]).
    ///
    /// # Safety
    /// The caller is the mover, and this bucket is not live.
    pub unsafe fn make_live_locked(&self) -> Guard<'_> {
        self.on.enter();
        self.lock.hold_state(LIVE);
        Guard { bucket: self, state: LIVE }
    }

    /// Recreates the guard that [`Guard::suspend`] gave up, or makes one of a bucket that is not live.
    ///
    /// # Safety
    /// The caller suspended a guard of this bucket and has not resumed it since; or the bucket is not live, the caller is
    /// the mover, and suspends the guard.
    pub unsafe fn resume(&self) -> Guard<'_> {
        Guard { bucket: self, state: self.lock.held_state() }
    }

    /// What a queued node has as its bucket.
    pub(super) fn address(&self) -> *mut () {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

/// A bucket's lock, held, and access to its queue (see `list`).
pub struct Guard<'t> {
    bucket: &'t Bucket,
    /// The state that unlocking will store.
    state: u32,
}

impl<'t> Guard<'t> {
    pub fn bucket(&self) -> &'t Bucket {
        self.bucket
    }

    pub fn waiters(&self) -> u32 {
        self.state / ONE_WAITER
    }

    #[inline(always)]
    pub(super) fn queue(&self) -> *mut BucketQueue {
        self.bucket.queue.with_mut(|queue| queue)
    }

    /// Never wraps: that would take a hundred gigabytes of waiters.
    #[inline(always)]
    pub(super) fn count_one_more(&mut self) {
        self.state = self.state.checked_add(ONE_WAITER).expect("a bucket cannot count 2^30 waiters");
    }

    #[inline(always)]
    pub(super) fn count_less(&mut self, waiters: u32) {
        self.state -= waiters * ONE_WAITER;
    }

    /// For movers: gives up the guard without unlocking. [`Bucket::resume`] recreates it.
    pub fn suspend(self) {
        self.bucket.lock.hold_state(self.state);
        core::mem::forget(self);
    }

    /// For movers: unlocks this bucket and makes it not live. Its waiters have moved, and its keys are live elsewhere.
    pub fn retire(mut self) {
        self.state = 0;
        self.unlock_and_stay();
    }

    /// For movers, which may hold other buckets: unlocks without a yield. Returns whether contenders slept.
    pub fn unlock_and_stay(self) -> bool {
        let slept = self.bucket.lock.unlock(&self.bucket.on, self.state);
        core::mem::forget(self);
        slept
    }

    /// Notes that this thread uses the bucket for a word in `line`. Returns the number of transfers so far if this is one:
    /// the last use was by another thread for another line. Otherwise returns 0.
    #[inline(always)]
    pub fn note_use(&mut self, line: u32) -> u32 {
        // SAFETY: this guard holds the lock that guards `traffic`.
        self.bucket.traffic.with_mut(|t| unsafe { &mut *t }.note(thread_hint(), line))
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.bucket.lock.unlock(&self.bucket.on, self.state) {
            // The contenders have waited long enough to have lost their CPU, probably to this thread.
            self.bucket.on.yield_now();
        }
    }
}

impl Traffic {
    /// Does not compare the line while the thread is the same: with words in random order nothing predicts that branch.
    #[inline(always)]
    fn note(&mut self, thread: u32, line: u32) -> u32 {
        if self.thread == thread {
            self.line = line;
            return 0;
        }
        self.note_other(thread, line)
    }

    fn note_other(&mut self, thread: u32, line: u32) -> u32 {
        self.thread = thread;
        if core::mem::replace(&mut self.line, line) == line {
            return 0;
        }
        self.transfers = self.transfers.wrapping_add(1);
        self.transfers
    }
}

const _: () = assert!(size_of::<Bucket>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::ManuallyDrop;

    #[test]
    #[should_panic(expected = "a bucket cannot count 2^30 waiters")]
    fn count_of_waiters_does_not_wrap() {
        // SAFETY: all zeroes are a bucket.
        let bucket: Bucket = unsafe { core::mem::zeroed() };
        let mut guard = ManuallyDrop::new(Guard { bucket: &bucket, state: LIVE | u32::MAX << 3 });
        guard.count_one_more();
        assert_eq!(guard.waiters(), (1 << 30) - 1);
        guard.count_one_more();
    }

    #[cfg(feature = "std")]
    #[test]
    fn buckets_of_a_table_are_on_its_platform() {
        use crate::sys::topology::OneNode;
        use crate::table::store::{free, make};
        for on in [PlatformRef::HOST, PlatformRef::of::<crate::platform::AnyStd>()] {
            let table = make(4, on, &OneNode, 0).expect("the memory is there");
            assert!((0..table.slots()).all(|slot| table.slot(slot).on.is_host() == on.is_host()));
            // SAFETY: made above, with the same memory, and used no more.
            unsafe { free(table, &OneNode) };
        }
    }

    #[test]
    fn transfer_is_a_use_by_another_thread_for_another_line() {
        let mut traffic = Traffic::default();
        let uses = [(1, 1), (1, 1), (1, 2), (2, 2), (1, 1), (2, 4), (2, 3), (1, 3), (3, 1)];
        let transfers = uses.map(|(thread, line)| traffic.note(thread, line));
        // The first one counts, because `Traffic::default()` is a use by thread 0 for line 0.
        assert_eq!(transfers, [1, 0, 0, 0, 2, 3, 0, 0, 4]);
    }
}
