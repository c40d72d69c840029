//! The memory of a process's timers, and the IDs that they get.
//!
//! What is a timer once is one until the process's table goes: look-ups take no lock, and may come too late. Free timers
//! lie in several lists, so that threads seldom meet. IDs are handed out along with them, under the same lock: one list has
//! the counter, and who asks at another one fetches it from there. Threads that keep fetching get IDs in blocks.

use core::ptr::{self, NonNull};

use super::chunk::{self, Chunk, TIMERS};
use super::entry::Timer;
use crate::sync::{AtomicU32, AtomicUsize, MODEL, Ordering, thread_hint};
use crate::table::lock::{Lock, LockGuard};

/// Threads that make timers at the same time spread over so many lists.
const SHARDS: usize = if MODEL { 1 } else { 8 };
/// IDs that a thread gets at a time which keeps meeting others: a group of the table.
const BLOCK: u32 = 64;
/// So often has it met another since it had as many to itself.
const MEETINGS: u32 = 8;

/// The timers of a process that are not in use.
pub struct Store {
    shards: [Shard; SHARDS],
    /// The list that has the counter of IDs. Changes with that list locked.
    holder: AtomicU32,
    /// Another one whenever IDs jump: blocks of before are void.
    epoch: AtomicU32,
    mask: u32,
    limit: usize,
    /// Timers that there is memory for, in use or not.
    made: AtomicUsize,
}

#[repr(align(128))]
struct Shard(Lock<Free>);

struct Free {
    first: *mut Timer,
    /// Timers in this list.
    count: usize,
    chunks: *mut Chunk,
    /// The next ID, before it is cut to size, where this list has the counter.
    counter: u32,
    /// IDs that are this list's own: from here up to there, as long as the epoch is the same.
    block: Block,
    /// How often it has fetched IDs from another list, lately.
    meetings: u32,
    /// How many it has taken from its own counter, since.
    calm: u32,
    /// Whether it has the counter.
    holds: bool,
}

/// Free timers on their way from one list to another, linked.
struct Batch {
    first: NonNull<Timer>,
    last: NonNull<Timer>,
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Block {
    epoch: u32,
    next: u32,
    end: u32,
}

// SAFETY: the pointers are to memory that the store alone has.
unsafe impl Send for Free {}

impl Store {
    /// For at most `limit` timers, with IDs up to `mask`, which is one less than a power of two.
    pub fn new(limit: usize, mask: u32) -> Self {
        let shards = core::array::from_fn(|number| Shard(Lock::new(Free::new(number == 0))));
        Self { shards, holder: AtomicU32::new(0), epoch: AtomicU32::new(0), mask, limit, made: AtomicUsize::new(0) }
    }

    /// The ID that comes next, in use or not, unless there is a `requested` one; and a free timer, unless one is `kept`
    /// for that ID. `None`: that takes longer.
    #[inline(always)]
    pub fn take(
        &self,
        requested: Option<u32>,
        kept: impl FnOnce(u32) -> bool,
    ) -> Option<(u32, Option<NonNull<Timer>>)> {
        let mut list = self.list().1;
        list.with(|free| {
            let id = requested.or_else(|| free.peek_id(&self.epoch))? & self.mask;
            let timer = if kept(id) { None } else { Some(free.pop()?) };
            if requested.is_none() {
                free.count_on();
            }
            Some((id, timer))
        })
    }

    /// A free timer: of the calling thread's list, or of one that has plenty. Without that, whoever makes timers for others
    /// to delete would need ever more memory.
    pub fn take_free(&self) -> Option<NonNull<Timer>> {
        if let Some(timer) = self.list().1.with(Free::pop) {
            return Some(timer);
        }
        let batch = self.shards.iter().find_map(|shard| shard.0.lock().with(Free::pop_batch))?;
        self.list().1.with(|free| {
            free.push_batch(batch);
            free.pop()
        })
    }

    /// The last free timer there is.
    pub fn take_last(&self) -> Option<NonNull<Timer>> {
        self.shards.iter().find_map(|shard| shard.0.lock().with(Free::pop))
    }

