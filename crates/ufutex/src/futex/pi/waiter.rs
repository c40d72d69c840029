//! The waiter of a lock, and its queue entry: what threads and tasks have in common.

use core::ptr::NonNull;
use core::task::Poll;

use super::lock::LockOperation;
use super::{LockId, PiGraph, TaskId};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::{Entry, PendingWakes};
use crate::futex::key::Target;
use crate::futex::lock_word::{OWNER_DIED, WAITERS};
use crate::futex::operation::{Cause, PollReceiver, WaitEnd};
use crate::futex::place::Place;
use crate::signal::{GuardedWaker, Receiver, Signal};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::sys::mem::{Access, Fault, Faults};
use crate::sys::unwind::Otherwise;
use crate::table::bucket::Guard;
use crate::table::hash::TableKey;
use crate::table::list::Node;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// It no longer waits. It had not been requeued.
    Unrequeued,
    /// It no longer waits. It had been waiting for the lock.
    Unlocked,
    /// Too late: it has the lock.
    Locked,
    /// Too late: it has inherited the lock, and must write its TID into the word.
    Heir,
}

impl<T: Target> LockOperation<'_, '_, T> {
    /// Makes the waiter busy: its task waits at `place`, whose bucket is locked. The caller queues the entry, or takes it back
    /// with [`release`](Self::release). `Busy` if the task already waits elsewhere.
    ///
    /// `receiver` is moved into the entry on success alone, and otherwise dropped by the caller with no lock held.
    pub(super) fn enter(
        &self,
        place: &Place,
        bucket: &Guard<'_>,
        receiver: &mut Option<Receiver>,
        purpose: Purpose,
    ) -> Result<EntryRef, Error> {
        let domain = self.domain;
        domain.admit_waiter(bucket.waiters())?;
        if self.task.waits.swap(1, Ordering::Relaxed) != 0 {
            domain.dismiss_waiter();
            return Err(Error::Busy);
        }
        let (key, priority) = (domain.key(place), self.task.own_priority().level());
        let signal = Signal::new(receiver.take().unwrap_or(Receiver::TAKEN));
        let entry = Entry::new(key, place.hash, priority, None, signal, domain.system.now());
        let (namespace, purpose) = (domain.namespace().number, UnsafeCell::new(purpose));
        let entry = PiEntry { entry, namespace, purpose, is_heir: AtomicU32::new(0) };
        Ok(EntryRef(self.slot.occupy(domain, entry)))
    }

    pub(super) fn release(&self, end: Option<WaitEnd>) {
        if self.slot.is_busy() {
            self.task.waits.store(0, Ordering::Relaxed);
            self.slot.release(end, |entry| (&entry.entry, entry.entry.signal.is_woken() || entry.is_heir()));
        }
    }

    /// Whether the task has the lock. If it still waits, `receiver` is notified of the next change.
    pub(super) fn poll_waiter(&self, receiver: PollReceiver<'_>) -> Poll<Result<(), Error>> {
        let Some((domain, entry)) = self.slot.busy() else { return Poll::Ready(Ok(())) };
        if !entry.entry.signal.is_woken() {
            if entry.is_heir() {
                return Poll::Ready(self.inherit(true));
            }
            match receiver {
                PollReceiver::Thread(_) if !entry.entry.node.bucket().is_null() => return Poll::Pending,
                PollReceiver::Thread(_) => entry.entry.signal.wait_for_waker(domain.platform()),
                PollReceiver::Task(waker) => {
                    let mut receiver = Receiver::Waker(GuardedWaker::of(waker.clone()));
                    let is_heir = domain.with_lock_waiter(entry, |_, _, _| {
                        if !entry.is_heir() {
                            // SAFETY: queued; bucket and graph are locked.
                            unsafe { entry.entry.signal.swap_receiver(&mut receiver) };
                        }
                        entry.is_heir()
                    });
                    match is_heir {
                        Some(true) => return Poll::Ready(self.inherit(true)),
                        Some(false) => {}
                        // Taken by a waker that is about to wake an outdated waker of this task.
                        None => waker.wake_by_ref(),
                    }
                    return Poll::Pending;
                }
            }
        }
        self.release(Some(WaitEnd::Cancelled));
        Poll::Ready(Ok(()))
    }

