//! Isolation between guests in different PID namespaces. No word that one guest writes may affect tasks, priorities or
//! locks of another guest.
//!
//! Promise: PID namespaces

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use ufutex::{
    At, Domain, DomainOptions, Error, ObjectId, PidNamespace, SharedObject, System, SystemConfig, Task, WaitOptions,
    pi::{LockPi, OWNER_DIED, Priority, Scheduler, TID_MASK, WAITERS},
    syscall::Number,
};

use crate::busy_graph::{use_all_operations, while_one_is_stuck};
use crate::common::domains::{on_domains, system};
use crate::common::futures::{Boxed, at_once, pending, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{Word, lasting_task, words};

/// The limit on the length of chains in these systems.
const MAX_DEPTH: usize = 8;
/// The TID of the victim's task.
const VICTIM: u32 = 1;

fn namespace(system: &System) -> PidNamespace {
    PidNamespace::new(system).expect("the memory is there")
}

fn domain(namespace: &PidNamespace) -> Domain {
    Domain::in_namespace(namespace, DomainOptions::new())
}

/// Two domains of one system, each in a namespace of its own.
fn guests() -> [Domain; 2] {
    let system =
        System::with_config(SystemConfig::new().max_pi_depth(MAX_DEPTH).hash_seed(1)).expect("these are valid");
    let object = SharedObject::new(&system).expect("the memory is there");
    assert_eq!(object.id().get(), OBJECT);
    [(); 2].map(|()| domain(&namespace(&system)))
}

fn task(domain: &Domain, tid: u32) -> Task {
    domain.task(tid).expect("the TID is free")
}

/// The number of the first shared object of each system. Its words can be used after its drop.
const OBJECT: u64 = 1 << 61;

/// A word of an object that every domain may map.
fn object(word: Word, offset: u64) -> At<Word> {
    At::object(word, ObjectId::new(OBJECT).expect("small enough"), offset)
}

type Waits<'d> = Vec<Boxed<LockPi<'d, 'd, At<Word>>>>;

/// Makes a chain of the maximum length of waits by tasks with real-time priority 99. It ends at a word that holds
/// `tid`. Returns the result of the first wait, and the waits that are pending.
fn chain_to<'d>(
    domain: &'d Domain,
    tasks: &'d [Task; MAX_DEPTH + 1],
    tid: u32,
) -> (Poll<Result<(), Error>>, Waits<'d>) {
    let locks: [Word; MAX_DEPTH + 1] = words();
    locks[0].store(tid, Relaxed);
    let (mut first, mut waits) = (Poll::Pending, Vec::new());
    for (i, task) in tasks.iter().enumerate() {
        task.set_priority(Priority::realtime(99));
        // Each task owns the lock for which the next one waits.
        if let Some(next) = locks.get(i + 1) {
            assert_eq!(domain.lock_pi(object(next, 64 * i as u64 + 64), task), Ok(()));
        }
        let mut wait = Box::pin(domain.lock_pi_async(object(locks[i], 64 * i as u64), task, &WaitOptions::new()));
        match poll(&mut wait) {
            Poll::Pending => waits.push(wait),
            Poll::Ready(result) => {
                assert_eq!(i, 0, "the rest of the chain is the attacker's own: {result:?}");
                first = Poll::Ready(result);
            }
        }
    }
    (first, waits)
}

fn attackers(domain: &Domain) -> [Task; MAX_DEPTH + 1] {
    let mut tid = 1000;
    [(); MAX_DEPTH + 1].map(|()| {
        tid += 1;
        task(domain, tid)
    })
}

/// The result when `victim` waits for a lock of its own domain.
fn waits_for_a_lock_of_its_own(domain: &Domain, victim: &Task) -> Result<(), Error> {
    let ([word], owner) = (words(), task(domain, 77));
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let mut wait = Box::pin(domain.lock_pi_async(word, victim, &WaitOptions::new()));
    if let Poll::Ready(result) = poll(&mut wait) {
        return result;
    }
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    domain.unlock_pi(word, victim)
}

