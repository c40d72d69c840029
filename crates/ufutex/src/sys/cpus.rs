//! How many CPUs there are.

use crate::sync::{AtomicUsize, Ordering};

/// How many CPUs run at the same time. The operating system is asked when somebody wants to know, because it takes tens
/// of microseconds: cgroups have to be read.
pub struct Cpus(AtomicUsize);

impl Cpus {
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
        // Another thread may have counted too, and differently: what a process may run on can change.
        self.0.compare_exchange(0, cpus, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(cpus)
    }
}

#[cfg(feature = "_host")]
fn online() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(not(feature = "_host"))]
fn online() -> usize {
    1
}
