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

mod chain;
mod multiset;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::Reverse;

use self::multiset::Multiset;
use super::entry::EntryRef;
use super::slab::{Id, List, Neighbours, Slab};
use crate::error::Error;
use crate::futex::priority::NORMAL;
use crate::futex::task::TaskKind;
use crate::sync::AtomicU64;
use crate::sys::counted::Counted;

/// There are 101 levels. Level 0 runs first; tasks without a real-time priority have the last one.
const LEVELS: usize = NORMAL as usize + 1;

pub type TaskId = Id<Task>;
pub type LockId = Id<Lock>;

/// See the top of this file.
pub struct Graph {
    tasks: Slab<Task>,
    locks: Slab<Lock>,
    /// The greatest height that a task may have.
    highest: u32,
    /// How many waits were refused because a task would have become higher than `highest`, in all graphs of the system.
    chains_refused: Counted<AtomicU64>,
    /// How many holders have been visited by walks along chains. It only grows.
    pub visited: u64,
    /// The tasks whose change of priority has not been reported.
    changed: List<Task>,
}

pub struct Task {
    tid: u32,
    /// A kernel's own thread, for which no task may wait.
    is_kernel: bool,
    /// It is in [`Graph::changed`].
    is_changed: bool,
    in_changed: Neighbours<Task>,
    /// The task's own priority.
    own: u8,
    /// The best of its own priority and those to which it is boosted.
    effective: u8,
    /// The length of the longest chain of waits that ends with it.
    height: u32,
    /// For each lock that it holds, the level of the lock's first waiter.
    boosts: Multiset<Reverse<u8>>,
    /// For each lock that it holds, the greatest height of the lock's waiters.
    heights: Multiset<u32>,
    /// The locks that it holds.
    holds: List<Lock>,
    /// The lock that it waits for, and its entry.
    blocked: Option<(LockId, EntryRef)>,
    /// Its neighbours among the waiters of its level.
    in_level: Neighbours<Task>,
}

pub struct Lock {
    holder: TaskId,
    /// Its neighbours among the locks of its holder.
    in_holds: Neighbours<Lock>,
    /// The previous owner has died, and the word does not name the holder yet.
    is_orphan: bool,
    waiters: usize,
    /// The levels that have waiters, in the order in which they run. There is capacity for one per waiter.
    levels: Vec<Level>,
    /// The heights of the waiters.
    heights: Multiset<u32>,
}

/// The waiters whose effective priority is `level`, in the order they came.
struct Level {
    level: u8,
    waiters: List<Task>,
}

/// What a lock with waiters contributes to its holder.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Brought {
    /// Its first waiter's level.
    level: u8,
    /// The greatest height of its waiters.
    height: u32,
}

impl Lock {
    fn brought(&self) -> Option<Brought> {
        Some(Brought { level: self.levels.first()?.level, height: self.heights.greatest()? })
    }
}

impl Graph {
    pub fn new(max_depth: usize, chains_refused: Counted<AtomicU64>) -> Self {
        // The limit does not count the first wait of a chain.
        let highest = u32::try_from(max_depth.saturating_add(1)).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        Self { tasks: Slab::new(), locks: Slab::new(), highest, chains_refused, visited: 0, changed: List::new() }
    }

    /// Adds a task.
    pub fn register(&mut self, tid: u32, kind: TaskKind) -> Result<TaskId, Error> {
        self.tasks.insert(Task {
            tid,
            is_kernel: kind == TaskKind::Kernel,
            is_changed: false,
            in_changed: Neighbours::NONE,
            own: NORMAL,
            effective: NORMAL,
            height: 0,
            boosts: Multiset::new(),
            heights: Multiset::new(),
            holds: List::new(),
            blocked: None,
            in_level: Neighbours::NONE,
        })
    }

    /// Removes a task. It waits for no lock, and no task waits for a lock that it holds. The last task takes the graph's
    /// memory along.
    pub fn unregister(&mut self, task: TaskId) {
        debug_assert!(self.tasks[task].blocked.is_none() && self.any_held(task).is_none());
        self.forget_change(task);
        self.tasks.remove(task);
        if self.tasks.is_empty() {
            debug_assert!(self.locks.is_empty());
            (self.tasks, self.locks) = (Slab::new(), Slab::new());
        }
    }

