//! What new timers are made of: IDs, memory and permits below the limit.
//!
//! IDs come from one counter, in blocks of 64 that are groups of the table. A *shard* has the rest of a block, free timers and
//! free permits. All threads use the common shard, so IDs follow one another as the kernel's do. A thread that loses an ID
//! there to another thread takes a block in a shard that few threads share.
//!
//! **A shard belongs to the lock of the group of its next ID**, which a thread that makes a timer needs anyway. When the next
//! ID is in another group, the shard belongs to that group's lock from then on [Z].

use core::array;
use core::ptr::{self, NonNull};

use super::entry::{Chunk, TIMERS, Timer};
use super::ids::{GROUP_LOG2, Ids, LockedGroup};
use crate::error::Error;
use crate::lock::Lock;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, UnsafeCell, thread_shard};
use crate::sys::admission::{self, Admission, FreePermits};
use crate::sys::platform::PlatformRef;
use crate::sys::unwind::Otherwise;

/// As many IDs as a group of the table has slots.
const BLOCK: u32 = 64;
/// Shards of threads that make timers at the same time. A thread picks one by a hint.
const OWN_SHARDS: usize = admission::SHARDS - 1;
/// The least IDs in use that a create passes over before it gives up.
const PASSES_MIN: u64 = 1 << 14;

/// Above the next ID in a shard's word. Clear: the shard's block has ended.
const HAS_IDS: u32 = 1 << 31;

pub struct Store {
    pub ids: Ids,
    common: Shard,
    own: [Shard; OWN_SHARDS],
    /// The next block's first ID.
    next: AtomicU32,
    /// The highest ID, one less than a power of two.
    pub mask: u32,
    admission: Admission,
    /// Timers that there is memory for.
    made: AtomicUsize,
    chunks: Lock<Chunks>,
}

#[repr(align(128))]
pub struct Shard {
    /// `HAS_IDS` and the next ID, or the last one of a block that has ended.
    word: AtomicU32,
    /// Belongs to the lock of that ID's group.
    stock: UnsafeCell<Stock>,
}

struct Stock {
    first: *mut Timer,
    count: usize,
    /// If the limit is not small.
    permits: u64,
}

// SAFETY: `stock` is used only through a `HeldShard`, of which there is one at a time.
unsafe impl Sync for Shard {}
// SAFETY: the memory belongs to the store alone.
unsafe impl Send for Shard {}

struct Chunks(*mut Chunk);

// SAFETY: as for `Shard`.
unsafe impl Send for Chunks {}

#[inline(always)]
fn id_in(word: u32) -> u32 {
    word & !HAS_IDS
}

/// Whether a shard with this word belongs to the lock of this ID's group.
#[inline(always)]
fn is_guarded_by(word: u32, id: u32) -> bool {
    id_in(word ^ id) >> GROUP_LOG2 == 0
}

impl Shard {
    fn new() -> Self {
        let stock = Stock { first: ptr::null_mut(), count: 0, permits: 0 };
        Self { word: AtomicU32::new(0), stock: UnsafeCell::new(stock) }
    }

    #[inline(always)]
    pub fn peek(&self) -> u32 {
        self.word.load(Ordering::Acquire) // [Z]
    }
}

/// A shard whose lock is held.
pub struct HeldShard<'s> {
    store: &'s Store,
    shard: &'s Shard,
    seen: u32,
    pub group: LockedGroup<'s>,
}

impl Store {
    /// Makes a store for at most `limit` timers. `mask` is one less than a power of two. [`Error::NoMemory`].
    pub fn new(on: PlatformRef, limit: usize, mask: u32) -> Result<Self, Error> {
        Ok(Self {
            ids: Ids::new(on)?,
            common: Shard::new(),
            own: array::from_fn(|_| Shard::new()),
            next: AtomicU32::new(0),
            mask,
            admission: Admission::new(limit as u64),
            made: AtomicUsize::new(0),
            chunks: Lock::new(on, Chunks(ptr::null_mut())),
        })
    }

    /// How many IDs in use a create passes over before it gives up. It passes over all IDs or, if there are fewer timers than
    /// IDs, over more than there are timers; twice at least, because others may take a free one first. If all are in use, it
    /// passes over each equally often, so that the next ID stays what it was, as in the kernel.
    #[cold]
    pub fn passes_max(&self) -> u64 {
        let timers = self.made.load(Ordering::Relaxed) as u64 + u64::from(BLOCK);
        let ids = timers.min(u64::from(self.mask) + 1);
        ids * PASSES_MIN.div_ceil(ids).max(2)
    }

    /// The shard for the calling thread's next timer, and its own, which is the former while it has IDs.
    #[inline(always)]
    pub fn pick(&self) -> (&Shard, &Shard) {
        let own = self.own_shard();
        (if own.word.load(Ordering::Relaxed) & HAS_IDS != 0 { own } else { &self.common }, own)
    }

