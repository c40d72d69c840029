//! Waits for several words at once.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::pin::{Pin, pin};
use core::task::Poll;

use super::domain::Domain;
use super::key::Target;
use super::operation::{Cause, Operation, PollReceiver, WaitEnd, WaitFuture, block_on};
use super::spin::MaySpin;
use super::wait::WaitOptions;
use super::waiter::Waiter;
use crate::error::Error;
use crate::signal::Signal;
use crate::signal::sleeper::Sleeper;
use crate::sys::clock::Timeout;

/// The future of [`Domain::wait_any_async`].
pub type WaitAny<'d, T, A> = WaitFuture<'d, WaitAnyOperation<'d, T, A>>;

/// A wait for several words.
pub struct WaitAnyOperation<'d, T: Target, A: AsRef<[(T, T::Value)]>> {
    domain: &'d Domain,
    words: A,
    _target: PhantomData<fn() -> T>,
    options: WaitOptions,
    /// Empty until the first poll, and never changed after it: waiters must not be moved while they are queued.
    waiters: Vec<Waiter<'d>>,
}

impl Domain {
    /// Blocks the calling thread while each word holds its expected value, until one of them is woken: `futex_waitv`. Returns
    /// the index of that word. If several have been woken by the time the thread runs, it is that of the last of them, as in
    /// the kernel. Each of these wakes has counted the wait.
    ///
    /// ```
    /// use std::{sync::atomic::AtomicU32, time::Duration};
    /// use ufutex::{Domain, Error, System, WaitOptions};
    /// let domain = Domain::new(&System::new());
    /// let (a, b) = (AtomicU32::new(0), AtomicU32::new(0));
    /// let soon = WaitOptions::new().timeout(Duration::from_millis(1));
    /// assert_eq!(domain.wait_any(&[(&a, 0), (&b, 0)], &soon), Err(Error::TimedOut));
    /// ```
    ///
    /// # Errors
    /// As for [`wait_with`](Self::wait_with), for the first word that has an error, if no word before it has been woken by
    /// then. [`Error::Invalid`] for no words, or more than [`max_waitv`](crate::SystemConfig::max_waitv). [`Error::NoMemory`].
    pub fn wait_any<T: Target>(&self, words: &[(T, T::Value)], options: &WaitOptions) -> Result<usize, Error> {
        // Before `wait`, so that it is dropped after the wait.
        let sleeper = Sleeper::new();
        let wait = pin!(WaitAnyOperation::new(self, words, options));
        block_on(wait, self.platform(), &sleeper)
    }

    /// Whether one wait may wait for this many words. A refusal is counted.
    pub(crate) fn allows_words(&self, words: usize) -> bool {
        let is_too_many = words > self.system.config().max_waitv;
        if is_too_many && let Some(rest) = self.counting.rest_or_make(self.platform()) {
            rest.refused_waitv.add(1);
        }
        words != 0 && !is_too_many
    }

    /// As [`wait_any`](Self::wait_any), as a task. The words are compared at the first poll, from which a timeout runs.
    ///
    /// # Errors
    /// As for `wait_any`; with a timeout also as for [`wait_async`](Self::wait_async).
    pub fn wait_any_async<T: Target, A: AsRef<[(T, T::Value)]>>(
        &self,
        words: A,
        options: &WaitOptions,
    ) -> WaitAny<'_, T, A> {
        WaitFuture::new(WaitAnyOperation::new(self, words, options))
    }
}

impl<'d, T: Target, A: AsRef<[(T, T::Value)]>> Operation<'d> for WaitAnyOperation<'d, T, A> {
    type Output = usize;

    fn timeout(&self) -> Option<(Timeout, &'d Domain)> {
        let timeout = self.options.timeout.filter(|_| self.waiters.is_empty());
        timeout.map(|timeout| (timeout, self.domain))
    }

    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<usize, Error>> {
        // SAFETY: the waiters stay in place, because the vector does not change once it has them.
        let this = unsafe { self.get_unchecked_mut() };
        if this.waiters.is_empty() {
            return match this.begin(receiver) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(this.leave(WaitEnd::Cancelled).ok_or(error)),
            };
        }
        // Gives each waiter the task's new waker, up to the first waiter that has been woken.
        if this.waiters.iter().all(|waiter| !waiter.poll_taken(receiver)) {
            return Poll::Pending;
        }
        // One waiter was taken, so a wake has counted this wait.
        Poll::Ready(this.leave(WaitEnd::Cancelled).ok_or(Error::Again))
    }

    fn may_spin(self: Pin<&mut Self>) -> Option<MaySpin<'_>> {
        let Self { domain, words, .. } = self.into_ref().get_ref();
        // All words share the record of the first.
        let (first, _) = words.as_ref().first()?;
        domain.may_spin_for(first)
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<usize, Error> {
        // SAFETY: as in `poll_for`.
        unsafe { self.get_unchecked_mut() }.leave(WaitEnd::GaveUp(cause)).ok_or(cause.into())
    }
}

impl<'d, T: Target, A: AsRef<[(T, T::Value)]>> WaitAnyOperation<'d, T, A> {
    pub(crate) fn new(domain: &'d Domain, words: A, options: &WaitOptions) -> Self {
        Self { domain, words, _target: PhantomData, options: *options, waiters: Vec::new() }
    }

    /// Queues a waiter for each word, and stops at the first word that cannot be waited for.
    fn begin(&mut self, receiver: PollReceiver<'_>) -> Result<(), Error> {
        let words = self.words.as_ref();
        if !self.domain.allows_words(words.len()) {
            return Err(Error::Invalid);
        }
        let mut waiters = Vec::new();
        waiters.try_reserve_exact(words.len()).map_err(|_| Error::NoMemory)?;
        waiters.resize_with(words.len(), Waiter::new);
        // If a callback panics, this drops the vector, and all waiters leave their queues. A later poll begins again.
        let result = core::iter::zip(words, &waiters).try_for_each(|((word, expected), waiter)| {
            let receiver = receiver.for_entry();
            let matched = self.domain.lock_if_equal(word, *expected)?;
            // SAFETY: the vector has room for all, so the waiters stay in place until it is dropped.
            let waiter = unsafe { Pin::new_unchecked(waiter) };
            self.domain.queue(matched, waiter, &self.options, Signal::new(receiver)).map(|_| ())
        });
        self.waiters = waiters;
        result
    }

    /// The index of the last waiter that was woken.
    fn leave(&mut self, end: WaitEnd) -> Option<usize> {
        self.waiters.iter().enumerate().fold(None, |woken, (i, each)| if each.give_up(end) { woken } else { Some(i) })
    }
}