    /// Leaves queue and graph, unless the waiter has the lock already.
    pub(super) fn leave(&self, end: WaitEnd) -> Left {
        let Some((domain, entry)) = self.slot.busy() else { return Left::Unrequeued };
        let left = domain.with_lock_waiter(entry, |bucket, graph, lock| {
            if entry.is_heir() {
                return Left::Heir;
            }
            // SAFETY: queued in this bucket.
            unsafe { bucket.remove(self.slot.address().cast()) };
            graph.unblock(self.task.named.id);
            if lock.is_some() { Left::Unlocked } else { Left::Unrequeued }
        });
        match left {
            Some(Left::Heir) => Left::Heir,
            Some(left) => {
                // Idle before the scheduler is called, which may do anything. It is called even if the waker's drop panics.
                let _reported = Otherwise::new(|| domain.system.report_priorities(domain.namespace()));
                self.release(Some(end));
                left
            }
            None => {
                entry.entry.signal.wait_for_waker(domain.platform());
                self.release(Some(end));
                Left::Locked
            }
        }
    }

    /// Ends the wait, with `Ok` if the task has the lock by now, `cause` if it was not requeued yet, and otherwise `unlocked`.
    pub(super) fn end(&self, cause: Cause, unlocked: Error) -> Result<(), Error> {
        match self.leave(WaitEnd::GaveUp(cause)) {
            Left::Unrequeued => Err(cause.into()),
            Left::Unlocked => Err(unlocked),
            Left::Locked => Ok(()),
            Left::Heir => self.inherit(true),
        }
    }

    /// For an heir: takes the lock if the task `wants` it, and passes it on otherwise.
    ///
    /// An heir that takes the lock writes its TID into the word, and so becomes the owner: from [S4] to [S8]. As in the kernel,
    /// it owns the lock even if the word cannot be written, which is an error, and the next waiter goes on waiting for it.
    ///
    /// One that passes it on makes the next waiter the heir. Without one the lock is free, and the word becomes what the walk
    /// of a robust list leaves, if it can be written.
    pub(super) fn inherit(&self, wants: bool) -> Result<(), Error> {
        let mut faults = Faults::default();
        while let Err(Fault) = self.try_inherit(wants, true) {
            if faults.resolve(|| self.word.fault_in(Access::Write)).is_err() {
                _ = self.try_inherit(wants, false);
                return Err(Error::Fault);
            }
        }
        Ok(())
    }

    /// As [`inherit`](Self::inherit), in one attempt: [`Fault`] if the word has to be written and cannot be, and then nothing
    /// has changed. Without `writes` the word stays as it is. Does nothing if the waiter is idle.
    pub(super) fn try_inherit(&self, wants: bool, writes: bool) -> Result<(), Fault> {
        let Some((domain, entry)) = self.slot.busy() else { return Ok(()) };
        // Keeps the CPU until the next heir is woken, as in `unlock_slowly`. Drops make the wake and the report, so they are
        // made even if the waker's drop panics.
        let mut section = None;
        let pending = domain.with_lock_waiter(entry, |bucket, graph, lock| {
            let is_free = !wants && lock.is_some_and(|lock| graph.first_waiter(lock).is_none());
            if writes && (wants || is_free) {
                overwrite(&self.word, if wants { self.task.tid() | WAITERS | OWNER_DIED } else { OWNER_DIED })?;
            }
            section = Some(domain.platform().section());
            let mut pending = PendingWakes::none();
            // SAFETY: queued in this bucket. Only the heir itself removes its entry.
            unsafe { bucket.remove(self.slot.address().cast()) };
            match lock {
                Some(lock) if wants => graph.adopt(lock),
                Some(lock) => make_heir(graph, lock, &mut pending),
                None => {}
            }
            Ok(pending)
        });
        let pending = pending.transpose()?;
        // The heir itself reports nothing: the thread that made it the heir does, once the heir has been woken.
        let _reported = (!wants).then(|| Otherwise::new(|| domain.system.report_priorities(domain.namespace())));
        let _section = section.filter(|_| !pending.as_ref().is_some_and(PendingWakes::calls_wakers));
        let _pending = pending;
        self.release(Some(WaitEnd::Cancelled));
        Ok(())
    }
}

