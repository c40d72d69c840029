//! Locking.

use core::pin::Pin;
use core::task::Poll;

use super::entry::{EntryRef, PiEntry, Purpose};
use super::graph::{LockId, TaskId};
use super::region::{Guard as Region, HomeRef, PiGraph};
use super::turns::Turns;
use super::waiter::{Left, PiWaiter, Seen};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::key::{Target, is_of_object};
use crate::futex::lock_word::{OWNER_DIED, TID_MASK, WAITERS};
use crate::futex::operation::block_on;
use crate::futex::operation::{Cause, Operation, PollReceiver, operation_is_a_future};
use crate::futex::place::Place;
use crate::futex::task::Task;
use crate::futex::timeout_watch::TimeoutWatch;
use crate::signal::Receiver;
use crate::signal::sleeper::Sleeper;
use crate::sync::{Mutant, mutant, spin_loop};
use crate::sys::clock::{Deadline, Timeout};
use crate::sys::mem::{Access, Fault, Faults, Width};
use crate::sys::unwind::{Otherwise, call};
use crate::table::bucket::Guard;
use crate::table::hash::Key;
use crate::table::refs::{Live, Scheme};

/// The future of [`Domain::lock_pi_async`]. If it is dropped before it is ready, it ends the wait, or unlocks the lock
/// that it has been handed.
#[must_use = "futures do nothing unless polled"]
pub struct LockPi<'d, 't, T: Target, S: Scheme = Live> {
    pub(super) domain: &'d Domain<S>,
    task: &'t Task,
    word: T,
    timeout: Option<Timeout>,
    watch: TimeoutWatch<'d>,
    is_done: bool,
    /// The word's hash, until the thread has spun, if the waiter was queued as the first one.
    spins: Option<u32>,
    waiter: PiWaiter<'d, 't, S>,
}

impl<S: Scheme> Domain<S> {
    /// Locks `word` for `task`, and blocks the calling thread until the task has the lock: `FUTEX_LOCK_PI2`. The word
    /// holds 0 while the lock is free, and its owner's TID otherwise.
    ///
    /// While the task waits, it lends its priority to the lock's owner. If the owner is itself blocked on a lock, that
    /// lock's owner gets the priority too, and so on ([`Scheduler`](crate::pi::Scheduler)).
    ///
    /// If the task is the lock's first waiter, the thread may spin for some tens of microseconds before it sleeps. It does
    /// not on a platform that was [given](crate::Config::platform), or if [`Config::cpus`](crate::Config::cpus) is 1.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// # use ufutex::{Domain, Error, System};
    /// let domain = Domain::new(&System::new());
    /// let task = domain.task(7)?;
    /// let word = AtomicU32::new(0);
    /// domain.lock_pi(&word, &task, None)?;
    /// assert_eq!(word.load(Relaxed), 7);
    /// assert_eq!(domain.lock_pi(&word, &task, None), Err(Error::Deadlock));
    /// domain.unlock_pi(&word, &task)?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::NoTask`], [`Error::NotPermitted`] and [`Error::Invalid`] where futex(2) has
    /// `EDEADLK`, `ESRCH`, `EPERM` and `EINVAL`. [`Error::Invalid`] also if a task of another
    /// [`PidNamespace`](crate::PidNamespace) waits for the lock, if the word is not of 32 bits, or if `task` belongs to
    /// another domain. [`Error::Fault`]; [`Error::TimedOut`]; [`Error::Interrupted`] by the task's interrupt;
    /// [`Error::Busy`] if the task is already waiting; [`Error::NoMemory`].
    #[inline]
    pub fn lock_pi<T: Target>(&self, word: T, task: &Task, timeout: Option<Timeout>) -> Result<(), Error> {
        if self.locked_at_once(&word, task) {
            return Ok(());
        }
        let deadline = timeout.map(|timeout| self.begin(timeout));
        let lock = core::pin::pin!(self.lock_pi_async(word, task));
        block_on(lock, self.platform(), &task.interrupt().sleeper, deadline.as_ref())
    }

    /// Like [`lock_pi`](Self::lock_pi), as a future.
    pub fn lock_pi_async<'d, 't, T: Target>(&'d self, word: T, task: &'t Task) -> LockPi<'d, 't, T, S> {
        LockPi {
            domain: self,
            task,
            word,
            timeout: None,
            watch: TimeoutWatch::new(),
            is_done: false,
            spins: None,
            waiter: PiWaiter::new(),
        }
    }

