//! One bucket: a lock word, a queue, and a note of who was here last.

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use super::hash::Key;
use super::layout::{Back, Layout};
use super::list::{Node, Pick, Queue, Ring, Taken, Waiters};
use super::lock::{LIVE, LOCKED, ONE_WAITER, StateLock};
use crate::sync::Mutant::{DrainsBeforeFlip, EmptyIgnoresLive, EmptyIgnoresLock};
use crate::sync::{Ordering, Tally, UnsafeCell, mutant, thread_hint};
use crate::sys::probe::probe;

/// A bucket with this many waiters takes no new ones. It is a quarter of what a bucket can count, so that moves can
/// bring waiters of other buckets here.
pub const MAX_WAITERS: u32 = u32::MAX / ONE_WAITER / 4;

/// A bucket, one cache line in the default layout. All zeroes is a bucket that is not live, unlocked and empty.
#[repr(C, align(64))]
pub struct Bucket<L: Layout> {
    lock: StateLock,
    /// Guarded by `lock`.
    traffic: UnsafeCell<Traffic>,
    /// Guarded by `lock`.
    queue: L::Queue,
    back: L::Back,
}

/// Who used the bucket last, to tell when it goes back and forth between threads that use different cache lines: the
/// only contention that more buckets would cure.
#[derive(Default)]
#[repr(C)]
struct Traffic {
    /// The thread's hint above, the line's hash below.
    last: u64,
    bounces: u32,
}

// SAFETY: the cells are touched only by the holder of `lock` (through a `Guard`) or by a mover before the bucket is
// live, when nobody else can reach them. Nodes in the queue are `Send` by the contract of `Queue::insert`'s callers.
unsafe impl<L: Layout> Sync for Bucket<L> {}
// SAFETY: as for `Sync`; a bucket owns nothing that is bound to a thread.
unsafe impl<L: Layout> Send for Bucket<L> {}

impl<L: Layout> Bucket<L> {
    /// An empty bucket in `state`.
    pub fn new(state: u32) -> Self {
        Self {
            lock: StateLock::new(state),
            traffic: UnsafeCell::new(Traffic::default()),
            queue: L::Queue::default(),
            back: L::Back::default(),
        }
    }

    /// For layouts that point back: `table` is where this bucket belongs.
    pub fn set_back(&self, table: *mut ()) {
        self.back.set(table);
    }

    /// For layouts that point back: whether it says `table`.
    #[inline(always)]
    pub fn check_back(&self, table: *const ()) -> bool {
        self.back.check(table)
    }

