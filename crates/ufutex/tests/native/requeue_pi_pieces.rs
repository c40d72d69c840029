//! Requeues to a PI lock in the global table with more waiters than one piece. Between two pieces all locks are
//! released, so other operations run.
//!
//! Promise: short holds

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;

use ufutex::{
    Access, At, Cause, Domain, DomainOptions, Error, Fault, Key, ObjectId, System, Target, Task, WaitOptions,
    pi::{LockPi, Priority, WAITERS, WaitRequeuePi},
};

use crate::busy_graph::{object, system_with_two_buckets, use_the_buckets};
use crate::common::domains::on_domains;
use crate::common::futures::{Boxed, pending, poll};
use crate::common::places::{Word, words};

const PIECE: usize = 256;

/// A condition's word that holds 0. Its second load faults, and the fault handler runs a test's function with no lock
/// held. After `last_load` loads it holds another value or cannot be read.
struct Interrupted<'a> {
    loads: Cell<usize>,
    last_load: usize,
    then: Result<u32, Fault>,
    on_fault: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl<'a> Interrupted<'a> {
    fn new(last_load: usize, on_fault: impl FnOnce() + 'a) -> Self {
        Self { loads: Cell::new(0), last_load, then: Ok(1), on_fault: RefCell::new(Some(Box::new(on_fault))) }
    }

    /// A word that cannot be read after `last_load` loads.
    fn lost_after(last_load: usize) -> Self {
        Self { loads: Cell::new(0), last_load, then: Err(Fault), on_fault: RefCell::new(None) }
    }
}

impl Key for &Interrupted<'_> {
    fn address(&self) -> u64 {
        0
    }
}

impl Target for &Interrupted<'_> {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        let loads = self.loads.get() + 1;
        if loads == 2 && self.on_fault.borrow().is_some() {
            return Err(Fault);
        }
        self.loads.set(loads);
        if loads > self.last_load { self.then } else { Ok(0) }
    }
    fn fault_in(&self, _access: Access) -> Result<(), Fault> {
        let on_fault = self.on_fault.borrow_mut().take();
        self.then?;
        on_fault.expect("it faults once")();
        Ok(())
    }
}

type Wait<'d, 't> = Boxed<WaitRequeuePi<'d, 't, At<Word>, At<Word>>>;

struct World {
    system: System,
    domain: Domain,
    lock: At<Word>,
    condition: At<Word>,
    word: Word,
}

impl World {
    fn new() -> Self {
        let system = system_with_two_buckets();
        let [word, condition] = words();
        let domain = Domain::with_options(&system, DomainOptions::new());
        Self { domain, system, lock: object(word, 0), condition: object(condition, 64), word }
    }

    fn tasks(&self, first: u32, count: usize) -> Vec<Task> {
        (first..).take(count).map(|tid| self.domain.task(tid).expect("the TID is free")).collect()
    }

    fn wait<'a>(&'a self, task: &'a Task) -> Wait<'a, 'a> {
        pending(self.domain.wait_requeue_pi_async(self.condition, 0, self.lock, task, &WaitOptions::new()))
    }

    fn requeue(&self, from: &Interrupted<'_>) -> Result<usize, Error> {
        self.domain.cmp_requeue_pi(object(from, 64), 0, self.lock, usize::MAX)
    }

    /// The number of waiters for the word at this offset.
    fn waiting_at(&self, offset: u64) -> usize {
        let words = self.system.who_waits(1000);
        words.iter().filter(|word| word.address == offset).map(ufutex::observe::WaitedWord::waiters).sum()
    }
}

/// Ends the wait. Returns whether it had been requeued.
fn has_been_moved(wait: &mut Wait<'_, '_>) -> bool {
    match wait.as_mut().end(Cause::Interrupted) {
        Err(Error::Again) => true,
        result => {
            assert_eq!(result, Err(Error::Interrupted));
            false
        }
    }
}

