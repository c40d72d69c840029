//! The registration of a task in the graph of owners and waiters. A task owns locks there, and waits for one at a time.

use super::EntryRef;
use super::graph::TaskId;
use super::region::{HomeRef, PiGraph};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::{BATCH, PendingWakes};
use crate::futex::priority::Priority;
use crate::futex::system::System;
use crate::futex::task::{Task, TaskKind};
use crate::sync::{AtomicU8, Mutant, Ordering, mutant};
use crate::table::refs::Scheme;

/// What a [`Task`] has in the graph: it is a task there for as long as this value is not unregistered.
pub(crate) struct Registration {
    home: HomeRef,
    id: TaskId<EntryRef>,
    /// Whether an entry of the task stands in a queue. If it does when the task is dropped, its future was forgotten.
    /// The flag orders nothing: a future borrows the task, so it is gone before the task is dropped.
    waits: AtomicU8,
}

impl Registration {
    /// Registers a task with this TID, which no other task of its domain's namespace has.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(system: &System, home: HomeRef, tid: u32, kind: TaskKind) -> Result<Self, Error> {
        let registered = system.in_region(home, |g| g.register(home.number(), tid, kind));
        Ok(Self { home, id: registered.unwrap_or(Err(Error::NoMemory))?, waits: AtomicU8::new(0) })
    }

    /// Whether the task waits for a lock.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed) != 0
    }

    /// Removes the task from look-ups by TID.
    pub fn hide(&self, system: &System) {
        self.in_region(system, |g| g.hide(self.id));
    }

    /// Removes a task that has ended.
    pub fn unregister(&self, system: &System) {
        self.in_region(system, |g| g.unregister(self.id));
    }

    /// Sets the task's own priority, and reports those that change.
    pub fn set_own_priority(&self, system: &System, own: Priority) {
        self.in_region(system, |g| g.set_own(self.id, own.level()));
        system.report_priorities(self.home);
    }

    /// The priority that the task runs with.
    pub fn priority(&self, system: &System) -> Priority {
        self.in_region(system, |g| Priority::from_level(g.effective(self.id))).unwrap_or(Priority::NORMAL)
    }

    /// Runs `f` with the task's region locked. The region exists as long as the task does.
    fn in_region<R>(&self, system: &System, f: impl FnOnce(&mut PiGraph) -> R) -> Option<R> {
        system.in_region(self.home, f)
    }

    /// Hands each lock that the task owns to its first waiter: the task has ended.
    pub fn pass_on_locks(&self, system: &System) {
        /// Passes on the remaining locks if a waker panics.
        struct GoOn<'a>(&'a Registration, &'a System);
        impl Drop for GoOn<'_> {
            fn drop(&mut self) {
                self.0.pass_on_locks(self.1);
            }
        }
        loop {
            let mut pending = PendingWakes::none();
            // As in `unlock_pi`: the heirs are woken before this thread can lose its CPU or its priority.
            let section = system.platform().section();
            let is_left = self.in_region(system, |g| self.pass_on_some(g, &mut pending)).unwrap_or(false);
            let go_on = GoOn(self, system);
            let section = (!pending.calls_wakers()).then_some(section);
            drop(pending);
            drop(section);
            system.report_priorities(self.home);
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

impl<S: Scheme> Domain<S> {
    /// Like [`task`](Self::task), for a thread of the kernel itself. A task that would have to wait for a lock of such
    /// an owner gets [`Error::NotPermitted`].
    ///
    /// # Errors
    /// As for `task`.
    pub fn kernel_task(&self, tid: u32) -> Result<Task, Error> {
        self.make_task(tid, TaskKind::Kernel)
    }
}

impl Task {
    /// Notes that the task waits. `Busy` if it already waits elsewhere.
    pub(super) fn begins_to_wait(&self) -> Result<(), Error> {
        if self.registration.waits.swap(1, Ordering::Relaxed) == 0 { Ok(()) } else { Err(Error::Busy) }
    }

    pub(super) fn waits_no_more(&self) {
        self.registration.waits.store(0, Ordering::Relaxed);
    }

    pub(super) fn id(&self) -> TaskId<EntryRef> {
        self.registration.id
    }

    /// The home of the task's domain.
    pub(super) fn home(&self) -> HomeRef {
        self.registration.home
    }
}