    /// Locks the bucket if it is live. Counts in `contended` if another thread held it.
    #[inline(always)]
    pub fn lock(&self, contended: &Tally) -> Option<Guard<'_, L>> {
        if self.lock.lock_if_idle() {
            return Some(Guard { bucket: self, state: LIVE });
        }
        self.lock_busy(contended)
    }

    /// It has waiters, or is locked, or is not live.
    #[cold]
    #[inline(never)]
    fn lock_busy(&self, contended: &Tally) -> Option<Guard<'_, L>> {
        let state = match self.lock.try_lock() {
            Some(done) => done?,
            None => {
                contended.add(1);
                probe!(contended, self.address().addr());
                self.lock.lock()?
            }
        };
        Some(Guard { bucket: self, state })
    }

    /// For movers, who are no operation: as [`lock`](Self::lock), uncounted.
    pub fn lock_to_move(&self) -> Option<Guard<'_, L>> {
        let state = self.lock.lock()?;
        Some(Guard { bucket: self, state })
    }

    /// Locks the bucket if it is live and nobody holds it.
    pub fn try_lock(&self) -> Tried<'_, L> {
        match self.lock.try_lock() {
            None => Tried::Busy,
            Some(None) => Tried::NotLive,
            Some(Some(state)) => Tried::Locked(Guard { bucket: self, state }),
        }
    }

    /// Whether the bucket is live. The caller holds a lock that keeps the answer from changing.
    pub fn is_live(&self) -> bool {
        self.lock.peek(Ordering::Acquire) & LIVE != 0 // [E]
    }

    /// The number of waiters, read without the lock.
    pub fn waiters(&self) -> u32 {
        self.lock.peek(Ordering::Relaxed) / ONE_WAITER
    }

    /// Whether this bucket proves, without a lock, that nobody waits for its keys: it is live, unlocked and empty.
    ///
    /// The caller has executed [B] before. ORDERING.md says why each of the three is needed.
    #[inline(always)]
    pub fn proves_empty(&self) -> bool {
        let mut state = self.lock.peek(Ordering::Acquire); // [E], so that [G] is read after it
        if mutant(EmptyIgnoresLive) {
            state |= LIVE;
        }
        if mutant(EmptyIgnoresLock) {
            state &= !LOCKED;
        }
        state == LIVE
    }

    /// Makes the memory of a target bucket present, before anybody's lock is held for it.
    pub fn touch(&self) {
        if !self.is_live() {
            // SAFETY: a bucket that is not live belongs to the one mover.
            self.traffic.with_mut(|t| unsafe { *t = Traffic::default() });
        }
    }

    /// Puts a ring into this bucket while it is not live. Answers the number of waiters.
    ///
    /// # Safety
    /// The caller is the mover, this bucket is not live, and the ring's old bucket is locked by the caller.
    pub unsafe fn adopt(&self, ring: Ring) -> u32 {
        // SAFETY: a bucket that is not live belongs to the mover; the ring's key had its only live bucket elsewhere.
        let count = self.queue.with_mut(|q| unsafe { (*q).push_ring(ring, self.address()) });
        self.lock.count_while_not_live(count);
        count
    }

    /// Makes this bucket the live one of its keys.
    pub fn make_live(&self) {
        self.lock.make_live();
    }

    /// Makes this bucket the live one of its keys and locks it, in one store. Waiters of its keys may still be
    /// elsewhere; the mover moves them here before it unlocks this bucket.
    ///
    /// The store can be Relaxed: it comes before the mover unlocks the old buckets of the keys, which is a Release
    /// ([E]).
    ///
    /// # Safety
    /// The caller is the mover, and this bucket is not live.
    pub unsafe fn make_live_locked(&self) -> Guard<'_, L> {
        if !mutant(DrainsBeforeFlip) {
            self.lock.hold_state(LIVE);
        }
        Guard { bucket: self, state: LIVE }
    }

    /// The guard that [`Guard::suspend`] gave up.
    ///
    /// # Safety
    /// The caller suspended a guard of this bucket and has not resumed it since.
    pub unsafe fn resume(&self) -> Guard<'_, L> {
        Guard { bucket: self, state: self.lock.held_state() }
    }

    fn address(&self) -> *mut () {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

/// What came of [`Bucket::try_lock`].
pub enum Tried<'t, L: Layout> {
    Locked(Guard<'t, L>),
    /// Another thread holds it.
    Busy,
    /// Its keys are elsewhere.
    NotLive,
}

/// The lock of a bucket, held. Unlocks when dropped.
pub struct Guard<'t, L: Layout> {
    bucket: &'t Bucket<L>,
    /// What the state will be after unlocking.
    state: u32,
}

