//! Operations that may have to wait, whether a thread that sleeps, an executor or an embedder drives them.
//!
//! Each operation is a small state machine in memory that stays in place. It is polled once to begin, and again after
//! each notification. It can be ended early, before what it waits for has come. If it is dropped, it leaves all its
//! queues.

use core::pin::Pin;
use core::task::{Poll, Waker};

use crate::error::Error;
use crate::signal::sleeper::Sleeper;
use crate::signal::sleeper::Slept;
use crate::signal::{GuardedWaker, Receiver};
use crate::sys::clock::Deadline;
use crate::sys::platform::PlatformRef;

/// Why a wait is ended without a wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The wait is cancelled: by a signal, a kill, or a decision of the program.
    Interrupted,
    /// The time is up.
    TimedOut,
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Interrupted => Self::Interrupted,
            Cause::TimedOut => Self::TimedOut,
        }
    }
}

/// The thread or task that is notified when the operation has to be polled again.
#[derive(Clone, Copy)]
pub(crate) enum PollReceiver<'a> {
    /// The calling thread, which sleeps on this sleeper.
    Thread(&'a Sleeper),
    /// A task, through its waker.
    Task(&'a Waker),
}

impl PollReceiver<'_> {
    /// The same receiver in the form that an entry holds. A waker is cloned, so no bucket may be locked.
    pub fn for_entry(self) -> Receiver {
        match self {
            Self::Thread(sleeper) => Receiver::Sleeper(sleeper.into()),
            Self::Task(waker) => Receiver::Waker(GuardedWaker::of(waker)),
        }
    }
}

/// An operation that may have to wait: see the top of this file.
pub(crate) trait Operation {
    type Output;

    /// Begins the operation, or checks whether it can end. Not to be called again after it was ready.
    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<Self::Output, Error>>;

    /// Called by a thread that is about to sleep on `sleeper`: the operation may spin before.
    fn spin(self: Pin<&mut Self>, sleeper: &Sleeper, deadline: Option<&Deadline>) {
        let (_at_once, _) = (sleeper, deadline);
    }

    /// Ends a pending operation. If what it waits for has come by then, that is the result.
    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<Self::Output, Error>;
}

/// Runs `operation` on the calling thread, which sleeps on `sleeper` by `on`.
pub(crate) fn block_on<O: Operation>(
    mut operation: Pin<&mut O>,
    on: PlatformRef,
    sleeper: &Sleeper,
    deadline: Option<&Deadline>,
) -> Result<O::Output, Error> {
    let Some(_in_use) = sleeper.occupy(on) else {
        return Err(Error::Busy);
    };
    loop {
        if let Poll::Ready(result) = operation.as_mut().poll_for(PollReceiver::Thread(sleeper)) {
            return result;
        }
        operation.as_mut().spin(sleeper, deadline);
        match sleeper.sleep(deadline) {
            Slept::Notified => {}
            Slept::Interrupted => return operation.end_by(Cause::Interrupted),
            Slept::TimedOut => return operation.end_by(Cause::TimedOut),
        }
    }
}

/// Ends a pending operation if its timeout has passed (`Ok(true)`) or cannot be watched (`Err`). In the latter case it
/// fails with that error. In both cases, if what it waits for has come by now, that is the result.
pub(crate) fn end_if_over<O: Operation>(
    operation: Pin<&mut O>,
    is_over: Result<bool, Error>,
) -> Poll<Result<O::Output, Error>> {
    match is_over {
        Ok(false) => Poll::Pending,
        Ok(true) => Poll::Ready(operation.end_by(Cause::TimedOut)),
        Err(error) => Poll::Ready(operation.end_by(Cause::TimedOut).map_err(|_| error)),
    }
}

/// Implements `Future` and `end` for an [`Operation`] with a `domain`, a `watch` and a `watched_timeout`.
macro_rules! operation_is_a_future {
    ([$($generics:tt)*] $name:ty => $output:ty) => {
        impl<$($generics)*> core::future::Future for $name {
            type Output = Result<$output, $crate::error::Error>;

            /// # Panics
            /// If polled again after it was ready.
            fn poll(
                mut self: core::pin::Pin<&mut Self>,
                context: &mut core::task::Context<'_>,
            ) -> core::task::Poll<Self::Output> {
                assert!(!self.is_done, "a wait was polled after it had ended");
                let receiver = $crate::futex::operation::PollReceiver::Task(context.waker());
                let mut result = $crate::futex::operation::Operation::poll_for(self.as_mut(), receiver);
                if result.is_pending() {
                    // SAFETY: only `watch` is changed, which need not stay in place.
                    let this = unsafe { self.as_mut().get_unchecked_mut() };
                    let is_over = this.watch.is_over(this.watched_timeout(), this.domain.timeouts(), context.waker());
                    result = $crate::futex::operation::end_if_over(self.as_mut(), is_over);
                }
                if result.is_ready() {
                    // SAFETY: to set a flag moves nothing.
                    unsafe { self.get_unchecked_mut() }.is_done = true;
                }
                result
            }
        }

        impl<$($generics)*> $name {
            /// Ends the wait now. If what it waits for has come, that is the result. The future must not be polled
            /// afterwards.
            ///
            /// # Errors
            /// The error that `cause` means for this operation.
            ///
            /// # Panics
            /// If it has ended already.
            pub fn end(
                mut self: core::pin::Pin<&mut Self>,
                cause: $crate::futex::operation::Cause,
            ) -> Result<$output, $crate::error::Error> {
                assert!(!self.is_done, "a wait was ended after it had ended");
                // SAFETY: as in `poll`.
                unsafe { self.as_mut().get_unchecked_mut() }.is_done = true;
                $crate::futex::operation::Operation::end_by(self, cause)
            }
        }
    };
}

pub(crate) use operation_is_a_future;
