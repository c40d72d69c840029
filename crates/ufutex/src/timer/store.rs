//! The memory of a process's timers.
//!
//! Memory that is once a timer stays a timer until the process's table is freed: look-ups take no lock, and may use a
//! stale pointer. Free timers are in several lists, so that threads seldom contend for one.

use core::ptr::{self, NonNull};

use super::chunk::{self, Chunk, TIMERS};
use super::entry::Timer;
use crate::lock::{Lock, LockGuard};
use crate::sync::{AtomicUsize, MODEL, MODEL_SHARDS, Ordering, thread_shard};
use crate::sys::platform::PlatformRef;

/// Number of lists among which threads that make timers at the same time are spread.
const SHARDS: usize = if MODEL { MODEL_SHARDS } else { 8 };

/// The memory of a process's timers, and the lists of those that are not in use.
pub struct Store {
    shards: [Shard; SHARDS],
    limit: usize,
    /// The number of timers that memory has been granted for, in use or not.
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

/// A linked list of free timers on their way from one list to another.
struct Batch {
    first: NonNull<Timer>,
    last: NonNull<Timer>,
    count: usize,
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
        if let Some(timer) = self.list_of(own).with(Free::pop) {
            return Some(timer);
        }
        let batch = self.shards.iter().find_map(|shard| shard.0.lock().with(Free::pop_batch))?;
        self.list_of(own).with(|free| {
            free.push_batch(batch);
            free.pop()
        })
    }

    /// Takes a free timer from any list that has one.
    pub fn take_last(&self) -> Option<NonNull<Timer>> {
        self.shards.iter().find_map(|shard| shard.0.lock().with(Free::pop))
    }

    /// The number of timers that may be made next: as many as fit into a chunk, or up to the limit. `None` if the limit
    /// is reached. They count as made from here on.
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    pub fn grant(&self) -> Option<usize> {
        let more = |made: usize| TIMERS.min(self.limit.saturating_sub(made));
        let grant = |made: usize| (more(made) > 0).then(|| made + more(made));
        self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant).ok().map(more)
    }

    /// Takes back a grant, because the timers were not made.
    pub fn revoke(&self, timers: usize) {
        self.made.fetch_sub(timers, Ordering::Relaxed);
    }

    /// Makes as many timers as were granted, and returns one of them. `None` if there is no memory.
    pub fn make(&self, timers: usize) -> Option<NonNull<Timer>> {
        self.list_of(thread_shard(SHARDS)).with(|free| {
            free.add_chunk(timers)?;
            free.pop()
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

    /// The number of timers that memory has been granted for, in use or not.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// The number of timers in use, or about to be.
    pub fn in_use(&self) -> usize {
        let free: usize = self.shards.iter().map(|shard| shard.0.lock().with(|free| free.count)).sum();
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

    /// Takes some timers off the list, if it has plenty.
    fn pop_batch(&mut self) -> Option<Batch> {
        if self.count < TIMERS {
            return None;
        }
        let first = NonNull::new(self.first)?;
        let mut last = first;
        let mut count = 1;
        // SAFETY: free timers and their nodes belong to this list alone.
        unsafe {
            while let Some(next) = NonNull::new((*last.as_ref().node()).kept::<Timer>())
                && count < TIMERS / 2
            {
                last = next;
                count += 1;
            }
            self.first = (*last.as_ref().node()).kept();
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
