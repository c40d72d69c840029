//! Operations that may have to wait, whether a thread that sleeps, an executor or an embedder drives them.
//!
//! Each operation is a small state machine in memory that stays in place. It is polled once to begin, and again after each
//! notification. It can be ended early, before what it waits for has come. If it is dropped, it leaves all its queues.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use super::domain::Domain;
pub use super::observer::WaitEnd;
use super::spin::MaySpin;
use crate::error::Error;
use crate::expiry::sleep::Sleep;
pub use crate::signal::sleeper::Cause;
use crate::signal::sleeper::Sleeper;
use crate::signal::{GuardedWaker, Receiver};
use crate::sys::clock::{Clock, Timeout};
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;

/// The thread or task that is notified when the operation has to be polled again.
#[derive(Clone, Copy)]
pub enum PollReceiver<'a> {
    Thread(&'a Sleeper),
    Task(&'a Waker),
}

impl PollReceiver<'_> {
    /// The same receiver in the form that an entry holds. A waker is cloned, so no bucket may be locked.
    pub(super) fn for_entry(self) -> Receiver {
        match self {
            Self::Thread(sleeper) => Receiver::Sleeper(sleeper.into()),
            Self::Task(waker) => Receiver::Waker(GuardedWaker::of(waker.clone())),
        }
    }
}

/// An operation that may have to wait, in queues of domains that live for `'d`: see the top of this file.
pub trait Operation<'d> {
    type Output;

    /// The timeout of an operation that has not begun, and the operation's domain. `None` if it has begun, or has no timeout.
    fn timeout(&self) -> Option<(Timeout, &'d Domain)>;

    /// Begins the operation, or checks whether it can end. Not to be called again after it was ready.
    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<Self::Output, Error>>;

    /// Called by a thread before each sleep. `None`: it sleeps at once.
    fn may_spin(self: Pin<&mut Self>) -> Option<MaySpin<'_>> {
        None
    }

    /// Ends a pending operation. If what it waits for has come by then, that is the result.
    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<Self::Output, Error>;
}

/// Blocks the calling thread until the operation has ended. Its timeout runs from this call on.
pub(crate) fn block_on<'d, O: Operation<'d>>(
    mut operation: Pin<&mut O>,
    on: PlatformRef,
    sleeper: &Sleeper,
) -> Result<O::Output, Error> {
    let deadline = operation.timeout().map(|(timeout, domain)| domain.begin(timeout));
    let _in_use = sleeper.occupy(on).ok_or(Error::Busy)?;
    loop {
        if let Poll::Ready(result) = operation.as_mut().poll_for(PollReceiver::Thread(sleeper)) {
            return result;
        }
        let sleep = || sleeper.sleep(deadline.as_ref()).map_or(Ok(()), Err);
        let woken = MaySpin::sleep(operation.as_mut().may_spin(), |ns| sleeper.spin(ns, deadline.as_ref()), sleep);
        if let Err(cause) = woken {
            return operation.end_by(cause);
        }
    }
}

/// Ends a pending operation if its timeout has passed (`Ok(true)`) or cannot be watched (`Err`), unless it can succeed by now.
pub(crate) fn end_if_over<'d, O: Operation<'d>>(
    operation: Pin<&mut O>,
    is_over: Result<bool, Error>,
) -> Poll<Result<O::Output, Error>> {
    match is_over {
        Ok(false) => Poll::Pending,
        Ok(true) => Poll::Ready(operation.end_by(Cause::TimedOut)),
        Err(error) => Poll::Ready(operation.end_by(Cause::TimedOut).map_err(|_| error)),
    }
}

/// The future of a wait: [`Wait`](crate::Wait), [`WaitAny`](crate::WaitAny) and, with the feature `pi`, those of locks.
/// Dropping it cancels the wait. A wake that has come, and that it has not reported, goes to the next waiter, unless it was a
/// wake of all. A lock that the task has been handed is unlocked.
///
/// # The waker
/// It is cloned, woken and dropped with no lock held, by any thread. It may use the engine without restriction: wake, poll and
/// drop other waits, including those that the same wake has woken. (The waker of
/// [`Domain::prepare_with`](crate::Domain::prepare_with) may not: see there.) Each poll that returns `Pending` leaves its waker
/// with the wait, which wakes it at most once for a wake, and at most once for a timeout. A poll that finds a wake under way
/// wakes its own waker, so that the task polls again. When a wait has ended otherwise, its waker has been dropped and is not
/// woken any more, unless a wake had already taken it: then it may be woken a moment later, as with any executor.
/// If a waker's clone panics, the poll has changed nothing. If any callback panics in the first poll of a wait with a
/// timeout, the wait has ended. A waker that panics while it is woken counts as woken. A waker that panics while it is
/// dropped may keep a poll from reporting that the wait has ended, or that the task has the lock.
#[must_use = "futures do nothing unless polled"]
pub struct WaitFuture<'d, O: Operation<'d>> {
    /// `None` if the wait has ended.
    pub(crate) operation: Option<O>,
    watch: TimeoutWatch<'d>,
}

