//! An operation that waits for the graph of its namespace holds no bucket's lock meanwhile. So neither another namespace
//! that uses the object, nor a plain wait of its own namespace, waits for operations on locks elsewhere.
//!
//! Promise: busy graph

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};
use std::task::Poll;

use ufutex::{
    At, Cause, Domain, DomainOptions, Error, ObjectId, PidNamespace, SharedObject, System, SystemConfig, Task,
    WaitOptions,
    pi::{Priority, WAITERS},
};

use crate::common::asleep::{futex_call, thread_id, until};
use crate::common::domains::on_domains;
use crate::common::futures::{at_once, pending, poll};
use crate::common::guest_memory::{Event, GuestMemory};
use crate::common::places::{Word, words};
use crate::common::platforms::watched;
use crate::common::waiters::waiter_on;

/// A system whose global tables have two buckets, the minimum.
pub fn system_with_two_buckets() -> System {
    System::with_config(watched(SystemConfig::new().cpus(1).global_slots(2).hash_seed(1))).expect("the memory is there")
}

/// The number of an object of one namespace. Its words are in the global table.
const OBJECT: u64 = 5;

pub fn object<T>(word: T, offset: u64) -> At<T>
where
    T: ufutex::Target,
{
    At::object(word, ObjectId::new(OBJECT).expect("small enough"), offset)
}

/// Uses all buckets of the table of an object by plain operations of `stranger`. A table has at most 16 buckets. The hash
/// seed is fixed, so the words' buckets are always the same.
fn use_the_buckets_plainly(stranger: &Domain, object: ObjectId) {
    for line in 1..129 {
        let word = AtomicU32::new(0);
        let shared = At::object(&word, object, 640 + 64 * line);
        let queued = waiter_on(stranger, shared);
        assert_eq!(stranger.wake(shared, 1), 1);
        assert!(queued.is_woken());
    }
}

/// Uses all buckets of the table of an object by operations of `stranger`, also on locks.
pub fn use_the_buckets(stranger: &Domain, object: ObjectId, tids: [u32; 2]) {
    use_the_buckets_plainly(stranger, object);
    let [owner, waiter] = tids.map(|tid| stranger.task(tid).expect("the TID is free"));
    for line in 1..129 {
        let word = AtomicU32::new(0);
        let shared = At::object(&word, object, 640 + 64 * line);
        assert_eq!(stranger.lock_pi(shared, &owner), Ok(()));
        let mut wait = pending(stranger.lock_pi_async(shared, &waiter, &WaitOptions::new()));
        assert_eq!(stranger.try_lock_pi(shared, &waiter), Err(Error::Again));
        assert_eq!(stranger.unlock_pi(shared, &owner), Ok(()));
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
        assert_eq!(stranger.unlock_pi(shared, &waiter), Ok(()));
    }
}

