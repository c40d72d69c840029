//! Which task holds which lock, which tasks wait for it, and the priority that each task therefore runs with.
//!
//! A lock is in the graph as long as a task waits for it. Its *holder* is the task that has it, or has just been given
//! it. Each waiter lends the holder its priority. If the holder waits for another lock, it is queued there with the
//! priority that it has been lent, and so on along the chain.
//!
//! Tasks and locks refer to each other by number. Each domain's tasks and locks are a [`Part`]. Parts that refer to
//! each other are in one graph. A walk along a chain is no longer than the longest allowed chain, and ends where
//! nothing changes. No list is searched. Memory is allocated only when a task is registered or a waiter is added.
//!
//! The *height* of a task limits the length of chains: it is the number of waits in the longest chain that ends with
//! the task, 0 if no task waits for it. Each lock counts its waiters by height, and each task counts its locks by the
//! greatest height of their waiters. So heights are exact at any time, and when a lock is handed over, its waiters'
//! heights count for the heir.

mod chain;
mod heights;
mod lent;
mod part;
mod queue;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::num::NonZeroU32;

use self::chain::{Brought, Change};
use self::heights::Heights;
use self::lent::Lent;
pub use self::part::Part;
use self::part::Parts;
use super::slab::Id;
use crate::error::Error;
use crate::futex::priority::NORMAL;
use crate::futex::task::TaskKind;

/// There are 101 levels. Level 0 runs first; tasks without a real-time priority have the last one.
const LEVELS: usize = NORMAL as usize + 1;

pub type TaskId<E> = Id<Task<E>>;
pub type LockId<E> = Id<Lock<E>>;

/// See the top of this file. `E` identifies a waiter's entry, `H` a domain.
pub struct Graph<E, H> {
    parts: Parts<E, H>,
    /// The greatest height that a task may have.
    highest: u32,
    /// How many waits have been refused because a task would have become higher than `highest`.
    pub chains_refused: u64,
    /// How many holders have been visited by walks along chains. It only grows.
    pub visited: u64,
    changes: Changes,
    /// How many parts have remembered changes.
    unsettled: usize,
}

pub struct Task<E> {
    tid: u32,
    /// A kernel's own thread, for which no task may wait.
    is_kernel: bool,
    is_changed: bool,
    /// The task's own priority.
    own: u8,
    /// The best of its own priority and those that it is lent.
    effective: u8,
    /// The length of the longest chain of waits that ends with it.
    height: u32,
    lent: Lent,
    /// For each lock that it holds, the greatest height of the lock's waiters.
    heights: Heights,
    /// How many locks it holds.
    held: usize,
    /// The first lock that it holds.
    holds: Option<LockId<E>>,
    blocked: Option<Blocked<E>>,
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
    fn first_level(&self) -> Option<u8> {
        self.levels.first().map(|level| level.level)
    }

