//! Locks a word with priority inheritance, or queues the task for it.

use core::pin::{Pin, pin};
use core::ptr::NonNull;
use core::task::Poll;

use super::waiter::{EntryRef, Left, PiEntry, Purpose};
use super::{LockId, PiGraph};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::key::Target;
use crate::futex::lock_word::{OWNER_DIED, TID_MASK, WAITERS};
use crate::futex::namespace::Tasks;
use crate::futex::operation::{Cause, Operation, PollReceiver, WaitEnd, WaitFuture, block_on};
use crate::futex::place::{Place, is_of_object};
use crate::futex::spin::MaySpin;
use crate::futex::task::Task;
use crate::futex::wait::WaitOptions;
use crate::futex::waiter::WaiterSlot;
use crate::sync::spin_loop;
use crate::sys::clock::Timeout;
use crate::sys::mem::{Access, Fault, Faults, Width};
use crate::sys::unwind::{Otherwise, call};
use crate::table::bucket::Guard;
use crate::table::list::Node;

/// The future of [`Domain::lock_pi_async`].
pub type LockPi<'d, 't, T> = WaitFuture<'d, LockOperation<'d, 't, T>>;

/// A task's attempt to lock a word. Its drop unlocks the lock if the task has been handed it.
pub struct LockOperation<'d, 't, T: Target> {
    pub(super) domain: &'d Domain,
    pub(super) word: T,
    timeout: Option<Timeout>,
    /// The word's hash, until the thread has spun, if it was queued as the first waiter.
    spins: Option<u32>,
    pub(super) task: &'t Task,
    pub(super) slot: WaiterSlot<'d, PiEntry>,
}

impl Domain {
    /// Locks `word` for `task`, and blocks until it has the lock: `FUTEX_LOCK_PI2`. The word holds 0, or the owner's TID.
    ///
    /// While the task waits, it boosts the lock's owner to its own priority. If the owner is itself blocked on a lock, so is
    /// that lock's owner, and so on ([`Scheduler`](crate::pi::Scheduler)).
    ///
    /// The lock's first waiter may spin for up to 30 us before it sleeps. On a platform that was
    /// [given](crate::SystemConfig::platform) it does so only with [`DomainOptions::spin`](crate::DomainOptions::spin), and not if
    /// [`SystemConfig::cpus`](crate::SystemConfig::cpus) is 1.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// # use ufutex::{Domain, Error, System};
    /// let domain = Domain::new(&System::new());
    /// let task = domain.task(7)?;
    /// let word = AtomicU32::new(0);
    /// domain.lock_pi(&word, &task)?;
    /// assert_eq!(word.load(Relaxed), 7);
    /// assert_eq!(domain.lock_pi(&word, &task), Err(Error::Deadlock));
    /// domain.unlock_pi(&word, &task)?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::NoTask`], [`Error::NotPermitted`] and [`Error::Invalid`] where futex(2) has `EDEADLK`,
    /// `ESRCH`, `EPERM` and `EINVAL`. [`Error::Invalid`] also if a task of another [`PidNamespace`](crate::PidNamespace) waits
    /// for the lock, if the word is not of 32 bits, or if `task` belongs to another domain. [`Error::Fault`];
    /// [`Error::Interrupted`] by the task's interrupt; [`Error::Busy`] if the task is already waiting; [`Error::NoMemory`].
    #[inline]
    pub fn lock_pi<T: Target>(&self, word: T, task: &Task) -> Result<(), Error> {
        self.lock_pi_with(word, task, &const { WaitOptions::new() })
    }

    /// As [`lock_pi`](Self::lock_pi), with a timeout. Other options have no effect: waiters have the priorities of their tasks,
    /// and no bitsets.
    ///
    /// # Errors
    /// As for `lock_pi`, and [`Error::TimedOut`].
    #[inline]
    pub fn lock_pi_with<T: Target>(&self, word: T, task: &Task, options: &WaitOptions) -> Result<(), Error> {
        if self.locked_at_once(&word, task) {
            return Ok(());
        }
        let lock = pin!(LockOperation::new(self, word, task, options.timeout));
        block_on(lock, self.platform(), &task.interrupt().sleeper)
    }

