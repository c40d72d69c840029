//! Guests in different PID namespaces share nothing in the engine but the objects that both map. Here a guest's thread is
//! stuck in an operation with a bucket locked, as a thread is that has lost its CPU for ever.
//!
//! Promise: namespaces apart

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use ufutex::timer::{Base, Clocks, Driver};
use ufutex::{
    Address, At, Clock, Domain, DomainOptions, Error, Key, ObjectId, PidNamespace, Policy, Requeue, SharedObject,
    System, SystemConfig, Target, Timeout, Wait, WaitOptions,
};

use crate::common::asleep::until;
use crate::common::domains::on_domains;
use crate::common::futures::{Boxed, at_once, pending, pending_with, poll, poll_with};
use crate::common::guest_memory::{Event, GuestMemory};
use crate::common::nodes::Machine;
use crate::common::places::{Word, forever, words};
use crate::common::random::Random;
use crate::common::waiters::{idle, queue, waiter_on, waiters_on};

/// The embedder's number of an object, which both guests use for an object of their own.
const NUMBER: u64 = 5;

/// Each namespace has two buckets. So of many words some are in the bucket that the stuck thread holds.
fn system() -> System {
    System::with_config(SystemConfig::new().cpus(2).global_slots(2).hash_seed(1)).expect("the memory is there")
}

fn guest(system: &System, slots: usize) -> Domain {
    let namespace = PidNamespace::new(system).expect("the memory is there");
    Domain::in_namespace(&namespace, DomainOptions::new().policy(Policy::Fixed(slots)).early_return(false))
}

fn object_of_one_guest() -> ObjectId {
    ObjectId::new(NUMBER).expect("small enough")
}

/// Runs `meanwhile` while a wait of `domain` is blocked in its load, with the bucket of `target`'s word locked.
fn while_one_is_stuck<T: Target<Value = u64> + Send>(
    domain: &Domain,
    target: impl FnOnce(&'static GuestMemory<StuckHook>) -> T,
    meanwhile: impl FnOnce(),
) {
    let is_inside: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let may_go_on: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let hook: StuckHook = Box::new(|event, _| {
        if event == Event::Load {
            is_inside.store(true, SeqCst);
            until("the load may end", || may_go_on.load(SeqCst));
        }
        Ok(())
    });
    let word = target(Box::leak(Box::new(GuestMemory::with_hook(hook))));
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| drop(queue(domain, &mut idle(1)[0], word)));
        until("the wait is in the load", || is_inside.load(SeqCst));
        meanwhile();
        assert!(!stuck.is_finished());
        may_go_on.store(true, SeqCst);
    });
}

type StuckHook = Box<dyn Fn(Event, u64) -> Result<(), ufutex::Fault> + Send + Sync>;

/// Queues, wakes and requeues on `from` and `to`, as `key` makes words of them.
fn use_word<K: Target<Value = u32> + Copy>(domain: &Domain, [from, to]: [K; 2]) {
    let (mut one, other) = (waiter_on(domain, from), waiter_on(domain, from));
    let requeue = Requeue { wake: 0, requeue: 1 };
    assert_eq!(domain.requeue(from, to, requeue).map(|done| done.requeued), Ok(1));
    assert_eq!((domain.wake(to, 9), domain.wake(from, 1)), (1, 1));
    assert!(!one.cancel());
    drop((one, other));
}

/// Makes operations of a guest on words of every kind, many of each.
fn use_words(system: &System, shared: &SharedObject) {
    let [with_table, without] = [16, 0].map(|slots| guest(system, slots));
    for domain in [&with_table, &without] {
        for number in 0..16 {
            let both: [Word; 2] = words();
            let offset = |i: usize| 64 * (2 * number + i as u64);
            use_word(domain, both);
            use_word(domain, both.map(At::address_space));
            use_word(domain, [0, 1].map(|i| At::object(both[i], object_of_one_guest(), offset(i))));
            use_word(domain, [0, 1].map(|i| At::object(both[i], shared.id(), offset(i))));
            use_word(domain, both.map(|word| system.on_node(word, 0).expect("there is one node")));
        }
    }
    let [word] = words();
    let waits = waiter_on(&with_table, word);
    for slots in [0, 64] {
        match with_table.set_slots(slots) {
            Ok(()) => {}
            Err(error) => assert!(!crate::common::domains::can_resize(), "{error}"),
        }
    }
    assert_eq!(with_table.wake(word, 1), 1);
    drop(waits);
}

