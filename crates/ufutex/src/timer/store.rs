//! The memory of a process's timers.
//!
//! Memory that is once a timer stays a timer until the process's table is freed: look-ups take no lock, and may use a
//! stale pointer. Free timers are in several lists, so that threads seldom contend for one.

use core::ptr::{self, NonNull};

use super::chunk::{self, Chunk, TIMERS};
use super::entry::Timer;
use crate::lock::{Lock, LockGuard};
use crate::sync::{AtomicUsize, MODEL, MODEL_SHARDS, Mutant, Ordering, mutant, thread_shard};
use crate::sys::platform::PlatformRef;

/// Number of lists among which threads that make timers at the same time are spread.
const SHARDS: usize = if MODEL { MODEL_SHARDS } else { 8 };

/// The memory of a process's timers, and the lists of those that are not in use.
pub struct Store {
    shards: [Shard; SHARDS],
    limit: usize,
    /// The number of timers that have been made, in use or not.
    made: AtomicUsize,
}

#[repr(align(128))]
struct Shard(Lock<Free>);

struct Free {
    first: *mut Timer,
    /// The number of timers in this list.
    count: usize,
    chunks: *mut Chunk,
}

/// Why no timer was made.
pub enum NotMade {
    NoMemory,
    /// There would be more timers than the embedder has made room for, because other threads have made some. Or the
    /// limit is reached.
    NoRoom,
}

/// Free timers on their way to a list or a group: linked by their nodes. The last links to none.
pub struct Batch {
    pub first: NonNull<Timer>,
    last: NonNull<Timer>,
    pub count: usize,
}

// SAFETY: the pointers are to memory that belongs to the store alone.
unsafe impl Send for Free {}

impl Store {
    /// Makes a store for at most `limit` timers.
    pub fn new(on: PlatformRef, limit: usize) -> Self {
        let shards = core::array::from_fn(|_| Shard(Lock::new(on, Free::new())));
        Self { shards, limit, made: AtomicUsize::new(0) }
    }

    /// Takes a free timer from the calling thread's list; `None` if that list is empty.
    #[inline(always)]
    pub fn take(&self) -> Option<NonNull<Timer>> {
        self.list_of(thread_shard(SHARDS)).with(Free::pop)
    }

    /// Takes a free timer from the calling thread's list, or from a list that has plenty. Without the latter, a thread
    /// that makes timers for other threads to delete would need more and more memory.
    pub fn take_free(&self) -> Option<NonNull<Timer>> {
        let own = thread_shard(SHARDS);
        let first = self.list_of(own).with(Free::pop);
        first.or_else(|| (0..SHARDS).find_map(|number| self.take_from(number, own)))
    }

    /// Takes a timer from list `number`, if that is `own`. Otherwise, if it has as many as a chunk, moves half as many to
    /// list `own`, and takes one of them.
    fn take_from(&self, number: usize, own: usize) -> Option<NonNull<Timer>> {
        // If the own list was in use before, another was looked into.
        if number == own {
            return self.shards[own].0.lock().with(Free::pop);
        }
        let has_plenty = |free: &mut Free| free.count >= TIMERS;
        if !self.shards[number].0.lock().with(has_plenty) {
            return None;
        }
        // Both lists stay locked during the move, so that a thread which locks all lists misses no timer. The lower
        // number first, as in `all_lists`.
        let mut lower = self.shards[own.min(number)].0.lock();
        let mut upper = self.shards[own.max(number)].0.lock();
        let (to, from) = if own < number { (&mut lower, &mut upper) } else { (&mut upper, &mut lower) };
        let batch = from.with(|from| if has_plenty(from) { from.pop_batch(TIMERS / 2) } else { None })?;
        to.with(|to| {
            to.push_batch(batch);
            to.pop()
        })
    }

