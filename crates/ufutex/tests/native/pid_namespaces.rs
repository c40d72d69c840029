//! Guests in PID namespaces of their own: whatever one writes, it reaches no task, priority or lock of another.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{
    Config, Domain, Error, LockPi, Number, OWNER_DIED, ObjectId, Options, PidNamespace, Priority, Scheduler, Shared,
    System, TID_MASK, Task, WAITERS,
};

use crate::common::domains::{on_every_scheme, system};
use crate::futures::{Boxed, at_once, pending, poll};
use crate::lock_regions::{live_a_full_life, while_one_is_stuck};
use crate::memory::Memory;
use crate::places::{Word, lasting_task, words};

/// The longest chain in these systems.
const MAX_DEPTH: usize = 8;
/// The victim's task.
const VICTIM: u32 = 1;

fn namespace<L: Layout>(system: &System<L>) -> PidNamespace<L> {
    PidNamespace::new(system).expect("the memory is there")
}

fn domain<S: Scheme<L>, L: Layout>(namespace: &PidNamespace<L>) -> Domain<S, L> {
    Domain::in_namespace(namespace, Options::new())
}

/// Two guests of one system, of a namespace each.
fn guests<S: Scheme<L>, L: Layout>() -> [Domain<S, L>; 2] {
    let system = System::with_config(Config::new().max_pi_depth(MAX_DEPTH).hash_seed(1)).expect("these are valid");
    [(); 2].map(|()| domain(&namespace(&system)))
}

fn task<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>, tid: u32) -> Task<L> {
    domain.task(tid).expect("the TID is free")
}

/// A word of an object that whoever likes maps.
fn object(word: Word, offset: u64) -> Shared<Word> {
    Shared::object(word, ObjectId::new(9).expect("small enough"), offset)
}

type Waits<'d, S, L> = Vec<Boxed<LockPi<'d, 'd, Shared<Word>, S, L>>>;

/// A chain of waits by tasks of real-time priority 99, as long as may be, which ends at a word that holds `tid`.
/// What the first wait answers if it is over at once, and those that go on.
fn chain_to<'d, S: Scheme<L>, L: Layout>(
    domain: &'d Domain<S, L>,
    tasks: &'d [Task<L>; MAX_DEPTH + 1],
    tid: u32,
) -> (Poll<Result<(), Error>>, Waits<'d, S, L>) {
    let locks: [Word; MAX_DEPTH + 1] = words();
    locks[0].store(tid, Relaxed);
    let (mut first, mut waits) = (Poll::Pending, Vec::new());
    for (i, task) in tasks.iter().enumerate() {
        task.set_priority(Priority::realtime(99));
        // Each owns what the next waits for.
        if let Some(next) = locks.get(i + 1) {
            assert_eq!(domain.lock_pi(object(next, 64 * i as u64 + 64), task, None), Ok(()));
        }
        let mut wait = Box::pin(domain.lock_pi_async(object(locks[i], 64 * i as u64), task));
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

fn attackers<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>) -> [Task<L>; MAX_DEPTH + 1] {
    let mut tid = 1000;
    [(); MAX_DEPTH + 1].map(|()| {
        tid += 1;
        task(domain, tid)
    })
}

/// What `victim` finds when it waits for a lock of its own domain.
fn waits_for_a_lock_of_its_own<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>, victim: &Task<L>) -> Result<(), Error> {
    let ([word], owner) = (words(), task(domain, 77));
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let mut wait = Box::pin(domain.lock_pi_async(word, victim));
    if let Poll::Ready(result) = poll(&mut wait) {
        return result;
    }
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    domain.unlock_pi(word, victim)
}

/// What a namespace is for: in one, a word names the other domain's task.
fn one_namespace_is_one_guest<S: Scheme<L>, L: Layout>() {
    let [attacker, _] = guests::<S, L>();
    let victims: Domain<S, L> = domain(&attacker.pid_namespace());
    let (victim, tasks) = (task(&victims, VICTIM), attackers(&attacker));
    let (first, waits) = chain_to(&attacker, &tasks, VICTIM);
    assert_eq!((first, waits.len()), (Poll::Pending, MAX_DEPTH + 1));
    assert_eq!(victim.priority(), Priority::realtime(99));
    assert_eq!(waits_for_a_lock_of_its_own(&victims, &victim), Err(Error::Deadlock));
}

