//! Signals, which wake queued waiters. They know nothing of buckets.

pub(crate) mod sleeper;
pub(crate) mod thread;

use core::ptr::NonNull;

use crate::sync::{Mutant, Ordering, UnsafeCell, mutant};
use crate::sys::park::{Address, Parker};
use crate::sys::platform::PlatformRef;
pub(crate) use crate::sys::unwind::Callback;
use sleeper::Sleeper;

const WAITING: u32 = 0;
const WOKEN: u32 = 1;

/// Wakes a waiter. It lies in the waiter's own memory, next to its queue node.
///
/// Ownership follows the node's. While the node is queued, `receiver` belongs to the bucket's lock. A thread that takes
/// the node off the queue to wake it owns the whole signal until it stores `WOKEN`. With that store it gives the memory
/// back, and does not touch it again. A waiter that finds its node taken must not leave before it has seen `WOKEN`: a
/// timeout does not by itself transfer ownership back.
#[repr(C)]
pub(crate) struct Signal {
    state: Parker,
    receiver: UnsafeCell<Receiver>,
}

/// The receiver of a wake.
pub(crate) enum Receiver {
    /// A thread that sleeps on the signal's own word, by this platform.
    Thread(PlatformRef),
    /// A thread that sleeps elsewhere, because other entries or an interrupt may wake it too. The sleeper outlives
    /// the entry's time in the queue.
    Sleeper(NonNull<Sleeper>),
    /// A task, through its waker.
    Waker(Callback),
}

impl Receiver {
    /// Stands for a receiver that a wake has taken out. It sleeps nowhere.
    pub(crate) const TAKEN: Self = Self::Thread(PlatformRef::HOST);
}

/// The work that is left for a waiter that has been notified. It accesses no memory of the waiter. The drop does the
/// work, so that a panic of another callback cannot skip it. Nothing may be locked when it is dropped.
#[must_use]
pub(crate) struct PendingWake(Action);

enum Action {
    Nothing,
    WakeThread(Address),
    CallWaker(Callback),
}

impl PendingWake {
    pub(crate) const NOTHING: Self = Self(Action::Nothing);

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.0, Action::Nothing)
    }
}

impl Drop for PendingWake {
    #[inline]
    fn drop(&mut self) {
        match core::mem::replace(&mut self.0, Action::Nothing) {
            Action::Nothing => {}
            Action::WakeThread(address) => address.wake(),
            Action::CallWaker(waker) => waker.wake(),
        }
    }
}

impl Signal {
    pub(crate) fn new(receiver: Receiver) -> Self {
        Self { state: Parker::new(WAITING), receiver: UnsafeCell::new(receiver) }
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
    pub(crate) unsafe fn wake(this: *const Self) -> PendingWake {
        // SAFETY: valid and ours until the store of WOKEN.
        let receiver = unsafe { (*this).receiver.with_mut(|t| core::mem::replace(&mut *t, Receiver::TAKEN)) };
        // SAFETY: valid up to the store.
        let state = unsafe { &raw const (*this).state };
        let pending = match receiver {
            Receiver::Thread(on) => {
                // SAFETY: as above.
                unsafe { Parker::store_and_wake(state, on, WOKEN) };
                return PendingWake::NOTHING;
            }
            // SAFETY: the sleeper's owner does not leave before it has seen the store below.
            Receiver::Sleeper(sleeper) => unsafe {
                if mutant(Mutant::NotifiesTooLate) {
                    Parker::store(&*state, WOKEN, Ordering::Release); // [J], too early
                }
                PendingWake(Action::WakeThread(sleeper.as_ref().notify()))
            },
            // The waker has been moved out of the waiter's memory, and may outlive it.
            Receiver::Waker(waker) => PendingWake(Action::CallWaker(waker)),
        };
        // SAFETY: as above.
        unsafe { Parker::store(&*state, WOKEN, Ordering::Release) }; // [J]
        pending
    }

    /// Notifies the waiter while its node stays queued, so that it checks its state.
    ///
    /// # Safety
    /// The node is queued and the caller holds the lock that guards `receiver`.
    pub(crate) unsafe fn notify_queued(&self) -> PendingWake {
        self.receiver.with_mut(|receiver| {
            // SAFETY: guarded by the lock that the caller holds.
            let receiver = unsafe { &mut *receiver };
            match receiver {
                Receiver::Thread(_) => PendingWake::NOTHING,
                // SAFETY: the entry is queued, so the sleeper is still there.
                Receiver::Sleeper(sleeper) => PendingWake(Action::WakeThread(unsafe { sleeper.as_ref() }.notify())),
                Receiver::Waker(_) => match core::mem::replace(receiver, Receiver::TAKEN) {
                    Receiver::Waker(waker) => PendingWake(Action::CallWaker(waker)),
                    _ => PendingWake::NOTHING,
                },
            }
        })
    }

    /// Whether a wake notifies a thread, rather than a task.
    ///
    /// # Safety
    /// The node is queued and the caller holds the bucket's lock.
    pub(crate) unsafe fn notifies_thread(&self) -> bool {
        // SAFETY: guarded by the lock that the caller holds.
        self.receiver.with(|t| !matches!(unsafe { &*t }, Receiver::Waker(_)))
    }

    /// Exchanges `receiver` with the receiver of the wake.
    ///
    /// # Safety
    /// The node is queued and the caller holds the lock that guards `receiver`.
    pub(crate) unsafe fn swap_receiver(&self, receiver: &mut Receiver) {
        // SAFETY: guarded by the lock that the caller holds.
        self.receiver.with_mut(|t| core::mem::swap(unsafe { &mut *t }, receiver));
    }

    /// Waits until the waker that has taken the node stores `WOKEN`. The waker needs a few instructions for that,
    /// unless it is preempted, perhaps by this thread. So this thread sleeps at times, and the waker can run whatever
    /// this thread's priority is.
    pub(crate) fn wait_for_waker(&self, on: PlatformRef) {
        let mut round = 0;
        while !self.is_woken() {
            on.wait_a_moment(&mut round);
        }
    }
}
