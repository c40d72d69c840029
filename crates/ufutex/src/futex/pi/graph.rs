//! Who holds which lock, who waits for it, and the priority that everybody runs with because of it.
//!
//! A lock stands here as long as somebody waits for it. Its *holder* is who has it, or has just been given it. Each waiter
//! lends the holder its priority; the holder, if it waits for another lock, stands there with what it has been lent, and
//! so on along the chain.
//!
//! Everything is by number in three tables behind one lock of the system: a chain may cross domains. No walk is longer
//! than the depth that is allowed, no list is searched, and nothing is allocated but when a task or a waiter comes.

use alloc::vec::Vec;

use hashbrown::HashMap;

use super::slab::{Id, Slab};
use crate::error::Error;

/// What has no real-time priority: the last of 101 levels, 0 being the first to run.
pub const NORMAL: u8 = 100;
const LEVELS: usize = NORMAL as usize + 1;

pub type TaskId<E> = Id<Task<E>>;
pub type LockId<E> = Id<Lock<E>>;

/// See the top of this file. `E` is what a waiter is told by.
pub struct Graph<E> {
    tasks: Slab<Task<E>>,
    locks: Slab<Lock<E>>,
    by_tid: HashMap<u32, TaskId<E>>,
    max_depth: usize,
    /// How often a chain would have become longer than that.
    pub chains_refused: u64,
    /// Whether changes of priority are to be remembered for [`next_changed`](Self::next_changed).
    tells_changes: bool,
    changed: Option<TaskId<E>>,
}

pub struct Task<E> {
    tid: u32,
    /// The domain that it belongs to, by the space of its private keys.
    space: u64,
    /// Nobody may wait for it: a kernel's own thread.
    is_kernel: bool,
    robust_lists: [u64; 2],
    /// Its own priority.
    own: u8,
    /// The best of its own and those that it is lent.
    effective: u8,
    /// How many of the locks it holds have a first waiter of each level; no memory before it holds one.
    lent: Vec<u32>,
    /// The levels where that is not zero.
    lent_levels: u128,
    /// The first of the locks that it holds.
    holds: Option<LockId<E>>,
    blocked: Option<Blocked<E>>,
    /// At least as long as any chain of tasks that ends with one who waits for this one; 0 if nobody does. It does not
    /// become less while somebody does: the limit counts what a chain has been.
    height: usize,
    is_changed: bool,
    next_changed: Option<TaskId<E>>,
}

/// A task's place among a lock's waiters.
struct Blocked<E> {
    lock: LockId<E>,
    level: u8,
    entry: E,
    prev: Option<TaskId<E>>,
    next: Option<TaskId<E>>,
}

pub struct Lock<E> {
    holder: TaskId<E>,
    /// The owner before has died, and the word does not name the holder yet.
    is_orphan: bool,
    waiters: usize,
    /// Those levels that have waiters, the first to run first. There is room for one each.
    levels: Vec<Level<E>>,
    // Its neighbours among the locks of its holder.
    prev: Option<LockId<E>>,
    next: Option<LockId<E>>,
}

/// The waiters of one priority, in the order they came.
struct Level<E> {
    level: u8,
    first: TaskId<E>,
    last: TaskId<E>,
}

/// A change of what a holder is lent through one of its locks.
struct Lent<E> {
    holder: TaskId<E>,
    before: Option<u8>,
    after: Option<u8>,
}

impl<E> Lock<E> {
    fn first_level(&self) -> Option<u8> {
        self.levels.first().map(|level| level.level)
    }
}

impl<E: Copy> Graph<E> {
    pub fn new(max_depth: usize, tells_changes: bool) -> Self {
        Self {
            tasks: Slab::new(),
            locks: Slab::new(),
            by_tid: HashMap::new(),
            max_depth,
            chains_refused: 0,
            tells_changes,
            changed: None,
        }
    }

