//! The nodes on which tables are allocated.

use std::sync::atomic::AtomicU32;

use ufutex::{At, Domain, DomainOptions, Error, System, SystemConfig, Waiter};

use crate::common::domains::{on_domains, on_resizable_domains};
use crate::common::nodes::Machine;
use crate::common::waiters::{idle, queue};

use super::{NODES, OwnLine, machine, on, words};

fn each_node_has_a_table_of_its_own() {
    let (machine, system) = machine();
    assert_eq!(machine.pieces(), [1, 1, 1]);
    let domain = Domain::with_options(&system, DomainOptions::new());
    let mut waiter = Box::pin(Waiter::new());
    for OwnLine(word) in &words(20) {
        for node in 0..NODES {
            let before = [0, 1, 2].map(|node| machine.contents(node));
            let mut queued = queue(&domain, &mut waiter, on(&system, At::address_space(word), node));
            let changed = [0, 1, 2].map(|node| machine.contents(node) != before[node as usize]);
            assert_eq!(changed, [0, 1, 2].map(|other| other == node));
            assert!(queued.cancel());
        }
    }
    assert_eq!(machine.pieces(), [1, 1, 1]);
    drop(system);
    assert_eq!(machine.pieces(), [1, 1, 1], "the domain holds on to them");
    drop(waiter);
    drop(domain);
    assert_eq!(machine.pieces(), [0, 0, 0]);
}

fn domains_table_is_made_on_the_node_of_the_first_wait() {
    let (machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    machine.go_to(2);
    assert!(queue(&domain, &mut Box::pin(Waiter::new()), &AtomicU32::new(0)).cancel());
    assert_eq!((machine.pieces(), domain.slots()), (vec![1, 1, 2], 16));
    drop(domain);
    assert_eq!(machine.pieces(), [1, 1, 1]);
}

fn domains_table_is_made_on_the_first_node_if_the_current_one_does_not_exist() {
    let machine = Machine::with(&[false, true, true]);
    let system = machine.system().expect("two nodes");
    for node in [0, 3, u32::MAX] {
        let domain = Domain::with_options(&system, DomainOptions::new());
        machine.go_to(node);
        assert!(queue(&domain, &mut Box::pin(Waiter::new()), &AtomicU32::new(0)).cancel());
        assert_eq!((machine.pieces(), domain.slots()), (vec![0, 2, 1], 16), "on node {node}");
    }
}

fn larger_table_is_made_on_the_node_of_the_caller() {
    let (machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    for (slots, node, pieces) in [(16, 0, [2, 1, 1]), (64, 1, [2, 2, 1]), (16, 2, [2, 2, 1]), (32, 2, [2, 2, 2])] {
        machine.go_to(node);
        assert_eq!(domain.set_slots(slots), Ok(()));
        assert_eq!(machine.pieces(), pieces);
    }
}

fn first_wait_on_a_node_without_memory_uses_the_global_table() {
    let (machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    machine.exhaust(Some(0));
    let words = words(20);
    let mut waiters = idle(20);
    let queued: Vec<_> =
        std::iter::zip(&words, &mut waiters).map(|(OwnLine(word), waiter)| queue(&domain, waiter, word)).collect();
    assert_eq!((domain.slots(), machine.pieces()), (0, vec![1, 1, 1]));
    for (OwnLine(word), queued) in std::iter::zip(&words, &queued) {
        assert_eq!(domain.wake(word, 1), 1);
        assert!(queued.is_woken());
    }
}

fn set_slots_on_a_node_without_memory_fails_and_changes_nothing() {
    let (machine, system) = machine();
    let domain = Domain::with_options(&system, DomainOptions::new());
    assert_eq!(domain.set_slots(16), Ok(()));
    machine.exhaust(Some(1));
    machine.go_to(1);
    assert_eq!(domain.set_slots(64), Err(Error::NoMemory));
    assert_eq!(domain.slots(), 16);
    machine.go_to(2);
    assert_eq!(domain.set_slots(64), Ok(()));
    assert_eq!(machine.pieces(), [2, 1, 2]);
}

#[test]
fn system_on_a_node_without_memory_cannot_be_made_and_leaves_nothing() {
    for node in 0..NODES {
        let machine = Machine::new(NODES as usize);
        machine.exhaust(Some(node));
        assert_eq!(machine.system().err(), Some(Error::NoMemory));
        assert_eq!(machine.pieces(), [0, 0, 0]);
        machine.exhaust(None);
        assert_eq!(machine.system().map(|system| system.nodes()), Ok(3));
    }
}

#[test]
fn machine_that_leaves_out_numbers_has_tables_for_the_rest() {
    let machine = Machine::with(&[false, true, false, true, false]);
    machine.go_to(3);
    let system = machine.system().expect("the memory is there");
    assert_eq!(machine.pieces(), [0, 1, 0, 1, 0]);
    assert_eq!((system.nodes(), system.current_node()), (5, 3));
    assert_eq!([0, 1, 2, 3, 4, 5].map(|node| system.has_node(node)), [false, true, false, true, false, false]);
    let domain: Domain = Domain::new(&system);
    let mut waiter = Box::pin(Waiter::new());
    let mut found = [0, 0];
    for OwnLine(word) in &words(100) {
        assert_eq!(system.on_node(word, 2).err(), Some(Error::Invalid));
        let target = At::address_space(word);
        let queued = queue(&domain, &mut waiter, target);
        let on_three = domain.wake(on(&system, target, 3), 1);
        assert_eq!(domain.wake(on(&system, target, 1), 1), 1 - on_three);
        assert!(queued.is_woken());
        found[on_three] += 1;
    }
    assert!(found.iter().all(|&count| count >= 20), "{found:?}");
}

#[test]
fn thread_on_a_node_that_is_not_there_is_on_the_first() {
    for (has, first) in [(&[true, true][..], 0), (&[false, true], 1)] {
        let machine = Machine::with(has);
        for nowhere in [2, 1024, u32::MAX] {
            machine.go_to(nowhere);
            assert_eq!(machine.system().expect("the memory is there").current_node(), first);
        }
    }
}

#[test]
fn machine_without_a_node_or_with_too_many_is_invalid() {
    for machine in [Machine::new(0), Machine::new(1025), Machine::with(&[false, false])] {
        assert_eq!(machine.system().err(), Some(Error::Invalid));
        assert!(machine.pieces().iter().all(|&count| count == 0));
    }
    let most = Machine::new(1024);
    let system = most.system().expect("the memory is there");
    assert!(most.pieces().iter().all(|&count| count == 1));
    assert!(system.has_node(1023) && !system.has_node(1024));
}

#[test]
fn nodes_share_the_default_number_of_slots() {
    let config = SystemConfig::new().cpus(8).topology(Machine::new(4));
    let system = System::with_config(config).expect("the memory is there");
    assert_eq!(system.global_slots(), 512);
}

#[test]
fn configuration_with_a_topology_can_be_printed() {
    assert!(format!("{:?}", SystemConfig::new().topology(Machine::new(7))).contains("7 nodes"));
}

on_domains![
    each_node_has_a_table_of_its_own,
    domains_table_is_made_on_the_node_of_the_first_wait,
    domains_table_is_made_on_the_first_node_if_the_current_one_does_not_exist,
    first_wait_on_a_node_without_memory_uses_the_global_table,
];

on_resizable_domains![
    larger_table_is_made_on_the_node_of_the_caller,
    set_slots_on_a_node_without_memory_fails_and_changes_nothing,
];
