//! The IDs that timers get.
//!
//! One after the other from a counter that all threads share, or, for threads that keep meeting others there, in blocks. Neither has
//! a lock, for whoever makes a timer has one anyway: that of the group of the table where the ID belongs. **A counter goes on
//! only with the lock of the ID that it names.** So who holds that lock and finds the counter as it was, has the ID alone. (A block
//! may take the place of another, whose lock is a different one: IDs are skipped then, and none is had twice.)

use crate::sync::{AtomicU32, AtomicU64, MODEL, Mutant, Ordering, mutant, thread_share};

/// Threads share counters of blocks by so many.
const OWN: usize = if MODEL { 1 } else { 8 };
/// IDs in a block: a group of the table.
const BLOCK: u32 = if MODEL { 2 } else { 64 };
/// So often must a thread have met others, since it had a block's worth of IDs in peace.
const MEETINGS: u32 = if MODEL { 1 } else { 8 };

/// In an own counter's word, beside an ID: it is the next of a block. Otherwise a block has ended there.
const HAS: u32 = 1 << 31;

/// See the top of this file.
pub struct Numbers {
    shared: Shared,
    own: [Own; OWN],
    /// Another one whenever IDs jump: blocks of before are void. Changes with the lock of what `shared` names; and is not on
    /// its line, which those who have blocks leave alone.
    epoch: AtomicU32,
    mask: u32,
}

/// The next ID.
#[repr(align(128))]
struct Shared(AtomicU32);

/// What some threads have of their own.
#[repr(align(128))]
struct Own {
    /// The next ID of a block, below the epoch that it is of; 0: there has been no block.
    next: AtomicU64,
    meetings: AtomicU32,
}

/// An ID that may be the next.
#[derive(Clone, Copy)]
pub struct Next<'n> {
    pub id: u32,
    own: &'n Own,
    /// What was in `own.next`; 0: the ID is of the counter that all share.
    word: u64,
}

impl Numbers {
    /// IDs up to `mask`, which is one less than a power of two.
    pub fn new(mask: u32) -> Self {
        let own = |_| Own { next: AtomicU64::new(0), meetings: AtomicU32::new(0) };
        Self { shared: Shared(AtomicU32::new(0)), own: core::array::from_fn(own), epoch: AtomicU32::new(0), mask }
    }

    /// How many IDs there are.
    pub fn count(&self) -> u64 {
        u64::from(self.mask) + 1
    }

    /// What would be the next one, if nobody is faster. An error: a block has come to its end, [`take_block`](Self::take_block).
    #[inline(always)]
    pub fn peek(&self) -> Result<Next<'_>, Next<'_>> {
        let own = &self.own[thread_share(OWN)];
        let word = own.next.load(Ordering::Relaxed);
        if word == 0 || (word >> 32) as u32 != self.epoch.load(Ordering::Relaxed) {
            return Ok(Next { id: self.shared(), own, word: 0 });
        }
        let next = Next { id: word as u32 & !HAS, own, word };
        if word as u32 & HAS != 0 { Ok(next) } else { Err(next) }
    }

    /// The next one of the counter that all share.
    #[inline(always)]
    pub fn shared(&self) -> u32 {
        self.shared.0.load(Ordering::Relaxed)
    }

    /// Takes the ID, if it is still the next one; with its group locked.
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

    /// Somebody else was faster. Whether that happens so often that a block is called for.
    pub fn meet(&self, next: Next<'_>) -> bool {
        // Who shares the count may lose one of the other's.
        let meetings = next.own.meetings.load(Ordering::Relaxed) + 1;
        next.own.meetings.store(meetings.min(MEETINGS), Ordering::Relaxed);
        meetings >= MEETINGS && self.mask >= BLOCK
    }

