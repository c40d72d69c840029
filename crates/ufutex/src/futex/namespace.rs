//! PID namespaces: which task a TID names.
//!
//! A TID is looked up only in the namespace of the caller: look-ups ask the caller's [`Names`], and an operation that
//! finds a waiter of another namespace queued fails ([`Domain::is_of_namespace`]). So a region never contains tasks of
//! two namespaces.

use super::domain::Domain;
use super::system::System;
use super::task::Named;
use super::tids::Tids;
use crate::error::Error;
use crate::lock::Lock;
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;
use crate::table::refs::Scheme;

/// The TIDs of one guest, which may consist of several domains: a PID namespace, as in pid_namespaces(7).
///
/// Domains of one namespace are processes of one guest: each can name the others' tasks in words of objects that they
/// share. To domains of another namespace those tasks do not exist. So each namespace may have a task 1. No word that a
/// guest writes can lend a priority to a task of another namespace, or turn such a task's wait into a deadlock. Give
/// guests that do not trust each other a namespace each.
///
/// Domains of two namespaces may share objects. Plain waits, wakes and requeues work across namespaces; locks do not.
/// [`lock_pi`](Domain::lock_pi), [`try_lock_pi`](Domain::try_lock_pi), [`unlock_pi`](Domain::unlock_pi) and
/// [`cmp_requeue_pi`](Domain::cmp_requeue_pi) look up a TID in the word in the caller's own namespace, and fail with
/// [`Error::Invalid`] if they find a waiter of another namespace queued. Linux does alike: a caller sees a TID of 0 for
/// an owner outside its namespace. There is one exception: there a task of another namespace may wait for a lock whose
/// owner has died.
///
/// A system has one namespace of its own ([`System::pid_namespace`]), which [`Domain::new`] and
/// [`Domain::with_options`] use. Namespaces are not nested: none has ancestors that could see its tasks.
///
/// A `PidNamespace` is a handle. Clones of it stand for one namespace, which lives as long as its last handle, domain
/// or task, and keeps its system alive.
///
/// ```
/// # use ufutex::{Domain, Error, Options, PidNamespace, System};
/// let system = System::new();
/// let [one, other] = [PidNamespace::new(&system)?, PidNamespace::new(&system)?];
/// let [parent, child]: [Domain; 2] = [&one, &one].map(|guest| Domain::in_namespace(guest, Options::new()));
/// let stranger = Domain::in_namespace(&other, Options::new());
///
/// let init = parent.task(1)?;
/// assert_eq!(child.task(1).err(), Some(Error::Busy));
/// assert_eq!(stranger.task(1)?.tid(), init.tid());
/// # Ok::<(), Error>(())
/// ```
pub struct PidNamespace {
    names: NamesHandle,
    system: System,
}

/// The tasks of a namespace, by TID. The time that its lock is held does not grow with the number of tasks.
pub(crate) struct Names {
    number: u64,
    tids: Lock<Tids<Counted<Named>>>,
}

/// Keeps the [`Names`] of a namespace alive. `None` means the system's own namespace, whose names live as long as the
/// system.
#[derive(Clone)]
pub(crate) struct NamesHandle(Option<Counted<Names>>);

impl PidNamespace {
    /// A namespace without tasks.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(system: &System) -> Result<Self, Error> {
        let names = Counted::new(|_| Names::new(system.platform(), system.number_namespace()))?;
        Ok(Self { names: NamesHandle(Some(names)), system: system.clone() })
    }

    /// The namespace's number, which no other namespace of the system has. The engine passes it to
    /// [`Scheduler::set_priority_in`]. The system's own namespace has 0.
    ///
    /// [`Scheduler::set_priority_in`]: crate::pi::Scheduler::set_priority_in
    #[must_use]
    pub fn number(&self) -> u64 {
        self.names.of(&self.system).number
    }

    /// The system that the namespace is part of.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }

    pub(crate) fn names(&self) -> &NamesHandle {
        &self.names
    }
}

impl Clone for PidNamespace {
    fn clone(&self) -> Self {
        Self { names: self.names.clone(), system: self.system.clone() }
    }
}

impl core::fmt::Debug for PidNamespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PidNamespace").field("number", &self.number()).finish_non_exhaustive()
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        self.names.leak_if_abandoned(&self.system);
    }
}

impl NamesHandle {
    /// To be called before the handle is dropped. In a child of fork(2) that has abandoned the system, the names are
    /// never freed: a thread that the child does not have may have been changing them.
    pub fn leak_if_abandoned(&self, system: &System) {
        if system.is_abandoned() {
            core::mem::forget(self.clone());
        }
    }

    /// The names behind the handle. `system` is the one that the namespace is part of.
    pub fn of<'a>(&'a self, system: &'a System) -> &'a Names {
        self.0.as_deref().unwrap_or_else(|| system.names())
    }
}

impl Names {
    pub fn new(on: PlatformRef, number: u64) -> Self {
        Self { number, tids: Lock::new(on, Tids::new()) }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Notes that a task has the TID.
    ///
    /// # Errors
    /// [`Error::Busy`] if another task has the TID; [`Error::NoMemory`].
    pub fn name(&self, tid: u32, task: Counted<Named>) -> Result<(), Error> {
        self.tids.lock().with(|tids| tids.insert(tid, task))
    }

    /// Notes that no task has the TID any more.
    pub fn forget(&self, tid: u32) {
        self.tids.lock().with(|tids| tids.remove(tid));
    }

    /// What the task with this TID has, if there is one. It may have ended by the time that the caller uses it.
    pub fn look_up<R>(&self, tid: u32, what: impl FnOnce(&Named) -> R) -> Option<R> {
        self.tids.lock().with(|tids| tids.get(tid).map(|named| what(named)))
    }
}

impl System {
    /// The system's own namespace. Domains that are made without naming a namespace belong to it.
    #[must_use]
    pub fn pid_namespace(&self) -> PidNamespace {
        PidNamespace { names: NamesHandle(None), system: self.clone() }
    }
}

impl<S: Scheme> Domain<S> {
    /// The namespace of the domain's tasks. Another process of the same guest is a domain made in this namespace.
    #[must_use]
    pub fn pid_namespace(&self) -> PidNamespace {
        PidNamespace { names: self.names.clone(), system: self.system.clone() }
    }

    /// The TIDs of the domain's namespace. They say which task a TID means, whether a task of the domain passes the TID
    /// or a word holds it.
    pub(crate) fn names(&self) -> &Names {
        self.names.of(&self.system)
    }
}
