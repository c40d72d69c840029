//! Expires a timer, and takes its notice when the embedder delivers the signal.
//!
//! When the timer expires, the embedder's [`Deliver`](super::Deliver) gets a notice, which it takes when it delivers the
//! signal. Only then is the overrun known, and an interval timer armed anew.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::entry::{Chunk, LockedTimer, Timer};
use super::lookup::valid_id;
use super::set::{Shown, TICK};
use super::{Notify, Timers, TimersInner};
use crate::expiry::{Base, DeadlineQueue, MustNotify, Owner, Share};
use crate::sys::counted::Counted;
use crate::sys::unwind::Otherwise;

/// Reports that a timer has expired. A kernel keeps it with a queued signal, and calls [`Timers::take`] when it delivers that.
/// If a notice is dropped, an interval timer rests until it is set again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    id: u32,
    timer: usize,
    number: u32,
    notify: Notify,
}

impl Notice {
    /// The timer's ID.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.id as i32
    }

    /// What the timer does when it expires.
    #[must_use]
    pub const fn notify(&self) -> Notify {
        self.notify
    }

    /// Two numbers that tell this notice from all others of its ID, for an embedder that keeps notices as plain numbers. They
    /// mean something only to the [`Timers`] that made the notice.
    #[must_use]
    pub const fn ticket(&self) -> (usize, u32) {
        (self.timer, self.number)
    }

    /// Makes a notice of its parts. [`Timers::take`] returns `None` for numbers of no notice.
    ///
    /// ```
    /// use ufutex::timer::{Notice, Notify};
    ///
    /// let never_was = Notice::from_parts(7, Notify::None, (1, 2));
    /// assert_eq!(Notice::from_parts(never_was.id(), never_was.notify(), never_was.ticket()), never_was);
    /// ```
    #[must_use]
    pub const fn from_parts(id: i32, notify: Notify, (timer, number): (usize, u32)) -> Self {
        Self { id: id as u32, timer, number, notify }
    }
}

/// An expiry that has been delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expired {
    /// The timer's ID.
    pub id: i32,
    /// What the timer does when it expires.
    pub notify: Notify,
    /// Intervals that have passed since the expiry: `si_overrun`. -1 if the clock has been set back to before it.
    pub overrun: i32,
}

pub(super) fn shown_overrun(overrun: i64) -> i32 {
    overrun.min(i32::MAX.into()) as i32
}

impl Timers {
    /// Takes a notice, when it is delivered. An interval timer is armed again, and its overrun is now known. `None` if the
    /// notice is void, because the timer was set again or deleted.
    #[must_use = "`None` means that nothing is to be delivered"]
    pub fn take(&self, notice: Notice) -> Option<Expired> {
        let mut locked = self.lock_current(&notice)?;
        let timer = locked.timer();
        let (overrun, must_notify) = locked.with(|state| {
            // Read before anything is changed, because an embedder's clock may panic.
            let shown = if state.interval == 0 { None } else { self.shown(state, state.base) };
            state.renumber();
            if state.interval == 0 {
                return (0, MustNotify::default());
            }
            let must_notify = shown.map_or_else(MustNotify::default, |shown| {
                state.forward(shown.clock);
                self.arm(timer, state, shown)
            });
            timer.publish(notice.id, state.overrun);
            (shown_overrun(core::mem::replace(&mut state.overrun, -1)), must_notify)
        });
        drop(locked);
        must_notify.now(&self.inner.driver);
        Some(Expired { id: notice.id(), notify: notice.notify, overrun })
    }

    /// Whether the timer has not been set again or deleted, nor the notice taken.
    #[must_use]
    pub fn is_current(&self, notice: &Notice) -> bool {
        self.lock_current(notice).is_some()
    }

    fn lock_current(&self, notice: &Notice) -> Option<LockedTimer<'_>> {
        let mut locked = self.lock(valid_id(notice.id()).ok()?).ok()?;
        let is_same = core::ptr::from_ref(locked.timer()).addr() == notice.timer;
        (is_same && locked.with(|state| state.number == notice.number)).then_some(locked)
    }

    /// Expires a timer that was due in its queue, by whose clock `time` is. It had the number `tag` when it was armed.
    fn expire_one(&self, timer: &Timer, tag: u32, time: u64) -> Option<Notice> {
        let mut locked = timer.lock(&self.inner.store.ids.on);
        // The state of a timer that was deleted meanwhile belongs to the thread that makes it another timer.
        if !timer.is_valid() {
            return None;
        }
        let id = timer.id();
        locked.with(|state| {
            // Set again or disarmed since it left the queue.
            if state.number != tag || !state.is_armed {
                return None;
            }
            if let Some(of) = state.cpu_clock() {
                // If the embedder's clock panics, the timer is armed again for a tick later.
                let (base, later) = (state.base, time.saturating_add(TICK));
                let put_back = Otherwise::new(|| {
                    let _turning_anyway = self.arm_at(timer, base, tag, later, time);
                });
                let clock = self.cpu_time_of(state, of);
                put_back.disarm();
                let Some(clock) = clock else {
                    state.is_armed = false;
                    return None;
                };
                if clock < state.deadline {
                    let _turning_anyway = self.arm(timer, state, Shown { clock, time });
                    return None;
                }
            }
            debug_assert!(!state.is_silent());
            state.is_armed = false;
            let timer = core::ptr::from_ref(timer).addr();
            Some(Notice { id, timer, number: state.number, notify: state.notify() })
        })
    }
}

impl Owner for TimersInner {
    fn queue(&self, base: Base) -> &DeadlineQueue {
        &self.queues[base as usize]
    }

    fn expire(&self, share: &mut Share<'_>) {
        // SAFETY: the caller has a handle, for which this one stands. It is not dropped.
        let timers = ManuallyDrop::new(Timers { inner: unsafe { Counted::adopt(NonNull::from(self)) } });
        loop {
            // SAFETY: nodes in these queues belong to timers, which live as long as the queues. The queue is locked.
            let due = share.pop_due(|node| unsafe { (Chunk::timer_of(node).as_ref(), (*node).tag) });
            let Some((timer, tag)) = due else { return };
            if let Some(notice) = timers.expire_one(timer, tag, share.now) {
                self.deliver.expired(&timers, notice);
            }
        }
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        if self.inner.driver.is_abandoned() {
            // Never freed: a thread that the child of fork(2) does not have may have been in the middle of a change.
            core::mem::forget(self.inner.clone());
        }
    }
}

impl Drop for TimersInner {
    fn drop(&mut self) {
        for queue in &self.queues {
            queue.retire(&self.driver.inner);
        }
    }
}