    /// Locks `word` for `task` if that needs no waiting: `FUTEX_TRYLOCK_PI`.
    ///
    /// # Errors
    /// [`Error::Again`] if the word is locked; `FUTEX_WAITERS` is then set in the word, as the kernel does it.
    /// Otherwise as for [`lock_pi`](Self::lock_pi).
    pub fn try_lock_pi<T: Target>(&self, word: T, task: &Task) -> Result<(), Error> {
        if self.locked_at_once(&word, task) {
            return Ok(());
        }
        self.check_lock(&word, task)?;
        let place = self.place(&word);
        let mut faults = Faults::default();
        let mut turns = Turns::new(&self.namespace().regions);
        loop {
            let mut locked = turns.bucket(|| self.lock_or_make(&place), || self.try_lock(&place));
            let attempt = self.try_acquire(&mut turns, &mut locked.guard, &place, &word, task);
            drop(locked);
            match attempt {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(Error::Again),
                Err(refused) => refused.resolve(&word, &mut faults, &mut turns)?,
            }
        }
    }

    /// Takes the lock of `word` for `task`. Returns `false` if the task would have to wait. The word's bucket, that of
    /// `place`, is locked.
    fn try_acquire<T: Target>(
        &self,
        turns: &mut Turns<'_>,
        bucket: &mut Guard<'_>,
        place: &Place,
        word: &T,
        task: &Task,
    ) -> Result<bool, Refused> {
        // The task will not wait, so its own region is not needed.
        let met = self.met(bucket, place, word, task.tid())?.unwrap_or(task.home());
        let mut region = turns.region(met, met)?;
        region.with(|g| {
            let Acquired::Contended(lock) =
                self.acquire(bucket, g, place, word, (task.id(), task.tid()), Others::Unknown)?
            else {
                return Ok(true);
            };
            let has_lock = g.owner(lock) == Some(task.id());
            g.drop_if_idle(lock);
            if has_lock {
                // [S6], but the task is not ending: the program has changed the word. The kernel repairs the word here.
                exchange(word, word.load32()?, task.tid() | WAITERS | OWNER_DIED)?;
            }
            Ok(false)
        })
    }

    /// Changes the word from 0 to the task's TID, as every program does before it calls futex(2). It does not if
    /// waiters are queued, because they may be of the wrong kind.
    #[inline]
    fn locked_at_once<T: Target>(&self, word: &T, task: &Task) -> bool {
        word.width() == Width::U32
            && task.belongs_to(self)
            && self.nobody_waits(&self.place(word))
            && matches!(word.compare_exchange32(0, task.tid()), Ok(Ok(_)))
    }

    pub(super) fn check_lock<T: Target>(&self, word: &T, task: &Task) -> Result<(), Error> {
        if word.width() == Width::U32 && task.belongs_to(self) { Ok(()) } else { Err(Error::Invalid) }
    }

    /// The home in whose region the word's lock is. If waiters are queued, it is the first one's home. Otherwise it is
    /// the home of the owner, if the word is in a shared object, whose owner may be another domain's task. `None` means
    /// that the task's own region is enough.
    ///
    /// If the first waiter belongs to another PID namespace, its region must not be locked. The error is then
    /// [`Error::Deadlock`] if the word names the caller, `tid`, and [`Error::Invalid`] otherwise. The word's bucket,
    /// that of `place`, is locked.
    pub(super) fn met<T: Target>(
        &self,
        bucket: &mut Guard<'_>,
        place: &Place,
        word: &T,
        tid: u32,
    ) -> Result<Option<HomeRef>, Refused> {
        let key = self.key(place);
        if let Some(first) = bucket.first(key, place.hash) {
            // SAFETY: queued, and the bucket is locked.
            let home = unsafe { EntryRef::of(first).map(|entry| entry.get().home) };
            if home.is_none_or(|home| self.is_of_namespace(home)) {
                return Ok(home);
            }
            let is_own = tid != 0 && word.load32()? & TID_MASK == tid;
            return Err(if is_own { Error::Deadlock } else { Error::Invalid }.into());
        }
        if !is_of_object(key) {
            return Ok(None);
        }
        let owner = word.load32()? & TID_MASK;
        Ok(if owner == 0 || owner == tid { None } else { self.home_of(owner) })
    }

