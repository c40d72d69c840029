//! The memory of a process's timers, and the IDs that they get.
//!
//! What is a timer once is one until the process's table goes: look-ups take no lock, and may come too late. Free timers
//! lie in several lists, so that threads seldom meet; IDs are handed out along with them, under the same lock.

use alloc::alloc::{Layout, alloc, dealloc};
use core::ptr::{self, NonNull};

use super::entry::Timer;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, MODEL, Ordering, thread_hint};
use crate::table::lock::{Lock, LockGuard};

/// Threads that make timers at the same time spread over so many lists.
const SHARDS: usize = if MODEL { 1 } else { 8 };
/// Timers that are asked of the allocator at a time: 4 KiB with what stands before them, and 32 KiB once there are many.
const FEW: usize = if MODEL { 2 } else { 31 };
const MANY: usize = if MODEL { 2 } else { 255 };
/// IDs that a thread gets at a time which keeps meeting others: a group of the table.
const BLOCK: u32 = 64;
/// So often has it met another since it had as many to itself.
const MEETINGS: u32 = 8;

/// The timers of a process that are not in use.
pub struct Store {
    shards: [Shard; SHARDS],
    /// Timers that there are, free or not.
    made: AtomicUsize,
    limit: usize,
    numbers: Numbers,
}

#[repr(align(128))]
struct Shard(Lock<Free>);

pub struct Free {
    first: *mut Timer,
    count: usize,
    chunks: *mut Chunk,
    /// IDs that are its own: from here up to there, as long as the epoch is the same.
    block: Block,
    /// How often another list has asked in between, lately.
    meetings: u32,
    /// How often none has, since.
    calm: u32,
}

#[derive(Clone, Copy, Default)]
struct Block {
    epoch: u32,
    next: u32,
    end: u32,
}

// SAFETY: the pointers are to memory that the store alone has.
unsafe impl Send for Free {}

/// What IDs come next; a line that threads which make timers pass around.
#[repr(align(64))]
struct Numbers {
    /// Lower half: the next ID, before it is cut to size. Upper half: an epoch, new whenever the IDs jump.
    next: AtomicU64,
    /// The shard that asked last.
    last: AtomicU32,
    mask: u32,
}

/// What precedes the timers of a chunk, as long as one of them.
#[repr(C, align(128))]
struct Chunk {
    next: *mut Chunk,
    timers: usize,
}

/// A list of free timers, locked.
pub struct Taking<'s> {
    store: &'s Store,
    number: u32,
    free: LockGuard<'s, Free>,
}

impl Store {
    /// For at most `limit` timers, with IDs up to `mask`, which is one less than a power of two.
    pub fn new(limit: usize, mask: u32) -> Self {
        let free = || Free {
            first: ptr::null_mut(),
            count: 0,
            chunks: ptr::null_mut(),
            block: Block::default(),
            meetings: 0,
            calm: 0,
        };
        Self {
            shards: core::array::from_fn(|_| Shard(Lock::new(free()))),
            made: AtomicUsize::new(0),
            limit,
            numbers: Numbers { next: AtomicU64::new(0), last: AtomicU32::new(0), mask },
        }
    }

    /// The list for the calling thread: its own, or the next one that nobody is at.
    #[inline]
    pub fn begin(&self) -> Taking<'_> {
        let own = own_shard();
        for i in 0..SHARDS {
            let number = (own + i) & (SHARDS - 1);
            if let Some(free) = self.shards[number].0.try_lock() {
                return Taking { store: self, number: number as u32, free };
            }
        }
        Taking { store: self, number: own as u32, free: self.shards[own].0.lock() }
    }

    /// A free timer of another list, when there can be no more.
    pub fn take_anywhere(&self) -> Option<NonNull<Timer>> {
        self.shards.iter().find_map(|shard| shard.0.lock().with(Free::pop))
    }

    /// Takes a timer back that nobody can find.
    pub fn give_back(&self, timer: NonNull<Timer>) {
        self.begin().free.with(|free| free.push(timer));
    }

    /// Timers that there are, free or not.
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
        self.for_each_chunk(|_, timers| bytes += (timers + 1) * size_of::<Timer>());
        bytes
    }

    /// Whatever has ever been a timer.
    pub fn for_each(&self, mut f: impl FnMut(&Timer)) {
        self.for_each_chunk(|first, timers| {
            for i in 0..timers {
                // SAFETY: a chunk has so many, and stays until the store goes.
                f(unsafe { &*first.add(i) });
            }
        });
    }

    fn for_each_chunk(&self, mut f: impl FnMut(*const Timer, usize)) {
        for shard in &self.shards {
            let mut chunk = shard.0.lock().with(|free| free.chunks);
            while !chunk.is_null() {
                // SAFETY: chunks stay until the store goes, and what is in front of the first does not change.
                let (next, timers) = unsafe { ((*chunk).next, (*chunk).timers) };
                f(timers_of(chunk), timers);
                chunk = next;
            }
        }
    }

    /// IDs go on after `id`.
    pub fn jump_behind(&self, id: u32) {
        let next = &self.numbers.next;
        let jump = |word: u64| Some((word >> 32).wrapping_add(1) << 32 | u64::from(id.wrapping_add(1)));
        let _always = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, jump);
    }

    /// How many IDs there are.
    pub fn ids(&self) -> u64 {
        u64::from(self.numbers.mask) + 1
    }
}

