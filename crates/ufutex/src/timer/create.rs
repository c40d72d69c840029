//! Makes a timer: takes an ID and memory, and publishes the timer when its caller agrees.

use core::ptr::NonNull;

use super::entry::Timer;
use super::lookup::valid_id;
use super::store::Shard;
use super::{Notify, TimerClock, Timers, TimersInner};
use crate::error::Error;
use crate::sync::Ordering;
use crate::sys::unwind::Otherwise;

const SIGALRM: i32 = 14;
const LAST_SIGNAL: i32 = 64;

/// A create gives up after this many rounds, and two more for each ID in use that it has passed over: others are always faster.
const ROUNDS: u64 = 1024;

impl Timers {
    /// Makes a timer, not set yet: timer_create(2). Returns its ID. Without `notify` it sends `SIGALRM` with the ID as the
    /// value.
    ///
    /// IDs are consecutive, pass over those in use, and begin again at 0 after 2^31. A timer that could not be made may have
    /// used up its ID. If several threads make timers at the same time, each gets up to 64 IDs in a row.
    ///
    /// # Errors
    /// [`Error::Again`]: [the limit](super::TimerOptions::max_timers) is reached, no free ID was found, or there is no memory.
    /// A thread that makes timers alone finds a free ID if there is one. If others make timers meanwhile, it gives up after
    /// twice as many IDs as there is memory for timers, and at least 16,384, or when others are always faster.
    /// [`Error::Invalid`]: the signal is not from 1 to 64, or the thread or process does not exist.
    pub fn create(&self, clock: TimerClock, notify: Option<Notify>) -> Result<i32, Error> {
        self.make(None, Ok(clock), notify, |_| Ok(()))
    }

    /// Makes a timer with this ID, as when a checkpoint is restored. Later IDs follow this one.
    ///
    /// # Errors
    /// As for [`create`](Self::create); [`Error::Busy`]: the ID is in use; [`Error::Invalid`]: the ID is negative or too high.
    pub fn create_as(&self, id: i32, clock: TimerClock, notify: Option<Notify>) -> Result<i32, Error> {
        self.make(Some(id), Ok(clock), notify, |_| Ok(()))
    }

    /// As in the kernel, the ID is used up if the signal is wrong, `tell` fails or the clock is wrong, in this order.
    #[inline(always)]
    pub(crate) fn make(
        &self,
        requested: Option<i32>,
        clock: Result<TimerClock, Error>,
        notify: Option<Notify>,
        tell: impl FnOnce(i32) -> Result<(), Error>,
    ) -> Result<i32, Error> {
        let (timer, id) = match requested {
            Some(id) => self.reserve_as(id)?,
            None => self.reserve()?,
        };
        let notify = notify.unwrap_or(Notify::Signal { signal: SIGALRM, value: id.into() });
        let abandon = Otherwise::new(|| self.abandon(timer, id));
        let (signal, value, thread) = notify.parts();
        let is_signal = (1..=LAST_SIGNAL).contains(&signal) || notify == Notify::None;
        if !is_signal || thread.is_some_and(|thread| !self.inner.deliver.has_thread(thread)) {
            return Err(Error::Invalid);
        }
        tell(id as i32)?;
        let clock = clock?;
        if let TimerClock::Cpu(of) = clock {
            self.inner.driver.inner.cpu_time(of).ok_or(Error::Invalid)?;
            self.inner.cpu_timers.fetch_add(1, Ordering::Relaxed);
        }
        abandon.disarm();
        // SAFETY: the timer is this call's alone until it is published.
        unsafe { timer.fill(clock, signal as u8, value, thread) };
        timer.publish(id, 0);
        Ok(id as i32)
    }

