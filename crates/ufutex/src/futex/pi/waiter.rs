//! One who waits for a lock, or to be requeued to one: what thread and task have in common.

use core::marker::PhantomPinned;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use super::entry::{EntryRef, PiEntry, Purpose};
use super::task::Task;
use super::{OWNER_DIED, TID_MASK, WAITERS};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::Rests;
use crate::futex::key::Target;
use crate::futex::operation::By;
use crate::sync::{Mutant, UnsafeCell, mutant};
use crate::sys::mem::{Access, Fault, Faults};
use crate::sys::probe::probe;
use crate::table::bucket::Guard;
use crate::table::layout::Layout;
use crate::table::refs::Scheme;
use crate::wait::Told;

/// Room for one waiter's entry. It stays in place while it is queued.
pub(super) struct PiWaiter<'d, 't, S: Scheme<L>, L: Layout> {
    /// Not idle: the domain whose queues the entry stands in, and who waits.
    busy: Option<(&'d Domain<S, L>, &'t Task<L>)>,
    /// Initialised while not idle. Other threads reach it through the queue and the graph.
    entry: UnsafeCell<MaybeUninit<PiEntry>>,
    _pinned: PhantomPinned,
}

// SAFETY: the entry is reached by other threads under the locks of bucket and graph in any case, and a waker is `Send`.
unsafe impl<S: Scheme<L>, L: Layout> Send for PiWaiter<'_, '_, S, L> {}
// SAFETY: a shared reference gives access to nothing that is not atomic or under those locks.
unsafe impl<S: Scheme<L>, L: Layout> Sync for PiWaiter<'_, '_, S, L> {}

/// What a waiter sees when it looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// Nothing new; whoever is to be told is known.
    Waiting,
    /// It has the lock, and is not queued any more.
    Locked,
    /// It has the lock, and must put the word right.
    Heir,
}

/// How a waiter left before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// It waits for nothing any more. It had not been requeued.
    Unrequeued,
    /// It waits for nothing any more. It had been waiting for the lock.
    Unlocked,
    /// Too late: see [`Seen::Locked`].
    Locked,
    /// Too late: see [`Seen::Heir`].
    Heir,
}

impl<'d, 't, S: Scheme<L>, L: Layout> PiWaiter<'d, 't, S, L> {
    pub fn new() -> Self {
        Self { busy: None, entry: UnsafeCell::new(MaybeUninit::uninit()), _pinned: PhantomPinned }
    }

    pub fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    /// Whether one more waiter may join the bucket, and the task may wait: then [`set`](Self::set) must follow.
    pub fn admit(domain: &Domain<S, L>, task: &Task<L>, bucket: &Guard<'_, L>) -> Result<(), Error> {
        domain.admit_waiter(bucket.waiters())?;
        task.begins_to_wait().inspect_err(|_| domain.dismiss_waiter())
    }

    /// Makes it busy with `entry`, which has been admitted, and which the caller queues, or takes back with
    /// [`release`](Self::release).
    pub fn set(&mut self, domain: &'d Domain<S, L>, task: &'t Task<L>, entry: PiEntry) -> EntryRef {
        debug_assert!(!self.is_busy());
        // SAFETY: idle, so nobody else reaches it.
        self.entry.with_mut(|e| _ = unsafe { (*e).write(entry) });
        self.busy = Some((domain, task));
        self.entry_ref()
    }

    /// The entry is ours alone: idle again.
    pub fn release(&mut self) {
        if let Some((domain, task)) = self.busy.take() {
            task.waits_no_more();
            domain.dismiss_waiter();
            // SAFETY: initialised as it was not idle.
            let entry = unsafe { self.entry_ref().0.as_ref() };
            let has_lock = || entry.entry.signal.is_woken() || entry.is_heir();
            // SAFETY: nobody else reaches it any more.
            probe!(wait_end, unsafe { entry.entry.node.key() }.0.address, has_lock());
            // SAFETY: initialised as it was not idle, and nobody else reaches it any more.
            self.entry.with_mut(|e| unsafe { (*e).assume_init_drop() });
        }
    }

    fn entry_ref(&self) -> EntryRef {
        // SAFETY: a field's address is not null.
        EntryRef(self.entry.with(|e| unsafe { NonNull::new_unchecked(e.cast_mut().cast()) }))
    }

    fn entry(&self) -> &PiEntry {
        debug_assert!(self.is_busy());
        // SAFETY: initialised while not idle, and every caller is not.
        unsafe { self.entry_ref().0.as_ref() }
    }

