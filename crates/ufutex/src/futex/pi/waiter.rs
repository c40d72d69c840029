//! A waiter for a lock, or to be requeued to one, and its queue entry: what threads and tasks have in common.

use core::ptr::NonNull;
use core::task::Poll;

use super::{LockId, PiGraph, TaskId};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::{Entry, PendingWakes};
use crate::futex::key::Target;
use crate::futex::lock_word::{OWNER_DIED, WAITERS};
use crate::futex::operation::PollReceiver;
use crate::futex::place::Place;
use crate::futex::task::Task;
use crate::futex::waiter::WaiterSlot;
use crate::signal::{GuardedWaker, Receiver, Signal};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::sys::mem::{Access, Fault, Faults};
use crate::sys::unwind::Otherwise;
use crate::table::bucket::Guard;
use crate::table::hash::TableKey;
use crate::table::list::Node;

/// A task that waits, or may wait, for a lock.
pub(super) struct PiWaiter<'d, 't> {
    pub task: &'t Task,
    slot: WaiterSlot<'d, PiEntry>,
}

/// How a waiter left before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// It waits for nothing any more. It had not been requeued.
    Unrequeued,
    /// It waits for nothing any more. It had been waiting for the lock.
    Unlocked,
    /// Too late: it has the lock, and is not queued any more.
    Locked,
    /// Too late: it has inherited the lock of an owner that died, and must write its TID into the word.
    Heir,
}

impl<'d, 't> PiWaiter<'d, 't> {
    pub fn new(task: &'t Task) -> Self {
        Self { task, slot: WaiterSlot::new() }
    }

    pub fn is_busy(&self) -> bool {
        self.slot.is_busy()
    }

    /// Makes the waiter busy: its task waits at `place`, whose bucket is locked. The caller queues the entry, or takes it back
    /// with [`release`](Self::release). `Busy` if the task already waits elsewhere.
    ///
    /// `receiver` is moved into the entry on success alone. The caller drops what is left with no lock held, because dropping
    /// a waker runs an embedder's code.
    pub fn enter(
        &self,
        domain: &'d Domain,
        place: &Place,
        bucket: &Guard<'_>,
        receiver: &mut Option<Receiver>,
        purpose: Purpose,
    ) -> Result<EntryRef, Error> {
        domain.admit_waiter(bucket.waiters())?;
        if self.task.waits.swap(1, Ordering::Relaxed) != 0 {
            domain.dismiss_waiter();
            return Err(Error::Busy);
        }
        let (key, priority) = (domain.key(place), self.task.own_priority().level());
        let signal = Signal::new(receiver.take().unwrap_or(Receiver::TAKEN));
        let entry = Entry::new(key, place.hash, priority, None, signal, domain.system.now());
        Ok(EntryRef(self.slot.occupy(domain, PiEntry::new(entry, domain.namespace().number, purpose))))
    }

    /// Makes the waiter idle. No other thread reaches its entry any more.
    pub fn release(&self) {
        if self.is_busy() {
            self.task.waits.store(0, Ordering::Relaxed);
            self.slot.release(|entry| (&entry.entry, entry.entry.signal.is_woken() || entry.is_heir()));
        }
    }

    /// Whether the task has the lock of `word`. If it still waits, `receiver` is notified of the next change.
    pub fn poll<T: Target>(&self, word: &T, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        let Some((domain, entry)) = self.slot.busy() else { return Poll::Ready(Ok(())) };
        if !entry.entry.signal.is_woken() {
            if entry.is_heir() {
                return Poll::Ready(self.put_word_right(word));
            }
            match receiver {
                PollReceiver::Thread(_) if !entry.entry.node.bucket().is_null() => return Poll::Pending,
                PollReceiver::Thread(_) => entry.entry.signal.wait_for_waker(domain.platform()),
                PollReceiver::Task(waker) => {
                    let mut receiver = Receiver::Waker(GuardedWaker::of(waker));
                    let is_heir = domain.with_lock_waiter(entry, |_, _| {
                        if !entry.is_heir() {
                            // SAFETY: queued; bucket and graph are locked.
                            unsafe { entry.entry.signal.swap_receiver(&mut receiver) };
                        }
                        entry.is_heir()
                    });
                    if is_heir == Some(true) {
                        return Poll::Ready(self.put_word_right(word));
                    }
                    if is_heir.is_none() {
                        // Taken by a waker that is about to wake an outdated waker of this task. Poll once more.
                        waker.wake_by_ref();
                    }
                    return Poll::Pending;
                }
            }
        }
        self.release();
        Poll::Ready(Ok(()))
    }

