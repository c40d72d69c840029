//! Sets a timer, and reads how much time it has left.

use super::entry::{State, Timer};
use super::lookup::valid_id;
use super::{Expiry, Setting, TimerClock, Timers};
use crate::error::Error;
use crate::expiry::clocks::{LAST, nanoseconds};
use crate::expiry::{Base, CpuClock, MustNotify};
use crate::sync::Ordering;
use core::time::Duration;

/// How often a timer of CPU time is checked at most, in nanoseconds: a kernel's tick.
pub(super) const TICK: u64 = 1_000_000;
/// As `TICK`, while its process or thread does not run.
const IDLE: u64 = 8 * TICK;
/// The longest time between two checks of a timer of a process's CPU time: CPUs may have been added.
const MOST: u64 = 100 * TICK;
/// The shortest time, on average, between two checks of any CPU-time timers of a process: many must not keep the driver busy.
const SHARE: u64 = 8_000;

/// Clock readings, taken before a timer is changed, because an embedder's clock may panic.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// Of the timer's own clock, which may count CPU time.
    pub clock: u64,
    /// Of the queue's clock.
    pub time: u64,
}

impl Timers {
    /// Sets a timer, and returns its old setting: timer_settime(2). It expires at `first` and, if `interval` is not 0, again
    /// after each interval. A notice that has not been taken, and an overrun, become void.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ufutex::timer::{Driver, Expiry, TimerClock, Timers};
    ///
    /// let (timers, _expiries) = Timers::channel(&Driver::host()?, Default::default())?;
    /// let id = timers.create(TimerClock::Monotonic, None)?;
    /// let ms = Duration::from_millis(1);
    /// timers.settime(id, Expiry::After(10 * ms), ms)?; // in 10 ms, and then every millisecond
    /// assert_eq!(timers.settime(id, Expiry::Never, Duration::ZERO)?.interval, ms);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`]: no such timer. [`Error::NoTask`]: the process or thread whose CPU time it counts has ended.
    pub fn settime(&self, id: i32, first: Expiry, interval: Duration) -> Result<Setting, Error> {
        // Before the kernel reports the old setting, it stops a timer of CPU time, and moves an overdue deadline on.
        self.change(id, first, interval, |state| self.shown_setting(state, state.cpu_clock().is_some()))
    }

    /// As [`settime`](Self::settime), but without the old setting, which the kernel does not compute either if nobody asks.
    /// Computing it moves the deadline of a silent interval timer on, as a later `gettime` would show.
    pub(crate) fn settime_unasked(&self, id: i32, first: Expiry, interval: Duration) -> Result<(), Error> {
        self.change(id, first, interval, |_| ())
    }

    fn change<R>(
        &self,
        id: i32,
        first: Expiry,
        interval: Duration,
        ask: impl FnOnce(&mut State) -> R,
    ) -> Result<R, Error> {
        let id = valid_id(id)?;
        let mut locked = self.lock(id)?;
        let timer = locked.timer();
        let (result, must_notify) = locked.with(|state| {
            if let Some(of) = state.cpu_clock()
                && self.cpu_time_of(state, of).is_none()
            {
                // The notice becomes void all the same.
                return (Err(Error::NoTask), self.disarm(timer, state));
            }
            let old = ask(state);
            let (result, must_notify) = self.set(timer, state, id, first, interval);
            (result.map(|()| old), must_notify)
        });
        drop(locked);
        must_notify.now(&self.inner.driver);
        result
    }

    fn set(
        &self,
        timer: &Timer,
        state: &mut State,
        id: u32,
        first: Expiry,
        interval: Duration,
    ) -> (Result<(), Error>, MustNotify) {
        let (value, absolute) = match first {
            Expiry::Never => (Duration::ZERO, false),
            Expiry::After(time) => (time, false),
            Expiry::At(time) => (time, true),
        };
        // A relative time on `CLOCK_REALTIME` does not change when that clock is set.
        let next = match state.clock {
            TimerClock::Realtime if absolute => Base::Realtime,
            TimerClock::Boottime => Base::Boottime,
            TimerClock::Tai => Base::Tai,
            TimerClock::Monotonic | TimerClock::Realtime | TimerClock::Cpu(_) => Base::Monotonic,
        };
        let shown = if value.is_zero() { None } else { self.shown(state, next) };
        let stood = state.stand_down();
        (state.interval, state.overrun) = (0, -1);
        timer.publish(id, 0);
        // A timer that stays in its queue is moved there.
        let must_notify = match stood {
            Some(base) if shown.is_none() || base != next => self.leave(timer, base),
            _ => MustNotify::default(),
        };
        if value.is_zero() {
            // A silent timer goes on to show the time until its last deadline, but not one of CPU time.
            if !state.is_silent() || state.cpu_clock().is_some() {
                state.deadline = 0;
            }
            return (Ok(()), must_notify);
        }
        state.base = next;
        let Some(shown) = shown else { return (Err(Error::NoTask), must_notify) };
        state.interval = nanoseconds(interval);
        let value = nanoseconds(value);
        // Clocks end at `LAST`. CPU time is a sum, which may go beyond.
        let last = if state.cpu_clock().is_some() { u64::MAX } else { LAST };
        state.deadline = if absolute { value } else { shown.clock.saturating_add(value).min(last) };
        if state.is_silent() {
            return (Ok(()), must_notify);
        }
        (Ok(()), must_notify.and(self.arm(timer, state, shown)))
    }

