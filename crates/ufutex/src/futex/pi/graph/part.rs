//! The tasks and locks of one domain, which move from one graph to another together.

use core::num::NonZeroU32;

use alloc::vec::Vec;
use hashbrown::HashMap;

use super::{Changes, Graph, Lock, LockId, Task, TaskId};
use crate::error::Error;
use crate::futex::pi::slab::Slab;

/// The tasks and locks of one domain. Every ID contains the number of a part.
///
/// A *tie* is a reference from one part to another: a task's wait for a lock of another part, or a lock whose holder is
/// a task of another part. A part without ties can move to a graph of its own.
pub struct Part<E, H> {
    number: NonZeroU32,
    /// The caller's name for the domain.
    home: H,
    pub(super) tasks: Slab<Task<E>>,
    pub(super) locks: Slab<Lock<E>>,
    pub(super) by_tid: HashMap<u32, TaskId<E>>,
    /// The first task whose change of priority has not been reported.
    pub(super) changed: Option<TaskId<E>>,
    ties: usize,
    /// The domain is gone.
    is_left: bool,
}

impl<E, H: Copy> Part<E, H> {
    pub fn new(number: NonZeroU32, home: H) -> Self {
        Self {
            number,
            home,
            tasks: Slab::new(),
            locks: Slab::new(),
            by_tid: HashMap::new(),
            changed: None,
            ties: 0,
            is_left: false,
        }
    }

    pub fn home(&self) -> H {
        self.home
    }

    fn is_finished(&self) -> bool {
        self.is_left && self.tasks.is_empty() && self.locks.is_empty()
    }
}

/// The parts of a graph, in the order of their numbers.
pub(super) struct Parts<E, H>(Vec<Part<E, H>>);

impl<E, H: Copy> Parts<E, H> {
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    #[inline(always)]
    fn position(&self, number: NonZeroU32) -> Option<usize> {
        match self.0.first() {
            Some(first) if first.number == number => Some(0),
            _ => self.search(number),
        }
    }

    #[cold]
    fn search(&self, number: NonZeroU32) -> Option<usize> {
        self.0.binary_search_by_key(&number, |part| part.number).ok()
    }

    #[inline(always)]
    pub fn get(&self, number: NonZeroU32) -> Option<&Part<E, H>> {
        Some(&self.0[self.position(number)?])
    }

    #[inline(always)]
    pub fn of(&self, number: NonZeroU32) -> &Part<E, H> {
        self.get(number).expect("what an ID names is in the graph of everything that names it")
    }

    #[inline(always)]
    pub fn of_mut(&mut self, number: NonZeroU32) -> &mut Part<E, H> {
        let i = self.position(number).expect("what an ID names is in the graph of everything that names it");
        &mut self.0[i]
    }
}

impl<E: Copy, H: Copy> Graph<E, H> {
    /// Makes room for one part, so that [`put`](Self::put) needs no memory.
    pub fn make_room(&mut self) -> Result<(), Error> {
        self.parts.0.try_reserve(1).map_err(|_| Error::NoMemory)
    }

    /// Adds a part to a graph that has room for it.
    pub fn put(&mut self, part: Part<E, H>) {
        self.unsettled += usize::from(part.changed.is_some());
        let at = self.parts.0.partition_point(|other| other.number < part.number);
        self.parts.0.insert(at, part);
    }

    /// Moves all parts of `other` to this graph. Calls `seen` with the home of each.
    ///
    /// # Errors
    /// [`Error::NoMemory`]. Nothing has changed then.
    pub fn absorb(&mut self, other: &mut Self, mut seen: impl FnMut(H)) -> Result<(), Error> {
        self.parts.0.try_reserve(other.parts.0.len()).map_err(|_| Error::NoMemory)?;
        other.parts.0.iter().for_each(|part| seen(part.home));
        self.parts.0.append(&mut other.parts.0);
        self.parts.0.sort_unstable_by_key(|part| part.number);
        self.unsettled += core::mem::take(&mut other.unsettled);
        self.chains_refused += core::mem::take(&mut other.chains_refused);
        Ok(())
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.0.len()
    }

    /// Whether [`take_finished`](Self::take_finished) or [`take_loose`](Self::take_loose) may return a part.
    pub fn may_shrink(&self) -> bool {
        match &*self.parts.0 {
            [] => false,
            [one] => one.is_left,
            _ => true,
        }
    }

    /// Notes that the part's domain is gone.
    pub fn leave(&mut self, number: NonZeroU32) {
        self.parts.of_mut(number).is_left = true;
    }

