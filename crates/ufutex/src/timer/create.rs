//! Making a timer.

use core::ptr::NonNull;

use super::entry::{Status, Timer};
use super::ids::InUse;
use super::lookup::valid_id;
use super::{Notify, TimerClock, Timers};
use crate::error::Error;
use crate::expiry::Base;

/// The signal of a timer that names none: `SIGALRM`.
const SIGALRM: i32 = 14;
/// The greatest signal: `SIGRTMAX`.
const LAST_SIGNAL: i32 = 64;

impl Timers {
    /// Makes a timer, which is not set yet: timer_create(2). Answers its ID. Without `notify` it sends `SIGALRM`, with the
    /// ID for a value.
    ///
    /// IDs follow one another, also over those of timers that could not be made, and begin again at 0 after 2^31. Where
    /// several threads make timers at the same time each gets 64 in a row.
    ///
    /// # Errors
    /// [`Error::Again`]: there are as many timers as there may be, all IDs are in use, or there is no memory for more.
    /// [`Error::Invalid`]: a signal that is not from 1 to 64, a thread or a process that does not exist.
    pub fn create(&self, clock: TimerClock, notify: Option<Notify>) -> Result<i32, Error> {
        self.reserve(None)?.finish(clock, notify, |_| Ok(()))
    }

    /// Makes a timer with this ID, as a checkpoint is restored. IDs that are handed out afterwards follow on it.
    ///
    /// # Errors
    /// As for [`create`](Self::create); [`Error::Busy`]: the ID is in use; [`Error::Invalid`]: it is negative, or greater
    /// than the greatest.
    pub fn create_as(&self, id: i32, clock: TimerClock, notify: Option<Notify>) -> Result<i32, Error> {
        self.reserve(Some(id))?.finish(clock, notify, |_| Ok(()))
    }

    /// A timer that has an ID, and that nobody can find yet. For a kernel: it tells its guest the ID first.
    pub(crate) fn reserve(&self, requested: Option<i32>) -> Result<Reserved<'_>, Error> {
        let inner = &*self.inner;
        let requested = requested.map(valid_id).transpose()?;
        if requested.is_some_and(|id| u64::from(id) >= inner.store.ids()) {
            return Err(Error::Invalid);
        }
        inner.driver.start().map_err(|_| Error::Again)?;
        let mut taking = inner.store.begin();
        let before = inner.store.made();
        let timer = match taking.take() {
            Some(timer) => timer,
            None => {
                drop(taking);
                let timer = inner.store.take_anywhere().ok_or(Error::Again)?;
                taking = inner.store.begin();
                timer
            }
        };
        let first = requested.unwrap_or_else(|| taking.next_id());
        drop(taking);
        // From here on it is given back when it is dropped.
        let mut reserved = Reserved { timers: self, timer, id: first, is_in_table: false };
        let made = inner.store.made();
        if made != before {
            inner.ids.note_timers(made);
            inner.deliver.reserve(made).map_err(|_| Error::Again)?;
        }
        let mut tries = inner.store.ids();
        while !reserved.try_insert()? {
            if requested.is_some() {
                return Err(Error::Busy);
            }
            tries -= 1;
            if tries == 0 {
                return Err(Error::Again);
            }
            reserved.id = inner.store.begin().next_id();
        }
        if let Some(id) = requested {
            inner.store.jump_behind(id);
        }
        Ok(reserved)
    }

    fn check(&self, notify: Notify) -> Result<(), Error> {
        let is_fine = match notify {
            Notify::None => true,
            Notify::Signal { signal, .. } => (1..=LAST_SIGNAL).contains(&signal),
            Notify::Thread { signal, thread, .. } => {
                (1..=LAST_SIGNAL).contains(&signal) && self.inner.deliver.has_thread(thread)
            }
        };
        if is_fine { Ok(()) } else { Err(Error::Invalid) }
    }
}

/// A timer being made: it has an ID, and nobody can find it. Dropped, it is gone, and the ID is used up.
pub(crate) struct Reserved<'t> {
    timers: &'t Timers,
    timer: NonNull<Timer>,
    id: u32,
    is_in_table: bool,
}

impl Reserved<'_> {
    fn timer(&self) -> &Timer {
        // SAFETY: a timer of the store, as long as the timers are there.
        unsafe { self.timer.as_ref() }
    }

    /// Whether the ID was free.
    fn try_insert(&mut self) -> Result<bool, Error> {
        self.timer().reserve(self.id);
        match self.timers.inner.ids.insert(self.timer(), self.id) {
            Some(Ok(())) => self.is_in_table = true,
            Some(Err(InUse)) => {}
            None => return Err(Error::Again),
        }
        Ok(self.is_in_table)
    }

    /// The kernel's order: what the signal is, then `tell` the ID, then the clock.
    pub fn finish(
        mut self,
        clock: TimerClock,
        notify: Option<Notify>,
        tell: impl FnOnce(i32) -> Result<(), Error>,
    ) -> Result<i32, Error> {
        let id = self.id as i32;
        let notify = notify.unwrap_or(Notify::Signal { signal: SIGALRM, value: id as u64 });
        self.timers.check(notify)?;
        tell(id)?;
        if let TimerClock::Cpu(of) = clock
            && self.timers.inner.driver.cpu_time(of).is_none()
        {
            return Err(Error::Invalid);
        }
        // SAFETY: ours alone until it is published.
        unsafe {
            self.timer().with_fresh(|state| {
                state.set_notify(notify);
                state.clock = clock;
                state.base = Base::Monotonic;
                state.status = Status::Disarmed;
                (state.interval, state.deadline, state.overrun) = (0, 0, -1);
            });
        }
        self.timer().publish(self.id, 0);
        self.is_in_table = false; // no longer this reservation's to take back
        core::mem::forget(self);
        Ok(id)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let inner = &*self.timers.inner;
        if self.is_in_table {
            inner.ids.remove(self.timer(), self.id);
        }
        inner.store.give_back(self.timer);
    }
}