    #[inline(always)]
    fn reserve(&self) -> Result<Reserved<'_>, Error> {
        let store = &self.inner.store;
        let (mut shard, own) = store.pick();
        let mut free = None;
        let (mut rounds, mut passed) = (0, 0);
        loop {
            'again: {
                let Some(mut held) = store.hold_as_seen(shard, shard.peek()) else {
                    shard = own;
                    break 'again;
                };
                let Some(taken) = free.or_else(|| held.take()) else {
                    drop(held);
                    free = Some(self.bring(shard)?);
                    break 'again;
                };
                free = Some(taken);
                let Some(id) = held.next_id() else {
                    held.take_block();
                    break 'again;
                };
                // SAFETY: valid as long as `self`, whose store it is in.
                let timer = unsafe { taken.as_ref() };
                let is_inserted = held.group.insert(timer, id);
                held.pass(id);
                if is_inserted {
                    return Ok((timer, id));
                }
                passed += 1;
            }
            rounds += 1;
            // No ID is free, or other threads are always faster.
            if passed >= store.passes_max() || rounds > 2 * passed + ROUNDS {
                free.into_iter().for_each(|timer| store.give_back(timer, 0));
                return Err(Error::Again);
            }
        }
    }

    /// A free timer, for a thread that has found none in `shard`. The first time it starts the driver.
    #[cold]
    #[inline(never)]
    fn bring(&self, shard: &Shard) -> Result<NonNull<Timer>, Error> {
        let TimersInner { store, deliver, driver, .. } = &*self.inner;
        store.bring(shard, |timers| driver.start().and_then(|()| deliver.reserve(timers)))
    }

    #[cold]
    #[inline(never)]
    fn reserve_as(&self, id: i32) -> Result<Reserved<'_>, Error> {
        let store = &self.inner.store;
        let id = valid_id(id)?;
        if id > store.mask {
            return Err(Error::Invalid);
        }
        let (shard, _) = store.pick();
        // As in the kernel, `Again` at the limit comes before `Busy`.
        let taken = store.hold(shard).take();
        let free = taken.map_or_else(|| self.bring(shard), Ok)?;
        // SAFETY: as in `reserve`.
        let timer = unsafe { free.as_ref() };
        if !store.ids.lock(id).insert(timer, id) {
            store.give_back(free, id);
            return Err(Error::Busy);
        }
        store.jump_behind(id);
        Ok((timer, id))
    }

    /// Refuses the host's CPU-time clocks without [`TimerOptions::host_pids`](super::TimerOptions::host_pids).
    pub(crate) fn check_served(&self, clock: TimerClock) -> Result<TimerClock, Error> {
        let is_served = self.inner.serves_cpu_clocks || !matches!(clock, TimerClock::Cpu(_));
        if is_served { Ok(clock) } else { Err(Error::Invalid) }
    }
}

/// A timer that is being made and cannot be found yet, and its ID.
type Reserved<'t> = (&'t Timer, u32);

#[cfg(all(test, feature = "std", not(ufutex_random_hints)))]
mod tests {
    use super::*;
    use crate::expiry::{Base, Clocks, Driver};
    use crate::timer::TimerOptions;
    use alloc::sync::Arc;
    use core::time::Duration;

    struct NoTime;

    impl Clocks for NoTime {
        fn now(&self, _: Base) -> Duration {
            Duration::ZERO
        }

        fn changed(&self) {}
    }

    fn timers(options: TimerOptions) -> Timers {
        let driver = Driver::with_clocks(Arc::new(NoTime)).expect("there is memory");
        Timers::channel(&driver, options).expect("there is memory").0
    }

    fn create(timers: &Timers) -> Result<i32, Error> {
        timers.create(TimerClock::Monotonic, Some(Notify::None))
    }

    /// All calls in `test` have one `thread_hint`: their frames lie in the upper quarter of a block of 64 KiB.
    #[inline(never)]
    fn in_one_block(test: &dyn Fn()) {
        let frame = core::hint::black_box([0u8; 512]);
        if frame.as_ptr().addr() >> 14 & 3 == 3 {
            test()
        } else {
            in_one_block(test)
        }
        core::hint::black_box(&frame);
    }

    /// The calling thread's own shard has a block of IDs, as if it had lost one to another thread.
    fn after_a_meeting() -> Timers {
        let timers = timers(TimerOptions::new());
        assert_eq!(create(&timers), Ok(0));
        let store = &timers.inner.store;
        store.hold(store.own_shard()).take_block();
        timers
    }

    #[test]
    fn thread_that_is_alone_after_its_block_goes_back_to_the_common_shard() {
        in_one_block(&|| {
            let timers = after_a_meeting();
            assert!((64..128).all(|id| create(&timers) == Ok(id)));
            assert!((1..64).all(|id| create(&timers) == Ok(id)));
            assert!((128..300).all(|id| create(&timers) == Ok(id)));
        });
    }