/// Within one namespace, a word that holds a TID affects the task of another domain. The other tests show that this
/// attack does not work across namespaces.
fn one_namespace_does_not_isolate() {
    let [attacker, _] = guests();
    let victims: Domain = domain(&attacker.pid_namespace());
    let (victim, tasks) = (task(&victims, VICTIM), attackers(&attacker));
    let (first, waits) = chain_to(&attacker, &tasks, VICTIM);
    assert_eq!((first, waits.len()), (Poll::Pending, MAX_DEPTH + 1));
    assert_eq!(victim.priority(), Priority::realtime(99));
    assert_eq!(waits_for_a_lock_of_its_own(&victims, &victim), Err(Error::Deadlock));
}

fn chain_to_a_tid_of_another_namespace_does_not_reach_it() {
    for has_the_tid_too in [false, true] {
        let [attacker, victims] = guests();
        let (victim, tasks) = (task(&victims, VICTIM), attackers(&attacker));
        let namesake = has_the_tid_too.then(|| task(&attacker, VICTIM));
        let (first, waits) = chain_to(&attacker, &tasks, VICTIM);
        match &namesake {
            None => assert_eq!((first, waits.len()), (Poll::Ready(Err(Error::NoTask)), MAX_DEPTH)),
            Some(namesake) => {
                assert_eq!((first, waits.len()), (Poll::Pending, MAX_DEPTH + 1));
                assert_eq!(namesake.priority(), Priority::realtime(99));
                assert_eq!(waits_for_a_lock_of_its_own(&attacker, namesake), Err(Error::Deadlock));
            }
        }
        assert_eq!(victim.priority(), Priority::NORMAL);
        assert_eq!(waits_for_a_lock_of_its_own(&victims, &victim), Ok(()));
    }
}

/// An operation of the attacker blocks while it holds its graph. The victim is in another one.
fn victim_is_not_blocked_by_a_stuck_attacker() {
    for has_the_tid_too in [false, true] {
        let [attacker, victims] = guests();
        let (victim, tasks) = (task(&victims, 51), attackers(&attacker));
        let _namesake = has_the_tid_too.then(|| task(&attacker, 51));
        let (_, waits) = chain_to(&attacker, &tasks, 51);
        assert_eq!(waits.len(), MAX_DEPTH + usize::from(has_the_tid_too));
        while_one_is_stuck(&attacker, || {
            use_all_operations(&victims);
            assert_eq!(waits_for_a_lock_of_its_own(&victims, &victim), Ok(()));
            drop(task(&victims, 52));
        });
    }
}

fn tids_are_unique_within_a_namespace_only() {
    let system = system();
    let [one, other] = [(); 2].map(|()| namespace(&system));
    let of_system: Domain = Domain::with_options(&system, DomainOptions::new());
    let [parent, child]: [Domain; 2] = [domain(&one), domain(&one)];
    let stranger: Domain = domain(&other);
    let numbers = [&of_system, &parent, &child, &stranger].map(|domain| domain.pid_namespace().number());
    assert_eq!(numbers, [0, one.number(), one.number(), other.number()]);
    assert_ne!(one.number(), other.number());
    // The namespace handles may be dropped.
    drop((one, other));
    let [a, b, c] = [&of_system, &parent, &stranger].map(|domain| task(domain, VICTIM));
    for domain in [&of_system, &parent, &stranger, &child] {
        assert_eq!(domain.task(VICTIM).err(), Some(Error::Busy));
    }
    // The exit of a task frees its TID in its own namespace only.
    drop(b);
    let b = task(&child, VICTIM);
    assert_eq!(parent.task(VICTIM).err(), Some(Error::Busy));
    assert_eq!([&of_system, &stranger].map(|domain| domain.task(VICTIM).err()), [Some(Error::Busy); 2]);
    assert_eq!(child.exit(&b, &GuestMemory::new()), Ok(()));
    drop(task(&parent, VICTIM));
    assert_eq!(stranger.task(VICTIM).err(), Some(Error::Busy));
    drop((a, c));
    drop([&of_system, &stranger].map(|domain| task(domain, VICTIM)));
}

