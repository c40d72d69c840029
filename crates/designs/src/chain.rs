//! The chains of the hashes: linked through the timers, changed under a lock, walked without a lock.
//!
//! The kernel keeps a deleted timer's memory until every walk has ended (RCU). Here a timer may enter another chain
//! before a walk leaves it, and the walk then ends in that chain. So the last link of a chain holds the chain's number.
//! A walk that finds nothing and ends at another number begins again. A timer that returns to its own chain becomes the
//! first there: the walk passes all other timers once more, and misses none.

use crate::sync::AtomicUsize;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::timer::Timer;

/// The first link of a chain: a timer's address, or the chain's number with the lowest bit set.
#[repr(transparent)]
pub struct Chain(AtomicUsize);

impl Chain {
    /// Makes an empty chain.
    pub fn new(number: usize) -> Chain {
        Chain(AtomicUsize::new(end(number)))
    }

    /// The first timer for which `wanted` returns `true`. Takes no lock.
    #[inline]
    pub fn find(&self, number: usize, wanted: impl Fn(&Timer) -> bool) -> Option<&Timer> {
        loop {
            let mut link = self.0.load(Acquire);
            while link & 1 == 0 {
                // SAFETY: links hold addresses of timers in this sample's memory, which stays valid after they are
                // deleted.
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

    /// Puts a timer first. The caller holds the chain's lock.
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

/// Takes a timer out of its chain, whose lock the caller holds.
#[inline]
pub fn unlink(timer: &Timer) {
    let (before, next) = (timer.before.load(Relaxed), timer.next.load(Relaxed));
    // SAFETY: the address of a chain's first link, or of the link of the timer before. Both live as long as the sample.
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
