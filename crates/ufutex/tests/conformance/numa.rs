//! futex2 words with a NUMA node. The kernel and the engine must return the same errors, write the same node into the
//! word and let the same pairs of operations find each other.

use std::sync::atomic::Ordering;
use std::task::Waker;

use ufutex::{
    Access, At, Domain, DomainOptions, Error, Fault, GuestWord, NodeFlags, Scope, System, UserMemory, WaitOptions,
    Waiter, Width,
    platform::{HostTopology, Topology},
    syscall::Number,
};

use crate::common::arena::{Arena, PAGE, Rights};
use crate::common::kernel::{pointer, syscall};
use crate::common::skipped::skip;
use crate::common::sleeping::Sleeping;

const SIZE_U32: u32 = 2;
const NUMA: u32 = 4;
const MPOL: u32 = 8;
const PRIVATE: u32 = 128;

const SYS_FUTEX_WAKE: libc::c_long = 454;
const SYS_FUTEX_WAIT: libc::c_long = 455;

/// The result of a call: a number of waiters, or `-errno`.
type Answer = i64;

/// A page with or without the memory policy to prefer node 0.
struct Memory {
    arena: Arena,
    prefers_0: bool,
}

impl Memory {
    fn new() -> Self {
        Self { arena: Arena::new(1), prefers_0: false }
    }

    fn preferring_0(arena: Arena) -> Option<Self> {
        prefer_0(arena.at(0)).then(|| Self { arena: arena.with_policy(|_| Some(0)), prefers_0: true })
    }

    /// Private and shared memory, without a policy and with one.
    fn all() -> impl Iterator<Item = Self> {
        let arenas = || [Arena::new(1), Arena::shared(1, 1)];
        let plain = arenas().into_iter().map(|arena| Self { arena, prefers_0: false });
        plain.chain(arenas().into_iter().filter_map(Self::preferring_0))
    }
}

/// Sets the policy of a page to prefer node 0. Returns `false`, and prints why, where mbind(2) is not permitted.
fn prefer_0(page: u64) -> bool {
    const MPOL_PREFERRED: u64 = 1;
    let nodes = 1u64;
    let args = [page, PAGE, MPOL_PREFERRED, pointer(&raw const nodes), 8, 0];
    // SAFETY: a mapping of our own, whose contents mbind(2) does not change.
    let result = unsafe { syscall(libc::SYS_mbind, args) };
    if result != 0 {
        skip(format_args!("mbind(2) is not permitted here: errno {}", -result));
    }
    result == 0
}

fn kernel_wake(address: u64, flags: u32) -> Answer {
    kernel_call(SYS_FUTEX_WAKE, [address, u32::MAX.into(), i32::MAX as u64, flags.into(), 0, 0])
}

fn kernel_wait(address: u64, expected: u32, flags: u32) -> Answer {
    let clock = libc::CLOCK_MONOTONIC as u64;
    kernel_call(SYS_FUTEX_WAIT, [address, expected.into(), u32::MAX.into(), flags.into(), 0, clock])
}

fn kernel_call(number: libc::c_long, args: [u64; 6]) -> Answer {
    // SAFETY: the calls write only node numbers, into memory of the test.
    unsafe { syscall(number, args) as Answer }
}

/// Whether the kernel has `FUTEX2_NUMA` and `FUTEX2_MPOL`. Prints why the test is skipped if not.
fn kernel_has_nodes() -> bool {
    let arena = Arena::new(1);
    let has = [NUMA, MPOL].iter().all(|flag| kernel_wake(arena.at(0), SIZE_U32 | PRIVATE | flag) == 0);
    if !has {
        skip("this kernel has no FUTEX2_NUMA and FUTEX2_MPOL (Linux 6.16)");
    }
    has
}

/// Evaluates `$use` with `$word` as the target for the word at `address` with these flags. Returns `-errno` if the
/// flags or the address are invalid.
macro_rules! with_word {
    ($engine:expr, $memory:expr, $address:expr, $flags:expr, |$word:ident| $use:expr) => {{
        let (memory, address, flags): (&Arena, u64, u32) = (&$memory.arena, $address, $flags);
        let node_flags = NodeFlags { numa: flags & NUMA != 0, mpol: flags & MPOL != 0 };
        let node = match $engine.system.resolve_node(memory, address, node_flags) {
            Ok(node) => node,
            Err(error) => return -Answer::from(error.errno()),
        };
        let guest = GuestWord::new(memory, address, Width::U32).expect("resolve_node has looked at the alignment");
        let scope = if flags & PRIVATE != 0 { Ok(Scope::Private) } else { memory.scope(address, Access::Read) };
        macro_rules! on_its_node {
            ($target:expr) => {
                match node {
                    None => {
                        let $word = $target;
                        $use
                    }
                    Some(node) => {
                        let $word = $engine.system.on_node($target, node).expect("resolve_node has looked at it");
                        $use
                    }
                }
            };
        }
        match scope {
            Err(Fault) => -Answer::from(Error::Fault.errno()),
            Ok(Scope::Private) => on_its_node!(guest),
            Ok(Scope::AddressSpace) => on_its_node!(At::address_space(guest)),
            Ok(Scope::Object { id, offset }) => on_its_node!(At::object(guest, id, offset)),
        }
    }};
}