    /// The timer's setting: timer_gettime(2). The time left is not 0 while the timer is going to expire. An interval timer
    /// whose notice has not been taken shows the time until the next deadline.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no such timer.
    pub fn gettime(&self, id: i32) -> Result<Setting, Error> {
        let mut locked = self.lock(valid_id(id)?)?;
        Ok(locked.with(|state| self.shown_setting(state, false)))
    }

    /// The setting of a timer. If an armed interval timer is overdue, the time left is 1 ns, or with `is_stopped` the time
    /// until its next expiry.
    fn shown_setting(&self, state: &mut State, is_stopped: bool) -> Setting {
        let is_silent = state.is_silent();
        let interval = Duration::from_nanos(state.interval);
        if state.interval == 0 && !state.is_armed && !is_silent {
            return Setting::default();
        }
        let Some(now) = self.shown(state, state.base).map(|shown| shown.clock) else { return Setting::default() };
        if state.interval != 0 && !state.is_armed {
            // Its notice has not been taken, or it notifies nobody: it has gone on unnoticed.
            state.forward(now);
        }
        // Not stored: if an embedder's clock still panics, nothing must have changed.
        let deadline = if state.interval != 0 && is_stopped { state.after(now).0 } else { state.deadline };
        let left = deadline.saturating_sub(now);
        // 0 would mean that the timer is not set.
        let left = if left == 0 && !is_silent { 1 } else { left };
        Setting { value: Duration::from_nanos(left), interval }
    }

    /// `None` from when the process or thread has been seen to have ended.
    pub(super) fn cpu_time_of(&self, state: &mut State, of: CpuClock) -> Option<u64> {
        if state.is_orphan {
            return None;
        }
        let time = self.inner.driver.inner.cpu_time(of);
        state.is_orphan = time.is_none();
        time
    }

    /// What `arm` needs for a timer that runs by `base`; `None` if its thread or process is gone.
    pub(super) fn shown(&self, state: &mut State, base: Base) -> Option<Shown> {
        let time = self.inner.driver.inner.now(base);
        let clock = match state.cpu_clock() {
            None => time,
            Some(of) => self.cpu_time_of(state, of)?,
        };
        Some(Shown { clock, time })
    }

    /// Calls no callback.
    pub(super) fn arm(&self, timer: &Timer, state: &mut State, shown: Shown) -> MustNotify {
        state.is_armed = true;
        state.renumber();
        let at = match state.cpu_clock() {
            None => state.deadline,
            Some(of) => self.look_again_at(state, of, shown),
        };
        self.arm_at(timer, state.base, state.number, at, shown.time)
    }

    pub(super) fn arm_at(&self, timer: &Timer, base: Base, number: u32, at: u64, now: u64) -> MustNotify {
        let queue = &self.inner.queues[base as usize];
        // SAFETY: timers are valid as long as their queues; the node is in this queue or in none.
        unsafe { queue.arm(&self.inner.driver.inner, timer.node(), at, now, number) }
    }

    /// The earliest time, by the queue's clock, at which a timer of CPU time can have expired.
    fn look_again_at(&self, state: &mut State, of: CpuClock, shown: Shown) -> u64 {
        let seen = shown.clock;
        let (at_once, most) = match of {
            CpuClock::Process(_) => (self.inner.driver.inner.cpus(), MOST),
            CpuClock::Thread(_) => (1, u64::MAX),
        };
        let all = SHARE.saturating_mul(self.inner.cpu_timers.load(Ordering::Relaxed) as u64);
        let least = if seen == state.cpu_seen { IDLE } else { TICK }.max(all);
        state.cpu_seen = seen;
        let left = state.deadline.saturating_sub(seen);
        let wait = if left == 0 { 0 } else { (left / at_once).min(most).max(least) };
        shown.time.saturating_add(wait)
    }
}

impl State {
    /// Moves the deadline to the next expiry that is not past, and counts those passed over as overrun.
    pub(super) fn forward(&mut self, now: u64) {
        let passed;
        (self.deadline, passed) = self.after(now);
        self.overrun = self.overrun.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
    }

    /// The first deadline after `now` of an interval timer, and how many have passed.
    fn after(&self, now: u64) -> (u64, u64) {
        if now < self.deadline {
            return (self.deadline, 0);
        }
        let passed = (now - self.deadline) / self.interval + 1;
        (self.deadline.saturating_add(passed.saturating_mul(self.interval)).min(LAST), passed)
    }
}