/// Between the first two pieces of a requeue of some thousand waiters, another domain uses the bucket, and new waiters
/// of every priority are queued, ahead of most others.
fn other_operations_run_between_pieces() {
    const CROWD: usize = 3000;
    let world = World::new();
    let stranger = Domain::with_options(&world.system, DomainOptions::new());
    let (tasks, late) = (world.tasks(10, CROWD), world.tasks(9000, 197));
    let owner = world.domain.task(1).expect("the TID is free");
    assert_eq!(world.domain.lock_pi(world.lock, &owner), Ok(()));
    for (i, task) in tasks.iter().enumerate() {
        task.set_priority(Priority::realtime((i % 5 * 20) as u8));
    }
    let mut waits: Vec<_> = tasks.iter().map(|task| world.wait(task)).collect();
    let mut late_waits = Vec::new();
    let from = Interrupted::new(usize::MAX, || {
        assert_eq!((world.waiting_at(0), world.waiting_at(64)), (PIECE, CROWD - PIECE));
        use_the_buckets(&stranger, ObjectId::new(5).expect("small enough"), [2, 3]);
        for (i, task) in late.iter().enumerate() {
            task.set_priority(Priority::realtime((i / 2) as u8 + 1));
            late_waits.push(world.wait(task));
        }
    });
    assert_eq!(world.requeue(&from), Ok(CROWD));
    assert_eq!(from.loads.get(), CROWD.div_ceil(PIECE), "compared at each piece");
    assert!(from.on_fault.borrow().is_none(), "there is a second piece");
    drop(from);
    assert_eq!((world.waiting_at(0), world.waiting_at(64)), (CROWD, late.len()));
    assert!(waits.iter_mut().all(has_been_moved));
    assert!(!late_waits.iter_mut().any(has_been_moved));
    assert_eq!((world.domain.unlock_pi(world.lock, &owner), world.word.load(Relaxed)), (Ok(()), 0));
}

/// From the third piece on the word holds another value.
fn requeue_ends_where_the_word_differs() {
    requeue_ends(|last_load| Interrupted::new(last_load, || ()), Error::Again);
}

/// From the third piece on the word cannot be read.
fn requeue_ends_where_the_word_cannot_be_read() {
    requeue_ends(Interrupted::lost_after, Error::Fault);
}

/// A load ends the requeue. In the first piece the result is `error`, in later pieces the number of requeued waiters.
fn requeue_ends(after: impl Fn(usize) -> Interrupted<'static>, error: Error) {
    let world = World::new();
    let tasks = world.tasks(10, 1000);
    let mut waits: Vec<_> = tasks.iter().map(|task| world.wait(task)).collect();
    assert_eq!(world.requeue(&after(2)), Ok(2 * PIECE));
    assert_eq!((world.waiting_at(0), world.waiting_at(64)), (2 * PIECE - 1, 1000 - 2 * PIECE));
    assert_eq!(world.requeue(&after(0)), Err(error));
    assert_eq!(poll(&mut waits[0]), Poll::Ready(Ok(())));
    assert!(waits[1..2 * PIECE].iter_mut().all(has_been_moved));
    assert!(!waits[2 * PIECE..].iter_mut().any(has_been_moved));
    assert_eq!((world.domain.unlock_pi(world.lock, &tasks[0]), world.word.load(Relaxed)), (Ok(()), 0));
}

/// After the first piece all requeued waiters time out and the lock's owner unlocks it. The first waiter of the second
/// piece gets the lock.
fn lock_that_becomes_free_between_pieces_goes_to_the_next_waiter() {
    const CROWD: usize = 600;
    let world = World::new();
    let tasks = world.tasks(10, CROWD);
    let mut waits: Vec<_> = tasks.iter().map(|task| world.wait(task)).collect();
    let mut others = waits.split_off(PIECE);
    let from = Interrupted::new(usize::MAX, || {
        assert_eq!(poll(&mut waits[0]), Poll::Ready(Ok(())));
        assert!(waits[1..].iter_mut().all(has_been_moved));
        assert_eq!((world.domain.unlock_pi(world.lock, &tasks[0]), world.word.load(Relaxed)), (Ok(()), 0));
    });
    assert_eq!(world.requeue(&from), Ok(CROWD));
    assert_eq!(world.word.load(Relaxed), WAITERS | tasks[PIECE].tid());
    assert_eq!(world.waiting_at(0), CROWD - PIECE - 1);
    for (i, task) in tasks[PIECE..].iter().enumerate() {
        assert_eq!(poll(&mut others[i]), Poll::Ready(Ok(())));
        assert_eq!(world.domain.unlock_pi(world.lock, task), Ok(()));
    }
    assert_eq!(world.word.load(Relaxed), 0);
}

