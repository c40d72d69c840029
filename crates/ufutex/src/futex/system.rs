//! The system: the hash secret, limits and shared objects, which all domains share.

use super::config::SystemConfig;
use super::entry::Moment;
use super::namespace::Namespace;
use super::objects::Objects;
use super::pi::Pi;
use super::priority::NORMAL;
use super::seat::Seats;
use crate::error::Error;
use crate::expiry::Driver;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;
use crate::sys::random;
use crate::sys::topology::Nodes;
use crate::table::globals::Globals;
use crate::table::hash::Hasher;
use crate::table::store::{Budget, Source};

/// What all domains of an embedder share: the secret of the hash function, limits, and [`SharedObject`](crate::SharedObject)s.
///
/// Each [`PidNamespace`](crate::PidNamespace) has a global table on each node of the machine, for shared futexes and for the
/// private ones of domains without a table of their own. Those are all on the node of the thread whose wait or resize needed
/// the global table first. A futex that names a node ([`System::on_node`]) is looked up there. For other shared futexes the
/// hash selects the node.
///
/// A namespace's first wait that needs its global table makes it, with fewer slots, at least two, if there is no memory for
/// all. With [`SystemConfig::topology`] the tables are made at once, and making the system or a namespace fails if there is no
/// memory for them. The first [`Timers`](crate::timer::Timers), or the first task with a timeout, makes the driver's wheels.
///
/// A `System` is a handle. Its clones refer to the same system, which lives as long as its last handle or domain.
///
/// ```
/// let system = ufutex::System::new();
/// let (a, b) = (ufutex::Domain::new(&system), ufutex::Domain::new(&system));
/// # let _ = (a, b);
/// ```
#[derive(Clone)]
pub struct System {
    pub(super) inner: Counted<SystemInner>,
}

pub(super) struct SystemInner {
    config: SystemConfig,
    /// The numbers of the next domain and the next namespace.
    pub domains: AtomicU64,
    pub namespaces: AtomicU64,
    pub objects: Objects,
    pub hasher: Hasher,
    moment: AtomicU64,
    pub pi: Pi,
    /// For domains that were made without naming a namespace. Its number is 0.
    pub own_namespace: Counted<Namespace>,
    pub robust_lists_cut: AtomicU64,
    pub seats: Seats,
    /// Threads that have, or ask for, a permit to spin: see `spin`.
    pub spinners: AtomicU32,
    /// 1 in a child of fork(2) that has abandoned its copy.
    abandoned: AtomicU32,
}

impl System {
    /// A system with the default configuration.
    ///
    /// # Panics
    /// If there is no memory. [`with_config`](Self::with_config) returns an error instead.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a system is made once and deliberately")]
    pub fn new() -> Self {
        Self::with_config(SystemConfig::new()).expect("no memory for a futex system")
    }

    /// A system with `config`: see there for an example.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a number of slots is not a power of two from 2 to 2^24, if the number of CPUs is 0, or if
    /// the number of nodes is not from 1 to 1024; [`Error::NoMemory`].
    pub fn with_config(config: SystemConfig) -> Result<Self, Error> {
        let (on, global_size) = (config.platform, config.check()?);
        let budget = Counted::new(|_| Budget::new(config.max_table_bytes))?;
        let nodes = Nodes::new(config.topology.0.clone());
        let globals = Globals::new(Source { on, nodes: nodes.clone(), budget }, global_size)?;
        let pi = config.pi.resolve()?;
        let driver = Driver::make(on, config.clocks.clone(), config.driver_thread.clone(), None)?;
        let own_namespace = Namespace::new(0, globals, driver, config.pi.make_graph(&pi))?;
        let inner = Counted::new(|address| SystemInner {
            domains: AtomicU64::new(1),
            namespaces: AtomicU64::new(1),
            objects: Objects::new(nodes),
            hasher: Hasher::new(config.hash_seed.unwrap_or_else(|| random::seed(address))),
            config,
            moment: AtomicU64::new(0),
            own_namespace,
            pi,
            robust_lists_cut: AtomicU64::new(0),
            seats: Seats::new(),
            spinners: AtomicU32::new(0),
            abandoned: AtomicU32::new(0),
        })?;
        Ok(Self { inner })
    }

    pub(crate) fn platform(&self) -> PlatformRef {
        self.inner.config.platform
    }