    /// How many more timers there may be: as many as one asks of the allocator, or up to the limit. They are counted from
    /// here on.
    pub fn grant(&self) -> Option<usize> {
        let more = |made: usize| TIMERS.min(self.limit.saturating_sub(made));
        let grant = |made: usize| (more(made) > 0).then(|| made + more(made));
        self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant).ok().map(more)
    }

    /// They are not to be, after all.
    pub fn revoke(&self, timers: usize) {
        self.made.fetch_sub(timers, Ordering::Relaxed);
    }

    /// Makes as many as were granted; one of them. `None`: there is no memory.
    pub fn make(&self, timers: usize) -> Option<NonNull<Timer>> {
        self.list().1.with(|free| {
            free.add_chunk(timers)?;
            free.pop()
        })
    }

    /// The next ID, in use or not: one after the other as long as one thread asks.
    pub fn next_id(&self) -> u32 {
        let (number, mut list) = self.list();
        let id = list.with(|free| free.peek_id(&self.epoch).inspect(|_| free.count_on()));
        drop(list);
        id.unwrap_or_else(|| self.fetch_id(number)) & self.mask
    }

    /// Takes a timer back that nobody can find.
    #[inline(always)]
    pub fn give_back(&self, timer: NonNull<Timer>) {
        self.list().1.with(|free| free.push(timer));
    }

    /// The list of the calling thread, or the next one that nobody is at.
    #[inline(always)]
    fn list(&self) -> (usize, LockGuard<'_, Free>) {
        let own = own_shard();
        match self.shards[own].0.try_lock() {
            Some(list) => (own, list),
            None => self.other_list(own),
        }
    }

    #[cold]
    fn other_list(&self, own: usize) -> (usize, LockGuard<'_, Free>) {
        let others = (1..SHARDS).map(|i| (own + i) & (SHARDS - 1));
        for number in others {
            if let Some(list) = self.shards[number].0.try_lock() {
                return (number, list);
            }
        }
        (own, self.shards[own].0.lock())
    }

    /// An ID of the list that has the counter, which list `number` has not: the counter moves there. If that happens again
    /// and again, a block of IDs does instead.
    #[cold]
    fn fetch_id(&self, number: usize) -> u32 {
        let wants_block = self.shards[number].0.lock().with(|free| {
            free.meetings = (free.meetings + 1).min(MEETINGS);
            free.calm = 0;
            free.meetings == MEETINGS
        });
        loop {
            let holder = self.holder.load(Ordering::Relaxed) as usize;
            let mut theirs = self.shards[holder].0.lock();
            if !theirs.with(|free| free.holds) {
                continue; // it has just been fetched
            }
            if wants_block {
                let block = theirs.with(|free| free.take_block(self.epoch.load(Ordering::Relaxed)));
                drop(theirs);
                self.shards[number]
                    .0
                    .lock()
                    .with(|free| free.block = Block { next: block.next.wrapping_add(1), ..block });
                return block.next;
            }
            let id = theirs.with(|free| {
                free.counter = free.counter.wrapping_add(1);
                free.counter.wrapping_sub(1)
            });
            // With both locked, so that somebody has it at all times. If that would mean to wait, it stays where it is.
            if holder != number
                && let Some(mut own) = self.shards[number].0.try_lock()
            {
                theirs.with(|free| free.holds = false);
                own.with(|free| (free.counter, free.holds) = (id.wrapping_add(1), true));
                self.holder.store(number as u32, Ordering::Relaxed);
            }
            return id;
        }
    }

    /// IDs go on after `id`.
    pub fn jump_behind(&self, id: u32) {
        loop {
            let holder = self.holder.load(Ordering::Relaxed) as usize;
            let jumped = self.shards[holder].0.lock().with(|free| {
                if free.holds {
                    free.counter = id.wrapping_add(1);
                    self.epoch.fetch_add(1, Ordering::Relaxed);
                }
                free.holds
            });
            if jumped {
                return;
            }
        }
    }

    /// How many IDs there are.
    pub fn ids(&self) -> u64 {
        u64::from(self.mask) + 1
    }

    /// Timers that there is memory for, in use or not.
    pub fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Timers in use, or about to be.
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