    /// Leaves queue and graph, unless the waiter has the lock already.
    pub fn leave(&self) -> Left {
        let Some((domain, entry)) = self.slot.busy() else { return Left::Unrequeued };
        let left = domain.with_lock_waiter(entry, |guard, g| {
            if entry.is_heir() {
                return Left::Heir;
            }
            // SAFETY: queued in the bucket of `guard`.
            let purpose = unsafe { entry.purpose() };
            // SAFETY: as above.
            unsafe { guard.remove(self.slot.address().cast()) };
            match purpose {
                Purpose::Requeue { .. } => Left::Unrequeued,
                Purpose::Lock(_) => {
                    g.unblock(self.task.named.id);
                    Left::Unlocked
                }
            }
        });
        match left {
            Some(Left::Heir) => Left::Heir,
            Some(left) => {
                // Idle before the scheduler is called, since the scheduler may do anything. It is called even if the
                // waker's drop panics.
                let _reported = Otherwise::new(|| domain.system.report_priorities(domain.namespace()));
                self.release();
                left
            }
            None => {
                entry.entry.signal.wait_for_waker(domain.platform());
                self.release();
                Left::Locked
            }
        }
    }

    /// Ends the wait. If the task has the lock of `word` by now, that is the result. Otherwise it is one of the errors:
    /// `unrequeued` if the waiter had yet to be requeued to the lock.
    pub fn end<T: Target>(&self, word: &T, unrequeued: Error, unlocked: Error) -> Result<(), Error> {
        match self.leave() {
            Left::Unrequeued => Err(unrequeued),
            Left::Unlocked => Err(unlocked),
            Left::Locked => Ok(()),
            Left::Heir => self.put_word_right(word),
        }
    }

    /// For an heir: writes its TID into the lock's word, and so becomes the owner. From [S4] to [S8]. It owns the lock
    /// even if the word cannot be written, and the next waiter goes on waiting for it, as in the kernel.
    fn put_word_right<T: Target>(&self, word: &T) -> Result<(), Error> {
        let mut faults = Faults::default();
        loop {
            match self.with_lock_inherited(|| overwrite(word, self.task.tid() | WAITERS | OWNER_DIED)) {
                Ok(()) => return Ok(()),
                Err(Fault) => {
                    if faults.resolve(|| word.fault_in(Access::Write)).is_err() {
                        _ = self.with_lock_inherited(|| Ok(()));
                        return Err(Error::Fault);
                    }
                }
            }
        }
    }

    /// Runs `write` with bucket and graph locked. If it succeeds, the task has the lock, and the waiter is no longer
    /// queued.
    fn with_lock_inherited(&self, write: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        let Some((domain, entry)) = self.slot.busy() else { return Ok(()) };
        let written = domain.with_lock_waiter(entry, |guard, g| {
            write()?;
            // SAFETY: queued in the bucket of `guard`.
            unsafe {
                if let Purpose::Lock(lock) = entry.purpose() {
                    g.adopt(lock);
                }
                guard.remove(self.slot.address().cast());
            }
            Ok(())
        });
        // Only the heir itself removes its entry from the queue.
        if written.is_none_or(|result: Result<(), Fault>| result.is_ok()) {
            self.release();
            return Ok(());
        }
        Err(Fault)
    }

    /// For an heir that does not want the lock: makes the next waiter the heir. Without one the lock is free, as after the
    /// walk of a robust list, unless the word cannot be written.
    pub fn renounce<T: Target>(&self, word: &T) {
        let with_the_word_as_it_is = Otherwise::new(|| _ = self.try_renounce(|| Ok(())));
        let mut faults = Faults::default();
        while self.try_renounce(|| overwrite(word, OWNER_DIED)).is_err() {
            if faults.resolve(|| word.fault_in(Access::Write)).is_err() {
                return;
            }
        }
        with_the_word_as_it_is.disarm();
    }

    /// As [`renounce`](Self::renounce), if `free` can write the word where it has to.
    fn try_renounce(&self, free: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        let Some((domain, entry)) = self.slot.busy() else { return Ok(()) };
        // As in `unlock_pi`: the next heir is woken before this thread can lose its CPU or its priority. The wake and
        // the report are made when these values are dropped, even if the waker's drop panics.
        let mut section = None;
        let pending = domain.with_lock_waiter(entry, |guard, g| {
            // SAFETY: queued in the bucket of `guard`.
            let purpose = unsafe { entry.purpose() };
            if let Purpose::Lock(lock) = purpose
                && g.first_waiter(lock).is_none()
            {
                free()?;
            }
            section = Some(domain.platform().section());
            let mut pending = PendingWakes::none();
            // SAFETY: as above.
            unsafe { guard.remove(self.slot.address().cast()) };
            if let Purpose::Lock(lock) = purpose {
                make_heir(g, lock, &mut pending);
            }
            Ok(pending)
        });
        let pending = pending.transpose()?;
        let _reported = Otherwise::new(|| domain.system.report_priorities(domain.namespace()));
        let _section = section.filter(|_| !pending.as_ref().is_some_and(PendingWakes::calls_wakers));
        let _pending = pending;
        self.release();
        Ok(())
    }
}