fn thread_that_is_stuck_in_a_bucket_of_its_guest_stops_no_other() {
    let system = system();
    let [ours, theirs] = [(); 2].map(|()| SharedObject::new(&system).expect("the memory is there"));
    let check = || use_words(&system, &ours);
    let attacker = guest(&system, 0);
    while_one_is_stuck(&attacker, |memory| memory.target(0), check);
    while_one_is_stuck(&attacker, |memory| At::address_space(memory.target(0)), check);
    while_one_is_stuck(&attacker, |memory| At::object(memory.target(0), object_of_one_guest(), 0), check);
    while_one_is_stuck(&attacker, |memory| At::object(memory.target(0), theirs.id(), 0), check);
    let on_node =
        |memory: &'static GuestMemory<StuckHook>| system.on_node(memory.target(0), 0).expect("there is one node");
    while_one_is_stuck(&attacker, on_node, check);
}

/// Guests that share an object meet at its words, and nowhere else.
fn guests_meet_at_the_words_of_a_shared_object_only() {
    let system = system();
    let object = SharedObject::new(&system).expect("the memory is there");
    let [here, there] = [(); 2].map(|()| guest(&system, 16));
    let [word] = words();
    let meets = |target: At<Word>| {
        let waits = waiter_on(&here, target);
        let woken = there.wake(target, 1);
        drop(waits);
        woken == 1
    };
    assert!(meets(At::object(word, object.id(), 64)));
    assert!(!meets(At::object(word, object_of_one_guest(), 64)));
    assert!(!meets(At::address_space(word)));
    assert_eq!(there.wake(Address::of(word), 1), 0);
    let sibling: Domain = Domain::in_namespace(&here.pid_namespace(), DomainOptions::new());
    let own = At::object(word, object_of_one_guest(), 64);
    let waits = waiter_on(&here, own);
    assert_eq!((own.address(), sibling.wake(own, 1)), (word.as_ptr().addr() as u64, 1), "the guest's own domains meet");
    drop(waits);
}

/// A waiter may still be queued when its object is gone and another one has the object's place.
fn object_is_dropped_while_its_words_have_waiters() {
    let system = system();
    let [here, there] = [(); 2].map(|()| guest(&system, 16));
    let [word] = words();
    let first = SharedObject::new(&system).expect("the memory is there");
    let old = At::object(word, first.id(), 0);
    let waits = waiter_on(&here, old);
    let id = first.id();
    drop(first);
    let second = SharedObject::new(&system).expect("the memory is there");
    assert_ne!(second.id(), id);
    let new = At::object(word, second.id(), 0);
    let also_waits = waiter_on(&there, new);
    assert_eq!(system.who_waits(9).iter().count(), 2);
    assert_eq!((there.wake(old, 9), here.wake(new, 9)), (1, 1));
    drop((waits, also_waits));
}

/// A guest that requeues waiters of an object does not take those of another guest into its own tables.
fn waiters_of_a_shared_object_stay_in_shared_objects() {
    let system = system();
    let [from, to] = [(); 2].map(|()| SharedObject::new(&system).expect("the memory is there"));
    let [here, there] = [(); 2].map(|()| guest(&system, 16));
    let [word] = words();
    let at = |id: ObjectId| At::object(word, id, 0);
    let made_up = ObjectId::new(to.id().get() + 1).expect("small enough");
    let mut waiters = idle(1);
    let waits = queue(&here, &mut waiters[0], at(from.id()));
    let all = Requeue { wake: 0, requeue: 9 };
    assert_eq!(there.requeue(at(from.id()), word, all), Err(Error::Invalid));
    assert_eq!(there.requeue(at(from.id()), At::address_space(word), all), Err(Error::Invalid));
    for id in [object_of_one_guest(), made_up] {
        assert_eq!(there.cmp_requeue(at(from.id()), 0, at(id), all), Err(Error::Invalid));
    }
    assert_eq!(there.requeue(at(from.id()), at(to.id()), all).map(|done| done.requeued), Ok(1));
    drop(there);
    assert_eq!(here.wake(at(to.id()), 1), 1);
    drop(waits);
    let waits = waiter_on(&here, at(object_of_one_guest()));
    assert_eq!(here.requeue(at(object_of_one_guest()), at(to.id()), all).map(|done| done.requeued), Ok(1));
    drop(waits);
}

