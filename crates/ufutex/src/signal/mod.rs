//! Signals: how a waiter in a queue is notified of its wake. This module knows nothing of buckets.

pub(crate) mod group;
pub(crate) mod sleeper;

use core::num::NonZeroU32;
use core::ptr::NonNull;

use crate::sync::{Ordering, UnsafeCell};
use crate::sys::clock::Deadline;
use crate::sys::park::{ParkEnd, Parker, SleeperAddress};
use crate::sys::platform::{PlatformRef, Watched};
pub(crate) use crate::sys::unwind::GuardedWaker;
use crate::sys::unwind::Otherwise;
use group::Members;
use sleeper::Sleeper;

const WAITING: u32 = 0;
const WOKEN: u32 = 1;
/// No wake has come, and the thread is awake and watches the state.
const SPINNING: u32 = 3;
/// A wake has come, and the waking thread is calling the waker that the waiter has lent it. `WOKEN` follows.
const CALLING: u32 = 2;

/// Notifies a waiter of its wake. It lies in the waiter's own memory, next to its queue node.
///
/// Ownership follows the node's. While the node is queued, `receiver` belongs to the bucket's lock. A thread that takes the
/// node off the queue to wake it owns the whole signal until it stores `WOKEN`, which the waiter waits for; only the waiter changes
/// `WAITING` to `SPINNING` and back. A lent waker stays in `receiver` until it has returned: the state is `CALLING` meanwhile.
#[repr(C)]
pub(crate) struct Signal {
    state: Parker,
    /// Means something to the entry alone. Here, because there is room: an entry is 8 bytes smaller.
    pub(crate) bitset: UnsafeCell<Option<NonZeroU32>>,
    receiver: UnsafeCell<Receiver>,
}

pub(crate) enum Receiver {
    /// A thread that sleeps on the signal's own word, by this platform.
    Thread(PlatformRef),
    /// A thread that sleeps on the word of a group, by the host.
    Member(Members),
    /// A thread that other entries or an interrupt may wake, too. The sleeper outlives the entry's time in the queue.
    Sleeper(NonNull<Sleeper>),
    Waker(GuardedWaker),
    /// As `Waker`, but what it points to may be on the waiter's stack, so it must have returned before the wait ends.
    Lent(GuardedWaker),
}

impl Receiver {
    /// Left in place of a receiver that a wake has taken out.
    pub(crate) const TAKEN: Self = Self::Thread(PlatformRef::HOST);
}

/// The work that is left for a waiter that has been notified. It accesses no memory of the waiter, except for a lent waker. The
/// drop does the work, with nothing locked, so that a panic of another callback cannot skip it.
#[must_use]
pub(crate) struct PendingWake(Action);

enum Action {
    Nothing,
    WakeThread(SleeperAddress),
    WakeMembers(Members),
    CallWaker(GuardedWaker),
    CallLent(NonNull<Signal>),
}

impl PendingWake {
    pub(crate) const NOTHING: Self = Self(Action::Nothing);

    fn of_thread(address: Option<SleeperAddress>) -> Self {
        address.map_or(Self::NOTHING, |address| Self(Action::WakeThread(address)))
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.0, Action::Nothing)
    }

    #[inline]
    pub(crate) fn members(&mut self) -> Option<&mut Members> {
        if let Action::WakeMembers(members) = &mut self.0 { Some(members) } else { None }
    }

    /// Whether it runs an embedder's code, which may sleep.
    pub(crate) fn calls_waker(&self) -> bool {
        matches!(self.0, Action::CallWaker(_) | Action::CallLent(_))
    }

    #[inline]
    pub(crate) fn run(&mut self) {
        match core::mem::replace(&mut self.0, Action::Nothing) {
            Action::Nothing => {}
            Action::WakeThread(address) => address.wake(),
            Action::WakeMembers(members) => members.wake(),
            Action::CallWaker(waker) => waker.wake(),
            // SAFETY: the only place that makes one, `Signal::wake`, leaves the signal to it.
            Action::CallLent(signal) => unsafe { Signal::call_lent(signal) },
        }
    }
}

