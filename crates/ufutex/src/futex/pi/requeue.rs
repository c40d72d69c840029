//! Waiting for a word and then for a lock, without waking up in between: condition variables with locks that lend
//! priority.

use core::pin::Pin;
use core::task::Poll;

use super::entry::{EntryRef, PiEntry, Purpose};
use super::graph::{Graph, LockId};
use super::lock::{Acquired, Refused};
use super::task::Task;
use super::waiter::{Left, PiWaiter, Seen};
use crate::error::Error;
use crate::futex::domain::{Domain, Hashed};
use crate::futex::key::Target;
use crate::futex::limit::Limit;
#[cfg(feature = "std")]
use crate::futex::operation::block_on;
use crate::futex::operation::{By, Cause, Operation, operation_is_a_future};
use crate::futex::pair::Pair;
use crate::sys::clock::Timeout;
use crate::sys::mem::Faults;
use crate::table::hash::Key;
use crate::table::layout::{Layout, Lean};
use crate::table::list::Node;
use crate::table::refs::{Live, Scheme};
use crate::wait::{Rest, Signal};
use core::ptr::NonNull;

/// The future of [`Domain::wait_requeue_pi_async`]. Dropped before it is ready it takes back the wait, or the lock.
#[must_use = "futures do nothing unless polled"]
pub struct WaitRequeuePi<'d, 't, T: Target, U: Target, S: Scheme<L> = Live, L: Layout = Lean> {
    domain: &'d Domain<S, L>,
    task: &'t Task<L>,
    from: T,
    expected: T::Value,
    lock: U,
    timeout: Option<Timeout>,
    limit: Limit<'d>,
    is_done: bool,
    waiter: PiWaiter<'d, 't, S, L>,
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Blocks the calling thread while `from` holds `expected`, until somebody requeues it to `lock` and it has that:
    /// `FUTEX_WAIT_REQUEUE_PI`. On return the task owns `lock`.
    ///
    /// # Errors
    /// [`Error::Again`] when the word does not hold `expected`, and when the task is interrupted after it was requeued;
    /// [`Error::Interrupted`] before that; [`Error::TimedOut`]; [`Error::Fault`]; [`Error::Invalid`] when both are the same
    /// word, and as for [`lock_pi`](Self::lock_pi).
    #[cfg(feature = "std")]
    pub fn wait_requeue_pi<T: Target, U: Target>(
        &self,
        from: T,
        expected: T::Value,
        lock: U,
        task: &Task<L>,
        timeout: Option<Timeout>,
    ) -> Result<(), Error> {
        let deadline = timeout.map(|timeout| timeout.begin());
        let wait = core::pin::pin!(self.wait_requeue_pi_async(from, expected, lock, task));
        block_on(wait, &task.interrupt().sleeper, deadline.as_ref())
    }

    /// As [`wait_requeue_pi`](Self::wait_requeue_pi), as a task of some executor.
    pub fn wait_requeue_pi_async<'d, 't, T: Target, U: Target>(
        &'d self,
        from: T,
        expected: T::Value,
        lock: U,
        task: &'t Task<L>,
    ) -> WaitRequeuePi<'d, 't, T, U, S, L> {
        let (limit, waiter) = (Limit::new(), PiWaiter::new());
        WaitRequeuePi { domain: self, task, from, expected, lock, timeout: None, limit, is_done: false, waiter }
    }

