//! A task in the graph: its priority there, and what becomes of its locks when it ends.

use super::waiter::make_heir;
use super::{PiGraph, TaskId};
use crate::error::Error;
use crate::futex::domain::Domain;
use crate::futex::entry::{BATCH, PendingWakes};
use crate::futex::priority::Priority;
use crate::futex::task::Task;
use crate::sys::unwind::Otherwise;

impl Domain {
    /// Like [`task`](Self::task), for a thread of the kernel itself. A task that would have to wait for a lock of such
    /// an owner gets [`Error::NotPermitted`].
    ///
    /// # Errors
    /// As for `task`.
    pub fn kernel_task(&self, tid: u32) -> Result<Task, Error> {
        self.make_task(tid, true)
    }
}

impl Task {
    fn in_graph<R>(&self, f: impl FnOnce(&mut PiGraph, TaskId) -> R) -> R {
        self.namespace().tasks.lock().with(|tasks| f(&mut tasks.graph, self.named.id))
    }

    pub(in crate::futex) fn set_own_in_graph(&self, own: Priority) {
        self.in_graph(|graph, id| graph.set_own(id, own.level()));
        self.system.report_priorities(self.namespace());
    }

    pub(in crate::futex) fn effective_priority(&self) -> Priority {
        self.in_graph(|graph, id| Priority::from_level(graph.effective(id)))
    }

    /// The task neither holds a lock nor waits for one.
    pub(in crate::futex) fn leave_graph(&self) {
        self.in_graph(|graph, id| graph.unregister(id));
    }

    /// Hands each lock that the task owned to its first waiter, in batches, so that the graph is never locked for long.
    pub(in crate::futex) fn pass_on_locks(&self) {
        loop {
            let mut pending = PendingWakes::none();
            // As in `unlock_slowly`.
            let section = self.system.platform().section();
            let is_left = self.in_graph(|graph, id| {
                for _ in 0..BATCH {
                    let Some(lock) = graph.any_held(id) else { return false };
                    make_heir(graph, lock, &mut pending);
                }
                true
            });
            let go_on = Otherwise::new(|| self.pass_on_locks());
            let section = (!pending.calls_wakers()).then_some(section);
            drop(pending);
            drop(section);
            self.system.report_priorities(self.namespace());
            go_on.disarm();
            if !is_left {
                return;
            }
        }
    }
}
