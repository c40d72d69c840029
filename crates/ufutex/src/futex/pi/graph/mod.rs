//! Which task holds which lock, which tasks wait for it, and the priority that each task therefore runs with.
//!
//! A lock is in the graph while a task waits for it. Each waiter boosts the *holder*, which has the lock or has just been given
//! it, to its own priority. If the holder waits for another lock, it is queued there with that priority, and so on.
//!
//! A walk along a chain is no longer than the longest allowed chain, and ends where nothing changes. No list is searched.
//! Memory is allocated only when a task is registered or a waiter is added.
//!
//! The *height* of a task limits the length of chains: it is the number of waits in the longest chain that ends with the task,
//! 0 if no task waits for it. Each lock counts its waiters by height, and each task counts its locks by the greatest height of
//! their waiters. So heights are exact at any time, and when a lock is handed over, its waiters' heights count for the heir.

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::slab::{Id, List, Neighbours, Slab};
use super::waiter::EntryRef;
use crate::error::Error;
use crate::futex::priority::NORMAL;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::counted::Counted;

/// There are 101 levels. Level 0 runs first; tasks without a real-time priority have the last one.
const LEVELS: usize = NORMAL as usize + 1;

pub type TaskId = Id<Task>;
pub type LockId = Id<Lock>;

pub struct Graph {
    tasks: Slab<Task>,
    locks: Slab<Lock>,
    /// The greatest height that a task may have.
    highest: u32,
    /// Waits refused because a task would have become higher than `highest`, in all graphs of the system.
    chains_refused: Counted<AtomicU64>,
    /// How many holders walks along chains have visited. It only grows.
    pub visited: u64,
    /// The tasks whose change of priority has not been reported.
    changed: List<Task>,
}

pub struct Task {
    tid: u32,
    is_changed: bool,
    in_changed: Neighbours<Task>,
    own: u8,
    /// The best of `own` and the priorities of those that boost it.
    effective: u8,
    height: u32,
    /// For each lock that it holds, the level of the lock's first waiter.
    boosts: Multiset<Reverse<u8>>,
    /// For each lock that it holds, the greatest height of the lock's waiters.
    heights: Multiset<u32>,
    holds: List<Lock>,
    /// The lock that it waits for, and its entry.
    blocked: Option<(LockId, EntryRef)>,
    in_level: Neighbours<Task>,
}

pub struct Lock {
    holder: TaskId,
    in_holds: Neighbours<Lock>,
    /// The previous owner has died, and the word does not name the holder yet.
    is_orphan: bool,
    waiters: usize,
    /// The levels that have waiters, each in the order they came, with capacity for one level per waiter.
    levels: Vec<(u8, List<Task>)>,
    heights: Multiset<u32>,
}

/// What a lock with waiters contributes to its holder: its first waiter's level, and the greatest height of its waiters.
type Brought = (u8, u32);

impl Lock {
    fn brought(&self) -> Option<Brought> {
        Some((self.levels.first()?.0, self.heights.greatest()?))
    }
}

impl Graph {
    pub fn new(max_depth: usize, chains_refused: Counted<AtomicU64>) -> Self {
        // The limit does not count the first wait of a chain.
        let highest = u32::try_from(max_depth.saturating_add(1)).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        Self { tasks: Slab::new(), locks: Slab::new(), highest, chains_refused, visited: 0, changed: List::new() }
    }