fn chain_that_ends_at_a_strangers_tid_does_not_reach_it<S: Scheme<L>, L: Layout>() {
    for has_the_tid_too in [false, true] {
        let [attacker, victims] = guests::<S, L>();
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

/// The attacker's operation does not get on, with its region locked: a region that the victim is not in.
fn victim_goes_on_while_the_attacker_is_stuck<S: Scheme<L>, L: Layout>() {
    for has_the_tid_too in [false, true] {
        let [attacker, victims] = guests::<S, L>();
        let (victim, tasks) = (task(&victims, 51), attackers(&attacker));
        let _namesake = has_the_tid_too.then(|| task(&attacker, 51));
        let (_, waits) = chain_to(&attacker, &tasks, 51);
        assert_eq!(waits.len(), MAX_DEPTH + usize::from(has_the_tid_too));
        while_one_is_stuck(&attacker, || {
            live_a_full_life(&victims);
            assert_eq!(waits_for_a_lock_of_its_own(&victims, &victim), Ok(()));
            drop(task(&victims, 52));
        });
    }
}

fn tids_are_taken_in_one_namespace_alone<S: Scheme<L>, L: Layout>() {
    let system = system::<L>();
    let [one, other] = [(); 2].map(|()| namespace(&system));
    let of_system: Domain<S, L> = Domain::with_options(&system, Options::new());
    let [parent, child]: [Domain<S, L>; 2] = [domain(&one), domain(&one)];
    let stranger: Domain<S, L> = domain(&other);
    let numbers = [&of_system, &parent, &child, &stranger].map(|domain| domain.pid_namespace().number());
    assert_eq!(numbers, [0, one.number(), one.number(), other.number()]);
    assert_ne!(one.number(), other.number());
    // Handles may be gone.
    drop((one, other));
    let [a, b, c] = [&of_system, &parent, &stranger].map(|domain| task(domain, VICTIM));
    for domain in [&of_system, &parent, &stranger, &child] {
        assert_eq!(domain.task(VICTIM).err(), Some(Error::Busy));
    }
    // The end of a task frees its TID there, and nowhere else.
    drop(b);
    let b = task(&child, VICTIM);
    assert_eq!(parent.task(VICTIM).err(), Some(Error::Busy));
    assert_eq!([&of_system, &stranger].map(|domain| domain.task(VICTIM).err()), [Some(Error::Busy); 2]);
    assert_eq!(child.exit(&b, &Memory::new()), Ok(()));
    drop(task(&parent, VICTIM));
    assert_eq!(stranger.task(VICTIM).err(), Some(Error::Busy));
    drop((a, c));
    drop([&of_system, &stranger].map(|domain| task(domain, VICTIM)));
}

/// A word that both map, and whose waiters are all of one namespace: the other's operations on it answer EINVAL, and EDEADLK and
/// EPERM before that, as Linux does.
fn strangers_lock_is_left_alone<S: Scheme<L>, L: Layout>() {
    let [here, there] = guests::<S, L>();
    let [owner, heir, last] = [1, 2, 3].map(|tid| task(&here, tid));
    let [namesake, stranger] = [1, 5].map(|tid| task(&there, tid));
    stranger.set_priority(Priority::realtime(50));
    let [word, from] = words();
    let (lock, condition) = (object(word, 64), object(from, 0));
    assert_eq!(here.lock_pi(lock, &owner, None), Ok(()));
    let mut heirs = pending(here.lock_pi_async(lock, &heir));
    let mut lasts = pending(here.lock_pi_async(lock, &last));
    let strangers = pending(there.wait_requeue_pi_async(condition, 0, lock, &stranger));
    while_one_is_stuck(&here, || {
        assert_eq!(at_once(there.lock_pi_async(lock, &stranger)), Err(Error::Invalid));
        assert_eq!(there.try_lock_pi(lock, &stranger), Err(Error::Invalid));
        assert_eq!(there.unlock_pi(lock, &stranger), Err(Error::NotPermitted));
        // The word holds this one's TID.
        assert_eq!(at_once(there.lock_pi_async(lock, &namesake)), Err(Error::Deadlock));
        assert_eq!(there.try_lock_pi(lock, &namesake), Err(Error::Deadlock));
        assert_eq!(there.unlock_pi(lock, &namesake), Err(Error::Invalid));
        assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid));
        live_a_full_life(&another_guest(&there));
    });
    assert_eq!([&owner, &heir, &last].map(Task::priority), [Priority::NORMAL; 3]);
    drop(strangers);
    drop((namesake, stranger));
    // By the hand-over, and by the owner's death.
    assert_eq!((here.unlock_pi(lock, &owner), word.load(Relaxed)), (Ok(()), WAITERS | 2));
    assert_eq!(poll(&mut heirs), Poll::Ready(Ok(())));
    drop(heirs);
    drop(heir);
    assert_eq!(poll(&mut lasts), Poll::Ready(Ok(())));
    assert_eq!((word.load(Relaxed), here.unlock_pi(lock, &last)), (WAITERS | OWNER_DIED | 3, Ok(())));
    // Nobody waits any more, and the word is free for everybody.
    let stranger = task(&there, 5);
    assert_eq!((there.lock_pi(lock, &stranger, None), word.load(Relaxed)), (Ok(()), 5));
    assert_eq!(there.unlock_pi(lock, &stranger), Ok(()));
}

