//! Walks along a chain of holders: the search for a deadlock, and the propagation of priorities and heights.

use core::cmp::Reverse;

use super::{Brought, Graph, LockId, TaskId};
use crate::error::Error;
use crate::sync::Ordering;

impl Graph {
    /// Fails with `Deadlock` if `task` must not wait for `lock`, because the chain of holders leads back to `task` or
    /// would become too long.
    ///
    /// Each holder must be higher than the task that waits for it. The walk raises the height step by step, and ends at
    /// the first holder that is high enough already. The rest of the chain need not be walked: heights rise along a
    /// chain, so no height behind that holder changes, and `task`, which is lower, cannot be behind it.
    pub(super) fn look_for_deadlock(&mut self, task: TaskId, lock: LockId) -> Result<(), Error> {
        let mut holder = self.locks[lock].holder;
        let mut height = self.tasks[task].height;
        loop {
            if holder == task {
                return Err(Error::Deadlock);
            }
            height += 1;
            self.visited += 1;
            if self.tasks[holder].height >= height {
                return Ok(());
            }
            let Some((lock, _)) = self.tasks[holder].blocked else { break };
            holder = self.locks[lock].holder;
        }
        if height > self.highest {
            self.chains_refused.fetch_add(1, Ordering::Relaxed);
            return Err(Error::Deadlock);
        }
        Ok(())
    }

    /// Changes what one of the holder's locks contributes from `before` to `after`: computes the holder's priority and
    /// height, and then those of the holders further along the chain. Ends where nothing changes, or at the end of the
    /// chain, whose length is limited.
    pub(super) fn follow(&mut self, mut holder: TaskId, mut before: Option<Brought>, mut after: Option<Brought>) {
        loop {
            if before == after {
                return;
            }
            self.visited += 1;
            let task = &mut self.tasks[holder];
            if let Some(Brought { level, height }) = before {
                task.boosts.remove(Reverse(level));
                task.heights.remove(height);
            }
            if let Some(Brought { level, height }) = after {
                task.boosts.add(Reverse(level));
                task.heights.add(height);
            }
            let Some(next) = self.adjust(holder) else { return };
            (holder, before, after) = next;
        }
    }

    /// Computes the task's priority and height from its own priority and its locks' contributions. If the task waits for
    /// a lock, returns that lock's holder, what the lock contributed before, and what it contributes now.
    pub(super) fn adjust(&mut self, id: TaskId) -> Option<(TaskId, Option<Brought>, Option<Brought>)> {
        let task = &mut self.tasks[id];
        let effective = task.boosts.greatest().map_or(task.own, |Reverse(boost)| boost.min(task.own));
        let height = task.heights.greatest().map_or(0, |height| height + 1);
        let (level, lower) = (task.effective, task.height);
        (task.effective, task.height) = (effective, height);
        if effective != level {
            self.note_change(id);
        }
        let (lock, _) = self.tasks[id].blocked?;
        let before = self.locks[lock].brought();
        if effective != level {
            self.unqueue(id, lock, level);
            self.enqueue(id, lock, effective);
        }
        let lock = &mut self.locks[lock];
        lock.heights.remove(lower);
        lock.heights.add(height);
        Some((lock.holder, before, lock.brought()))
    }
}