    /// Like [`lock_pi_with`](Self::lock_pi_with), as a future. A relative timeout begins with the first poll, and the
    /// namespace's [`driver`](crate::PidNamespace::driver) watches it.
    ///
    /// # Errors
    /// As for `lock_pi_with`; with a timeout also [`Error::NoMemory`], or [`Error::Invalid`] without any clock: without `std`
    /// and without an embedder's [`clocks`](crate::SystemConfig::clocks).
    pub fn lock_pi_async<'d, 't, T: Target>(
        &'d self,
        word: T,
        task: &'t Task,
        options: &WaitOptions,
    ) -> LockPi<'d, 't, T> {
        WaitFuture::new(LockOperation::new(self, word, task, options.timeout))
    }

    /// Locks `word` for `task` if that needs no waiting: `FUTEX_TRYLOCK_PI`.
    ///
    /// # Errors
    /// [`Error::Again`] if the word is locked; `FUTEX_WAITERS` is then set in it, as in the kernel. Otherwise as for
    /// [`lock_pi`](Self::lock_pi).
    pub fn try_lock_pi<T: Target>(&self, word: T, task: &Task) -> Result<(), Error> {
        if self.locked_at_once(&word, task) {
            return Ok(());
        }
        self.check_lock(&word, task)?;
        let place = self.place(&word);
        let mut faults = Faults::default();
        loop {
            let (mut locked, mut tasks) = self.lock_both(|| self.lock_or_make(&place), || self.try_lock(&place));
            let attempt = tasks.with(|tasks| {
                let Some(lock) = self.acquire(&mut locked, tasks, &place, &word, task.tid())? else { return Ok(()) };
                let has_lock = tasks.graph.owner(lock) == Some(task.named.id);
                tasks.graph.drop_if_idle(lock);
                if has_lock {
                    // [S6], but the task is not ending: the program has changed the word. The kernel repairs it here.
                    exchange(&word, word.load32()?, task.tid() | WAITERS | OWNER_DIED)?;
                }
                Err(Refused::Error(Error::Again))
            });
            drop((tasks, locked));
            match attempt {
                Ok(()) => return Ok(()),
                Err(refused) => refused.resolve(&word, &mut faults)?,
            }
        }
    }

    /// Changes the word from 0 to the task's TID, as every program does before it calls futex(2). Not if waiters are queued,
    /// because they may be of the wrong kind.
    #[inline]
    fn locked_at_once<T: Target>(&self, word: &T, task: &Task) -> bool {
        self.check_lock(word, task).is_ok()
            && self.nobody_waits(&self.place(word))
            && matches!(word.compare_exchange32(0, task.tid()), Ok(Ok(_)))
    }

    pub(super) fn check_lock<T: Target>(&self, word: &T, task: &Task) -> Result<(), Error> {
        if word.width() == Width::U32 && task.belongs_to(self) { Ok(()) } else { Err(Error::Invalid) }
    }

    /// Whether a queued waiter's task is of the domain's namespace: only then may its TID be seen, and its graph be used.
    pub(super) fn is_of_namespace(&self, entry: &PiEntry) -> bool {
        entry.namespace == self.namespace().number
    }