    /// A new task. `Busy` when its number is another's.
    pub fn register(&mut self, tid: u32, space: u64, is_kernel: bool) -> Result<TaskId<E>, Error> {
        if self.by_tid.contains_key(&tid) {
            return Err(Error::Busy);
        }
        self.by_tid.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let task = self.tasks.insert(Task {
            tid,
            space,
            is_kernel,
            robust_lists: [0; 2],
            own: NORMAL,
            effective: NORMAL,
            lent: Vec::new(),
            lent_levels: 0,
            holds: None,
            blocked: None,
            height: 0,
            is_changed: false,
            next_changed: None,
        })?;
        self.by_tid.insert(tid, task);
        Ok(task)
    }

    /// Nobody finds the task any more. It waits for nothing and holds nothing that is waited for.
    pub fn unregister(&mut self, task: TaskId<E>) {
        debug_assert!(self.tasks[task].blocked.is_none() && self.tasks[task].holds.is_none());
        if self.tasks[task].is_changed {
            self.forget_change(task);
        }
        self.hide(task);
        self.tasks.remove(task);
    }

    /// Nobody finds the task any more, but its place stays: something names it that will not be heard of again.
    pub fn hide(&mut self, task: TaskId<E>) {
        let tid = self.tasks[task].tid;
        if self.by_tid.get(&tid) == Some(&task) {
            self.by_tid.remove(&tid);
        }
    }

    /// The task with this number, if `space` is not that of another domain.
    pub fn find(&self, tid: u32, space: Option<u64>) -> Option<TaskId<E>> {
        let task = *self.by_tid.get(&tid)?;
        space.is_none_or(|space| self.tasks[task].space == space).then_some(task)
    }

    /// The heads of the task's robust lists, which it looks after itself.
    pub fn robust_lists(&mut self, task: TaskId<E>) -> &mut [u64; 2] {
        &mut self.tasks[task].robust_lists
    }

    /// Whether nobody may wait for the task.
    pub fn is_kernel(&self, task: TaskId<E>) -> bool {
        self.tasks[task].is_kernel
    }

    pub fn tid(&self, task: TaskId<E>) -> u32 {
        self.tasks[task].tid
    }

    pub fn effective(&self, task: TaskId<E>) -> u8 {
        self.tasks[task].effective
    }

    /// The owner that a lock's word must name; `None` while it names nobody who lives.
    pub fn owner(&self, lock: LockId<E>) -> Option<TaskId<E>> {
        let lock = &self.locks[lock];
        (!lock.is_orphan).then_some(lock.holder)
    }

    /// The lock that the task waits for, and what it is told by.
    pub fn blocked_on(&self, task: TaskId<E>) -> Option<(LockId<E>, E)> {
        self.tasks[task].blocked.as_ref().map(|b| (b.lock, b.entry))
    }

    /// The waiter that gets the lock next.
    pub fn first_waiter(&self, lock: LockId<E>) -> Option<TaskId<E>> {
        self.locks[lock].levels.first().map(|level| level.first)
    }

    /// The task has this priority of its own from now on.
    pub fn set_own(&mut self, task: TaskId<E>, own: u8) {
        self.tasks[task].own = own.min(NORMAL);
        if let Some(Lent { holder, before, after }) = self.adjust(task) {
            self.lend(holder, before, after);
        }
    }

    /// A lock of `holder` that nobody waits for yet; [`drop_if_idle`](Self::drop_if_idle) takes it back.
    pub fn add_lock(&mut self, holder: TaskId<E>) -> Result<LockId<E>, Error> {
        self.make_room_to_hold(holder)?;
        let lock = self.locks.insert(Lock {
            holder,
            is_orphan: false,
            waiters: 0,
            levels: Vec::new(),
            prev: None,
            next: None,
        })?;
        self.link(lock);
        Ok(lock)
    }

    /// Forgets a lock that nobody waits for, unless its word has to be put right first.
    pub fn drop_if_idle(&mut self, lock: LockId<E>) {
        if self.locks[lock].waiters == 0 && !self.locks[lock].is_orphan {
            self.unlink(lock);
            self.locks.remove(lock);
        }
    }