/// All waiters of a shared word belong to one namespace. Operations of the other namespace on the word return EINVAL,
/// after the checks for EDEADLK and EPERM, as in Linux.
fn operations_on_a_lock_of_another_namespace_change_nothing() {
    let [here, there] = guests();
    let [owner, heir, last] = [1, 2, 3].map(|tid| task(&here, tid));
    let [namesake, stranger] = [1, 5].map(|tid| task(&there, tid));
    stranger.set_priority(Priority::realtime(50));
    let [word, from] = words();
    let (lock, condition) = (object(word, 64), object(from, 0));
    assert_eq!(here.lock_pi(lock, &owner), Ok(()));
    let mut heirs = pending(here.lock_pi_async(lock, &heir, &WaitOptions::new()));
    let mut lasts = pending(here.lock_pi_async(lock, &last, &WaitOptions::new()));
    let strangers = pending(there.wait_requeue_pi_async(condition, 0, lock, &stranger, &WaitOptions::new()));
    while_one_is_stuck(&here, || {
        assert_eq!(at_once(there.lock_pi_async(lock, &stranger, &WaitOptions::new())), Err(Error::Invalid));
        assert_eq!(there.try_lock_pi(lock, &stranger), Err(Error::Invalid));
        assert_eq!(there.unlock_pi(lock, &stranger), Err(Error::NotPermitted));
        // The word holds the TID of `namesake`.
        assert_eq!(at_once(there.lock_pi_async(lock, &namesake, &WaitOptions::new())), Err(Error::Deadlock));
        assert_eq!(there.try_lock_pi(lock, &namesake), Err(Error::Deadlock));
        assert_eq!(there.unlock_pi(lock, &namesake), Err(Error::Invalid));
        assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid));
        use_all_operations(&another_guest(&there));
    });
    assert_eq!([&owner, &heir, &last].map(Task::priority), [Priority::NORMAL; 3]);
    drop(strangers);
    drop((namesake, stranger));
    // The lock still passes by unlock and by the owner's exit.
    assert_eq!((here.unlock_pi(lock, &owner), word.load(Relaxed)), (Ok(()), WAITERS | 2));
    assert_eq!(poll(&mut heirs), Poll::Ready(Ok(())));
    drop(heirs);
    drop(heir);
    assert_eq!(poll(&mut lasts), Poll::Ready(Ok(())));
    assert_eq!((word.load(Relaxed), here.unlock_pi(lock, &last)), (WAITERS | OWNER_DIED | 3, Ok(())));
    // Without waiters the word is free for both namespaces.
    let stranger = task(&there, 5);
    assert_eq!((there.lock_pi(lock, &stranger), word.load(Relaxed)), (Ok(()), 5));
    assert_eq!(there.unlock_pi(lock, &stranger), Ok(()));
}

/// A domain of the same system in a new namespace.
fn another_guest(there: &Domain) -> Domain {
    domain(&namespace(there.pid_namespace().system()))
}

/// The new owner of a dead owner's lock has not written its TID yet. A task of another namespace cannot queue behind
/// it.
fn no_task_of_another_namespace_queues_behind_a_dead_owners_waiters() {
    let [here, there] = guests();
    let [owner, heir] = [1, 2].map(|tid| task(&here, tid));
    let stranger = task(&there, 2);
    let [word, from] = words();
    let (lock, condition) = (object(word, 64), object(from, 0));
    assert_eq!(here.lock_pi(lock, &owner), Ok(()));
    let mut heirs = pending(here.lock_pi_async(lock, &heir, &WaitOptions::new()));
    drop(owner);
    word.store(WAITERS | OWNER_DIED, Relaxed);
    assert_eq!(at_once(there.lock_pi_async(lock, &stranger, &WaitOptions::new())), Err(Error::Invalid));
    let strangers = pending(there.wait_requeue_pi_async(condition, 0, lock, &stranger, &WaitOptions::new()));
    assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 0), Err(Error::Invalid));
    drop(strangers);
    assert_eq!((poll(&mut heirs), word.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | OWNER_DIED | 2));
    assert_eq!(there.unlock_pi(lock, &stranger), Ok(()), "no waiter is queued, and the word has its TID");
}