struct Engine {
    system: System,
    domain: Domain,
}

impl Engine {
    fn new() -> Self {
        let system = System::new();
        let domain = Domain::with_options(&system, DomainOptions::new());
        Self { system, domain }
    }

    fn wake(&self, memory: &Memory, address: u64, flags: u32) -> Answer {
        with_word!(self, memory, address, flags, |word| self.domain.wake(word, usize::MAX) as Answer)
    }

    /// A wait that must not sleep.
    fn wait(&self, memory: &Memory, address: u64, expected: u64, flags: u32) -> Answer {
        let mut waiter = Box::pin(Waiter::new());
        let (options, waker) = (WaitOptions::new(), Waker::noop().clone());
        with_word!(self, memory, address, flags, |word| {
            match self.domain.prepare_with(waiter.as_mut(), word, expected, &options, waker) {
                Ok(_) => panic!("the wait would sleep"),
                Err(error) => -Answer::from(error.errno()),
            }
        })
    }

    /// Makes a wait with the flags `waits` and a wake with the flags `wakes`. Returns the number of woken waiters, and
    /// the node that each call wrote.
    fn matches(&self, memory: &Memory, waits: u32, wakes: u32) -> (Answer, [u32; 2]) {
        let mut waiter = Box::pin(Waiter::new());
        let (options, waker) = (WaitOptions::new(), Waker::noop().clone());
        let mut nodes = [0; 2];
        memory.arena.word(4).store(u32::MAX, Ordering::Relaxed);
        let meets = || -> Answer {
            with_word!(self, memory, memory.arena.at(0), waits, |word| {
                let queued =
                    self.domain.prepare_with(waiter.as_mut(), word, 0, &options, waker).expect("the word is 0");
                nodes[0] = memory.arena.word(4).swap(u32::MAX, Ordering::Relaxed);
                let woken = self.wake(memory, memory.arena.at(0), wakes);
                nodes[1] = memory.arena.word(4).load(Ordering::Relaxed);
                assert_eq!(queued.is_woken(), woken == 1);
                woken
            })
        };
        (meets(), nodes)
    }
}

/// As `Engine::matches`.
fn kernel_matches(memory: &Memory, waits: u32, wakes: u32) -> (Answer, [u32; 2]) {
    let (address, word) = (memory.arena.at(0), memory.arena.word(4));
    word.store(u32::MAX, Ordering::Relaxed);
    let waiter = Sleeping::start(move || kernel_wait(address, 0, waits));
    waiter.until_asleep(|number, _| number == SYS_FUTEX_WAIT);
    let waited_on = word.swap(u32::MAX, Ordering::Relaxed);
    let woken = kernel_wake(address, wakes);
    let woken_on = word.load(Ordering::Relaxed);
    if woken == 0 {
        word.store(waited_on, Ordering::Relaxed);
        assert_eq!(kernel_wake(address, waits), 1, "it waited");
    }
    assert_eq!(waiter.outcome(), 0);
    (woken, [waited_on, woken_on])
}

fn kinds() -> impl Iterator<Item = u32> {
    [0, NUMA, MPOL, NUMA | MPOL].into_iter().flat_map(|node| [PRIVATE, 0].map(|private| SIZE_U32 | node | private))
}

/// Whether both wrote the same node. On a host with several nodes the thread may have migrated between the two calls.
fn same_node(kernels: u32, ours: u32) -> bool {
    let host = HostTopology::get();
    kernels == ours || (host.nodes() > 1 && host.has_node(kernels) && host.has_node(ours))
}

