//! Making a timer.

use core::ptr::NonNull;

use super::entry::Timer;
use super::ids::Inserted;
use super::lookup::valid_id;
use super::numbers::{BLOCK, BlockCounter, Next};
use super::store::NotMade;
use super::{Inner, Notify, TimerClock, Timers};
use crate::error::Error;
use crate::sync::Ordering;
use crate::sys::unwind::Otherwise;

/// The signal of a timer for which the caller names none: `SIGALRM`.
const SIGALRM: i32 = 14;
/// The highest signal: `SIGRTMAX`.
const LAST_SIGNAL: i32 = 64;

/// The number of IDs that are tried from the counters, where other threads may take each of them first, before all IDs
/// are searched.
const TRIES: usize = 128;
/// The number of times that all IDs are searched, if other threads give IDs back meanwhile.
const WALKS: usize = 64;

impl Timers {
    /// Makes a timer, which is not set yet: timer_create(2). Returns its ID. Without `notify` it sends `SIGALRM` with
    /// the ID as the value.
    ///
    /// IDs are consecutive, and begin again at 0 after 2^31. A timer that could not be made may have used up its ID. If
    /// several threads make timers at the same time, each gets 64 IDs in a row.
    ///
    /// # Errors
    /// [`Error::Again`]: there are as many timers as the limit allows, all IDs are in use, or there is no memory for
    /// more. [`Error::Invalid`]: the signal is not from 1 to 64, or the thread or process does not exist.
    pub fn create(&self, clock: TimerClock, notify: Option<Notify>) -> Result<i32, Error> {
        let reserved = self.reserve(None)?;
        self.finish(reserved, clock, notify, |_| Ok(()))
    }

    /// Makes a timer with this ID, as when a checkpoint is restored. IDs that are handed out later follow this one.
    ///
    /// # Errors
    /// As for [`create`](Self::create); [`Error::Busy`]: the ID is in use; [`Error::Invalid`]: the ID is negative or
    /// too high.
    pub fn create_as(&self, id: i32, clock: TimerClock, notify: Option<Notify>) -> Result<i32, Error> {
        let reserved = self.reserve(Some(id))?;
        self.finish(reserved, clock, notify, |_| Ok(()))
    }