/// Waiters of two namespaces wait for one condition. A call requeues waiters of its own namespace only, and stops at
/// the first waiter of another one.
fn requeue_moves_waiters_of_its_own_namespace_only() {
    let [here, there] = guests();
    let [a, b] = [1, 2].map(|tid| task(&here, tid));
    let [c, d] = [1, 2].map(|tid| task(&there, tid));
    let [from, word] = words();
    let (condition, lock) = (object(from, 0), object(word, 64));
    let mut ours =
        [&a, &b].map(|task| pending(here.wait_requeue_pi_async(condition, 0, lock, task, &WaitOptions::new())));
    let mut theirs = pending(there.wait_requeue_pi_async(condition, 0, lock, &c, &WaitOptions::new()));
    let mut late = pending(here.wait_requeue_pi_async(condition, 0, lock, lasting_task(&here, 3), &WaitOptions::new()));
    while_one_is_stuck(&here, || assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid)));
    assert_eq!(ours.each_mut().map(poll), [Poll::Pending; 2]);
    // Only a call of `there` can requeue the waiter of `there`, but that call finds a waiter of `here` at the lock.
    while_one_is_stuck(&there, || assert_eq!(here.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid)));
    assert_eq!((word.load(Relaxed) & TID_MASK, poll(&mut ours[0])), (1, Poll::Ready(Ok(()))));
    assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid));
    assert_eq!((here.unlock_pi(lock, &a), poll(&mut ours[1])), (Ok(()), Poll::Ready(Ok(()))));
    assert_eq!((here.unlock_pi(lock, &b), word.load(Relaxed)), (Ok(()), 0));
    assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
    assert_eq!((word.load(Relaxed), poll(&mut theirs)), (1, Poll::Ready(Ok(()))));
    assert_eq!(there.lock_pi(lock, &c), Err(Error::Deadlock));
    assert_eq!(there.try_lock_pi(lock, &d), Err(Error::Again));
    assert_eq!(there.unlock_pi(lock, &c), Ok(()));
    assert_eq!(here.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
    assert_eq!((poll(&mut late), word.load(Relaxed)), (Poll::Ready(Ok(())), 3));
}

/// Namespaces, each with two domains, come and go.
fn namespaces_that_share_an_object_come_and_go() {
    let system = system();
    drop(SharedObject::new(&system).expect("the memory is there"));
    let [word] = words();
    let lock = object(word, 64);
    for round in 0..20 {
        let [here, there]: [Domain; 2] = [(); 2].map(|()| domain(&namespace(&system)));
        let sibling: Domain = domain(&here.pid_namespace());
        let (owner, heir, stranger) = (task(&here, 1), task(&sibling, 2), task(&there, 2));
        assert_eq!(here.lock_pi(lock, &owner), Ok(()));
        let mut heirs = pending(sibling.lock_pi_async(lock, &heir, &WaitOptions::new()));
        assert_eq!(at_once(there.lock_pi_async(lock, &stranger, &WaitOptions::new())), Err(Error::Invalid));
        if round % 2 == 0 {
            assert_eq!(here.unlock_pi(lock, &owner), Ok(()));
        }
        drop((owner, here, stranger));
        assert_eq!(poll(&mut heirs), Poll::Ready(Ok(())));
        assert_eq!((sibling.unlock_pi(lock, &heir), word.load(Relaxed)), (Ok(()), 0));
    }
}