    /// Takes out a part whose domain is gone and which has no tasks or locks left.
    pub fn take_finished(&mut self) -> Option<Part<E, H>> {
        // As in `has_loose`: the thread that ended the last task may not have reported yet what that changed.
        if self.unsettled != 0 {
            return None;
        }
        let at = self.parts.0.iter().position(Part::is_finished)?;
        Some(self.parts.0.remove(at))
    }

    /// Whether [`take_loose`](Self::take_loose) has a part to return.
    pub fn has_loose(&self) -> bool {
        // A part with unreported changes stays: the thread that reports them looks for them in the graph of its own
        // part.
        self.parts.0.len() > 1 && self.unsettled == 0 && self.parts.0.iter().any(|part| part.ties == 0)
    }

    /// Takes out a part that has no ties, if the graph has other parts.
    pub fn take_loose(&mut self) -> Option<Part<E, H>> {
        if !self.has_loose() {
            return None;
        }
        let at = self.parts.0.iter().position(|part| part.ties == 0)?;
        Some(self.parts.0.remove(at))
    }

    /// Counts a reference between two parts.
    #[inline]
    pub(super) fn tie(&mut self, one: NonZeroU32, other: NonZeroU32) {
        if one != other {
            self.parts.of_mut(one).ties += 1;
            self.parts.of_mut(other).ties += 1;
        }
    }

    /// Ends what [`tie`](Self::tie) began.
    #[inline]
    pub(super) fn untie(&mut self, one: NonZeroU32, other: NonZeroU32) {
        if one != other {
            self.parts.of_mut(one).ties -= 1;
            self.parts.of_mut(other).ties -= 1;
        }
    }

    /// Notes that a task's priority differs from the one reported last.
    pub(super) fn note_change(&mut self, id: TaskId<E>) {
        if self.changes == Changes::Ignored || self[id].is_changed {
            return;
        }
        self[id].is_changed = true;
        let next = self.parts.of_mut(id.part()).changed.replace(id);
        self.unsettled += usize::from(next.is_none());
        self[id].next_changed = next;
    }

    /// A task whose effective priority has changed since it was reported: its home, its TID and its priority now.
    pub fn next_changed(&mut self) -> Option<(H, u32, u8)> {
        if self.unsettled == 0 {
            return None;
        }
        let id = self.parts.0.iter().find_map(|part| part.changed)?;
        let task = &mut self[id];
        task.is_changed = false;
        let (tid, effective, next) = (task.tid, task.effective, task.next_changed.take());
        let part = self.parts.of_mut(id.part());
        part.changed = next;
        let home = part.home;
        self.unsettled -= usize::from(next.is_none());
        Some((home, tid, effective))
    }

    /// Removes the task from those whose changes are to be reported.
    pub(super) fn forget_change(&mut self, task: TaskId<E>) {
        if !self[task].is_changed {
            return;
        }
        self[task].is_changed = false;
        let next = self[task].next_changed.take();
        let part = self.parts.of_mut(task.part());
        if part.changed == Some(task) {
            part.changed = next;
            self.unsettled -= usize::from(next.is_none());
            return;
        }
        let mut at = part.changed;
        while let Some(id) = at {
            if self[id].next_changed == Some(task) {
                self[id].next_changed = next;
                return;
            }
            at = self[id].next_changed;
        }
    }
}

impl<E, H: Copy> core::ops::Index<TaskId<E>> for Graph<E, H> {
    type Output = Task<E>;

    #[inline(always)]
    fn index(&self, id: TaskId<E>) -> &Task<E> {
        &self.parts.of(id.part()).tasks[id.index()]
    }
}

impl<E, H: Copy> core::ops::IndexMut<TaskId<E>> for Graph<E, H> {
    #[inline(always)]
    fn index_mut(&mut self, id: TaskId<E>) -> &mut Task<E> {
        &mut self.parts.of_mut(id.part()).tasks[id.index()]
    }
}

impl<E, H: Copy> core::ops::Index<LockId<E>> for Graph<E, H> {
    type Output = Lock<E>;

    #[inline(always)]
    fn index(&self, id: LockId<E>) -> &Lock<E> {
        &self.parts.of(id.part()).locks[id.index()]
    }
}

impl<E, H: Copy> core::ops::IndexMut<LockId<E>> for Graph<E, H> {
    #[inline(always)]
    fn index_mut(&mut self, id: LockId<E>) -> &mut Lock<E> {
        &mut self.parts.of_mut(id.part()).locks[id.index()]
    }
}