    pub fn register(&mut self, tid: u32) -> Result<TaskId, Error> {
        self.tasks.insert(Task {
            tid,
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

    /// Removes a task that waits for no lock, and for which no task waits. The last task takes the graph's memory along.
    pub fn unregister(&mut self, task: TaskId) {
        debug_assert!(self.tasks[task].blocked.is_none() && self.any_held(task).is_none());
        self.forget_change(task);
        self.tasks.remove(task);
        if self.tasks.is_empty() {
            debug_assert!(self.locks.is_empty());
            (self.tasks, self.locks) = (Slab::new(), Slab::new());
        }
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
        let first = self.locks[lock].levels.first()?.1.first?;
        self.tasks[first].blocked.map(|(_, entry)| (first, entry))
    }

    /// The lock that the task has had for the shortest time: the kernel passes a dead owner's locks on in this order.
    pub fn any_held(&self, task: TaskId) -> Option<LockId> {
        self.tasks[task].holds.last
    }

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

    pub fn unblock(&mut self, task: TaskId) {
        if let Some(lock) = self.take_out(task) {
            self.drop_if_idle(lock);
        }
    }

    /// Gives the lock to its first waiter. A lock without waiters is removed.
    pub fn hand_over(&mut self, lock: LockId) -> Option<TaskId> {
        let heir = self.pass(lock);
        debug_assert!(!self.locks[lock].is_orphan, "it had a holder");
        self.drop_if_idle(lock);
        heir.map(|(heir, _)| heir)
    }

    /// Gives the lock to its first waiter, which then has to write the word, because the holder has died. A lock without
    /// waiters is removed.
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

    /// Moves the lock from its holder to its first waiter, whose wait ends.
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
        let i = levels.binary_search_by_key(&level, |&(level, _)| level).unwrap_or_else(|i| {
            levels.insert(i, (level, List::new()));
            i
        });
        levels[i].1.push(&mut self.tasks, task, |task| &mut task.in_level);
    }

    fn unqueue(&mut self, task: TaskId, lock: LockId, level: u8) {
        let levels = &mut self.locks[lock].levels;
        let Ok(i) = levels.binary_search_by_key(&level, |&(level, _)| level) else { return };
        levels[i].1.remove(&mut self.tasks, task, |task| &mut task.in_level);
        if levels[i].1.len == 0 {
            levels.remove(i);
        }
    }

    fn link(&mut self, lock: LockId) {
        let holder = self.locks[lock].holder;
        self.tasks[holder].holds.push(&mut self.locks, lock, |lock| &mut lock.in_holds);
    }

    fn unlink(&mut self, lock: LockId) {
        let holder = self.locks[lock].holder;
        self.tasks[holder].holds.remove(&mut self.locks, lock, |lock| &mut lock.in_holds);
    }

    fn note_change(&mut self, task: TaskId) {
        if !core::mem::replace(&mut self.tasks[task].is_changed, true) {
            self.changed.push(&mut self.tasks, task, |task| &mut task.in_changed);
        }
    }

    /// Notes what has been reported as the task's priority. If it is another now, that has to be reported.
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

    fn forget_change(&mut self, task: TaskId) {
        if core::mem::take(&mut self.tasks[task].is_changed) {
            self.changed.remove(&mut self.tasks, task, |task| &mut task.in_changed);
        }
    }

    /// Fails with `Deadlock` if the chain of holders from `lock` leads back to `task` or would become too long.
    ///
    /// Each holder must be higher than the task that waits for it. The walk ends at the first holder that is high enough
    /// already: heights rise along a chain, so no height behind it changes, and `task`, which is lower, cannot be behind it.
    fn look_for_deadlock(&mut self, task: TaskId, lock: LockId) -> Result<(), Error> {
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

    /// Changes what one of the holder's locks contributes from `before` to `after`, for the holder and those further along the
    /// chain. Ends where nothing changes, or at the end of the chain.
    fn follow(&mut self, mut holder: TaskId, mut before: Option<Brought>, mut after: Option<Brought>) {
        loop {
            if before == after {
                return;
            }
            self.visited += 1;
            let task = &mut self.tasks[holder];
            if let Some((level, height)) = before {
                task.boosts.remove(Reverse(level));
                task.heights.remove(height);
            }
            if let Some((level, height)) = after {
                task.boosts.add(Reverse(level));
                task.heights.add(height);
            }
            let Some(next) = self.adjust(holder) else { return };
            (holder, before, after) = next;
        }
    }

    /// Computes the task's priority and height. If it waits, returns its lock's holder, and what the lock brought before and
    /// brings now.
    fn adjust(&mut self, id: TaskId) -> Option<(TaskId, Option<Brought>, Option<Brought>)> {
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

/// A multiset: each value with the number of times that it occurs.
struct Multiset<T> {
    /// The greatest value and its count. If each lock of a chain has one waiter, a walk along it needs no vector.
    greatest: Option<(T, u32)>,
    /// The other values, in ascending order. There is capacity for all that can be added.
    others: Vec<(T, u32)>,
}

impl<T: Copy + Ord> Multiset<T> {
    const fn new() -> Self {
        Self { greatest: None, others: Vec::new() }
    }

    fn greatest(&self) -> Option<T> {
        self.greatest.map(|(greatest, _)| greatest)
    }

    fn reserve(&mut self, different: usize) -> Result<(), Error> {
        let more = different.saturating_sub(1 + self.others.len());
        self.others.try_reserve(more).map_err(|_| Error::NoMemory)
    }

    fn add(&mut self, value: T) {
        match &mut self.greatest {
            Some((greatest, count)) if value == *greatest => *count += 1,
            Some((greatest, _)) if value < *greatest => {
                match self.others.binary_search_by_key(&value, |&(value, _)| value) {
                    Ok(i) => self.others[i].1 += 1,
                    Err(i) => self.others.insert(i, (value, 1)),
                }
            }
            _ => {
                if let Some(second) = self.greatest.replace((value, 1)) {
                    self.others.push(second);
                }
            }
        }
    }

    fn remove(&mut self, value: T) {
        if let Some((greatest, count)) = &mut self.greatest
            && *greatest == value
        {
            *count -= 1;
            if *count == 0 {
                self.greatest = self.others.pop();
            }
        } else if let Ok(i) = self.others.binary_search_by_key(&value, |&(value, _)| value) {
            self.others[i].1 -= 1;
            if self.others[i].1 == 0 {
                self.others.remove(i);
            }
        }
    }
}
