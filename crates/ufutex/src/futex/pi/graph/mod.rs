//! Which task holds which lock, which tasks wait for it, and the priority that each task therefore runs with.
//!
//! A lock is in the graph as long as a task waits for it. Its *holder* is the task that has it, or has just been given
//! it. Each waiter boosts the holder to its own priority. If the holder waits for another lock, it is queued there with
//! that priority, and so on along the chain.
//!
//! Tasks and locks refer to each other by number. A walk along a chain is no longer than the longest allowed chain, and
//! ends where nothing changes. No list is searched. Memory is allocated only when a task is registered or a waiter is
//! added.
//!
//! The *height* of a task limits the length of chains: it is the number of waits in the longest chain that ends with
//! the task, 0 if no task waits for it. Each lock counts its waiters by height, and each task counts its locks by the
//! greatest height of their waiters. So heights are exact at any time, and when a lock is handed over, its waiters'
//! heights count for the heir.

mod boosts;
mod chain;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use self::boosts::{Boosts, Brought, Heights};
use self::chain::Change;
use super::slab::{Id, Slab};
use crate::error::Error;
use crate::futex::priority::NORMAL;
use crate::futex::task::TaskKind;
use crate::sync::AtomicU64;
use crate::sys::counted::Counted;

/// There are 101 levels. Level 0 runs first; tasks without a real-time priority have the last one.
const LEVELS: usize = NORMAL as usize + 1;

pub type TaskId<E> = Id<Task<E>>;
pub type LockId<E> = Id<Lock<E>>;

/// See the top of this file. `E` identifies a waiter's entry.
pub struct Graph<E> {
    tasks: Slab<Task<E>>,
    locks: Slab<Lock<E>>,
    /// The greatest height that a task may have.
    highest: u32,
    /// How many waits were refused because a task would have become higher than `highest`, in all graphs of the system.
    chains_refused: Counted<AtomicU64>,
    /// How many holders have been visited by walks along chains. It only grows.
    pub visited: u64,
    changes: Changes,
    /// The first task whose change of priority has not been reported.
    changed: Option<TaskId<E>>,
}

pub struct Task<E> {
    tid: u32,
    /// A kernel's own thread, for which no task may wait.
    is_kernel: bool,
    /// It is in the list of tasks whose change of priority has not been reported.
    is_changed: bool,
    /// The task's own priority.
    own: u8,
    /// The best of its own priority and those to which it is boosted.
    effective: u8,
    /// The length of the longest chain of waits that ends with it.
    height: u32,
    boosts: Boosts,
    /// For each lock that it holds, the greatest height of the lock's waiters.
    heights: Heights,
    /// How many locks it holds.
    held: usize,
    /// The first lock that it holds.
    holds: Option<LockId<E>>,
    blocked: Option<Blocked<E>>,
    // The neighbours in the list of tasks that have changed.
    prev_changed: Option<TaskId<E>>,
    next_changed: Option<TaskId<E>>,
}

/// A task's place among the waiters of a lock.
struct Blocked<E> {
    lock: LockId<E>,
    level: u8,
    entry: E,
    prev: Option<TaskId<E>>,
    next: Option<TaskId<E>>,
}

pub struct Lock<E> {
    holder: TaskId<E>,
    /// The previous owner has died, and the word does not name the holder yet.
    is_orphan: bool,
    waiters: usize,
    /// The levels that have waiters, in the order in which they run. There is capacity for one per waiter.
    levels: Vec<Level<E>>,
    /// The heights of the waiters.
    heights: Heights,
    // The neighbours in the list of its holder's locks.
    prev: Option<LockId<E>>,
    next: Option<LockId<E>>,
}

/// The waiters of one priority, in the order they came.
struct Level<E> {
    level: u8,
    first: TaskId<E>,
    last: TaskId<E>,
}

impl<E> Lock<E> {
    fn brought(&self) -> Brought {
        Brought { level: self.levels.first().map(|first| first.level), height: self.heights.greatest() }
    }
}

