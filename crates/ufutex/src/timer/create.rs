//! Making a timer.

use core::ptr::NonNull;

use super::entry::Timer;
use super::ids::Inserted;
use super::lookup::valid_id;
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
        let inner = &*self.inner;
        let requested = requested.map(valid_id).transpose()?;
        if requested.is_some_and(|id| u64::from(id) >= inner.store.ids()) {
            return Err(Error::Invalid);
        }
        inner.driver.start().map_err(|_| Error::Again)?;
        let mut spot = None;
        let is_kept = |id| {
            spot = inner.ids.spot(id);
            spot.is_some_and(|spot| spot.keeps_one())
        };
        let (id, timer) = match inner.store.take(requested, is_kept) {
            Some((id, Some(timer))) => (id, timer),
            Some((id, None)) => {
                match spot.and_then(|spot| inner.ids.insert_kept(id, spot, |timer| timer.reserve(id))) {
                    Some(Ok(timer)) => return Ok(self.reserved(timer, id, requested.is_some())),
                    _ => (id, self.take_timer()?),
                }
            }
            None => {
                spot = None; // perhaps of another ID
                let timer = self.take_timer()?;
                (requested.unwrap_or_else(|| inner.store.next_id()), timer)
            }
        };
        // SAFETY: a timer of the store, as long as the timers are there.
        let timer = unsafe { timer.as_ref() };
        timer.reserve(id);
        let inserted = inner.ids.insert(timer, id, spot);
        if inserted != Inserted::Done {
            return self.insert_elsewhere(timer, inserted, requested.is_some());
        }
        Ok(self.reserved(timer, id, requested.is_some()))
    }

    #[inline(always)]
    fn reserved<'t>(&self, timer: &'t Timer, id: u32, was_requested: bool) -> Reserved<'t> {
        if was_requested {
            self.inner.store.jump_behind(id);
        }
        Reserved { timer, id }
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

    /// The ID is in use: the next one that is not, unless this one is asked for.
    #[cold]
    #[inline(never)]
    fn insert_elsewhere<'t>(
        &self,
        timer: &'t Timer,
        mut inserted: Inserted,
        only: bool,
    ) -> Result<Reserved<'t>, Error> {
        let mut tries = if only { 1 } else { self.inner.store.ids() };
        while inserted == Inserted::InUse {
            tries -= 1;
            if tries == 0 {
                break;
            }
            let id = self.inner.store.next_id();
            timer.reserve(id);
            inserted = self.inner.ids.insert(timer, id, None);
            if inserted == Inserted::Done {
                return Ok(Reserved { timer, id });
            }
        }
        self.inner.store.give_back(timer.into());
        Err(if only && inserted == Inserted::InUse { Error::Busy } else { Error::Again })
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