impl<'d, O: Operation<'d>> WaitFuture<'d, O> {
    pub(super) fn new(operation: O) -> Self {
        Self { operation: Some(operation), watch: TimeoutWatch::new() }
    }

    /// Ends the wait now. If what it waits for has come, that is the result. The future must not be polled afterwards.
    ///
    /// # Errors
    /// The error that `cause` means for this operation.
    ///
    /// # Panics
    /// If it has ended already.
    pub fn end(self: Pin<&mut Self>, cause: Cause) -> Result<O::Output, Error> {
        // SAFETY: the operation stays in place until it is dropped.
        let Self { operation, watch } = unsafe { self.get_unchecked_mut() };
        assert!(operation.is_some(), "a wait was ended after it had ended");
        *watch = TimeoutWatch::new();
        Step { operation, is_last: true }.operation().end_by(cause)
    }
}

impl<'d, O: Operation<'d>> Future for WaitFuture<'d, O> {
    type Output = Result<O::Output, Error>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the operation stays in place until it is dropped.
        let Self { operation, watch } = unsafe { self.get_unchecked_mut() };
        let timeout = operation.as_ref().expect(POLLED_AFTER_END).timeout();
        // Once the operation has begun, nothing else knows its timeout.
        let mut step = Step { operation, is_last: timeout.is_some() };
        let mut result = step.operation().poll_for(PollReceiver::Task(context.waker()));
        if result.is_pending() {
            let is_over = watch.is_over(timeout, context.waker());
            step.is_last = false;
            result = end_if_over(step.operation(), is_over);
        }
        step.is_last = result.is_ready();
        result
    }
}

/// A step of a pinned operation. If it is the last one when it ends, also by a panic, the operation is dropped.
struct Step<'a, O> {
    operation: &'a mut Option<O>,
    is_last: bool,
}

impl<O> Step<'_, O> {
    fn operation(&mut self) -> Pin<&mut O> {
        // SAFETY: it is pinned, as `WaitFuture` knows, and dropped in place.
        unsafe { Pin::new_unchecked(self.operation.as_mut().expect(POLLED_AFTER_END)) }
    }
}

impl<O> Drop for Step<'_, O> {
    fn drop(&mut self) {
        if self.is_last {
            *self.operation = None;
        }
    }
}

pub(super) const POLLED_AFTER_END: &str = "a wait was polled after it had ended";

/// Has the namespace's driver watch the timeout of a pending wait. `None` until it is watched. The sleep has memory of its own.
pub(crate) struct TimeoutWatch<'d>(Option<Counted<Sleep<'d>>>);

impl<'d> TimeoutWatch<'d> {
    pub const fn new() -> Self {
        Self(None)
    }

    /// Whether the time, which runs from the first call with a timeout on, is up. If not, `waker` will be woken when it is.
    /// [`Error::NoMemory`]; [`Error::Invalid`] if there is no clock: without `std` and without an embedder's clocks.
    #[inline]
    pub fn is_over(&mut self, timeout: Option<(Timeout, &'d Domain)>, waker: &Waker) -> Result<bool, Error> {
        match (&self.0, timeout) {
            (Some(sleep), _) => Ok(sleep.is_over(waker)),
            (None, Some((timeout, domain))) => self.begin(timeout, domain, waker),
            (None, None) => Ok(false),
        }
    }

    fn begin(&mut self, timeout: Timeout, domain: &'d Domain, waker: &Waker) -> Result<bool, Error> {
        let driver = &domain.namespace().driver;
        let now = |clock: Clock| driver.inner.now(clock.into());
        let (clock, at) = match timeout {
            Timeout::At(clock, at) => (clock, at),
            Timeout::After(length) => {
                (Clock::Monotonic, Duration::from_nanos(now(Clock::Monotonic)).saturating_add(length))
            }
        };
        driver.start().map_err(|error| if error == Error::NoSuchOperation { Error::Invalid } else { error })?;
        let now = now(clock);
        if Duration::from_nanos(now) >= at {
            return Ok(true);
        }
        // Cloned before memory is allocated, which a panic of the clone would leak.
        let waker = GuardedWaker::of(waker.clone());
        let sleep = Sleep::new(driver, &domain.sleeps, clock.into(), waker)?;
        // SAFETY: it stays in memory of its own, and disarms itself when it is dropped.
        unsafe { Pin::new_unchecked(&*sleep) }.begin(at, now);
        self.0 = Some(sleep);
        Ok(false)
    }
}
