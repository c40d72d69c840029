//! An operation that may have to wait, however it is driven: by a thread that sleeps, as a future, by an embedder.
//!
//! Each is a small state machine in memory that stays in place. It is polled to begin with and whenever it has been told
//! to look again; it can be ended before what it waits for has come; dropped, it leaves no trace in any queue.

use core::pin::Pin;
use core::task::{Poll, Waker};

use crate::error::Error;
#[cfg(feature = "std")]
use crate::sys::clock::Deadline;
use crate::wait::sleeper::Sleeper;
#[cfg(feature = "std")]
use crate::wait::sleeper::Slept;
use crate::wait::{Callback, Told};

/// Why a wait is ended by somebody else than a wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A signal, a kill, a change of mind.
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

/// Who is to be told.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// The calling thread, which sleeps there.
    #[cfg_attr(not(feature = "std"), expect(dead_code, reason = "nobody can sleep there"))]
    Thread(&'a Sleeper),
    /// A task.
    Task(&'a Waker),
}

impl By<'_> {
    /// As an entry holds it. A waker is cloned: not to be done with a bucket locked.
    pub fn told(self) -> Told {
        match self {
            Self::Thread(sleeper) => Told::Sleeper(sleeper.into()),
            Self::Task(waker) => Told::Waker(Callback::of(waker)),
        }
    }
}

/// See the top of this file.
pub(crate) trait Operation {
    type Output;

    /// Begins, or looks again. Not called again once it was ready.
    fn poll_by(self: Pin<&mut Self>, by: By<'_>) -> Poll<Result<Self::Output, Error>>;

    /// Ends it, unless what it waits for has come by then. It was pending.
    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<Self::Output, Error>;
}

/// Runs `operation` on the calling thread, which sleeps at `sleeper`.
#[cfg(feature = "std")]
pub(crate) fn block_on<O: Operation>(
    mut operation: Pin<&mut O>,
    sleeper: &Sleeper,
    deadline: Option<&Deadline>,
) -> Result<O::Output, Error> {
    let Some(_in_use) = sleeper.occupy() else {
        return Err(Error::Busy);
    };
    loop {
        if let Poll::Ready(result) = operation.as_mut().poll_by(By::Thread(sleeper)) {
            return result;
        }
        match sleeper.sleep(deadline) {
            Slept::Told => {}
            Slept::Interrupted => return operation.end_by(Cause::Interrupted),
            Slept::TimedOut => return operation.end_by(Cause::TimedOut),
        }
    }
}

/// What becomes of a pending operation, as far as its timeout goes: an error means that nobody can watch that, which a
/// wake that has come by now makes no difference to.
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

/// Makes an [`Operation`] with a `domain`, a `limit` and a `watched_timeout` a future that can be ended.
macro_rules! operation_is_a_future {
    ([$($generics:tt)*] $name:ty => $output:ty) => {
        impl<$($generics)*> core::future::Future for $name {
            type Output = Result<$output, $crate::error::Error>;

            /// # Panics
            /// When polled again after it was ready.
            fn poll(
                mut self: core::pin::Pin<&mut Self>,
                context: &mut core::task::Context<'_>,
            ) -> core::task::Poll<Self::Output> {
                assert!(!self.is_done, "a wait was polled after it had ended");
                let by = $crate::futex::operation::By::Task(context.waker());
                let mut result = $crate::futex::operation::Operation::poll_by(self.as_mut(), by);
                if result.is_pending() {
                    // SAFETY: the limit may be moved, and is not.
                    let this = unsafe { self.as_mut().get_unchecked_mut() };
                    let is_over = this.limit.is_over(this.watched_timeout(), this.domain.timeouts(), context.waker());
                    result = $crate::futex::operation::end_if_over(self.as_mut(), is_over);
                }
                if result.is_ready() {
                    // SAFETY: a flag is not moved out of by being set.
                    unsafe { self.get_unchecked_mut() }.is_done = true;
                }
                result
            }
        }

        impl<$($generics)*> $name {
            /// Ends the wait now, unless what it waits for has come: then that is the result. The future is not to be
            /// polled afterwards.
            ///
            /// # Errors
            /// What `cause` means for this operation.
            ///
            /// # Panics
            /// When it had ended already.
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
