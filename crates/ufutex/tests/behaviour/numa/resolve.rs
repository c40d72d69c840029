//! How a futex2 word comes by its node. What the kernel says of the same words is in the conformance suite.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use ufutex::layout::Lean;
use ufutex::{Access, Domain, Error, Fault, Guest, NodeFlags, OnNode, Scope, System, UserMemory, Width};

use crate::common::arena::{Arena, PAGE, Rights};

use super::{NODES, machine};

/// `FUTEX_NO_NODE`.
const NONE: u32 = u32::MAX;

const PLAIN: NodeFlags = NodeFlags { numa: false, mpol: false };
const NUMA: NodeFlags = NodeFlags { numa: true, mpol: false };
const MPOL: NodeFlags = NodeFlags { numa: false, mpol: true };
const BOTH: NodeFlags = NodeFlags { numa: true, mpol: true };

/// An arena with a memory policy.
struct WithPolicy {
    arena: Arena,
    policy: Option<u32>,
}

impl WithPolicy {
    fn new(policy: Option<u32>) -> Self {
        Self { arena: Arena::new(1), policy }
    }
}

impl UserMemory for WithPolicy {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        self.arena.load(address, width)
    }
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        self.arena.compare_exchange(address, width, current, new)
    }
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        self.arena.fault_in(address, access)
    }
    fn scope(&self, address: u64, access: Access) -> Result<Scope, Fault> {
        self.arena.scope(address, access)
    }
    fn policy_node(&self, address: u64) -> Option<u32> {
        assert_eq!(address, self.arena.at(0), "the word's own address");
        self.policy
    }
}

/// What becomes of a word whose node is `node`: the answer, and what the node is then.
fn resolved(
    system: &System<Lean>,
    memory: &WithPolicy,
    flags: NodeFlags,
    node: u32,
) -> (Result<Option<u32>, Error>, u32) {
    memory.arena.word(4).store(node, Ordering::Relaxed);
    let result = system.resolve_node(memory, memory.arena.at(0), flags);
    (result, memory.arena.word(4).load(Ordering::Relaxed))
}

#[test]
fn word_that_names_no_node_gets_the_current_one_and_says_so_from_then_on() {
    let (machine, system) = machine::<Lean>();
    let memory = WithPolicy::new(None);
    for here in 0..NODES {
        machine.go_to(here);
        for flags in [NUMA, BOTH] {
            assert_eq!(resolved(&system, &memory, flags, NONE), (Ok(Some(here)), here));
        }
    }
    assert_eq!(memory.arena.word(0).load(Ordering::Relaxed), 0, "the futex itself is not touched");
}

#[test]
fn word_that_names_a_node_keeps_it() {
    let (machine, system) = machine::<Lean>();
    machine.go_to(1);
    for policy in [None, Some(2)] {
        let memory = WithPolicy::new(policy);
        for (flags, node) in [(NUMA, 0), (NUMA, 2), (BOTH, 0), (BOTH, 1)] {
            assert_eq!(resolved(&system, &memory, flags, node), (Ok(Some(node)), node));
        }
    }
}

#[test]
fn policy_comes_before_the_current_node() {
    let (machine, system) = machine::<Lean>();
    machine.go_to(1);
    assert_eq!(resolved(&system, &WithPolicy::new(Some(2)), BOTH, NONE), (Ok(Some(2)), 2));
    assert_eq!(resolved(&system, &WithPolicy::new(Some(2)), NUMA, NONE), (Ok(Some(1)), 1), "nobody asked for it");
    assert_eq!(resolved(&system, &WithPolicy::new(Some(NODES)), BOTH, NONE), (Ok(Some(1)), 1), "no such node");
}

#[test]
fn policy_alone_names_a_node_or_none_and_touches_no_memory() {
    let (_machine, system) = machine::<Lean>();
    for (policy, node) in [(None, None), (Some(2), Some(2)), (Some(NODES), None)] {
        let memory = WithPolicy::new(policy);
        assert_eq!(resolved(&system, &memory, MPOL, NONE), (Ok(node), NONE));
        memory.arena.protect(0, Rights::None);
        assert_eq!(system.resolve_node(&memory, memory.arena.at(0), MPOL), Ok(node));
    }
}

#[test]
fn without_flags_there_is_no_node() {
    let (_machine, system) = machine::<Lean>();
    let memory = WithPolicy::new(Some(2));
    memory.arena.protect(0, Rights::None);
    assert_eq!(system.resolve_node(&memory, memory.arena.at(0), PLAIN), Ok(None));
    assert_eq!(system.resolve_node(&memory, memory.arena.at(4), PLAIN), Ok(None));
}

#[test]
fn node_that_is_not_there_is_invalid_and_stays_as_it_is() {
    let (_machine, system) = machine::<Lean>();
    let memory = WithPolicy::new(Some(2));
    for node in [NODES, 1024, NONE - 1] {
        for flags in [NUMA, BOTH] {
            assert_eq!(resolved(&system, &memory, flags, node), (Err(Error::Invalid), node));
        }
    }
}

#[test]
fn address_is_a_multiple_of_the_whole_size() {
    let (_machine, system) = machine::<Lean>();
    let arena = Arena::new(1);
    for (offset, flags) in [(4, NUMA), (2, NUMA), (4, BOTH), (2, PLAIN), (1, MPOL)] {
        assert_eq!(system.resolve_node(&arena, arena.at(offset), flags), Err(Error::Invalid), "{offset}, {flags:?}");
    }
    assert_eq!(system.resolve_node(&arena, arena.at(4), MPOL), Ok(None));
    // The alignment comes first, then whether the guest may name the address.
    assert_eq!(system.resolve_node(&arena, (1 << 63) + 4, NUMA), Err(Error::Invalid));
    for (address, flags) in [(1 << 63, NUMA), (1 << 63, PLAIN), (1 << 63, MPOL), (u64::MAX - 7, NUMA)] {
        assert_eq!(system.resolve_node(&arena, address, flags), Err(Error::Fault));
    }
}

