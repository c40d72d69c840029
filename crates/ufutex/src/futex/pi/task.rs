//! A thread of a guest: which locks it owns, where it sleeps, how it is interrupted, and what happens when it ends.

use super::graph::{TaskId, TaskKind};
use super::namespace::{Names, NamesHandle};
use super::region::{HomeRef, PiGraph};
use super::scheduler::Priority;
use super::{EntryRef, TID_MASK};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::{BATCH, PendingWakes};
use crate::futex::interrupt::Interrupt;
use crate::futex::system::System;
use crate::futex::wait::RestartBlock;
use crate::lock::Lock;
use crate::sync::{AtomicU8, Mutant, Ordering, mutant};
use crate::table::refs::Scheme;

/// A thread of a guest, or of this program, by its TID. It owns locks, and waits for them.
///
/// Only one thread (or future) may wait for a lock with a task at a time. When the `Task` is dropped, the guest's
/// thread has ended: each lock that it owned and that has waiters goes to the first waiter, with `FUTEX_OWNER_DIED` in
/// the word. Call [`Domain::exit`] before, which walks the task's robust lists.
///
/// ```
/// # use ufutex::{Domain, Error, System, pi::Priority};
/// let domain = Domain::new(&System::new());
/// let task = domain.task(1234)?;
/// assert_eq!(task.priority(), Priority::NORMAL);
/// assert_eq!(domain.task(1234).err(), Some(Error::Busy)); // the number is taken
/// # Ok::<(), Error>(())
/// ```
pub struct Task {
    system: System,
    names: NamesHandle,
    home: HomeRef,
    id: TaskId<EntryRef>,
    tid: u32,
    space: u64,
    own: AtomicU8,
    /// Whether an entry of the task stands in a queue. If it does when the task is dropped, its future was forgotten.
    /// The flag orders nothing: a future borrows the task, so it is gone before the task is dropped.
    waits: AtomicU8,
    /// Whether the task has ended.
    ended: AtomicU8,
    interrupt: Interrupt,
    /// A wait with a timeout that was interrupted, and can be continued.
    restart: Lock<Option<RestartBlock>>,
}

impl<S: Scheme> Domain<S> {
    /// Makes a task with this TID, from 1 to 2^30 - 1. No other task of the domain's
    /// [`PidNamespace`](crate::PidNamespace) may have the TID.
    ///
    /// A lock in the domain's own memory can be owned only by a task of this domain. A lock in a shared object can be
    /// owned by any task of the namespace.
    ///
    /// # Errors
    /// [`Error::Invalid`] for any other number; [`Error::Busy`] if the TID is taken; [`Error::NoMemory`].
    pub fn task(&self, tid: u32) -> Result<Task, Error> {
        self.make_task(tid, TaskKind::Guest)
    }

    /// Like [`task`](Self::task), for a thread of the kernel itself. A task that would have to wait for a lock of such
    /// an owner gets [`Error::NotPermitted`].
    ///
    /// # Errors
    /// As for `task`.
    pub fn kernel_task(&self, tid: u32) -> Result<Task, Error> {
        self.make_task(tid, TaskKind::Kernel)
    }

    fn make_task(&self, tid: u32, kind: TaskKind) -> Result<Task, Error> {
        if tid == 0 || tid > TID_MASK {
            return Err(Error::Invalid);
        }
        let home = self.home()?;
        let names = self.names();
        names.name(tid, home)?;
        let registered = self.system.in_region(home, |g| g.register(home.number(), tid, kind));
        let id = registered.unwrap_or(Err(Error::NoMemory)).inspect_err(|_| names.forget(tid))?;
        Ok(Task {
            system: self.system.clone(),
            names: self.names.clone(),
            home,
            id,
            tid,
            space: self.tables.space,
            own: AtomicU8::new(Priority::NORMAL.level()),
            waits: AtomicU8::new(0),
            ended: AtomicU8::new(0),
            interrupt: Interrupt::new(),
            restart: Lock::new(self.platform(), None),
        })
    }
}

impl Task {
    /// The task's TID.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Interrupts the task's waits.
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Sets the task's own priority: the order in which it is woken, and the priority that it lends the owners of locks
    /// that it waits for. A wait in progress keeps its place in the queue, unless it waits for a lock.
    pub fn set_priority(&self, priority: Priority) {
        self.own.store(priority.level(), Ordering::Relaxed);
        self.in_region(|g| g.set_own(self.id, priority.level()));
        self.system.report_priorities(self.home);
    }

