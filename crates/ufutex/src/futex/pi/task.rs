//! A thread of a guest: who owns locks, where it sleeps, how it is interrupted, what it leaves when it ends.

use super::graph::{Graph, TaskId};
use super::scheduler::Priority;
use super::{EntryRef, TID_MASK};
use crate::error::Error;
use crate::expiry::Driver;
use crate::futex::domain::Domain;
use crate::futex::entry::{BATCH, Rests};
use crate::futex::interrupt::Interrupt;
use crate::futex::system::System;
use crate::futex::wait::Continued;
use crate::sync::{AtomicU8, Mutant, Ordering, mutant};
use crate::table::layout::{Layout, Lean};
use crate::table::lock::Lock;
use crate::table::refs::Scheme;

/// A thread of a guest, or of this program, by its TID: who owns locks, and who waits for them.
///
/// One thread (or future) waits for a lock with a task at a time. Dropped, it has ended: each lock that it owned and that somebody
/// waits for goes to the first waiter, with `FUTEX_OWNER_DIED` in the word. [`Domain::exit`] walks its robust lists
/// before.
///
/// ```
/// # use ufutex::{Domain, Error, Priority, System};
/// let domain = Domain::new(&System::new());
/// let task = domain.task(1234)?;
/// assert_eq!(task.priority(), Priority::NORMAL);
/// assert_eq!(domain.task(1234).err(), Some(Error::Busy)); // the number is taken
/// # Ok::<(), Error>(())
/// ```
pub struct Task<L: Layout = Lean> {
    system: System<L>,
    id: TaskId<EntryRef>,
    tid: u32,
    space: u64,
    own: AtomicU8,
    /// Whether an entry of the task stands in a queue. If the task is dropped nevertheless, its future was forgotten. A flag
    /// that guards nothing: a future borrows the task, so it has let go of it before the task is dropped.
    waits: AtomicU8,
    /// Whether it has ended.
    ended: AtomicU8,
    interrupt: Interrupt,
    /// A wait with a timeout that was interrupted.
    restart: Lock<Option<Continued>>,
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// The task with this TID, from 1 to 2^30 - 1, which nobody else of the system has: a system is one PID namespace.
    ///
    /// A lock in memory of the domain's own is owned by a task of that domain, or by nobody that can be waited for; one in
    /// a shared object by any of the system.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another TID, [`Error::Busy`] when it is taken, [`Error::NoMemory`].
    pub fn task(&self, tid: u32) -> Result<Task<L>, Error> {
        self.make_task(tid, false)
    }

    /// As [`task`](Self::task), for a thread of the kernel itself: who waits for a lock of which it is the owner gets
    /// [`Error::NotPermitted`].
    ///
    /// # Errors
    /// As for `task`.
    pub fn kernel_task(&self, tid: u32) -> Result<Task<L>, Error> {
        self.make_task(tid, true)
    }

    fn make_task(&self, tid: u32, is_kernel: bool) -> Result<Task<L>, Error> {
        if tid == 0 || tid > TID_MASK {
            return Err(Error::Invalid);
        }
        let space = self.tables.space;
        let id = self.system.graph().lock().with(|g| g.register(tid, space, is_kernel))?;
        Ok(Task {
            system: self.system.clone(),
            id,
            tid,
            space,
            own: AtomicU8::new(Priority::NORMAL.level()),
            waits: AtomicU8::new(0),
            ended: AtomicU8::new(0),
            interrupt: Interrupt::new(),
            restart: Lock::new(None),
        })
    }
}

impl<L: Layout> Task<L> {
    /// Who watches the timeouts of its system calls.
    pub(crate) fn driver(&self) -> &Driver {
        self.system.driver()
    }

    /// Its number.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// What ends its waits.
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Sets its own priority: the order in which it is woken, and what it lends the owners of locks that it waits for. A
    /// wait that goes on keeps its place in a queue, except for a lock's.
    pub fn set_priority(&self, priority: Priority) {
        self.own.store(priority.level(), Ordering::Relaxed);
        self.system.graph().lock().with(|g| g.set_own(self.id, priority.level()));
        self.system.tell_scheduler();
    }