/// A domain of its system in a namespace of its own, where no TID is taken.
fn another_guest<S: Scheme<L>, L: Layout>(there: &Domain<S, L>) -> Domain<S, L> {
    domain(&namespace(there.pid_namespace().system()))
}

/// An heir of a dead owner that has not written its TID yet: strangers do not join it.
fn strangers_do_not_join_the_heirs_of_a_dead_owner<S: Scheme<L>, L: Layout>() {
    let [here, there] = guests::<S, L>();
    let [owner, heir] = [1, 2].map(|tid| task(&here, tid));
    let stranger = task(&there, 2);
    let [word, from] = words();
    let (lock, condition) = (object(word, 64), object(from, 0));
    assert_eq!(here.lock_pi(lock, &owner, None), Ok(()));
    let mut heirs = pending(here.lock_pi_async(lock, &heir));
    drop(owner);
    word.store(WAITERS | OWNER_DIED, Relaxed);
    assert_eq!(at_once(there.lock_pi_async(lock, &stranger)), Err(Error::Invalid));
    let strangers = pending(there.wait_requeue_pi_async(condition, 0, lock, &stranger));
    assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 0), Err(Error::Invalid));
    drop(strangers);
    assert_eq!((poll(&mut heirs), word.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | OWNER_DIED | 2));
    assert_eq!(there.unlock_pi(lock, &stranger), Ok(()), "nobody is queued, and the word has its TID");
}

/// Waiters of two namespaces at one condition: each namespace's are requeued by itself alone, as far as the first stranger.
fn conditions_requeue_their_own_namespaces_waiters<S: Scheme<L>, L: Layout>() {
    let [here, there] = guests::<S, L>();
    let [a, b] = [1, 2].map(|tid| task(&here, tid));
    let [c, d] = [1, 2].map(|tid| task(&there, tid));
    let [from, word] = words();
    let (condition, lock) = (object(from, 0), object(word, 64));
    let mut ours = [&a, &b].map(|task| pending(here.wait_requeue_pi_async(condition, 0, lock, task)));
    let mut theirs = pending(there.wait_requeue_pi_async(condition, 0, lock, &c));
    let mut late = pending(here.wait_requeue_pi_async(condition, 0, lock, lasting_task(&here, 3)));
    while_one_is_stuck(&here, || assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid)));
    assert_eq!(ours.each_mut().map(poll), [Poll::Pending; 2]);
    // It goes on with the first of theirs only by their own call, and theirs meets our waiter at the lock.
    while_one_is_stuck(&there, || assert_eq!(here.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid)));
    assert_eq!((word.load(Relaxed) & TID_MASK, poll(&mut ours[0])), (1, Poll::Ready(Ok(()))));
    assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 9), Err(Error::Invalid));
    assert_eq!((here.unlock_pi(lock, &a), poll(&mut ours[1])), (Ok(()), Poll::Ready(Ok(()))));
    assert_eq!((here.unlock_pi(lock, &b), word.load(Relaxed)), (Ok(()), 0));
    assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
    assert_eq!((word.load(Relaxed), poll(&mut theirs)), (1, Poll::Ready(Ok(()))));
    assert_eq!(there.lock_pi(lock, &c, None), Err(Error::Deadlock));
    assert_eq!(there.try_lock_pi(lock, &d), Err(Error::Again));
    assert_eq!(there.unlock_pi(lock, &c), Ok(()));
    assert_eq!(here.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
    assert_eq!((poll(&mut late), word.load(Relaxed)), (Poll::Ready(Ok(())), 3));
}

