//! Calls an embedder for each wait that is queued, and for each wake and requeue that finds a waiter.

use super::domain::Domain;
use super::key::{Address, At};
use super::operation::Cause;
use super::requeue::Requeued;
use crate::sys::unwind::catch;

/// Callbacks for the waits, wakes and requeues of a domain: [`DomainOptions::observer`](crate::DomainOptions::observer).
///
/// The thread that waits, wakes or requeues makes the call, or the one that polls or drops a future. It has nothing locked,
/// except in [`waker_id`](Self::waker_id), so the observer may use the engine, and is called for that too. If a task inherits a
/// lock, `wait_ended` may be called in a `Platform::section`, where the thread must not sleep. A panic is caught, and changes
/// nothing. Without `std` it ends the process. A word in an object has its offset as address. docs/OBSERVING.md has the order.
#[expect(unused_variables, reason = "an embedder implements the calls that it wants")]
pub trait Observer: core::fmt::Debug + Sync {
    /// A waiter has been queued. No other wait that is under way has the number `wait`. Each word of a `wait_any` has one.
    fn wait_began(&self, wait: usize, word: At<Address>) {}

    /// The wait has ended. If a requeue moved it, `word` is the last one.
    fn wait_ended(&self, wait: usize, word: At<Address>, end: WaitEnd) {}

    /// A wake has woken `count` waiters, at least one. For a `wake_op`, `word` is the first, and `count` that of both.
    fn woke(&self, word: At<Address>, count: usize) {}

    /// A requeue has woken or moved at least one waiter. [`woke`](Self::woke) is not called for those that it woke.
    fn requeued(&self, from: At<Address>, to: At<Address>, done: Requeued) {}

    /// A number for the calling thread or task, which [`WaitEnd::Woken`] passes on. A wake that has locked a bucket calls this, also if
    /// it then finds no waiter. That lock is held, so do not use the engine, sleep or take a lock.
    fn waker_id(&self) -> u64 {
        0
    }
}

/// How a wait ended: [`Observer::wait_ended`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitEnd {
    /// A wake came, or the waiter has the lock. The number is what [`Observer::waker_id`] returned on the waking thread; 0 if the
    /// waker used a domain without an observer, or if the lock's owner has died. If the waiter was dropped, the next one gets the wake.
    Woken(u64),
    /// The time was up, or the wait was interrupted.
    GaveUp(Cause),
    /// It was cancelled or dropped, or the `wait_any` has ended by another word.
    Cancelled,
}

impl Domain {
    /// Calls the domain's observer. Without one, or if it panics, the result is the default.
    #[inline(always)]
    pub(super) fn observe<R: Default>(&self, tell: impl FnOnce(&dyn Observer) -> R) -> R {
        self.observer.and_then(|observer| catch(|| tell(observer))).unwrap_or_default()
    }
}