    /// The priority that it runs with: the best of its own and of those that wait for its locks.
    #[must_use]
    pub fn priority(&self) -> Priority {
        Priority::from_level(self.system.graph().lock().with(|g| g.effective(self.id)))
    }

    /// A signal handler runs: a wait that was interrupted before it is not continued after it, by
    /// [`Number::RestartSyscall`](crate::Number::RestartSyscall).
    pub fn forget_restart(&self) {
        self.take_restart();
    }

    /// One wait at a time: `Busy` while there is another one.
    pub(crate) fn begins_to_wait(&self) -> Result<(), Error> {
        if self.waits.swap(1, Ordering::Relaxed) == 0 { Ok(()) } else { Err(Error::Busy) }
    }

    pub(crate) fn waits_no_more(&self) {
        self.waits.store(0, Ordering::Relaxed);
    }

    pub(crate) fn id(&self) -> TaskId<EntryRef> {
        self.id
    }

    /// Its own priority, for plain queues.
    pub(crate) fn own_priority(&self) -> Priority {
        Priority::from_level(self.own.load(Ordering::Relaxed))
    }

    pub(crate) fn with_lists<R>(&self, f: impl FnOnce(&mut [u64; 2]) -> R) -> R {
        self.system.graph().lock().with(|g| f(g.robust_lists(self.id)))
    }

    pub(crate) fn set_restart(&self, wait: Continued) {
        self.restart.lock().with(|restart| *restart = Some(wait));
    }

    pub(crate) fn take_restart(&self) -> Option<Continued> {
        self.restart.lock().with(Option::take)
    }

    /// Whether it is a task of the domain with this space, in the system of that domain, and has not ended.
    pub(crate) fn belongs_to<S: Scheme<L>>(&self, domain: &Domain<S, L>) -> bool {
        self.space == domain.tables.space
            && self.system.is_same(&domain.system)
            && self.ended.load(Ordering::Relaxed) == 0
    }
}

impl<L: Layout> Task<L> {
    /// Nobody finds the task any more, and its locks go to those who wait for them. `Busy` if it waits itself: then its
    /// future may be polled or dropped yet, or was forgotten, and names the task and its locks for ever.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.waits.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy);
        }
        self.ended.store(1, Ordering::Relaxed);
        self.system.graph().lock().with(|g| g.hide(self.id));
        self.pass_on_locks();
        Ok(())
    }

    fn pass_on_locks(&self) {
        /// Goes on after a waker that panicked.
        struct Rest<'a, L: Layout>(&'a Task<L>);
        impl<L: Layout> Drop for Rest<'_, L> {
            fn drop(&mut self) {
                self.0.pass_on_locks();
            }
        }
        loop {
            let mut rests = Rests::none();
            let is_left = self.system.graph().lock().with(|g| self.pass_on_some(g, &mut rests));
            let rest = Rest(self);
            self.system.tell_scheduler();
            drop(rests);
            core::mem::forget(rest);
            if !is_left {
                return;
            }
        }
    }

    /// A batch of them. Whether there are more.
    fn pass_on_some(&self, graph: &mut Graph<EntryRef>, rests: &mut Rests) -> bool {
        for _ in 0..BATCH {
            let Some(lock) = graph.any_held(self.id) else { return false };
            if let Some((_, heir)) = graph.orphan(lock) {
                // SAFETY: it was in the graph a moment ago, which we have locked; it stays queued until it has
                // locked the graph itself.
                let entry = unsafe { heir.get() };
                if !mutant(Mutant::DeathTellsNobody) && !mutant(Mutant::HeirIsToldFirst) {
                    entry.make_heir();
                }
                // SAFETY: queued, and the graph is locked.
                rests.push(unsafe { entry.entry.signal.prod() });
                if mutant(Mutant::HeirIsToldFirst) {
                    entry.make_heir();
                }
            }
        }
        true
    }
}

impl<L: Layout> Drop for Task<L> {
    fn drop(&mut self) {
        let result = self.end();
        self.system.graph().lock().with(|g| {
            if result.is_ok() {
                g.unregister(self.id);
            } else {
                g.hide(self.id);
            }
        });
    }
}

impl<L: Layout> core::fmt::Debug for Task<L> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Task").field("tid", &self.tid).field("priority", &self.priority()).finish_non_exhaustive()
    }
}
