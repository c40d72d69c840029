//! A counter for each CPU, added to without a locked instruction.
//!
//! The counter is open or closed. While it is open, [`CpuCounter::try_take`] adds to the counter of the CPU that runs
//! it, in a restartable sequence that checks that the counter is open: the kernel starts a sequence again if it was
//! preempted, migrated or interrupted by a signal before its last instruction. [`CpuCounter::close`] marks the counter
//! closed and then makes every running sequence end or start again, so that its sum is complete.

#[cfg(target_os = "linux")]
pub use native::{CpuCounter, Taken};

#[cfg(not(target_os = "linux"))]
pub use lacking::{CpuCounter, Taken};

#[cfg(target_os = "linux")]
mod native {
    use alloc::vec::Vec;

    use crate::schemes::rseq;
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

#[cfg(not(target_os = "linux"))]
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
