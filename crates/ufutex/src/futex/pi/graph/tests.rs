//! Random steps on the graph, compared with the simplest implementation that does the same.
//!
//! Promise: short chains

use super::*;
use crate::sync::Ordering;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use proptest::prelude::*;

const TASKS: usize = 6;
const LOCKS: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    Lock(usize, usize),
    Unlock(usize),
    /// The holder dies, or an heir gives up before it has written the word.
    Die(usize),
    Adopt(usize),
    GiveUp(usize),
    Priority(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..TASKS, 0..LOCKS).prop_map(|(t, l)| Step::Lock(t, l)),
        3 => (0..LOCKS).prop_map(Step::Unlock),
        1 => (0..LOCKS).prop_map(Step::Die),
        2 => (0..LOCKS).prop_map(Step::Adopt),
        2 => (0..TASKS).prop_map(Step::GiveUp),
        2 => (0..TASKS, 95..=NORMAL).prop_map(|(t, p)| Step::Priority(t, p)),
    ]
}

/// The simplest implementation of the graph. Waiters are kept in the order in which they got their present priority.
#[derive(Default)]
struct Plain {
    holder: [Option<usize>; LOCKS],
    is_orphan: [bool; LOCKS],
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
                let boosts = held.flat_map(|l| self.waiters(l)).map(|w| self.effective[w]).min();
                let effective = self.own[task].min(boosts.unwrap_or(NORMAL));
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

    /// The number of waits in the chain that begins with a wait of `task`.
    fn waits_from(&self, task: usize) -> usize {
        let next = self.waits_for[task].and_then(|lock| self.holder[lock]);
        next.map_or(0, |holder| 1 + self.waits_from(holder))
    }

    fn longest_chain(&self) -> usize {
        (0..TASKS).map(|task| self.waits_from(task)).max().unwrap_or(0)
    }

    /// Whether a chain would be longer than allowed if `task` waited for `lock`.
    fn is_too_long(&mut self, task: usize, lock: usize, max_depth: usize) -> bool {
        self.waits_for[task] = Some(lock);
        let longest = self.longest_chain();
        self.waits_for[task] = None;
        longest > max_depth + 1
    }
}

/// A graph and its tasks, whose TIDs are their indices and one.
fn graph(max_depth: usize) -> (Graph, Vec<TaskId>) {
    let refused = Counted::new(|_| AtomicU64::new(0)).unwrap();
    let mut graph = Graph::new(max_depth, refused);
    let tasks = (1..=TASKS as u32).map(|tid| graph.register(tid).unwrap()).collect();
    (graph, tasks)
}

/// The entry of the task with this index, which the graph never reads.
fn entry(t: usize) -> EntryRef {
    EntryRef(NonNull::without_provenance(NonZeroUsize::MIN.saturating_add(t)))
}

fn refused(graph: &Graph) -> u64 {
    graph.chains_refused.load(Ordering::Relaxed)
}

/// The graph, the simple implementation, the graph's IDs by the simple one's indices, and the priorities reported so far.
struct Both {
    max_depth: usize,
    graph: Graph,
    ids: Vec<TaskId>,
    locks: [Option<LockId>; LOCKS],
    plain: Plain,
    reported: [u8; TASKS],
}