impl Domain {
    /// Runs `f` with the bucket locked in which `entry` is queued now, and the graph. `None` if `entry` is not queued any
    /// more.
    fn with_lock_waiter<R>(&self, entry: &PiEntry, f: impl FnOnce(&mut Guard<'_>, &mut PiGraph) -> R) -> Option<R> {
        let (bucket, mut tasks) =
            self.lock_both(|| self.lock_queued(&entry.entry), || self.try_lock_queued(&entry.entry));
        let mut bucket = bucket?;
        Some(tasks.with(|tasks| f(&mut bucket, &mut tasks.graph)))
    }
}

/// Makes the first waiter of `lock`, whose owner has died, its heir. `pending` is to wake it once the graph is unlocked.
pub(super) fn make_heir(graph: &mut PiGraph, lock: LockId, pending: &mut PendingWakes) {
    let Some((_, heir)) = graph.orphan(lock) else { return };
    // SAFETY: the entry was in the graph a moment ago. Its waiter removes it from its queue only with the graph locked.
    let heir = unsafe { heir.get() };
    heir.make_heir();
    // SAFETY: queued, and the graph is locked.
    pending.push(unsafe { heir.entry.signal.notify_queued() });
}

/// Writes the word of a lock whose owner has died, whatever it holds.
fn overwrite<T: Target>(word: &T, new: u32) -> Result<(), Fault> {
    let mut current = word.load32()?;
    loop {
        match word.compare_exchange32(current, new)? {
            Ok(_) => return Ok(()),
            Err(now) => current = now,
        }
    }
}

/// An [`Entry`] that no plain wake takes, and what its task waits for.
#[repr(C)]
pub(crate) struct PiEntry {
    // First, so that a pointer to the node is also a pointer to this struct.
    pub entry: Entry,
    /// The number of the PID namespace of the task that waits. Its graph has the task, and the lock that it waits for.
    pub namespace: u64,
    /// Guarded by the lock of the bucket where it is queued.
    purpose: UnsafeCell<Purpose>,
    outcome: AtomicU32,
}

/// The purpose of an entry's wait.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// To be requeued to a lock.
    Requeue {
        /// The key of the lock.
        to: TableKey,
        /// The task that is to get the lock.
        task: TaskId,
    },
    /// For this lock. The entry is queued by the key of the lock's word.
    Lock(LockId),
}

/// The owner of the lock has died and this waiter has inherited the lock. It is still queued, and has to write its TID
/// into the word.
const HEIR: u32 = 1;

impl PiEntry {
    pub fn new(entry: Entry, namespace: u64, purpose: Purpose) -> Self {
        Self { entry, namespace, purpose: UnsafeCell::new(purpose), outcome: AtomicU32::new(0) }
    }

    /// # Safety
    /// The caller holds the lock of the bucket where the entry is queued.
    pub unsafe fn purpose(&self) -> Purpose {
        // SAFETY: the caller guarantees it.
        self.purpose.with(|p| unsafe { *p })
    }

    /// # Safety
    /// As for [`purpose`](Self::purpose).
    pub unsafe fn set_purpose(&self, purpose: Purpose) {
        // SAFETY: the caller guarantees it.
        self.purpose.with_mut(|p| unsafe { *p = purpose });
    }

    /// Whether the entry's task has to write its TID into the word.
    pub fn is_heir(&self) -> bool {
        self.outcome.load(Ordering::Relaxed) == HEIR // [O]: the flag guards no other data
    }

    /// Marks the waiter as heir. Call only with the graph locked.
    pub fn make_heir(&self) {
        self.outcome.store(HEIR, Ordering::Relaxed); // [O]: before the waiter is notified
    }
}

/// A queued entry, by its address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryRef(pub NonNull<PiEntry>);

// SAFETY: only an address. Code that dereferences it guarantees its validity.
unsafe impl Send for EntryRef {}

impl EntryRef {
    pub fn node(self) -> NonNull<Node> {
        self.0.cast()
    }

    /// The entry of a queued node, if it waits for a lock.
    ///
    /// # Safety
    /// The node is queued, and the caller holds the lock of its bucket.
    pub unsafe fn of(node: NonNull<Node>) -> Option<Self> {
        // SAFETY: every node of a queue is the first field of an entry.
        let bitset = unsafe { node.cast::<Entry>().as_ref().bitset() };
        bitset.is_none().then(|| Self(node.cast()))
    }

    /// # Safety
    /// The entry is queued, or in a graph, and stays so as long as the result is used: the caller holds the lock of its
    /// bucket or of the graph.
    pub unsafe fn get<'a>(self) -> &'a PiEntry {
        // SAFETY: the caller guarantees it.
        unsafe { self.0.as_ref() }
    }
}