    /// Locks a region that contains the task's home and the home that the task has [`met`](Self::met) at the word of
    /// `place`. The word's bucket is locked.
    fn region_with<'s, T: Target>(
        &'s self,
        turns: &mut Turns<'s>,
        bucket: &mut Guard<'_>,
        place: &Place,
        word: &T,
        task: &Task,
    ) -> Result<Region<'s>, Refused> {
        let met = self.met(bucket, place, word, task.tid())?.unwrap_or(task.home());
        turns.region(task.home(), met)
    }

    /// Takes the lock of `word` for the task with this TID, or finds the lock that the task has to wait for, by the
    /// table in `pi`. The word's bucket, that of `place`, is locked, and so is the region of the home that
    /// [`met`](Self::met) returns.
    ///
    pub(super) fn acquire<T: Target>(
        &self,
        bucket: &mut Guard<'_>,
        graph: &mut PiGraph,
        place: &Place,
        word: &T,
        (task, tid): (TaskId<EntryRef>, u32),
        others: Others,
    ) -> Result<Acquired, Refused> {
        let value = word.load32()?;
        if value & TID_MASK == tid {
            return Err(Error::Deadlock.into());
        }
        let key = self.key(place);
        if let Some(first) = bucket.first(key, place.hash) {
            // SAFETY: queued, and the bucket is locked.
            return unsafe { check_state(graph, first, value) }.map(Acquired::Contended);
        }
        if value & TID_MASK == 0 {
            // [S1]. If the lock has to be in the graph, it is added before the word is written, because that may need
            // memory.
            let new = value & OWNER_DIED | tid;
            if others == Others::Unknown {
                return exchange(word, value, new).map(|()| Acquired::Owned(None));
            }
            let lock = graph.add_lock(task)?;
            let forget = Otherwise::new(|| graph.drop_if_idle(lock));
            exchange(word, value, new | WAITERS)?;
            forget.disarm();
            return Ok(Acquired::Owned(Some(lock)));
        }
        // [S2]. From here on the owner cannot unlock without the engine.
        let waiters = if mutant(Mutant::LockHidesWaiter) { 0 } else { WAITERS };
        exchange(word, value, value | waiters)?;
        let Some(owner) = self.find_owner(graph, key, value & TID_MASK, task)? else {
            // The owner may have just ended, and its robust list changed the word.
            return Err(if word.load32()? == value | WAITERS { Error::NoTask.into() } else { Refused::Retry });
        };
        if graph.is_kernel(owner) {
            return Err(Error::NotPermitted.into());
        }
        Ok(Acquired::Contended(graph.add_lock(owner)?))
    }

    /// The task that a word names, in the domain's PID namespace. In memory that only the domain maps, no task of
    /// another domain is found.
    fn find_owner(
        &self,
        graph: &PiGraph,
        key: Key,
        tid: u32,
        task: TaskId<EntryRef>,
    ) -> Result<Option<TaskId<EntryRef>>, Refused> {
        if !is_of_object(key) {
            return Ok(graph.find(task.part(), tid));
        }
        match self.home_of(tid) {
            None => Ok(None),
            Some(home) if graph.has(home.number()) => Ok(graph.find(home.number(), tid)),
            // The word has changed since the region of its former owner was locked.
            Some(_) => Err(Refused::Retry),
        }
    }
}

/// What is known of other tasks when a task takes a free lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Nothing: the task's TID in the word is enough.
    Unknown,
    /// Another task is about to wait for the lock. It is taken with [`WAITERS`] set, and added to the graph.
    AboutToWait,
}

/// The result of [`Domain::acquire`].
#[derive(Clone, Copy)]
pub(super) enum Acquired {
    /// The task has the lock. `Some` if the lock was added to the graph, as with [`Others::AboutToWait`].
    Owned(Option<LockId<EntryRef>>),
    /// The task has to wait for this lock. If it does not wait in the end, call [`Graph::drop_if_idle`].
    Contended(LockId<EntryRef>),
}

