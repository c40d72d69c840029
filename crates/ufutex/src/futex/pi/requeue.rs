//! Waiting for a word and then for a lock, without waking up in between: condition variables with locks that boost priority.

use core::pin::{Pin, pin};
use core::ptr::NonNull;
use core::task::Poll;

use super::lock::{LockOperation, Refused};
use super::waiter::{EntryRef, Purpose};
use super::{LockId, TaskId};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::{Entry, Moment, PIECE, notify_one};
use crate::futex::key::Target;
use crate::futex::lock_word::WAITERS;
use crate::futex::namespace::Tasks;
use crate::futex::operation::{Cause, Operation, PollReceiver, WaitFuture, block_on};
use crate::futex::pair::Pair;
use crate::futex::place::Place;
use crate::futex::requeue::Requeued;
use crate::futex::task::Task;
use crate::futex::wait::WaitOptions;
use crate::futex::waiter::Matched;
use crate::signal::PendingWake;
use crate::sys::clock::Timeout;
use crate::sys::mem::{Access, Fault, Faults};
use crate::sys::unwind::{Otherwise, call};
use crate::table::hash::TableKey;
use crate::table::list::Node;

/// The future of [`Domain::wait_requeue_pi_async`].
pub type WaitRequeuePi<'d, 't, T, U> = WaitFuture<'d, WaitRequeueOperation<'d, 't, T, U>>;

/// A task's wait for a word, and then for a lock.
pub struct WaitRequeueOperation<'d, 't, T: Target, U: Target> {
    // First, so that the waiter has left its queue when the words are dropped.
    lock: LockOperation<'d, 't, U>,
    from: T,
    expected: T::Value,
}

impl Domain {
    /// Blocks the calling thread while `from` holds `expected`, until it has been requeued to `lock` and handed the
    /// lock: `FUTEX_WAIT_REQUEUE_PI`. On return the task owns `lock`.
    ///
    /// # Errors
    /// [`Error::Again`] if the word does not hold `expected`, or if the task is interrupted after it was requeued;
    /// [`Error::Interrupted`] if before; [`Error::TimedOut`]; [`Error::Fault`]; [`Error::Invalid`] if `from` and `lock` are one
    /// word; otherwise as for [`lock_pi_with`](Self::lock_pi_with), also about the options.
    pub fn wait_requeue_pi<T: Target, U: Target>(
        &self,
        from: T,
        expected: T::Value,
        lock: U,
        task: &Task,
        options: &WaitOptions,
    ) -> Result<(), Error> {
        let wait = pin!(WaitRequeueOperation::new(self, from, expected, lock, task, options.timeout));
        block_on(wait, self.platform(), &task.interrupt().sleeper)
    }

    /// [`wait_requeue_pi`](Self::wait_requeue_pi) as a future, with the timeout of [`lock_pi_async`](Self::lock_pi_async).
    pub fn wait_requeue_pi_async<'d, 't, T: Target, U: Target>(
        &'d self,
        from: T,
        expected: T::Value,
        lock: U,
        task: &'t Task,
        options: &WaitOptions,
    ) -> WaitRequeuePi<'d, 't, T, U> {
        WaitFuture::new(WaitRequeueOperation::new(self, from, expected, lock, task, options.timeout))
    }

    /// If `from` holds `expected`, gives `lock` to the first waiter of `from`, or makes that waiter wait if `lock` is not free.
    /// Makes up to `requeue` more waiters wait for it: `FUTEX_CMP_REQUEUE_PI` with a wake count of 1, the only one that it
    /// accepts. Returns how many waiters now have the lock or wait for it.
    ///
    /// In a domain's own table this is one step. If other domains use a bucket of the two words, a step ends after 256 waiters,
    /// or about 1,000 visits of lock owners along chains. Each step compares the word: a later one in which it differs or
    /// cannot be read ends the operation with the waiters handled until then. Waiters that came after the first step stay.
    ///
    /// # Errors
    /// In the first step, [`Error::Again`] if the word does not hold `expected`, and [`Error::Fault`] if it cannot be read.
    /// [`Error::Invalid`] if `from` and `lock` are one word, or if a waiter of `from` does not wait to be requeued to `lock` or
    /// belongs to another [`PidNamespace`](crate::PidNamespace). [`Error::Deadlock`] if a waiter would wait for itself.
    /// Otherwise as for [`lock_pi`](Self::lock_pi). Waiters that were requeued, or
    /// given the lock, before the error stay so.
    pub fn cmp_requeue_pi<T: Target, U: Target>(
        &self,
        from: T,
        expected: T::Value,
        lock: U,
        requeue: usize,
    ) -> Result<usize, Error> {
        if !from.can_hold(expected) {
            return Err(Error::Invalid);
        }
        let (source, target) = (self.place(&from), self.place(&lock));
        let keys = [self.key(&source), self.key(&target)];
        if keys[0] == keys[1] {
            return Err(Error::Invalid);
        }
        let mut requeuing = RequeuingPi {
            domain: self,
            keys,
            places: [source, target],
            from: &from,
            expected,
            lock: &lock,
            most: requeue.saturating_add(1),
            began: None,
            count: 0,
            woken: 0,
            new_chain: None,
        };
        requeuing.run()?;
        Ok(requeuing.count)
    }
}

