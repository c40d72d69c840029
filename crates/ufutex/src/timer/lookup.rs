//! Looks timers up by ID, reads their overruns, and deletes them.

use super::Timers;
use super::entry::{LockedTimer, State, Timer};
use super::ids::IdPosition;
use crate::error::Error;
use crate::expiry::{Base, MustNotify};
use crate::sync::Ordering;

impl Timers {
    /// The intervals that had passed unnoticed when the last signal was delivered, at most `i32::MAX`: timer_getoverrun(2).
    /// Takes no lock if it finds the timer at once: the overrun is in one word with the ID. Otherwise it locks some slots of
    /// the table of IDs and searches again: if there is no such timer, or while the table grows.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no such timer.
    #[inline]
    pub fn getoverrun(&self, id: i32) -> Result<i32, Error> {
        let (id, ids) = (valid_id(id)?, &self.inner.store.ids);
        let (_, overrun) = ids.find(ids.position(id), id).ok_or(Error::Invalid)?;
        Ok(overrun)
    }

    /// Deletes a timer. A notice that has not been taken becomes void: timer_delete(2).
    ///
    /// # Errors
    /// [`Error::Invalid`]: no such timer.
    pub fn delete(&self, id: i32) -> Result<(), Error> {
        let id = valid_id(id)?;
        let position = self.inner.store.ids.position(id);
        let mut locked = self.lock_at(position, id)?;
        let timer = locked.timer();
        let (must_notify, cpu_clock) = locked.with(|state| (self.disarm(timer, state), state.cpu_clock()));
        if cpu_clock.is_some() {
            self.inner.cpu_timers.fetch_sub(1, Ordering::Relaxed);
        }
        // For a thread that has found the timer and waits for the lock.
        timer.invalidate_as(id);
        let is_back = self.take_out(timer, id, position);
        drop(locked);
        if !is_back {
            self.inner.store.give_back(timer.into(), id);
        }
        must_notify.now(&self.inner.driver);
        Ok(())
    }

    /// Frees a timer that could not be found yet.
    #[cold]
    pub(super) fn abandon(&self, timer: &Timer, id: u32) {
        let store = &self.inner.store;
        if !self.take_out(timer, id, store.ids.position(id)) {
            store.give_back(timer.into(), id);
        }
    }

    /// Takes the timer out of the table, and tries to give it back to a shard under the same lock.
    #[inline(always)]
    #[must_use]
    fn take_out(&self, timer: &Timer, id: u32, position: IdPosition<'_>) -> bool {
        let group = self.inner.store.ids.lock_at(position, id);
        group.remove(timer);
        self.inner.store.takes_back_here(timer.into(), id, group)
    }

    #[inline(always)]
    pub(super) fn lock(&self, id: u32) -> Result<LockedTimer<'_>, Error> {
        self.lock_at(self.inner.store.ids.position(id), id)
    }

    #[inline(always)]
    fn lock_at<'t>(&'t self, position: IdPosition<'t>, id: u32) -> Result<LockedTimer<'t>, Error> {
        loop {
            let ids = &self.inner.store.ids;
            let (timer, _) = ids.find(position, id).ok_or(Error::Invalid)?;
            let locked = timer.lock(&ids.on);
            if timer.overrun_of(id).is_some() {
                return Ok(locked);
            }
            // Deleted meanwhile. There may be a new timer with its ID.
        }
    }

    /// Disarms the timer, and makes expiries and notices that are on their way void.
    #[inline(always)]
    pub(super) fn disarm(&self, timer: &Timer, state: &mut State) -> MustNotify {
        state.stand_down().map_or_else(MustNotify::default, |base| self.leave(timer, base))
    }

    /// Takes the timer out of the queue in which it is, or was until it became due.
    pub(super) fn leave(&self, timer: &Timer, base: Base) -> MustNotify {
        let inner = &*self.inner;
        // SAFETY: the node is in this queue or in none.
        unsafe { inner.queues[base as usize].disarm(&inner.driver.inner, timer.node()) }
    }
}

pub(super) fn valid_id(id: i32) -> Result<u32, Error> {
    u32::try_from(id).map_err(|_| Error::Invalid)
}
