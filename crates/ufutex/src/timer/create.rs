//! Making a timer.

use core::ptr::NonNull;

use super::entry::Timer;
use super::ids::Inserted;
use super::lookup::valid_id;
use super::numbers::Next;
use super::{Notify, TimerClock, Timers};
use crate::error::Error;

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
        let reserved = self.reserve(None)?;
        self.finish(reserved, clock, notify, |_| Ok(()))
    }

    /// Makes a timer with this ID, as a checkpoint is restored. IDs that are handed out afterwards follow on it.
    ///
    /// # Errors
    /// As for [`create`](Self::create); [`Error::Busy`]: the ID is in use; [`Error::Invalid`]: it is negative, or greater
    /// than the greatest.
    pub fn create_as(&self, id: i32, clock: TimerClock, notify: Option<Notify>) -> Result<i32, Error> {
        let reserved = self.reserve(Some(id))?;
        self.finish(reserved, clock, notify, |_| Ok(()))
    }

    /// A timer that has an ID, and that nobody can find yet. For a kernel: it tells its guest the ID first.
    #[inline(always)]
    pub(crate) fn reserve(&self, requested: Option<i32>) -> Result<Reserved<'_>, Error> {
        if let Some(id) = requested {
            return self.reserve_as(id);
        }
        let inner = &*self.inner;
        inner.driver.start().map_err(|_| Error::Again)?;
        let next = self.peek();
        let claim = || inner.numbers.claim(next);
        let spot = inner.ids.spot(next.id);
        let mut inserted = Inserted::NoneKept;
        if spot.is_some_and(|spot| spot.keeps_one()) {
            inserted = inner.ids.insert(next.id, spot, None, claim);
            if let Inserted::Done(timer) = inserted {
                return Ok(Reserved { timer, id: next.id });
            }
        }
        let timer = match inner.store.take() {
            Some(timer) => timer,
            None => self.take_timer()?,
        };
        // SAFETY: a timer of the store, as long as the timers are there.
        let timer = unsafe { timer.as_ref() };
        if let Inserted::NoneKept = inserted {
            inserted = inner.ids.insert(next.id, spot, Some(timer), claim);
        }
        match inserted {
            Inserted::Done(timer) => Ok(Reserved { timer, id: next.id }),
            failed => self.reserve_another(timer, next, failed),
        }
    }

    /// What may be the next ID.
    #[inline(always)]
    fn peek(&self) -> Next<'_> {
        self.inner.numbers.peek().unwrap_or_else(|ended| self.take_block(ended))
    }

    #[cold]
    #[inline(never)]
    fn take_block(&self, next: Next<'_>) -> Next<'_> {
        let inner = &*self.inner;
        loop {
            let shared = inner.numbers.shared();
            // There is a table: without one nobody has met.
            if inner.ids.with_group(shared, || inner.numbers.take_block(next, shared)) != Some(false)
                && let Ok(next) = inner.numbers.peek()
            {
                return next;
            }
        }
    }

    /// It could not be had with this ID: the next one that is free.
    #[cold]
    #[inline(never)]
    fn reserve_another<'t>(
        &'t self,
        timer: &'t Timer,
        mut next: Next<'t>,
        mut failed: Inserted<'t>,
    ) -> Result<Reserved<'t>, Error> {
        let inner = &*self.inner;
        let mut tries = inner.numbers.count();
        loop {
            match failed {
                Inserted::Done(timer) => return Ok(Reserved { timer, id: next.id }),
                Inserted::Refused if inner.numbers.meet(next) => next = self.take_block(next),
                Inserted::Refused => next = self.peek(),
                Inserted::InUse if tries > 1 => {
                    tries -= 1;
                    next = self.peek();
                }
                Inserted::InUse | Inserted::NoneKept | Inserted::NoMemory => break,
            }
            failed = inner.ids.insert(next.id, None, Some(timer), || inner.numbers.claim(next));
        }
        inner.store.give_back(timer.into());
        Err(Error::Again)
    }

    /// A timer with just this ID, on which the next ones follow.
    #[cold]
    fn reserve_as(&self, id: i32) -> Result<Reserved<'_>, Error> {
        let inner = &*self.inner;
        let id = valid_id(id)?;
        if u64::from(id) >= inner.numbers.count() {
            return Err(Error::Invalid);
        }
        inner.driver.start().map_err(|_| Error::Again)?;
        let spot = inner.ids.spot(id);
        let kept = spot.map_or(Inserted::NoneKept, |spot| inner.ids.insert(id, Some(spot), None, || true));
        let timer = match kept {
            Inserted::Done(timer) => timer,
            Inserted::InUse => return Err(Error::Busy),
            _ => {
                // SAFETY: a timer of the store, as long as the timers are there.
                let timer = unsafe { self.take_timer()?.as_ref() };
                match inner.ids.insert(id, spot, Some(timer), || true) {
                    Inserted::Done(timer) => timer,
                    failed => {
                        inner.store.give_back(timer.into());
                        return Err(if matches!(failed, Inserted::InUse) { Error::Busy } else { Error::Again });
                    }
                }
            }
        };
        loop {
            let shared = inner.numbers.shared();
            if inner.ids.with_group(shared, || inner.numbers.jump_behind(id, shared)) != Some(false) {
                return Ok(Reserved { timer, id });
            }
        }
    }

    /// A timer from wherever there is one, or from new memory.
    #[cold]
    #[inline(never)]
    fn take_timer(&self) -> Result<NonNull<Timer>, Error> {
        let inner = &*self.inner;
        let timer = inner.store.take_free().or_else(|| self.make_timer());
        let timer = timer.or_else(|| inner.store.take_last());
        timer.or_else(|| inner.ids.take_kept().map(NonNull::from)).ok_or(Error::Again)
    }

    /// Room for the notices of new timers comes before them, with nothing locked.
    fn make_timer(&self) -> Option<NonNull<Timer>> {
        let inner = &*self.inner;
        let timers = inner.store.grant()?;
        let made = inner.store.made();
        let timer = inner.deliver.reserve(made).ok().and_then(|()| inner.store.make(timers));
        if timer.is_none() {
            inner.store.revoke(timers);
            return None;
        }
        inner.ids.note_timers(made);
        timer
    }

    #[inline(always)]
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

    /// Makes of it what it is to be. The kernel's order: what the signal is, then `tell` the ID, then the clock. If it comes
    /// to nothing the ID is used up.
    #[inline(always)]
    pub(crate) fn finish(
        &self,
        Reserved { timer, id }: Reserved<'_>,
        clock: TimerClock,
        notify: Option<Notify>,
        tell: impl FnOnce(i32) -> Result<(), Error>,
    ) -> Result<i32, Error> {
        let notify = notify.unwrap_or(Notify::Signal { signal: SIGALRM, value: id.into() });
        if let Err(error) = self.check(notify).and_then(|()| tell(id as i32)).and_then(|()| self.check_clock(clock)) {
            self.take_out(timer, id);
            return Err(error);
        }
        // SAFETY: ours alone until it is published.
        unsafe { timer.fill(clock, notify) };
        timer.publish(id, 0);
        Ok(id as i32)
    }

    #[inline(always)]
    fn check_clock(&self, clock: TimerClock) -> Result<(), Error> {
        match clock {
            TimerClock::Cpu(of) if self.inner.driver.cpu_time(of).is_none() => Err(Error::Invalid),
            _ => Ok(()),
        }
    }
}

/// A timer being made: it has an ID, and nobody can find it. To be [finished](Timers::finish): what is forgotten stays
/// reserved until all timers go.
#[must_use = "it is finished, or lost"]
pub(crate) struct Reserved<'t> {
    timer: &'t Timer,
    id: u32,
}
