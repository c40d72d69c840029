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

use crate::sync::{AtomicU32, AtomicU64, MODEL, MODEL_SHARES, Mutant, Ordering, mutant, thread_share};

/// Number of counters of blocks. A thread picks one by a hint, so threads may share one.
const OWN: usize = if MODEL { MODEL_SHARES } else { 8 };
/// IDs in a block: as many as a group of the table has slots.
const BLOCK: u32 = if MODEL { 2 } else { 64 };
/// After this many collisions on the shared counter a thread gets a block of its own. The count starts again when the
/// thread takes the last ID of a block's length from the shared counter.
const MEETINGS: u32 = if MODEL { 1 } else { 8 };

/// A bit of `Own::next`. Set: the ID is the next of a block. Clear: a block has ended just before this ID.
const HAS: u32 = 1 << 31;

/// Hands out the IDs of a process's timers: see the top of this file.
pub struct Numbers {
    shared: Shared,
    own: [Own; OWN],
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
pub struct Own {
    /// The next ID of a block, with the block's epoch in the upper half. `0` means that there is no block.
    next: AtomicU64,
    meetings: AtomicU32,
}

/// An ID that a counter would give out next.
#[derive(Clone, Copy)]
pub struct Next<'n> {
    pub id: u32,
    /// The counter of blocks that the operation has picked and keeps.
    pub own: &'n Own,
    /// The value of `own.next`. `0` means that the ID is from the shared counter.
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
        let own = |_| Own { next: AtomicU64::new(0), meetings: AtomicU32::new(0) };
        Self { shared: Shared(AtomicU32::new(0)), own: core::array::from_fn(own), epoch: AtomicU32::new(0), mask }
    }

    /// The number of IDs.
    pub fn count(&self) -> u64 {
        u64::from(self.mask) + 1
    }

    /// The calling thread's counter of blocks. The caller keeps it for one operation.
    #[inline(always)]
    pub fn pick(&self) -> &Own {
        &self.own[thread_share(OWN)]
    }

    /// The ID that `own` would give out next, if no other thread is faster. `Err` if its block has ended; then the
    /// caller calls [`take_block`](Self::take_block).
    #[inline(always)]
    pub fn peek<'n>(&'n self, own: &'n Own) -> Result<Next<'n>, Next<'n>> {
        let word = own.next.load(Ordering::Relaxed);
        if word == 0 || (word >> 32) as u32 != self.epoch.load(Ordering::Relaxed) {
            return Ok(self.peek_shared(own));
        }
        let next = Next { id: word as u32 & !HAS, own, word };
        if word as u32 & HAS != 0 { Ok(next) } else { Err(next) }
    }

    /// As [`peek`](Self::peek), for the shared counter.
    #[inline(always)]
    pub fn peek_shared<'n>(&self, own: &'n Own) -> Next<'n> {
        Next { id: self.shared(), own, word: 0 }
    }

    /// The next ID of the shared counter.
    #[inline(always)]
    pub fn shared(&self) -> u32 {
        self.shared.0.load(Ordering::Relaxed)
    }

    /// Takes the ID, if it is still the next one. The caller holds the lock of the ID's group.
    #[inline(always)]
    pub fn claim(&self, next: Next<'_>) -> bool {
        let own = next.own;
        let ends = next.id % BLOCK == BLOCK - 1;
        if next.word == 0 {
            if self.shared() != next.id && !mutant(Mutant::ClaimTrustsPeek) {
                return false;
            }
            self.shared.0.store((next.id + 1) & self.mask, Ordering::Relaxed);
            if ends {
                own.meetings.store(0, Ordering::Relaxed);
            }
            return true;
        }
        if own.next.load(Ordering::Relaxed) != next.word && !mutant(Mutant::ClaimTrustsPeek) {
            return false;
        }
        let end = || next.word >> 32 << 32 | u64::from((next.id + 1) & self.mask);
        own.next.store(if ends { end() } else { next.word + 1 }, Ordering::Relaxed);
        true
    }

    /// Counts a collision: another thread took the ID first. Returns `true` after enough collisions that a block of its
    /// own pays for this thread. Threads that collide in a block share its counter, and would collide in the next block
    /// too, so they get no new block before its IDs are used up.
    pub fn meet(&self, next: Next<'_>) -> bool {
        if next.word != 0 {
            return false;
        }
        // Two threads that use this counter at the same time may count one collision instead of two.
        let meetings = next.own.meetings.load(Ordering::Relaxed) + 1;
        next.own.meetings.store(meetings.min(MEETINGS), Ordering::Relaxed);
        meetings >= MEETINGS && self.mask >= BLOCK
    }

    /// Gives `next.own` a block of IDs that begins behind `shared`, if `shared` is still the next ID. The caller holds
    /// the lock of that ID's group. A counter that has had many blocks in a row without other threads taking IDs in
    /// between gets no more blocks. Returns `false` if `shared` is no longer the next ID.
    pub fn take_block(&self, next: Next<'_>, shared: u32) -> bool {
        if self.shared() != shared {
            return false;
        }
        let own = next.own;
        if self.peek(own).is_ok_and(|now| now.word != 0) {
            return true; // another user of this counter was faster, and has taken a block
        }
        // If `own.next` is equal to `shared`, the block has ended there and no other thread has taken IDs since. While
        // a block has IDs left, the word contains `HAS` and is not equal.
        let is_alone = next.word != 0 && own.next.load(Ordering::Relaxed) as u32 == shared;
        let meetings = if is_alone { own.meetings.load(Ordering::Relaxed).saturating_sub(1) } else { MEETINGS };
        own.meetings.store(meetings, Ordering::Relaxed);
        if meetings == 0 {
            own.next.store(0, Ordering::Relaxed);
            return true;
        }
        let first = shared.next_multiple_of(BLOCK) & self.mask;
        self.shared.0.store((first + BLOCK) & self.mask, Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Relaxed);
        own.next.store(u64::from(epoch) << 32 | u64::from(HAS | first), Ordering::Relaxed);
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

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
pub mod tests {
    use super::*;
    use std::vec::Vec;

    const MANY: u32 = (1 << 31) - 1;

    /// Takes the next ID, as making a timer does.
    fn next(numbers: &Numbers, own: &Own) -> u32 {
        let next = numbers.peek(own).unwrap_or_else(|ended| {
            assert!(numbers.take_block(ended, numbers.shared()));
            numbers.peek(own).ok().expect("a block, or none")
        });
        assert!(numbers.claim(next));
        next.id
    }

    /// Takes IDs from `own` until a block ends.
    pub fn end_a_block(numbers: &Numbers, own: &Own) {
        own.meetings.store(MEETINGS, Ordering::Relaxed);
        assert!(numbers.take_block(numbers.peek_shared(own), numbers.shared()));
        while let Ok(next) = numbers.peek(own)
            && next.word != 0
        {
            assert!(numbers.claim(next));
        }
    }

    /// The counters of blocks.
    pub fn each(numbers: &Numbers) -> impl Iterator<Item = &Own> {
        numbers.own.iter()
    }

    /// Collides at the shared counter until the collisions are enough for a block, and takes the block.
    fn meet_until_a_block_is_due(numbers: &Numbers, own: &Own) {
        for meeting in 1..=MEETINGS {
            let mine = numbers.peek(own).ok().expect("no block");
            assert!(numbers.claim(mine));
            assert!(!numbers.claim(mine), "an ID is claimed once");
            assert_eq!(numbers.meet(mine), meeting == MEETINGS);
        }
        let mine = numbers.peek(own).ok().expect("no block yet");
        assert!(numbers.take_block(mine, numbers.shared()));
    }

    #[test]
    fn ids_follow_one_another_and_begin_again_at_0() {
        let numbers = Numbers::new(7);
        let own = numbers.pick();
        let ids: Vec<_> = (0..20).map(|_| next(&numbers, own)).collect();
        assert_eq!(ids, (0..20).map(|number| number % 8).collect::<Vec<_>>());
        let numbers = Numbers::new(MANY);
        let own = numbers.pick();
        assert!(numbers.jump_behind(MANY - 1, 0));
        assert_eq!([(); 3].map(|()| next(&numbers, own)), [MANY, 0, 1]);
    }

    #[test]
    fn whoever_keeps_meeting_others_gets_blocks() {
        let numbers = Numbers::new(MANY);
        let own = numbers.pick();
        meet_until_a_block_is_due(&numbers, own);
        assert!((BLOCK..2 * BLOCK).all(|id| next(&numbers, own) == id));
        // Another thread has taken IDs meanwhile.
        numbers.shared.0.store(2 * BLOCK + 5, Ordering::Relaxed);
        assert!((3 * BLOCK..4 * BLOCK).all(|id| next(&numbers, own) == id));
        // No other thread has taken IDs, for as many blocks as there were collisions: the IDs that follow are from the
        // shared counter.
        let last = 3 + MEETINGS;
        assert!((4 * BLOCK..last * BLOCK).all(|id| next(&numbers, own) == id));
        assert_eq!(
            (numbers.shared(), next(&numbers, own), numbers.shared()),
            (last * BLOCK, last * BLOCK, last * BLOCK + 1)
        );
    }

    #[test]
    fn those_who_meet_in_a_block_go_on_in_it() {
        let numbers = Numbers::new(MANY);
        let own = numbers.pick();
        meet_until_a_block_is_due(&numbers, own);
        for id in BLOCK..2 * BLOCK {
            let [faster, slower] = [(); 2].map(|()| numbers.peek(own).ok().expect("a block"));
            assert!(numbers.claim(faster) && !numbers.claim(slower));
            assert!(!numbers.meet(slower));
            assert_eq!((faster.id, numbers.shared()), (id, 2 * BLOCK));
        }
        // Both threads find that the block has ended. The slower one goes on in the faster one's new block.
        let [faster, slower] = [(); 2].map(|()| numbers.peek(own).err().expect("the block has ended"));
        assert!(numbers.take_block(faster, numbers.shared()));
        assert_eq!(next(&numbers, own), 2 * BLOCK);
        assert!(numbers.take_block(slower, numbers.shared()));
        assert_eq!((next(&numbers, own), numbers.shared()), (2 * BLOCK + 1, 3 * BLOCK));
    }

    #[test]
    fn a_block_may_be_the_last_one() {
        let numbers = Numbers::new(2 * BLOCK - 1);
        let own = numbers.pick();
        meet_until_a_block_is_due(&numbers, own);
        assert!((BLOCK..2 * BLOCK).all(|id| next(&numbers, own) == id));
        assert_eq!(next(&numbers, own), 0);
        let numbers = Numbers::new(BLOCK - 1);
        let own = numbers.pick();
        let mine = numbers.peek(own).ok().expect("no block");
        assert!((0..2 * MEETINGS).all(|_| !numbers.meet(mine)), "there are too few IDs for blocks");
    }

    #[test]
    fn a_block_in_peace_forgets_the_meetings() {
        let numbers = Numbers::new(MANY);
        let own = numbers.pick();
        let mine = numbers.peek(own).ok().expect("no block");
        assert!((1..MEETINGS).all(|_| !numbers.meet(mine)));
        (0..BLOCK).for_each(|id| assert_eq!(next(&numbers, own), id));
        assert!(!numbers.meet(mine));
    }

    #[test]
    fn who_names_an_id_voids_blocks() {
        let numbers = Numbers::new(MANY);
        let own = numbers.pick();
        meet_until_a_block_is_due(&numbers, own);
        assert_eq!(next(&numbers, own), BLOCK);
        let of_a_block = numbers.peek(own).ok().expect("a block");
        assert!(!numbers.jump_behind(1000, numbers.shared() + 1), "the counter has gone on");
        assert!(numbers.jump_behind(1000, numbers.shared()));
        assert_eq!(next(&numbers, own), 1001);
        // A thread that was about to take an ID of the block gets it, but no thread gets the next.
        assert!(numbers.claim(of_a_block));
        assert_eq!((of_a_block.id, next(&numbers, own)), (BLOCK + 1, 1002));
    }
}