impl Taking<'_> {
    /// A free timer. `None`: there can be no more in this list.
    #[inline]
    pub fn take(&mut self) -> Option<NonNull<Timer>> {
        self.free.with(Free::pop).or_else(|| self.make_more())
    }

    #[cold]
    fn make_more(&mut self) -> Option<NonNull<Timer>> {
        let store = self.store;
        let wanted = if store.made() < 32 * FEW { FEW } else { MANY };
        let grant = |made: usize| (made < store.limit).then(|| made + wanted.min(store.limit - made));
        let before = store.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grant).ok()?;
        let timers = wanted.min(store.limit - before);
        let made = self.free.with(|free| free.add_chunk(timers));
        if made.is_none() {
            store.made.fetch_sub(timers, Ordering::Relaxed);
        }
        made?;
        self.free.with(Free::pop)
    }

    /// The next ID, in use or not: one after the other, as long as one thread asks. Threads that ask in turn get blocks.
    #[inline]
    pub fn next_id(&mut self) -> u32 {
        let (numbers, number) = (&self.store.numbers, self.number);
        self.free.with(|free| {
            let block = &mut free.block;
            if block.next != block.end {
                let word = numbers.next.load(Ordering::Relaxed);
                if (word >> 32) as u32 == block.epoch {
                    let id = block.next;
                    block.next = id.wrapping_add(1);
                    return id & numbers.mask;
                }
            }
            numbers.next_of(free, number) & numbers.mask
        })
    }
}

impl Numbers {
    fn next_of(&self, free: &mut Free, number: u32) -> u32 {
        if self.last.load(Ordering::Relaxed) == number {
            free.calm += 1;
            if free.calm == BLOCK {
                free.meetings = 0;
            }
        } else {
            self.last.store(number, Ordering::Relaxed);
            free.calm = 0;
            free.meetings += 1;
        }
        if free.meetings < MEETINGS { self.next.fetch_add(1, Ordering::Relaxed) as u32 } else { self.take_block(free) }
    }

    /// A whole group of the table, which no other thread gets IDs of.
    #[cold]
    fn take_block(&self, free: &mut Free) -> u32 {
        let begin = |word: u64| (word as u32).wrapping_add(BLOCK - 1) / BLOCK * BLOCK;
        let past = |word: u64| Some(word >> 32 << 32 | u64::from(begin(word).wrapping_add(BLOCK)));
        let (Ok(word) | Err(word)) = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, past);
        let id = begin(word);
        free.calm = 0;
        free.meetings = MEETINGS - 1; // as long as there is another by the next time
        free.block = Block { epoch: (word >> 32) as u32, next: id.wrapping_add(1), end: id.wrapping_add(BLOCK) };
        id
    }
}

impl Free {
    fn pop(&mut self) -> Option<NonNull<Timer>> {
        let timer = NonNull::new(self.first)?;
        // SAFETY: a free timer is this list's alone.
        self.first = unsafe { timer.as_ref() }.next_free.get();
        self.count -= 1;
        Some(timer)
    }

    fn push(&mut self, timer: NonNull<Timer>) {
        // SAFETY: a timer of the store, which nobody uses any more.
        unsafe { timer.as_ref() }.next_free.set(self.first);
        self.first = timer.as_ptr();
        self.count += 1;
    }

    fn add_chunk(&mut self, timers: usize) -> Option<()> {
        let layout = chunk_layout(timers)?;
        // SAFETY: it has a size.
        let chunk = NonNull::new(unsafe { alloc(layout) })?.cast::<Chunk>().as_ptr();
        // SAFETY: fresh memory for so many, and one header.
        unsafe {
            chunk.write(Chunk { next: self.chunks, timers });
            self.chunks = chunk;
            // So that they are taken in the order in which they lie.
            for i in (0..timers).rev() {
                let timer = timers_of(chunk).add(i);
                timer.write(Timer::new());
                self.push(NonNull::new_unchecked(timer));
            }
        }
        Some(())
    }
}

fn timers_of(chunk: *mut Chunk) -> *mut Timer {
    chunk.cast::<Timer>().wrapping_add(1)
}

fn chunk_layout(timers: usize) -> Option<Layout> {
    Layout::array::<Timer>(timers + 1).ok()
}

fn own_shard() -> usize {
    // Stacks lie at multiples of large powers of two.
    let mixed = u64::from(thread_hint()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed as usize & (SHARDS - 1)
}

impl Drop for Free {
    fn drop(&mut self) {
        while !self.chunks.is_null() {
            let chunk = self.chunks;
            // SAFETY: a chunk of `add_chunk`; the table is going, so nobody uses its timers.
            unsafe {
                self.chunks = (*chunk).next;
                let timers = (*chunk).timers;
                for i in 0..timers {
                    timers_of(chunk).add(i).drop_in_place();
                }
                if let Some(layout) = chunk_layout(timers) {
                    dealloc(chunk.cast(), layout);
                }
            }
        }
    }
}