    /// Has `task` wait for `lock`.
    ///
    /// `Deadlock` when the holder is the task itself, or waits (for one who waits …) for it, or when the chain is too
    /// long; `Busy` when the task waits already.
    pub fn block(&mut self, task: TaskId<E>, lock: LockId<E>, entry: E) -> Result<(), Error> {
        if self.tasks[task].blocked.is_some() {
            return Err(Error::Busy);
        }
        self.look_for_deadlock(task, lock)?;
        // Who waits may be handed the lock, and must not need memory then.
        self.make_room_to_hold(task)?;
        let room = LEVELS.min(self.locks[lock].waiters + 1);
        let levels = &mut self.locks[lock].levels;
        levels.try_reserve(room - levels.len()).map_err(|_| Error::NoMemory)?;
        self.tasks[task].blocked = Some(Blocked { lock, level: NORMAL, entry, prev: None, next: None });
        self.locks[lock].waiters += 1;
        self.raise_heights(task);
        self.queue(task);
        Ok(())
    }

    /// The task waits no more: it has given up.
    pub fn unblock(&mut self, task: TaskId<E>) {
        if let Some(lock) = self.take_out(task) {
            self.drop_if_idle(lock);
        }
    }

    /// Gives the lock to its first waiter, if it has one. Without any it is forgotten.
    pub fn hand_over(&mut self, lock: LockId<E>) -> Option<TaskId<E>> {
        let heir = self.pass(lock);
        self.locks[lock].is_orphan = false;
        self.drop_if_idle(lock);
        heir
    }

    /// The holder has died: the first waiter has the lock, and must put the word right. Answers it and what it is told
    /// by. Without any the lock is forgotten.
    pub fn orphan(&mut self, lock: LockId<E>) -> Option<(TaskId<E>, E)> {
        let entry = self.first_waiter(lock).and_then(|heir| self.blocked_on(heir)).map(|(_, entry)| entry);
        let heir = self.pass(lock);
        self.locks[lock].is_orphan = heir.is_some();
        self.drop_if_idle(lock);
        heir.zip(entry)
    }

    /// The word names the holder again.
    pub fn adopt(&mut self, lock: LockId<E>) {
        self.locks[lock].is_orphan = false;
        self.drop_if_idle(lock);
    }

    /// One of the locks that the task holds.
    pub fn any_held(&self, task: TaskId<E>) -> Option<LockId<E>> {
        self.tasks[task].holds
    }

    /// A task whose effective priority has changed and that nobody has been told of: its number and what it is now.
    pub fn next_changed(&mut self) -> Option<(u32, u8)> {
        let id = self.changed?;
        let task = &mut self.tasks[id];
        self.changed = task.next_changed.take();
        task.is_changed = false;
        Some((task.tid, task.effective))
    }

    fn forget_change(&mut self, task: TaskId<E>) {
        let next = self.tasks[task].next_changed.take();
        if self.changed == Some(task) {
            self.changed = next;
            return;
        }
        let mut at = self.changed;
        while let Some(id) = at {
            if self.tasks[id].next_changed == Some(task) {
                self.tasks[id].next_changed = next;
                return;
            }
            at = self.tasks[id].next_changed;
        }
    }

    fn look_for_deadlock(&mut self, task: TaskId<E>, lock: LockId<E>) -> Result<(), Error> {
        let mut holder = self.locks[lock].holder;
        let mut depth = 0;
        loop {
            if holder == task {
                return Err(Error::Deadlock);
            }
            if depth > self.max_depth {
                break;
            }
            let Some(blocked) = &self.tasks[holder].blocked else { break };
            holder = self.locks[blocked.lock].holder;
            depth += 1;
        }
        if self.tasks[task].height + depth > self.max_depth {
            self.chains_refused += 1;
            return Err(Error::Deadlock);
        }
        Ok(())
    }

    /// A task has begun to wait: the chains of those along its own have become longer.
    fn raise_heights(&mut self, task: TaskId<E>) {
        let (mut at, mut height) = (task, self.tasks[task].height);
        while let Some(blocked) = &self.tasks[at].blocked {
            at = self.locks[blocked.lock].holder;
            height += 1;
            if self.tasks[at].height >= height {
                break;
            }
            self.tasks[at].height = height;
        }
    }

