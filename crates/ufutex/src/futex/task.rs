//! A thread of a guest: its TID, its priority, how it is interrupted, and what happens when it ends.

use super::domain::Domain;
use super::interrupt::Interrupt;
use super::lock_word::TID_MASK;
use super::namespace::{Namespace, Tasks, leak_if_abandoned};
use super::pi::TaskId;
use super::priority::Priority;
use super::system::System;
use super::wait::RestartBlock;
use crate::error::Error;
use crate::lock::Lock;
use crate::sync::{AtomicU8, AtomicU64, Ordering};
use crate::sys::counted::Counted;

/// A thread of a guest, or of this program, by its TID. It owns locks, and waits for them.
///
/// At most one thread or future may wait for a lock as this task at a time. When the guest's thread has ended, call
/// [`Domain::exit`], which walks the task's robust lists, and drop the `Task`: each lock that it owned goes to its first
/// waiter, which writes the word, with `FUTEX_OWNER_DIED`, when it runs or is polled.
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
    pub(super) system: System,
    namespace: Counted<Namespace>,
    tid: u32,
    pub(super) named: Counted<Named>,
    own: AtomicU8,
    /// 1 when the task has been removed from look-ups: it has ended, or is being dropped.
    ended: AtomicU8,
    restart: Lock<Option<RestartBlock>>,
    /// The address of the word that is cleared when the task ends; 0 for none. The task's own thread sets and reads it.
    pub(super) clear_child_tid: AtomicU64,
    /// 1 while an entry of the task is queued for a lock, or to be requeued to one. Orders nothing: a future borrows the task.
    pub(super) waits: AtomicU8,
}

/// What a look-up by TID finds. The [`Task`] refers to it, and so does its PID namespace until the task is hidden.
pub(crate) struct Named {
    /// The number of the task's domain.
    pub space: u64,
    /// It is a thread of the kernel itself, whose locks no other task may wait for.
    pub is_kernel: bool,
    /// The heads of its robust lists, by [`Pointers`](super::robust::Pointers); 0 for none. They order nothing.
    pub robust_lists: [AtomicU64; 2],
    pub interrupt: Interrupt,
    /// The task in its namespace's graph, until the [`Task`] is dropped, or for ever if a future of it was forgotten.
    pub id: TaskId,
}

impl Domain {
    /// Makes a task with this TID, from 1 to 2^30 - 1. No other task of the domain's
    /// [`PidNamespace`](crate::PidNamespace) may have the TID.
    ///
    /// A task of this domain may own locks in the domain's own memory; any task of the namespace, those in shared objects.
    ///
    /// # Errors
    /// [`Error::Invalid`] for any other number; [`Error::Busy`] if the TID is taken; [`Error::NoMemory`].
    pub fn task(&self, tid: u32) -> Result<Task, Error> {
        self.make_task(tid, false)
    }

    /// Raises the [interrupt](Task::interrupt) of each task of the domain, as a kernel signals all threads of a process that is
    /// killed or stopped. They stay raised until they are [cleared](Interrupt::clear). A task that is made or dropped during
    /// the call may be left out. It takes a lock, so it is not async-signal-safe. Waits without a task's interrupt, as by
    /// [`wait`](Self::wait), and futures, which are [ended](crate::WaitFuture::end), go on.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU32;
    /// use ufutex::{Domain, Error, System, WaitOptions};
    ///
    /// let domain = Domain::new(&System::new());
    /// let (word, task) = (AtomicU32::new(0), domain.task(1)?);
    /// std::thread::scope(|scope| {
    ///     let thread = scope.spawn(|| domain.wait_interruptible(&word, 0, &WaitOptions::new(), task.interrupt()));
    ///     domain.interrupt_all();
    ///     assert_eq!(thread.join().unwrap(), Err(Error::Interrupted));
    /// });
    /// # Ok::<(), Error>(())
    /// ```
    pub fn interrupt_all(&self) {
        let mut from = 0;
        loop {
            let first = |tasks: &mut Tasks| tasks.by_tid.first_from(from).map(|(tid, named)| (tid, named.clone()));
            let next = self.namespace().tasks.lock().with(first);
            let Some((tid, named)) = next else { return };
            // With nothing locked: to wake a thread may call an embedder's platform.
            if named.space == self.tables.space {
                named.interrupt.raise();
            }
            from = tid + 1;
        }
    }

