//! Reports the priorities that tasks run with to an embedder's scheduler; what graphs are made with.

use super::PiGraph;
use crate::error::Error;
use crate::futex::config::SystemConfig;
use crate::futex::namespace::{Namespace, Tasks};
use crate::futex::priority::Priority;
use crate::futex::system::System;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::callbacks::{Callbacks, callbacks};
use crate::sys::counted::Counted;
use crate::sys::unwind::{Otherwise, call};

/// An embedder's scheduler, which runs tasks with the priority to which their waiters boost them.
///
/// ```
/// use std::sync::{Arc, Mutex, atomic::AtomicU32};
/// use ufutex::{SystemConfig, Domain, System, pi::{Priority, Scheduler}};
///
/// #[derive(Default)]
/// struct Log(Mutex<Vec<(u32, Priority)>>);
///
/// impl Scheduler for Log {
///     fn set_priority(&self, tid: u32, priority: Priority) {
///         self.0.lock().unwrap().push((tid, priority));
///     }
/// }
///
/// let log = Arc::new(Log::default());
/// let system = System::with_scheduler(SystemConfig::new(), log.clone())?;
/// let domain = Domain::new(&system);
/// let (owner, waiter) = (domain.task(1)?, domain.task(2)?);
/// waiter.set_priority(Priority::realtime(10));
///
/// let lock = AtomicU32::new(0);
/// domain.lock_pi(&lock, &owner)?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| domain.lock_pi(&lock, &waiter));
///     while owner.priority() != Priority::realtime(10) {}
///     domain.unlock_pi(&lock, &owner)
/// })?;
/// assert!(log.0.lock().unwrap().ends_with(&[(1, Priority::NORMAL)]));
/// # Ok::<(), ufutex::Error>(())
/// ```
pub trait Scheduler: Send + Sync {
    /// Called when the task runs with this priority from now on.
    ///
    /// Called with no lock held, by any thread, and by several at once. The last call for a task reports its current priority.
    /// It may use domains, tasks and the system, but must not wait for another thread's operation, which may be waiting for
    /// this call.
    ///
    /// The call may come after the task has ended: a scheduler ignores TIDs that it does not know. When a lock is handed over,
    /// its next owner is woken before its former owner is reported, so a scheduler may take the CPU from a thread whose
    /// priority falls.
    ///
    /// Without `std`, on a platform with [`KEEPS_CPU`](crate::platform::Platform::KEEPS_CPU), the call is made between `enter`
    /// and `leave`, so that more urgent threads cannot delay the report, and must not sleep.
    ///
    /// It may panic. The panic reaches the caller of the operation, which has been done: the new owner has been woken, the
    /// counters include it, and the change counts as reported. Other changes are reported before the panic continues.
    fn set_priority(&self, tid: u32, priority: Priority);

    /// Like [`set_priority`](Self::set_priority), for systems where tasks may share a TID. The engine calls this function, with
    /// the [number](crate::PidNamespace::number) of the task's PID namespace. By default it calls `set_priority`.
    fn set_priority_in(&self, namespace: u64, tid: u32, priority: Priority) {
        let _ = namespace;
        self.set_priority(tid, priority);
    }
}

callbacks!(Scheduler);

#[derive(Clone, Debug)]
pub(crate) struct PiSettings {
    max_depth: usize,
    scheduler: Option<Callbacks<dyn Scheduler>>,
}

/// How many waits were refused because a chain would have been too long, in all graphs of a system.
pub(crate) type Pi = Counted<AtomicU64>;

impl PiSettings {
    pub const fn new() -> Self {
        Self { max_depth: 1024, scheduler: None }
    }

    pub fn resolve(&self) -> Result<Pi, Error> {
        Counted::new(|_| AtomicU64::new(0))
    }

    pub fn make_graph(&self, chains_refused: &Pi) -> PiGraph {
        PiGraph::new(self.max_depth, chains_refused.clone())
    }
}

impl SystemConfig {
    /// Longest chain of lock owners, each blocked on a lock of the next, that `lock_pi` may build, not counting the first wait.
    /// Default: 1024, the kernel's `max_lock_depth`. A wait that would make a chain longer fails with `EDEADLK`, at whichever
    /// end it would extend the chain. The kernel does not refuse a wait that extends it at its end, by the last owner.
    #[must_use]
    pub const fn max_pi_depth(mut self, locks: usize) -> Self {
        self.pi.max_depth = locks;
        self
    }
}

impl System {
    /// A system with `config`. `scheduler` is notified of the priorities that its tasks are to run with.
    ///
    /// # Errors
    /// As for [`with_config`](Self::with_config).
    pub fn with_scheduler(
        mut config: SystemConfig,
        scheduler: impl Into<Callbacks<dyn Scheduler>>,
    ) -> Result<Self, Error> {
        config.pi.scheduler = Some(scheduler.into());
        Self::with_config(config)
    }

    /// How many waits for a lock were refused because the chain of owners would have been longer than is allowed.
    #[must_use]
    pub fn pi_chains_refused(&self) -> u64 {
        self.inner.pi.load(Ordering::Relaxed)
    }

    /// Reports to the scheduler all changes of priority of the namespace's tasks that have not been reported. The graph is not
    /// locked. If the scheduler panics, the change counts as reported, and all others are reported before the panic continues.
    pub(crate) fn report_priorities(&self, namespace: &Namespace) {
        let Some(scheduler) = self.config().pi.scheduler.as_deref() else { return };
        loop {
            // No other thread reports what this one is about to. So if the platform allows it, this one keeps its CPU until the
            // scheduler knows the priority: this thread may be less urgent than the task.
            let _section = self.platform().section();
            let change = namespace.tasks.lock().with(|tasks| tasks.graph.next_changed());
            let Some((tid, mut level)) = change else { return };
            loop {
                let go_on = Otherwise::new(|| {
                    namespace.tasks.lock().with(|tasks| {
                        if let Some(task) = tasks.by_tid.get(tid) {
                            tasks.graph.note_report(task.id, level);
                        }
                    });
                    self.report_priorities(namespace);
                });
                call(|| scheduler.set_priority_in(namespace.number, tid, Priority::from_level(level)));
                go_on.disarm();
                // If the priority has changed meanwhile, another thread may have reported that before `level` was.
                let effective = |tasks: &mut Tasks| tasks.by_tid.get(tid).map(|task| tasks.graph.effective(task.id));
                match namespace.tasks.lock().with(effective) {
                    Some(now) if now != level => level = now,
                    _ => break,
                }
            }
        }
    }
}