/// A piece ends once its walks along chains have visited this many holders. The last walk is completed.
const VISITED: u64 = 4 * PIECE as u64;

/// A requeue to a lock, in pieces if other domains use a bucket of the two words.
///
/// Each piece treats the lock as an operation of its own would. If the lock has become free between two pieces, the first
/// waiter of the piece gets it, because a task cannot wait for a lock without an owner.
struct RequeuingPi<'a, 'd, T: Target, U: Target> {
    domain: &'d Domain,
    keys: [TableKey; 2],
    places: [Place; 2],
    from: &'a T,
    expected: T::Value,
    lock: &'a U,
    /// How many waiters may get the lock or wait for it.
    most: usize,
    /// When the first piece ended. `None` during the first piece, in which no waiter can have come too late.
    began: Option<Moment>,
    count: usize,
    /// How many of those have it.
    woken: usize,
    /// How many keys the lock's bucket has, if the lock's key was new there.
    new_chain: Option<u32>,
}

impl<'d, T: Target, U: Target> RequeuingPi<'_, 'd, T, U> {
    fn run(&mut self) -> Result<(), Error> {
        let domain = self.domain;
        let [source, target] = self.places;
        let (mut faults, mut faults_of_lock) = (Faults::default(), Faults::default());
        loop {
            // Wakes the waiter that has the lock. Dropped after the locks, which are declared below it, also by a panic.
            let mut pending = None;
            let wait = || domain.lock_pair(&source, &target);
            let attempt = || domain.try_lock_pair(&source, &target);
            let (mut pair, mut tasks) = domain.lock_both(wait, attempt);
            let value = self.from.load();
            if value != Ok(self.expected) {
                drop((tasks, pair));
                match value {
                    Err(Fault) if faults.resolve(|| self.from.fault_in(Access::Read)).is_ok() => continue,
                    _ if self.began.is_some() => return Ok(()),
                    Err(Fault) => return Err(Error::Fault),
                    Ok(_) => return Err(Error::Again),
                }
            }
            let result = tasks.with(|tasks| {
                let mut lock = None;
                let is_last = self.piece(&mut pair, tasks, &mut lock, &mut pending);
                lock.into_iter().for_each(|lock| tasks.graph.drop_if_idle(lock));
                is_last
            });
            if let Ok(false) = result {
                self.began = self.began.or_else(|| Some(domain.system.begin_in_pieces()));
            }
            drop((tasks, pair));
            // If a callback panics, the other waiters are still requeued.
            let has_more = matches!(result, Ok(false));
            let go_on = Otherwise::new(|| {
                if has_more {
                    call(|| _ = self.run())
                }
            });
            // Before the waiter that got the lock runs, because other waiters may boost it.
            domain.system.report_priorities(domain.namespace());
            drop(pending);
            go_on.disarm();
            match result {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(refused) => refused.resolve(self.lock, &mut faults_of_lock)?,
            }
        }
    }

    /// Gives the lock to the first waiter, if it is free, and makes the others wait for it. `lock` is the lock in the graph,
    /// once it is known. Returns whether this was the last piece.
    fn piece(
        &mut self,
        pair: &mut Pair<'d>,
        tasks: &mut Tasks,
        lock: &mut Option<LockId>,
        pending: &mut Option<PendingWake>,
    ) -> Result<bool, Refused> {
        let [source, target] = self.places;
        // As in the kernel: an unreadable lock is an error even if there are no waiters.
        self.lock.load32()?;
        let in_pieces = self.domain.is_any_global(pair, &source, &target);
        let end = self.count.saturating_add(if in_pieces { PIECE } else { usize::MAX });
        let visited = if in_pieces { tasks.graph.visited + VISITED } else { u64::MAX };
        let now = self.domain.system.now();
        let first = pair.first().first(self.keys[0], source.hash);
        let mut next = self.pass_late(pair, first);
        let queued = pair.second().first(self.keys[1], target.hash);
        // SAFETY: queued, and its bucket is locked.
        let queued = queued.and_then(|node| unsafe { EntryRef::of(node).map(|entry| entry.get()) });
        if next.is_some() && queued.is_some_and(|queued| !self.domain.is_of_namespace(queued)) {
            return Err(Error::Invalid.into());
        }
        // The task that has been given the lock in this piece.
        let mut owner = None;
        while self.count < self.most
            && let Some(node) = next
        {
            if self.count >= end || tasks.graph.visited >= visited {
                return Ok(false);
            }
            let (entry, task) = self.meant_for_lock(node)?;
            // SAFETY: queued in the first bucket.
            let after = unsafe { pair.first().after(node) };
            if lock.is_none() {
                *lock = match owner {
                    Some(owner) => Some(tasks.graph.add_lock(owner)?),
                    None => {
                        let waiters = if self.count + 1 < self.most { WAITERS } else { 0 };
                        let tid = tasks.graph.tid(task) | waiters;
                        self.domain.acquire(pair.second(), tasks, &target, self.lock, tid)?
                    }
                };
            }
            if let Some(lock) = *lock {
                tasks.graph.block(task, lock, entry)?;
                // SAFETY: queued in the first bucket, and both are locked until it is in the second.
                unsafe {
                    pair.first().take_to(node, self.keys[1], target.hash);
                    entry.get().set_purpose(Purpose::Lock(lock));
                    entry.get().entry.set_since(now);
                    let new_chain = pair.second().insert(node);
                    self.new_chain = self.new_chain.or(new_chain);
                }
            } else {
                owner = Some(task);
                self.woken += 1;
                // SAFETY: queued in the first bucket; not used after it has been taken off.
                *pending = Some(unsafe {
                    pair.first().remove(node);
                    entry.get().entry.waker.with_mut(|c| *c = self.domain.observe(|observer| observer.waker_id()));
                    notify_one(node)
                });
            }
            self.count += 1;
            next = self.pass_late(pair, after);
        }
        Ok(true)
    }

    /// Passes over waiters that came after the first piece: at most one per priority, since those behind it there are late too.
    fn pass_late(&self, pair: &mut Pair<'d>, mut next: Option<NonNull<Node>>) -> Option<NonNull<Node>> {
        let Some(began) = self.began else { return next };
        while let Some(node) = next {
            // SAFETY: every node of a queue is the first field of an entry, and its bucket is locked.
            if unsafe { node.cast::<Entry>().as_ref().since() } <= began {
                break;
            }
            // SAFETY: queued there.
            next = unsafe { pair.first().after_level(node) };
        }
        next
    }

    /// The entry and task of a waiter of the first word. Refused if it is meant for another lock, or of another PID namespace.
    fn meant_for_lock(&self, node: NonNull<Node>) -> Result<(EntryRef, TaskId), Refused> {
        // SAFETY: queued, and its bucket is locked.
        unsafe {
            let entry = EntryRef::of(node).ok_or(Error::Invalid)?;
            match entry.get().purpose() {
                Purpose::Requeue { to, task } if to == self.keys[1] && self.domain.is_of_namespace(entry.get()) => {
                    Ok((entry, task))
                }
                _ => Err(Error::Invalid.into()),
            }
        }
    }
}