    fn brought(&self) -> Brought {
        Brought::new(self.first_level(), self.heights.greatest())
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

impl<E: Copy, H: Copy> Graph<E, H> {
    pub fn new(max_depth: usize, changes: Changes) -> Self {
        // The limit does not count the first wait of a chain.
        let highest = u32::try_from(max_depth.saturating_add(1)).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        Self { parts: Parts::new(), highest, chains_refused: 0, visited: 0, changes, unsettled: 0 }
    }

    /// Adds a task to a part. `Busy` if another task of the part has its TID.
    pub fn register(&mut self, number: NonZeroU32, tid: u32, kind: TaskKind) -> Result<TaskId<E>, Error> {
        let part = self.parts.of_mut(number);
        if part.by_tid.contains_key(&tid) {
            return Err(Error::Busy);
        }
        part.by_tid.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let index = part.tasks.insert(Task {
            tid,
            is_kernel: kind == TaskKind::Kernel,
            is_changed: false,
            own: NORMAL,
            effective: NORMAL,
            height: 0,
            lent: Lent::new(),
            heights: Heights::new(),
            held: 0,
            holds: None,
            blocked: None,
            next_changed: None,
        })?;
        let task = Id::new(number, index);
        part.by_tid.insert(tid, task);
        Ok(task)
    }

    /// Removes a task. It waits for no lock, and no task waits for a lock that it holds.
    pub fn unregister(&mut self, task: TaskId<E>) {
        debug_assert!(self[task].blocked.is_none() && self[task].holds.is_none());
        self.forget_change(task);
        self.hide(task);
        self.parts.of_mut(task.part()).tasks.remove(task.index());
    }

    /// Removes the task from look-ups by TID. Its slot stays, since locks or waiters may still refer to it.
    pub fn hide(&mut self, task: TaskId<E>) {
        let tid = self[task].tid;
        let part = self.parts.of_mut(task.part());
        if part.by_tid.get(&tid) == Some(&task) {
            part.by_tid.remove(&tid);
        }
    }

    /// The task with this TID in the part, if the part is in this graph.
    pub fn find(&self, part: NonZeroU32, tid: u32) -> Option<TaskId<E>> {
        self.parts.get(part)?.by_tid.get(&tid).copied()
    }

    /// Whether the part is in this graph.
    pub fn has(&self, part: NonZeroU32) -> bool {
        self.parts.get(part).is_some()
    }

    /// Whether no task may wait for this one.
    pub fn is_kernel(&self, task: TaskId<E>) -> bool {
        self[task].is_kernel
    }

    pub fn tid(&self, task: TaskId<E>) -> u32 {
        self[task].tid
    }

    pub fn effective(&self, task: TaskId<E>) -> u8 {
        self[task].effective
    }

    /// The owner that the lock's word has to name; `None` while the word names no living task.
    pub fn owner(&self, lock: LockId<E>) -> Option<TaskId<E>> {
        let lock = &self[lock];
        (!lock.is_orphan).then_some(lock.holder)
    }

    /// The lock that the task waits for, and the task's entry.
    pub fn blocked_on(&self, task: TaskId<E>) -> Option<(LockId<E>, E)> {
        self[task].blocked.as_ref().map(|b| (b.lock, b.entry))
    }

    /// The waiter that is handed the lock next.
    pub fn first_waiter(&self, lock: LockId<E>) -> Option<TaskId<E>> {
        self[lock].levels.first().map(|level| level.first)
    }

    /// Sets the task's own priority.
    pub fn set_own(&mut self, task: TaskId<E>, own: u8) {
        self[task].own = own.min(NORMAL);
        if let Some(change) = self.adjust(task) {
            self.follow(change);
        }
    }

    /// Adds a lock of `holder` that has no waiters yet; [`drop_if_idle`](Self::drop_if_idle) removes it.
    pub fn add_lock(&mut self, holder: TaskId<E>) -> Result<LockId<E>, Error> {
        self.make_room_to_hold(holder)?;
        let index = self.parts.of_mut(holder.part()).locks.insert(Lock {
            holder,
            is_orphan: false,
            waiters: 0,
            levels: Vec::new(),
            heights: Heights::new(),
            prev: None,
            next: None,
        })?;
        let lock = Id::new(holder.part(), index);
        self.link(lock);
        Ok(lock)
    }

    /// Removes a lock that has no waiters, unless its holder still has to write the word.
    pub fn drop_if_idle(&mut self, lock: LockId<E>) {
        if self[lock].waiters == 0 && !self[lock].is_orphan {
            self.unlink(lock);
            self.parts.of_mut(lock.part()).locks.remove(lock.index());
        }
    }

    /// Makes `task` wait for `lock`.
    ///
    /// `Deadlock` if a chain of waits leads from the holder back to the task, or if a chain would be too long; `Busy`
    /// if the task already waits for a lock.
    pub fn block(&mut self, task: TaskId<E>, lock: LockId<E>, entry: E) -> Result<(), Error> {
        if self[task].blocked.is_some() {
            return Err(Error::Busy);
        }
        self.look_for_deadlock(task, lock)?;
        // The waiter may be handed the lock later, which must not need memory.
        self.make_room_to_hold(task)?;
        self.make_room_to_wait(lock)?;
        self.tie(task.part(), lock.part());
        self[task].blocked = Some(Blocked { lock, level: NORMAL, entry, prev: None, next: None });
        let (level, height) = (self[task].effective, self[task].height);
        let joined = &mut self[lock];
        let before = joined.brought();
        joined.waiters += 1;
        joined.heights.add(height);
        self.enqueue(task, lock, level);
        let joined = &self[lock];
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
        self[lock].is_orphan = false;
        self.drop_if_idle(lock);
        heir
    }

    /// Gives the lock to its first waiter because the holder has died. The waiter then has to write the word. Returns
    /// the waiter and its entry. A lock without waiters is removed.
    pub fn orphan(&mut self, lock: LockId<E>) -> Option<(TaskId<E>, E)> {
        let entry = self.first_waiter(lock).and_then(|heir| self.blocked_on(heir)).map(|(_, entry)| entry);
        let heir = self.pass(lock);
        self[lock].is_orphan = heir.is_some();
        self.drop_if_idle(lock);
        heir.zip(entry)
    }

    /// Notes that the word names the holder again.
    pub fn adopt(&mut self, lock: LockId<E>) {
        self[lock].is_orphan = false;
        self.drop_if_idle(lock);
    }

    /// One of the locks that the task holds.
    pub fn any_held(&self, task: TaskId<E>) -> Option<LockId<E>> {
        self[task].holds
    }

    fn make_room_to_hold(&mut self, task: TaskId<E>) -> Result<(), Error> {
        let different = self.highest as usize + 1;
        let task = &mut self[task];
        task.lent.make_room()?;
        // One more for a lock that the task becomes the holder of, and one for a lock that it may be handed.
        task.heights.reserve(different.min(task.held + 2))
    }

    fn make_room_to_wait(&mut self, lock: LockId<E>) -> Result<(), Error> {
        let different = self.highest as usize + 1;
        let lock = &mut self[lock];
        let room = LEVELS.min(lock.waiters + 1);
        lock.levels.try_reserve(room - lock.levels.len()).map_err(|_| Error::NoMemory)?;
        lock.heights.reserve(different.min(lock.waiters + 1))
    }

    /// Moves the lock from its holder to its first waiter, whose wait ends.
    fn pass(&mut self, lock: LockId<E>) -> Option<TaskId<E>> {
        let heir = self.first_waiter(lock)?;
        self.take_out(heir);
        let brought = self[lock].brought();
        self.follow(Change { holder: self[lock].holder, before: brought, after: Brought::NOTHING });
        self.unlink(lock);
        self[lock].holder = heir;
        self.link(lock);
        self.follow(Change { holder: heir, before: Brought::NOTHING, after: brought });
        Some(heir)
    }

    /// Takes the task out of the waiters of its lock.
    fn take_out(&mut self, task: TaskId<E>) -> Option<LockId<E>> {
        let lock = self[task].blocked.as_ref()?.lock;
        let before = self[lock].brought();
        let height = self[task].height;
        self.unqueue(task);
        self[task].blocked = None;
        let left = &mut self[lock];
        left.waiters -= 1;
        left.heights.remove(height);
        let (holder, after) = (left.holder, left.brought());
        self.untie(task.part(), lock.part());
        self.follow(Change { holder, before, after });
        Some(lock)
    }
}