    fn make_room_to_hold(&mut self, task: TaskId<E>) -> Result<(), Error> {
        let lent = &mut self.tasks[task].lent;
        if lent.is_empty() {
            lent.try_reserve_exact(LEVELS).map_err(|_| Error::NoMemory)?;
            lent.resize(LEVELS, 0);
        }
        Ok(())
    }

    /// Moves the lock from its holder to its first waiter, who waits no more.
    fn pass(&mut self, lock: LockId<E>) -> Option<TaskId<E>> {
        let heir = self.first_waiter(lock)?;
        self.take_out(heir);
        let before = self.locks[lock].holder;
        let level = self.locks[lock].first_level();
        self.lend(before, level, None);
        self.unlink(lock);
        self.locks[lock].holder = heir;
        self.link(lock);
        self.lend(heir, None, level);
        Some(heir)
    }

    /// Takes the task out of the waiters of its lock.
    fn take_out(&mut self, task: TaskId<E>) -> Option<LockId<E>> {
        let lock = self.tasks[task].blocked.as_ref()?.lock;
        let before = self.locks[lock].first_level();
        self.unqueue(task);
        self.tasks[task].blocked = None;
        self.locks[lock].waiters -= 1;
        let after = self.locks[lock].first_level();
        let holder = self.locks[lock].holder;
        self.lend(holder, before, after);
        Some(lock)
    }

    /// Puts a task that is blocked among its lock's waiters, and lends its priority.
    fn queue(&mut self, task: TaskId<E>) {
        let level = self.tasks[task].effective;
        let Some(lock) = self.tasks[task].blocked.as_ref().map(|b| b.lock) else { return };
        let before = self.locks[lock].first_level();
        self.enqueue(task, lock, level);
        let after = self.locks[lock].first_level();
        let holder = self.locks[lock].holder;
        self.lend(holder, before, after);
    }

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
        let (lock, level, prev, next) = (blocked.lock, blocked.level, blocked.prev, blocked.next);
        let levels = &mut self.locks[lock].levels;
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

    /// One of the holder's locks had a first waiter of level `before` and has one of `after`: its priority follows, and
    /// those along the chain, which is no longer than it may be.
    fn lend(&mut self, holder: TaskId<E>, before: Option<u8>, after: Option<u8>) {
        let mut next = Some(Lent { holder, before, after });
        while let Some(Lent { holder, before, after }) = next {
            if before == after {
                return;
            }
            let task = &mut self.tasks[holder];
            if let Some(level) = before {
                task.lent[usize::from(level)] -= 1;
                if task.lent[usize::from(level)] == 0 {
                    task.lent_levels &= !(1 << level);
                }
            }
            if let Some(level) = after {
                task.lent[usize::from(level)] += 1;
                task.lent_levels |= 1 << level;
            }
            next = self.adjust(holder);
        }
    }

    /// The task's priority follows from its own and what it is lent. Answers what that means for who has the lock that
    /// it waits for.
    fn adjust(&mut self, id: TaskId<E>) -> Option<Lent<E>> {
        let task = &mut self.tasks[id];
        let lent = task.lent_levels.trailing_zeros() as u8;
        let effective = task.own.min(lent);
        if core::mem::replace(&mut task.effective, effective) == effective {
            return None;
        }
        if self.tells_changes && !task.is_changed {
            task.is_changed = true;
            task.next_changed = self.changed.replace(id);
        }
        let lock = self.tasks[id].blocked.as_ref()?.lock;
        let before = self.locks[lock].first_level();
        self.unqueue(id);
        self.enqueue(id, lock, effective);
        let after = self.locks[lock].first_level();
        Some(Lent { holder: self.locks[lock].holder, before, after })
    }