/// Every operation with a node looks a word of a shared object up in one table. So it must not tell the nodes apart.
fn nodes_meet_in_a_shared_object() {
    let system = Machine::new(2).system().expect("the memory is there");
    let object = SharedObject::new(&system).expect("the memory is there");
    let domain = guest(&system, 16);
    let words: [Word; 64] = words();
    let at = |index: usize, node: u32| {
        let word = At::object(words[index], object.id(), 8 * index as u64);
        system.on_node(word, node).expect("there are two nodes")
    };
    let mut waiters = idle(40);
    let mut random = Random::new(7);
    let mut waits: Vec<_> = waiters.iter_mut().map(|waiter| (queue(&domain, waiter, at(0, 0)), 0)).collect();
    assert_eq!(domain.wake(at(0, 1), 100), 40);
    waits.clear();
    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
        let mut waiters = idle(40);
        let mut waits: Vec<_> = waiters
            .iter_mut()
            .map(|waiter| {
                let index = random.below(words.len());
                (queue(&domain, waiter, at(index, random.below(2) as u32)), index)
            })
            .collect();
        // Some give up, in any order. The others are woken by the other node.
        for _ in 0..20 {
            drop(waits.swap_remove(random.below(waits.len())));
        }
        let woken: usize = (0..words.len()).map(|index| domain.wake(at(index, 1), 100)).sum();
        assert_eq!(woken, waits.len());
    }
    // A requeue from a node to another one counts the waiters, as one of a word to itself does.
    let waits = waiters_on(&domain, at(5, 0), 3);
    let all = Requeue { wake: 0, requeue: 9 };
    assert_eq!(domain.requeue(at(5, 0), at(5, 1), all).map(|done| done.requeued), Ok(3));
    assert_eq!(domain.wake(at(5, 0), 9), 3);
    drop(waits);
}

/// The future of a wait for a lock is forgotten, and the guest ends. Its entry still stands in the object's table.
fn guest_ends_with_a_forgotten_wait_for_a_lock() {
    let system = system();
    let object = SharedObject::new(&system).expect("the memory is there");
    let [word] = words();
    let lock = At::object(word, object.id(), 0);
    {
        let domain: &'static Domain = forever(guest(&system, 16));
        let owner = domain.task(1).expect("the TID is free");
        assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
        // SAFETY: both are dropped once, after the forgotten future, which is never polled again.
        let (waiter, domain) = (forever(domain.task(2).expect("the TID is free")), domain);
        std::mem::forget(pending(domain.lock_pi_async(lock, waiter, &WaitOptions::new())));
        // SAFETY: as above.
        unsafe { std::ptr::drop_in_place(std::ptr::from_ref(waiter).cast_mut()) };
        drop(owner);
        // SAFETY: as above.
        unsafe { std::ptr::drop_in_place(std::ptr::from_ref(domain).cast_mut()) };
    }
    let other = guest(&system, 16);
    let task = other.task(9).expect("the TID is free");
    assert_eq!(other.try_lock_pi(lock, &task), Err(Error::Invalid));
}

/// An embedder names an object before it is made. An operation that began before goes on in the namespace's table.
fn object_is_made_during_a_requeue() {
    let system = system();
    let early = ObjectId::new(1 << 61).expect("small enough");
    let (here, there) = (guest(&system, 16), guest(&system, 16));
    let words = GuestMemory::new();
    let at = |memory, id| At::object(GuestMemory::target(memory, 0), id, 0);
    let object = std::cell::OnceCell::new();
    let mut waiters = idle(1);
    let waits = std::cell::RefCell::new(None);
    let waiter = std::cell::Cell::new(waiters.first_mut());
    let memory = GuestMemory::of_words(&words, |event, _| {
        if matches!(event, Event::FaultIn(_)) {
            let made = object.get_or_init(|| SharedObject::new(&system).expect("the memory is there"));
            let waiter = waiter.take().expect("it faults once");
            *waits.borrow_mut() = Some(queue(&there, waiter, at(&words, made.id())));
        }
        Ok(())
    });
    memory.fault_next_loads(1);
    let from = At::object(memory.target(0), early, 0);
    let all = Requeue { wake: 0, requeue: 9 };
    let requeued = here.cmp_requeue(from, 0, at(&words, object_of_one_guest()), all);
    assert_eq!(requeued.map(|done| done.requeued), Ok(0), "the other guest's waiter is not in the namespace's table");
    drop(here);
    assert_eq!(there.wake(at(&words, early), 1), 1);
    drop(waits);
}

/// Numbers that the system has not given out name no object of the system.
fn made_up_object_is_one_of_the_callers_namespace() {
    let system = system();
    let _taken = SharedObject::new(&system).expect("the memory is there");
    let [here, there] = [(); 2].map(|()| guest(&system, 16));
    let [word] = words();
    for number in [1 << 61 | 1, 1 << 61 | 0xff_ffff, (1 << 62) - 1] {
        let target = At::object(word, ObjectId::new(number).expect("small enough"), 0);
        let waits = waiter_on(&here, target);
        assert_eq!((there.wake(target, 1), here.wake(target, 1)), (0, 1), "{number:#x}");
        drop(waits);
    }
}