    pub(super) fn make_task(&self, tid: u32, is_kernel: bool) -> Result<Task, Error> {
        if tid == 0 || tid > TID_MASK {
            return Err(Error::Invalid);
        }
        let named = self.namespace().tasks.lock().with(|tasks| tasks.add(tid, is_kernel, self.tables.space))?;
        Ok(Task {
            system: self.system.clone(),
            namespace: self.namespace.clone(),
            tid,
            named,
            own: AtomicU8::new(Priority::NORMAL.level()),
            ended: AtomicU8::new(0),
            restart: Lock::new(self.platform(), None),
            clear_child_tid: AtomicU64::new(0),
            waits: AtomicU8::new(0),
        })
    }
}

impl Task {
    /// The task's TID.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The interrupt of the waits in which a thread sleeps for this task: raise it to end them. Futures have
    /// [`Syscall::end`](crate::syscall::Syscall::end) and [`WaitFuture::end`](crate::WaitFuture::end).
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        &self.named.interrupt
    }

    /// Sets the task's own priority: the order in which it is woken, and the priority to which it boosts the owners of
    /// locks that it waits for. A wait in progress keeps its place in the queue, unless it waits for a lock.
    pub fn set_priority(&self, priority: Priority) {
        self.own.store(priority.level(), Ordering::Relaxed);
        self.set_own_in_graph(priority);
    }

    /// The task's own priority, by which it is queued at plain words: see [`set_priority`](Self::set_priority).
    #[must_use]
    pub fn own_priority(&self) -> Priority {
        Priority::from_level(self.own.load(Ordering::Relaxed))
    }

    /// The priority that the task runs with: the best of its own and those of the waiters for its locks.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.effective_priority()
    }

    /// Call this when a signal handler runs. A wait that was interrupted before is then not continued by
    /// [`Number::RestartSyscall`](crate::syscall::Number::RestartSyscall).
    pub fn forget_restart(&self) {
        self.set_restart(None);
    }

    /// The wait that `Number::RestartSyscall` would continue. A checkpoint saves it, with its deadline.
    #[must_use]
    pub fn restart(&self) -> Option<RestartBlock> {
        self.restart.lock().with(|restart| *restart)
    }

    /// Sets what [`restart`](Self::restart) returns, as when a checkpoint is restored.
    pub fn set_restart(&self, wait: Option<RestartBlock>) {
        self.restart.lock().with(|restart| *restart = wait);
    }

    /// Sets the address of the 32-bit word that [`Domain::exit`] clears and wakes, as set_tid_address(2) and clone(2) with
    /// `CLONE_CHILD_CLEARTID` do; 0 for none.
    pub fn set_clear_child_tid(&self, address: u64) {
        self.clear_child_tid.store(address, Ordering::Relaxed);
    }

    pub(crate) fn take_restart(&self) -> Option<RestartBlock> {
        self.restart.lock().with(Option::take)
    }

    pub(super) fn belongs_to(&self, domain: &Domain) -> bool {
        self.named.space == domain.tables.space
            && core::ptr::eq(&raw const *self.system.inner, &raw const *domain.system.inner)
            && self.ended.load(Ordering::Relaxed) == 0
    }

    /// `Busy` if the task waits for a lock.
    pub(super) fn can_end(&self) -> Result<(), Error> {
        if self.waits.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(Error::Busy) }
    }

    /// Removes the task from look-ups, and hands its locks on. `Busy` if it waits: a forgotten future's entry refers to it.
    pub(super) fn end(&self) -> Result<(), Error> {
        self.can_end()?;
        self.hide();
        self.pass_on_locks();
        Ok(())
    }

    fn hide(&self) {
        if self.ended.swap(1, Ordering::Relaxed) == 0 {
            self.namespace().tasks.lock().with(|tasks| tasks.by_tid.remove(self.tid));
        }
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        leak_if_abandoned(&self.namespace, &self.system);
        if self.system.is_abandoned() {
            return;
        }
        if self.end().is_ok() {
            self.leave_graph();
        } else {
            // A forgotten future still waits for the task, so only the TID is given back. Other namespaces that meet its entry
            // in an object's table read only the number of its namespace.
            self.hide();
        }
    }
}

impl core::fmt::Debug for Task {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Task").field("tid", &self.tid).field("priority", &self.priority()).finish_non_exhaustive()
    }
}
