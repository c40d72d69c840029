//! Who is told that a timer has expired.

use super::{Expired, Notice, Timers};
use crate::error::Error;

/// What an embedder does with expired timers. One of a process.
///
/// A guest kernel queues a signal with the notice; when the signal is delivered it calls [`Timers::take`], which says the
/// overrun, and whether the signal still is one. A runtime takes the notice at once.
pub trait Deliver: Send + Sync {
    /// A timer has expired. Called by whoever turns the driver, with nothing locked: any timer may be made, set or deleted
    /// from here.
    fn expired(&self, timers: &Timers, notice: Notice);

    /// There are to be so many timers, and so as many notices at most that count. Room for them is made here, where the
    /// want of it can be told, rather than when a timer expires. As given here there is no need.
    ///
    /// # Errors
    /// [`Error::NoMemory`], which the caller sees as [`Error::Again`].
    fn reserve(&self, timers: usize) -> Result<(), Error> {
        let _ = timers;
        Ok(())
    }

    /// Whether the process has a thread with this number, for `SIGEV_THREAD_ID`. As given here it has any.
    fn has_thread(&self, thread: i32) -> bool {
        let _ = thread;
        true
    }
}

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
