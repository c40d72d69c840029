//! Signals, which wake queued waiters. They know nothing of buckets.

pub(crate) mod sleeper;
#[cfg(feature = "std")]
pub(crate) mod thread;

use core::ptr::NonNull;

use crate::sync::{Mutant, Ordering, UnsafeCell, mutant};
use crate::sys::park::{Address, Parker, wait_a_moment};
pub(crate) use crate::sys::unwind::Callback;
use sleeper::Sleeper;

const WAITING: u32 = 0;
const WOKEN: u32 = 1;

/// Wakes a waiter. It lies in the waiter's own memory, next to its queue node.
///
/// Ownership follows the node's. While the node is queued, `told` belongs to the bucket's lock. A thread that takes the
/// node off the queue to wake it owns the whole signal until it stores `WOKEN`. With that store it gives the memory
/// back, and does not touch it again. A waiter that finds its node taken must not leave before it has seen `WOKEN`: a
/// timeout does not by itself transfer ownership back.
#[repr(C)]
pub(crate) struct Signal {
    state: Parker,
    told: UnsafeCell<Told>,
}

/// The receiver of a wake.
pub(crate) enum Told {
    /// A thread that sleeps on the signal's own word.
    Thread,
    /// A thread that sleeps elsewhere, because other entries or an interrupt may wake it too. The sleeper outlives
    /// the entry's time in the queue.
    Sleeper(NonNull<Sleeper>),
    /// A task, through its waker.
    Waker(Callback),
}

/// The work that is left for a waiter that has been notified. It accesses no memory of the waiter. The drop does the
/// work, so that a panic of another callback cannot skip it. Nothing may be locked when it is dropped.
#[must_use]
pub(crate) struct Rest(Left);

enum Left {
    Nothing,
    Wake(Address),
    Wakes(Callback),
}

impl Rest {
    pub(crate) const NOTHING: Self = Self(Left::Nothing);

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.0, Left::Nothing)
    }
}

impl Drop for Rest {
    #[inline]
    fn drop(&mut self) {
        match core::mem::replace(&mut self.0, Left::Nothing) {
            Left::Nothing => {}
            Left::Wake(address) => address.wake(),
            Left::Wakes(waker) => waker.wake(),
        }
    }
}

impl Signal {
    pub(crate) fn new(told: Told) -> Self {
        Self { state: Parker::new(WAITING), told: UnsafeCell::new(told) }
    }

    /// Whether a wake has come. If so, everything that the waker did happens before what follows.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        let woken = self.state.load(Ordering::Acquire) == WOKEN; // [J]
        #[cfg(any(feature = "loom", feature = "shuttle"))]
        if woken {
            self.state.settle();
        }
        woken
    }

    /// Stores `WOKEN`, and wakes a thread that sleeps on the signal. A thread that sleeps on a [`Sleeper`], or a task,
    /// is woken when the result is dropped.
    ///
    /// # Safety
    /// `this` is valid. The caller has taken its node off the queue, and does not access the waiter afterwards.
    pub(crate) unsafe fn wake(this: *const Self) -> Rest {
        // SAFETY: valid and ours until the store of WOKEN.
        let told = unsafe { (*this).told.with_mut(|t| core::mem::replace(&mut *t, Told::Thread)) };
        // SAFETY: valid up to the store.
        let state = unsafe { &raw const (*this).state };
        let rest = match told {
            Told::Thread => {
                // SAFETY: as above.
                unsafe { Parker::store_and_wake(state, WOKEN) };
                return Rest::NOTHING;
            }
            // SAFETY: the sleeper's owner does not leave before it has seen the store below.
            Told::Sleeper(sleeper) => unsafe {
                if mutant(Mutant::TellsTooLate) {
                    Parker::store(&*state, WOKEN, Ordering::Release); // [J], too early
                }
                Rest(Left::Wake(sleeper.as_ref().tell()))
            },
            // The waker has been moved out of the waiter's memory, and may outlive it.
            Told::Waker(waker) => Rest(Left::Wakes(waker)),
        };
        // SAFETY: as above.
        unsafe { Parker::store(&*state, WOKEN, Ordering::Release) }; // [J]
        rest
    }

    /// Notifies the waiter while its node stays queued, so that it checks its state.
    ///
    /// # Safety
    /// The node is queued and the caller holds the lock that guards `told`.
    pub(crate) unsafe fn prod(&self) -> Rest {
        self.told.with_mut(|told| {
            // SAFETY: guarded by the lock that the caller holds.
            let told = unsafe { &mut *told };
            match told {
                Told::Thread => Rest::NOTHING,
                // SAFETY: the entry is queued, so the sleeper is still there.
                Told::Sleeper(sleeper) => Rest(Left::Wake(unsafe { sleeper.as_ref() }.tell())),
                Told::Waker(_) => match core::mem::replace(told, Told::Thread) {
                    Told::Waker(waker) => Rest(Left::Wakes(waker)),
                    _ => Rest::NOTHING,
                },
            }
        })
    }

    /// Whether a wake notifies a thread, rather than a task.
    ///
    /// # Safety
    /// The node is queued and the caller holds the bucket's lock.
    pub(crate) unsafe fn tells_thread(&self) -> bool {
        // SAFETY: guarded by the lock that the caller holds.
        self.told.with(|t| !matches!(unsafe { &*t }, Told::Waker(_)))
    }

    /// Exchanges `told` with the receiver of the wake.
    ///
    /// # Safety
    /// The node is queued and the caller holds the lock that guards `told`.
    pub(crate) unsafe fn swap_told(&self, told: &mut Told) {
        // SAFETY: guarded by the lock that the caller holds.
        self.told.with_mut(|t| core::mem::swap(unsafe { &mut *t }, told));
    }

    /// Waits until the waker that has taken the node stores `WOKEN`. The waker needs a few instructions for that,
    /// unless it is preempted, perhaps by this thread. So this thread sleeps at times, and the waker can run whatever
    /// this thread's priority is.
    pub(crate) fn wait_for_waker(&self) {
        let mut round = 0;
        while !self.is_woken() {
            wait_a_moment(&mut round);
        }
    }
}