/// After the first piece all remaining waiters time out, and a waiter for the condition's word as a PI lock is queued.
/// It came after the call had begun, so the requeue does not fail because of it.
fn pi_waiter_queued_between_pieces_is_skipped() {
    let world = World::new();
    let (tasks, [owner, late]) = (world.tasks(10, 600), [1, 2].map(|tid| world.domain.task(tid).expect("it is free")));
    let mut waits: Vec<_> = tasks.iter().map(|task| world.wait(task)).collect();
    let mut left = waits.split_off(PIECE);
    let mut late_wait = None;
    let from = Interrupted::new(usize::MAX, || {
        assert!(!left.iter_mut().any(has_been_moved));
        assert_eq!(world.domain.lock_pi(world.condition, &owner), Ok(()));
        late_wait = Some(pending(world.domain.lock_pi_async(world.condition, &late, &WaitOptions::new())));
    });
    assert_eq!(world.requeue(&from), Ok(PIECE));
    drop(from);
    assert_eq!(world.domain.unlock_pi(world.condition, &owner), Ok(()));
    assert_eq!(late_wait.as_mut().map(poll), Some(Poll::Ready(Ok(()))));
}

/// Between two pieces the lock's word is set to a TID that does not exist. The waiters that have been requeued stay
/// requeued.
fn error_in_a_later_piece_keeps_earlier_waiters_requeued() {
    let world = World::new();
    let tasks = world.tasks(10, 600);
    let mut waits: Vec<_> = tasks.iter().map(|task| world.wait(task)).collect();
    let from = Interrupted::new(usize::MAX, || world.word.store(7, Relaxed));
    assert_eq!(world.requeue(&from), Err(Error::Invalid));
    world.word.store(WAITERS | tasks[0].tid(), Relaxed);
    assert_eq!((world.waiting_at(0), world.waiting_at(64)), (PIECE - 1, 600 - PIECE));
    assert_eq!(poll(&mut waits[0]), Poll::Ready(Ok(())));
    assert_eq!(world.domain.unlock_pi(world.lock, &tasks[0]), Ok(()));
    assert_eq!(poll(&mut waits[1]), Poll::Ready(Ok(())));
}

/// Each task waits for a lock of the next one's.
fn wait_for_one_another<'a>(domain: &'a Domain, tasks: &'a [Task]) -> Vec<Boxed<LockPi<'a, 'a, Word>>> {
    let waits = tasks.windows(2).map(|pair| {
        let [lock] = words();
        assert_eq!(domain.lock_pi(lock, &pair[1]), Ok(()));
        pending(domain.lock_pi_async(lock, &pair[0], &WaitOptions::new()))
    });
    waits.collect()
}