/// Why an attempt has failed. The operation goes on with [`resolve`](Self::resolve).
#[derive(Debug)]
pub(super) enum Refused {
    /// The word has to be faulted in, with no lock held.
    Fault,
    /// The word changed meanwhile.
    Retry,
    /// Another thread holds the region of this home.
    Busy(HomeRef),
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Fault> for Refused {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

impl Refused {
    /// Prepares another attempt, or returns the error that ends the operation. No lock is held except by `turns`.
    pub fn resolve<T: Target>(self, word: &T, faults: &mut Faults, turns: &mut Turns<'_>) -> Result<(), Error> {
        turns.unlock_region();
        match self {
            Self::Busy(home) => {
                turns.wait_for(home);
                Ok(())
            }
            Self::Fault => Ok(faults.resolve(|| word.fault_in(Access::Write))?),
            Self::Retry => {
                // Another operation has changed the word and so made progress. There is no lock to wait for.
                spin_loop();
                Ok(())
            }
            Self::Error(error) => Err(error),
        }
    }
}

fn exchange<T: Target>(word: &T, current: u32, new: u32) -> Result<(), Refused> {
    match word.compare_exchange32(current, new)? {
        Ok(_) => Ok(()),
        Err(_) => Err(Refused::Retry),
    }
}

/// The lock that `first` waits for, if the state is valid: [S3] to [S10], in which a waiter is queued. The word holds
/// `value`.
///
/// # Safety
/// `first` is queued, and its bucket locked.
unsafe fn check_state(
    graph: &PiGraph,
    first: core::ptr::NonNull<crate::table::list::Node>,
    value: u32,
) -> Result<LockId<EntryRef>, Refused> {
    // SAFETY: the caller guarantees that it is queued, and its bucket locked.
    let purpose = unsafe { EntryRef::of(first).map(|entry| entry.get().purpose()) };
    let Some(Purpose::Lock(lock)) = purpose else {
        return Err(Error::Invalid.into()); // [S3]
    };
    let (tid, has_died) = (value & TID_MASK, value & OWNER_DIED != 0);
    let is_valid = match graph.owner(lock) {
        None => has_died && tid == 0,                                     // [S4]; not [S5], [S7]
        Some(owner) => tid == graph.tid(owner) || (has_died && tid == 0), // [S8], [S6]; not [S9], [S10]
    };
    if is_valid { Ok(lock) } else { Err(Error::Invalid.into()) }
}

impl<T: Target, S: Scheme> LockPi<'_, '_, T, S> {
    /// Ends the wait with [`Error::TimedOut`] when `timeout` has passed. A relative timeout begins with the first poll.
    /// The namespace's [`driver`](crate::PidNamespace::driver) watches it.
    ///
    /// The future returns [`Error::NoMemory`] if there is no memory for the timeout, and [`Error::Invalid`] if there
    /// are no clocks: without `std` and without an embedder's [`clocks`](crate::Config::clocks).
    pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
        self.timeout = Some(timeout.into());
        self
    }

    fn watched_timeout(&self) -> Option<Timeout> {
        self.timeout
    }
}

operation_is_a_future!(['d, 't, T: Target, S: Scheme] LockPi<'d, 't, T, S> => ());

impl<T: Target, S: Scheme> Operation for LockPi<'_, '_, T, S> {
    type Output = ();

    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        // SAFETY: `waiter` is the one field that must stay in place, and is not moved out of.
        let this = unsafe { self.get_unchecked_mut() };
        if !this.waiter.is_busy() {
            return this.begin(receiver);
        }
        match this.waiter.look(receiver) {
            Seen::Waiting => Poll::Pending,
            Seen::Locked => Poll::Ready(Ok(())),
            Seen::Heir => Poll::Ready(this.waiter.put_word_right(&this.word)),
        }
    }

    fn spin(self: Pin<&mut Self>, sleeper: &Sleeper, deadline: Option<&Deadline>) {
        // SAFETY: as in `poll_for`.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(hash) = this.spins.take() {
            this.spin_for(hash, sleeper, deadline);
        }
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<(), Error> {
        // SAFETY: as in `poll_for`.
        let this = unsafe { self.get_unchecked_mut() };
        match this.waiter.leave() {
            Left::Unrequeued | Left::Unlocked => Err(cause.into()),
            Left::Locked if mutant(Mutant::TimeoutLosesWake) => Err(cause.into()),
            Left::Locked => Ok(()),
            Left::Heir => this.waiter.put_word_right(&this.word),
        }
    }
}

