//! Walks along a chain of holders: the search for a deadlock, and the propagation of priorities and heights.

use super::boosts::Brought;
use super::{Graph, LockId, TaskId};
use crate::error::Error;
use crate::futex::priority::NORMAL;
use crate::sync::Ordering;

/// One of the holder's locks contributed `before` until now, and contributes `after` from now on.
pub(super) struct Change<E> {
    pub holder: TaskId<E>,
    pub before: Brought,
    pub after: Brought,
}

impl<E: Copy> Graph<E> {
    /// Fails with `Deadlock` if `task` must not wait for `lock`, because the chain of holders leads back to `task` or
    /// would become too long.
    ///
    /// Each holder must be higher than the task that waits for it. The walk raises the height step by step, and ends at
    /// the first holder that is high enough already. The rest of the chain need not be walked: heights rise along a
    /// chain, so no height behind that holder changes, and `task`, which is lower, cannot be behind it.
    pub(super) fn look_for_deadlock(&mut self, task: TaskId<E>, lock: LockId<E>) -> Result<(), Error> {
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
            let Some(blocked) = &self.tasks[holder].blocked else { break };
            holder = self.locks[blocked.lock].holder;
        }
        if height > self.highest {
            self.chains_refused.fetch_add(1, Ordering::Relaxed);
            return Err(Error::Deadlock);
        }
        Ok(())
    }

    /// Applies `change` to the holder's priority and height, and then to the holders further along the chain. Ends
    /// where nothing changes, or at the end of the chain, whose length is limited.
    pub(super) fn follow(&mut self, change: Change<E>) {
        let mut next = Some(change);
        while let Some(Change { holder, before, after }) = next {
            if before == after {
                return;
            }
            self.visited += 1;
            let task = &mut self.tasks[holder];
            if before.level != after.level {
                before.level.inspect(|&level| task.boosts.remove(level));
                after.level.inspect(|&level| task.boosts.add(level));
            }
            if before.height != after.height {
                before.height.inspect(|&height| task.heights.remove(height));
                after.height.inspect(|&height| task.heights.add(height));
            }
            next = self.adjust(holder);
        }
    }

    /// Computes the task's priority and height from its own priority and its locks' contributions. Returns the
    /// resulting change for the holder of the lock that the task waits for. `None` if nothing changes, or the task does
    /// not wait.
    pub(super) fn adjust(&mut self, id: TaskId<E>) -> Option<Change<E>> {
        let task = &mut self.tasks[id];
        let effective = task.own.min(task.boosts.best()).min(NORMAL);
        let height = task.heights.greatest().map_or(0, |height| height + 1);
        let is_reordered = core::mem::replace(&mut task.effective, effective) != effective;
        let lower = core::mem::replace(&mut task.height, height);
        if is_reordered {
            self.note_change(id);
        }
        if !is_reordered && lower == height {
            return None;
        }
        let lock = self.tasks[id].blocked.as_ref()?.lock;
        let before = self.locks[lock].brought();
        if is_reordered {
            self.unqueue(id);
            self.enqueue(id, lock, effective);
        }
        let lock = &mut self.locks[lock];
        lock.heights.remove(lower);
        lock.heights.add(height);
        Some(Change { holder: lock.holder, before, after: lock.brought() })
    }
}