impl<'t, L: Layout> Guard<'t, L> {
    /// The bucket that is locked.
    pub fn bucket(&self) -> &'t Bucket<L> {
        self.bucket
    }

    /// How many wait here.
    pub fn waiters(&self) -> u32 {
        self.state / ONE_WAITER
    }

    #[inline(always)]
    fn with_queue<R>(&mut self, f: impl FnOnce(&mut Queue) -> R) -> R {
        // SAFETY: we hold the lock that guards the queue, and `&mut self` keeps a second reference away.
        self.bucket.queue.with_mut(|q| f(unsafe { &mut *q }))
    }

    /// Queues a waiter. If its key is new here, answers how many keys have waiters here now.
    ///
    /// # Safety
    /// As for [`Queue::insert`], but for the bucket.
    pub unsafe fn insert(&mut self, node: NonNull<Node>) -> Option<u32> {
        self.state = with_more(self.state, 1);
        let bucket = self.bucket.address();
        // SAFETY: says the caller.
        self.with_queue(|q| unsafe { q.insert(node, bucket) })
    }

    /// Takes one waiter off the queue.
    ///
    /// # Safety
    /// `node` is queued in this bucket.
    pub unsafe fn remove(&mut self, node: NonNull<Node>) {
        self.state -= ONE_WAITER;
        // SAFETY: says the caller.
        self.with_queue(|q| unsafe { q.remove(node) });
    }

    /// Takes one waiter off this queue and leaves it looking queued: see [`Queue::take_to`].
    ///
    /// # Safety
    /// As for that.
    pub unsafe fn take_to(&mut self, node: NonNull<Node>, key: Key, hash: u32) {
        self.state -= ONE_WAITER;
        // SAFETY: says the caller.
        self.with_queue(|q| unsafe { q.take_to(node, key, hash) });
    }

    /// For a mutant alone: lets others have the lock for a moment.
    pub fn let_go(&mut self) {
        self.bucket.lock.unlock(self.state);
        self.state = loop {
            if let Some(state) = self.bucket.lock.lock() {
                break state;
            }
        };
    }

    /// An upper bound for the number of waiters of `key`, counted up to `limit`: see [`Queue::count`]. `hash` is the
    /// key's hash.
    pub fn count(&mut self, key: Key, hash: u32, limit: usize) -> usize {
        self.with_queue(|q| q.count(key, hash, limit))
    }

    /// The first waiter of `key` in wake order. `hash` is the key's hash.
    pub fn first(&mut self, key: Key, hash: u32) -> Option<NonNull<Node>> {
        self.with_queue(|q| q.first(key, hash))
    }

    /// As [`first`](Self::first), for tables in which no walk leaves markers.
    #[cfg(feature = "parking")]
    pub fn head(&mut self, key: Key, hash: u32) -> Option<NonNull<Node>> {
        self.with_queue(|q| q.head(key, hash))
    }

    /// The waiter behind `node` in wake order.
    ///
    /// # Safety
    /// `node` is queued in this bucket.
    pub unsafe fn after(&mut self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: says the caller.
        self.with_queue(|q| unsafe { q.after(node) })
    }

    /// The first waiter of the key behind those that have the priority of `node`.
    ///
    /// # Safety
    /// `node` is queued in this bucket.
    pub unsafe fn after_level(&mut self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: says the caller.
        self.with_queue(|q| unsafe { q.after_level(node) })
    }

    /// Takes waiters of `key`: see [`Queue::take`].
    pub fn take(&mut self, key: Key, hash: u32, limit: usize, pick: impl FnMut(NonNull<Node>) -> Pick) -> Taken {
        let taken = self.with_queue(|q| q.take(key, hash, limit, pick));
        self.state -= taken.len() as u32 * ONE_WAITER;
        taken
    }

    /// The waiter with which a walk in pieces goes on: see [`Queue::resume`].
    ///
    /// # Safety
    /// `marker` is a marker of the caller's. If it is queued, it is in this bucket.
    pub unsafe fn resume(&mut self, marker: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: valid, as the caller's.
        let place = unsafe { marker.as_ref() }.bucket();
        debug_assert!(place.is_null() || place == self.bucket.address(), "a marker stands in another bucket");
        if !place.is_null() {
            self.state -= ONE_WAITER;
        }
        // SAFETY: says the caller.
        self.with_queue(|q| unsafe { q.resume(marker) })
    }

    /// Inserts `marker` where a walk in pieces has to go on: see [`Queue::pause`]. A marker counts as a waiter.
    ///
    /// # Safety
    /// As for [`Queue::pause`], with this bucket.
    pub unsafe fn pause(&mut self, marker: NonNull<Node>, next: NonNull<Node>) {
        let bucket = self.bucket.address();
        // SAFETY: says the caller.
        if self.with_queue(|q| unsafe { q.pause(marker, next, bucket) }) {
            self.state = with_more(self.state, 1);
        }
    }

    /// Takes waiters, from `first` on: see [`Queue::take_from`].
    ///
    /// # Safety
    /// As for [`Queue::take_from`].
    pub unsafe fn take_from(
        &mut self,
        first: NonNull<Node>,
        limit: usize,
        most: usize,
        pick: impl FnMut(NonNull<Node>) -> Pick,
    ) -> (Taken, Option<NonNull<Node>>) {
        // SAFETY: says the caller.
        let (taken, next) = self.with_queue(|q| unsafe { q.take_from(first, limit, most, pick) });
        self.state -= taken.len() as u32 * ONE_WAITER;
        (taken, next)
    }

    /// Shows `look` what waits here: see [`Queue::for_each_key`].
    pub fn for_each_key(&mut self, look: impl FnMut(Key, u32, Waiters<'_>)) {
        self.with_queue(|q| q.for_each_key(look));
    }

    /// For movers: takes a key with its waiters off the queue. They still count as waiters of this bucket.
    pub fn pop_ring(&mut self) -> Option<Ring> {
        self.with_queue(Queue::pop_ring)
    }

    /// For movers: see [`Queue::pop_part`]. The waiters still count as waiters of this bucket.
    pub fn pop_part(&mut self, space: u64, hashes: RangeInclusive<u32>, most: usize) -> Option<Ring> {
        self.with_queue(|q| q.pop_part(space, hashes, most))
    }

    /// For movers: puts a ring from another bucket, which is locked too, into this one. Answers the number of its
    /// waiters.
    ///
    /// # Safety
    /// If waiters of the ring's key are queued here, they are to be woken before those of the ring that have their priority.
    pub unsafe fn push_ring(&mut self, ring: Ring) -> u32 {
        let bucket = self.bucket.address();
        // SAFETY: says the caller.
        let count = self.with_queue(|q| unsafe { q.push_ring(ring, bucket) });
        self.state = with_more(self.state, count);
        count
    }

    /// For movers: `count` waiters have gone to another bucket.
    pub fn moved_away(&mut self, count: u32) {
        self.state -= count * ONE_WAITER;
    }

    /// For movers: goes away without unlocking; [`Bucket::resume`] brings it back.
    pub fn suspend(self) {
        self.bucket.lock.hold_state(self.state);
        core::mem::forget(self);
    }

    /// For movers: this bucket's waiters have moved and its keys are live elsewhere from now on. Unlocks.
    pub fn retire(mut self) {
        if !mutant(crate::sync::Mutant::SourceStaysLive) {
            self.state = 0;
        }
        self.unlock_and_stay();
    }

    /// For movers, who may hold other buckets: unlocks.
    pub fn unlock_and_stay(self) -> bool {
        let slept = self.bucket.lock.unlock_and_stay(self.state);
        core::mem::forget(self);
        slept
    }

    /// Notes that this thread uses the bucket for a word in `line`. Answers how often the bucket has gone to another
    /// thread for another line, if it just did; else 0.
    #[inline(always)]
    pub fn note_use(&mut self, line: u32) -> u32 {
        let now = u64::from(thread_hint()) << 32 | u64::from(line);
        self.bucket.traffic.with_mut(|t| {
            // SAFETY: we hold the lock that guards it.
            let t = unsafe { &mut *t };
            if t.last == now { 0 } else { t.change(now) }
        })
    }
}