impl<T: Target, S: Scheme> LockPi<'_, '_, T, S> {
    fn begin(&mut self, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        match self.try_begin(receiver) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Takes the lock or queues the waiter. Returns whether the task has the lock already.
    fn try_begin(&mut self, receiver: PollReceiver<'_>) -> Result<bool, Error> {
        let domain = self.domain;
        domain.check_lock(&self.word, self.task)?;
        let place = domain.place(&self.word);
        let mut faults = Faults::default();
        // Cloned before a lock is taken and dropped after all are released, because a waker's clone and drop run an
        // embedder's code.
        let mut receiver = Some(receiver.for_entry());
        let mut turns = Turns::new(&domain.namespace().regions);
        loop {
            let mut new_chain = None;
            let mut locked = turns.bucket(|| domain.lock_or_make(&place), || domain.try_lock(&place));
            let region = domain.region_with(&mut turns, &mut locked.guard, &place, &self.word, self.task);
            let attempt = region.and_then(|mut region| {
                region.with(|g| self.lock_or_queue(&mut locked.guard, g, &place, &mut receiver, &mut new_chain))
            });
            drop(locked);
            match attempt {
                Ok(has_lock) => {
                    let _reported = Otherwise::new(|| domain.system.report_priorities(self.task.home()));
                    if has_lock {
                        self.waiter.release();
                    } else {
                        domain.note_queued(&place);
                    }
                    domain.note_lock_waiter(new_chain, &place);
                    return Ok(has_lock);
                }
                Err(refused) => {
                    self.waiter.release();
                    refused.resolve(&self.word, &mut faults, &mut turns)?;
                }
            }
        }
    }
}

impl<T: Target, S: Scheme> LockPi<'_, '_, T, S> {
    /// Takes the lock, or queues the waiter for it. Returns whether the task has the lock. The word's bucket is locked,
    /// and so is a region with the homes of all tasks that take part.
    fn lock_or_queue(
        &mut self,
        bucket: &mut Guard<'_>,
        graph: &mut PiGraph,
        place: &Place,
        receiver: &mut Option<Receiver>,
        new_chain: &mut Option<u32>,
    ) -> Result<bool, Refused> {
        let (domain, task) = (self.domain, self.task.id());
        let lock = match domain.acquire(bucket, graph, place, &self.word, (task, self.task.tid()), Others::Unknown)? {
            Acquired::Owned(_) => return Ok(true),
            Acquired::Contended(lock) => lock,
        };
        if let Err(error) = PiWaiter::admit(domain, self.task, bucket) {
            graph.drop_if_idle(lock);
            return Err(Refused::Error(error));
        }
        let priority = self.task.own_priority().level();
        // Moved into the entry. On an error, the value that is left is dropped with no lock held, since dropping a
        // waker runs an embedder's code.
        let receiver = receiver.take().unwrap_or(Receiver::TAKEN);
        let key = domain.key(place);
        let entry = PiEntry::new(key, place.hash, priority, receiver, self.task.home(), Purpose::Lock(lock));
        let entry = self.waiter.set(domain, self.task, entry);
        // SAFETY: not queued yet, so no other thread reaches it.
        unsafe { entry.get().entry.set_since(domain.system.now()) };
        if let Err(error) = graph.block(task, lock, entry) {
            let has_lock = graph.owner(lock) == Some(task);
            graph.drop_if_idle(lock);
            // [S6], after the program has changed the word: the kernel finds a deadlock, and then that the task has the
            // lock.
            return if has_lock { Ok(true) } else { Err(Refused::Error(error)) };
        }
        // SAFETY: new and not queued; it stays in place until it has left queue and graph.
        *new_chain = unsafe { bucket.insert(entry.node()) };
        self.spins = (graph.first_waiter(lock) == Some(task)).then_some(place.hash);
        Ok(false)
    }
}

impl<T: Target, S: Scheme> Drop for LockPi<'_, '_, T, S> {
    fn drop(&mut self) {
        if !self.waiter.is_busy() || self.domain.system.is_abandoned() {
            return;
        }
        match self.waiter.leave() {
            Left::Unrequeued | Left::Unlocked => {}
            Left::Locked => call(|| self.domain.give_back(&self.word, self.task)),
            Left::Heir => self.waiter.renounce(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;
    use crate::pi::Priority;
    use core::pin::pin;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn only_a_waiter_that_is_first_spins() {
        let domain = Domain::new(&System::new());
        let [owner, first, second, urgent] = [1, 2, 3, 4].map(|tid| domain.task(tid).expect("the TID is free"));
        urgent.set_priority(Priority::realtime(1));
        let word = AtomicU32::new(0);
        assert_eq!(domain.lock_pi(&word, &owner, None), Ok(()));
        let sleeper = Sleeper::new();
        let is_to_spin = |mut waiter: Pin<&mut LockPi<'_, '_, &AtomicU32>>| {
            assert!(waiter.as_mut().poll_for(PollReceiver::Thread(&sleeper)).is_pending());
            let is_to_spin = waiter.spins.is_some();
            waiter.as_mut().spin(&sleeper, None);
            assert!(waiter.spins.is_none(), "it spins once");
            is_to_spin
        };
        let mut waiters = pin!([&first, &second, &urgent].map(|task| domain.lock_pi_async(&word, task)));
        // SAFETY: the array is pinned.
        let mut at = |i: usize| is_to_spin(unsafe { waiters.as_mut().map_unchecked_mut(|all| &mut all[i]) });
        assert!(at(0));
        assert!(!at(1), "another waiter came first");
        assert!(at(2), "its priority puts it first");
    }
}