#[test]
fn each_object_has_an_id_of_its_own() {
    let system = system();
    let make = || SharedObject::new(&system).expect("the memory is there");
    let mut kept: Vec<_> = (0..100).map(|_| make()).collect();
    let gone: Vec<_> = kept.drain(..50).map(|object| object.id()).collect();
    kept.extend((0..100).map(|_| make()));
    let mut ids: Vec<_> = kept.iter().map(|object| object.id().get()).chain(gone.iter().map(|id| id.get())).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    let highest = ids.iter().map(|id| id & 0xff_ffff).max();
    assert_eq!(highest, Some(149), "the places of those that are gone were used again");
}

/// A waker that notes that it was called, and returns when it may.
#[derive(Default)]
struct Slow {
    is_called: AtomicBool,
    may_return: AtomicBool,
}

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        self.is_called.store(true, SeqCst);
        until("the waker may return", || self.may_return.load(SeqCst));
    }
}

/// A pending wait, whose timeout will end it soon.
fn wait_a_moment<'d>(domain: &'d Domain, word: Word, waker: &Waker) -> Boxed<Wait<'d, Word>> {
    // A thread without a CPU polls for the first time when the timeout has passed.
    for ms in (0..).map(|round| 1 << round) {
        let timeout = Timeout::After(Duration::from_millis(ms));
        let mut wait = Box::pin(domain.wait_async(word, 0, &WaitOptions::new().timeout(timeout)));
        if poll_with(&mut wait, waker).is_pending() {
            return wait;
        }
    }
    unreachable!("there is no end of powers of two")
}

fn timeout_of_one_guest_is_not_delayed_by_another_guests() {
    let system = system();
    let [attacker, neighbour] = [(); 2].map(|()| guest(&system, 16));
    let [word] = words();
    let [slow, quick] = [(); 2].map(|()| Arc::new(Slow::default()));
    quick.may_return.store(true, SeqCst);
    let mut attack = wait_a_moment(&attacker, word, &slow.clone().into());
    until("a waker keeps the driver's thread", || slow.is_called.load(SeqCst));
    let mut wait = wait_a_moment(&neighbour, word, &quick.clone().into());
    until("the other driver's thread calls a waker", || quick.is_called.load(SeqCst));
    assert_eq!(poll(&mut wait), Poll::Ready(Err(Error::TimedOut)));
    slow.may_return.store(true, SeqCst);
    assert_eq!(poll(&mut attack), Poll::Ready(Err(Error::TimedOut)));
}

/// With an embedder's clocks all namespaces have the system's driver, which the embedder turns, or the one that it names.
fn namespaces_have_drivers_of_their_own() {
    struct Stopped;
    impl Clocks for Stopped {
        fn now(&self, _: Base) -> Duration {
            Duration::from_secs(1)
        }
        fn changed(&self) {}
    }
    let system = System::with_config(SystemConfig::new().clocks(Arc::new(Stopped))).expect("the memory is there");
    let driver = Driver::with_clocks(Arc::new(Stopped)).expect("the memory is there");
    let at = |seconds| WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, Duration::from_secs(seconds)));
    let [word] = words();
    let namespaces = [PidNamespace::new(&system), PidNamespace::with_driver(&system, &driver)];
    let [with_the_systems, with_its_own] = namespaces.map(|namespace| namespace.expect("the memory is there"));
    for (namespace, theirs, not_theirs) in
        [(&with_the_systems, system.driver(), &driver), (&with_its_own, &driver, system.driver())]
    {
        let domain: Domain = Domain::in_namespace(namespace, DomainOptions::new());
        let wait = pending_with(domain.wait_async(word, 0, &at(2)), Waker::noop());
        assert_eq!(
            (theirs.next(Base::Monotonic), not_theirs.next(Base::Monotonic)),
            (Some(Duration::from_secs(2)), None)
        );
        drop(wait);
        assert_eq!(at_once(domain.wait_async(word, 0, &at(1))), Err(Error::TimedOut));
    }
}

on_domains! {
    timeout_of_one_guest_is_not_delayed_by_another_guests,
    namespaces_have_drivers_of_their_own,
    thread_that_is_stuck_in_a_bucket_of_its_guest_stops_no_other,
    guests_meet_at_the_words_of_a_shared_object_only,
    waiters_of_a_shared_object_stay_in_shared_objects,
    nodes_meet_in_a_shared_object,
    guest_ends_with_a_forgotten_wait_for_a_lock,
    object_is_made_during_a_requeue,
    object_is_dropped_while_its_words_have_waiters,
    made_up_object_is_one_of_the_callers_namespace,
}
