//! Waking and being woken: the two ways a queued waiter is told, without knowing of buckets.

#[cfg(feature = "std")]
pub(crate) mod thread;

use core::task::Waker;

use crate::sync::{Ordering, UnsafeCell};
use crate::sys::park::{Parker, nap, pause};

const WAITING: u32 = 0;
const WOKEN: u32 = 1;

/// How a waiter is told. It lies in the waiter's own memory, next to its queue node.
///
/// Ownership follows the node's. While the node is queued, `waker` belongs to the bucket's lock. Whoever takes the node
/// off the queue to wake it owns the whole signal until it stores `WOKEN`; with that store it gives the memory back,
/// and touches it no more. A waiter that finds its node taken must not leave before it has seen `WOKEN`: a timeout does
/// not by itself transfer ownership back.
#[repr(C)]
pub(crate) struct Signal {
    state: Parker,
    /// `None`: a thread, asleep on `state`.
    waker: UnsafeCell<Option<Waker>>,
}

impl Signal {
    pub(crate) fn new(waker: Option<Waker>) -> Self {
        Self { state: Parker::new(WAITING), waker: UnsafeCell::new(waker) }
    }

    /// Whether the wake has come; everything before it has happened before what follows.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        let woken = self.state.load(Ordering::Acquire) == WOKEN; // [J]
        #[cfg(any(feature = "loom", feature = "shuttle"))]
        if woken {
            self.state.settle();
        }
        woken
    }

    /// Tells the waiter: a thread is woken, a waker is handed to the caller, who calls it.
    ///
    /// # Safety
    /// `this` is valid, its node was taken off the queue by the caller, and nothing of the waiter is used afterwards.
    #[must_use]
    pub(crate) unsafe fn wake(this: *const Self) -> Option<Waker> {
        // SAFETY: valid and ours until the store of WOKEN.
        let waker = unsafe { (*this).waker.with_mut(|w| (*w).take()) };
        // SAFETY: valid up to the store.
        let state = unsafe { &raw const (*this).state };
        match waker {
            // SAFETY: as above. The waker is ours by now and outlives the waiter.
            Some(_) => unsafe { Parker::store(&*state, WOKEN, Ordering::Release) }, // [J]
            // SAFETY: as above.
            None => unsafe { Parker::store_and_wake(state, WOKEN) },
        }
        waker
    }

    /// Has `waker` told from now on, and leaves whoever was to be in its place.
    ///
    /// # Safety
    /// The node is queued and the caller holds the bucket's lock.
    pub(crate) unsafe fn swap_waker(&self, waker: &mut Option<Waker>) {
        // SAFETY: guarded by the lock that the caller holds.
        self.waker.with_mut(|w| core::mem::swap(unsafe { &mut *w }, waker));
    }

    /// Waits for a waker that has taken the node and is about to tell. That takes it a few instructions, unless it is
    /// preempted, perhaps by us: then we sleep, so that it can run whatever our priority is.
    pub(crate) fn wait_for_waker(&self) {
        let mut round = 0;
        while !self.is_woken() {
            if round < SPINS || !nap(&mut round) {
                pause(&mut round);
            }
        }
    }
}

const SPINS: u32 = 100;