/// The state of a bucket to which `count` more waiters are moved. It never wraps: that would take a hundred gigabytes
/// of waiters, from several domains that all move to the global table.
fn with_more(state: u32, count: u32) -> u32 {
    let more = count.checked_mul(ONE_WAITER).and_then(|more| state.checked_add(more));
    more.expect("a bucket cannot count 2^30 waiters")
}

impl Traffic {
    fn change(&mut self, now: u64) -> u32 {
        let changed = core::mem::replace(&mut self.last, now) ^ now;
        if changed >> 32 == 0 || changed as u32 == 0 {
            return 0;
        }
        self.bounces = self.bounces.wrapping_add(1);
        self.bounces
    }
}

impl<L: Layout> Drop for Guard<'_, L> {
    #[inline(always)]
    fn drop(&mut self) {
        self.bucket.lock.unlock(self.state);
    }
}

#[cfg(feature = "sim")]
impl<L: Layout> Bucket<L> {
    const FIELDS: &'static [crate::sync::objects::Field] = &{
        use crate::sync::objects::Field;
        use core::mem::{offset_of, size_of};
        [
            Field { offset: 0, bytes: 4, name: "state" },
            Field { offset: 4, bytes: size_of::<StateLock>() - 4, name: "contended" },
            Field { offset: offset_of!(Self, traffic), bytes: size_of::<UnsafeCell<Traffic>>(), name: "traffic" },
            Field { offset: offset_of!(Self, queue), bytes: size_of::<L::Queue>(), name: "queue" },
            Field { offset: offset_of!(Self, back), bytes: size_of::<L::Back>(), name: "priv" },
        ]
    };

    /// Names a table's buckets for who counts transfers.
    pub fn name(first: NonNull<Self>, slots: usize) {
        crate::sync::objects::name(first.as_ptr().addr(), size_of::<Self>(), slots, "Bucket", Self::FIELDS);
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = {
    assert!(size_of::<Bucket<super::layout::Lean>>() == 64);
    #[cfg(feature = "lab")]
    assert!(size_of::<Bucket<super::layout::Packed>>() == 64);
    #[cfg(feature = "lab")]
    assert!(size_of::<Bucket<super::layout::Split>>() == 128);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a bucket cannot count 2^30 waiters")]
    fn count_of_waiters_does_not_wrap() {
        let full = with_more(LIVE, u32::MAX / ONE_WAITER);
        assert_eq!(full / ONE_WAITER, (1 << 30) - 1);
        with_more(full, 1);
    }
}
