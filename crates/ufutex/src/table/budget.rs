//! The limit on the memory that the tables of all domains of a system may take together.

use crate::sync::{AtomicUsize, Ordering};

/// The table memory of a system's domains. One part of it is limited for all domains together. The rest is free: a
/// domain may take it however much the others have taken.
///
/// Each part has a counter of its own, so that [`taken`](Self::taken) never shows more than may be taken. With one
/// counter for both, a reader could find the limit exceeded between the two steps of giving back and taking again.
pub struct Budget {
    /// At most `limit`.
    limited: AtomicUsize,
    free: AtomicUsize,
    limit: usize,
}

/// A number of bytes of a budget.
#[derive(Clone, Copy)]
pub struct Bytes {
    pub limited: usize,
    pub free: usize,
}

impl Budget {
    /// Makes a budget with a limit of `limit` bytes, of which nothing is taken.
    pub fn new(limit: usize) -> Self {
        Self { limited: AtomicUsize::new(0), free: AtomicUsize::new(0), limit }
    }

    /// The number of bytes taken, limited and free together.
    pub fn taken(&self) -> usize {
        self.limited.load(Ordering::Relaxed) + self.free.load(Ordering::Relaxed)
    }

    /// Takes `bytes`. Returns `false`, and takes nothing, if the limit does not allow it. The counts order no other
    /// memory, so Relaxed is enough.
    pub fn take(&self, bytes: Bytes) -> bool {
        if !self.take_limited(bytes.limited) {
            return false;
        }
        self.free.fetch_add(bytes.free, Ordering::Relaxed);
        true
    }

    fn take_limited(&self, bytes: usize) -> bool {
        let mut limited = self.limited.load(Ordering::Relaxed);
        loop {
            let Some(more) = limited.checked_add(bytes).filter(|&more| more <= self.limit) else { return false };
            match self.limited.compare_exchange_weak(limited, more, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => limited = now,
            }
        }
    }

    /// Gives back what [`take`](Self::take) took.
    pub fn give_back(&self, bytes: Bytes) {
        self.limited.fetch_sub(bytes.limited, Ordering::Relaxed);
        self.free.fetch_sub(bytes.free, Ordering::Relaxed);
    }
}
