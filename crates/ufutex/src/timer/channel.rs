//! A queue of expired timers, from which a thread or a task takes them.

use alloc::collections::VecDeque;
use core::task::{Context, Poll};

use super::{Deliver, Driver, Expired, Notice, TimerOptions, Timers};
use crate::error::Error;
use crate::lock::Lock;
use crate::sync::Ordering;
use crate::sys::callbacks::Callbacks;
use crate::sys::clock::{Deadline, Timeout};
use crate::sys::park::Parker;
use crate::sys::platform::PlatformRef;
use crate::sys::unwind::GuardedWaker;

/// The receiving end of a channel of expired timers: see [`Timers::channel`]. A timer is in it at most once. An interval timer
/// is armed again when it is taken; until then its overrun is counted.
pub struct Expiries {
    timers: Timers,
    line: Callbacks<Line>,
}

struct Line {
    on: PlatformRef,
    notices: Lock<Notices>,
    /// Counts notices. Receivers sleep on it.
    event_count: Parker,
}

/// Some notices are void: their timers have been set again or deleted. There is room for two of each timer, of which at most
/// one is not void. When the line is three quarters full, a sweep removes void ones, [`AT_ONCE`] at each push. A sweep that
/// begins with `n` notices ends within `n / 7` pushes, rounded up, and keeps at most one notice for each timer and each of
/// these pushes. So a line with room for `c` notices never has more than about 6/7 of `c`.
#[derive(Default)]
struct Notices {
    line: VecDeque<Notice>,
    /// How many notices from the front the sweep has checked. 0: no sweep goes on.
    swept: usize,
    /// How many of those it has kept, in front. The others are void.
    kept: usize,
    waker: Option<GuardedWaker>,
}

const AT_ONCE: usize = 8;

impl Notices {
    fn push(&mut self, notice: Notice, is_current: impl Fn(&Notice) -> bool) {
        if self.swept != 0 || self.line.len() >= self.line.capacity() / 4 * 3 {
            self.sweep(is_current);
        }
        self.line.push_back(notice);
    }

    fn sweep(&mut self, is_current: impl Fn(&Notice) -> bool) {
        for _ in 0..AT_ONCE {
            let Some(notice) = self.line.get(self.swept) else {
                self.line.truncate(self.kept);
                (self.swept, self.kept) = (0, 0);
                return;
            };
            if is_current(notice) {
                self.line.swap(self.swept, self.kept);
                self.kept += 1;
            }
            self.swept += 1;
        }
    }

    fn pop(&mut self) -> Option<Notice> {
        let first = self.line.pop_front()?;
        (self.swept, self.kept) = (self.swept.saturating_sub(1), self.kept.saturating_sub(1));
        Some(first)
    }

    fn reserve(&mut self, timers: usize) -> Result<(), Error> {
        let more = timers.saturating_mul(2).saturating_sub(self.line.len());
        self.line.try_reserve(more).map_err(|_| Error::NoMemory)
    }
}

impl Timers {
    /// Makes timers, and the end of a channel from which they are taken once expired.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ufutex::timer::{Driver, Expiry, TimerClock, Timers};
    ///
    /// let (timers, expiries) = Timers::channel(&Driver::host()?, Default::default())?;
    /// let id = timers.create(TimerClock::Monotonic, None)?;
    /// timers.settime(id, Expiry::After(Duration::from_millis(1)), Duration::ZERO)?;
    /// assert_eq!(expiries.recv().id, id);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`with_options`](Self::with_options).
    pub fn channel(driver: &Driver, options: TimerOptions) -> Result<(Self, Expiries), Error> {
        let on = driver.inner.on;
        let notices = Lock::new(on, Notices::default());
        let line = Callbacks::try_new(Line { on, notices, event_count: Parker::new(0) })?;
        let timers = Self::with_options(driver, line.clone(), options)?;
        Ok((timers.clone(), Expiries { timers, line }))
    }
}

impl Deliver for Line {
    fn expired(&self, timers: &Timers, notice: Notice) {
        let waker = self.notices.lock().with(|notices| {
            notices.push(notice, |notice| timers.is_current(notice));
            notices.waker.take()
        });
        self.event_count.count(); // [U]
        self.event_count.wake_all(self.on);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn reserve(&self, timers: usize) -> Result<(), Error> {
        self.notices.lock().with(|notices| notices.reserve(timers))
    }
}

impl Expiries {
    /// The next expired timer, if there is one.
    #[must_use]
    pub fn try_recv(&self) -> Option<Expired> {
        loop {
            let notice = self.line.notices.lock().with(Notices::pop)?;
            if let Some(expired) = self.timers.take(notice) {
                return Some(expired);
            }
        }
    }