    /// Whether no task may wait for this one.
    pub fn is_kernel(&self, task: TaskId) -> bool {
        self.tasks[task].is_kernel
    }

    pub fn tid(&self, task: TaskId) -> u32 {
        self.tasks[task].tid
    }

    pub fn effective(&self, task: TaskId) -> u8 {
        self.tasks[task].effective
    }

    /// The owner that the lock's word has to name; `None` while the word names no living task.
    pub fn owner(&self, lock: LockId) -> Option<TaskId> {
        let lock = &self.locks[lock];
        (!lock.is_orphan).then_some(lock.holder)
    }

    /// The waiter that is handed the lock next, and its entry.
    pub fn first_waiter(&self, lock: LockId) -> Option<(TaskId, EntryRef)> {
        let first = self.locks[lock].levels.first()?.waiters.first?;
        self.tasks[first].blocked.map(|(_, entry)| (first, entry))
    }

    /// The lock that the task has had for the shortest time: the kernel passes a dead owner's locks on in this order.
    pub fn any_held(&self, task: TaskId) -> Option<LockId> {
        self.tasks[task].holds.last
    }

    /// Sets the task's own priority.
    pub fn set_own(&mut self, task: TaskId, own: u8) {
        self.tasks[task].own = own.min(NORMAL);
        if let Some((holder, before, after)) = self.adjust(task) {
            self.follow(holder, before, after);
        }
    }

    /// Adds a lock of `holder` that has no waiters yet; [`drop_if_idle`](Self::drop_if_idle) removes it.
    pub fn add_lock(&mut self, holder: TaskId) -> Result<LockId, Error> {
        self.make_room_to_hold(holder)?;
        let lock = self.locks.insert(Lock {
            holder,
            in_holds: Neighbours::NONE,
            is_orphan: false,
            waiters: 0,
            levels: Vec::new(),
            heights: Multiset::new(),
        })?;
        self.link(lock);
        Ok(lock)
    }

    /// Removes a lock that has no waiters, unless its holder still has to write the word.
    pub fn drop_if_idle(&mut self, lock: LockId) {
        if self.locks[lock].waiters == 0 && !self.locks[lock].is_orphan {
            self.unlink(lock);
            self.locks.remove(lock);
        }
    }

    /// Makes `task`, which waits for no lock, wait for `lock`.
    ///
    /// `Deadlock` if a chain of waits leads from the holder back to the task, or if a chain would be too long.
    pub fn block(&mut self, task: TaskId, lock: LockId, entry: EntryRef) -> Result<(), Error> {
        debug_assert!(self.tasks[task].blocked.is_none());
        self.look_for_deadlock(task, lock)?;
        // The waiter may be handed the lock later, which must not need memory.
        self.make_room_to_hold(task)?;
        let different = self.highest as usize + 1;
        let (waiter, joined) = (&mut self.tasks[task], &mut self.locks[lock]);
        let waiters = joined.waiters + 1;
        let more = LEVELS.min(waiters) - joined.levels.len();
        joined.levels.try_reserve(more).map_err(|_| Error::NoMemory)?;
        joined.heights.reserve(different.min(waiters))?;
        let before = joined.brought();
        joined.waiters = waiters;
        joined.heights.add(waiter.height);
        waiter.blocked = Some((lock, entry));
        let level = waiter.effective;
        self.enqueue(task, lock, level);
        let joined = &self.locks[lock];
        self.follow(joined.holder, before, joined.brought());
        Ok(())
    }

    /// Ends the task's wait: it has given up.
    pub fn unblock(&mut self, task: TaskId) {
        if let Some(lock) = self.take_out(task) {
            self.drop_if_idle(lock);
        }
    }

    /// Gives the lock to its first waiter. A lock without waiters is removed.
    pub fn hand_over(&mut self, lock: LockId) -> Option<TaskId> {
        let heir = self.pass(lock);
        self.adopt(lock);
        heir.map(|(heir, _)| heir)
    }

    /// Gives the lock to its first waiter because the holder has died. The waiter then has to write the word. Returns
    /// the waiter and its entry. A lock without waiters is removed.
    pub fn orphan(&mut self, lock: LockId) -> Option<(TaskId, EntryRef)> {
        let heir = self.pass(lock);
        self.locks[lock].is_orphan = heir.is_some();
        self.drop_if_idle(lock);
        heir
    }