/// The lock's owner is the first of a long chain, and each waiter that is requeued has a higher priority than the one
/// before, so that the whole chain is visited for each. Pieces end after a thousand visits or so. In the domain's own
/// table, where nobody else needs the bucket, the requeue is one step.
fn piece_ends_after_a_thousand_visits() {
    const CHAIN: usize = 700;
    const WAITERS: usize = 90;
    let world = World::new();
    let domain = &world.domain;
    let (chain, tasks) = (world.tasks(10, CHAIN + 1), world.tasks(2000, 2 * WAITERS));
    let [condition, lock] = words();
    assert_eq!(domain.lock_pi(world.lock, &chain[0]), Ok(()));
    assert_eq!(domain.lock_pi(lock, &chain[0]), Ok(()));
    let _chained = wait_for_one_another(domain, &chain);
    let (global, private) = tasks.split_at(WAITERS);
    let _waits: Vec<_> = global.iter().map(|task| world.wait(task)).collect();
    let _private_waits: Vec<_> = private
        .iter()
        .map(|task| pending(domain.wait_requeue_pi_async(condition, 0, lock, task, &WaitOptions::new())))
        .collect();
    for (i, task) in tasks.iter().enumerate() {
        task.set_priority(Priority::realtime((i % WAITERS + 1) as u8));
    }
    let from = Interrupted::lost_after(usize::MAX);
    assert_eq!(world.requeue(&from), Ok(WAITERS));
    let pieces = from.loads.get();
    assert!((CHAIN * WAITERS / 2000..=WAITERS).contains(&pieces), "{pieces} pieces");
    assert_eq!(chain[CHAIN].priority(), Priority::realtime(WAITERS as u8));

    let loads = AtomicU32::new(0);
    let from = Counted { word: condition, loads: &loads };
    assert_eq!(domain.cmp_requeue_pi(&from, 0, lock, usize::MAX), Ok(WAITERS));
    assert_eq!(loads.load(Relaxed), 1);
}

/// Behind each waiter that is requeued stands a longer chain than behind the one before. So the search for a deadlock
/// visits the whole chain before the lock's owner, and then all of its heights are raised: more than a thousand visits
/// for each waiter.
fn piece_ends_after_a_search_for_a_deadlock() {
    const CHAIN: usize = 700;
    const WAITERS: usize = 20;
    let world = World::new();
    let chain = world.tasks(10, CHAIN + 1);
    assert_eq!(world.domain.lock_pi(world.lock, &chain[0]), Ok(()));
    let _chained = wait_for_one_another(&world.domain, &chain);
    let tasks: Vec<_> = (0..WAITERS).map(|i| world.tasks(2000 + 100 * i as u32, i + 1)).collect();
    let _behind: Vec<_> = tasks.iter().map(|chain| wait_for_one_another(&world.domain, chain)).collect();
    let _waits: Vec<_> = tasks.iter().map(|chain| world.wait(&chain[chain.len() - 1])).collect();
    let from = Interrupted::lost_after(usize::MAX);
    assert_eq!(world.requeue(&from), Ok(WAITERS));
    assert_eq!(from.loads.get(), WAITERS, "pieces");
}

/// In a domain's own table the requeue is one step, which compares the word once.
fn private_requeue_is_one_step() {
    let world = World::new();
    let tasks = world.tasks(10, 1000);
    let [condition, lock] = words();
    let (loads, domain) = (AtomicU32::new(0), &world.domain);
    let _waits: Vec<_> = tasks
        .iter()
        .map(|task| pending(domain.wait_requeue_pi_async(condition, 0, lock, task, &WaitOptions::new())))
        .collect();
    let from = Counted { word: condition, loads: &loads };
    assert_eq!(domain.cmp_requeue_pi(&from, 0, lock, usize::MAX), Ok(1000));
    assert_eq!(loads.load(Relaxed), 1);
}

struct Counted<'a> {
    word: Word,
    loads: &'a AtomicU32,
}

impl Key for &Counted<'_> {
    fn address(&self) -> u64 {
        self.word.address()
    }
}

impl Target for &Counted<'_> {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        self.loads.fetch_add(1, Relaxed);
        Ok(self.word.load(Relaxed))
    }
}

on_domains![
    other_operations_run_between_pieces,
    requeue_ends_where_the_word_differs,
    requeue_ends_where_the_word_cannot_be_read,
    lock_that_becomes_free_between_pieces_goes_to_the_next_waiter,
    pi_waiter_queued_between_pieces_is_skipped,
    error_in_a_later_piece_keeps_earlier_waiters_requeued,
    piece_ends_after_a_thousand_visits,
    piece_ends_after_a_search_for_a_deadlock,
    private_requeue_is_one_step,
];