    /// The next expired timer. The thread sleeps until there is one.
    #[must_use]
    pub fn recv(&self) -> Expired {
        loop {
            if let Some(expired) = self.recv_until(None) {
                return expired;
            }
        }
    }

    /// As [`recv`](Self::recv). `None` after the timeout, which runs by the clocks of the driver's platform.
    #[must_use]
    pub fn recv_timeout(&self, timeout: impl Into<Timeout>) -> Option<Expired> {
        self.recv_until(Some(self.line.on.begin(timeout.into())))
    }

    fn recv_until(&self, deadline: Option<Deadline>) -> Option<Expired> {
        loop {
            // [U]: a notice that has been counted is in line already, and one that is counted later ends the sleep.
            let seen = self.line.event_count.load(Ordering::Relaxed);
            if let Some(expired) = self.try_recv() {
                return Some(expired);
            }
            if deadline.is_some_and(|deadline| self.line.on.has_passed(&deadline)) {
                return None;
            }
            self.line.event_count.park(self.line.on, seen, deadline.as_ref());
        }
    }

    /// Polls for the next expired timer. Of several tasks that poll, only the last is woken.
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Expired> {
        // A waker's clone and drop are the executor's code: call them with nothing locked.
        let mut waker = Some(GuardedWaker::of(context.waker().clone()));
        self.line.notices.lock().with(|notices| core::mem::swap(&mut notices.waker, &mut waker));
        self.try_recv().map_or(Poll::Pending, Poll::Ready)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::Notify;
    use core::cell::Cell;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn parts(notice: &Notice) -> (u32, u32) {
        (notice.id() as u32, notice.ticket().1)
    }

    fn notice(id: u32, number: u32) -> Notice {
        Notice::from_parts(id as i32, Notify::None, (0, number))
    }

    struct Model {
        notices: Notices,
        current: Vec<Option<u32>>,
        line: Vec<(u32, u32)>,
        pushed: u32,
    }

    impl Model {
        fn new(timers: usize) -> Self {
            let mut notices = Notices::default();
            assert_eq!(notices.reserve(timers), Ok(()));
            Self { notices, current: std::vec![None; timers], line: Vec::new(), pushed: 0 }
        }

        fn void(&mut self, id: usize) {
            self.current[id] = None;
            self.line.retain(|one| one.0 != id as u32);
        }

        fn push(&mut self, id: usize) {
            self.void(id);
            self.pushed += 1;
            let (capacity, checks) = (self.notices.line.capacity(), Cell::new(0));
            self.current[id] = Some(self.pushed);
            self.line.push((id as u32, self.pushed));
            let current = &self.current;
            self.notices.push(notice(id as u32, self.pushed), |notice| {
                checks.set(checks.get() + 1);
                let (id, number) = parts(notice);
                current[id as usize] == Some(number)
            });
            assert!(checks.get() <= AT_ONCE);
            assert_eq!(self.notices.line.capacity(), capacity, "it needed memory");
        }

        fn pop(&mut self) -> Option<(u32, u32)> {
            loop {
                let (id, number) = parts(&self.notices.pop()?);
                if self.current[id as usize] == Some(number) {
                    self.current[id as usize] = None;
                    return Some((id, number));
                }
            }
        }

        fn check_pop(&mut self) {
            let expected = if self.line.is_empty() { None } else { Some(self.line.remove(0)) };
            assert_eq!(self.pop(), expected);
        }
    }

    proptest! {
        #[test]
        fn line_has_the_current_notices_in_order_and_room_for_more(
            timers in 1..40usize,
            steps in prop::collection::vec((0..10u8, any::<prop::sample::Index>()), 0..400),
            pops in 0..6u8,
        ) {
            let mut model = Model::new(timers);
            for (what, which) in steps {
                let id = which.index(timers);
                match what {
                    _ if what < pops => model.check_pop(),
                    9 => model.void(id),
                    _ => model.push(id),
                }
            }
            while !model.line.is_empty() {
                model.check_pop();
            }
            model.check_pop();
        }
    }

    #[test]
    fn sweep_goes_on_while_notices_are_taken() {
        const TIMERS: usize = 100;
        let mut model = Model::new(TIMERS);
        (0..TIMERS).for_each(|id| model.push(id));
        for i in 0..4 * TIMERS {
            model.push(TIMERS - 1);
            if i % 5 == 0 {
                model.check_pop();
            }
        }
        (0..TIMERS).for_each(|_| model.check_pop());
    }

    #[test]
    fn line_that_nobody_reads_needs_no_more_memory() {
        const TIMERS: usize = 1000;
        let mut model = Model::new(TIMERS);
        for i in 0..20 * TIMERS {
            model.push(i * 7 % TIMERS);
        }
        let last: Vec<_> = model.line.clone();
        let popped: Vec<_> = std::iter::from_fn(|| model.pop()).collect();
        assert_eq!(popped, last);
    }
}
