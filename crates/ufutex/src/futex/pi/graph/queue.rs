//! The waiters of a lock, by priority and then in the order in which they came; and the locks of a holder.

use super::{Graph, Level, LockId, TaskId};

impl<E: Copy, H: Copy> Graph<E, H> {
    /// Puts a blocked task at the end of its lock's waiters of `level`.
    pub(super) fn enqueue(&mut self, task: TaskId<E>, lock: LockId<E>, level: u8) {
        let levels = &mut self[lock].levels;
        let prev = match levels.binary_search_by_key(&level, |l| l.level) {
            Ok(i) => Some(core::mem::replace(&mut levels[i].last, task)),
            Err(i) => {
                levels.insert(i, Level { level, first: task, last: task });
                None
            }
        };
        if let Some(prev) = prev.and_then(|prev| self[prev].blocked.as_mut()) {
            prev.next = Some(task);
        }
        if let Some(blocked) = &mut self[task].blocked {
            (blocked.level, blocked.prev, blocked.next) = (level, prev, None);
        }
    }

    pub(super) fn unqueue(&mut self, task: TaskId<E>) {
        let Some(blocked) = &self[task].blocked else { return };
        let (lock, level, prev, next) = (blocked.lock, blocked.level, blocked.prev, blocked.next);
        let levels = &mut self[lock].levels;
        if let Ok(i) = levels.binary_search_by_key(&level, |l| l.level) {
            match (prev, next) {
                (None, None) => _ = levels.remove(i),
                (None, Some(next)) => levels[i].first = next,
                (Some(prev), None) => levels[i].last = prev,
                (Some(_), Some(_)) => {}
            }
        }
        if let Some(blocked) = prev.and_then(|prev| self[prev].blocked.as_mut()) {
            blocked.next = next;
        }
        if let Some(blocked) = next.and_then(|next| self[next].blocked.as_mut()) {
            blocked.prev = prev;
        }
    }

    /// Adds a lock to the list of its holder's locks.
    pub(super) fn link(&mut self, lock: LockId<E>) {
        let holder = self[lock].holder;
        self.tie(lock.part(), holder.part());
        let task = &mut self[holder];
        task.held += 1;
        let next = task.holds.replace(lock);
        let added = &mut self[lock];
        (added.prev, added.next) = (None, next);
        if let Some(next) = next {
            self[next].prev = Some(lock);
        }
    }

    pub(super) fn unlink(&mut self, lock: LockId<E>) {
        let removed = &self[lock];
        let (holder, prev, next) = (removed.holder, removed.prev, removed.next);
        match prev {
            Some(prev) => self[prev].next = next,
            None => self[holder].holds = next,
        }
        if let Some(next) = next {
            self[next].prev = prev;
        }
        self[holder].held -= 1;
        self.untie(lock.part(), holder.part());
    }
}
