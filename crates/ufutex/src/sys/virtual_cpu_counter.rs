//! A counter for each virtual core. A restartable sequence there: the core's word is fetched, and then, with nobody else's
//! turn between, the state is looked at and the word changed.

use alloc::vec::Vec;

use crate::sync::objects::{self, Field};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use ufutex_coherence::current;

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// As many cores as a virtual machine can have.
const CPUS: usize = ufutex_coherence::CORES;

/// As `rseq::Slot`.
#[repr(C, align(64))]
#[derive(Default)]
struct Slot {
    taken: AtomicU64,
    returned: AtomicU64,
}

/// A reference that was counted.
#[derive(Clone, Copy)]
pub struct Taken<'a>(&'a CpuCounter);

impl Taken<'_> {
    /// Counts it as given back. `false`: the counter is closed, and nothing was counted.
    #[inline]
    pub fn try_return(self) -> bool {
        self.0.try_count(|slot| &slot.returned)
    }
}

/// See the module above.
pub struct CpuCounter {
    state: AtomicU32,
    slots: Vec<Slot>,
}

impl CpuCounter {
    /// An open counter at zero.
    pub fn new() -> Self {
        let mut slots = Vec::new();
        slots.resize_with(CPUS, Slot::default);
        const FIELDS: &[Field] =
            &[Field { offset: 0, bytes: 8, name: "taken" }, Field { offset: 8, bytes: 8, name: "returned" }];
        objects::name(slots.as_ptr().addr(), size_of::<Slot>(), CPUS, "PerCpu slot", FIELDS);
        Self { state: AtomicU32::new(OPEN), slots }
    }

    /// Counts a reference, on this core; `None` if the counter is closed, and nothing was counted.
    #[inline]
    pub fn try_take(&self) -> Option<Taken<'_>> {
        self.try_count(|slot| &slot.taken).then_some(Taken(self))
    }

    #[inline]
    fn try_count(&self, word: impl FnOnce(&Slot) -> &AtomicU64) -> bool {
        if self.state.load(Ordering::Acquire) != OPEN {
            return false;
        }
        let word = word(&self.slots[current::cpu()]);
        word.add_unlocked(0); // what it costs
        // SAFETY: all virtual cores are one thread of the host, and none has its turn between these two.
        unsafe {
            let is_open = *self.state.as_ptr() == OPEN;
            *word.as_ptr() += u64::from(is_open);
            is_open
        }
    }

    /// Closes the counter and answers how many references are out by it; it stands at zero then.
    pub fn close(&self) -> i64 {
        self.state.store(CLOSED, Ordering::SeqCst);
        current::membarrier();
        self.slots[..current::cpus()].iter().fold(0, |sum: i64, slot| {
            let taken = slot.taken.swap(0, Ordering::AcqRel) as i64;
            sum.wrapping_add(taken).wrapping_sub(slot.returned.swap(0, Ordering::AcqRel) as i64)
        })
    }

    /// Opens it again.
    pub fn open(&self) {
        self.state.store(OPEN, Ordering::Release);
    }

    /// Where the word is that all cores read.
    pub fn state_address(&self) -> usize {
        self.state.as_ptr().addr()
    }
}
