//! A queue of expired timers, from which a thread or a task takes them.

use alloc::collections::VecDeque;
use core::task::{Context, Poll};

use super::{Deliver, Driver, Expired, Notice, TimerOptions, Timers};
use crate::error::Error;
use crate::lock::Lock;
use crate::sync::Ordering;
use crate::sync::{Mutant, mutant};
use crate::sys::callbacks::Callbacks;
use crate::sys::clock::{Deadline, Timeout};
use crate::sys::park::Parker;
use crate::sys::platform::PlatformRef;
use crate::sys::unwind::Callback;

/// The receiving end of a channel of expired timers: see [`Timers::channel`].
///
/// A timer is in the queue at most once. While an interval timer waits there, its overrun is counted; it is armed again
/// when it is taken.
pub struct Expiries {
    timers: Timers,
    line: Callbacks<Line>,
}

struct Line {
    on: PlatformRef,
    waiting: Lock<Waiting>,
    /// Its value changes whenever a notice is put in line.
    bell: Parker,
}

struct Waiting {
    notices: VecDeque<Notice>,
    waker: Option<Callback>,
}

impl Timers {
    /// Makes timers, and the end of a channel from which they are taken when they have expired.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ufutex::timer::{Driver, Expiry, TimerClock, Timers};
    ///
    /// let (timers, expiries) = Timers::channel(&Driver::host()?, Default::default())?;
    /// let id = timers.create(TimerClock::Monotonic, None)?;
    /// timers.settime(id, Expiry::After(Duration::from_millis(1)), Duration::ZERO)?;
    /// assert_eq!(expiries.recv().id, id);
    /// assert_eq!(expiries.try_recv(), None);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`with_options`](Self::with_options).
    pub fn channel(driver: &Driver, options: TimerOptions) -> Result<(Self, Expiries), Error> {
        let waiting = Waiting { notices: VecDeque::new(), waker: None };
        let on = driver.platform();
        let line = Callbacks::try_new(Line { on, waiting: Lock::new(on, waiting), bell: Parker::new(0) })?;
        let timers = Self::with_options(driver, line.clone(), options)?;
        Ok((timers.clone(), Expiries { timers, line }))
    }
}

impl Deliver for Line {
    fn expired(&self, timers: &Timers, notice: Notice) {
        if mutant(Mutant::BellRingsFirst) {
            self.bell.count();
            self.bell.wake_all(self.on);
        }
        let waker = self.waiting.lock().with(|waiting| {
            // There is room for two notices of each timer, of which at most one is current.
            if waiting.notices.len() == waiting.notices.capacity() {
                waiting.notices.retain(|notice| timers.is_current(notice));
            }
            waiting.notices.push_back(notice);
            waiting.waker.take()
        });
        if !mutant(Mutant::BellRingsFirst) {
            self.bell.count(); // [U]
            self.bell.wake_all(self.on);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn reserve(&self, timers: usize) -> Result<(), Error> {
        self.waiting.lock().with(|waiting| {
            // Makes room for twice as many, so that void notices are searched for only when they may be half of all,
            // not each time.
            let more = timers.saturating_mul(2).saturating_sub(waiting.notices.len());
            waiting.notices.try_reserve(more).map_err(|_| Error::NoMemory)
        })
    }
}

impl Expiries {
    /// The next expired timer, if there is one.
    #[must_use]
    pub fn try_recv(&self) -> Option<Expired> {
        loop {
            let notice = self.line.waiting.lock().with(|waiting| waiting.notices.pop_front())?;
            if let Some(expired) = self.timers.take(notice) {
                return Some(expired);
            }
        }
    }

    /// The next expired timer. The calling thread sleeps until there is one.
    #[must_use]
    pub fn recv(&self) -> Expired {
        loop {
            if let Some(expired) = self.recv_until(None) {
                return expired;
            }
        }
    }

    /// As [`recv`](Self::recv), but returns `None` after the timeout, which is by the host's clocks.
    #[must_use]
    pub fn recv_timeout(&self, timeout: impl Into<Timeout>) -> Option<Expired> {
        self.recv_until(Some(self.line.on.begin(timeout.into())))
    }

    fn recv_until(&self, deadline: Option<Deadline>) -> Option<Expired> {
        loop {
            // [U]: a notice that has been counted by now is in line already, and one that is counted later ends the
            // sleep.
            let heard = self.line.bell.load(Ordering::Relaxed);
            if let Some(expired) = self.try_recv() {
                return Some(expired);
            }
            if deadline.is_some_and(|deadline| self.line.on.has_passed(&deadline)) {
                return None;
            }
            self.line.bell.park(self.line.on, heard, deadline.as_ref());
        }
    }

    /// Polls for the next expired timer. Futures and streams can be built on it. If several tasks poll, only the last
    /// is woken.
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Expired> {
        let too_early = mutant(Mutant::RecvLooksFirst).then(|| self.try_recv());
        // The waker is cloned before the lock is taken, and the old one is dropped after it: a waker's clone and drop
        // are the executor's code.
        let mut waker = Some(Callback::of(context.waker()));
        self.line.waiting.lock().with(|waiting| core::mem::swap(&mut waiting.waker, &mut waker));
        match too_early.unwrap_or_else(|| self.try_recv()) {
            Some(expired) => Poll::Ready(expired),
            None => Poll::Pending,
        }
    }

    /// The next expired timer, as a future.
    pub async fn next(&self) -> Expired {
        core::future::poll_fn(|context| self.poll_recv(context)).await
    }
}

/// A stream that never ends. Needs the feature `stream`.
#[cfg(feature = "stream")]
impl futures_core::Stream for Expiries {
    type Item = Expired;

    fn poll_next(self: core::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Expired>> {
        self.poll_recv(context).map(Some)
    }
}