    /// Takes the lock of `word` for the task with this TID, by the table in `pi`, or returns the lock that it has to wait for:
    /// if it does not in the end, the caller calls [`PiGraph::drop_if_idle`]. `tid` includes [`WAITERS`] if others are about to
    /// wait. Bucket and graph are locked.
    pub(super) fn acquire<T: Target>(
        &self,
        bucket: &mut Guard<'_>,
        tasks: &mut Tasks,
        place: &Place,
        word: &T,
        tid: u32,
    ) -> Result<Option<LockId>, Refused> {
        let value = word.load32()?;
        if value & TID_MASK == tid & TID_MASK {
            return Err(Error::Deadlock.into());
        }
        let (key, graph) = (self.key(place), &mut tasks.graph);
        if let Some(first) = bucket.first(key, place.hash) {
            return Ok(Some(check_state(graph, self.lock_of(first)?, value)?));
        }
        if value & TID_MASK == 0 {
            return exchange(word, value, value & OWNER_DIED | tid).map(|()| None); // [S1]
        }
        // [S2]. From here on the owner cannot unlock without the engine.
        exchange(word, value, value | WAITERS)?;
        // In memory that only the domain maps, the word names no task of another domain.
        let owner = tasks.by_tid.get(value & TID_MASK);
        let Some(owner) = owner.filter(|owner| is_of_object(key) || owner.space == self.tables.space) else {
            // The owner may have just ended, and its robust list changed the word.
            return Err(if word.load32()? == value | WAITERS { Error::NoTask.into() } else { Refused::Retry });
        };
        if owner.is_kernel {
            return Err(Error::NotPermitted.into());
        }
        Ok(Some(graph.add_lock(owner.id)?))
    }

    /// The lock that `first`, queued in a locked bucket, waits for. `Invalid` if it waits for no lock, [S3], or belongs to
    /// another PID namespace.
    pub(super) fn lock_of(&self, first: NonNull<Node>) -> Result<LockId, Error> {
        // SAFETY: queued, and its bucket is locked.
        let first = unsafe { EntryRef::of(first).map(|entry| entry.get()) };
        // SAFETY: as above.
        let lock = first.filter(|first| self.is_of_namespace(first)).and_then(|first| unsafe { first.lock() });
        lock.ok_or(Error::Invalid)
    }
}

/// `lock`, or `Invalid` if the word, which holds `value`, contradicts the graph: [S5], [S7], [S9], [S10]. The bucket is locked.
fn check_state(graph: &PiGraph, lock: LockId, value: u32) -> Result<LockId, Error> {
    let (tid, has_died) = (value & TID_MASK, value & OWNER_DIED != 0);
    let is_valid = match graph.owner(lock) {
        None => has_died && tid == 0,                                     // [S4]; not [S5], [S7]
        Some(owner) => tid == graph.tid(owner) || (has_died && tid == 0), // [S8], [S6]; not [S9], [S10]
    };
    if is_valid { Ok(lock) } else { Err(Error::Invalid) }
}

