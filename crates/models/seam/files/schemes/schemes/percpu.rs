//! `percpu`: every operation counts itself in its CPU's counter; a resize sums the counters up.
//!
//! It stands in for the kernel's implementation since 6.17. In the PERCPU state a reference is a restartable sequence
//! that checks the state and adds to the counter of its CPU, without a shared cache line or a locked instruction. A
//! resize leaves that state, waits until no sequence that saw it is still running, adds the sum to a shared counter, and
//! from then on works as `atomic`, with the same wait for zero. If the platform has no restartable sequences, the scheme
//! works as `atomic` from the start.
//!
//! The wait for zero ends by another rule than the kernel's: a thread that has lost its CPU here may hold a reference
//! until it runs again, where a kernel that does not preempt threads inside system calls has at most one for each CPU.

use super::atomic::wait_until_frozen;
use super::count::Count;
use super::cpu_counter::{CpuCounter, Taken};
use super::current::current_proves_empty;
use super::{Scheme, move_all, note_begin};
use crate::error::Error;
use crate::sys::unwind::Otherwise;
use crate::table::tables::Tables;

/// The scheme with a reference count for each CPU.
pub struct PerCpu {
    cpus: CpuCounter,
    count: Count,
}

/// A reference. It is given back, when dropped, to the counter of the CPU on which the thread runs by then. The sum
/// over all CPUs evens that out.
#[doc(hidden)]
pub struct Pin<'a> {
    scheme: &'a PerCpu,
    /// `None` if the reference is counted in the shared counter.
    taken: Option<Taken<'a>>,
}

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.taken.is_some_and(Taken::try_return) {
            self.scheme.count.put();
        }
    }
}

impl Scheme for PerCpu {
    type Pin<'a> = Pin<'a>;

    fn new() -> Self {
        Self { cpus: CpuCounter::new(), count: Count::new() }
    }

    #[inline(always)]
    fn pin(&self) -> Pin<'_> {
        let taken = self.cpus.try_take();
        if taken.is_none() {
            self.count.get();
        }
        Pin { scheme: self, taken }
    }

    fn try_pin(&self) -> Option<Pin<'_>> {
        let taken = self.cpus.try_take();
        let is_counted = taken.is_some() || self.count.try_get();
        is_counted.then(|| Pin { scheme: self, taken })
    }

    #[inline(always)]
    fn proves_empty(&self, tables: &Tables, hash: u32) -> bool {
        let _pin = self.pin();
        current_proves_empty(tables, hash)
    }

    fn resize(
        &self,
        tables: &Tables,
        slots_log2: Option<u32>,
        keep_trying: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        self.count.let_waiters_in();
        let _resize = tables.resize.lock();
        let Some(plan) = tables.plan(slots_log2)? else {
            return Ok(());
        };
        note_begin(plan);
        // From here on references are counted in `count`. Until the sum is added to it, its bias makes up for the
        // missing ones.
        self.count.add(self.cpus.close() as u64);
        self.count.remove_bias();
        let open = Otherwise::new(|| self.cpus.open());
        wait_until_frozen(&self.count, keep_trying)?;
        open.disarm();
        move_all(plan);
        tables.end(plan);
        self.cpus.open();
        self.count.thaw();
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use crate::schemes::rseq::{Area, restart_sequences};

    /// Whether there is an rseq(2): in the kernel, or in the emulator that takes its place.
    fn has_call() -> bool {
        // SAFETY: without an area the call fails, and changes nothing.
        let result = unsafe { libc::syscall(libc::SYS_rseq, 0, 0, 0, 0) };
        result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
    }

    #[test]
    fn percpu_counts_by_cpu_with_restartable_sequences_and_together_without() {
        let has_sequence = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        let (is_registered, has_barrier) = (Area::find().is_some(), restart_sequences());
        let say = |is_there| if is_there { "yes" } else { "no" };
        std::println!(
            "found: rseq(2): {}, a sequence for {}: {}, registered by the C library: {}, membarrier(2) for it: {}",
            say(has_call()),
            std::env::consts::ARCH,
            say(has_sequence),
            say(is_registered),
            say(has_barrier),
        );
        assert!(!is_registered || has_call() && has_sequence);
        let scheme = PerCpu::new();
        let unused = scheme.count.references();
        let pin = scheme.pin();
        let is_by_cpu = pin.taken.is_some();
        assert_eq!(is_by_cpu, is_registered && has_barrier);
        assert_eq!(scheme.count.references() - unused, u64::from(!is_by_cpu));
        drop(pin);
        assert_eq!(scheme.count.references(), unused);
        assert_eq!(scheme.cpus.close(), 0);
    }
}
