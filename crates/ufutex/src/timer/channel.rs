//! Expired timers in line, for a thread or a task that takes them when it likes.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::{Context, Poll};

use super::{Deliver, Driver, Expired, Notice, TimerOptions, Timers};
use crate::error::Error;
#[cfg(feature = "std")]
use crate::sync::Ordering;
use crate::sync::{Mutant, mutant};
#[cfg(feature = "std")]
use crate::sys::clock::{Deadline, Timeout};
use crate::sys::park::Parker;
use crate::sys::unwind::Callback;
use crate::table::lock::Lock;

/// The end of a channel at which expired timers come out: see [`Timers::channel`].
///
/// A timer is in line once at most. An interval timer that waits there counts its overrun, and goes on when it is taken.
pub struct Expiries {
    timers: Timers,
    line: Arc<Line>,
}

struct Line {
    waiting: Lock<Waiting>,
    /// Another number whenever something has come.
    bell: Parker,
}

struct Waiting {
    notices: VecDeque<Notice>,
    waker: Option<Callback>,
}

impl Timers {
    /// Timers, and the end at which they come out when they have expired.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ufutex::timer::{Driver, Setting, TimerClock, Timers};
    ///
    /// let (timers, expiries) = Timers::channel(&Driver::host()?, Default::default())?;
    /// let id = timers.create(TimerClock::Monotonic, None)?;
    /// timers.settime(id, false, Setting { value: Duration::from_millis(1), ..Setting::default() })?;
    /// assert_eq!(expiries.recv().id, id);
    /// assert_eq!(expiries.try_recv(), None);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`with_options`](Self::with_options).
    pub fn channel(driver: &Driver, options: TimerOptions) -> Result<(Self, Expiries), Error> {
        let waiting = Waiting { notices: VecDeque::new(), waker: None };
        let line = Arc::new(Line { waiting: Lock::new(waiting), bell: Parker::new(0) });
        let timers = Self::with_options(driver, line.clone(), options)?;
        Ok((timers.clone(), Expiries { timers, line }))
    }
}

impl Deliver for Line {
    fn expired(&self, timers: &Timers, notice: Notice) {
        if mutant(Mutant::BellRingsFirst) {
            self.bell.count();
            self.bell.wake_all();
        }
        let waker = self.waiting.lock().with(|waiting| {
            // There is room for two of each timer, of which one counts.
            if waiting.notices.len() == waiting.notices.capacity() {
                waiting.notices.retain(|notice| timers.is_current(notice));
            }
            waiting.notices.push_back(notice);
            waiting.waker.take()
        });
        if !mutant(Mutant::BellRingsFirst) {
            self.bell.count(); // [U]
            self.bell.wake_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn reserve(&self, timers: usize) -> Result<(), Error> {
        self.waiting.lock().with(|waiting| {
            // Twice as many: what counts no more is looked for when it may be half of them, and not each time.
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

    /// The next expired timer; the calling thread sleeps until there is one.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn recv(&self) -> Expired {
        loop {
            if let Some(expired) = self.recv_until(None) {
                return expired;
            }
        }
    }

    /// As [`recv`](Self::recv), by then; `None` if there was none. The timeout is by the host's clocks.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn recv_timeout(&self, timeout: Timeout) -> Option<Expired> {
        self.recv_until(Some(timeout.begin()))
    }

    #[cfg(feature = "std")]
    fn recv_until(&self, deadline: Option<Deadline>) -> Option<Expired> {
        loop {
            // [U]: what was counted by now is in line, and what is counted later ends the sleep.
            let heard = self.line.bell.load(Ordering::Relaxed);
            if let Some(expired) = self.try_recv() {
                return Some(expired);
            }
            if deadline.is_some_and(|deadline| deadline.has_passed()) {
                return None;
            }
            self.line.bell.park(heard, deadline.as_ref());
        }
    }

    /// The next expired timer, for a task: [`Future`](core::future::Future)s and streams are made of it. Of several tasks
    /// the last one is woken.
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Expired> {
        let too_early = mutant(Mutant::RecvLooksFirst).then(|| self.try_recv());
        // First: what a waker's clone and drop do is not ours to say, so not with the lock.
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

/// Never ends. With the feature `stream`.
#[cfg(feature = "stream")]
impl futures_core::Stream for Expiries {
    type Item = Expired;

    fn poll_next(self: core::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Expired>> {
        self.poll_recv(context).map(Some)
    }
}