    /// Whatever has ever been a timer.
    pub fn for_each(&self, mut f: impl FnMut(&Timer)) {
        self.for_each_chunk(|chunk| {
            // SAFETY: chunks stay until the store goes, and have so many timers.
            unsafe { (0..chunk.as_ref().timers).for_each(|index| f(chunk::timer(chunk, index).as_ref())) };
        });
    }

    fn for_each_chunk(&self, mut f: impl FnMut(NonNull<Chunk>)) {
        for shard in &self.shards {
            let mut next = shard.0.lock().with(|free| free.chunks);
            while let Some(chunk) = NonNull::new(next) {
                // SAFETY: as above; what precedes its timers does not change.
                next = unsafe { chunk.as_ref() }.next;
                f(chunk);
            }
        }
    }
}

impl Free {
    const fn new(holds: bool) -> Self {
        Self {
            first: ptr::null_mut(),
            count: 0,
            chunks: ptr::null_mut(),
            counter: 0,
            block: Block { epoch: 0, next: 0, end: 0 },
            meetings: 0,
            calm: 0,
            holds,
        }
    }

    /// The next ID, if this list has any.
    #[inline(always)]
    fn peek_id(&self, epoch: &AtomicU32) -> Option<u32> {
        if self.holds {
            return Some(self.counter);
        }
        let has_one = self.block.next != self.block.end && self.block.epoch == epoch.load(Ordering::Relaxed);
        has_one.then_some(self.block.next)
    }

    /// That ID is used.
    #[inline(always)]
    fn count_on(&mut self) {
        if !self.holds {
            self.block.next = self.block.next.wrapping_add(1);
            return;
        }
        self.counter = self.counter.wrapping_add(1);
        self.calm += 1;
        if self.calm == BLOCK {
            (self.calm, self.meetings) = (0, 0);
        }
    }

    /// A whole group of the table, which no other list gets IDs of.
    fn take_block(&mut self, epoch: u32) -> Block {
        let next = self.counter.wrapping_add(BLOCK - 1) / BLOCK * BLOCK;
        self.counter = next.wrapping_add(BLOCK);
        Block { epoch, next, end: self.counter }
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<NonNull<Timer>> {
        let timer = NonNull::new(self.first)?;
        // SAFETY: a free timer and its node are this list's alone.
        self.first = unsafe { (*timer.as_ref().node()).kept() };
        self.count -= 1;
        Some(timer)
    }

    #[inline(always)]
    fn push(&mut self, timer: NonNull<Timer>) {
        // SAFETY: a timer of the store, which nobody uses any more.
        unsafe { (*timer.as_ref().node()).keep(self.first) };
        self.first = timer.as_ptr();
        self.count += 1;
    }

    /// Some timers, if there are plenty.
    fn pop_batch(&mut self) -> Option<Batch> {
        if self.count < TIMERS {
            return None;
        }
        let first = NonNull::new(self.first)?;
        let mut last = first;
        let mut count = 1;
        // SAFETY: free timers and their nodes are this list's alone.
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
        // SAFETY: nobody else has them.
        unsafe { (*last.as_ref().node()).keep(self.first) };
        self.first = first.as_ptr();
        self.count += count;
    }

    fn add_chunk(&mut self, timers: usize) -> Option<()> {
        let chunk = chunk::make(timers, self.chunks, self.first)?;
        self.chunks = chunk.as_ptr();
        // SAFETY: there is a first one.
        self.first = unsafe { chunk::timer(chunk, 0) }.as_ptr();
        self.count += timers;
        Some(())
    }
}

#[inline]
fn own_shard() -> usize {
    // Stacks lie at multiples of large powers of two, which leave the lower bits of any product alone: the upper ones.
    let mixed = thread_hint().wrapping_mul(0x9e37_79b9);
    ((mixed >> 16) as usize * SHARDS) >> 16
}

impl Drop for Free {
    fn drop(&mut self) {
        while let Some(chunk) = NonNull::new(self.chunks) {
            // SAFETY: a chunk of `add_chunk`; the table is going, so nobody uses its timers.
            unsafe {
                self.chunks = chunk.as_ref().next;
                chunk::free(chunk);
            }
        }
    }
}