impl Drop for PendingWake {
    #[inline]
    fn drop(&mut self) {
        self.run();
    }
}

impl Signal {
    pub(crate) fn new(receiver: Receiver) -> Self {
        Self { state: Parker::new(WAITING), bitset: UnsafeCell::new(None), receiver: UnsafeCell::new(receiver) }
    }

    /// Whether a wake has come, and its waker has returned.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        self.state.load(Ordering::Acquire) == WOKEN // [J]
    }

    /// Whether a wake has come. A waker that was lent may still run.
    #[inline]
    pub(crate) fn is_notified(&self) -> bool {
        self.state.load(Ordering::Acquire) != WAITING // [J]
    }

    /// Stores `WOKEN`, and wakes a thread that sleeps on the signal. A thread that spins need not be woken; all others are, by the
    /// result's drop. If the waker is lent, `CALLING` is stored now, and `WOKEN` by that drop.
    ///
    /// # Safety
    /// `this` is valid. The caller has taken its node off the queue, and does not access the waiter afterwards.
    pub(crate) unsafe fn wake(this: *const Self) -> PendingWake {
        // SAFETY: valid and ours until the store of WOKEN.
        let (receiver, state) = unsafe {
            ((*this).receiver.with_mut(|r| core::mem::replace(&mut *r, Receiver::TAKEN)), &raw const (*this).state)
        };
        let pending = match receiver {
            Receiver::Thread(on) => {
                // SAFETY: as above.
                unsafe { Parker::swap_and_wake(state, on, WOKEN, SPINNING) };
                return PendingWake::NOTHING;
            }
            Receiver::Member(members) => {
                // SAFETY: as above.
                let before = unsafe { Parker::swap(&*state, WOKEN) };
                return PendingWake(if before == SPINNING { Action::Nothing } else { Action::WakeMembers(members) });
            }
            // SAFETY: the sleeper's owner does not leave before it has seen the store below.
            Receiver::Sleeper(sleeper) => unsafe { PendingWake::of_thread(sleeper.as_ref().notify()) },
            // The waker has been moved out of the waiter's memory, and may outlive it.
            Receiver::Waker(waker) => PendingWake(Action::CallWaker(waker)),
            Receiver::Lent(waker) => {
                // SAFETY: as above. The waiter leaves a waker that it has lent alone until it sees WOKEN.
                unsafe {
                    (*this).receiver.with_mut(|r| *r = Receiver::Lent(waker));
                    Parker::store(&*state, CALLING, Ordering::Release); // [J]
                    return PendingWake(Action::CallLent(NonNull::new_unchecked(this.cast_mut())));
                }
            }
        };
        // SAFETY: as above.
        unsafe { Parker::store(&*state, WOKEN, Ordering::Release) }; // [J]
        pending
    }

    /// Calls the lent waker, and gives the signal back, also if the waker panics.
    ///
    /// # Safety
    /// `this` comes from `wake`, and is used once. The caller does not access the waiter afterwards.
    #[cold]
    unsafe fn call_lent(this: NonNull<Self>) {
        // SAFETY: the signal is ours until the store of WOKEN, but for `state`, which its owner may read.
        let (receiver, state) = unsafe {
            let this = this.as_ptr();
            ((*this).receiver.with_mut(|r| core::mem::replace(&mut *r, Receiver::TAKEN)), &raw const (*this).state)
        };
        // SAFETY: as above.
        let _returned = Otherwise::new(|| unsafe { Parker::store(&*state, WOKEN, Ordering::Release) }); // [J]
        if let Receiver::Lent(waker) = receiver {
            waker.wake();
        }
    }

    /// Notifies a waiter that has inherited its lock, and leaves its node queued.
    ///
    /// # Safety
    /// The node is queued and the caller holds the lock that guards `receiver`.
    pub(crate) unsafe fn notify_queued(&self) -> PendingWake {
        self.receiver.with_mut(|receiver| {
            // SAFETY: guarded by the lock that the caller holds.
            let receiver = unsafe { &mut *receiver };
            match receiver {
                Receiver::Thread(_) | Receiver::Member(_) => PendingWake::NOTHING,
                // SAFETY: the entry is queued, so the sleeper is still there.
                Receiver::Sleeper(sleeper) => PendingWake::of_thread(unsafe { sleeper.as_ref() }.notify()),
                Receiver::Waker(_) | Receiver::Lent(_) => match core::mem::replace(receiver, Receiver::TAKEN) {
                    Receiver::Waker(waker) | Receiver::Lent(waker) => PendingWake(Action::CallWaker(waker)),
                    _ => PendingWake::NOTHING,
                },
            }
        })
    }

    /// # Safety
    /// The node is queued and the caller holds the bucket's lock.
    pub(crate) unsafe fn notifies_thread(&self) -> bool {
        // SAFETY: guarded by the lock that the caller holds.
        self.receiver.with(|t| !matches!(unsafe { &*t }, Receiver::Waker(_) | Receiver::Lent(_)))
    }

    /// # Safety
    /// The node is queued and the caller holds the lock that guards `receiver`.
    pub(crate) unsafe fn swap_receiver(&self, receiver: &mut Receiver) {
        // SAFETY: guarded by the lock that the caller holds.
        self.receiver.with_mut(|t| core::mem::swap(unsafe { &mut *t }, receiver));
    }

    /// Spins until a wake comes, `ns` nanoseconds or the deadline have passed, or the thread has lost its CPU. The caller then
    /// sleeps in any case, and that returns at once if a wake has come. Only the waiting thread calls this.
    pub(crate) fn spin(&self, on: PlatformRef, ns: u64, deadline: Option<&Deadline>) -> Watched {
        // If a wake has come, each exchange fails and leaves `WOKEN`. Relaxed: the sleep loads it with Acquire.
        let _or_woken = self.state.compare_exchange(WAITING, SPINNING, Ordering::Relaxed);
        let watched = on.watch(ns, deadline, || self.state.load(Ordering::Relaxed) != SPINNING);
        let _or_woken = self.state.compare_exchange(SPINNING, WAITING, Ordering::Relaxed);
        watched
    }

    /// Sleeps on the signal's own word until a wake comes or `deadline` passes. Returns whether one has come.
    pub(crate) fn sleep(&self, on: PlatformRef, deadline: Option<&Deadline>) -> bool {
        // The kernel lengthens each sleep by the thread's timer slack, even one whose deadline has passed.
        if deadline.is_some_and(|deadline| on.has_passed(deadline)) {
            return self.is_woken();
        }
        while !self.is_woken() {
            if self.state.park(on, WAITING, deadline) == ParkEnd::TimedOut {
                return self.is_woken();
            }
        }
        true
    }

    /// Waits until the thread that has taken the node stores `WOKEN`: a few instructions, or until a lent waker has returned.
    /// Sleeps between its checks, because that thread may have lost its CPU to this one.
    pub(crate) fn wait_for_waker(&self, on: PlatformRef) {
        let mut round = 0;
        while !self.is_woken() {
            on.wait_a_moment(&mut round);
        }
    }

    /// As `wait_for_waker`, but a lent waker may still run: the caller owns the entry except for its signal. Spins where lock
    /// holders keep their CPU, because the waking thread does too.
    pub(crate) fn wait_for_notification(&self, on: PlatformRef) {
        let mut round = 0;
        while !self.is_notified() {
            on.wait_for_holder(&mut round);
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::sys::platform::Watched;

    #[test]
    fn spinning_thread_sees_a_wake_and_nothing_else() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let signal = Signal::new(Receiver::Thread(PlatformRef::HOST));
        let watched = signal.spin(PlatformRef::HOST, 1000, None);
        assert!(matches!(watched, Watched::TimeIsUp | Watched::CpuIsLost) && !signal.is_woken());
        // SAFETY: nothing else uses the signal.
        drop(unsafe { Signal::wake(&raw const signal) });
        assert_eq!(signal.spin(PlatformRef::HOST, HOUR_NS, None), Watched::DoneBefore);
        assert!(signal.is_woken());
    }
}
