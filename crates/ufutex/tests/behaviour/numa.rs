//! Machines with several nodes: a table on each, words that name a node, and the node of a futex2 word.

mod resolve;
mod tables;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use ufutex::{At, Domain, DomainOptions, Error, ObjectId, Policy, Requeue, System, Target, Waiter};

use crate::common::domains::{on_domains, on_resizable_domains};
use crate::common::nodes::Machine;
use crate::common::waiters::{Boxed, idle, queue};

const NODES: u32 = 3;

/// A word in a cache line of its own, so that words have different hashes.
#[repr(align(64))]
struct OwnLine(AtomicU32);

fn words(count: usize) -> Vec<OwnLine> {
    (0..count).map(|_| OwnLine(AtomicU32::new(0))).collect()
}

fn machine() -> (Arc<Machine>, System) {
    let machine = Machine::new(NODES as usize);
    let system = machine.system().expect("the memory is there");
    (machine, system)
}

fn on<T: Target>(system: &System, target: T, node: u32) -> At<T> {
    system.on_node(target, node).expect("there is such a node")
}

/// Queues `waiter` on `target` on each node in turn. A wake on that node finds it, and wakes on other nodes do not.
fn matches_on_its_node_only<'d, T: Target<Value = u32> + Copy>(
    domain: &'d Domain,
    system: &System,
    target: T,
    waiter: &mut Boxed<'d>,
) {
    for node in 0..NODES {
        let queued = queue(domain, waiter, on(system, target, node));
        for other in (0..NODES).filter(|&other| other != node) {
            assert_eq!(domain.wake(on(system, target, other), usize::MAX), 0, "waits on {node}, wake on {other}");
        }
        assert!(!queued.is_woken());
        assert_eq!(domain.wake(on(system, target, node), usize::MAX), 1, "both on {node}");
        assert!(queued.is_woken() && queued.finish().is_ok());
    }
}

