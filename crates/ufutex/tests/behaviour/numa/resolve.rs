//! `System::resolve_node`, which finds the node of a futex2 word. The suite `syscalls` compares it with the kernel.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ufutex::syscall::Number;
use ufutex::{Access, Domain, Error, Fault, NodeFlags, System};

use crate::common::arena::{Arena, PAGE, Rights};
use crate::common::guest_memory::{Event, GuestMemory};

use super::{NODES, machine};

/// `FUTEX_NO_NODE`.
const NONE: u32 = u32::MAX;

const NUMA: NodeFlags = NodeFlags { numa: true, mpol: false };
const MPOL: NodeFlags = NodeFlags { numa: false, mpol: true };
const BOTH: NodeFlags = NodeFlags { numa: true, mpol: true };

/// A page with a word at its first address, whose memory policy is this.
fn with_policy(policy: Option<u32>) -> Arena {
    let arena = Arena::new(1);
    let word = arena.at(0);
    arena.with_policy(move |address| {
        assert_eq!(address, word, "the engine asks for the policy of the futex word");
        policy
    })
}

/// Resolves a word behind which `node` is stored. Returns the result, and the node that is stored afterwards.
fn resolved(system: &System, memory: &Arena, flags: NodeFlags, node: u32) -> (Result<Option<u32>, Error>, u32) {
    memory.word(4).store(node, Ordering::Relaxed);
    let result = system.resolve_node(memory, memory.at(0), flags);
    (result, memory.word(4).load(Ordering::Relaxed))
}

#[test]
fn word_that_names_no_node_gets_the_current_one_stored() {
    let (machine, system) = machine();
    let memory = with_policy(None);
    for here in 0..NODES {
        machine.go_to(here);
        for flags in [NUMA, BOTH] {
            assert_eq!(resolved(&system, &memory, flags, NONE), (Ok(Some(here)), here));
        }
    }
    assert_eq!(memory.word(0).load(Ordering::Relaxed), 0, "the futex itself is not touched");
}

#[test]
fn policy_comes_before_the_current_node() {
    let (machine, system) = machine();
    machine.go_to(1);
    assert_eq!(resolved(&system, &with_policy(Some(2)), BOTH, NONE), (Ok(Some(2)), 2));
    assert_eq!(resolved(&system, &with_policy(Some(2)), NUMA, NONE), (Ok(Some(1)), 1), "the call did not request it");
    assert_eq!(resolved(&system, &with_policy(Some(NODES)), BOTH, NONE), (Ok(Some(1)), 1), "no such node");
}

#[test]
fn system_call_asks_for_the_policy_if_its_flags_do() {
    const SIZE_U32: u64 = 2;
    const NUMA: u64 = 4;
    const MPOL: u64 = 8;
    const PRIVATE: u64 = 128;
    let (machine, system) = machine();
    machine.go_to(1);
    let domain: Domain = Domain::new(&system);
    let task = domain.task(1).expect("it is free");
    let memory = with_policy(Some(2));
    for (flags, node) in [(NUMA, 1), (NUMA | MPOL, 2), (MPOL, NONE), (0, NONE)] {
        memory.word(4).store(NONE, Ordering::Relaxed);
        let args = [memory.at(0), u64::from(u32::MAX), 1, SIZE_U32 | PRIVATE | flags, 0, 0];
        assert_eq!(domain.syscall(&task, &memory, Number::FutexWake, args), 0);
        assert_eq!(memory.word(4).load(Ordering::Relaxed), node, "{flags}");
    }
}

#[test]
fn policy_alone_names_a_node_or_none_and_touches_no_memory() {
    let (_machine, system) = machine();
    for (policy, node) in [(None, None), (Some(2), Some(2)), (Some(NODES), None)] {
        let memory = with_policy(policy);
        assert_eq!(resolved(&system, &memory, MPOL, NONE), (Ok(node), NONE));
        memory.protect(0, Rights::Nothing);
        assert_eq!(system.resolve_node(&memory, memory.at(0), MPOL), Ok(node));
    }
}