    /// Has who asked for `next` get IDs from a block that begins behind `shared`, if that is still the next one; with its group
    /// locked. Who has had so many blocks in a row that nobody has been there in between, gets none any more.
    pub fn take_block(&self, next: Next<'_>, shared: u32) -> bool {
        if self.shared() != shared {
            return false;
        }
        let own = next.own;
        // That word says where the block has ended, or its next ID, which is nobody else's.
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

    /// IDs go on after `id`, if `shared` is still the next one; with its group locked.
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
mod tests {
    use super::*;
    use crate::sync::as_one_thread;
    use std::vec::Vec;

    const MANY: u32 = (1 << 31) - 1;

    /// The next ID, as a timer is made.
    fn next(numbers: &Numbers) -> u32 {
        let next = numbers.peek().unwrap_or_else(|ended| {
            assert!(numbers.take_block(ended, numbers.shared()));
            numbers.peek().ok().expect("a block, or none")
        });
        assert!(numbers.claim(next));
        next.id
    }

    /// Somebody else takes an ID from the counter that all share, as often as a block takes.
    fn meet_until_a_block_is_due(numbers: &Numbers) {
        for meeting in 1..=MEETINGS {
            let mine = numbers.peek().ok().expect("no block");
            assert!(numbers.claim(mine));
            assert!(!numbers.claim(mine), "an ID is claimed once");
            assert_eq!(numbers.meet(mine), meeting == MEETINGS);
        }
        let mine = numbers.peek().ok().expect("no block yet");
        assert!(numbers.take_block(mine, numbers.shared()));
    }

    #[test]
    fn ids_follow_one_another_and_begin_again_at_0() {
        as_one_thread(|| {
            let numbers = Numbers::new(7);
            let ids: Vec<_> = (0..20).map(|_| next(&numbers)).collect();
            assert_eq!(ids, (0..20).map(|number| number % 8).collect::<Vec<_>>());
            let numbers = Numbers::new(MANY);
            assert!(numbers.jump_behind(MANY - 1, 0));
            assert_eq!([(); 3].map(|()| next(&numbers)), [MANY, 0, 1]);
        });
    }

    #[test]
    fn whoever_keeps_meeting_others_gets_blocks() {
        as_one_thread(|| {
            let numbers = Numbers::new(MANY);
            meet_until_a_block_is_due(&numbers);
            assert!((BLOCK..2 * BLOCK).all(|id| next(&numbers) == id));
            // Somebody else has had IDs meanwhile.
            numbers.shared.0.store(2 * BLOCK + 5, Ordering::Relaxed);
            assert!((3 * BLOCK..4 * BLOCK).all(|id| next(&numbers) == id));
            // Nobody has, for as many blocks as there were meetings: what follows is no block.
            let last = 3 + MEETINGS;
            assert!((4 * BLOCK..last * BLOCK).all(|id| next(&numbers) == id));
            assert_eq!(
                (numbers.shared(), next(&numbers), numbers.shared()),
                (last * BLOCK, last * BLOCK, last * BLOCK + 1)
            );
        });
    }

    #[test]
    fn a_block_may_be_the_last_one() {
        as_one_thread(|| {
            let numbers = Numbers::new(2 * BLOCK - 1);
            meet_until_a_block_is_due(&numbers);
            assert!((BLOCK..2 * BLOCK).all(|id| next(&numbers) == id));
            assert_eq!(next(&numbers), 0);
            let numbers = Numbers::new(BLOCK - 1);
            let mine = numbers.peek().ok().expect("no block");
            assert!((0..2 * MEETINGS).all(|_| !numbers.meet(mine)), "there are too few IDs for blocks");
        });
    }

    #[test]
    fn a_block_in_peace_forgets_the_meetings() {
        as_one_thread(|| {
            let numbers = Numbers::new(MANY);
            let mine = numbers.peek().ok().expect("no block");
            assert!((1..MEETINGS).all(|_| !numbers.meet(mine)));
            (0..BLOCK).for_each(|id| assert_eq!(next(&numbers), id));
            assert!(!numbers.meet(mine));
        });
    }

    #[test]
    fn who_names_an_id_voids_blocks() {
        as_one_thread(|| {
            let numbers = Numbers::new(MANY);
            meet_until_a_block_is_due(&numbers);
            assert_eq!(next(&numbers), BLOCK);
            let of_a_block = numbers.peek().ok().expect("a block");
            assert!(!numbers.jump_behind(1000, numbers.shared() + 1), "the counter has gone on");
            assert!(numbers.jump_behind(1000, numbers.shared()));
            assert_eq!(next(&numbers), 1001);
            // Who was about to take one of the block does, but nobody follows.
            assert!(numbers.claim(of_a_block));
            assert_eq!((of_a_block.id, next(&numbers)), (BLOCK + 1, 1002));
        });
    }
}
