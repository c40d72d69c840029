//! Waiting, as a task.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::domain::Domain;
use super::key::Target;
use super::wait::WaitOptions;
use super::waiter::Waiter;
use crate::error::Error;
use crate::sync::{Mutant, mutant};
use crate::table::layout::{Layout, Lean};
use crate::table::refs::{Live, Scheme};
use crate::wait::Told;

/// The future of [`Domain::wait_async`]. Dropping it cancels the wait; a wake that had come by then, and that it has
/// not reported, goes to the next waiter.
#[must_use = "futures do nothing unless polled"]
pub struct Wait<'d, T: Target, S: Scheme<L> = Live, L: Layout = Lean> {
    domain: &'d Domain<S, L>,
    target: T,
    expected: T::Value,
    options: WaitOptions,
    is_done: bool,
    waiter: Waiter<'d, S, L>,
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Waits as a task while the word holds `expected`. The word is compared at the first poll.
    ///
    /// Any executor will do. There is no timeout here yet: race the future against the executor's own timer, and drop it.
    ///
    /// ```
    /// use std::{future::Future, pin::pin, sync::atomic::AtomicU32, task::{Context, Poll, Waker}};
    /// use ufutex::{Domain, System, WaitOptions};
    ///
    /// let domain = Domain::new(&System::new());
    /// let word = AtomicU32::new(0);
    /// let mut wait = pin!(domain.wait_async(&word, 0, WaitOptions::new()));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
    /// domain.wake(&word, 1);
    /// assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    /// ```
    ///
    /// # Errors
    /// The future's output: as for [`prepare`](Self::prepare), and [`Error::Invalid`] when `options` has a timeout.
    pub fn wait_async<T: Target>(&self, target: T, expected: T::Value, options: WaitOptions) -> Wait<'_, T, S, L> {
        Wait { domain: self, target, expected, options, is_done: false, waiter: Waiter::new() }
    }
}

impl<T: Target, S: Scheme<L>, L: Layout> Future for Wait<'_, T, S, L> {
    type Output = Result<(), Error>;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `waiter` is the one field that must stay in place, and is only reached through a pin below.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(!this.is_done, "a wait was polled after it had ended");
        let result = if !this.waiter.is_busy() {
            this.begin(context)
        } else if this.waiter.is_woken() {
            this.waiter.accept();
            Poll::Ready(Ok(()))
        } else {
            if !this.waiter.set_waker(context.waker()) && !mutant(Mutant::LatePollIsSilent) {
                // Taken, and about to tell a waker that may not be this task's any more. Come again.
                context.waker().wake_by_ref();
            }
            Poll::Pending
        };
        this.is_done = result.is_ready();
        result
    }
}

impl<T: Target, S: Scheme<L>, L: Layout> Wait<'_, T, S, L> {
    fn begin(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        if self.options.timeout.is_some() {
            return Poll::Ready(Err(Error::Invalid));
        }
        // Before the lock is taken: what a waker's clone does is not ours to say.
        let waker = context.waker().clone();
        let queued = self.domain.lock_if_equal(&self.target, self.expected).and_then(|matched| {
            // SAFETY: `self` is pinned, says `poll`, and so is its field.
            let waiter = unsafe { Pin::new_unchecked(&mut self.waiter) };
            self.domain.queue(matched, waiter, &self.options, Told::Waker(waker))
        });
        match queued {
            Ok(_) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}
