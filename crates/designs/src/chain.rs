//! The chains of the hashes: linked through the timers, changed under a lock, walked without one.
//!
//! The kernel keeps a deleted timer's memory until every walk has ended (RCU). Here a timer may be in another chain before
//! a walk leaves it, and the walk then ends in that one. So the last link of a chain holds its number, and a walk that
//! finds nothing and ends elsewhere begins again. A timer that comes back into its own chain comes first there: the
//! walk meets all others once more, and misses none.

use crate::sync::AtomicUsize;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::timer::Timer;

/// The first link of a chain: a timer's address, or the chain's number with the lowest bit set.
#[repr(transparent)]
pub struct Chain(AtomicUsize);

impl Chain {
    /// An empty one.
    pub fn new(number: usize) -> Chain {
        Chain(AtomicUsize::new(end(number)))
    }

    /// The first timer that is wanted, without a lock.
    #[inline]
    pub fn find(&self, number: usize, wanted: impl Fn(&Timer) -> bool) -> Option<&Timer> {
        loop {
            let mut link = self.0.load(Acquire);
            while link & 1 == 0 {
                // SAFETY: links hold timers of this sample's memory, deleted ones as well.
                let timer = unsafe { Timer::at(link) };
                if wanted(timer) {
                    return Some(timer);
                }
                link = timer.next.load(Acquire);
            }
            if link == end(number) {
                return None;
            }
        }
    }

    /// Puts a timer first; the chain's lock is held.
    #[inline]
    pub fn push(&self, timer: &Timer) {
        let first = self.0.load(Relaxed);
        timer.next.store(first, Relaxed);
        timer.before.store(std::ptr::from_ref(&self.0).expose_provenance(), Relaxed);
        if first & 1 == 0 {
            // SAFETY: as in `find`.
            unsafe { Timer::at(first) }.before.store(std::ptr::from_ref(&timer.next).expose_provenance(), Relaxed);
        }
        self.0.store(timer.address(), Release);
    }
}

/// Takes a timer out of the chain that it is in; that chain's lock is held.
#[inline]
pub fn unlink(timer: &Timer) {
    let (before, next) = (timer.before.load(Relaxed), timer.next.load(Relaxed));
    // SAFETY: the address of a chain's first link, or of the link of a timer before: both live as long as the sample.
    let link = unsafe { &*std::ptr::with_exposed_provenance::<AtomicUsize>(before) };
    if next & 1 == 0 {
        // SAFETY: as in `find`.
        unsafe { Timer::at(next) }.before.store(before, Relaxed);
    }
    link.store(next, Release);
}

#[inline]
fn end(number: usize) -> usize {
    number << 1 | 1
}