#[derive(Debug)]
pub(super) enum Refused {
    /// The word has to be faulted in, with no lock held.
    Fault,
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
    /// Prepares another attempt, with no lock held, or returns the error that ends the operation.
    pub fn resolve<T: Target>(self, word: &T, faults: &mut Faults) -> Result<(), Error> {
        match self {
            Self::Fault => Ok(faults.resolve(|| word.fault_in(Access::Write))?),
            Self::Retry => {
                // Another operation has changed the word, and so made progress. There is no lock to wait for.
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

impl<'d, T: Target> Operation<'d> for LockOperation<'d, '_, T> {
    type Output = ();

    fn timeout(&self) -> Option<(Timeout, &'d Domain)> {
        self.timeout.filter(|_| !self.slot.is_busy()).map(|timeout| (timeout, self.domain))
    }

    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        if self.slot.is_busy() {
            return self.poll_waiter(receiver);
        }
        // SAFETY: `slot` is the one field that must stay in place, and is not moved out of.
        unsafe { self.get_unchecked_mut() }.begin(receiver)
    }

    fn may_spin(self: Pin<&mut Self>) -> Option<MaySpin<'_>> {
        // SAFETY: as in `poll_for`.
        let Self { domain, spins, .. } = unsafe { self.get_unchecked_mut() };
        domain.first_waiter_may_spin(spins.take()?)
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<(), Error> {
        self.end(cause, cause.into())
    }
}

impl<'d, 't, T: Target> LockOperation<'d, 't, T> {
    pub(crate) fn new(domain: &'d Domain, word: T, task: &'t Task, timeout: Option<Timeout>) -> Self {
        Self { domain, word, timeout, spins: None, task, slot: WaiterSlot::new() }
    }

    fn begin(&mut self, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        let domain = self.domain;
        domain.check_lock(&self.word, self.task)?;
        let place = domain.place(&self.word);
        let mut faults = Faults::default();
        // Cloned and dropped with no lock held, because a waker's clone and drop run an embedder's code.
        let mut receiver = Some(receiver.for_entry());
        loop {
            let (mut locked, mut tasks) = domain.lock_both(|| domain.lock_or_make(&place), || domain.try_lock(&place));
            let mut new_chain = None;
            let attempt = tasks.with(|tasks| {
                let Some(lock) = domain.acquire(&mut locked, tasks, &place, &self.word, self.task.tid())? else {
                    return Ok(true);
                };
                let (graph, task) = (&mut tasks.graph, self.task.named.id);
                let entered = self.enter(&place, &locked, &mut receiver, Purpose::Lock(lock));
                let entry = entered.inspect_err(|_| graph.drop_if_idle(lock))?;
                if let Err(error) = graph.block(task, lock, entry) {
                    // [S6], after the program has changed the word: the kernel finds a deadlock, and then that the task has it.
                    let has_lock = graph.owner(lock) == Some(task);
                    graph.drop_if_idle(lock);
                    return if has_lock { Ok(true) } else { Err(Refused::Error(error)) };
                }
                // SAFETY: new and not queued; it stays in place until it has left queue and graph.
                new_chain = unsafe { locked.insert(entry.node()) };
                self.spins = graph.first_waiter(lock).is_some_and(|(first, _)| first == task).then_some(place.hash);
                Ok(false)
            });
            drop((tasks, locked));
            match attempt {
                Ok(has_lock) => {
                    let _reported = Otherwise::new(|| domain.system.report_priorities(domain.namespace()));
                    if has_lock {
                        self.release(None);
                        return Poll::Ready(Ok(()));
                    }
                    domain.note_queued(&place, self.slot.address(), new_chain);
                    return Poll::Pending;
                }
                Err(refused) => {
                    self.release(None);
                    refused.resolve(&self.word, &mut faults)?;
                }
            }
        }
    }
}

impl<T: Target> Drop for LockOperation<'_, '_, T> {
    fn drop(&mut self) {
        if !self.slot.is_busy() || self.domain.system.is_abandoned() {
            return;
        }
        match self.leave(WaitEnd::Cancelled) {
            Left::Unrequeued | Left::Unlocked => {}
            Left::Locked => call(|| self.domain.give_back(&self.word, self.task)),
            Left::Heir => call(|| {
                // If the word's memory panics, the waiter leaves queue and graph without writing the word.
                let _is_left = Otherwise::new(|| _ = self.try_inherit(false, false));
                _ = self.inherit(false);
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;
    use crate::pi::Priority;
    use crate::signal::sleeper::Sleeper;
    use core::pin::pin;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn only_a_waiter_that_is_first_spins() {
        let domain = Domain::new(&System::new());
        let [owner, first, second, urgent] = [1, 2, 3, 4].map(|tid| domain.task(tid).expect("the TID is free"));
        urgent.set_priority(Priority::realtime(1));
        let word = AtomicU32::new(0);
        assert_eq!(domain.lock_pi(&word, &owner), Ok(()));
        let sleeper = Sleeper::new();
        let is_to_spin = |mut waiter: Pin<&mut LockOperation<'_, '_, &AtomicU32>>| {
            assert!(waiter.as_mut().poll_for(PollReceiver::Thread(&sleeper)).is_pending());
            let is_to_spin = waiter.as_mut().may_spin().is_some();
            assert!(waiter.as_mut().may_spin().is_none(), "it spins once");
            is_to_spin
        };
        let mut waiters = pin!([&first, &second, &urgent].map(|task| LockOperation::new(&domain, &word, task, None)));
        // SAFETY: the array is pinned.
        let mut at = |i: usize| is_to_spin(unsafe { waiters.as_mut().map_unchecked_mut(|all| &mut all[i]) });
        assert!(at(0));
        assert!(!at(1), "another waiter came first");
        assert!(at(2), "its priority puts it first");
    }
}