impl Both {
    fn new(max_depth: usize) -> Self {
        let (graph, ids) = graph(max_depth);
        let plain = Plain { own: [NORMAL; TASKS], effective: [NORMAL; TASKS], ..Plain::default() };
        Self { max_depth, graph, ids, locks: [None; LOCKS], plain, reported: [NORMAL; TASKS] }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Lock(t, l) if self.plain.waits_for[t].is_none() => match self.plain.holder[l] {
                None => self.plain.holder[l] = Some(t),
                Some(holder) => self.wait(t, l, holder)?,
            },
            Step::Unlock(l) => {
                if let Some(holder) = self.plain.holder[l]
                    && self.plain.waits_for[holder].is_none()
                    && !self.plain.is_orphan[l]
                {
                    let heir = self.plain.waiters(l).first().copied();
                    let got = self.locks[l].and_then(|lock| self.graph.hand_over(lock));
                    prop_assert_eq!(got, heir.map(|h| self.ids[h]));
                    self.pass(l, heir);
                }
            }
            Step::Die(l) => {
                if let Some(lock) = self.locks[l] {
                    let heir = self.plain.waiters(l).first().copied();
                    prop_assert!(self.graph.orphan(lock) == heir.map(|h| (self.ids[h], entry(h))));
                    self.plain.is_orphan[l] = heir.is_some();
                    self.pass(l, heir);
                }
            }
            Step::Adopt(l) => {
                if core::mem::take(&mut self.plain.is_orphan[l]) {
                    self.graph.adopt(self.locks[l].unwrap());
                }
            }
            Step::GiveUp(t) => {
                if self.plain.waits_for[t].take().is_some() {
                    self.graph.unblock(self.ids[t]);
                }
            }
            Step::Priority(t, own) => {
                self.graph.set_own(self.ids[t], own);
                self.plain.own[t] = own;
            }
            Step::Lock(..) => {}
        }
        for l in 0..LOCKS {
            if self.plain.waiters(l).is_empty() && !self.plain.is_orphan[l] {
                self.locks[l] = None;
            }
        }
        self.plain.settle();
        self.compare()
    }

    fn wait(&mut self, t: usize, l: usize, holder: usize) -> Result<(), TestCaseError> {
        let lock = self.locks[l].unwrap_or_else(|| self.graph.add_lock(self.ids[holder]).unwrap());
        let before = refused(&self.graph);
        let result = self.graph.block(self.ids[t], lock, entry(t));
        self.graph.drop_if_idle(lock);
        let is_circle = self.plain.is_deadlock(t, l);
        let is_too_long = !is_circle && self.plain.is_too_long(t, l, self.max_depth);
        prop_assert_eq!(refused(&self.graph) - before, u64::from(is_too_long));
        if is_circle || is_too_long {
            prop_assert_eq!(result, Err(Error::Deadlock));
            return Ok(());
        }
        prop_assert_eq!(result, Ok(()));
        self.locks[l] = Some(lock);
        self.plain.now += 1;
        self.plain.since[t] = self.plain.now;
        self.plain.waits_for[t] = Some(l);
        Ok(())
    }

    fn pass(&mut self, l: usize, heir: Option<usize>) {
        self.plain.holder[l] = heir;
        if let Some(heir) = heir {
            self.plain.waits_for[heir] = None;
        }
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        prop_assert!(self.plain.longest_chain() <= self.max_depth + 1);
        while let Some((tid, effective)) = self.graph.next_changed() {
            self.reported[tid as usize - 1] = effective;
        }
        prop_assert_eq!(self.reported, self.plain.effective);
        for (t, &id) in self.ids.iter().enumerate() {
            prop_assert_eq!(self.graph.effective(id), self.plain.effective[t], "task {}", t);
            let entry_there = self.graph.tasks[id].blocked.map(|(_, entry)| entry);
            prop_assert!(entry_there == self.plain.waits_for[t].map(|_| entry(t)));
        }
        for l in 0..LOCKS {
            if let Some(lock) = self.locks[l] {
                let owner = self.plain.holder[l].filter(|_| !self.plain.is_orphan[l]);
                prop_assert_eq!(self.graph.owner(lock), owner.map(|t| self.ids[t]));
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn graph_does_as_the_plainest_way_does(
        max_depth in prop_oneof![0..4usize, Just(1024)],
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut both = Both::new(max_depth);
        for step in steps {
            both.step(&step)?;
        }
    }
}

#[test]
fn chain_longer_than_allowed_is_refused_and_counted() {
    let (mut graph, ids) = graph(2);
    let locks: Vec<_> = ids.iter().map(|&id| graph.add_lock(id).unwrap()).collect();
    for i in 1..4 {
        assert_eq!(graph.block(ids[i], locks[i - 1], entry(i)), Ok(()), "lock {i}");
    }
    assert_eq!(graph.block(ids[4], locks[3], entry(4)), Err(Error::Deadlock));
    assert_eq!(refused(&graph), 1);
}

#[test]
fn chain_that_grows_at_its_end_is_limited_too() {
    let (mut graph, ids) = graph(2);
    for i in 0..3 {
        let lock = graph.add_lock(ids[i + 1]).unwrap();
        assert_eq!(graph.block(ids[i], lock, entry(i)), Ok(()), "task {i}");
    }
    let lock = graph.add_lock(ids[4]).unwrap();
    assert_eq!(graph.block(ids[3], lock, entry(3)), Err(Error::Deadlock));
    graph.drop_if_idle(lock);
    // A task for which no task waits any more has height 0 again.
    graph.unblock(ids[2]);
    let lock = graph.add_lock(ids[4]).unwrap();
    assert_eq!(graph.block(ids[3], lock, entry(3)), Ok(()));
}

#[test]
fn heir_inherits_how_long_the_chains_of_the_waiters_are() {
    let (mut graph, ids) = graph(1);
    let [first, second, third] = [0, 3, 4].map(|i| graph.add_lock(ids[i]).unwrap());
    graph.block(ids[1], first, entry(1)).unwrap();
    graph.block(ids[2], first, entry(2)).unwrap();
    assert_eq!(graph.hand_over(first), Some(ids[1]));
    assert_eq!(graph.block(ids[1], second, entry(1)), Ok(()));
    assert_eq!(graph.block(ids[3], third, entry(3)), Err(Error::Deadlock), "three waits, one after the other");
    // If only tasks of height 0 wait for a lock, it is low again, although it has had a waiter all the time.
    graph.unblock(ids[1]);
    assert_eq!(graph.block(ids[0], first, entry(0)), Ok(()));
    graph.unblock(ids[2]);
    let second = graph.add_lock(ids[3]).unwrap();
    assert_eq!(graph.block(ids[1], second, entry(1)), Ok(()));
}

#[test]
fn death_of_a_holder_gives_the_lock_to_the_first_waiter_who_puts_the_word_right() {
    let (mut graph, ids) = graph(8);
    let lock = graph.add_lock(ids[0]).unwrap();
    graph.block(ids[1], lock, entry(1)).unwrap();
    graph.block(ids[2], lock, entry(2)).unwrap();
    assert_eq!(graph.any_held(ids[0]), Some(lock));
    assert!(graph.orphan(lock) == Some((ids[1], entry(1))));
    assert_eq!((graph.owner(lock), graph.any_held(ids[1])), (None, Some(lock)));
    assert_eq!(graph.any_held(ids[0]), None);
    graph.adopt(lock);
    assert_eq!(graph.owner(lock), Some(ids[1]));
    assert_eq!(graph.hand_over(lock), Some(ids[2]));
    assert_eq!(graph.any_held(ids[2]), None, "nobody waits for it any more");
}

#[test]
fn task_that_goes_is_not_reported_wherever_it_is_among_those_that_changed() {
    for gone in 0..3 {
        let (mut graph, ids) = graph(8);
        ids[..3].iter().for_each(|&id| graph.note_change(id));
        graph.unregister(ids[gone]);
        let reported: Vec<u32> = std::iter::from_fn(|| graph.next_changed()).take(9).map(|(tid, _)| tid).collect();
        assert_eq!(reported, [1, 2, 3].into_iter().filter(|&tid| tid != gone as u32 + 1).collect::<Vec<_>>());
    }
    // The only one that has changed.
    let (mut graph, ids) = graph(8);
    graph.note_change(ids[4]);
    graph.unregister(ids[4]);
    assert_eq!(graph.next_changed(), None);
    graph.note_change(ids[5]);
    assert_eq!(graph.next_changed(), Some((6, NORMAL)));
}

#[test]
fn last_task_takes_the_memory_along() {
    let (mut graph, ids) = graph(8);
    let lock = graph.add_lock(ids[0]).unwrap();
    graph.block(ids[1], lock, entry(1)).unwrap();
    graph.unblock(ids[1]);
    for &id in &ids {
        assert!(!graph.tasks.chunks.is_empty() && !graph.locks.chunks.is_empty());
        graph.unregister(id);
    }
    assert!(graph.tasks.chunks.is_empty() && graph.locks.chunks.is_empty());
}