/// What becomes of changes of priority.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// They are remembered for [`Graph::next_changed`].
    Remembered,
    /// They are not: there is no scheduler to report them to.
    Ignored,
}

impl<E: Copy> Graph<E> {
    pub fn new(max_depth: usize, changes: Changes, chains_refused: Counted<AtomicU64>) -> Self {
        // The limit does not count the first wait of a chain.
        let highest = u32::try_from(max_depth.saturating_add(1)).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        Self { tasks: Slab::new(), locks: Slab::new(), highest, chains_refused, visited: 0, changes, changed: None }
    }

    /// Adds a task.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn register(&mut self, tid: u32, kind: TaskKind) -> Result<TaskId<E>, Error> {
        self.tasks.insert(Task {
            tid,
            is_kernel: kind == TaskKind::Kernel,
            is_changed: false,
            own: NORMAL,
            effective: NORMAL,
            height: 0,
            boosts: Boosts::new(),
            heights: Heights::new(),
            held: 0,
            holds: None,
            blocked: None,
            prev_changed: None,
            next_changed: None,
        })
    }

    /// Removes a task. It waits for no lock, and no task waits for a lock that it holds. The last task takes the graph's
    /// memory along.
    pub fn unregister(&mut self, task: TaskId<E>) {
        debug_assert!(self.tasks[task].blocked.is_none() && self.tasks[task].holds.is_none());
        self.forget_change(task);
        self.tasks.remove(task);
        if self.tasks.is_empty() {
            debug_assert!(self.locks.is_empty());
            (self.tasks, self.locks) = (Slab::new(), Slab::new());
        }
    }

    /// Whether no task may wait for this one.
    pub fn is_kernel(&self, task: TaskId<E>) -> bool {
        self.tasks[task].is_kernel
    }

    pub fn tid(&self, task: TaskId<E>) -> u32 {
        self.tasks[task].tid
    }

    pub fn effective(&self, task: TaskId<E>) -> u8 {
        self.tasks[task].effective
    }

    /// The owner that the lock's word has to name; `None` while the word names no living task.
    pub fn owner(&self, lock: LockId<E>) -> Option<TaskId<E>> {
        let lock = &self.locks[lock];
        (!lock.is_orphan).then_some(lock.holder)
    }

    /// The waiter that is handed the lock next, and its entry.
    pub fn first_waiter(&self, lock: LockId<E>) -> Option<(TaskId<E>, E)> {
        let first = self.locks[lock].levels.first()?.first;
        self.tasks[first].blocked.as_ref().map(|blocked| (first, blocked.entry))
    }

    /// One of the locks that the task holds.
    pub fn any_held(&self, task: TaskId<E>) -> Option<LockId<E>> {
        self.tasks[task].holds
    }

    /// Sets the task's own priority.
    pub fn set_own(&mut self, task: TaskId<E>, own: u8) {
        self.tasks[task].own = own.min(NORMAL);
        if let Some(change) = self.adjust(task) {
            self.follow(change);
        }
    }

    /// Adds a lock of `holder` that has no waiters yet; [`drop_if_idle`](Self::drop_if_idle) removes it.
    pub fn add_lock(&mut self, holder: TaskId<E>) -> Result<LockId<E>, Error> {
        self.make_room_to_hold(holder)?;
        let lock = self.locks.insert(Lock {
            holder,
            is_orphan: false,
            waiters: 0,
            levels: Vec::new(),
            heights: Heights::new(),
            prev: None,
            next: None,
        })?;
        self.link(lock);
        Ok(lock)
    }

    /// Removes a lock that has no waiters, unless its holder still has to write the word.
    pub fn drop_if_idle(&mut self, lock: LockId<E>) {
        if self.locks[lock].waiters == 0 && !self.locks[lock].is_orphan {
            self.unlink(lock);
            self.locks.remove(lock);
        }
    }

    /// Makes `task` wait for `lock`.
    ///
    /// `Deadlock` if a chain of waits leads from the holder back to the task, or if a chain would be too long; `Busy`
    /// if the task already waits for a lock.
    pub fn block(&mut self, task: TaskId<E>, lock: LockId<E>, entry: E) -> Result<(), Error> {
        if self.tasks[task].blocked.is_some() {
            return Err(Error::Busy);
        }
        self.look_for_deadlock(task, lock)?;
        // The waiter may be handed the lock later, which must not need memory.
        self.make_room_to_hold(task)?;
        let (different, joined) = (self.highest as usize + 1, &mut self.locks[lock]);
        let room = LEVELS.min(joined.waiters + 1);
        joined.levels.try_reserve(room - joined.levels.len()).map_err(|_| Error::NoMemory)?;
        joined.heights.reserve(different.min(joined.waiters + 1))?;
        let before = joined.brought();
        joined.waiters += 1;
        let waiter = &mut self.tasks[task];
        joined.heights.add(waiter.height);
        waiter.blocked = Some(Blocked { lock, level: NORMAL, entry, prev: None, next: None });
        let level = waiter.effective;
        self.enqueue(task, lock, level);
        let joined = &self.locks[lock];
        self.follow(Change { holder: joined.holder, before, after: joined.brought() });
        Ok(())
    }

    /// Ends the task's wait: it has given up.
    pub fn unblock(&mut self, task: TaskId<E>) {
        if let Some(lock) = self.take_out(task) {
            self.drop_if_idle(lock);
        }
    }

    /// Gives the lock to its first waiter. A lock without waiters is removed.
    pub fn hand_over(&mut self, lock: LockId<E>) -> Option<TaskId<E>> {
        let heir = self.pass(lock);
        self.adopt(lock);
        heir.map(|(heir, _)| heir)
    }

    /// Gives the lock to its first waiter because the holder has died. The waiter then has to write the word. Returns
    /// the waiter and its entry. A lock without waiters is removed.
    pub fn orphan(&mut self, lock: LockId<E>) -> Option<(TaskId<E>, E)> {
        let heir = self.pass(lock);
        self.locks[lock].is_orphan = heir.is_some();
        self.drop_if_idle(lock);
        heir
    }

    /// Notes that the word names the holder again.
    pub fn adopt(&mut self, lock: LockId<E>) {
        self.locks[lock].is_orphan = false;
        self.drop_if_idle(lock);
    }

    fn make_room_to_hold(&mut self, task: TaskId<E>) -> Result<(), Error> {
        let different = self.highest as usize + 1;
        let task = &mut self.tasks[task];
        task.boosts.make_room()?;
        // One more for a lock that the task becomes the holder of, and one for a lock that it may be handed.
        task.heights.reserve(different.min(task.held + 2))
    }

    /// Moves the lock from its holder to its first waiter, whose wait ends. Returns the waiter and its entry.
    fn pass(&mut self, lock: LockId<E>) -> Option<(TaskId<E>, E)> {
        let (heir, entry) = self.first_waiter(lock)?;
        self.take_out(heir);
        let brought = self.locks[lock].brought();
        self.follow(Change { holder: self.locks[lock].holder, before: brought, after: Brought::NOTHING });
        self.unlink(lock);
        self.locks[lock].holder = heir;
        self.link(lock);
        self.follow(Change { holder: heir, before: Brought::NOTHING, after: brought });
        Some((heir, entry))
    }

    /// Takes the task out of the waiters of its lock.
    fn take_out(&mut self, task: TaskId<E>) -> Option<LockId<E>> {
        let lock = self.tasks[task].blocked.as_ref()?.lock;
        let before = self.locks[lock].brought();
        self.unqueue(task);
        let waiter = &mut self.tasks[task];
        waiter.blocked = None;
        let left = &mut self.locks[lock];
        left.waiters -= 1;
        left.heights.remove(waiter.height);
        let change = Change { holder: left.holder, before, after: left.brought() };
        self.follow(change);
        Some(lock)
    }

    /// Puts a blocked task at the end of its lock's waiters of `level`.
    fn enqueue(&mut self, task: TaskId<E>, lock: LockId<E>, level: u8) {
        let levels = &mut self.locks[lock].levels;
        let prev = match levels.binary_search_by_key(&level, |l| l.level) {
            Ok(i) => Some(core::mem::replace(&mut levels[i].last, task)),
            Err(i) => {
                levels.insert(i, Level { level, first: task, last: task });
                None
            }
        };
        if let Some(prev) = prev.and_then(|prev| self.tasks[prev].blocked.as_mut()) {
            prev.next = Some(task);
        }
        if let Some(blocked) = &mut self.tasks[task].blocked {
            (blocked.level, blocked.prev, blocked.next) = (level, prev, None);
        }
    }

    fn unqueue(&mut self, task: TaskId<E>) {
        let Some(blocked) = &self.tasks[task].blocked else { return };
        let (level, prev, next) = (blocked.level, blocked.prev, blocked.next);
        let levels = &mut self.locks[blocked.lock].levels;
        if let Ok(i) = levels.binary_search_by_key(&level, |l| l.level) {
            match (prev, next) {
                (None, None) => _ = levels.remove(i),
                (None, Some(next)) => levels[i].first = next,
                (Some(prev), None) => levels[i].last = prev,
                (Some(_), Some(_)) => {}
            }
        }
        if let Some(blocked) = prev.and_then(|prev| self.tasks[prev].blocked.as_mut()) {
            blocked.next = next;
        }
        if let Some(blocked) = next.and_then(|next| self.tasks[next].blocked.as_mut()) {
            blocked.prev = prev;
        }
    }

    /// Adds a lock to the list of its holder's locks.
    fn link(&mut self, lock: LockId<E>) {
        let holder = &mut self.tasks[self.locks[lock].holder];
        holder.held += 1;
        let next = holder.holds.replace(lock);
        let added = &mut self.locks[lock];
        (added.prev, added.next) = (None, next);
        if let Some(next) = next {
            self.locks[next].prev = Some(lock);
        }
    }

    fn unlink(&mut self, lock: LockId<E>) {
        let removed = &self.locks[lock];
        let (prev, next) = (removed.prev, removed.next);
        let holder = &mut self.tasks[removed.holder];
        holder.held -= 1;
        match prev {
            Some(prev) => self.locks[prev].next = next,
            None => holder.holds = next,
        }
        if let Some(next) = next {
            self.locks[next].prev = prev;
        }
    }

    /// Notes that a task's priority differs from the one reported last.
    fn note_change(&mut self, id: TaskId<E>) {
        if self.changes == Changes::Ignored || self.tasks[id].is_changed {
            return;
        }
        let next = self.changed.replace(id);
        let task = &mut self.tasks[id];
        (task.is_changed, task.prev_changed, task.next_changed) = (true, None, next);
        if let Some(next) = next {
            self.tasks[next].prev_changed = Some(id);
        }
    }

    /// A task whose effective priority has changed since it was reported: its TID and its priority now.
    pub fn next_changed(&mut self) -> Option<(u32, u8)> {
        let id = self.changed?;
        self.forget_change(id);
        let task = &self.tasks[id];
        Some((task.tid, task.effective))
    }

    /// Removes the task from those whose changes are to be reported.
    fn forget_change(&mut self, id: TaskId<E>) {
        let task = &mut self.tasks[id];
        if !core::mem::take(&mut task.is_changed) {
            return;
        }
        let (prev, next) = (task.prev_changed, task.next_changed);
        match prev {
            Some(prev) => self.tasks[prev].next_changed = next,
            None => self.changed = next,
        }
        if let Some(next) = next {
            self.tasks[next].prev_changed = prev;
        }
    }
}
