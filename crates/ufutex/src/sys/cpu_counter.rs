//! A counter for each CPU, added to without a locked instruction.
//!
//! The counter is open or closed. While it is open, [`CpuCounter::try_add`] adds to the counter of the CPU that runs it,
//! in a restartable sequence that looks whether it is open: the kernel starts a sequence again if it was preempted,
//! migrated or interrupted by a signal before its last instruction. [`CpuCounter::close`] says "closed" and then has
//! every sequence in flight end or start again, so that what it sums up is complete.

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use native::CpuCounter;

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use model::CpuCounter;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
mod native {
    use alloc::boxed::Box;

    use crate::sync::{AtomicU32, AtomicU64, Ordering};
    use crate::sys::{barrier, rseq};

    const OPEN: u32 = 0;
    const CLOSED: u32 = 1;

    #[repr(align(64))]
    struct Slot(AtomicU64);

    /// See the module.
    pub struct CpuCounter {
        state: AtomicU32,
        area: Option<rseq::Area>,
        slots: Box<[Slot]>,
    }

    impl CpuCounter {
        /// An open counter at zero; one that is closed for good where there are no restartable sequences.
        pub fn new() -> Self {
            let usable = || barrier::restart_sequences().then(rseq::Area::find).flatten();
            let area = usable();
            let cpus = if area.is_some() { rseq::possible_cpus() } else { 0 };
            Self {
                state: AtomicU32::new(if area.is_some() { OPEN } else { CLOSED }),
                area,
                slots: (0..cpus).map(|_| Slot(AtomicU64::new(0))).collect(),
            }
        }

        /// Adds `delta` for this CPU; `false` if the counter is closed, and nothing was added.
        #[inline(always)]
        pub fn try_add(&self, delta: i64) -> bool {
            let Some(area) = self.area else { return false };
            // SAFETY: `Slot` is 64 bytes with the counter first, and there are `slots.len()` of them.
            unsafe {
                rseq::add_if_zero(
                    area,
                    self.state.as_ptr(),
                    self.slots.as_ptr().cast_mut().cast(),
                    self.slots.len() as u32,
                    delta,
                )
            }
        }

        /// Closes the counter and answers what it stood at; it stands at zero then.
        pub fn close(&self) -> i64 {
            if self.area.is_none() {
                return 0;
            }
            self.state.store(CLOSED, Ordering::SeqCst);
            // It worked when the counter was made, and the registration holds for the process.
            while !barrier::restart_sequences() {
                crate::sync::spin_loop();
            }
            self.slots.iter().fold(0, |sum: i64, s| sum.wrapping_add(s.0.swap(0, Ordering::AcqRel) as i64))
        }

        /// Opens it again.
        pub fn open(&self) {
            if self.area.is_some() {
                // Release: who adds from now on sees the table that was published before.
                self.state.store(OPEN, Ordering::Release);
            }
        }
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model {
    //! A restartable sequence as a model checker sees it: "hold this virtual CPU's mutex". Making all sequences in
    //! flight end or start again: "lock and unlock each of them".

    use crate::sync::{AtomicU32, Mutant, Mutex, Ordering, fence, mutant};

    /// See the module.
    pub struct CpuCounter {
        closed: AtomicU32,
        slots: [Mutex<i64>; 2],
    }

    impl CpuCounter {
        pub fn new() -> Self {
            Self { closed: AtomicU32::new(0), slots: [Mutex::new(0), Mutex::new(0)] }
        }

        pub fn try_add(&self, delta: i64) -> bool {
            // As if every operation were migrated between the two.
            let cpu = &self.slots[usize::from(delta < 0)];
            let mut section = cpu.lock().expect("never poisoned");
            if self.closed.load(Ordering::Acquire) != 0 {
                return false;
            }
            if mutant(Mutant::PivotSkipsSections) {
                // The last instruction comes late: nobody made the sequence start again.
                drop(section);
                crate::sync::spin_loop();
                section = cpu.lock().expect("never poisoned");
            }
            *section += delta;
            true
        }

        pub fn close(&self) -> i64 {
            self.closed.store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            self.slots.iter().map(|slot| core::mem::take(&mut *slot.lock().expect("never poisoned"))).sum()
        }

        pub fn open(&self) {
            self.closed.store(0, Ordering::Release);
        }
    }
}
