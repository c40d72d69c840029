//! The IDs that timers get.
//!
//! IDs come in order from a counter that all threads share. Threads that often collide at this counter get blocks of
//! IDs. The counters have no locks, because a thread that makes a timer holds a lock anyway: that of the table's group
//! where the ID belongs. **A counter advances only with the lock held that belongs to the ID it names.** So if a thread
//! holds that lock and finds the counter unchanged, it alone gets the ID. (When a block replaces another, the counter's
//! lock changes with it. Then IDs may be skipped, but none is given out twice.)
//!
//! A hint decides which counter of blocks a thread uses. An operation [picks](Numbers::pick) one and keeps it, because
//! a second call may pick another one.

use crate::sync::{AtomicU32, AtomicU64, MODEL, MODEL_SHARDS, Mutant, Ordering, mutant, thread_shard};

/// Number of counters of blocks. A thread picks one by a hint, so threads may share one.
const COUNTERS: usize = if MODEL { MODEL_SHARDS } else { 8 };
/// IDs in a block: as many as a group of the table has slots, but for models, whose groups have one slot.
pub const BLOCK: u32 = if MODEL { 2 } else { 64 };
/// After this many collisions on the shared counter a thread gets a block of its own. The count starts again when the
/// thread takes the last ID of a block's length from the shared counter.
const COLLISIONS_FOR_A_BLOCK: u32 = if MODEL { 1 } else { 8 };

/// A bit of `BlockCounter::next`. Set: the ID is the next of a block. Clear: a block has ended just before this ID.
const BLOCK_CONTINUES: u32 = 1 << 31;

/// Hands out the IDs of a process's timers: see the top of this file.
pub struct Numbers {
    shared: Shared,
    counters: [BlockCounter; COUNTERS],
    /// Changes whenever IDs jump, which makes all blocks from before void. It changes with the lock held that belongs
    /// to the ID in `shared`. It is not on the line of `shared`, which threads that have blocks do not touch.
    epoch: AtomicU32,
    mask: u32,
}

/// The next ID of the shared counter.
#[repr(align(128))]
struct Shared(AtomicU32);

/// A counter of blocks, which a few threads use.
#[repr(align(128))]
pub struct BlockCounter {
    /// The next ID of a block, with the block's epoch in the upper half. `0` means that there is no block.
    next: AtomicU64,
    collisions: AtomicU32,
}

/// An ID that a counter would give out next.
#[derive(Clone, Copy)]
pub struct Next<'n> {
    pub id: u32,
    /// The counter of blocks that the operation has picked and keeps.
    pub counter: &'n BlockCounter,
    /// The value of `counter.next`. `0` means that the ID is from the shared counter.
    word: u64,
}

impl Next<'_> {
    /// Whether the ID is from the shared counter.
    pub fn is_shared(self) -> bool {
        self.word == 0
    }
}

impl Numbers {
    /// Makes counters for IDs up to `mask`, which is one less than a power of two.
    pub fn new(mask: u32) -> Self {
        let counter = |_| BlockCounter { next: AtomicU64::new(0), collisions: AtomicU32::new(0) };
        Self {
            shared: Shared(AtomicU32::new(0)),
            counters: core::array::from_fn(counter),
            epoch: AtomicU32::new(0),
            mask,
        }
    }

    /// The number of IDs.
    pub fn count(&self) -> u64 {
        u64::from(self.mask) + 1
    }

    /// The calling thread's counter of blocks. The caller keeps it for one operation.
    #[inline(always)]
    pub fn pick(&self) -> &BlockCounter {
        &self.counters[thread_shard(COUNTERS)]
    }