    /// Takes up to `most` free timers from the calling thread's list. `None` if it is empty, or at the limit, where others
    /// may need them.
    pub fn take_batch(&self, most: usize) -> Option<Batch> {
        self.next()?;
        self.list_of(thread_shard(SHARDS)).with(|free| free.pop_batch(most))
    }

    /// Gives free timers to the calling thread's list.
    pub fn give_batch(&self, batch: Batch) {
        self.list_of(thread_shard(SHARDS)).with(|free| free.push_batch(batch));
    }

    /// Takes a free timer from any list that has one. May miss one that moves.
    pub fn take_any(&self) -> Option<NonNull<Timer>> {
        self.shards.iter().find_map(|shard| shard.0.lock().with(Free::pop))
    }

    /// As `take_any`, with all lists locked: misses none.
    pub fn take_last(&self) -> Option<NonNull<Timer>> {
        self.all_lists().iter_mut().find_map(|list| list.with(Free::pop))
    }

    /// Locks all lists at once: no timer is made, or moves from one list to another, meanwhile.
    fn all_lists(&self) -> [LockGuard<'_, Free>; SHARDS] {
        self.shards.each_ref().map(|shard| shard.0.lock())
    }

    /// The number of timers that there will be if as many are made as fit into a chunk, or up to the limit. `None` if
    /// the limit is reached.
    pub fn next(&self) -> Option<usize> {
        self.after(self.made())
    }

    fn after(&self, made: usize) -> Option<usize> {
        (made < self.limit).then(|| self.limit.min(made.saturating_add(TIMERS)))
    }

    /// Makes as many timers as fit into a chunk, or up to the limit, and returns one of them. Refuses if there would be
    /// more than `room` in all.
    ///
    /// The list that gets them is locked when they are counted as made. So a thread that finds the limit reached, and
    /// locks all lists to find a free timer, waits for those that are being made.
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    pub fn make(&self, room: usize) -> Result<NonNull<Timer>, NotMade> {
        let more = |made| self.after(made).filter(|&after| after <= room);
        let count = || self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let early = mutant(Mutant::TimersCountEarly).then(count);
        self.list_of(thread_shard(SHARDS)).with(|free| {
            let made = early.unwrap_or_else(count).map_err(|_| NotMade::NoRoom)?;
            let timers = TIMERS.min(self.limit - made);
            if free.add_chunk(timers).is_none() {
                self.made.fetch_sub(timers, Ordering::Relaxed);
                return Err(NotMade::NoMemory);
            }
            free.pop().ok_or(NotMade::NoMemory)
        })
    }

    /// Takes back a timer that cannot be found any more.
    #[inline(always)]
    pub fn give_back(&self, timer: NonNull<Timer>) {
        self.list_of(thread_shard(SHARDS)).with(|free| free.push(timer));
    }

    /// Locks the calling thread's list, whose number is `own`, or the next list that is not locked.
    #[inline(always)]
    fn list_of(&self, own: usize) -> LockGuard<'_, Free> {
        match self.shards[own].0.try_lock() {
            Some(list) => list,
            None => self.other_list(own),
        }
    }

    #[cold]
    fn other_list(&self, own: usize) -> LockGuard<'_, Free> {
        let others = (1..SHARDS).map(|i| (own + i) & (SHARDS - 1));
        for number in others {
            if let Some(list) = self.shards[number].0.try_lock() {
                return list;
            }
        }
        self.shards[own].0.lock()
    }

    /// The number of timers that have been made, in use or not.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// The number of timers that are in no list: in use, or kept by groups.
    pub fn in_use(&self) -> usize {
        let mut lists = self.all_lists();
        let free = lists.iter_mut().map(|list| list.with(|free| free.count)).sum();
        self.made().saturating_sub(free)
    }

    /// All memory, in bytes.
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.for_each_chunk(|_| bytes += chunk::BYTES);
        bytes
    }

    /// Calls `f` with all timers, in use or free.
    pub fn for_each(&self, mut f: impl FnMut(&Timer)) {
        self.for_each_chunk(|chunk| {
            // SAFETY: chunks are freed with the store, and hold this many timers.
            unsafe { (0..chunk.as_ref().timers).for_each(|index| f(chunk::timer(chunk, index).as_ref())) };
        });
    }

    fn for_each_chunk(&self, mut f: impl FnMut(NonNull<Chunk>)) {
        for shard in &self.shards {
            let mut next = shard.0.lock().with(|free| free.chunks);
            while let Some(chunk) = NonNull::new(next) {
                // SAFETY: as in `for_each`; a chunk's header does not change.
                next = unsafe { chunk.as_ref() }.next;
                f(chunk);
            }
        }
    }
}

