//! How many CPUs there are.

use super::host::online;
use crate::sync::{AtomicUsize, Ordering};

/// The number of CPUs. On Linux: those that the thread may run on that first needs the number. It does not change later.
pub struct CpuCount(AtomicUsize);

impl CpuCount {
    /// `given`, or as many as the operating system reports; 1 without one.
    pub fn new(given: Option<usize>) -> Self {
        Self(AtomicUsize::new(given.unwrap_or(0)))
    }

    pub fn get(&self) -> usize {
        let known = self.0.load(Ordering::Relaxed); // a number that never changes
        if known != 0 { known } else { self.count() }
    }

    #[cold]
    fn count(&self) -> usize {
        let cpus = online();
        // Another thread may have counted differently.
        self.0.compare_exchange(0, cpus, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(cpus)
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_those_that_were_given_or_that_the_thread_may_use() {
        assert_eq!(CpuCount::new(Some(3)).get(), 3);
        let all = online();
        assert!(all >= 1);
        let counted = CpuCount::new(None);
        assert_eq!((counted.get(), counted.get()), (all, all));
        // A thread of its own, which is alone in being kept on one CPU.
        let on_one = std::thread::spawn(|| {
            let mut mask = [0u64; 16];
            // SAFETY: writes at most the length that is given.
            let read = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
            assert_eq!(read, 0, "{}", std::io::Error::last_os_error());
            let first = mask.iter().position(|&word| word != 0).expect("the thread runs on a CPU");
            let one = mask[first] & mask[first].wrapping_neg();
            mask = [0; 16];
            mask[first] = one;
            // SAFETY: reads the mask, and keeps this thread on one of its CPUs.
            let set = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
            let counted = CpuCount::new(None);
            [online(), counted.get(), counted.get()]
        });
        assert_eq!(on_one.join().expect("it does not panic"), [1; 3]);
    }
}