impl Domain {
    /// Runs `f` with the graph and the bucket of `entry` locked, and with the lock that the entry is queued for. `None` if
    /// `entry` is not queued any more.
    fn with_lock_waiter<R>(
        &self,
        entry: &PiEntry,
        f: impl FnOnce(&mut Guard<'_>, &mut PiGraph, Option<LockId>) -> R,
    ) -> Option<R> {
        let (bucket, mut tasks) =
            self.lock_both(|| self.lock_queued(&entry.entry), || self.try_lock_queued(&entry.entry));
        let mut bucket = bucket?;
        // SAFETY: queued in this bucket.
        let lock = unsafe { entry.lock() };
        Some(tasks.with(|tasks| f(&mut bucket, &mut tasks.graph, lock)))
    }
}

/// Makes the first waiter of `lock`, whose owner has died, its heir. `pending` is to wake it once the graph is unlocked.
pub(super) fn make_heir(graph: &mut PiGraph, lock: LockId, pending: &mut PendingWakes) {
    let Some((_, heir)) = graph.orphan(lock) else { return };
    // SAFETY: the entry was in the graph a moment ago. Its waiter leaves its queue only with the graph locked.
    let heir = unsafe { heir.get() };
    heir.is_heir.store(1, Ordering::Relaxed); // [O]: before the waiter is notified
    // SAFETY: queued, and the graph is locked.
    pending.push(unsafe { heir.entry.signal.notify_queued() });
}

fn overwrite<T: Target>(word: &T, new: u32) -> Result<(), Fault> {
    let mut current = word.load32()?;
    loop {
        match word.compare_exchange32(current, new)? {
            Ok(_) => return Ok(()),
            Err(now) => current = now,
        }
    }
}

#[repr(C)]
pub(crate) struct PiEntry {
    // First, so that a pointer to the node is also a pointer to this struct.
    pub entry: Entry,
    /// The number of the PID namespace whose graph has the task and the lock.
    pub namespace: u64,
    /// Guarded by the lock of the bucket where it is queued.
    purpose: UnsafeCell<Purpose>,
    /// 1 if the owner has died and this waiter, still queued, has inherited the lock and has to write its TID.
    is_heir: AtomicU32,
}

#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// To be requeued to the word with this key, for whose lock the task then waits.
    Requeue { to: TableKey, task: TaskId },
    /// For this lock. The entry is queued by the key of the lock's word.
    Lock(LockId),
}

impl PiEntry {
    /// # Safety
    /// The caller holds the lock of the bucket where the entry is queued.
    pub unsafe fn purpose(&self) -> Purpose {
        // SAFETY: the caller guarantees it.
        self.purpose.with(|p| unsafe { *p })
    }

    /// # Safety
    /// As for [`purpose`](Self::purpose).
    pub unsafe fn lock(&self) -> Option<LockId> {
        // SAFETY: the caller guarantees it.
        if let Purpose::Lock(lock) = unsafe { self.purpose() } { Some(lock) } else { None }
    }

    /// # Safety
    /// As for [`purpose`](Self::purpose).
    pub unsafe fn set_purpose(&self, purpose: Purpose) {
        // SAFETY: the caller guarantees it.
        self.purpose.with_mut(|p| unsafe { *p = purpose });
    }

    pub fn is_heir(&self) -> bool {
        self.is_heir.load(Ordering::Relaxed) == 1 // [O]: the flag guards no other data
    }
}

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
