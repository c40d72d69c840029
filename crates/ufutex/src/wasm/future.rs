//! Waits of tasks on words of a linear memory: the futures of `wait32_async` and `wait64_async`.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::memory::MemoryWord;
use super::{LinearMemory, Trap, Waited, outcome};
use crate::futex::future;
use crate::futex::key::WordValue;
use crate::futex::operation::Cause;
use crate::sys::clock::Timeout;

/// A wait that has begun: the future of [`Atomics::wait32_async`](super::Atomics::wait32_async) and
/// [`wait64_async`](super::Atomics::wait64_async). Dropping it cancels the wait. A notify that has come, and that the
/// future has not reported, goes to the next waiter.
#[must_use = "futures do nothing unless polled"]
pub struct MemoryWait<'a, M: LinearMemory + ?Sized, V: WordValue> {
    pub(super) timeout: Option<Timeout>,
    pub(super) wait: future::Wait<'a, MemoryWord<'a, M, V>>,
}

impl<'a, M: LinearMemory + ?Sized, V: WordValue> MemoryWait<'a, M, V> {
    /// The timeout of the wait. The namespace's [`driver`](crate::PidNamespace::driver) watches it, unless
    /// [`take_timeout`](Self::take_timeout) leaves it to the caller.
    #[must_use]
    pub fn timeout(&self) -> Option<Timeout> {
        self.timeout
    }

    /// Leaves the timeout to the caller, which has to [`end`](Self::end) the wait with [`Cause::TimedOut`] when the time is
    /// up. Call this before the first poll, and `end` after it.
    #[must_use = "nobody else watches it"]
    pub fn take_timeout(&mut self) -> Option<Timeout> {
        if let Some(wait) = self.wait.operation() {
            wait.forget_timeout();
        }
        self.timeout
    }

    /// Ends the wait now. If a notify has come, that is the result. The future must not be polled afterwards.
    ///
    /// # Errors
    /// [`Trap::Interrupted`] for [`Cause::Interrupted`].
    ///
    /// # Panics
    /// If it has ended already.
    pub fn end(self: Pin<&mut Self>, cause: Cause) -> Result<Waited, Trap> {
        outcome(self.wait().end(cause))
    }

    fn wait(self: Pin<&mut Self>) -> Pin<&mut future::Wait<'a, MemoryWord<'a, M, V>>> {
        // SAFETY: the field is pinned because `self` is: nothing moves the field, and `MemoryWait` has no `Drop` and is
        // `Unpin` only if the field is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl<M: LinearMemory + ?Sized, V: WordValue> Future for MemoryWait<'_, M, V> {
    type Output = Result<Waited, Trap>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.wait().poll(context).map(outcome)
    }
}