    /// Notes that the word names the holder again.
    pub fn adopt(&mut self, lock: LockId) {
        self.locks[lock].is_orphan = false;
        self.drop_if_idle(lock);
    }

    fn make_room_to_hold(&mut self, task: TaskId) -> Result<(), Error> {
        let task = &mut self.tasks[task];
        // One more for a lock that the task becomes the holder of, and one for a lock that it may be handed.
        let locks = task.holds.len + 2;
        task.boosts.reserve(LEVELS.min(locks))?;
        task.heights.reserve(locks.min(self.highest as usize + 1))
    }

    /// Moves the lock from its holder to its first waiter, whose wait ends. Returns the waiter and its entry.
    fn pass(&mut self, lock: LockId) -> Option<(TaskId, EntryRef)> {
        let (heir, entry) = self.first_waiter(lock)?;
        self.take_out(heir);
        let brought = self.locks[lock].brought();
        self.follow(self.locks[lock].holder, brought, None);
        self.unlink(lock);
        self.locks[lock].holder = heir;
        self.link(lock);
        self.follow(heir, None, brought);
        Some((heir, entry))
    }

    /// Takes the task out of the waiters of its lock.
    fn take_out(&mut self, task: TaskId) -> Option<LockId> {
        let waiter = &mut self.tasks[task];
        let (lock, _) = waiter.blocked.take()?;
        let (level, height) = (waiter.effective, waiter.height);
        let before = self.locks[lock].brought();
        self.unqueue(task, lock, level);
        let left = &mut self.locks[lock];
        left.waiters -= 1;
        left.heights.remove(height);
        let (holder, after) = (left.holder, left.brought());
        self.follow(holder, before, after);
        Some(lock)
    }

    /// Puts a task at the end of the lock's waiters of `level`.
    fn enqueue(&mut self, task: TaskId, lock: LockId, level: u8) {
        let levels = &mut self.locks[lock].levels;
        let i = levels.binary_search_by_key(&level, |l| l.level).unwrap_or_else(|i| {
            levels.insert(i, Level { level, waiters: List::new() });
            i
        });
        levels[i].waiters.push(&mut self.tasks, task, |task| &mut task.in_level);
    }

    fn unqueue(&mut self, task: TaskId, lock: LockId, level: u8) {
        let levels = &mut self.locks[lock].levels;
        let Ok(i) = levels.binary_search_by_key(&level, |l| l.level) else { return };
        levels[i].waiters.remove(&mut self.tasks, task, |task| &mut task.in_level);
        if levels[i].waiters.len == 0 {
            levels.remove(i);
        }
    }

    /// Adds a lock to its holder's locks.
    fn link(&mut self, lock: LockId) {
        let holder = self.locks[lock].holder;
        self.tasks[holder].holds.push(&mut self.locks, lock, |lock| &mut lock.in_holds);
    }

    fn unlink(&mut self, lock: LockId) {
        let holder = self.locks[lock].holder;
        self.tasks[holder].holds.remove(&mut self.locks, lock, |lock| &mut lock.in_holds);
    }

    /// Notes that the priority of a task has to be reported.
    fn note_change(&mut self, task: TaskId) {
        if !core::mem::replace(&mut self.tasks[task].is_changed, true) {
            self.changed.push(&mut self.tasks, task, |task| &mut task.in_changed);
        }
    }

    /// Notes that the task's priority has been reported as `reported`. If it is another now, that has to be reported.
    pub fn note_report(&mut self, task: TaskId, reported: u8) {
        if self.tasks[task].effective != reported {
            self.note_change(task);
        }
    }

    /// A task whose priority has to be reported: its TID and its priority now.
    pub fn next_changed(&mut self) -> Option<(u32, u8)> {
        let id = self.changed.first?;
        self.forget_change(id);
        let task = &self.tasks[id];
        Some((task.tid, task.effective))
    }

    /// Takes the task from those whose priority has to be reported.
    fn forget_change(&mut self, task: TaskId) {
        if core::mem::take(&mut self.tasks[task].is_changed) {
            self.changed.remove(&mut self.tasks, task, |task| &mut task.in_changed);
        }
    }
}