    /// The driver of the system's own [`PidNamespace`](crate::PidNamespace).
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.inner.own_namespace.driver
    }

    /// Gives up this process's copy in the child of fork(2), which then makes a system of its own, with new domains and timers.
    ///
    /// In the copy, threads that the child does not have may hold locks and wait in the queues. After this call its handles,
    /// domains, tasks, waits and timers can only be dropped. Memory that they shared with missing threads is leaked, and so is
    /// what was given to the system or its timers. Abandon a driver given to
    /// [`PidNamespace::with_driver`](crate::PidNamespace::with_driver) too, by
    /// [`Driver::abandon_after_fork`](crate::timer::Driver::abandon_after_fork).
    /// If a thread was starting another one at the time of the fork, a lock of the standard library or the C library may keep
    /// the child from starting threads, and so a driver.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU32;
    /// use ufutex::{Domain, System};
    ///
    /// # unsafe extern "C" { fn fork() -> i32; fn _exit(status: i32) -> !; fn waitpid(pid: i32, status: *mut i32, flags: i32) -> i32; }
    /// let mut system = System::new();
    /// let mut domain = Domain::new(&system);
    /// // SAFETY: what a child of fork(2) may do.
    /// let child = unsafe { fork() };
    /// if child == 0 {
    ///     // SAFETY: in the child, before anything else, and no operation was under way on this thread.
    ///     unsafe { system.abandon_after_fork() };
    ///     system = System::new();
    ///     domain = Domain::new(&system);
    ///     let woken = domain.wake(&AtomicU32::new(0), 1);
    /// #   // SAFETY: has no conditions.
    ///     unsafe { _exit(woken as i32) };
    /// }
    /// # let mut status = -1;
    /// # // SAFETY: the status is written.
    /// # assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    /// # assert_eq!(status, 0);
    /// ```
    ///
    /// # Safety
    /// The process is a child of fork(2) that has not started a thread yet. The system was made before the fork, and its memory
    /// is not shared with the parent. The calling thread is in no operation of the system, and so in no callback. From now on
    /// this process only drops what belongs to the system.
    pub unsafe fn abandon_after_fork(&self) {
        self.inner.abandoned.store(1, Ordering::Relaxed);
        // Never dropped: a thread that the child does not have may have been changing it.
        core::mem::forget(self.clone());
        // SAFETY: as for this function.
        unsafe {
            self.driver().abandon_after_fork();
            #[cfg(feature = "std")]
            crate::sys::host::any_std::forget_sleepers();
        }
    }

    /// Whether what belongs to the system may only be dropped, without taking a lock.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inner.abandoned.load(Ordering::Relaxed) != 0
    }

    /// The number of slots of the global table of each node of the system's own [`PidNamespace`](crate::PidNamespace):
    /// fewer than were asked for if there was no memory for them.
    #[must_use]
    pub fn global_slots(&self) -> usize {
        1 << self.globals().slots_log2()
    }

    /// Bytes that the private tables of all domains take: at most [`SystemConfig::max_table_bytes`] plus 1 KiB for each domain.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.globals().source.budget.taken()
    }

    #[inline]
    pub(crate) fn now(&self) -> Moment {
        Moment(self.inner.moment.load(Ordering::Relaxed)) // Ordered by the bucket's lock: [E].
    }

    /// The moment at which a waiter joins a queue whose bucket is locked. That of a real-time waiter, which may be placed ahead
    /// of others, is later than all before: a wake that came for the others and is passed on does not go to it.
    #[inline]
    pub(crate) fn joins(&self, priority: u8) -> Moment {
        if priority == NORMAL {
            return self.now();
        }
        let Moment(before) = self.begin_in_pieces();
        Moment(before + 1)
    }

    /// Begins an operation in pieces on a locked queue. A waiter that joins later, in whichever bucket, notes a later moment.
    pub(crate) fn begin_in_pieces(&self) -> Moment {
        Moment(self.inner.moment.fetch_add(1, Ordering::Relaxed)) // [E]
    }

    /// The number of the machine's last node, plus one.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.globals().count()
    }

    /// Whether the machine has a node of this number.
    #[must_use]
    pub fn has_node(&self, node: u32) -> bool {
        self.globals().has_node(node)
    }

    /// The node that the calling thread runs on: the node that `FUTEX_NO_NODE` stands for.
    #[must_use]
    pub fn current_node(&self) -> u32 {
        self.globals().current_node()
    }

    /// The global tables of the system's own namespace. Those of all namespaces are of one size.
    pub(crate) fn globals(&self) -> &Globals {
        &self.inner.own_namespace.globals
    }

    pub(crate) fn config(&self) -> &SystemConfig {
        &self.inner.config
    }
}
