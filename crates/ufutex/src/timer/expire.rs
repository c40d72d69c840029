//! Expiry of a timer.
//!
//! It has two steps, as in the kernel. When the timer expires, a notice is given to the embedder's
//! [`Deliver`](super::Deliver). When the embedder delivers a signal, it takes the notice. Only then is it known how
//! many intervals have passed unnoticed, and the timer is armed for the next.

use core::ptr::NonNull;

use super::chunk::timer_of;
use super::entry::{Kind, State, Status, Timer};
use super::lookup::valid_id;
use super::set::{Shown, TICK};
use super::{Inner, Notify, Timers};
use crate::expiry::{Base, CpuClock, Held, Owner, Tell, Visit};
use crate::sync::{Mutant, mutant};
use crate::sys::counted::Counted;
use crate::sys::unwind::Otherwise;

/// "This timer has expired": what a kernel keeps with a queued signal. There is one of a timer at most that is good for
/// anything; [`Timers::take`] it when the signal is delivered. It may be dropped, too: then an interval timer rests until
/// it is set again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    id: u32,
    timer: usize,
    number: u32,
    notify: Notify,
}

impl Notice {
    /// The timer.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.id as i32
    }

    /// What is to be done.
    #[must_use]
    pub const fn notify(&self) -> Notify {
        self.notify
    }
}

/// An expiry that has been delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expired {
    /// The timer.
    pub id: i32,
    /// What it was to do.
    pub notify: Notify,
    /// How many more intervals have passed since: `si_overrun`. -1 if the clock has been set back to before the expiry.
    pub overrun: i32,
}

/// The overrun as an `int`, at most the highest there is. If the clock has been set back meanwhile, not even the first
/// deadline has passed: the kernel says -1 then.
pub(super) fn told(overrun: i64) -> i32 {
    overrun.min(i32::MAX.into()) as i32
}

impl Timers {
    /// The notice is delivered now: an interval timer goes on, and its overrun is known. `None`: it is void, since the timer
    /// was set again or deleted in the meantime; there is nothing to deliver.
    #[must_use = "`None` means that nothing is to be delivered"]
    pub fn take(&self, notice: Notice) -> Option<Expired> {
        let mut locked = self.lock(valid_id(notice.id()).ok()?).ok()?;
        let timer = locked.timer();
        if core::ptr::from_ref(timer).addr() != notice.timer {
            return None;
        }
        let result = locked.with(|state| {
            if state.number != notice.number {
                return None;
            }
            // Read before anything is changed, because an embedder's clock may panic.
            let shown = if state.interval == 0 { None } else { self.shown(state, state.base) };
            if !mutant(Mutant::TakeKeepsNumber) {
                state.renumber();
            }
            let mut tell = Tell::default();
            let mut overrun = 0;
            if state.interval != 0 {
                if let Some(shown) = shown {
                    state.forward(shown.clock);
                    tell = self.arm(timer, state, shown);
                } else {
                    state.status = Status::Disarmed;
                }
                overrun = told(state.overrun);
                timer.publish(notice.id, state.overrun);
                state.overrun = -1;
            }
            Some((Expired { id: notice.id(), notify: notice.notify, overrun }, tell))
        });
        drop(locked);
        let (expired, tell) = result?;
        tell.now(&self.inner.driver);
        Some(expired)
    }

    /// Whether `notice` still is good for something: the timer has not been set again or deleted, and nobody has taken it.
    #[must_use]
    pub fn is_current(&self, notice: &Notice) -> bool {
        let Ok(mut locked) = self.lock(notice.id) else { return false };
        let is_same = core::ptr::from_ref(locked.timer()).addr() == notice.timer;
        is_same && locked.with(|state| state.number == notice.number)
    }

    /// Expires a timer that was due in its queue. `tag` is its number when it was armed; `time` is what the queue's
    /// clock shows.
    fn expire_one(&self, timer: &Timer, tag: u32, time: u64) -> Option<Notice> {
        let mut locked = timer.lock();
        // The timer may have been deleted since it left the queue. Then its state belongs to the thread that makes it
        // another timer.
        if !timer.is_valid() && !mutant(Mutant::ExpiryIgnoresWord) {
            return None;
        }
        let id = timer.id();
        locked.with(|state| {
            // It may have been set again, or deleted, between the queue's lock and this one.
            if (state.number != tag && !mutant(Mutant::ExpirySkipsRecheck)) || state.status != Status::Armed {
                return None;
            }
            if let Some(of) = state.cpu_clock() {
                match self.cpu_time(timer, state, of, time) {
                    Some(clock) if clock >= state.deadline => {}
                    Some(clock) => {
                        let _turning_anyway = self.arm(timer, state, Shown { clock, time });
                        return None;
                    }
                    None => {
                        state.status = Status::Disarmed;
                        return None;
                    }
                }
            }
            debug_assert_ne!(state.kind, Kind::None);
            state.status = if state.interval == 0 { Status::Disarmed } else { Status::Pending };
            let timer = core::ptr::from_ref(timer).addr();
            Some(Notice { id, timer, number: state.number, notify: state.notify() })
        })
    }
}

impl Timers {
    /// The CPU time that `timer`, which was due in its queue, runs by. If the embedder's clock panics, the timer is
    /// armed again for a tick later.
    fn cpu_time(&self, timer: &Timer, state: &State, of: CpuClock, time: u64) -> Option<u64> {
        let put_back = Otherwise::new(|| {
            let _turning_anyway = self.arm_at(timer, state, time.saturating_add(TICK), time);
        });
        let shown = self.inner.driver.cpu_time(of);
        put_back.disarm();
        shown
    }
}

impl Owner for Inner {
    fn hold(&self) -> Option<Held> {
        // SAFETY: timers are counted; the driver, who calls this, has them in its wheel, which they leave as they go.
        unsafe { Held::of(self) }
    }

    fn expire(&self, base: Base, visit: &mut Visit) -> usize {
        // SAFETY: the caller holds a handle.
        let Some(inner) = (unsafe { Counted::upgrade(NonNull::from(self)) }) else { return 0 };
        let timers = Timers { inner };
        let time = visit.now();
        let mut share = self.queues[base as usize].share(&self.driver.inner, visit);
        let mut passed = 0;
        loop {
            let mut due = None;
            let is_due = share.pop_due(|node| {
                // SAFETY: what stands in these queues are nodes of timers, which live as long; the queue is locked.
                due = Some(unsafe { (timer_of(node).as_ref(), (*node).tag) });
            });
            if !is_due {
                return passed;
            }
            passed += 1;
            if let Some((timer, tag)) = due
                && let Some(notice) = timers.expire_one(timer, tag, time)
            {
                self.deliver.expired(&timers, notice);
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for queue in self.queues.iter().filter(|_| !mutant(Mutant::RetireForgets)) {
            // Nobody need be told of a deadline that is gone.
            let _later = queue.retire(&self.driver.inner);
        }
    }
}