fn operations_match_on_one_node_only() {
    let (_machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    let mut waiter = Box::pin(Waiter::new());
    let object = ObjectId::new(1).expect("small enough");
    for OwnLine(word) in &words(20) {
        matches_on_its_node_only(&domain, &system, word, &mut waiter);
        matches_on_its_node_only(&domain, &system, At::address_space(word), &mut waiter);
        matches_on_its_node_only(&domain, &system, At::object(word, object, word.as_ptr().addr() as u64), &mut waiter);
    }
    assert_eq!(domain.slots(), 0, "words with a node need no table of the domain's");
}

fn node_inside_of_shared_is_the_same_as_outside() {
    let (_machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    let mut waiter = Box::pin(Waiter::new());
    for OwnLine(word) in &words(20) {
        let queued = queue(&domain, &mut waiter, on(&system, At::address_space(word), 2));
        assert_eq!(domain.wake(At::address_space(on(&system, word, 1)), 1), 0);
        assert_eq!(domain.wake(At::address_space(on(&system, word, 2)), 1), 1);
        assert!(queued.is_woken());
    }
}

/// futex(2) behaves the same in a process with a private hash.
fn private_word_with_a_node_is_another_futex_than_without() {
    for policy in [Policy::Load, Policy::Fixed(0)] {
        let (_machine, system) = machine();
        let domain = Domain::with_options(&system, DomainOptions::new().policy(policy));
        let [mut with, mut without] = [(); 2].map(|()| Box::pin(Waiter::new()));
        for OwnLine(word) in &words(20) {
            let without = queue(&domain, &mut without, word);
            for node in 0..NODES {
                let with = queue(&domain, &mut with, on(&system, word, node));
                assert_eq!(domain.wake(on(&system, word, node), usize::MAX), 1);
                assert!(with.is_woken() && !without.is_woken());
                drop(with);
                let with = queue(&domain, &mut Box::pin(Waiter::new()), on(&system, word, node)).cancel();
                assert!(with);
            }
            let with = queue(&domain, &mut with, on(&system, word, 0));
            assert_eq!(domain.wake(word, usize::MAX), 1);
            assert!(without.is_woken() && !with.is_woken());
        }
    }
}

/// futex(2) too chooses the node of such a word by its hash.
fn shared_word_without_a_node_is_on_one_and_such_words_are_spread() {
    let (_machine, system) = machine();
    let [a, b] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
    let object = ObjectId::new(1).expect("small enough");
    let mut waiter = Box::pin(Waiter::new());
    let mut chosen = [0; NODES as usize];
    for offset in (0..300).map(|i| 64 * i) {
        let word = AtomicU32::new(0);
        let target = At::object(&word, object, offset);
        let queued = queue(&a, &mut waiter, target);
        let on_node = (0..NODES).filter(|&node| b.wake(on(&system, target, node), usize::MAX) == 1);
        let nodes: Vec<u32> = on_node.collect();
        assert_eq!(nodes.len(), 1, "found on {nodes:?}");
        assert!(queued.is_woken());
        chosen[nodes[0] as usize] += 1;
        drop(queued);
        let queued = queue(&a, &mut waiter, target);
        assert_eq!(b.wake(target, usize::MAX), 1);
        assert!(queued.is_woken());
    }
    assert!(chosen.iter().all(|&count| (60..=140).contains(&count)), "{chosen:?} of 300 on each");
}

/// On a machine with one node, words with that node and without a node are the same futex.
fn shared_word_matches_itself_on_the_only_node() {
    let system = Machine::new(1).system().expect("the memory is there");
    let domain = Domain::with_options(&system, DomainOptions::new());
    let mut waiter = Box::pin(Waiter::new());
    for OwnLine(word) in &words(20) {
        let target = At::address_space(word);
        let queued = queue(&domain, &mut waiter, target);
        assert_eq!(domain.wake(on(&system, target, 0), usize::MAX), 1);
        assert!(queued.is_woken() && queued.finish().is_ok());
        let queued = queue(&domain, &mut waiter, on(&system, target, 0));
        assert_eq!(domain.wake(target, usize::MAX), 1);
        assert!(queued.is_woken() && queued.finish().is_ok());
        let queued = queue(&domain, &mut waiter, on(&system, word, 0));
        assert_eq!((domain.wake(word, 1), domain.wake(target, 1)), (0, 0), "private words with a node are others");
        assert_eq!(domain.wake(on(&system, word, 0), 1), 1);
        assert!(queued.is_woken());
    }
}

/// Queues one waiter of each kind on each word, runs `moves`, and checks that wakes find each of them.
fn all_waiters_are_found_after(policy: Policy, moves: impl Fn(&Domain)) {
    let (machine, system) = machine();
    machine.go_to(1);
    let domain = Domain::with_options(&system, DomainOptions::new().policy(policy));
    let words = words(40);
    let mut waiters = idle(5 * words.len());
    let mut queued: Vec<_> = std::iter::zip(&words, waiters.chunks_exact_mut(5))
        .map(|(OwnLine(word), waiters)| {
            let [private, zero, one, two, shared] = waiters else { unreachable!() };
            let [zero, one, two] =
                [(zero, 0), (one, 1), (two, 2)].map(|(waiter, node)| queue(&domain, waiter, on(&system, word, node)));
            let shared = queue(&domain, shared, At::address_space(word));
            [queue(&domain, private, word), zero, one, two, shared]
        })
        .collect();
    moves(&domain);
    for (OwnLine(word), [private, zero, one, two, shared]) in std::iter::zip(&words, &mut queued) {
        for (node, waiter) in [(0, zero), (1, one), (2, two)] {
            assert_eq!(domain.wake(on(&system, word, node), usize::MAX), 1, "of node {node}");
            assert!(waiter.is_woken() && !private.is_woken());
        }
        assert_eq!(domain.wake(word, usize::MAX), 1);
        assert!(private.is_woken() && !shared.is_woken());
        assert_eq!(domain.wake(At::address_space(word), usize::MAX), 1);
        assert!(shared.is_woken());
    }
}

fn private_words_with_a_node_stay_when_the_domains_table_moves() {
    all_waiters_are_found_after(Policy::Load, |domain| {
        for slots in [64, 2, 0, 16, 0, 256] {
            assert_eq!(domain.set_slots(slots), Ok(()));
        }
    });
    all_waiters_are_found_after(Policy::Load, |domain| assert_eq!(domain.set_slots(0), Ok(())));
    all_waiters_are_found_after(Policy::Fixed(0), |domain| assert_eq!(domain.set_slots(8), Ok(())));
}

fn private_words_of_a_domain_without_a_table_stay_on_its_node() {
    let (machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new().policy(Policy::Fixed(0)));
    let mut waiter = Box::pin(Waiter::new());
    // Its node is that of its first waiter.
    machine.go_to(2);
    drop(queue(&domain, &mut waiter, &AtomicU32::new(0)));
    machine.go_to(0);
    let before = [0, 1, 2].map(|node| machine.contents(node));
    for OwnLine(word) in &words(20) {
        let queued = queue(&domain, &mut waiter, word);
        let changed = [0, 1, 2].map(|node| machine.contents(node) != before[node as usize]);
        assert_eq!(changed, [false, false, true]);
        machine.go_to(1);
        assert_eq!(domain.wake(word, 1), 1);
        assert!(queued.is_woken());
        machine.go_to(0);
    }
}

/// The wake of a waiter that is dropped goes to the next waiter on the same node.
fn wake_of_a_dropped_waiter_goes_to_the_next_on_its_node() {
    let (_machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    let mut waiters = idle(3);
    for OwnLine(word) in &words(20) {
        let [first, second, elsewhere] = &mut waiters[..] else { unreachable!() };
        let target = At::address_space(word);
        let first = queue(&domain, first, on(&system, target, 2));
        let second = queue(&domain, second, on(&system, target, 2));
        let mut elsewhere = queue(&domain, elsewhere, on(&system, target, 1));
        assert_eq!(domain.wake(on(&system, target, 2), 1), 1);
        assert!(first.is_woken() && !second.is_woken());
        drop(first);
        assert!(second.is_woken() && !elsewhere.is_woken());
        assert!(elsewhere.cancel());
        assert_eq!(domain.wake(on(&system, target, 1), 1), 0);
    }
}

fn requeue_takes_waiters_to_another_node() {
    let (_machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    let mut waiters = idle(2);
    for [OwnLine(from), OwnLine(to)] in words(20).as_chunks().0 {
        let (from, to) = (At::address_space(from), At::address_space(to));
        // To another word, and to another node of the same word.
        for to in [to, from] {
            let [first, second] = &mut waiters[..] else { unreachable!() };
            let first = queue(&domain, first, on(&system, from, 1));
            let second = queue(&domain, second, on(&system, from, 1));
            let done = domain
                .requeue(on(&system, from, 1), on(&system, to, 2), Requeue { wake: 1, requeue: 1 })
                .expect("plain waiters");
            assert_eq!((done.woken, done.requeued), (1, 1));
            assert!(first.is_woken() && !second.is_woken());
            assert_eq!(domain.wake(on(&system, from, 1), 1), 0);
            assert_eq!(domain.wake(on(&system, to, 1), 1), 0);
            assert_eq!(domain.wake(on(&system, to, 2), 1), 1);
            assert!(second.is_woken());
        }
    }
}

#[test]
fn word_cannot_be_on_a_node_that_is_not_there() {
    let (_machine, system) = machine();
    let word = AtomicU32::new(0);
    for node in [NODES, 1024, u32::MAX] {
        assert_eq!(system.on_node(&word, node).err(), Some(Error::Invalid));
    }
}

/// Using a node of another system is a mistake of the caller. It must not access a table that does not exist.
#[test]
fn word_on_a_node_of_another_system_is_a_word_without_one() {
    let many = Machine::new(1000).system().expect("the memory is there");
    let two = Machine::new(2).system().expect("the memory is there");
    let domain = Domain::new(&two);
    let mut waiter = Box::pin(Waiter::new());
    for OwnLine(word) in &words(20) {
        for node in [2, 3, 999] {
            let queued = queue(&domain, &mut waiter, At::address_space(on(&many, word, node)));
            assert_eq!(domain.wake(At::address_space(word), 1), 1);
            assert!(queued.is_woken());
        }
    }
}

on_domains![
    operations_match_on_one_node_only,
    node_inside_of_shared_is_the_same_as_outside,
    private_word_with_a_node_is_another_futex_than_without,
    shared_word_without_a_node_is_on_one_and_such_words_are_spread,
    shared_word_matches_itself_on_the_only_node,
    private_words_of_a_domain_without_a_table_stay_on_its_node,
    wake_of_a_dropped_waiter_goes_to_the_next_on_its_node,
    requeue_takes_waiters_to_another_node,
];

on_resizable_domains![private_words_with_a_node_stay_when_the_domains_table_moves];