impl<T: Target, U: Target> Drop for RequeuingPi<'_, '_, T, U> {
    fn drop(&mut self) {
        let [source, target] = &self.places;
        let done = Requeued { woken: self.woken, requeued: self.count - self.woken };
        self.domain.note_requeue(source, target, done);
        // `call`, because a table that grows calls the embedder's memory and topology, which may panic.
        call(|| self.domain.note_waiter(self.new_chain, target));
    }
}

impl<'d, T: Target, U: Target> Operation<'d> for WaitRequeueOperation<'d, '_, T, U> {
    type Output = ();

    fn timeout(&self) -> Option<(Timeout, &'d Domain)> {
        self.lock.timeout()
    }

    fn poll_for(self: Pin<&mut Self>, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        if self.lock.slot.is_busy() {
            return self.lock.poll_waiter(receiver);
        }
        let LockOperation { domain, word, task, .. } = &self.lock;
        domain.check_lock(word, task)?;
        let to = domain.key(&domain.place(word));
        let mut receiver = Some(receiver.for_entry());
        let Matched { mut locked, place } = domain.lock_if_equal(&self.from, self.expected)?;
        let key = domain.key(&place);
        if key == to {
            return Poll::Ready(Err(Error::Invalid));
        }
        let purpose = Purpose::Requeue { to, task: task.named.id };
        let entry = self.lock.enter(&place, &locked, &mut receiver, purpose)?;
        // SAFETY: fresh and unqueued; it stays in place until it has left its queue.
        let new_chain = unsafe { locked.insert(entry.node()) };
        drop(locked);
        domain.note_queued(&place, entry.0, new_chain);
        Poll::Pending
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<(), Error> {
        // After a requeue the word has changed, so a repeated call would end with `Again`. The kernel returns that at once.
        let requeued = if cause == Cause::Interrupted { Error::Again } else { cause.into() };
        self.lock.end(cause, requeued)
    }
}

impl<'d, 't, T: Target, U: Target> WaitRequeueOperation<'d, 't, T, U> {
    pub(crate) fn new(
        domain: &'d Domain,
        from: T,
        expected: T::Value,
        lock: U,
        task: &'t Task,
        timeout: Option<Timeout>,
    ) -> Self {
        Self { from, expected, lock: LockOperation::new(domain, lock, task, timeout) }
    }
}