    #[inline(always)]
    pub fn own_shard(&self) -> &Shard {
        &self.own[thread_shard(OWN_SHARDS)]
    }

    #[cfg(all(test, feature = "std"))]
    pub fn other_shard(&self) -> &Shard {
        if ptr::eq(self.own_shard(), &self.own[0]) { &self.own[1] } else { &self.own[0] }
    }

    fn shards(&self) -> impl Iterator<Item = HeldShard<'_>> {
        core::iter::once(&self.common).chain(&self.own).map(|shard| self.hold(shard))
    }

    /// Holds `shard`, if its word is still `seen`.
    #[inline(always)]
    pub fn hold_as_seen<'s>(&'s self, shard: &'s Shard, seen: u32) -> Option<HeldShard<'s>> {
        let group = self.ids.lock(id_in(seen));
        let is_same = shard.peek() == seen;
        is_same.then_some(HeldShard { store: self, shard, seen, group })
    }

    /// Whenever a round fails, other threads have used up a block.
    pub fn hold<'s>(&'s self, shard: &'s Shard) -> HeldShard<'s> {
        loop {
            let id = id_in(shard.peek());
            let group = self.ids.lock(id);
            let seen = shard.peek();
            if is_guarded_by(seen, id) {
                return HeldShard { store: self, shard, seen, group };
            }
        }
    }

    /// Makes IDs go on after `id`, whatever blocks the shards have.
    pub fn jump_behind(&self, id: u32) {
        // First the counter, from which shards take blocks. A swap, because loom does not order a plain store with exchanges.
        self.next.swap(id.wrapping_add(1) & self.mask, Ordering::Relaxed);
        self.shards().for_each(|held| {
            let id = id_in(held.seen);
            held.leave(id);
        });
    }

    /// Takes back a timer that cannot be found any more, if `group`, where it was as `id`, guards a shard of the thread's.
    #[inline(always)]
    #[must_use]
    pub fn takes_back_here(&self, timer: NonNull<Timer>, id: u32, group: LockedGroup<'_>) -> bool {
        let (next, own) = self.pick();
        for shard in [next, own] {
            let seen = shard.peek();
            if is_guarded_by(seen, id) {
                HeldShard { store: self, shard, seen, group }.give_back(timer);
                return true;
            }
        }
        false
    }

    /// Takes back a timer that cannot be found any more, and was `id`. A shard without IDs passes to that ID's group, whose
    /// lock the thread takes next if it deletes one timer after another.
    pub fn give_back(&self, timer: NonNull<Timer>, id: u32) {
        let mut held = self.hold(self.own_shard());
        held.give_back(timer);
        if held.next_id().is_none() {
            held.leave(id);
        }
    }

    /// Takes a timer and its permit from wherever they are, for a thread that has not found both in `shard`. Before it makes
    /// more timers it calls `begin` with their number, with nothing locked. May miss a permit that is given back meanwhile.
    #[cold]
    #[inline(never)]
    pub fn bring(
        &self,
        shard: &Shard,
        begin: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<NonNull<Timer>, Error> {
        if !self.admission.take(None::<&mut u64>)
            && !self.shards().any(|mut held| held.with(|stock| stock.permits.take(1)))
        {
            return Err(Error::Again);
        }
        let permit = Otherwise::new(|| self.admission.give_back(None::<&mut u64>));
        let mut timer = self.hold(shard).with(Stock::pop);
        if timer.is_none() {
            // Another shard's first: otherwise a thread that makes what others delete needs more and more memory.
            let batch = match self.shards().find_map(|mut held| held.with(Stock::pop_batch)) {
                Some(batch) => batch,
                None => self.make_chunk(begin)?,
            };
            timer = self.hold(shard).with(|stock| {
                batch.into_iter().rev().flatten().for_each(|timer| stock.push(timer));
                stock.pop()
            });
        }
        let timer = timer.ok_or(Error::Again)?;
        permit.disarm();
        Ok(timer)
    }

    fn make_chunk(&self, begin: impl FnOnce(usize) -> Result<(), Error>) -> Result<Batch, Error> {
        let count = self.made.fetch_add(TIMERS, Ordering::Relaxed) + TIMERS;
        let counted = Otherwise::new(|| _ = self.made.fetch_sub(TIMERS, Ordering::Relaxed));
        begin(count).map_err(|_| Error::Again)?;
        let chunk = Chunk::make().ok_or(Error::Again)?;
        counted.disarm();
        self.chunks.lock().with(|chunks| {
            // SAFETY: no other thread has the new chunk.
            unsafe { (*chunk.as_ptr()).next = chunks.0 };
            chunks.0 = chunk.as_ptr();
        });
        self.ids.note_timers(count);
        // SAFETY: it is an index of the chunk.
        Ok(array::from_fn(|index| Some(unsafe { Chunk::timer(chunk, index) })))
    }

    /// Only roughly, while other threads make and delete timers.
    pub fn in_use(&self) -> usize {
        self.admission.taken(self.shards().map(|mut held| held.with(|stock| stock.permits)).sum()) as usize
    }

    pub fn bytes(&self) -> usize {
        self.ids.bytes() + self.made.load(Ordering::Relaxed) / TIMERS * Chunk::BYTES
    }

    pub fn for_each(&self, mut f: impl FnMut(&Timer)) {
        let mut next = self.chunks.lock().with(|chunks| chunks.0);
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: chunks are freed with the store, and their headers do not change any more.
            unsafe {
                (0..TIMERS).for_each(|index| f(Chunk::timer(chunk, index).as_ref()));
                next = (*chunk.as_ptr()).next;
            }
        }
    }

    /// A block is from the ID returned to the end of that ID's group.
    #[cold]
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    fn take_block(&self) -> u32 {
        let end = |first: u32| Some(((first / BLOCK + 1) * BLOCK) & self.mask);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).unwrap_or_else(|first| first)
    }
}

