//! Who is told of the priorities that tasks run with.

use super::graph::NORMAL;
use crate::futex::system::System;
use crate::table::layout::Layout;

/// The priority that a task runs with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Priority(u8);

impl Priority {
    /// No real-time priority.
    pub const NORMAL: Self = Self(NORMAL);

    /// A real-time priority, as sched_setscheduler(2) counts them: 99 runs first. 0 is none, and anything beyond 99
    /// counts as 99.
    #[must_use]
    pub const fn realtime(priority: u8) -> Self {
        match priority {
            0 => Self::NORMAL,
            1..99 => Self(NORMAL - 1 - priority),
            _ => Self(0),
        }
    }

    /// As sched_setscheduler(2) counts it; 0 for none.
    #[must_use]
    pub const fn as_realtime(self) -> u8 {
        if self.0 == NORMAL { 0 } else { NORMAL - 1 - self.0 }
    }

    /// 0 is the best, 100 none: the kernel's count.
    pub(crate) const fn level(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_level(level: u8) -> Self {
        Self(level)
    }
}

/// More important is greater.
impl Ord for Priority {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        other.0.cmp(&self.0)
    }
}

impl PartialOrd for Priority {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// An embedder's scheduler, which runs tasks with the priority that their waiters lend them.
///
/// ```
/// use std::sync::{Arc, Mutex, atomic::AtomicU32};
/// use ufutex::{Config, Domain, Priority, Scheduler, System};
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
    /// The task runs with this priority from now on.
    ///
    /// Called with no lock held, by any thread, and by several at the same time; the last call for a task has what
    /// holds. It must not wait for an operation of the system.
    fn set_priority(&self, tid: u32, priority: Priority);
}

impl<L: Layout> System<L> {
    /// Tells the scheduler of the changes that it does not know.
    pub(crate) fn tell_scheduler(&self) {
        let Some(scheduler) = self.scheduler() else { return };
        loop {
            let change = self.graph().lock().with(super::graph::Graph::next_changed);
            let Some((tid, mut level)) = change else { return };
            loop {
                scheduler.set_priority(tid, Priority::from_level(level));
                // Somebody else may have told of a later change while we told of this one: the last must be right.
                let now = self.graph().lock().with(|g| g.find(tid, None).map(|task| g.effective(task)));
                match now {
                    Some(now) if now != level => level = now,
                    _ => break,
                }
            }
        }
    }
}