#[test]
fn words_with_a_node_fail_as_the_kernels_do_and_get_the_node_that_the_kernel_writes() {
    if !kernel_has_nodes() {
        return;
    }
    let engine = Engine::new();
    let beyond = HostTopology::get().nodes() as u32;
    for memory in Memory::all() {
        let word = memory.arena.word(4);
        for (flags, node, rights, offset) in kinds()
            .flat_map(|flags| [0, u32::MAX, beyond, u32::MAX - 1, 1024].map(|node| (flags, node)))
            .flat_map(|(flags, node)| {
                [Rights::Nothing, Rights::Read, Rights::ReadWrite]
                    .into_iter()
                    .flat_map(move |rights| [0, 2, 4].map(|offset| (flags, node, rights, offset)))
            })
        {
            let run = |operation: &dyn Fn() -> Answer| {
                word.store(node, Ordering::Relaxed);
                memory.arena.protect(0, rights);
                let answer = operation();
                memory.arena.protect(0, Rights::ReadWrite);
                (answer, word.load(Ordering::Relaxed))
            };
            let address = memory.arena.at(offset);
            let what = format!(
                "flags {flags}, node {}, {rights:?}, offset {offset}, policy {}",
                node as i32, memory.prefers_0
            );
            let (kernels, ours) = (run(&|| kernel_wake(address, flags)), run(&|| engine.wake(&memory, address, flags)));
            assert_eq!(kernels.0, ours.0, "wake: {what}");
            assert!(same_node(kernels.1, ours.1), "wake: {what}: {kernels:?}, {ours:?}");
            // The word holds 0 or the node, so the wait returns EAGAIN and does not sleep.
            let kernels = run(&|| kernel_wait(address, 77, flags));
            let ours = run(&|| engine.wait(&memory, address, 77, flags));
            assert_eq!(kernels.0, ours.0, "wait: {what}");
            assert!(same_node(kernels.1, ours.1), "wait: {what}: {kernels:?}, {ours:?}");
        }
    }
}

/// Calls with two words, at offsets 0 and 8. Some have an invalid argument, which is found before or after a node is
/// written.
#[test]
fn calls_refuse_in_the_kernels_order_and_write_the_nodes_that_it_writes() {
    if !kernel_has_nodes() {
        return;
    }
    const ARRAY: u64 = 64;
    let engine = Engine::new();
    let task = engine.domain.task(1).expect("the TID is free");
    let memory = Memory::new();
    let (at, all) = (memory.arena.at(0), u64::from(u32::MAX));
    let beyond = HostTopology::get().nodes() as u32;
    let calls = |flags: u64| {
        [
            (Number::FutexWake, 454, [at, all, 0, flags, 0, 0]),
            (Number::FutexWake, 454, [at, 0, 1, flags, 0, 0]),
            (Number::FutexWake, 454, [at, all, 1, flags | 16, 0, 0]),
            (Number::FutexWake, 454, [at, all, 1, flags & !3, 0, 0]),
            (Number::FutexWait, 455, [at, 1, all, flags, 0, 1]),
            (Number::FutexWait, 455, [at, 1, 0, flags, 0, 1]),
            (Number::FutexWaitv, 449, [at + ARRAY, 2, 0, 0, 0, 0]),
            (Number::FutexRequeue, 456, [at + ARRAY, 0, 1, 1, 0, 0]),
            (Number::FutexRequeue, 456, [at + ARRAY, 0, all, 1, 0, 0]),
        ]
    };
    let nodes = [0, u32::MAX, beyond];
    let node_pairs = || nodes.into_iter().flat_map(|first| nodes.map(|second| [first, second]));
    // Each tuple: the expected value of the first word, the offset of the second word, and additional flags of the
    // second word. The expected value of the second word is 77, which it does not hold, so no wait sleeps.
    let arrays = [(1, 8, 0), (0, 8, 0), (0, 12, 0), (0, 8, u64::from(PRIVATE)), (0, 8, 1 << 32)];
    for (flags, pair, (expected, second, besides)) in kinds()
        .flat_map(|flags| node_pairs().map(move |pair| (flags, pair)))
        .flat_map(|(flags, pair)| arrays.map(|array| (flags, pair, array)))
    {
        let word = |value: u64, address: u64, flags: u64| [value, address, flags].map(u64::to_ne_bytes).concat();
        let flags = u64::from(flags);
        memory.arena.write(ARRAY, &word(expected, at, flags));
        memory.arena.write(ARRAY + 24, &word(77, at + second, flags ^ besides));
        for (number, kernels_number, args) in calls(flags) {
            let run = |call: &dyn Fn() -> Answer| {
                memory.arena.word(4).store(pair[0], Ordering::Relaxed);
                memory.arena.word(12).store(pair[1], Ordering::Relaxed);
                (call(), [4, 12].map(|offset| memory.arena.word(offset).load(Ordering::Relaxed)))
            };
            let kernels = run(&|| kernel_call(kernels_number, args));
            let ours = run(&|| engine.domain.syscall(&task, &memory.arena, number, args) as Answer);
            let what = format!("{number:?} {args:x?}, nodes {pair:x?}, array {expected} {second} {besides}");
            assert_eq!(kernels.0, ours.0, "{what}");
            let is_same = std::iter::zip(kernels.1, ours.1).all(|(kernels, ours)| same_node(kernels, ours));
            assert!(is_same, "{what}: {kernels:x?}, {ours:x?}");
        }
    }
}

