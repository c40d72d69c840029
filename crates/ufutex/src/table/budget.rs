//! The limit on the memory that the tables of all domains of a system may take together.

use crate::sync::{AtomicUsize, Ordering};

/// The table memory of a system's domains. One part of it is limited for all domains together. The rest does not count:
/// a domain may take it however much the others have taken.
pub struct Budget {
    /// All memory taken, in bytes.
    taken: AtomicUsize,
    /// The part of `taken` that counts towards the limit, in bytes. It is at most `limit`.
    limited: AtomicUsize,
    limit: usize,
}

/// A number of bytes of a budget.
#[derive(Clone, Copy)]
pub struct Bytes {
    pub all: usize,
    /// How many of them count towards the limit.
    pub limited: usize,
}

impl Budget {
    /// Makes a budget with a limit of `limit` bytes, of which nothing is taken.
    pub fn new(limit: usize) -> Self {
        Self { taken: AtomicUsize::new(0), limited: AtomicUsize::new(0), limit }
    }

    /// The number of bytes taken, limited and unlimited together.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes `bytes`. Returns `false`, and takes nothing, if the limit does not allow it. The counts order no other
    /// memory, so Relaxed is enough.
    pub fn take(&self, bytes: Bytes) -> bool {
        if !self.take_limited(bytes.limited) {
            return false;
        }
        self.taken.fetch_add(bytes.all, Ordering::Relaxed);
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
        self.taken.fetch_sub(bytes.all, Ordering::Relaxed);
    }
}
