//! A request's computation: multiplications of matrices that fill a part of the cache, under a lock for each CPU.

use lab_measure::machine::OwnLine;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};

/// Three square matrices of one worker: two factors and their product.
pub struct Matrices {
    cells: Vec<u64>,
    side: usize,
}

impl Matrices {
    /// Makes the largest matrices that fit into `footprint_bytes` together.
    pub fn new(footprint_bytes: usize) -> Matrices {
        let side = (footprint_bytes / 3 / size_of::<u64>()).isqrt();
        Matrices { cells: vec![0; 3 * side * side], side }
    }

    /// Multiplies with the naive algorithm on purpose: it walks through the cache. A large product takes minutes, so
    /// `goes_on` is called before each row.
    pub fn multiply(&mut self, goes_on: impl Fn() -> bool) {
        let (side, square) = (self.side, self.side * self.side);
        let (factors, product) = black_box(&mut self.cells).split_at_mut(2 * square);
        let (left, right) = factors.split_at(square);
        for row in (0..side).take_while(|_| goes_on()) {
            for column in 0..side {
                let cells = (0..side).map(|k| left[row * side + k].wrapping_mul(right[k * side + column]));
                product[row * side + column] = cells.fold(0, u64::wrapping_add);
            }
        }
    }
}

/// A lock for each CPU. A thread waits for one only if the holder was preempted. So latencies show preemption.
pub struct CpuLocks(Vec<OwnLine<AtomicBool>>);

impl CpuLocks {
    /// Makes locks for all CPUs of the machine.
    pub fn new(cpus: usize) -> CpuLocks {
        CpuLocks((0..cpus).map(|_| OwnLine::default()).collect())
    }

    /// Runs `work` with the lock of the current CPU held.
    pub fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let lock = self.lock();
        let result = work();
        lock.store(false, Ordering::Release); // [Le]
        result
    }

    fn lock(&self) -> &AtomicBool {
        loop {
            let cpu = this_cpu();
            // A CPU that was plugged in later shares another CPU's lock.
            let lock = &self.0[cpu % self.0.len()].0;
            // [Le]
            while lock.swap(true, Ordering::Acquire) {
                spin_loop();
            }
            if this_cpu() == cpu {
                return lock;
            }
            lock.store(false, Ordering::Release); // [Le]
        }
    }
}

fn this_cpu() -> usize {
    // SAFETY: the call takes nothing and changes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    #[test]
    fn the_product_is_that_of_the_two_matrices() {
        let mut matrices = Matrices::new(3 * 4 * 8);
        matrices.cells[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        matrices.multiply(|| true);
        assert_eq!(matrices.cells[8..], [19, 22, 43, 50]);
        matrices.cells[8..].fill(7);
        matrices.multiply(|| false);
        assert_eq!(matrices.cells[8..], [7; 4]);
        let side = |kilobytes: usize| Matrices::new(kilobytes * 1024).side;
        assert_eq!((side(256), side(0)), (104, 0));
    }

    #[test]
    fn one_at_a_time_computes_on_a_cpu() {
        struct Counter(UnsafeCell<u64>);
        // SAFETY: the one lock excludes all other threads. The test shows that.
        unsafe impl Sync for Counter {}
        let (locks, counter) = (CpuLocks::new(1), Counter(UnsafeCell::new(0)));
        let count = |counter: &Counter| {
            for _ in 0..2000 {
                // SAFETY: as above.
                locks.with(|| unsafe { *counter.0.get() = black_box(*counter.0.get()) + 1 });
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| count(&counter));
            }
        });
        assert_eq!(counter.0.into_inner(), 8000);
    }
}
