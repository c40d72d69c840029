//! A counter for each virtual core. It stands for a restartable sequence: the core's word is fetched, and then the
//! state is checked and the word changed, while no other virtual core runs.

use alloc::vec::Vec;

use crate::sync::objects::{self, Field};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use ufutex_coherence::current;

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// The greatest number of cores of a virtual machine.
const CPUS: usize = ufutex_coherence::CORES;

/// Like `rseq::Slot`.
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
    /// Counts the reference as given back. `false` if the counter is closed; then nothing was counted.
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

    /// Counts a reference, on this core. `None` if the counter is closed; then nothing was counted.
    #[inline]
    pub fn try_take(&self) -> Option<Taken<'_>> {
        self.try_count(|slot| &slot.taken).then_some(Taken(self))
    }

    #[inline]
    fn try_count(&self, word: impl FnOnce(&Slot) -> &AtomicU64) -> bool {
        if self.state.load(Ordering::Acquire) != OPEN {
            // [I]
            return false;
        }
        let word = word(&self.slots[current::cpu()]);
        word.add_unlocked(0); // charges the cost of the access
        // SAFETY: all virtual cores are one thread of the host, and no other one runs between these two accesses.
        unsafe {
            let is_open = *self.state.as_ptr() == OPEN;
            *word.as_ptr() += u64::from(is_open);
            is_open
        }
    }

    /// Closes the counter and sets it to zero. Returns how many references were taken and not given back.
    pub fn close(&self) -> i64 {
        self.state.store(CLOSED, Ordering::SeqCst); // [I]
        current::membarrier();
        self.slots[..current::cpus()].iter().fold(0, |sum: i64, slot| {
            let taken = slot.taken.swap(0, Ordering::AcqRel) as i64; // [I]
            // [I]
            sum.wrapping_add(taken).wrapping_sub(slot.returned.swap(0, Ordering::AcqRel) as i64)
        })
    }

    /// Opens the counter again.
    pub fn open(&self) {
        self.state.store(OPEN, Ordering::Release); // [I]
    }

    /// The address of the word that all cores read.
    pub fn state_address(&self) -> usize {
        self.state.as_ptr().addr()
    }
}
