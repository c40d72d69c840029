//! The timeout of a wait that is a future: the namespace's driver watches it.

use core::pin::Pin;
use core::task::Waker;
use core::time::Duration;

use crate::error::Error;
use crate::expiry::sleep::{Sleep, Timeouts};
use crate::sys::clock::{Clock, Deadline, Timeout};
use crate::sys::counted::Counted;
use crate::sys::unwind::GuardedWaker;

/// Watches the timeout of a pending wait. `None` until a pending wait has a timeout to watch. The sleep has memory of
/// its own, which stays in place.
pub(crate) struct TimeoutWatch<'d>(Option<Counted<Sleep<'d>>>);

impl<'d> TimeoutWatch<'d> {
    pub const fn new() -> Self {
        Self(None)
    }

    /// Whether the time is up. If it is not, `waker` will be woken when it is. The time runs from the first call with a
    /// timeout on.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`] if there is no clock: without `std` and without an embedder's clocks.
    #[inline]
    pub fn is_over(&mut self, timeout: Option<(Timeout, Timeouts<'d>)>, waker: &Waker) -> Result<bool, Error> {
        match (&self.0, timeout) {
            (Some(sleep), _) => Ok(sleep.is_over(waker)),
            (None, Some((timeout, by))) => self.begin(timeout, by, waker),
            (None, None) => Ok(false),
        }
    }

    fn begin(&mut self, timeout: Timeout, by: Timeouts<'d>, waker: &Waker) -> Result<bool, Error> {
        let driver = by.driver;
        let now = |clock: Clock| driver.inner.now(clock.into());
        let deadline = match timeout {
            Timeout::At(clock, at) => Deadline { clock, at },
            Timeout::After(length) => {
                let clock = Clock::Monotonic;
                Deadline { clock, at: Duration::from_nanos(now(clock)).saturating_add(length) }
            }
        };
        driver.start().map_err(|error| if error == Error::NoSuchOperation { Error::Invalid } else { error })?;
        let now = now(deadline.clock);
        if Duration::from_nanos(now) >= deadline.at {
            return Ok(true);
        }
        // Cloned before memory is allocated, which a panic of the clone would leak.
        let waker = GuardedWaker::of(waker);
        let sleep = Sleep::new(by, deadline.clock.into(), waker)?;
        // SAFETY: it stays in memory of its own, and disarms itself when it is dropped.
        unsafe { Pin::new_unchecked(&*sleep) }.begin(deadline.at, now);
        self.0 = Some(sleep);
        Ok(false)
    }
}