/// Runs `meanwhile` while an operation of `domain` on a contended lock is blocked in a load and holds the locks of its
/// bucket and of its namespace's graph.
pub fn while_one_is_stuck<R>(domain: &Domain, meanwhile: impl FnOnce() -> R) -> R {
    let [is_slow, is_inside] = [const { AtomicBool::new(false) }; 2];
    let memory = GuestMemory::with_hook(|event, _| {
        if event == Event::Load && is_slow.load(SeqCst) {
            is_inside.store(true, SeqCst);
            until("the load may end", || !is_slow.load(SeqCst));
        }
        Ok(())
    });
    let word = memory.target(0);
    let [owner, waiter] = [101, 102].map(|tid| domain.task(tid).expect("the TID is free"));
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let result = std::thread::scope(|scope| {
        is_slow.store(true, SeqCst);
        let stuck = scope.spawn(|| {
            let mut wait = pending(domain.lock_pi_async(word, &waiter, &WaitOptions::new()));
            assert_eq!(wait.as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
        });
        until("the operation is in the load", || is_inside.load(SeqCst));
        let result = meanwhile();
        assert!(!stuck.is_finished());
        is_slow.store(false, SeqCst);
        result
    });
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    result
}

/// Makes every operation that a domain has for PI locks and tasks.
pub fn use_all_operations(domain: &Domain) {
    let [word, from] = words();
    let [a, b, c] = [1, 2, 3].map(|tid| domain.task(tid).expect("the TID is free"));
    b.set_priority(Priority::realtime(7));
    assert_eq!(domain.lock_pi(word, &a), Ok(()));
    let mut wait_of_c = pending(domain.lock_pi_async(word, &c, &WaitOptions::new()));
    let mut wait_of_b = pending(domain.lock_pi_async(word, &b, &WaitOptions::new()));
    assert_eq!(a.priority(), Priority::realtime(7));
    assert_eq!(domain.unlock_pi(word, &a), Ok(()));
    assert_eq!((poll(&mut wait_of_c), poll(&mut wait_of_b)), (Poll::Pending, Poll::Ready(Ok(()))));
    let mut wait = pending(domain.wait_requeue_pi_async(from, 0, word, &a, &WaitOptions::new()));
    assert_eq!(domain.cmp_requeue_pi(from, 0, word, 0), Ok(1));
    drop(wait_of_b);
    drop(b);
    assert_eq!(poll(&mut wait_of_c), Poll::Ready(Ok(())));
    assert_eq!(domain.unlock_pi(word, &c), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    assert_eq!(domain.try_lock_pi(word, &c), Err(Error::Again));
    assert_eq!(domain.unlock_pi(word, &a), Ok(()));
}

/// Tasks of one namespace that use locks in an object.
struct World {
    here: Domain,
    /// Uses words of the object meanwhile.
    stranger: Domain,
    tasks: [Task; 3],
    words: [Word; 2],
    id: ObjectId,
    /// The object, if domains of two namespaces share it.
    object: Option<SharedObject>,
}

impl World {
    /// The stranger is a guest in another namespace, which shares the object.
    fn of_two_namespaces() -> Self {
        let system = system_with_two_buckets();
        let object = SharedObject::new(&system).expect("the memory is there");
        let stranger = PidNamespace::new(&system).expect("the memory is there");
        let [here, stranger] = [system.pid_namespace(), stranger]
            .map(|namespace| Domain::in_namespace(&namespace, DomainOptions::new().early_return(false)));
        Self::new([here, stranger], object.id(), Some(object))
    }

    /// The stranger is a domain of the same namespace.
    fn of_one_namespace() -> Self {
        let system = system_with_two_buckets();
        let domains = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
        Self::new(domains, ObjectId::new(OBJECT).expect("small enough"), None)
    }

    fn new([here, stranger]: [Domain; 2], id: ObjectId, object: Option<SharedObject>) -> Self {
        let tasks = [11, 12, 13].map(|tid| here.task(tid).expect("the TID is free"));
        Self { here, stranger, tasks, words: words(), id, object }
    }

    fn lock(&self) -> At<Word> {
        At::object(self.words[0], self.id, 0)
    }

    fn condition(&self) -> At<Word> {
        At::object(self.words[1], self.id, 64)
    }

    /// Runs `operation` of the domain `here` while another operation holds the graph of its namespace. Once `operation`
    /// waits for the graph, the stranger uses the buckets. Then the graph is unlocked.
    fn while_busy<R: Send>(&self, operation: impl FnOnce() -> R + Send) -> R {
        let thread = AtomicI32::new(0);
        std::thread::scope(|scope| {
            let running = while_one_is_stuck(&self.here, || {
                let running = scope.spawn(|| {
                    thread.store(thread_id(), SeqCst);
                    operation()
                });
                let sleeps = || thread.load(SeqCst) != 0 && futex_call(thread.load(SeqCst)).is_some();
                until("the operation waits for the graph", sleeps);
                match self.object {
                    Some(_) => use_the_buckets(&self.stranger, self.id, [1, 2]),
                    // Its locks are in the same graph.
                    None => use_the_buckets_plainly(&self.stranger, self.id),
                }
                assert!(!running.is_finished());
                running
            });
            running.join().expect("it does not panic")
        })
    }
}

fn both(check: fn(&World)) {
    [World::of_two_namespaces(), World::of_one_namespace()].iter().for_each(check);
}

fn lock_waits_with_nothing_locked() {
    both(|world| {
        let (here, [a, b, _]) = (&world.here, &world.tasks);
        assert_eq!(here.lock_pi(world.lock(), a), Ok(()));
        let mut wait = world.while_busy(|| pending(here.lock_pi_async(world.lock(), b, &WaitOptions::new())));
        assert_eq!(world.while_busy(|| here.try_lock_pi(world.lock(), b)), Err(Error::Again));
        assert_eq!(here.unlock_pi(world.lock(), a), Ok(()));
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    });
}

fn unlock_waits_with_nothing_locked() {
    both(|world| {
        let (here, [a, b, _]) = (&world.here, &world.tasks);
        assert_eq!(here.lock_pi(world.lock(), a), Ok(()));
        let mut wait = pending(here.lock_pi_async(world.lock(), b, &WaitOptions::new()));
        assert_eq!(world.while_busy(|| here.unlock_pi(world.lock(), a)), Ok(()));
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    });
}

fn waiter_is_polled_and_ends_with_nothing_locked() {
    both(|world| {
        let (here, [a, b, c]) = (&world.here, &world.tasks);
        assert_eq!(here.lock_pi(world.lock(), a), Ok(()));
        let mut wait = pending(here.lock_pi_async(world.lock(), b, &WaitOptions::new()));
        assert_eq!(world.while_busy(|| poll(&mut wait)), Poll::Pending);
        assert_eq!(world.while_busy(|| wait.as_mut().end(Cause::TimedOut)), Err(Error::TimedOut));
        let wait = pending(here.wait_requeue_pi_async(world.condition(), 0, world.lock(), c, &WaitOptions::new()));
        world.while_busy(|| drop(wait));
        assert_eq!(here.unlock_pi(world.lock(), a), Ok(()));
        assert_eq!(world.words[0].load(SeqCst), 0);
    });
}

/// The new owner of a dead owner's lock corrects the word, or passes the lock on if its wait is dropped.
fn new_owner_waits_with_nothing_locked() {
    both(|world| {
        let (here, [a, b, c]) = (&world.here, &world.tasks);
        let dead = here.task(19).expect("the TID is free");
        assert_eq!(here.lock_pi(world.lock(), &dead), Ok(()));
        let [first, mut second, mut third] =
            [a, b, c].map(|task| pending(here.lock_pi_async(world.lock(), task, &WaitOptions::new())));
        drop(dead);
        world.while_busy(|| drop(first));
        assert_eq!(world.while_busy(|| poll(&mut second)), Poll::Ready(Ok(())));
        assert_eq!(here.unlock_pi(world.lock(), b), Ok(()));
        assert_eq!(poll(&mut third), Poll::Ready(Ok(())));
    });
}

fn requeue_waits_with_nothing_locked() {
    both(|world| {
        let (here, [a, b, _]) = (&world.here, &world.tasks);
        let mut waits = [a, b].map(|task| {
            pending(here.wait_requeue_pi_async(world.condition(), 0, world.lock(), task, &WaitOptions::new()))
        });
        assert_eq!(world.while_busy(|| here.cmp_requeue_pi(world.condition(), 0, world.lock(), 9)), Ok(2));
        assert_eq!(waits.each_mut().map(poll), [Poll::Ready(Ok(())), Poll::Pending]);
        assert_eq!(world.words[0].load(SeqCst), WAITERS | a.tid());
        assert_eq!(here.unlock_pi(world.lock(), a), Ok(()));
        assert_eq!(poll(&mut waits[1]), Poll::Ready(Ok(())));
    });
}

/// A guest's thread is stuck with a bucket of the shared object locked. An operation of another guest that needs this bucket
/// and has waited for its own graph does not keep the graph.
fn graph_is_free_while_an_operation_waits_for_a_bucket() {
    let world = World::of_two_namespaces();
    let sibling = Domain::in_namespace(&world.here.pid_namespace(), DomainOptions::new());
    let (here, [a, b, _]) = (&world.here, &world.tasks);
    assert_eq!(here.lock_pi(world.lock(), a), Ok(()));
    let tid = AtomicI32::new(0);
    let [is_inside, may_go_on] = [const { AtomicBool::new(false) }; 2];
    let memory = GuestMemory::with_hook(|event, _| {
        if event == Event::Load {
            is_inside.store(true, SeqCst);
            until("the load may end", || may_go_on.load(SeqCst));
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        let (tries, stuck) = while_one_is_stuck(here, || {
            let tries = scope.spawn(|| {
                tid.store(thread_id(), SeqCst);
                here.try_lock_pi(world.lock(), b)
            });
            let sleeps = || tid.load(SeqCst) != 0 && futex_call(tid.load(SeqCst)).is_some();
            until("the operation waits for the graph", sleeps);
            let stuck = scope.spawn(|| {
                let word = At::object(memory.target(0), world.id, 0);
                at_once(world.stranger.wait_async(word, 1, &WaitOptions::new()))
            });
            until("the other guest has the bucket", || is_inside.load(SeqCst));
            (tries, stuck)
        });
        until("the operation waits for the bucket", || futex_call(tid.load(SeqCst)).is_some());
        let uses = scope.spawn(|| use_all_operations(&sibling));
        until("the graph is free", || uses.is_finished());
        assert!(!tries.is_finished() && !stuck.is_finished());
        may_go_on.store(true, SeqCst);
        assert_eq!(stuck.join().expect("it does not panic"), Err(Error::Again));
        assert_eq!(tries.join().expect("it does not panic"), Err(Error::Again));
    });
    assert_eq!(here.unlock_pi(world.lock(), a), Ok(()));
}

on_domains![
    lock_waits_with_nothing_locked,
    unlock_waits_with_nothing_locked,
    waiter_is_polled_and_ends_with_nothing_locked,
    new_owner_waits_with_nothing_locked,
    requeue_waits_with_nothing_locked,
    graph_is_free_while_an_operation_waits_for_a_bucket,
];