#[test]
fn node_that_cannot_be_read_or_written_is_a_fault() {
    let (_machine, system) = machine::<Lean>();
    let arena = Arena::new(1);
    let at = arena.at(0);
    arena.word(4).store(NONE, Ordering::Relaxed);
    arena.protect(0, Rights::Read);
    assert_eq!(system.resolve_node(&arena, at, NUMA), Err(Error::Fault), "it is to be written");
    arena.protect(0, Rights::None);
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
fn fresh_memory_names_node_0() {
    let (machine, system) = machine::<Lean>();
    machine.go_to(2);
    let arena = Arena::new(1);
    assert_eq!(system.resolve_node(&arena, arena.at(0), NUMA), Ok(Some(0)));
}

#[test]
fn wait_and_wake_that_name_no_node_meet_where_the_first_one_was() {
    let (machine, system) = machine::<Lean>();
    let domain: Domain = Domain::new(&system);
    let arena = Arena::new(1);
    let target = || -> OnNode<Guest<'_, Arena>> {
        let node = system.resolve_node(&arena, arena.at(0), NUMA).expect("it is there").expect("it has one");
        system
            .on_node(Guest::new(&arena, arena.at(0), Width::U32).expect("aligned"), node)
            .expect("there is such a node")
    };
    arena.word(4).store(NONE, Ordering::Relaxed);
    machine.go_to(2);
    let mut waiter = Box::pin(ufutex::Waiter::new());
    let queued = crate::common::waiters::queue(&domain, &mut waiter, target());
    machine.go_to(1);
    assert_eq!(domain.wake(target(), 1), 1);
    assert!(queued.is_woken());
    assert_eq!(arena.word(4).load(Ordering::Relaxed), 2);
}

/// A word on which somebody else always comes first, or whose accesses fault so many times.
struct Raced {
    node: AtomicU32,
    /// What somebody else writes just before we do.
    other: Option<u32>,
    /// How many accesses go well before the first fault.
    first_fault: usize,
    faults_left: AtomicUsize,
    accesses: AtomicUsize,
    /// Whether the last access was meant to write.
    has_written: AtomicBool,
    spurious: bool,
}

impl Raced {
    fn new(other: Option<u32>, faults: usize) -> Self {
        let [faults_left, accesses] = [faults, 0].map(AtomicUsize::new);
        Self {
            node: AtomicU32::new(NONE),
            other,
            first_fault: 0,
            faults_left,
            accesses,
            has_written: AtomicBool::new(false),
            spurious: false,
        }
    }

    fn access(&self, access: Access) -> Result<(), Fault> {
        self.has_written.store(access == Access::Write, Ordering::Relaxed);
        if self.accesses.fetch_add(1, Ordering::Relaxed) < self.first_fault {
            return Ok(());
        }
        let take = |left: usize| left.checked_sub(1);
        match self.faults_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Err(Fault),
            Err(_) => Ok(()),
        }
    }
}

impl UserMemory for Raced {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        assert_eq!((address, width), (0x1004, Width::U32));
        self.access(Access::Read)?;
        Ok(self.node.load(Ordering::Relaxed).into())
    }
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        assert_eq!((address, width, current), (0x1004, Width::U32, NONE.into()));
        self.access(Access::Write)?;
        if self.spurious {
            return Ok(Err(current));
        }
        if let Some(other) = self.other {
            self.node.store(other, Ordering::Relaxed);
        }
        let result = self.node.compare_exchange(current as u32, new as u32, Ordering::Relaxed, Ordering::Relaxed);
        Ok(result.map(u64::from).map_err(u64::from))
    }
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault> {
        assert_eq!(address, 0x1004);
        assert!(self.spurious || (access == Access::Write) == self.has_written.load(Ordering::Relaxed));
        Ok(())
    }
}

#[test]
fn who_comes_second_takes_the_node_of_who_came_first() {
    let (_machine, system) = machine::<Lean>();
    for (other, result) in [(2, Ok(Some(2))), (NODES, Err(Error::Invalid))] {
        let memory = Raced::new(Some(other), 0);
        assert_eq!(system.resolve_node(&memory, 0x1000, NUMA), result);
        assert_eq!(memory.node.load(Ordering::Relaxed), other);
    }
}

#[test]
fn faults_that_are_cured_do_no_harm() {
    let (machine, system) = machine::<Lean>();
    machine.go_to(1);
    for (first_fault, faults) in (0..3).flat_map(|first| (0..10).map(move |faults| (first, faults))) {
        let memory = Raced { first_fault, ..Raced::new(None, faults) };
        assert_eq!(system.resolve_node(&memory, 0x1000, NUMA), Ok(Some(1)));
        assert_eq!(memory.node.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn nobody_tries_for_ever() {
    let (_machine, system) = machine::<Lean>();
    assert_eq!(system.resolve_node(&Raced::new(None, usize::MAX), 0x1000, NUMA), Err(Error::Fault));
    let spurious = Raced { spurious: true, ..Raced::new(None, 0) };
    assert_eq!(system.resolve_node(&spurious, 0x1000, NUMA), Err(Error::Fault));
    assert!(spurious.accesses.into_inner() < 10_000);
}