    /// If `from` holds `expected`, gives `lock` to the first of its waiters, if it is free, and has up to `requeue` of the
    /// others wait for it: `FUTEX_CMP_REQUEUE_PI`, which always wakes one. If the lock is not free the first waiter waits for it too,
    /// whatever `requeue` is. Answers how many have the lock or wait for it now.
    ///
    /// # Errors
    /// [`Error::Again`] when the word does not hold `expected`; [`Error::Invalid`] when both are the same word, when a waiter
    /// of `from` is not one to be requeued to `lock`; [`Error::Deadlock`] when one of them would wait for itself; and as
    /// for [`lock_pi`](Self::lock_pi). Those that were requeued before that stay so.
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
        let (source, target) = (self.hashed(&from), self.hashed(&lock));
        let keys = [self.key(source.address, source.shared_space), self.key(target.address, target.shared_space)];
        if keys[0] == keys[1] {
            return Err(Error::Invalid);
        }
        let mut faults = Faults::default();
        loop {
            let pair = self.lock_pair_if_equal(&source, &target, &from, Some(expected))?;
            let mut requeuing = Requeuing {
                domain: self,
                pair,
                keys,
                target: &target,
                lock: &lock,
                count: 0,
                woken: 0,
                new_chain: None,
            };
            let mut rest = Rest::Nothing;
            let result = self.system.graph().lock().with(|g| requeuing.run(g, requeue, &mut rest));
            let (count, woken, new_chain) = (requeuing.count, requeuing.woken, requeuing.new_chain);
            drop(requeuing);
            // Before anybody runs: others may lend it their priority.
            self.system.tell_scheduler();
            rest.finish();
            self.note_requeue(source.address, target.address, woken, count - woken);
            self.note_lock_waiter(new_chain, target.hash, target.shared_space.is_none());
            match result {
                Ok(()) => return Ok(count),
                Err(refused) => refused.resolve(&lock, &mut faults)?,
            }
        }
    }
}

/// A requeue to a lock, with both buckets locked.
struct Requeuing<'a, 'd, U: Target, S: Scheme<L>, L: Layout> {
    domain: &'d Domain<S, L>,
    pair: Pair<'d, S, L>,
    keys: [Key; 2],
    target: &'a Hashed,
    lock: &'a U,
    /// How many have the lock or wait for it.
    count: usize,
    /// How many of those have it.
    woken: usize,
    /// How many keys the lock's bucket has, if its key is new there.
    new_chain: Option<u32>,
}

impl<U: Target, S: Scheme<L>, L: Layout> Requeuing<'_, '_, U, S, L> {
    /// Whoever is to be told that it has the lock is left in `rest`.
    fn run(&mut self, graph: &mut Graph<EntryRef>, requeue: usize, rest: &mut Rest) -> Result<(), Refused> {
        // The kernel looks at the lock first, and so finds that it cannot, even if nobody waits.
        self.lock.load32()?;
        let Some(first) = self.pair.first().first(self.keys[0]) else { return Ok(()) };
        let (entry, task) = self.meant_for_lock(first)?;
        let key = self.keys[1];
        let sets_waiters = requeue != 0;
        let lock = match self.domain.acquire(self.pair.second(), graph, key, self.lock, task, sets_waiters)? {
            Acquired::Contended(lock) => lock,
            Acquired::Owned(lock) => {
                (self.count, self.woken) = (1, 1);
                // SAFETY: queued in the first bucket.
                unsafe { self.pair.first().remove(first) };
                // SAFETY: taken off its queue; not used afterwards.
                *rest = unsafe { Signal::wake(&raw const (*entry.0.as_ptr()).entry.signal) };
                match lock {
                    Some(lock) => lock,
                    None => return Ok(()),
                }
            }
        };
        let result = self.move_waiters(graph, lock, requeue);
        graph.drop_if_idle(lock);
        result
    }

    /// Has them wait for `lock`, which one of them may have by now: not counting that one.
    fn move_waiters(
        &mut self,
        graph: &mut Graph<EntryRef>,
        lock: LockId<EntryRef>,
        requeue: usize,
    ) -> Result<(), Refused> {
        // One is always "woken", as the kernel counts: it has the lock, or waits for it as well.
        while self.count <= requeue {
            let Some(node) = self.pair.first().first(self.keys[0]) else { break };
            let (entry, task) = self.meant_for_lock(node)?;
            graph.block(task, lock, entry)?;
            // SAFETY: queued in the first bucket, and both are locked until it is in the second.
            unsafe {
                self.pair.first().take_to(node, self.keys[1], self.target.hash);
                entry.get().set_purpose(Purpose::Lock(lock));
                let new_chain = self.pair.second().insert(node);
                self.new_chain = self.new_chain.or(new_chain);
            }
            self.count += 1;
        }
        Ok(())
    }

