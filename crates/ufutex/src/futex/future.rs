//! Has a task, or a thread that can be interrupted, wait while a word holds a value.

use core::pin::{Pin, pin};
use core::task::Poll;

use super::domain::Domain;
use super::interrupt::Interrupt;
use super::key::Target;
use super::operation::{Cause, Operation, POLLED_AFTER_END, PollReceiver, WaitEnd, WaitFuture, block_on};
use super::spin::MaySpin;
use super::wait::WaitOptions;
use super::waiter::Waiter;
use crate::error::Error;
use crate::signal::Signal;
use crate::sys::clock::Timeout;

/// The future of [`Domain::wait_async`].
pub type Wait<'d, T> = WaitFuture<'d, WaitOperation<'d, T>>;

/// A wait for one word. The target is kept to the end, since it may own the word.
pub struct WaitOperation<'d, T: Target> {
    target: T,
    state: WaitState<'d, T::Value>,
}

/// The waiter lies where the arguments were, which are not needed once it is queued.
enum WaitState<'d, V> {
    /// Not polled.
    Start { domain: &'d Domain, expected: V, options: WaitOptions },
    /// Its waiter is queued or woken. If it is idle, a poll has panicked.
    Begun(Waiter<'d>),
}

impl Domain {
    /// Waits as a task while the word holds `expected`, with any executor. The word is compared at the first poll, from which a
    /// timeout runs; the namespace's [`driver`](crate::PidNamespace::driver) watches it.
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
    /// Those of [`prepare`](Self::prepare), and [`Error::TimedOut`]. With a timeout also [`Error::NoMemory`], and
    /// [`Error::Invalid`] without a clock: without `std` and [`clocks`](crate::SystemConfig::clocks).
    pub fn wait_async<T: Target>(&self, target: T, expected: T::Value, options: &WaitOptions) -> Wait<'_, T> {
        WaitFuture::new(WaitOperation::new(self, target, expected, options))
    }
}

impl<'d, T: Target> WaitOperation<'d, T> {
    pub(crate) fn new(domain: &'d Domain, target: T, expected: T::Value, options: &WaitOptions) -> Self {
        Self { target, state: WaitState::Start { domain, expected, options: *options } }
    }

    /// Removes the timeout, which the caller watches from now on.
    pub(crate) fn forget_timeout(&mut self) {
        if let WaitState::Start { options, .. } = &mut self.state {
            options.timeout = None;
        }
    }
}

impl<'d, T: Target> Operation<'d> for WaitOperation<'d, T> {
    type Output = ();

    fn timeout(&self) -> Option<(Timeout, &'d Domain)> {
        let WaitState::Start { domain, options, .. } = &self.state else { return None };
        options.timeout.map(|timeout| (timeout, *domain))
    }

    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        // SAFETY: a waiter stays in place once it is there.
        let Self { target, state } = unsafe { self.get_unchecked_mut() };
        let (domain, expected, options) = match state {
            WaitState::Start { domain, expected, options } => (*domain, *expected, *options),
            WaitState::Begun(waiter) => {
                assert!(waiter.is_busy(), "{POLLED_AFTER_END}");
                return if waiter.try_receive(receiver) { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
        };
        // Before the bucket is locked: a waker's clone runs the embedder's code.
        let receiver = receiver.for_entry();
        let matched = domain.lock_if_equal(target, expected)?;
        *state = WaitState::Begun(Waiter::new());
        let WaitState::Begun(waiter) = state else { unreachable!("stored above") };
        // SAFETY: as above.
        let waiter = unsafe { Pin::new_unchecked(&*waiter) };
        domain.queue(matched, waiter, &options, Signal::new(receiver))?;
        Poll::Pending
    }

    fn may_spin(self: Pin<&mut Self>) -> Option<MaySpin<'_>> {
        let Self { target, state: WaitState::Begun(waiter) } = self.into_ref().get_ref() else { return None };
        waiter.domain()?.may_spin_for(target)
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<(), Error> {
        match &self.state {
            WaitState::Begun(waiter) if !waiter.give_up(WaitEnd::GaveUp(cause)) => Ok(()),
            _ => Err(cause.into()),
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
    /// As for `wait_with`; [`Error::Interrupted`], also if `interrupt` was raised before the call; [`Error::Busy`] if another
    /// thread waits with it.
    pub fn wait_interruptible<T: Target>(
        &self,
        target: T,
        expected: T::Value,
        options: &WaitOptions,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let wait = pin!(WaitOperation::new(self, target, expected, options));
        block_on(wait, self.platform(), &interrupt.sleeper)
    }
}