    /// Adds a lock to those of its holder.
    fn link(&mut self, lock: LockId<E>) {
        let holder = self.locks[lock].holder;
        let next = self.tasks[holder].holds.replace(lock);
        (self.locks[lock].prev, self.locks[lock].next) = (None, next);
        if let Some(next) = next {
            self.locks[next].prev = Some(lock);
        }
    }

    fn unlink(&mut self, lock: LockId<E>) {
        let (holder, prev, next) = (self.locks[lock].holder, self.locks[lock].prev, self.locks[lock].next);
        match prev {
            Some(prev) => self.locks[prev].next = next,
            None => self.tasks[holder].holds = next,
        }
        if self.tasks[holder].holds.is_none() {
            self.tasks[holder].height = 0;
        }
        if let Some(next) = next {
            self.locks[next].prev = prev;
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle", feature = "sim"))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TASKS: usize = 6;
    const LOCKS: usize = 4;

    #[derive(Clone, Debug)]
    enum Step {
        Lock(usize, usize),
        Unlock(usize),
        GiveUp(usize),
        Priority(usize, u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..TASKS, 0..LOCKS).prop_map(|(t, l)| Step::Lock(t, l)),
            2 => (0..LOCKS).prop_map(Step::Unlock),
            1 => (0..TASKS).prop_map(Step::GiveUp),
            1 => (0..TASKS, 95..=NORMAL).prop_map(|(t, p)| Step::Priority(t, p)),
        ]
    }

    /// The same, in the plainest way: waiters in the order in which they took their present priority.
    #[derive(Default)]
    struct Plain {
        holder: [Option<usize>; LOCKS],
        waits_for: [Option<usize>; TASKS],
        own: [u8; TASKS],
        effective: [u8; TASKS],
        since: [usize; TASKS],
        now: usize,
    }

    impl Plain {
        fn waiters(&self, lock: usize) -> Vec<usize> {
            let mut waiters: Vec<_> = (0..TASKS).filter(|&t| self.waits_for[t] == Some(lock)).collect();
            waiters.sort_by_key(|&t| (self.effective[t], self.since[t]));
            waiters
        }

        fn settle(&mut self) {
            loop {
                let changed = (0..TASKS).find_map(|task| {
                    let held = (0..LOCKS).filter(|&l| self.holder[l] == Some(task));
                    let lent = held.flat_map(|l| self.waiters(l)).map(|w| self.effective[w]).min();
                    let effective = self.own[task].min(lent.unwrap_or(NORMAL));
                    (effective != self.effective[task]).then_some((task, effective))
                });
                let Some((task, effective)) = changed else { return };
                self.effective[task] = effective;
                self.now += 1;
                self.since[task] = self.now;
            }
        }

        fn is_deadlock(&self, task: usize, lock: usize) -> bool {
            let mut holder = self.holder[lock];
            while let Some(at) = holder {
                if at == task {
                    return true;
                }
                holder = self.waits_for[at].and_then(|l| self.holder[l]);
            }
            false
        }
    }

    fn graph(max_depth: usize) -> (Graph<usize>, Vec<TaskId<usize>>) {
        let mut graph = Graph::new(max_depth, true);
        let tasks = (0..TASKS).map(|i| graph.register(i as u32 + 1, 4, false).unwrap()).collect();
        (graph, tasks)
    }

    proptest! {
        #[test]
        fn graph_does_as_the_plainest_way_does(steps in prop::collection::vec(step(), 0..60)) {
            let (mut graph, ids) = graph(1024);
            let mut locks: [Option<LockId<usize>>; LOCKS] = [None; LOCKS];
            let mut plain = Plain { own: [NORMAL; TASKS], effective: [NORMAL; TASKS], ..Plain::default() };
            let mut told = [NORMAL; TASKS];
            for step in steps {
                match step {
                    Step::Lock(t, l) if plain.waits_for[t].is_none() => match plain.holder[l] {
                        None => plain.holder[l] = Some(t),
                        Some(holder) => {
                            let lock = locks[l].unwrap_or_else(|| graph.add_lock(ids[holder]).unwrap());
                            let result = graph.block(ids[t], lock, t);
                            graph.drop_if_idle(lock);
                            if plain.is_deadlock(t, l) {
                                prop_assert_eq!(result, Err(Error::Deadlock));
                            } else {
                                prop_assert_eq!(result, Ok(()));
                                locks[l] = Some(lock);
                                plain.now += 1;
                                plain.since[t] = plain.now;
                                plain.waits_for[t] = Some(l);
                            }
                        }
                    },
                    Step::Unlock(l) => if let Some(holder) = plain.holder[l] && plain.waits_for[holder].is_none() {
                        let heir = plain.waiters(l).first().copied();
                        let got = locks[l].and_then(|lock| graph.hand_over(lock));
                        prop_assert_eq!(got, heir.map(|h| ids[h]));
                        plain.holder[l] = heir;
                        if let Some(heir) = heir {
                            plain.waits_for[heir] = None;
                        }
                        if plain.waiters(l).is_empty() {
                            locks[l] = None;
                        }
                    },
                    Step::GiveUp(t) => if let Some(l) = plain.waits_for[t] {
                        graph.unblock(ids[t]);
                        plain.waits_for[t] = None;
                        if plain.waiters(l).is_empty() {
                            locks[l] = None;
                        }
                    },
                    Step::Priority(t, own) => {
                        graph.set_own(ids[t], own);
                        plain.own[t] = own;
                    }
                    Step::Lock(..) => {}
                }
                plain.settle();
                while let Some((tid, effective)) = graph.next_changed() {
                    told[tid as usize - 1] = effective;
                }
                prop_assert_eq!(told, plain.effective);
                for (t, &id) in ids.iter().enumerate() {
                    prop_assert_eq!(graph.effective(id), plain.effective[t], "task {}", t);
                    prop_assert_eq!(graph.blocked_on(id).map(|b| b.1), plain.waits_for[t].map(|_| t));
                }
            }
        }
    }

    #[test]
    fn chain_longer_than_allowed_is_refused_and_counted() {
        let (mut graph, ids) = graph(2);
        let locks: Vec<_> = ids.iter().map(|&id| graph.add_lock(id).unwrap()).collect();
        for i in 1..4 {
            assert_eq!(graph.block(ids[i], locks[i - 1], i), Ok(()), "lock {i}");
        }
        assert_eq!(graph.block(ids[4], locks[3], 4), Err(Error::Deadlock));
        assert_eq!(graph.chains_refused, 1);
    }

    #[test]
    fn chain_that_grows_at_its_end_is_limited_too() {
        let (mut graph, ids) = graph(2);
        for i in 0..3 {
            let lock = graph.add_lock(ids[i + 1]).unwrap();
            assert_eq!(graph.block(ids[i], lock, i), Ok(()), "task {i}");
        }
        let lock = graph.add_lock(ids[4]).unwrap();
        assert_eq!(graph.block(ids[3], lock, 3), Err(Error::Deadlock));
        graph.drop_if_idle(lock);
        // Whom nobody waits for any more begins anew.
        graph.unblock(ids[2]);
        let lock = graph.add_lock(ids[4]).unwrap();
        assert_eq!(graph.block(ids[3], lock, 3), Ok(()));
    }

    #[test]
    fn death_of_a_holder_gives_the_lock_to_the_first_waiter_who_puts_the_word_right() {
        let (mut graph, ids) = graph(8);
        let lock = graph.add_lock(ids[0]).unwrap();
        graph.block(ids[1], lock, 1).unwrap();
        graph.block(ids[2], lock, 2).unwrap();
        assert_eq!(graph.any_held(ids[0]), Some(lock));
        assert_eq!(graph.orphan(lock), Some((ids[1], 1)));
        assert_eq!((graph.owner(lock), graph.any_held(ids[1])), (None, Some(lock)));
        assert_eq!(graph.any_held(ids[0]), None);
        graph.adopt(lock);
        assert_eq!(graph.owner(lock), Some(ids[1]));
        assert_eq!(graph.hand_over(lock), Some(ids[2]));
        assert_eq!(graph.any_held(ids[2]), None, "nobody waits for it any more");
    }
}