    /// The priority that the task runs with: the best of its own and those of the waiters for its locks.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.in_region(|g| Priority::from_level(g.effective(self.id))).unwrap_or(Priority::NORMAL)
    }

    /// Call this when a signal handler runs. A wait that was interrupted before is then not continued by
    /// [`Number::RestartSyscall`](crate::syscall::Number::RestartSyscall).
    pub fn forget_restart(&self) {
        self.take_restart();
    }

    /// Notes that the task waits. `Busy` if it already waits elsewhere.
    pub(crate) fn begins_to_wait(&self) -> Result<(), Error> {
        if self.waits.swap(1, Ordering::Relaxed) == 0 { Ok(()) } else { Err(Error::Busy) }
    }

    pub(crate) fn waits_no_more(&self) {
        self.waits.store(0, Ordering::Relaxed);
    }

    pub(crate) fn id(&self) -> TaskId<EntryRef> {
        self.id
    }

    /// The task's own priority, by which it is queued at plain words: see [`set_priority`](Self::set_priority).
    #[must_use]
    pub fn own_priority(&self) -> Priority {
        Priority::from_level(self.own.load(Ordering::Relaxed))
    }

    /// Runs `f` with the heads of the task's robust lists.
    pub(crate) fn with_lists<R>(&self, f: impl FnOnce(&mut [u64; 2]) -> R) -> Option<R> {
        self.in_region(|g| f(g.robust_lists(self.id)))
    }

    /// The home of the task's domain.
    pub(crate) fn home(&self) -> HomeRef {
        self.home
    }

    /// Runs `f` with the task's region locked. The region exists as long as the task does.
    fn in_region<R>(&self, f: impl FnOnce(&mut PiGraph) -> R) -> Option<R> {
        self.system.in_region(self.home, f)
    }

    pub(crate) fn set_restart(&self, wait: RestartBlock) {
        self.restart.lock().with(|restart| *restart = Some(wait));
    }

    pub(crate) fn take_restart(&self) -> Option<RestartBlock> {
        self.restart.lock().with(Option::take)
    }

    /// Whether this is a task of `domain`, and has not ended.
    pub(crate) fn belongs_to<S: Scheme>(&self, domain: &Domain<S>) -> bool {
        self.space == domain.tables.space
            && self.system.is_same(&domain.system)
            && self.ended.load(Ordering::Relaxed) == 0
    }
}

impl Task {
    /// Ends the task: it is no longer found, and its locks go to their first waiters. `Busy` if the task itself waits.
    /// Its future may then still be polled or dropped, or was forgotten and refers to the task and its locks for ever.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.waits.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy);
        }
        self.ended.store(1, Ordering::Relaxed);
        self.in_region(|g| self.hide(g));
        self.pass_on_locks();
        Ok(())
    }

    /// Removes the task from all look-ups, and frees its TID.
    fn hide(&self, graph: &mut PiGraph) {
        if graph.hide(self.id) {
            self.names().forget(self.tid);
        }
    }

    fn names(&self) -> &Names {
        self.names.of(&self.system)
    }

    fn pass_on_locks(&self) {
        /// Passes on the remaining locks if a waker panics.
        struct GoOn<'a>(&'a Task);
        impl Drop for GoOn<'_> {
            fn drop(&mut self) {
                self.0.pass_on_locks();
            }
        }
        loop {
            let mut pending = PendingWakes::none();
            // As in `unlock_pi`: the heirs are woken before this thread can lose its CPU or its priority.
            let section = self.system.platform().section();
            let is_left = self.in_region(|g| self.pass_on_some(g, &mut pending)).unwrap_or(false);
            let go_on = GoOn(self);
            let section = (!pending.calls_wakers()).then_some(section);
            drop(pending);
            drop(section);
            self.system.report_priorities(self.home);
            core::mem::forget(go_on);
            if !is_left {
                return;
            }
        }
    }

    /// Passes on a batch of locks. Returns whether there may be more.
    fn pass_on_some(&self, graph: &mut PiGraph, pending: &mut PendingWakes) -> bool {
        for _ in 0..BATCH {
            let Some(lock) = graph.any_held(self.id) else { return false };
            if let Some((_, heir)) = graph.orphan(lock) {
                // SAFETY: the entry was in the graph a moment ago, and we have locked the graph's region. The waiter
                // removes the entry from its queue only with that region locked.
                let entry = unsafe { heir.get() };
                if !mutant(Mutant::DeathNotifiesNobody) && !mutant(Mutant::HeirIsNotifiedFirst) {
                    entry.make_heir();
                }
                // SAFETY: queued, and the region is locked.
                pending.push(unsafe { entry.entry.signal.notify_queued() });
                if mutant(Mutant::HeirIsNotifiedFirst) {
                    entry.make_heir();
                }
            }
        }
        true
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.system.is_abandoned() {
            return;
        }
        let result = self.end();
        self.in_region(|g| if result.is_ok() { g.unregister(self.id) } else { self.hide(g) });
    }
}

impl core::fmt::Debug for Task {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Task").field("tid", &self.tid).field("priority", &self.priority()).finish_non_exhaustive()
    }
}
