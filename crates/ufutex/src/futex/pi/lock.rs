//! Locking.

use core::pin::Pin;
use core::task::Poll;

use super::entry::{EntryRef, PiEntry, Purpose};
use super::graph::{Graph, LockId, TaskId};
use super::task::Task;
use super::waiter::{Left, PiWaiter, Seen};
use super::{OWNER_DIED, TID_MASK, WAITERS};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::key::{Target, is_of_object};
use crate::futex::limit::Limit;
#[cfg(feature = "std")]
use crate::futex::operation::block_on;
use crate::futex::operation::{By, Cause, Operation, operation_is_a_future};
use crate::sync::{Mutant, mutant, spin_loop};
use crate::sys::clock::Timeout;
use crate::sys::mem::{Access, Fault, Faults, Width};
use crate::table::bucket::Guard;
use crate::table::hash::Key;
use crate::table::layout::{Layout, Lean};
use crate::table::refs::{Live, Scheme};
use crate::wait::Told;

/// The future of [`Domain::lock_pi_async`]. Dropped before it is ready it takes back the wait, or the lock.
#[must_use = "futures do nothing unless polled"]
pub struct LockPi<'d, 't, T: Target, S: Scheme<L> = Live, L: Layout = Lean> {
    domain: &'d Domain<S, L>,
    task: &'t Task<L>,
    word: T,
    timeout: Option<Timeout>,
    limit: Limit<'d>,
    is_done: bool,
    waiter: PiWaiter<'d, 't, S, L>,
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Locks `word` for `task`, and blocks the calling thread until that is done: `FUTEX_LOCK_PI2`. The word holds 0
    /// when free, and its owner's TID otherwise.
    ///
    /// While the task waits, the owner runs with at least its priority, and so does whom the owner waits for
    /// ([`Scheduler`](crate::Scheduler)).
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
    /// [`Error::Deadlock`], [`Error::NoTask`], [`Error::NotPermitted`], [`Error::Invalid`] as in the table of
    /// futex(2)'s states, and when the word is not of 32 bits or the task of another domain; [`Error::Fault`];
    /// [`Error::TimedOut`]; [`Error::Interrupted`] by the task's interrupt; [`Error::Busy`] when the task waits
    /// elsewhere; [`Error::NoMemory`].
    #[cfg(feature = "std")]
    #[inline]
    pub fn lock_pi<T: Target>(&self, word: T, task: &Task<L>, timeout: Option<Timeout>) -> Result<(), Error> {
        if self.locked_at_once(&word, task) {
            return Ok(());
        }
        let deadline = timeout.map(|timeout| timeout.begin());
        let lock = core::pin::pin!(self.lock_pi_async(word, task));
        block_on(lock, &task.interrupt().sleeper, deadline.as_ref())
    }

    /// As [`lock_pi`](Self::lock_pi), as a task of some executor.
    pub fn lock_pi_async<'d, 't, T: Target>(&'d self, word: T, task: &'t Task<L>) -> LockPi<'d, 't, T, S, L> {
        LockPi { domain: self, task, word, timeout: None, limit: Limit::new(), is_done: false, waiter: PiWaiter::new() }
    }

    /// Locks `word` for `task` if that needs no waiting: `FUTEX_TRYLOCK_PI`.
    ///
    /// # Errors
    /// [`Error::Again`] when it is locked; then `FUTEX_WAITERS` is set in the word, as the kernel does it. Otherwise as
    /// for [`lock_pi`](Self::lock_pi).
    pub fn try_lock_pi<T: Target>(&self, word: T, task: &Task<L>) -> Result<(), Error> {
        if self.locked_at_once(&word, task) {
            return Ok(());
        }
        self.check_lock(&word, task)?;
        let place = self.hashed(&word);
        let mut faults = Faults::default();
        loop {
            let mut locked = self.lock_or_make(&place);
            let key = self.key(place.address, place.shared_space);
            let attempt = self.system.graph().lock().with(|g| {
                let attempt = self.acquire(&mut locked.guard, g, key, &word, task.id(), false);
                if let Ok(Acquired::Contended(lock)) = attempt {
                    let is_ours = g.owner(lock) == Some(task.id());
                    g.drop_if_idle(lock);
                    if is_ours {
                        // [S6], by somebody else's hand: it is not ending. The kernel puts that right here.
                        exchange(&word, word.load32()?, task.tid() | WAITERS | OWNER_DIED)?;
                    }
                }
                attempt
            });
            drop(locked);
            match attempt {
                Ok(Acquired::Owned(_)) => return Ok(()),
                Ok(Acquired::Contended(_)) => return Err(Error::Again),
                Err(refused) => refused.resolve(&word, &mut faults)?,
            }
        }
    }

