//! Waits of tasks.

use core::pin::Pin;
use core::task::Poll;

use super::domain::Domain;
use super::key::Target;
use super::operation::block_on;
use super::operation::{Cause, Operation, PollReceiver, operation_is_a_future};
use super::timeout_watch::TimeoutWatch;
use super::wait::WaitOptions;
use super::waiter::Waiter;
use crate::error::Error;
use crate::signal::Signal;
use crate::sys::clock::Timeout;

/// The future of [`Domain::wait_async`]. Dropping it cancels the wait. A wake that has come, and that the future has
/// not reported, goes to the next waiter.
///
/// # The waker
/// It is cloned, woken and dropped with no lock held, by any thread. It may use the engine without restriction: wake,
/// poll and drop other waits, including those that the same wake has woken. (The waker of a wait of
/// [`Domain::prepare_with`] may not: see there.) Each poll that returns `Pending` leaves its waker with the wait. That
/// waker is woken at most once by a wake, and at most once by a timeout. A poll that finds a wake under way wakes the
/// waker that it was given, so that the task polls again.
///
/// When a wait has ended otherwise than by a wake or its timeout, its waker has been dropped and is not woken any more.
/// There is one exception, as with any executor: if the end of the wait meets a wake that has already taken the waker,
/// the waker may be woken a moment after the wait has ended. It is a counted handle, so this is sound.
///
/// If a waker's clone panics, the poll has changed nothing. A waker that panics while it is woken counts as woken. A
/// waker that panics while it is dropped may keep a poll from reporting that the wait has ended, or that the task has
/// the lock.
#[must_use = "futures do nothing unless polled"]
pub struct Wait<'d, T: Target> {
    domain: &'d Domain,
    target: T,
    expected: T::Value,
    options: WaitOptions,
    watch: TimeoutWatch<'d>,
    is_done: bool,
    waiter: Waiter<'d>,
}

impl Domain {
    /// Waits as a task while the word holds `expected`. The word is compared at the first poll.
    ///
    /// It works with any executor. A timeout runs from the first poll on. The namespace's
    /// [`driver`](crate::PidNamespace::driver) watches it, so the executor needs no timer.
    ///
    /// ```
    /// use std::{future::Future, pin::pin, sync::atomic::AtomicU32, task::{Context, Poll, Waker}};
    /// use ufutex::{Domain, System, WaitOptions};
    ///
    /// let domain = Domain::new(&System::new());
    /// let word = AtomicU32::new(0);
    /// let mut wait = pin!(domain.wait_async(&word, 0, &WaitOptions::new()));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
    /// domain.wake(&word, 1);
    /// assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    /// ```
    ///
    /// # Errors
    /// The future returns the errors of [`prepare`](Self::prepare), and [`Error::TimedOut`]. With a timeout it may also
    /// return [`Error::NoMemory`], or [`Error::Invalid`] if there is no clock: without `std` and without an embedder's
    /// [`clocks`](crate::SystemConfig::clocks).
    pub fn wait_async<T: Target>(&self, target: T, expected: T::Value, options: &WaitOptions) -> Wait<'_, T> {
        Wait {
            domain: self,
            target,
            expected,
            options: *options,
            watch: TimeoutWatch::new(),
            is_done: false,
            waiter: Waiter::new(),
        }
    }
}

impl<T: Target> Wait<'_, T> {
    fn watched_timeout(&self) -> Option<Timeout> {
        self.options.timeout
    }

    /// Removes the timeout, which the caller watches from now on.
    pub(crate) fn take_timeout(&mut self) {
        self.options.timeout = None;
    }
}

operation_is_a_future!([T: Target] Wait<'_, T> => ());

impl<T: Target> Operation for Wait<'_, T> {
    type Output = ();

    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        // SAFETY: `waiter` is the only field that must stay in place, and is reached only through a pin below.
        let this = unsafe { self.get_unchecked_mut() };
        if this.waiter.is_busy() {
            if this.waiter.try_receive(receiver) { Poll::Ready(Ok(())) } else { Poll::Pending }
        } else {
            this.begin(receiver)
        }
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<(), Error> {
        // SAFETY: as in `poll_for`.
        let this = unsafe { self.get_unchecked_mut() };
        if this.waiter.give_up() { Err(cause.into()) } else { Ok(()) }
    }
}

impl<T: Target> Wait<'_, T> {
    fn begin(&mut self, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        // Before the bucket is locked: a waker's clone runs the embedder's code.
        let receiver = receiver.for_entry();
        let queued = self.domain.lock_if_equal(&self.target, self.expected).and_then(|matched| {
            // SAFETY: `poll_for` has `self` pinned, so the field is pinned too.
            let waiter = unsafe { Pin::new_unchecked(&self.waiter) };
            self.domain.queue(matched, waiter, &self.options, Signal::new(receiver))
        });
        match queued {
            Ok(_) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Domain {
    /// As [`wait_with`](Self::wait_with), but the wait also ends when `interrupt` is raised.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU32;
    /// use ufutex::{Domain, Error, Interrupt, System, WaitOptions};
    ///
    /// let domain = Domain::new(&System::new());
    /// let (word, interrupt) = (AtomicU32::new(0), Interrupt::new());
    /// std::thread::scope(|scope| {
    ///     let waiter = scope.spawn(|| domain.wait_interruptible(&word, 0, &WaitOptions::new(), &interrupt));
    ///     interrupt.raise();
    ///     assert_eq!(waiter.join().unwrap(), Err(Error::Interrupted));
    /// });
    /// ```
    ///
    /// # Errors
    /// As for `wait_with`; [`Error::Interrupted`], also if the interrupt was raised before the call; [`Error::Busy`] if
    /// another thread waits with it.
    pub fn wait_interruptible<T: Target>(
        &self,
        target: T,
        expected: T::Value,
        options: &WaitOptions,
        interrupt: &crate::futex::interrupt::Interrupt,
    ) -> Result<(), Error> {
        let deadline = options.timeout.map(|timeout| self.begin(timeout));
        let wait = core::pin::pin!(self.wait_async(target, expected, options));
        block_on(wait, self.platform(), &interrupt.sleeper, deadline.as_ref())
    }
}