    #[test]
    fn thread_that_is_not_alone_has_one_block_after_another() {
        in_one_block(&|| {
            let timers = after_a_meeting();
            let store = &timers.inner.store;
            for block in [1, 3, 5] {
                store.hold(store.other_shard()).take_block(); // another thread's
                assert!((64 * block..64 * (block + 1)).all(|id| create(&timers) == Ok(id)), "block {block}");
            }
        });
    }

    #[test]
    fn ids_that_jump_void_all_blocks() {
        in_one_block(&|| {
            let timers = after_a_meeting();
            assert_eq!([create(&timers), create(&timers)], [Ok(64), Ok(65)]);
            assert_eq!(timers.create_as(1000, TimerClock::Monotonic, None), Ok(1000));
            assert!((1001..1100).all(|id| create(&timers) == Ok(id)));
        });
    }

    /// A shard without IDs passes to the group of the timer that it takes back.
    #[test]
    fn own_shard_that_takes_a_timer_back_keeps_its_ids() {
        in_one_block(&|| {
            let timers = timers(TimerOptions::new());
            assert!((0..=128).all(|id| create(&timers) == Ok(id)));
            let store = &timers.inner.store;
            // Neither the common shard, at 129, nor this thread's own belongs to the group of 70.
            assert_eq!(timers.delete(70), Ok(()));
            assert_eq!(store.own_shard().peek(), 70);
            store.hold(store.own_shard()).take_block();
            assert_eq!([create(&timers), timers.delete(71).map(|()| 71)], [Ok(192), Ok(71)]);
            assert_eq!([create(&timers), create(&timers)], [Ok(193), Ok(194)]);
        });
    }

    #[test]
    fn shard_is_held_as_it_was_seen_or_not_at_all() {
        in_one_block(&|| {
            let timers = after_a_meeting();
            let store = &timers.inner.store;
            let shard = store.pick().0;
            let seen = shard.peek();
            assert!(store.hold_as_seen(shard, seen).is_some());
            assert_eq!(create(&timers), Ok(64));
            assert!(store.hold_as_seen(shard, seen).is_none(), "another thread has taken the ID");
        });
    }

    #[test]
    fn full_range_of_ids_keeps_the_next_one() {
        for max_id in [0, 7, 63, 255] {
            let timers = timers(TimerOptions::new().max_id(max_id));
            assert!((0..=max_id).all(|id| create(&timers) == Ok(id)));
            assert_eq!(timers.delete(max_id / 2), Ok(()));
            assert_eq!(create(&timers), Ok(max_id / 2));
            for freed in [0, max_id] {
                assert_eq!(create(&timers), Err(Error::Again), "IDs up to {max_id}");
                [freed, max_id / 2].into_iter().for_each(|id| _ = timers.delete(id));
                let first = if freed > max_id / 2 {
                    freed
                } else if max_id > 0 {
                    0
                } else {
                    freed
                };
                assert_eq!(create(&timers), Ok(first), "IDs up to {max_id}");
                while create(&timers).is_ok() {}
            }
        }
    }

    #[test]
    fn permits_and_timers_of_other_shards_are_found() {
        in_one_block(&|| {
            const LIMIT: usize = 1 << 16;
            let timers = timers(TimerOptions::new().max_timers(LIMIT));
            let store = &timers.inner.store;
            assert!((0..LIMIT).all(|_| create(&timers).is_ok()));
            assert_eq!(create(&timers), Err(Error::Again));
            let bytes = timers.bytes();
            for id in 0..1000 {
                let group = store.ids.lock(id);
                let (timer, _) = store.ids.find(store.ids.position(id), id).expect("it was made");
                timer.invalidate_as(id);
                group.remove(timer);
                drop(group);
                store.hold(store.other_shard()).give_back(timer.into());
            }
            assert_eq!(timers.count(), LIMIT - 1000);
            assert!((0..1000).all(|_| create(&timers).is_ok()));
            assert_eq!((create(&timers), timers.count()), (Err(Error::Again), LIMIT));
            assert!(timers.bytes() <= bytes + 8192, "no more than a chunk");
        });
    }
}