    /// Reserves an ID and a timer that cannot be found yet. A kernel tells its guest the ID before it finishes the
    /// timer.
    #[inline(always)]
    pub(crate) fn reserve(&self, requested: Option<i32>) -> Result<Reserved<'_>, Error> {
        if let Some(id) = requested {
            return self.reserve_as(id);
        }
        let inner = &*self.inner;
        inner.driver.start().map_err(|_| Error::Again)?;
        let next = self.peek(inner.numbers.pick());
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
        // SAFETY: a timer of the store, which is valid as long as `self`.
        let timer = unsafe { timer.as_ref() };
        if let Inserted::NoneKept = inserted {
            inserted = inner.ids.insert(next.id, spot, Some(timer), claim);
        }
        match inserted {
            Inserted::Done(timer) => {
                self.stock_behind(next.id);
                Ok(Reserved { timer, id: next.id })
            }
            failed => self.reserve_another(timer, next, failed),
        }
    }

    /// A call has taken a timer for `id` from a free list. So it also moves timers for the rest of the block from the list
    /// to their group. The creates that follow find them there, with one lock in place of two.
    ///
    /// At a block's first ID it moves none if the group of the block before keeps a timer, nor at ID 0. Then this caller
    /// probably deletes what it creates, and a deleted timer stays in the group for the next create only if that keeps none.
    #[inline(always)]
    fn stock_behind(&self, id: u32) {
        let rest = BLOCK - 1 - id % BLOCK;
        if rest != 0 {
            self.stock(id, rest);
        }
    }

    #[cold]
    #[inline(never)]
    fn stock(&self, id: u32, rest: u32) {
        let Inner { ids, store, .. } = &*self.inner;
        let is_wanted = |id: u32| ids.spot(id).is_some_and(|spot| !spot.keeps_one());
        if !id.is_multiple_of(BLOCK) || id.checked_sub(1).is_some_and(is_wanted) {
            ids.stock(id, rest as usize, store);
        }
    }

    /// The ID that `counter` would give out next.
    #[inline(always)]
    fn peek<'t>(&'t self, counter: &'t BlockCounter) -> Next<'t> {
        self.inner.numbers.peek(counter).unwrap_or_else(|ended| self.take_block(ended))
    }

    #[cold]
    #[inline(never)]
    fn take_block<'t>(&'t self, next: Next<'t>) -> Next<'t> {
        let inner = &*self.inner;
        for _ in 0..TRIES {
            let shared = inner.numbers.shared();
            // There is a table: before the first timer no thread can have collided with another.
            if inner.ids.with_group(shared, || inner.numbers.take_block(next, shared)) != Some(false)
                && let Ok(next) = inner.numbers.peek(next.counter)
            {
                return next;
            }
        }
        inner.numbers.peek_shared(next.counter)
    }

    /// Reserves the next free ID for `timer`, after an insertion with `next` has failed.
    #[cold]
    #[inline(never)]
    fn reserve_another<'t>(
        &'t self,
        timer: &'t Timer,
        mut next: Next<'t>,
        mut failed: Inserted<'t>,
    ) -> Result<Reserved<'t>, Error> {
        let inner = &*self.inner;
        // Counts IDs from the shared counter that turned out to be in use.
        let passes = |failed, next: Next<'_>| u64::from(next.is_shared() && matches!(failed, Inserted::InUse));
        let mut passed = passes(failed, next);
        for _ in 0..TRIES {
            match failed {
                Inserted::Done(timer) => return Ok(Reserved { timer, id: next.id }),
                Inserted::Refused if inner.numbers.note_collision(next) => next = self.take_block(next),
                Inserted::InUse if passed == inner.numbers.count() => break,
                Inserted::Refused | Inserted::InUse => next = self.peek(next.counter),
                Inserted::NoneKept | Inserted::NoMemory => break,
            }
            failed = inner.ids.insert(next.id, None, Some(timer), || inner.numbers.claim(next));
            passed += passes(failed, next);
        }
        let found = match failed {
            Inserted::Done(timer) => Some(Reserved { timer, id: next.id }),
            Inserted::Refused | Inserted::InUse => self.reserve_any(timer, passed),
            Inserted::NoneKept | Inserted::NoMemory => None,
        };
        found.ok_or_else(|| {
            inner.store.give_back(timer.into());
            Error::Again
        })
    }

    /// Reserves the first free ID from the next one on, even if other threads are faster at the counters each time.
    /// `None` if no ID is free.
    ///
    /// The first walk goes on behind the IDs that have been `passed`, and ends where they began. A complete walk has
    /// found each ID in use at some moment. If `removed` has the same value before and after a walk, no ID was given
    /// back in between, so all were in use at one moment. Otherwise an ID behind the walk may have been given back, and
    /// `reserve_any` walks again.
    #[cold]
    fn reserve_any<'t>(&'t self, timer: &'t Timer, passed: u64) -> Option<Reserved<'t>> {
        let count = self.inner.numbers.count();
        let mut before = None;
        let mut ids = count.saturating_sub(passed);
        for _ in 0..WALKS {
            if let Some(reserved) = self.walk(timer, ids) {
                return Some(reserved);
            }
            ids = count;
            let removed = Some(self.inner.ids.removed());
            if before == removed {
                break;
            }
            before = removed;
        }
        None
    }

    /// Tries `ids` IDs in order, from the next one on.
    fn walk<'t>(&'t self, timer: &'t Timer, ids: u64) -> Option<Reserved<'t>> {
        let inner = &*self.inner;
        let mut id = inner.numbers.shared();
        for _ in 0..ids {
            // It does not matter whether another thread has taken the ID already: no thread fails to get an ID because
            // of this.
            let look = || {
                inner.numbers.pass(id);
                true
            };
            match inner.ids.insert(id, None, Some(timer), look) {
                Inserted::Done(timer) => return Some(Reserved { timer, id }),
                Inserted::InUse | Inserted::Refused | Inserted::NoneKept => id = inner.numbers.after(id),
                Inserted::NoMemory => break,
            }
        }
        None
    }

    /// Reserves exactly this ID. IDs that are handed out later follow it.
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
            // As in the kernel, the limit comes first: at the limit this is no `Busy`.
            _ => {
                // SAFETY: a timer of the store, which is valid as long as `self`.
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
                // If the IDs of the block that was in use are skipped, so are the timers that wait for them in their group.
                // The group is that of the ID before, in a model too, where a group has one ID.
                let before = shared.saturating_sub(1);
                if before / BLOCK != id / BLOCK {
                    inner.ids.unstock(before, &inner.store);
                }
                return Ok(Reserved { timer, id });
            }
        }
    }

    /// Takes a free timer from a list or makes new ones. If the limit is reached, takes the last free one, wherever it is.
    #[cold]
    #[inline(never)]
    fn take_timer(&self) -> Result<NonNull<Timer>, Error> {
        let inner = &*self.inner;
        // SAFETY: a timer of the store, which is valid as long as `self`.
        let last = || inner.store.take_last().map(|timer| unsafe { timer.as_ref() });
        let timer = inner.store.take_free().or_else(|| self.make_timer()).or_else(|| inner.store.take_any());
        timer.or_else(|| inner.ids.take_free(last).map(NonNull::from)).ok_or(Error::Again)
    }

    /// Makes timers in new memory, and returns one of them. The embedder makes room for their notices first, with
    /// nothing locked.
    fn make_timer(&self) -> Option<NonNull<Timer>> {
        let inner = &*self.inner;
        loop {
            let room = inner.store.next()?;
            inner.deliver.reserve(room).ok()?;
            match inner.store.make(room) {
                Ok(timer) => {
                    inner.ids.note_timers(room);
                    return Some(timer);
                }
                // Other threads have made some.
                Err(NotMade::NoRoom) => {
                    if let Some(timer) = inner.store.take_free() {
                        return Some(timer);
                    }
                }
                Err(NotMade::NoMemory) => return None,
            }
        }
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

    /// Makes a reserved timer valid. It checks in the kernel's order: first the signal, then `tell` with the ID, then
    /// the clock. If one of them fails, the ID is used up.
    #[inline(always)]
    pub(crate) fn finish(
        &self,
        Reserved { timer, id }: Reserved<'_>,
        clock: TimerClock,
        notify: Option<Notify>,
        tell: impl FnOnce(i32) -> Result<(), Error>,
    ) -> Result<i32, Error> {
        let notify = notify.unwrap_or(Notify::Signal { signal: SIGALRM, value: id.into() });
        let abandon = Otherwise::new(|| self.abandon(timer, id));
        self.check(notify)?;
        tell(id as i32)?;
        self.check_clock(clock)?;
        abandon.disarm();
        if matches!(clock, TimerClock::Cpu(_)) {
            self.inner.cpu_timers.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the timer is this call's alone until it is published.
        unsafe { timer.fill(clock, notify) };
        timer.publish(id, 0);
        Ok(id as i32)
    }

    /// Refuses a clock of CPU time if its owner's number would be taken for one of the host's: see
    /// [`TimerOptions::host_pids`](super::TimerOptions::host_pids).
    pub(crate) fn check_served(&self, clock: TimerClock) -> Result<(), Error> {
        let is_served = self.inner.serves_cpu_clocks || !matches!(clock, TimerClock::Cpu(_));
        if is_served { Ok(()) } else { Err(Error::Invalid) }
    }

    #[inline(always)]
    fn check_clock(&self, clock: TimerClock) -> Result<(), Error> {
        match clock {
            TimerClock::Cpu(of) if self.inner.driver.cpu_time(of).is_none() => Err(Error::Invalid),
            _ => Ok(()),
        }
    }
}

/// A timer that is being made: it has an ID, but cannot be found. The caller has to [finish](Timers::finish) it.
/// Otherwise it stays reserved until all timers are freed.
#[must_use = "it is finished, or lost"]
pub(crate) struct Reserved<'t> {
    timer: &'t Timer,
    id: u32,
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::expiry::{Base, Clocks, Driver};
    use crate::timer::numbers::tests::{each, end_a_block};
    use crate::timer::{TimerOptions, Timers};
    use alloc::sync::Arc;
    use core::time::Duration;
    use std::vec::Vec;

    struct NoTime;

    impl Clocks for NoTime {
        fn now(&self, _: Base) -> Duration {
            Duration::ZERO
        }

        fn changed(&self) {}
    }

    fn timers(max_id: i32) -> Timers {
        let driver = Driver::with_clocks(Arc::new(NoTime)).expect("there is memory");
        Timers::channel(&driver, TimerOptions::new().max_id(max_id)).expect("there is memory").0
    }

    fn create(timers: &Timers) -> Result<i32, Error> {
        timers.create(TimerClock::Monotonic, Some(Notify::None))
    }

    #[test]
    fn block_is_for_the_counter_that_was_picked_whatever_a_second_look_says() {
        let timers = timers(i32::MAX);
        create(&timers).expect("there is room"); // this makes a table
        let numbers = &timers.inner.numbers;
        each(numbers).for_each(|counter| end_a_block(numbers, counter));
        for counter in each(numbers) {
            let ended = numbers.peek(counter).err().expect("its block has ended");
            let next = timers.take_block(ended);
            let again = numbers.peek(counter).ok().expect("there is a block");
            assert!(core::ptr::eq(next.counter, counter));
            assert_eq!((next.id, next.id % 64), (again.id, 0));
        }
    }

    #[test]
    fn one_collision_costs_one_id() {
        let timers = timers(i32::MAX);
        create(&timers).expect("there is room"); // this makes a table
        let numbers = &timers.inner.numbers;
        let next = numbers.peek_shared(numbers.pick());
        assert!(numbers.claim(next)); // as if another thread were faster
        // SAFETY: a timer of the store, which is valid as long as `timers`.
        let timer = unsafe { timers.take_timer().expect("there is room").as_ref() };
        let reserved = timers.reserve_another(timer, next, Inserted::Refused).expect("IDs are left");
        assert_eq!((next.id, reserved.id), (1, 2));
    }

    #[test]
    fn searches_begin_again_if_a_timer_was_removed_meanwhile() {
        let driver = Driver::with_clocks(Arc::new(NoTime)).expect("there is memory");
        let options = TimerOptions::new().max_timers(3);
        let timers = Timers::channel(&driver, options).expect("there is memory").0;
        let ids = [(); 2].map(|()| create(&timers).expect("one is left"));
        let Inner { ids: table, store, .. } = &*timers.inner;
        // SAFETY: a timer of the store, which is valid as long as `timers`.
        let free = unsafe { store.take_any().expect("one is left").as_ref() };
        let calls = core::cell::Cell::new(0);
        let found = table.take_free(|| {
            calls.set(calls.get() + 1);
            if calls.get() == 2 {
                timers.delete(ids[0]).expect("it is there");
                create(&timers).expect("its group keeps one"); // takes that one, so that the second search finds none
            }
            (calls.get() == 3).then_some(free)
        });
        assert!(found.is_some_and(|found| core::ptr::eq(found, free)));
    }

    #[test]
    fn last_free_id_is_found_from_every_counter() {
        let timers = timers(255);
        let ids: Vec<i32> = (0..256).map(|_| create(&timers).expect("one is left")).collect();
        assert_eq!(create(&timers), Err(Error::Again));
        // A thread that finds no free ID has tried each the same number of times, so the counter is where it was.
        assert_eq!(timers.inner.numbers.shared(), 0);
        for id in ids {
            let numbers = &timers.inner.numbers;
            each(numbers).for_each(|counter| end_a_block(numbers, counter));
            assert_eq!(create(&timers), Err(Error::Again));
            assert_eq!(timers.delete(id), Ok(()));
            assert_eq!(create(&timers), Ok(id));
        }
    }
}
