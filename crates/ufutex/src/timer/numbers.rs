//! The IDs that timers get.
//!
//! One after the other from a counter that all threads share, or, for threads that keep meeting others there, in blocks. Neither has
//! a lock, for whoever makes a timer has one anyway: that of the group of the table where the ID belongs. **A counter goes on
//! only with the lock of the ID that it names.** So who holds that lock and finds the counter as it was, has the ID alone. (A block
//! may take the place of another, whose lock is a different one: IDs are skipped then, and none is had twice.)

use crate::sync::{AtomicU32, AtomicU64, MODEL, Mutant, Ordering, mutant, thread_hint};

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
    mask: u32,
}

#[repr(align(128))]
struct Shared {
    next: AtomicU32,
    /// Another one whenever IDs jump: blocks of before are void. Changes as `next` does.
    epoch: AtomicU32,
}

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
        let shared = Shared { next: AtomicU32::new(0), epoch: AtomicU32::new(0) };
        Self { shared, own: core::array::from_fn(own), mask }
    }

    /// How many IDs there are.
    pub fn count(&self) -> u64 {
        u64::from(self.mask) + 1
    }

    /// What would be the next one, if nobody is faster. An error: a block has come to its end, [`take_block`](Self::take_block).
    #[inline(always)]
    pub fn peek(&self) -> Result<Next<'_>, Next<'_>> {
        let own = &self.own[own_number()];
        let word = own.next.load(Ordering::Relaxed);
        if word == 0 || (word >> 32) as u32 != self.shared.epoch.load(Ordering::Relaxed) {
            return Ok(Next { id: self.shared(), own, word: 0 });
        }
        let next = Next { id: word as u32 & !HAS, own, word };
        if word as u32 & HAS != 0 { Ok(next) } else { Err(next) }
    }

    /// The next one of the counter that all share.
    #[inline(always)]
    pub fn shared(&self) -> u32 {
        self.shared.next.load(Ordering::Relaxed)
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
            self.shared.next.store((next.id + 1) & self.mask, Ordering::Relaxed);
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
    /// locked. If nobody else has had any since the last block, it is alone, and needs none.
    pub fn take_block(&self, next: Next<'_>, shared: u32) -> bool {
        if self.shared() != shared {
            return false;
        }
        let own = next.own;
        // That word says where the block has ended, or its next ID, which is nobody else's.
        if next.word != 0 && own.next.load(Ordering::Relaxed) as u32 == shared {
            own.next.store(0, Ordering::Relaxed);
            own.meetings.store(0, Ordering::Relaxed);
            return true;
        }
        let first = shared.next_multiple_of(BLOCK) & self.mask;
        self.shared.next.store((first + BLOCK) & self.mask, Ordering::Relaxed);
        let epoch = self.shared.epoch.load(Ordering::Relaxed);
        own.next.store(u64::from(epoch) << 32 | u64::from(HAS | first), Ordering::Relaxed);
        true
    }

    /// IDs go on after `id`, if `shared` is still the next one; with its group locked.
    pub fn jump_behind(&self, id: u32, shared: u32) -> bool {
        if self.shared() != shared {
            return false;
        }
        self.shared.next.store((id + 1) & self.mask, Ordering::Relaxed);
        self.shared.epoch.store(self.shared.epoch.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        true
    }
}

#[inline]
fn own_number() -> usize {
    // Stacks lie at multiples of large powers of two, which leave the lower bits of any product alone: the upper ones.
    let mixed = thread_hint().wrapping_mul(0x9e37_79b9);
    ((mixed >> 16) as usize * OWN) >> 16
}
