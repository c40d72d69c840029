//! Waking and being woken: the ways a queued waiter is told, without knowing of buckets.

pub(crate) mod sleeper;
#[cfg(feature = "std")]
pub(crate) mod thread;

use core::ptr::NonNull;
use core::task::Waker;

use crate::sync::{Mutant, Ordering, UnsafeCell, mutant};
use crate::sys::park::{Address, Parker, nap, pause};
use sleeper::Sleeper;

const WAITING: u32 = 0;
const WOKEN: u32 = 1;

/// How a waiter is told. It lies in the waiter's own memory, next to its queue node.
///
/// Ownership follows the node's. While the node is queued, `told` belongs to the bucket's lock. Whoever takes the node
/// off the queue to wake it owns the whole signal until it stores `WOKEN`; with that store it gives the memory back,
/// and touches it no more. A waiter that finds its node taken must not leave before it has seen `WOKEN`: a timeout does
/// not by itself transfer ownership back.
#[repr(C)]
pub(crate) struct Signal {
    state: Parker,
    told: UnsafeCell<Told>,
}

/// Who is told.
pub(crate) enum Told {
    /// A thread, asleep on the signal's own word.
    Thread,
    /// A thread that sleeps elsewhere, because other entries or an interrupt may wake it too. The sleeper outlives
    /// the entry's time in the queue.
    Sleeper(NonNull<Sleeper>),
    /// Whoever gave this waker.
    Waker(Waker),
}

/// What is left to do for one who has been told: nothing of its own memory is touched by it.
#[must_use]
pub(crate) enum Rest {
    Nothing,
    Wake(Address),
    Call(Waker),
}

impl Rest {
    /// Does it.
    pub(crate) fn finish(self) {
        match self {
            Self::Nothing => {}
            Self::Wake(address) => address.wake(),
            Self::Call(waker) => waker.wake(),
        }
    }
}

impl Signal {
    pub(crate) fn new(told: Told) -> Self {
        Self { state: Parker::new(WAITING), told: UnsafeCell::new(told) }
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

    /// Tells the waiter. A thread that sleeps on the signal is woken; the rest is the caller's to do.
    ///
    /// # Safety
    /// `this` is valid, its node was taken off the queue by the caller, and nothing of the waiter is used afterwards.
    pub(crate) unsafe fn wake(this: *const Self) -> Rest {
        // SAFETY: valid and ours until the store of WOKEN.
        let told = unsafe { (*this).told.with_mut(|t| core::mem::replace(&mut *t, Told::Thread)) };
        // SAFETY: valid up to the store.
        let state = unsafe { &raw const (*this).state };
        let rest = match told {
            Told::Thread => {
                // SAFETY: as above.
                unsafe { Parker::store_and_wake(state, WOKEN) };
                return Rest::Nothing;
            }
            // SAFETY: the sleeper's owner does not leave before it has seen the store below.
            Told::Sleeper(sleeper) => unsafe {
                if mutant(Mutant::TellsTooLate) {
                    Parker::store(&*state, WOKEN, Ordering::Release);
                }
                Rest::Wake(sleeper.as_ref().tell())
            },
            // The waker is ours by now and outlives the waiter.
            Told::Waker(waker) => Rest::Call(waker),
        };
        // SAFETY: as above.
        unsafe { Parker::store(&*state, WOKEN, Ordering::Release) }; // [J]
        rest
    }

    /// Has the waiter look again, though its node stays queued.
    ///
    /// # Safety
    /// The node is queued and the caller holds the lock that guards `told`.
    pub(crate) unsafe fn prod(&self) -> Rest {
        self.told.with_mut(|told| {
            // SAFETY: guarded by the lock that the caller holds.
            let told = unsafe { &mut *told };
            match told {
                Told::Thread => Rest::Nothing,
                // SAFETY: the entry is queued, so the sleeper is still there.
                Told::Sleeper(sleeper) => Rest::Wake(unsafe { sleeper.as_ref() }.tell()),
                Told::Waker(_) => match core::mem::replace(told, Told::Thread) {
                    Told::Waker(waker) => Rest::Call(waker),
                    _ => Rest::Nothing,
                },
            }
        })
    }

    /// Whether a thread is told, rather than a waker.
    ///
    /// # Safety
    /// The node is queued and the caller holds the bucket's lock.
    pub(crate) unsafe fn tells_thread(&self) -> bool {
        // SAFETY: guarded by the lock that the caller holds.
        self.told.with(|t| !matches!(unsafe { &*t }, Told::Waker(_)))
    }

    /// Has `told` told from now on, and leaves who was to be in its place.
    ///
    /// # Safety
    /// The node is queued and the caller holds the lock that guards `told`.
    pub(crate) unsafe fn swap_told(&self, told: &mut Told) {
        // SAFETY: guarded by the lock that the caller holds.
        self.told.with_mut(|t| core::mem::swap(unsafe { &mut *t }, told));
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
