//! Delivery: how an embedder learns that a timer has expired.

use super::{Expired, Notice, Timers};
use crate::error::Error;
use crate::sys::callbacks::callbacks;

/// What an embedder does with the expired timers of a process. A guest kernel queues a signal, and when that is delivered calls
/// [`Timers::take`], which returns the overrun, or `None` if the signal is void. A runtime takes the notice at once.
pub trait Deliver: Send + Sync {
    /// A timer has expired. Called by the thread that turns the driver, with nothing locked. It may make, set or delete any
    /// timer, including this one, and turn the driver. It should be short and not block: that thread serves all processes of a
    /// driver, and makes up to 64 of these calls before it serves another process's timers.
    ///
    /// It may panic. The timer is not delivered a second time, and an interval timer whose notice was not taken rests until it
    /// is set again. What else is due on its clock is left to the next turn; other clocks are served in this one.
    /// [`Driver::turn`](super::Driver::turn) passes the panic on. The driver's own thread goes on.
    fn expired(&self, timers: &Timers, notice: Notice);

    /// Makes room for the notices of `timers` timers in all, each of which has at most one that is not void. Provided: does
    /// nothing. Called with nothing locked before timers are made: a lack of memory can be reported now, and not when a timer
    /// expires. If it panics, no timer is made.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; the thread that makes the timer gets [`Error::Again`].
    fn reserve(&self, timers: usize) -> Result<(), Error> {
        let _ = timers;
        Ok(())
    }

    /// Whether the process has this thread, for `SIGEV_THREAD_ID`. Provided: `true`. Called with nothing locked. If it panics,
    /// no timer has been made, but an ID has been used up.
    fn has_thread(&self, thread: i32) -> bool {
        let _ = thread;
        true
    }
}

callbacks!(Deliver);

/// Calls a function for each expiry, on the thread that turns the driver.
///
/// ```
/// use std::sync::Arc;
/// use ufutex::timer::{Callback, Driver, Timers};
///
/// let timers = Timers::new(&Driver::host()?, Arc::new(Callback(|timers: &Timers, expired: ufutex::timer::Expired| {
///     println!("{} expired, {} more intervals have passed", expired.id, expired.overrun);
/// })))?;
/// # Ok::<(), ufutex::Error>(())
/// ```
pub struct Callback<F>(pub F);

impl<F: Fn(&Timers, Expired) + Send + Sync> Deliver for Callback<F> {
    fn expired(&self, timers: &Timers, notice: Notice) {
        if let Some(expired) = timers.take(notice) {
            self.0(timers, expired);
        }
    }
}