/// Homes that one namespace's domains have left serve another's.
fn homes_go_from_namespace_to_namespace<S: Scheme<L>, L: Layout>() {
    let system = system::<L>();
    let [word] = words();
    let lock = object(word, 64);
    for round in 0..20 {
        let [here, there]: [Domain<S, L>; 2] = [(); 2].map(|()| domain(&namespace(&system)));
        let sibling: Domain<S, L> = domain(&here.pid_namespace());
        let (owner, heir, stranger) = (task(&here, 1), task(&sibling, 2), task(&there, 2));
        assert_eq!(here.lock_pi(lock, &owner, None), Ok(()));
        let mut heirs = pending(sibling.lock_pi_async(lock, &heir));
        assert_eq!(at_once(there.lock_pi_async(lock, &stranger)), Err(Error::Invalid));
        if round % 2 == 0 {
            assert_eq!(here.unlock_pi(lock, &owner), Ok(()));
        }
        drop((owner, here, stranger));
        assert_eq!(poll(&mut heirs), Poll::Ready(Ok(())));
        assert_eq!((sibling.unlock_pi(lock, &heir), word.load(Relaxed)), (Ok(()), 0));
    }
}

fn robust_list_of_a_strangers_tid_is_nobodys<S: Scheme<L>, L: Layout>() {
    let [here, there] = guests::<S, L>();
    let sibling: Domain<S, L> = domain(&here.pid_namespace());
    let (caller, _of_sibling, _stranger) = (task(&here, 1), task(&sibling, 2), task(&there, 3));
    let memory = Memory::new();
    let ask = |tid| here.syscall(&caller, &memory, Number::GetRobustList, [tid, memory.at(0), memory.at(8), 0, 0, 0]);
    assert_eq!([2, 3].map(ask), [-1, -3], "EPERM, as another process's; ESRCH");
}

/// What was told last of each task, by namespace and TID.
#[derive(Default)]
struct Told(Mutex<HashMap<(u64, u32), Priority>>);

impl Scheduler for Told {
    fn set_priority(&self, tid: u32, _: Priority) {
        panic!("TID {tid} alone does not say which task it is");
    }

    fn set_priority_in(&self, namespace: u64, tid: u32, priority: Priority) {
        self.0.lock().expect("nobody panics with it").insert((namespace, tid), priority);
    }
}

fn scheduler_is_told_whose_tid_it_is<S: Scheme<L>, L: Layout>() {
    let told = Arc::new(Told::default());
    let system: System<L> = System::with_scheduler(Config::new(), told.clone()).expect("the memory is there");
    let [one, other] = [(); 2].map(|()| namespace(&system));
    let domains: [Domain<S, L>; 3] = [Domain::with_options(&system, Options::new()), domain(&one), domain(&other)];
    for (i, domain) in domains.iter().enumerate() {
        let ([owner, waiter], [word]) = ([1, 2].map(|tid| task(domain, tid)), words());
        let own = Priority::realtime(10 * i as u8 + 10);
        waiter.set_priority(own);
        assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
        drop(pending(domain.lock_pi_async(word, &waiter)));
        let _wait = pending(domain.lock_pi_async(word, &waiter));
        let number = domain.pid_namespace().number();
        let told = told.0.lock().expect("nobody panics with it");
        assert_eq!([1, 2].map(|tid| told.get(&(number, tid)).copied()), [Some(own); 2]);
        assert_eq!(told.len(), 2 * i + 2, "nobody else was told of");
    }
}

on_every_scheme![
    one_namespace_is_one_guest,
    chain_that_ends_at_a_strangers_tid_does_not_reach_it,
    victim_goes_on_while_the_attacker_is_stuck,
    tids_are_taken_in_one_namespace_alone,
    strangers_lock_is_left_alone,
    strangers_do_not_join_the_heirs_of_a_dead_owner,
    conditions_requeue_their_own_namespaces_waiters,
    homes_go_from_namespace_to_namespace,
    robust_list_of_a_strangers_tid_is_nobodys,
    scheduler_is_told_whose_tid_it_is,
];