#[test]
fn node_that_cannot_be_read_or_written_is_a_fault() {
    let (_machine, system) = machine();
    let arena = Arena::new(1);
    let at = arena.at(0);
    arena.word(4).store(NONE, Ordering::Relaxed);
    arena.protect(0, Rights::Read);
    assert_eq!(system.resolve_node(&arena, at, NUMA), Err(Error::Fault), "it is to be written");
    arena.protect(0, Rights::Nothing);
    assert_eq!(system.resolve_node(&arena, at, NUMA), Err(Error::Fault), "it is to be read");
    assert_eq!(system.resolve_node(&arena, at + 4, NUMA), Err(Error::Invalid), "but the alignment comes first");
    arena.protect(0, Rights::ReadWrite);
    assert_eq!(arena.word(4).load(Ordering::Relaxed), NONE);
    for (node, result) in [(2, Ok(Some(2))), (NODES, Err(Error::Invalid))] {
        arena.word(4).store(node, Ordering::Relaxed);
        arena.protect(0, Rights::Read);
        assert_eq!(system.resolve_node(&arena, at, NUMA), result, "there is nothing to write");
        arena.protect(0, Rights::ReadWrite);
    }
    assert_eq!(system.resolve_node(&arena, at + PAGE, NUMA), Err(Error::Fault), "there is nothing");
}

#[test]
fn store_of_another_thread_wins() {
    let (_machine, system) = machine();
    for (other, result) in [(2, Ok(Some(2))), (NODES, Err(Error::Invalid))] {
        let words = GuestMemory::new();
        words.word(4).store(NONE, Ordering::Relaxed);
        // Another thread stores its node between the load and the exchange.
        let memory = GuestMemory::of_words(&words, |event, _| {
            if event == Event::CompareExchange {
                words.word(4).store(other, Ordering::Relaxed);
            }
            Ok(())
        });
        assert_eq!(system.resolve_node(&memory, memory.at(0), NUMA), result);
        assert_eq!(memory.word(4).load(Ordering::Relaxed), other);
    }
}

#[test]
fn faults_that_are_resolved_change_nothing() {
    let (machine, system) = machine();
    machine.go_to(1);
    for (first, faults) in (0..3).flat_map(|first| (0..10).map(move |faults| (first, faults))) {
        let (accesses, last_writes) = (AtomicUsize::new(0), AtomicBool::new(false));
        let memory = GuestMemory::with_hook(|event, address| {
            if let Event::FaultIn(access) = event {
                assert_eq!((address & 7, access == Access::Write), (4, last_writes.load(Ordering::Relaxed)));
                return Ok(());
            }
            last_writes.store(event == Event::CompareExchange, Ordering::Relaxed);
            let number = accesses.fetch_add(1, Ordering::Relaxed);
            if (first..first + faults).contains(&number) { Err(Fault) } else { Ok(()) }
        });
        memory.word(4).store(NONE, Ordering::Relaxed);
        assert_eq!(system.resolve_node(&memory, memory.at(0), NUMA), Ok(Some(1)));
        assert_eq!(memory.word(4).load(Ordering::Relaxed), 1);
    }
}

#[test]
fn tries_are_limited() {
    let (_machine, system) = machine();
    let faulting = GuestMemory::new();
    faulting.fault_next_loads(usize::MAX);
    assert_eq!(system.resolve_node(&faulting, faulting.at(0), NUMA), Err(Error::Fault));
    let spurious = GuestMemory::new();
    spurious.word(4).store(NONE, Ordering::Relaxed);
    spurious.fail_spuriously();
    assert_eq!(system.resolve_node(&spurious, spurious.at(0), NUMA), Err(Error::Fault));
    assert!(spurious.loads() < 10_000);
}