    /// The ID that `counter` would give out next, if no other thread is faster. `Err` if its block has ended; then the
    /// caller calls [`take_block`](Self::take_block).
    #[inline(always)]
    pub fn peek<'n>(&'n self, counter: &'n BlockCounter) -> Result<Next<'n>, Next<'n>> {
        let word = counter.next.load(Ordering::Relaxed);
        if word == 0 || (word >> 32) as u32 != self.epoch.load(Ordering::Relaxed) {
            return Ok(self.peek_shared(counter));
        }
        let next = Next { id: word as u32 & !BLOCK_CONTINUES, counter, word };
        if word as u32 & BLOCK_CONTINUES != 0 { Ok(next) } else { Err(next) }
    }

    /// As [`peek`](Self::peek), for the shared counter.
    #[inline(always)]
    pub fn peek_shared<'n>(&self, counter: &'n BlockCounter) -> Next<'n> {
        Next { id: self.shared(), counter, word: 0 }
    }

    /// The next ID of the shared counter.
    #[inline(always)]
    pub fn shared(&self) -> u32 {
        self.shared.0.load(Ordering::Relaxed)
    }

    /// Takes the ID, if it is still the next one. The caller holds the lock of the ID's group.
    #[inline(always)]
    pub fn claim(&self, next: Next<'_>) -> bool {
        let counter = next.counter;
        let ends = next.id % BLOCK == BLOCK - 1;
        if next.word == 0 {
            if self.shared() != next.id && !mutant(Mutant::ClaimTrustsPeek) {
                return false;
            }
            self.shared.0.store((next.id + 1) & self.mask, Ordering::Relaxed);
            if ends {
                counter.collisions.store(0, Ordering::Relaxed);
            }
            return true;
        }
        if counter.next.load(Ordering::Relaxed) != next.word && !mutant(Mutant::ClaimTrustsPeek) {
            return false;
        }
        let end = || next.word >> 32 << 32 | u64::from((next.id + 1) & self.mask);
        counter.next.store(if ends { end() } else { next.word + 1 }, Ordering::Relaxed);
        true
    }

    /// Counts a collision: another thread took the ID first. Returns `true` after enough collisions that a block of its
    /// own pays for this thread. Threads that collide in a block share its counter, and would collide in the next block
    /// too, so they get no new block before its IDs are used up.
    pub fn note_collision(&self, next: Next<'_>) -> bool {
        if next.word != 0 {
            return false;
        }
        // Two threads that use this counter at the same time may count one collision instead of two.
        let collisions = next.counter.collisions.load(Ordering::Relaxed) + 1;
        next.counter.collisions.store(collisions.min(COLLISIONS_FOR_A_BLOCK), Ordering::Relaxed);
        collisions >= COLLISIONS_FOR_A_BLOCK && self.mask >= BLOCK
    }

    /// Gives `next.counter` a block of IDs that begins behind `shared`, if `shared` is still the next ID. The caller
    /// holds the lock of that ID's group. A counter that has had many blocks in a row without other threads taking IDs
    /// in between gets no more blocks. Returns `false` if `shared` is no longer the next ID.
    pub fn take_block(&self, next: Next<'_>, shared: u32) -> bool {
        if self.shared() != shared {
            return false;
        }
        let counter = next.counter;
        if self.peek(counter).is_ok_and(|now| now.word != 0) {
            return true; // another user of this counter was faster, and has taken a block
        }
        // If `counter.next` is equal to `shared`, the block has ended there and no other thread has taken IDs since.
        // While a block has IDs left, the word contains `BLOCK_CONTINUES` and is not equal.
        let is_alone = next.word != 0 && counter.next.load(Ordering::Relaxed) as u32 == shared;
        let collisions = if is_alone {
            counter.collisions.load(Ordering::Relaxed).saturating_sub(1)
        } else {
            COLLISIONS_FOR_A_BLOCK
        };
        counter.collisions.store(collisions, Ordering::Relaxed);
        if collisions == 0 {
            counter.next.store(0, Ordering::Relaxed);
            return true;
        }
        let first = shared.next_multiple_of(BLOCK) & self.mask;
        self.shared.0.store((first + BLOCK) & self.mask, Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Relaxed);
        counter.next.store(u64::from(epoch) << 32 | u64::from(BLOCK_CONTINUES | first), Ordering::Relaxed);
        true
    }

    /// Notes that a thread tries `id` out of order, with its group locked. If the shared counter names `id`, the
    /// counter advances.
    pub fn pass(&self, id: u32) {
        if self.shared() == id {
            self.shared.0.store((id + 1) & self.mask, Ordering::Relaxed);
        }
    }

    /// The ID after `id`.
    pub fn after(&self, id: u32) -> u32 {
        (id + 1) & self.mask
    }

    /// Makes the shared counter go on after `id`, if `shared` is still the next ID. The caller holds the lock of that
    /// ID's group.
    pub fn jump_behind(&self, id: u32, shared: u32) -> bool {
        if self.shared() != shared {
            return false;
        }
        self.shared.0.store((id + 1) & self.mask, Ordering::Relaxed);
        self.epoch.store(self.epoch.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::vec::Vec;

    const MANY: u32 = (1 << 31) - 1;

    /// Takes the next ID, as making a timer does.
    fn next(numbers: &Numbers, counter: &BlockCounter) -> u32 {
        let next = numbers.peek(counter).unwrap_or_else(|ended| {
            assert!(numbers.take_block(ended, numbers.shared()));
            numbers.peek(counter).ok().expect("a block, or none")
        });
        assert!(numbers.claim(next));
        next.id
    }

    /// Takes IDs from `counter` until a block ends.
    #[cfg(feature = "std")] // as the test that calls it
    pub fn end_a_block(numbers: &Numbers, counter: &BlockCounter) {
        counter.collisions.store(COLLISIONS_FOR_A_BLOCK, Ordering::Relaxed);
        assert!(numbers.take_block(numbers.peek_shared(counter), numbers.shared()));
        while let Ok(next) = numbers.peek(counter)
            && next.word != 0
        {
            assert!(numbers.claim(next));
        }
    }

    /// The counters of blocks.
    #[cfg(feature = "std")] // as the test that calls it
    pub fn each(numbers: &Numbers) -> impl Iterator<Item = &BlockCounter> {
        numbers.counters.iter()
    }

    /// Collides at the shared counter until the collisions are enough for a block, and takes the block.
    fn collide_until_a_block_is_due(numbers: &Numbers, counter: &BlockCounter) {
        for collision in 1..=COLLISIONS_FOR_A_BLOCK {
            let mine = numbers.peek(counter).ok().expect("no block");
            assert!(numbers.claim(mine));
            assert!(!numbers.claim(mine), "an ID is claimed once");
            assert_eq!(numbers.note_collision(mine), collision == COLLISIONS_FOR_A_BLOCK);
        }
        let mine = numbers.peek(counter).ok().expect("no block yet");
        assert!(numbers.take_block(mine, numbers.shared()));
    }

    #[test]
    fn ids_follow_one_another_and_begin_again_at_0() {
        let numbers = Numbers::new(7);
        let counter = numbers.pick();
        let ids: Vec<_> = (0..20).map(|_| next(&numbers, counter)).collect();
        assert_eq!(ids, (0..20).map(|number| number % 8).collect::<Vec<_>>());
        let numbers = Numbers::new(MANY);
        let counter = numbers.pick();
        assert!(numbers.jump_behind(MANY - 1, 0));
        assert_eq!([(); 3].map(|()| next(&numbers, counter)), [MANY, 0, 1]);
    }

    #[test]
    fn whoever_keeps_meeting_others_gets_blocks() {
        let numbers = Numbers::new(MANY);
        let counter = numbers.pick();
        collide_until_a_block_is_due(&numbers, counter);
        assert!((BLOCK..2 * BLOCK).all(|id| next(&numbers, counter) == id));
        // Another thread has taken IDs meanwhile.
        numbers.shared.0.store(2 * BLOCK + 5, Ordering::Relaxed);
        assert!((3 * BLOCK..4 * BLOCK).all(|id| next(&numbers, counter) == id));
        // No other thread has taken IDs, for as many blocks as there were collisions: the IDs that follow are from the
        // shared counter.
        let last = 3 + COLLISIONS_FOR_A_BLOCK;
        assert!((4 * BLOCK..last * BLOCK).all(|id| next(&numbers, counter) == id));
        assert_eq!(
            (numbers.shared(), next(&numbers, counter), numbers.shared()),
            (last * BLOCK, last * BLOCK, last * BLOCK + 1)
        );
    }

    #[test]
    fn those_who_meet_in_a_block_go_on_in_it() {
        let numbers = Numbers::new(MANY);
        let counter = numbers.pick();
        collide_until_a_block_is_due(&numbers, counter);
        for id in BLOCK..2 * BLOCK {
            let [faster, slower] = [(); 2].map(|()| numbers.peek(counter).ok().expect("a block"));
            assert!(numbers.claim(faster) && !numbers.claim(slower));
            assert!(!numbers.note_collision(slower));
            assert_eq!((faster.id, numbers.shared()), (id, 2 * BLOCK));
        }
        // Both threads find that the block has ended. The slower one goes on in the faster one's new block.
        let [faster, slower] = [(); 2].map(|()| numbers.peek(counter).err().expect("the block has ended"));
        assert!(numbers.take_block(faster, numbers.shared()));
        assert_eq!(next(&numbers, counter), 2 * BLOCK);
        assert!(numbers.take_block(slower, numbers.shared()));
        assert_eq!((next(&numbers, counter), numbers.shared()), (2 * BLOCK + 1, 3 * BLOCK));
    }

    #[test]
    fn a_block_may_be_the_last_one() {
        let numbers = Numbers::new(2 * BLOCK - 1);
        let counter = numbers.pick();
        collide_until_a_block_is_due(&numbers, counter);
        assert!((BLOCK..2 * BLOCK).all(|id| next(&numbers, counter) == id));
        assert_eq!(next(&numbers, counter), 0);
        let numbers = Numbers::new(BLOCK - 1);
        let counter = numbers.pick();
        let mine = numbers.peek(counter).ok().expect("no block");
        assert!(
            (0..2 * COLLISIONS_FOR_A_BLOCK).all(|_| !numbers.note_collision(mine)),
            "there are too few IDs for blocks"
        );
    }

    #[test]
    fn a_block_in_peace_forgets_the_meetings() {
        let numbers = Numbers::new(MANY);
        let counter = numbers.pick();
        let mine = numbers.peek(counter).ok().expect("no block");
        assert!((1..COLLISIONS_FOR_A_BLOCK).all(|_| !numbers.note_collision(mine)));
        (0..BLOCK).for_each(|id| assert_eq!(next(&numbers, counter), id));
        assert!(!numbers.note_collision(mine));
    }

    #[test]
    fn who_names_an_id_voids_blocks() {
        let numbers = Numbers::new(MANY);
        let counter = numbers.pick();
        collide_until_a_block_is_due(&numbers, counter);
        assert_eq!(next(&numbers, counter), BLOCK);
        let of_a_block = numbers.peek(counter).ok().expect("a block");
        assert!(!numbers.jump_behind(1000, numbers.shared() + 1), "the counter has gone on");
        assert!(numbers.jump_behind(1000, numbers.shared()));
        assert_eq!(next(&numbers, counter), 1001);
        // A thread that was about to take an ID of the block gets it, but no thread gets the next.
        assert!(numbers.claim(of_a_block));
        assert_eq!((of_a_block.id, next(&numbers, counter)), (BLOCK + 1, 1002));
    }
}