    /// Looks again. If there is nothing new, `by` is told when there is.
    pub fn look(&mut self, by: By<'_>) -> Seen {
        let Some((domain, _)) = self.busy else { return Seen::Locked };
        let entry = self.entry();
        if !entry.entry.signal.is_woken() {
            if entry.is_heir() {
                return Seen::Heir;
            }
            match by {
                By::Thread(_) if !entry.entry.node.bucket().is_null() => return Seen::Waiting,
                By::Thread(_) => entry.entry.signal.wait_for_waker(),
                By::Task(waker) => {
                    let mut told = Told::Waker(waker.clone());
                    let seen = domain.with_queued(&entry.entry, |_| {
                        domain.system.graph().lock().with(|_| {
                            if entry.is_heir() {
                                return Seen::Heir;
                            }
                            // SAFETY: queued; bucket and graph are locked.
                            unsafe { entry.entry.signal.swap_told(&mut told) };
                            Seen::Waiting
                        })
                    });
                    if seen.is_none() {
                        // Taken, and about to tell a waker that may not be this task's any more. Come again.
                        waker.wake_by_ref();
                    }
                    return seen.unwrap_or(Seen::Waiting);
                }
            }
        }
        self.release();
        Seen::Locked
    }

    /// Leaves queue and graph, unless it is too late.
    pub fn leave(&mut self) -> Left {
        let Some((domain, task)) = self.busy else { return Left::Unrequeued };
        let (entry, node) = (self.entry(), self.entry_ref().node());
        let left = domain.with_queued(&entry.entry, |guard| {
            domain.system.graph().lock().with(|g| {
                if entry.is_heir() && !mutant(Mutant::HeirLeaves) {
                    return Left::Heir;
                }
                // SAFETY: queued in the bucket of `guard`.
                let purpose = unsafe { entry.purpose() };
                // SAFETY: as above.
                unsafe { guard.remove(node) };
                match purpose {
                    Purpose::Requeue { .. } => Left::Unrequeued,
                    Purpose::Lock(_) => {
                        g.unblock(task.id());
                        Left::Unlocked
                    }
                }
            })
        });
        match left {
            Some(Left::Heir) => Left::Heir,
            Some(left) => {
                // Idle first: what a scheduler does is not ours to say.
                self.release();
                domain.system.tell_scheduler();
                left
            }
            None => {
                entry.entry.signal.wait_for_waker();
                self.release();
                Left::Locked
            }
        }
    }

    /// For an heir: writes its TID into the lock's word, and is the owner then. From [S4] to [S8]. It is the owner even if
    /// the word cannot be written, and the next waiter goes on waiting for it: as in the kernel.
    pub fn put_word_right<T: Target>(&mut self, word: &T) -> Result<(), Error> {
        let Some((domain, task)) = self.busy else { return Ok(()) };
        let mut faults = Faults::default();
        loop {
            match self.with_lock_inherited(domain, || write_heir(word, task.tid())) {
                Ok(()) => return Ok(()),
                Err(Fault) => {
                    if faults.resolve(|| word.fault_in(Access::Write)).is_err() {
                        _ = self.with_lock_inherited(domain, || Ok(()));
                        return Err(Error::Fault);
                    }
                }
            }
        }
    }

    /// Runs `write` with bucket and graph locked; if it succeeds the lock is ours, and we are queued no more.
    fn with_lock_inherited(
        &mut self,
        domain: &'d Domain<S, L>,
        write: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (entry, node) = (self.entry(), self.entry_ref().node());
        let written = domain.with_queued(&entry.entry, |guard| {
            domain.system.graph().lock().with(|g| {
                write()?;
                // SAFETY: queued in the bucket of `guard`.
                unsafe {
                    if let Purpose::Lock(lock) = entry.purpose() {
                        g.adopt(lock);
                    }
                    guard.remove(node);
                }
                Ok(())
            })
        });
        // Nobody takes an heir off its queue but itself.
        if written.is_none_or(|result: Result<(), Fault>| result.is_ok()) {
            self.release();
            return Ok(());
        }
        Err(Fault)
    }

    /// For an heir that will not have the lock: the next waiter is the heir.
    pub fn renounce(&mut self) {
        let Some((domain, _)) = self.busy else { return };
        let (entry, node) = (self.entry(), self.entry_ref().node());
        let rests = domain.with_queued(&entry.entry, |guard| {
            domain.system.graph().lock().with(|g| {
                let mut rests = Rests::none();
                // SAFETY: queued in the bucket of `guard`.
                let purpose = unsafe { entry.purpose() };
                // SAFETY: as above.
                unsafe { guard.remove(node) };
                if let Purpose::Lock(lock) = purpose
                    && let Some((_, heir)) = g.orphan(lock)
                {
                    // SAFETY: it was in the graph a moment ago, which we have locked.
                    let heir = unsafe { heir.get() };
                    heir.make_heir();
                    // SAFETY: queued, and the graph is locked.
                    rests.push(unsafe { heir.entry.signal.prod() });
                }
                rests
            })
        });
        self.release();
        domain.system.tell_scheduler();
        drop(rests);
    }
}

/// Writes the TID of a lock's new owner after the death of the one before.
fn write_heir<T: Target>(word: &T, tid: u32) -> Result<(), Fault> {
    debug_assert_eq!(tid & !TID_MASK, 0);
    let mut current = word.load32()?;
    loop {
        match word.compare_exchange32(current, tid | WAITERS | OWNER_DIED)? {
            Ok(_) => return Ok(()),
            Err(now) => current = now,
        }
    }
}