type Batch = [Option<NonNull<Timer>>; TIMERS];

impl<'s> HeldShard<'s> {
    #[inline(always)]
    fn with<R>(&mut self, f: impl FnOnce(&mut Stock) -> R) -> R {
        // SAFETY: this guard has the shard's lock, and `&mut self` rules out a second reference.
        self.shard.stock.with_mut(|stock| f(unsafe { &mut *stock }))
    }

    /// Takes a free timer and a permit, if the shard has both.
    #[inline(always)]
    pub fn take(&mut self) -> Option<NonNull<Timer>> {
        let admission = &self.store.admission;
        self.with(|stock| {
            let has_both =
                !stock.first.is_null() && admission.take(admission.is_sharded().then_some(&mut stock.permits));
            has_both.then(|| stock.pop())?
        })
    }

    #[inline(always)]
    pub fn give_back(&mut self, timer: NonNull<Timer>) {
        let admission = &self.store.admission;
        self.with(|stock| {
            stock.push(timer);
            admission.give_back(admission.is_sharded().then_some(&mut stock.permits));
        });
    }

    /// `None` if the shard's block has ended.
    #[inline(always)]
    pub fn next_id(&self) -> Option<u32> {
        (self.seen & HAS_IDS != 0).then_some(id_in(self.seen))
    }

    /// Takes a block of IDs. The shard belongs to another group's lock then.
    #[inline(always)] // otherwise the caller keeps `self` in memory
    pub fn take_block(self) {
        let first = self.store.take_block();
        self.leave(HAS_IDS | first);
    }

    /// Goes on after `id`. After its own block a thread takes another, or if it has been alone since, the common shard.
    #[inline(always)]
    pub fn pass(self, id: u32) {
        let store = self.store;
        let after = id.wrapping_add(1) & store.mask;
        let has_company = || !ptr::eq(self.shard, &store.common) && store.next.load(Ordering::Relaxed) != after;
        self.leave(match after % BLOCK {
            0 if has_company() => HAS_IDS | store.take_block(),
            0 => id,
            _ => HAS_IDS | after,
        });
    }

    /// Lets the shard go, with `word`, and perhaps to another group's lock.
    #[inline(always)]
    fn leave(self, word: u32) {
        self.shard.word.store(word, Ordering::Release); // [Z]
    }
}

impl Stock {
    #[inline(always)]
    fn pop(&mut self) -> Option<NonNull<Timer>> {
        let timer = NonNull::new(self.first)?;
        // SAFETY: a free timer and its node belong to the shard alone.
        self.first = unsafe { (*timer.as_ref().node()).kept() };
        self.count -= 1;
        Some(timer)
    }

    #[inline(always)]
    fn push(&mut self, timer: NonNull<Timer>) {
        // SAFETY: no thread uses a free timer of the store.
        unsafe { (*timer.as_ref().node()).keep(self.first) };
        self.first = timer.as_ptr();
        self.count += 1;
    }

    /// `None` if the shard has fewer timers than a chunk.
    fn pop_batch(&mut self) -> Option<Batch> {
        (self.count >= TIMERS).then(|| array::from_fn(|_| self.pop()))
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        while let Some(chunk) = NonNull::new(self.0) {
            // SAFETY: the process's table is being freed, so no thread uses the chunk.
            unsafe {
                self.0 = (*chunk.as_ptr()).next;
                Chunk::free(chunk);
            }
        }
    }
}