    /// What every program does itself before it calls futex(2): from 0 to the task's TID. Not when somebody is queued,
    /// who may be of the wrong kind.
    #[inline]
    fn locked_at_once<T: Target>(&self, word: &T, task: &Task<L>) -> bool {
        word.width() == Width::U32
            && task.belongs_to(self)
            && self.nobody_waits(&self.hashed(word))
            && matches!(word.compare_exchange32(0, task.tid()), Ok(Ok(_)))
    }

    pub(super) fn check_lock<T: Target>(&self, word: &T, task: &Task<L>) -> Result<(), Error> {
        if word.width() == Width::U32 && task.belongs_to(self) { Ok(()) } else { Err(Error::Invalid) }
    }

    /// Takes the lock of `word` for `task`, or finds whom to wait for: what the table in `pi` says. The bucket of `key`,
    /// which is the word's, and the graph are locked.
    ///
    /// With `sets_waiters` a lock that is free is taken with [`WAITERS`] set, and stands in the graph: somebody is
    /// about to wait for it.
    pub(super) fn acquire<T: Target>(
        &self,
        bucket: &mut Guard<'_, L>,
        graph: &mut Graph<EntryRef>,
        key: Key,
        word: &T,
        task: TaskId<EntryRef>,
        sets_waiters: bool,
    ) -> Result<Acquired, Refused> {
        let value = word.load32()?;
        if value & TID_MASK == graph.tid(task) {
            return Err(Error::Deadlock.into());
        }
        if let Some(first) = bucket.first(key) {
            // SAFETY: queued, and the bucket is locked.
            return unsafe { check_state(graph, first, value) }.map(Acquired::Contended);
        }
        if value & TID_MASK == 0 {
            // [S1]. With room in the graph, if it has to stand there, before the word is written.
            let lock = if sets_waiters { Some(graph.add_lock(task)?) } else { None };
            let waiters = if sets_waiters { WAITERS } else { 0 };
            let taken = exchange(word, value, value & OWNER_DIED | graph.tid(task) | waiters);
            if let (Err(_), Some(lock)) = (&taken, lock) {
                graph.drop_if_idle(lock);
            }
            return taken.map(|()| Acquired::Owned(lock));
        }
        // [S2]. From here on the owner cannot unlock without us.
        let waiters = if mutant(Mutant::LockHidesWaiter) { 0 } else { WAITERS };
        exchange(word, value, value | waiters)?;
        // In memory that only this domain maps, another domain's task is not to be found.
        let space = (!is_of_object(key)).then_some(self.tables.space);
        let Some(owner) = graph.find(value & TID_MASK, space) else {
            // Perhaps it has ended a moment ago, and its robust list has changed the word.
            return Err(if word.load32()? == value | WAITERS { Error::NoTask.into() } else { Refused::Retry });
        };
        if graph.is_kernel(owner) {
            return Err(Error::NotPermitted.into());
        }
        Ok(Acquired::Contended(graph.add_lock(owner)?))
    }
}

/// What [`Domain::acquire`] came to.
#[derive(Clone, Copy)]
pub(super) enum Acquired {
    /// The task has it. It stands in the graph if it was to.
    Owned(Option<LockId<EntryRef>>),
    /// This is what to wait for; if nobody does in the end, see [`Graph::drop_if_idle`].
    Contended(LockId<EntryRef>),
}

