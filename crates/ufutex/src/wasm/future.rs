//! Waiting, as a task.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::memory::Word;
use super::outcome;
use super::{LinearMemory, Trap, Value, Waited};
use crate::WaitOptions;
use crate::futex::domain::Domain;
use crate::futex::future;
use crate::futex::operation::Cause;
use crate::sys::clock::Timeout;
use crate::table::layout::{Layout, Lean};
use crate::table::refs::{Live, Scheme};

/// A wait that has begun: the future of [`Atomics::wait32_async`](super::Atomics::wait32_async) and
/// [`wait64_async`](super::Atomics::wait64_async). Dropped, it leaves its queue; a notify that had come by then, and that
/// it has not reported, goes to the next.
#[must_use = "futures do nothing unless polled"]
pub struct Wait<'a, M: LinearMemory + ?Sized, V: Value, S: Scheme<L> = Live, L: Layout = Lean> {
    timeout: Option<Timeout>,
    wait: future::Wait<'a, Word<'a, M, V>, S, L>,
}

impl<'a, M: LinearMemory + ?Sized, V: Value, S: Scheme<L>, L: Layout> Wait<'a, M, V, S, L> {
    pub(super) fn new(domain: &'a Domain<S, L>, word: Word<'a, M, V>, expected: V, timeout: Option<Timeout>) -> Self {
        let mut options = WaitOptions::new();
        options.timeout = timeout;
        Self { timeout, wait: domain.wait_async(word, expected, options) }
    }

    /// When the wait ends by itself: the system's [`driver`](crate::System::driver) watches that.
    #[must_use]
    pub fn timeout(&self) -> Option<Timeout> {
        self.timeout
    }

    /// Leaves the timeout to the caller, who [`end`](Self::end)s the wait with [`Cause::TimedOut`] then, after it was polled
    /// once. To be called before the first poll.
    #[must_use = "nobody else watches it"]
    pub fn take_timeout(&mut self) -> Option<Timeout> {
        self.wait.take_timeout();
        self.timeout
    }

    /// Ends the wait now: by its timeout, or because the runtime stops the guest's thread. If a notify has come, that is
    /// the result. The future is not to be polled afterwards.
    ///
    /// # Errors
    /// [`Trap::Interrupted`] by [`Cause::Interrupted`].
    ///
    /// # Panics
    /// When it had ended already.
    pub fn end(self: Pin<&mut Self>, cause: Cause) -> Result<Waited, Trap> {
        outcome::of(self.wait().end(cause))
    }

    fn wait(self: Pin<&mut Self>) -> Pin<&mut future::Wait<'a, Word<'a, M, V>, S, L>> {
        // SAFETY: the field is pinned with the whole: nothing moves it, and `Wait` has no `Drop` and is `Unpin` only if it is.
        unsafe { self.map_unchecked_mut(|this| &mut this.wait) }
    }
}

impl<M: LinearMemory + ?Sized, V: Value, S: Scheme<L>, L: Layout> Future for Wait<'_, M, V, S, L> {
    type Output = Result<Waited, Trap>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.wait().poll(context).map(outcome::of)
    }
}
