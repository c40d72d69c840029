//! A counter for each CPU, added to without a locked instruction.
//!
//! The counter is open or closed. While it is open, [`CpuCounter::try_take`] adds to the counter of the CPU that runs
//! it, in a restartable sequence that checks that the counter is open: the kernel starts a sequence again if it was
//! preempted, migrated or interrupted by a signal before its last instruction. [`CpuCounter::close`] marks the counter
//! closed and then makes every running sequence end or start again, so that its sum is complete.

#[cfg(all(target_os = "linux", not(any(feature = "loom", feature = "shuttle", feature = "sim"))))]
pub use native::{CpuCounter, Taken};

#[cfg(not(any(target_os = "linux", feature = "loom", feature = "shuttle", feature = "sim")))]
pub use lacking::{CpuCounter, Taken};

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use model::{CpuCounter, Taken};

#[cfg(feature = "sim")]
pub use super::virtual_cpu_counter::{CpuCounter, Taken};

#[cfg(all(target_os = "linux", not(any(feature = "loom", feature = "shuttle", feature = "sim"))))]
mod native {
    use alloc::vec::Vec;

    use crate::counted_schemes::rseq;
    use crate::sync::Ordering;

    pub use rseq::Taken;

    const OPEN: u32 = 0;
    const CLOSED: u32 = 1;

    /// See the module.
    pub struct CpuCounter {
        /// `None` means closed for good.
        open: Option<rseq::Counters>,
        /// The slots that `open` counts in.
        slots: Vec<rseq::Slot>,
    }

    impl CpuCounter {
        /// An open counter at zero. It is closed for good if there are no restartable sequences, or no memory.
        pub fn new() -> Self {
            let mut slots = Vec::new();
            let area = rseq::restart_sequences().then(rseq::Area::find).flatten();
            let cpus = area.map_or(0, |_| rseq::possible_cpus());
            if slots.try_reserve_exact(cpus).is_ok() {
                slots.resize_with(cpus, rseq::Slot::default);
            }
            let open = area.filter(|_| !slots.is_empty()).map(|area| {
                // SAFETY: the vector does not change from here on, and is dropped with the result.
                unsafe { rseq::Counters::new(area, slots.as_ptr(), slots.len() as u32) }
            });
            Self { open, slots }
        }

        /// Counts a reference, on this CPU. `None` if the counter is closed; then nothing was counted.
        #[inline(always)]
        pub fn try_take(&self) -> Option<Taken<'_>> {
            self.open.as_ref()?.try_take()
        }

        /// Closes the counter and sets it to zero. Returns how many references were taken and not given back.
        pub fn close(&self) -> i64 {
            let Some(counters) = &self.open else { return 0 };
            counters.state.store(CLOSED, Ordering::SeqCst); // [I]
            // The call succeeded when the counter was made, and the process stays registered. It waits for no thread.
            while !rseq::restart_sequences() {
                crate::sync::spin_loop();
            }
            self.slots.iter().fold(0, |sum: i64, slot| {
                // [I]
                let taken = slot.taken.swap(0, Ordering::AcqRel) as i64;
                // [I]
                sum.wrapping_add(taken).wrapping_sub(slot.returned.swap(0, Ordering::AcqRel) as i64)
            })
        }

        /// Opens the counter again.
        pub fn open(&self) {
            if let Some(counters) = &self.open {
                // [I]: a thread that counts from now on sees the table that was published before.
                counters.state.store(OPEN, Ordering::Release);
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", feature = "loom", feature = "shuttle", feature = "sim")))]
mod lacking {
    //! Only Linux has restartable sequences. Elsewhere the counter is closed for good.

    /// No reference is ever counted here.
    #[derive(Clone, Copy)]
    pub struct Taken<'a>(core::convert::Infallible, core::marker::PhantomData<&'a CpuCounter>);

    impl Taken<'_> {
        pub fn try_return(self) -> bool {
            match self.0 {}
        }
    }

    /// See the module.
    pub struct CpuCounter;

    impl CpuCounter {
        pub fn new() -> Self {
            Self
        }

        pub fn try_take(&self) -> Option<Taken<'_>> {
            None
        }

        pub fn close(&self) -> i64 {
            0
        }

        pub fn open(&self) {}
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model {
    //! A restartable sequence in a model checker: the thread holds this virtual CPU's mutex. To make all running
    //! sequences end or start again, [`CpuCounter::close`] locks and unlocks each mutex.

    use crate::sync::{AtomicU32, Mutant, Mutex, Ordering, fence, mutant};

    /// A reference that was counted.
    #[derive(Clone, Copy)]
    pub struct Taken<'a>(&'a CpuCounter);

    impl Taken<'_> {
        pub fn try_return(self) -> bool {
            self.0.try_add(-1)
        }
    }

    /// See the module.
    pub struct CpuCounter {
        closed: AtomicU32,
        slots: [Mutex<i64>; 2],
    }

    impl CpuCounter {
        pub fn new() -> Self {
            Self { closed: AtomicU32::new(0), slots: [Mutex::new(0), Mutex::new(0)] }
        }

        pub fn try_take(&self) -> Option<Taken<'_>> {
            self.try_add(1).then_some(Taken(self))
        }

        fn try_add(&self, delta: i64) -> bool {
            // Taking and returning use different slots, as if every operation were migrated between the two.
            let cpu = &self.slots[usize::from(delta < 0)];
            let mut section = cpu.lock().expect("never poisoned");
            if self.closed.load(Ordering::Acquire) != 0 {
                // [I]
                return false;
            }
            if mutant(Mutant::PivotSkipsSections) {
                // The last instruction comes late, because the sequence was not started again.
                drop(section);
                crate::sync::spin_loop();
                section = cpu.lock().expect("never poisoned");
            }
            *section += delta;
            true
        }

        pub fn close(&self) -> i64 {
            self.closed.store(1, Ordering::SeqCst); // [I]
            fence(Ordering::SeqCst); // [I]
            self.slots.iter().map(|slot| core::mem::take(&mut *slot.lock().expect("never poisoned"))).sum()
        }

        pub fn open(&self) {
            self.closed.store(0, Ordering::Release); // [I]
        }
    }
}