/// Why an attempt has failed.
#[derive(Debug)]
pub(super) enum Refused {
    /// The word cannot be reached with locks held.
    Fault,
    /// It changed meanwhile.
    Retry,
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
    /// With no lock held: makes another attempt worthwhile, or says why it is not.
    pub fn resolve<T: Target>(self, word: &T, faults: &mut Faults) -> Result<(), Error> {
        match self {
            Self::Fault => Ok(faults.resolve(|| word.fault_in(Access::Write))?),
            Self::Retry => {
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

/// [S3] to [S10]: somebody is queued, and the word holds `value`.
///
/// # Safety
/// `first` is queued, and its bucket locked.
unsafe fn check_state(
    graph: &Graph<EntryRef>,
    first: core::ptr::NonNull<crate::table::list::Node>,
    value: u32,
) -> Result<LockId<EntryRef>, Refused> {
    // SAFETY: says the caller.
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

impl<T: Target, S: Scheme<L>, L: Layout> LockPi<'_, '_, T, S, L> {
    /// Has the wait end with [`Error::TimedOut`] then; a length of time begins with the first poll. The system's
    /// [`driver`](crate::System::driver) watches it.
    ///
    /// The future answers [`Error::NoMemory`] without memory for that, and [`Error::Invalid`] where there is no time:
    /// without `std` and an embedder's [`clocks`](crate::Config::clocks).
    pub fn timeout(mut self, timeout: Timeout) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn watched_timeout(&self) -> Option<Timeout> {
        self.timeout
    }
}

operation_is_a_future!(['d, 't, T: Target, S: Scheme<L>, L: Layout] LockPi<'d, 't, T, S, L> => ());

impl<T: Target, S: Scheme<L>, L: Layout> Operation for LockPi<'_, '_, T, S, L> {
    type Output = ();

    fn poll_by(self: Pin<&mut Self>, by: By<'_>) -> Poll<Result<(), Error>> {
        // SAFETY: `waiter` is the one field that must stay in place, and is not moved out of.
        let this = unsafe { self.get_unchecked_mut() };
        if !this.waiter.is_busy() {
            return this.begin(by);
        }
        match this.waiter.look(by) {
            Seen::Waiting => Poll::Pending,
            Seen::Locked => Poll::Ready(Ok(())),
            Seen::Heir => Poll::Ready(this.waiter.put_word_right(&this.word)),
        }
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<(), Error> {
        // SAFETY: as in `poll_by`.
        let this = unsafe { self.get_unchecked_mut() };
        match this.waiter.leave() {
            Left::Unrequeued | Left::Unlocked => Err(cause.into()),
            Left::Locked if mutant(Mutant::TimeoutLosesWake) => Err(cause.into()),
            Left::Locked => Ok(()),
            Left::Heir => this.waiter.put_word_right(&this.word),
        }
    }
}

impl<T: Target, S: Scheme<L>, L: Layout> LockPi<'_, '_, T, S, L> {
    fn begin(&mut self, by: By<'_>) -> Poll<Result<(), Error>> {
        match self.try_begin(by) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Whether the lock is ours already.
    fn try_begin(&mut self, by: By<'_>) -> Result<bool, Error> {
        let domain = self.domain;
        domain.check_lock(&self.word, self.task)?;
        let place = domain.hashed(&self.word);
        let mut faults = Faults::default();
        loop {
            // Before the lock is taken: what a waker's clone does is not ours to say.
            let mut told = Some(by.told());
            let mut new_chain = None;
            let mut locked = domain.lock_or_make(&place);
            let key = domain.key(place.address, place.shared_space);
            let task = self.task.id();
            let attempt = domain.system.graph().lock().with(|g| {
                let lock = match domain.acquire(&mut locked.guard, g, key, &self.word, task, false)? {
                    Acquired::Owned(_) => return Ok(true),
                    Acquired::Contended(lock) => lock,
                };
                let admitted = PiWaiter::admit(domain, self.task, &locked.guard);
                if let Err(error) = admitted {
                    g.drop_if_idle(lock);
                    return Err(Refused::Error(error));
                }
                let priority = self.task.own_priority().level();
                // What is left of it is dropped without a lock, like a waker's clone.
                let told = told.take().unwrap_or(Told::Thread);
                let entry = PiEntry::new(key, place.hash, priority, told, Purpose::Lock(lock));
                let entry = self.waiter.set(domain, self.task, entry);
                if let Err(error) = g.block(task, lock, entry) {
                    let is_ours = g.owner(lock) == Some(task);
                    g.drop_if_idle(lock);
                    // [S6], by somebody else's hand: the kernel finds a deadlock, and then that the lock is ours.
                    return if is_ours { Ok(true) } else { Err(Refused::Error(error)) };
                }
                // SAFETY: fresh and unqueued; it stays in place until it has left queue and graph.
                new_chain = unsafe { locked.guard.insert(entry.node()) };
                Ok(false)
            });
            drop(locked);
            match attempt {
                Ok(is_ours) => {
                    if is_ours {
                        self.waiter.release();
                    } else {
                        domain.note_queued(place.address, place.hash);
                    }
                    domain.note_lock_waiter(new_chain, place.hash, place.shared_space.is_none());
                    domain.system.tell_scheduler();
                    return Ok(is_ours);
                }
                Err(refused) => {
                    self.waiter.release();
                    refused.resolve(&self.word, &mut faults)?;
                }
            }
        }
    }
}

impl<T: Target, S: Scheme<L>, L: Layout> Drop for LockPi<'_, '_, T, S, L> {
    fn drop(&mut self) {
        if !self.waiter.is_busy() {
            return;
        }
        match self.waiter.leave() {
            Left::Unrequeued | Left::Unlocked => {}
            Left::Locked => self.domain.give_back(&self.word, self.task),
            Left::Heir => self.waiter.renounce(),
        }
    }
}
