//! PID namespaces: which task a TID names, and what the domains of one guest share.
//!
//! A [`Namespace`] has the tables, tasks and driver of its domains, and no other domain locks them. So a guest's thread that
//! loses its CPU with one of them locked stops only its own guest. A TID is looked up in the caller's namespace, and an
//! operation that meets a waiter of another one fails ([`Domain::is_of_namespace`]).

use super::domain::Domain;
use super::pi::PiGraph;
use super::system::System;
use super::task::Named;
use super::tids::Tids;
use crate::error::Error;
use crate::expiry::Driver;
use crate::lock::Lock;
use crate::sync::Ordering;
use crate::sys::counted::Counted;
use crate::table::globals::Globals;

/// A guest of one or several domains: its TIDs, as in pid_namespaces(7), and what its domains share in the engine.
///
/// Domains of one namespace are processes of one guest: each can name the others' tasks in words of objects that they
/// share. To domains of another namespace those tasks do not exist: no word that a guest writes can boost them, or turn
/// their waits into a deadlock. Give guests that do not trust each other a namespace each.
///
/// A namespace has a global table of its own, for shared words and for domains without a table. With the host's clocks it has a
/// [driver](Self::driver) of its own, too: then no operation waits for a lock, a table or a driver of another namespace,
/// unless both use one [`SharedObject`](crate::SharedObject). With an embedder's [clocks](crate::SystemConfig::clocks) all
/// namespaces share the system's driver, unless one is [given](Self::with_driver). Any other [`ObjectId`](crate::ObjectId)
/// names a different object in each namespace.
/// Plain waits, wakes and requeues of words in a shared object work across namespaces. Operations on locks fail with
/// [`Error::Invalid`] if they find a waiter of another namespace, because a TID is looked up in the caller's own. Linux does
/// the same, except that such a waiter may wait for a lock whose owner has died.
///
/// [`Domain::new`] and [`Domain::with_options`] use the system's own namespace, [`System::pid_namespace`]. Namespaces are not
/// nested. Clones of this handle stand for one namespace, which lives as long as its last handle, domain or task.
///
/// ```
/// # use ufutex::{Domain, Error, DomainOptions, PidNamespace, System};
/// let system = System::new();
/// let [one, other] = [PidNamespace::new(&system)?, PidNamespace::new(&system)?];
/// let [parent, child]: [Domain; 2] = [&one, &one].map(|guest| Domain::in_namespace(guest, DomainOptions::new()));
/// let stranger = Domain::in_namespace(&other, DomainOptions::new());
///
/// let init = parent.task(1)?;
/// assert_eq!(child.task(1).err(), Some(Error::Busy));
/// assert_eq!(stranger.task(1)?.tid(), init.tid());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone)]
pub struct PidNamespace {
    pub(super) inner: Counted<Namespace>,
    system: System,
}

pub(crate) struct Namespace {
    pub number: u64,
    pub tasks: Lock<Tasks>,
    pub globals: Globals,
    pub driver: Driver,
}

/// The tasks of a namespace: by TID, and in the graph of `lock_pi`. Their lock has its cache line to itself.
#[repr(align(64))]
pub(crate) struct Tasks {
    pub by_tid: Tids<Counted<Named>>,
    pub graph: PiGraph,
}

impl PidNamespace {
    /// A namespace without tasks.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(system: &System) -> Result<Self, Error> {
        Self::with_driver(system, &system.driver().for_another_namespace()?)
    }

    /// As [`new`](Self::new), with this driver for its tasks' timeouts. `new` uses the system's driver if the system was given
    /// [clocks](crate::SystemConfig::clocks), and otherwise a new one. The embedder turns this driver too, and abandons it as
    /// well as the system in a child of fork(2) ([`Driver::abandon_after_fork`]).
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn with_driver(system: &System, driver: &Driver) -> Result<Self, Error> {
        let number = system.inner.namespaces.fetch_add(1, Ordering::Relaxed);
        let (globals, driver) = (system.globals().another()?, driver.with_new_group()?);
        let inner = Namespace::new(number, globals, driver, system.config().pi.make_graph(&system.inner.pi))?;
        Ok(Self { inner, system: system.clone() })
    }

    /// The driver that expires the timeouts of the namespace's tasks. Make the timers of its processes with it too: so they
    /// wait for no lock of another guest. A driver of several namespaces serves them by namespace first: see [`Driver::turn`].
    ///
    /// ```
    /// use ufutex::{PidNamespace, System, timer::Timers};
    /// let guest = PidNamespace::new(&System::new())?;
    /// let (timers, expiries) = Timers::channel(guest.driver(), Default::default())?;
    /// # let _ = (timers, expiries);
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.inner.driver
    }

    /// The namespace's number in its system, for [`Scheduler::set_priority_in`]. The system's own namespace has 0.
    ///
    /// [`Scheduler::set_priority_in`]: crate::pi::Scheduler::set_priority_in
    #[must_use]
    pub fn number(&self) -> u64 {
        self.inner.number
    }

    /// The system that the namespace is part of.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }
}

impl core::fmt::Debug for PidNamespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PidNamespace").field("number", &self.number()).finish_non_exhaustive()
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        leak_if_abandoned(&self.inner, &self.system);
    }
}

/// Before a handle is dropped: if the system was abandoned in a child of fork(2), keeps the namespace, which a thread that the
/// child does not have may have been changing.
pub(super) fn leak_if_abandoned(namespace: &Counted<Namespace>, system: &System) {
    if system.is_abandoned() {
        core::mem::forget(namespace.clone());
    }
}

impl Namespace {
    pub fn new(number: u64, globals: Globals, driver: Driver, graph: PiGraph) -> Result<Counted<Self>, Error> {
        let tasks = Lock::new(globals.source.on, Tasks { by_tid: Tids::Empty, graph });
        Counted::new(|_| Self { number, tasks, globals, driver })
    }
}

impl Tasks {
    /// Adds a task of the domain with the number `space`. [`Error::Busy`] if another task has the TID; [`Error::NoMemory`].
    pub fn add(&mut self, tid: u32, is_kernel: bool, space: u64) -> Result<Counted<Named>, Error> {
        let id = self.graph.register(tid)?;
        let (robust_lists, interrupt) = Default::default();
        let named = Counted::new(|_| Named { space, is_kernel, robust_lists, interrupt, id });
        let added = named.and_then(|named| self.by_tid.insert(tid, named.clone()).map(|()| named));
        if added.is_err() {
            self.graph.unregister(id);
        }
        added
    }
}

impl System {
    /// The system's own namespace, of the domains that are made without naming one.
    #[must_use]
    pub fn pid_namespace(&self) -> PidNamespace {
        PidNamespace { inner: self.inner.own_namespace.clone(), system: self.clone() }
    }
}

impl Domain {
    /// The namespace of the domain's tasks. Another process of the same guest is a domain made in this namespace.
    #[must_use]
    pub fn pid_namespace(&self) -> PidNamespace {
        PidNamespace { inner: self.namespace.clone(), system: self.system.clone() }
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}