    /// The entry of a waiter of the first word, and its task, if it waits to be requeued to our lock.
    fn meant_for_lock(&self, node: NonNull<Node>) -> Result<(EntryRef, super::graph::TaskId<EntryRef>), Refused> {
        // SAFETY: queued, and its bucket is locked.
        unsafe {
            let entry = EntryRef::of(node).ok_or(Error::Invalid)?;
            match entry.get().purpose() {
                Purpose::Requeue { to, task } if to == self.keys[1] => Ok((entry, task)),
                _ => Err(Error::Invalid.into()),
            }
        }
    }
}

impl<T: Target, U: Target, S: Scheme<L>, L: Layout> WaitRequeuePi<'_, '_, T, U, S, L> {
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

operation_is_a_future!(
    ['d, 't, T: Target, U: Target, S: Scheme<L>, L: Layout] WaitRequeuePi<'d, 't, T, U, S, L> => ()
);

impl<T: Target, U: Target, S: Scheme<L>, L: Layout> Operation for WaitRequeuePi<'_, '_, T, U, S, L> {
    type Output = ();

    fn poll_by(self: Pin<&mut Self>, by: By<'_>) -> Poll<Result<(), Error>> {
        // SAFETY: `waiter` is the one field that must stay in place, and is not moved out of.
        let this = unsafe { self.get_unchecked_mut() };
        if !this.waiter.is_busy() {
            return match this.begin(by) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            };
        }
        match this.waiter.look(by) {
            Seen::Waiting => Poll::Pending,
            Seen::Locked => Poll::Ready(Ok(())),
            Seen::Heir => Poll::Ready(this.waiter.put_word_right(&this.lock)),
        }
    }

    fn end_by(self: Pin<&mut Self>, cause: Cause) -> Result<(), Error> {
        // SAFETY: as in `poll_by`.
        let this = unsafe { self.get_unchecked_mut() };
        match this.waiter.leave() {
            Left::Unrequeued => Err(cause.into()),
            // The word has changed since, so the same call again would find that; the kernel saves it the detour.
            Left::Unlocked if cause == Cause::Interrupted => Err(Error::Again),
            Left::Unlocked => Err(cause.into()),
            Left::Locked => Ok(()),
            Left::Heir => this.waiter.put_word_right(&this.lock),
        }
    }
}

impl<T: Target, U: Target, S: Scheme<L>, L: Layout> WaitRequeuePi<'_, '_, T, U, S, L> {
    fn begin(&mut self, by: By<'_>) -> Result<(), Error> {
        let domain = self.domain;
        domain.check_lock(&self.lock, self.task)?;
        let target = domain.hashed(&self.lock);
        let to = domain.key(target.address, target.shared_space);
        let told = by.told();
        let matched = domain.lock_if_equal(&self.from, self.expected)?;
        let key = domain.key(matched.address, matched.shared_space);
        if key == to {
            return Err(Error::Invalid);
        }
        PiWaiter::admit(domain, self.task, &matched.locked.guard)?;
        let priority = self.task.own_priority().level();
        let purpose = Purpose::Requeue { to, task: self.task.id() };
        let entry = self.waiter.set(domain, self.task, PiEntry::new(key, matched.hash, priority, told, purpose));
        let mut locked = matched.locked;
        // SAFETY: fresh and unqueued; it stays in place until it has left its queue.
        let new_chain = unsafe { locked.guard.insert(entry.node()) };
        drop(locked);
        domain.note_queued(matched.address, matched.hash);
        domain.note_lock_waiter(new_chain, matched.hash, matched.shared_space.is_none());
        Ok(())
    }
}

impl<T: Target, U: Target, S: Scheme<L>, L: Layout> Drop for WaitRequeuePi<'_, '_, T, U, S, L> {
    fn drop(&mut self) {
        if !self.waiter.is_busy() {
            return;
        }
        match self.waiter.leave() {
            Left::Unrequeued | Left::Unlocked => {}
            Left::Locked => self.domain.give_back(&self.lock, self.task),
            Left::Heir => self.waiter.renounce(),
        }
    }
}