impl Batch {
    /// The free timers that `first` links to, and itself. They belong to the caller.
    pub fn from_first(first: &Timer) -> Self {
        let mut batch = Self { first: first.into(), last: first.into(), count: 1 };
        // SAFETY: free timers and their nodes belong to the caller.
        while let Some(next) = NonNull::new(unsafe { (*batch.last.as_ref().node()).kept::<Timer>() }) {
            batch.last = next;
            batch.count += 1;
        }
        batch
    }

    /// One timer, which no thread uses any more.
    #[inline(always)]
    pub fn of(timer: &Timer) -> Self {
        // SAFETY: a free timer and its node belong to the caller.
        unsafe { (*timer.node()).keep::<Timer>(ptr::null_mut()) };
        Self { first: timer.into(), last: timer.into(), count: 1 }
    }
}

impl Free {
    const fn new() -> Self {
        Self { first: ptr::null_mut(), count: 0, chunks: ptr::null_mut() }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<NonNull<Timer>> {
        let timer = NonNull::new(self.first)?;
        // SAFETY: a free timer and its node belong to this list alone.
        self.first = unsafe { (*timer.as_ref().node()).kept() };
        self.count -= 1;
        Some(timer)
    }

    #[inline(always)]
    fn push(&mut self, timer: NonNull<Timer>) {
        // SAFETY: a timer of the store, which no thread uses any more.
        unsafe { (*timer.as_ref().node()).keep(self.first) };
        self.first = timer.as_ptr();
        self.count += 1;
    }

    /// Takes up to `most` timers off the list, and at least one.
    fn pop_batch(&mut self, most: usize) -> Option<Batch> {
        let first = NonNull::new(self.first)?;
        let mut last = first;
        let mut count = 1;
        // SAFETY: free timers and their nodes belong to this list alone.
        unsafe {
            while count < most
                && let Some(next) = NonNull::new((*last.as_ref().node()).kept::<Timer>())
            {
                last = next;
                count += 1;
            }
            self.first = (*last.as_ref().node()).kept();
            (*last.as_ref().node()).keep::<Timer>(ptr::null_mut());
        }
        self.count -= count;
        Some(Batch { first, last, count })
    }

    fn push_batch(&mut self, Batch { first, last, count }: Batch) {
        // SAFETY: the batch belongs to this call alone.
        unsafe { (*last.as_ref().node()).keep(self.first) };
        self.first = first.as_ptr();
        self.count += count;
    }

    fn add_chunk(&mut self, timers: usize) -> Option<()> {
        let chunk = chunk::make(timers, self.chunks, self.first)?;
        self.chunks = chunk.as_ptr();
        // SAFETY: a chunk has at least one timer.
        self.first = unsafe { chunk::timer(chunk, 0) }.as_ptr();
        self.count += timers;
        Some(())
    }
}

impl Drop for Free {
    fn drop(&mut self) {
        while let Some(chunk) = NonNull::new(self.chunks) {
            // SAFETY: a chunk that `add_chunk` made. The process's table is being freed, so no thread uses the timers.
            unsafe {
                self.chunks = chunk.as_ref().next;
                chunk::free(chunk);
            }
        }
    }
}