#[test]
fn addresses_outside_user_space_fail_as_in_the_kernel() {
    if !kernel_has_nodes() {
        return;
    }
    let engine = Engine::new();
    let memory = Memory::new();
    let kernels_half = 0xffff_8000_0000_0000;
    for flags in kinds() {
        for address in [0, 8, 12, kernels_half, kernels_half + 4, kernels_half + 2, u64::MAX - 7] {
            assert_eq!(
                kernel_wake(address, flags),
                engine.wake(&memory, address, flags),
                "flags {flags}, address {address:#x}"
            );
        }
    }
}

#[test]
fn pairs_of_operations_match_as_in_the_kernel() {
    if !kernel_has_nodes() {
        return;
    }
    let engine = Engine::new();
    for memory in Memory::all() {
        for (waits, wakes) in kinds().flat_map(|waits| kinds().map(move |wakes| (waits, wakes))) {
            let (kernels, ours) = (kernel_matches(&memory, waits, wakes), engine.matches(&memory, waits, wakes));
            let what = format!("waits {waits}, wakes {wakes}, policy {}", memory.prefers_0);
            if HostTopology::get().nodes() > 1 {
                skip("the machine has several nodes, and the bodies expect one");
                continue;
            }
            assert_eq!(kernels, ours, "{what}");
        }
    }
}

/// The words of one call may have different nodes, or one of them a node and the other none.
#[test]
fn requeues_between_policies_are_those_of_the_kernel() {
    if !kernel_has_nodes() {
        return;
    }
    const FLAGS: u32 = SIZE_U32 | PRIVATE | MPOL;
    for prefers_0 in [[false, false], [true, false], [false, true], [true, true]] {
        let arena = Arena::new(3);
        let [from, to, array] = [0, 1, 2].map(|page| arena.at(page * PAGE));
        if !std::iter::zip(prefers_0, [from, to]).all(|(prefers_0, page)| !prefers_0 || prefer_0(page)) {
            return;
        }
        let node_of = move |page, at, prefers_0: bool| (prefers_0 && (page..page + PAGE).contains(&at)).then_some(0);
        let policy = move |at| node_of(from, at, prefers_0[0]).or(node_of(to, at, prefers_0[1]));
        let memory = Memory { arena: arena.with_policy(policy), prefers_0: true };
        let expect = |value: u64| {
            let words = [value, from, FLAGS.into(), 0, to, FLAGS.into()];
            memory.arena.write(2 * PAGE, words.map(u64::to_ne_bytes).as_flattened());
        };
        let args = [array, 0, 0, 1, 0, 0];
        let kernel_requeue = || kernel_call(456, args);
        let engine = Engine::new();
        let task = engine.domain.task(1).expect("the TID is free");
        let requeue = || engine.domain.syscall(&task, &memory.arena, Number::FutexRequeue, args) as Answer;

        expect(1);
        assert_eq!(kernel_requeue(), requeue(), "another value, policies {prefers_0:?}");
        expect(0);
        assert_eq!(kernel_requeue(), requeue(), "nobody waits, policies {prefers_0:?}");
        let waiter = Sleeping::start(move || kernel_wait(from, 0, FLAGS));
        waiter.until_asleep(|number, _| number == SYS_FUTEX_WAIT);
        let kernels = [kernel_requeue(), kernel_wake(from, FLAGS), kernel_wake(to, FLAGS)];
        assert_eq!(waiter.outcome(), 0);
        let mut waiter = Box::pin(Waiter::new());
        let (options, waker) = (WaitOptions::new(), Waker::noop().clone());
        let woken = || -> Answer {
            with_word!(engine, memory, from, FLAGS, |word| {
                let queued = engine.domain.prepare_with(waiter.as_mut(), word, 0, &options, waker).expect("it is 0");
                let ours = [requeue(), engine.wake(&memory, from, FLAGS), engine.wake(&memory, to, FLAGS)];
                assert_eq!(kernels, ours, "policies {prefers_0:?}");
                queued.is_woken().into()
            })
        };
        assert_eq!(woken(), 1);
    }
}