fn object_without_a_handle_is_freed_once_by_its_id() {
    let system = system();
    let kept = || SharedObject::new(&system).expect("the memory is there").into_id();
    let (id, other) = (kept(), kept());
    let free = |id| SharedObject::free(&system, id);
    assert_eq!([free(id), free(id)], [Ok(()), Err(Error::Invalid)]);
    let next = [(); 2].map(|()| SharedObject::new(&system).expect("the memory is there"));
    assert!(next.iter().all(|next| ![id, other].contains(&next.id())));
    assert_eq!(free(id), Err(Error::Invalid), "another object has its place");
    assert_eq!(free(ObjectId::new(0).expect("small enough")), Err(Error::Invalid), "it is no object of the system");
    assert_eq!(free(other), Ok(()));
}

fn robust_list_of_a_tid_in_another_namespace_is_esrch() {
    let [here, there] = guests();
    let sibling: Domain = domain(&here.pid_namespace());
    let (caller, _of_sibling, _stranger) = (task(&here, 1), task(&sibling, 2), task(&there, 3));
    let memory = GuestMemory::new();
    let ask = |tid| here.syscall(&caller, &memory, Number::GetRobustList, [tid, memory.at(0), memory.at(8), 0, 0, 0]);
    assert_eq!([2, 3].map(ask), [-1, -3], "EPERM, as another process's; ESRCH");
}

/// A scheduler that records the last priority of each task by namespace and TID.
#[derive(Default)]
struct Log(Mutex<HashMap<(u64, u32), Priority>>);

impl Scheduler for Log {
    fn set_priority(&self, tid: u32, _: Priority) {
        panic!("TID {tid} alone does not say which task it is");
    }

    fn set_priority_in(&self, namespace: u64, tid: u32, priority: Priority) {
        self.0.lock().expect("not poisoned").insert((namespace, tid), priority);
    }
}

fn scheduler_gets_the_namespace_of_a_tid() {
    let notified = Arc::new(Log::default());
    let system: System = System::with_scheduler(SystemConfig::new(), notified.clone()).expect("the memory is there");
    let [one, other] = [(); 2].map(|()| namespace(&system));
    let domains: [Domain; 3] = [Domain::with_options(&system, DomainOptions::new()), domain(&one), domain(&other)];
    for (i, domain) in domains.iter().enumerate() {
        let ([owner, waiter], [word]) = ([1, 2].map(|tid| task(domain, tid)), words());
        let own = Priority::realtime(10 * i as u8 + 10);
        waiter.set_priority(own);
        assert_eq!(domain.lock_pi(word, &owner), Ok(()));
        drop(pending(domain.lock_pi_async(word, &waiter, &WaitOptions::new())));
        let _wait = pending(domain.lock_pi_async(word, &waiter, &WaitOptions::new()));
        let number = domain.pid_namespace().number();
        let notified = notified.0.lock().expect("not poisoned");
        assert_eq!([1, 2].map(|tid| notified.get(&(number, tid)).copied()), [Some(own); 2]);
        assert_eq!(notified.len(), 2 * i + 2, "no other task");
    }
}

on_domains![
    one_namespace_does_not_isolate,
    chain_to_a_tid_of_another_namespace_does_not_reach_it,
    victim_is_not_blocked_by_a_stuck_attacker,
    tids_are_unique_within_a_namespace_only,
    operations_on_a_lock_of_another_namespace_change_nothing,
    no_task_of_another_namespace_queues_behind_a_dead_owners_waiters,
    requeue_moves_waiters_of_its_own_namespace_only,
    namespaces_that_share_an_object_come_and_go,
    object_without_a_handle_is_freed_once_by_its_id,
    robust_list_of_a_tid_in_another_namespace_is_esrch,
    scheduler_gets_the_namespace_of_a_tid,
];
