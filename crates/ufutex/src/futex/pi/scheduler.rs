//! Reports the priorities that tasks run with to an embedder's scheduler.

use core::fmt;

use super::region::HomeRef;
use crate::futex::priority::Priority;
use crate::futex::system::System;
use crate::sys::callbacks::{Callbacks, callbacks};
use crate::sys::unwind::{Otherwise, call};

/// An embedder's scheduler, which runs tasks with the priority that their waiters lend them.
///
/// ```
/// use std::sync::{Arc, Mutex, atomic::AtomicU32};
/// use ufutex::{Config, Domain, System, pi::{Priority, Scheduler}};
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
/// let system = System::with_scheduler(Config::new(), log.clone())?;
/// let domain = Domain::new(&system);
/// let (owner, waiter) = (domain.task(1)?, domain.task(2)?);
/// waiter.set_priority(Priority::realtime(10));
///
/// let lock = AtomicU32::new(0);
/// domain.lock_pi(&lock, &owner, None)?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| domain.lock_pi(&lock, &waiter, None));
///     while owner.priority() != Priority::realtime(10) {}
///     domain.unlock_pi(&lock, &owner)
/// })?;
/// assert!(log.0.lock().unwrap().ends_with(&[(1, Priority::NORMAL)]));
/// # Ok::<(), ufutex::Error>(())
/// ```
pub trait Scheduler: Send + Sync {
    /// Called when the task runs with this priority from now on.
    ///
    /// Called with no lock held, by any thread, and by several at the same time. The last call for a task reports its
    /// current priority. The function may use domains, tasks and the system, but must not wait for another thread's
    /// operation on the system, which may itself be waiting for this call to return.
    ///
    /// The call may come after the task has ended, if its priority changed before: a scheduler ignores TIDs that it
    /// does not know. When a lock is handed over, its next owner is woken before its former owner is reported. So a
    /// scheduler may take the CPU from a thread as soon as it learns that the thread's priority has fallen.
    ///
    /// Without `std`, on a platform with [`KEEPS_CPU`](crate::platform::Platform::KEEPS_CPU), the call is made between
    /// `enter` and `leave`, and must not sleep. Otherwise more urgent threads could preempt a thread that is about to
    /// report a change, and so delay the report for as long as they run.
    ///
    /// It may panic. The panic reaches the caller of the operation, which has been done: the lock has its new owner,
    /// the new owner has been woken, and the counters include it. The change counts as reported although the call
    /// panicked. Other changes are reported before the panic continues.
    fn set_priority(&self, tid: u32, priority: Priority);

    /// Like [`set_priority`](Self::set_priority), for systems in which several tasks may have one TID. The engine calls
    /// this function, with the [number](crate::PidNamespace::number) of the task's PID namespace. The provided
    /// implementation ignores the namespace and calls `set_priority`.
    fn set_priority_in(&self, namespace: u64, tid: u32, priority: Priority) {
        let _ = namespace;
        self.set_priority(tid, priority);
    }
}

callbacks!(Scheduler);

/// The scheduler of a configuration. Schedulers need not be `Debug`.
#[derive(Clone)]
pub(crate) struct GivenScheduler(pub Option<Callbacks<dyn Scheduler>>);

impl fmt::Debug for GivenScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "given" } else { "none" })
    }
}

/// Names a task by its home and TID. It may be kept after the task has ended, even when the home has become
/// another domain's.
#[derive(Clone, Copy)]
struct Named {
    home: HomeRef,
    tid: u32,
}

impl System {
    /// Reports to the scheduler all changes of priority, in the region of a home, that have not been reported yet.
    pub(crate) fn report_priorities(&self, home: HomeRef) {
        let Some(scheduler) = self.scheduler() else { return };
        loop {
            // No other thread reports what this one is about to. So if the platform allows it, this one keeps its CPU
            // until the scheduler knows the task's last priority: it may be less urgent than the task.
            let _section = self.platform().section();
            // The region is unlocked before the scheduler is called.
            let change = self.in_region(home, |g| {
                let (home, tid, level) = g.next_changed()?;
                Some((Named { home, tid }, level))
            });
            let Some((task, level)) = change.flatten() else { return };
            self.report(scheduler, home, task, level);
        }
    }

    /// Reports one change. If the task's priority has changed again meanwhile, it reports that too, so that the last
    /// report is right. If the scheduler panics, the change counts as reported, and everything else in the region of
    /// `home` is reported before the panic continues.
    fn report(&self, scheduler: &dyn Scheduler, home: HomeRef, task: Named, level: u8) {
        let mut reported = level;
        loop {
            let go_on = Otherwise::new(move || {
                if let Some(now) = self.changed_from(task, reported) {
                    self.report(scheduler, home, task, now);
                }
                self.report_priorities(home);
            });
            call(|| scheduler.set_priority_in(task.home.regions().namespace, task.tid, Priority::from_level(reported)));
            go_on.disarm();
            match self.changed_from(task, reported) {
                Some(now) => reported = now,
                None => return,
            }
        }
    }

    /// The task's present priority, if it differs from `level`.
    fn changed_from(&self, of: Named, level: u8) -> Option<u8> {
        let now = self.in_region(of.home, |g| g.find(of.home.number(), of.tid).map(|task| g.effective(task)));
        now.flatten().filter(|&now| now != level)
    }
}
