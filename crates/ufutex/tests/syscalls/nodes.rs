//! futex2 words with a NUMA node. Whatever the flags, the nodes and the rights, the engine answers as the kernel does, writes
//! the same node into the word and lets the same pairs of operations find each other.

use ufutex::platform::{HostTopology, Topology};

use crate::call::{Call, Number};
use crate::calls::{ALL, ANY, Entry, MPOL, NUMA, PRIVATE, SIZE_U32};
use crate::common::arena::{PAGE, Rights};
use crate::machine::{Machine, Sharing, is_possible};
use crate::memory::Word;
use crate::{engine, kernel};

/// `FUTEX_NO_NODE`
const NO_NODE: u32 = u32::MAX;

/// What a call was, its result, and the nodes that two words hold afterwards.
type Observed = (String, isize, [u32; 2]);

/// Makes the calls of `observe` of the kernel and of the engine, and compares what it has observed.
fn compare(observe: impl Fn(&Machine) -> Vec<Observed>) {
    if !kernel::is_there() || !has_nodes() {
        return;
    }
    let kernels = observe(&kernel::machine(Sharing::Private));
    let ours = observe(&engine::machine(Sharing::Private));
    assert_eq!(kernels.len(), ours.len(), "the same calls");
    for ((what, kernels, kernels_nodes), (_, ours, our_nodes)) in std::iter::zip(kernels, ours) {
        assert_eq!(kernels, ours, "{what}");
        let is_same = std::iter::zip(kernels_nodes, our_nodes).all(|(kernels, ours)| same_node(kernels, ours));
        assert!(is_same, "{what}: {kernels_nodes:x?}, {our_nodes:x?}");
    }
}

/// Whether the kernel has `FUTEX2_NUMA` and `FUTEX2_MPOL`. Prints why the test is skipped if not.
fn has_nodes() -> bool {
    let m = kernel::machine(Sharing::Private);
    let (t, word) = (m.thread(), m.bytes(8));
    let has = [NUMA, MPOL].iter().all(|flag| t.call(wake(&m, word, SIZE_U32 | PRIVATE | flag)) == 0);
    is_possible((!has).then(|| "this kernel has no FUTEX2_NUMA and FUTEX2_MPOL (Linux 6.16)".to_owned()))
}

/// Whether both wrote the same node. On a host with several nodes the thread may have migrated between the two calls.
fn same_node(kernels: u32, ours: u32) -> bool {
    let host = HostTopology::get();
    kernels == ours || (host.nodes() > 1 && host.has_node(kernels) && host.has_node(ours))
}

fn kinds() -> impl Iterator<Item = u32> {
    [0, NUMA, MPOL, NUMA | MPOL].into_iter().flat_map(|node| [PRIVATE, 0].map(|private| SIZE_U32 | node | private))
}

fn wake(m: &Machine, address: u64, flags: u32) -> Call {
    m.wake2(address, ANY.into(), ALL).argument(3, flags.into())
}

fn wait(m: &Machine, address: u64, expected: u64, flags: u32) -> Call {
    m.wait2(address, expected, ANY.into()).argument(3, flags.into())
}

/// Pages of private memory and of an object, without a memory policy, and then with one if that is permitted.
fn on_pages(m: &Machine, mut observe: impl FnMut(u64, &str)) {
    let pages = [m.page(Rights::ReadWrite), m.object_page(Rights::ReadWrite)];
    pages.iter().for_each(|&page| observe(page, "no policy"));
    pages.iter().filter(|&&page| m.prefer_0(page)).for_each(|&page| observe(page, "policy"));
}

#[test]
fn words_with_a_node_fail_as_the_kernels_do_and_get_the_node_that_the_kernel_writes() {
    let beyond = HostTopology::get().nodes() as u32;
    compare(|m| {
        let (t, mut seen) = (m.thread(), Vec::new());
        on_pages(m, |page, policy| {
            for (flags, node) in
                kinds().flat_map(|flags| [0, NO_NODE, beyond, NO_NODE - 1, 1024].map(|node| (flags, node)))
            {
                for (rights, offset) in [Rights::Nothing, Rights::Read, Rights::ReadWrite]
                    .into_iter()
                    .flat_map(|rights| [0, 2, 4].map(|offset| (rights, offset)))
                {
                    // The word holds 0 or the node, so the wait returns EAGAIN and does not sleep.
                    for call in [wake(m, page + offset, flags), wait(m, page + offset, 77, flags)] {
                        Word(page + 4).set(node);
                        m.protect(page, rights);
                        let result = t.call(call);
                        m.protect(page, Rights::ReadWrite);
                        let (number, node) = (call.number, node as i32);
                        let what =
                            format!("{number:?}, flags {flags}, node {node}, {rights:?}, offset {offset}, {policy}");
                        seen.push((what, result, [Word(page + 4).get(), 0]));
                    }
                }
            }
        });
        seen
    });
}

/// Calls with two words, at offsets 0 and 8. Some have an invalid argument, which is found before or after a node is
/// written.
#[test]
fn calls_refuse_in_the_kernels_order_and_write_the_nodes_that_it_writes() {
    let all = u64::from(ANY);
    let nodes = [0, NO_NODE, HostTopology::get().nodes() as u32];
    // Each tuple: the expected value of the first word, the offset of the second word, and additional flags of the
    // second word. The expected value of the second word is 77, which it does not hold, so no wait sleeps.
    let arrays = [(1, 8, 0, 0), (0, 8, 0, 0), (0, 12, 0, 0), (0, 8, PRIVATE, 0), (0, 8, 0, 1)];
    compare(|m| {
        let (t, at, mut seen) = (m.thread(), m.page(Rights::ReadWrite), Vec::new());
        let [first, second] = [Word(at + 4), Word(at + 12)];
        for (flags, pair) in kinds()
            .flat_map(|flags| nodes.map(|node| (flags, node)))
            .flat_map(|(flags, node)| nodes.map(|other| (flags, [node, other])))
        {
            for (expected, offset, besides, reserved) in arrays {
                let array = m.entries(&[
                    Entry { value: expected, address: at, flags, reserved: 0 },
                    Entry { value: 77, address: at + offset, flags: flags ^ besides, reserved },
                ]);
                let flags = u64::from(flags);
                for (number, args) in [
                    (Number::FutexWake, [at, all, 0, flags, 0, 0]),
                    (Number::FutexWake, [at, 0, 1, flags, 0, 0]),
                    (Number::FutexWake, [at, all, 1, flags | 16, 0, 0]),
                    (Number::FutexWake, [at, all, 1, flags & !3, 0, 0]),
                    (Number::FutexWait, [at, 1, all, flags, 0, 1]),
                    (Number::FutexWait, [at, 1, 0, flags, 0, 1]),
                    (Number::FutexWaitv, [array, 2, 0, 0, 0, 0]),
                    (Number::FutexRequeue, [array, 0, 1, 1, 0, 0]),
                    (Number::FutexRequeue, [array, 0, all, 1, 0, 0]),
                ] {
                    first.set(pair[0]);
                    second.set(pair[1]);
                    let result = t.call(Call::new(number, args));
                    let what = format!(
                        "{number:?} {args:x?}, nodes {pair:x?}, array {expected} {offset} {besides} {reserved}"
                    );
                    seen.push((what, result, [first.get(), second.get()]));
                }
            }
        }
        seen
    });
}

#[test]
fn addresses_outside_user_space_fail_as_in_the_kernel() {
    let kernels_half = 0xffff_8000_0000_0000;
    compare(|m| {
        let t = m.thread();
        let addresses = [0, 8, 12, kernels_half, kernels_half + 4, kernels_half + 2, u64::MAX - 7];
        let calls = kinds().flat_map(|flags| addresses.map(|address| (flags, address)));
        let observe = |(flags, address)| {
            (format!("flags {flags}, address {address:#x}"), t.call(wake(m, address, flags)), [0; 2])
        };
        calls.map(observe).collect()
    });
}

#[test]
fn pairs_of_operations_match_as_in_the_kernel() {
    if !is_possible(
        (HostTopology::get().nodes() > 1)
            .then(|| "the machine has several nodes, and the bodies expect one".to_owned()),
    ) {
        return;
    }
    compare(|m| {
        let ([w, t], mut seen) = (m.threads(), Vec::new());
        on_pages(m, |page, policy| {
            let node = Word(page + 4);
            for (waits, wakes) in kinds().flat_map(|waits| kinds().map(move |wakes| (waits, wakes))) {
                node.set(NO_NODE);
                let waiting = w.begin(wait(m, page, 0, waits));
                let waited_on = node.get();
                node.set(NO_NODE);
                let woken = t.call(wake(m, page, wakes));
                let woken_on = node.get();
                if woken == 0 {
                    node.set(waited_on);
                    assert_eq!(t.call(wake(m, page, waits)), 1, "it waited");
                }
                assert_eq!(waiting.finish(), 0);
                seen.push((format!("waits {waits}, wakes {wakes}, {policy}"), woken, [waited_on, woken_on]));
            }
        });
        seen
    });
}

/// The words of one call may have different nodes, or one of them a node and the other none.
#[test]
fn requeues_between_policies_are_those_of_the_kernel() {
    const FLAGS: u32 = SIZE_U32 | PRIVATE | MPOL;
    compare(|m| {
        let ([w, t], mut seen) = (m.threads(), Vec::new());
        for prefer_0 in [[false, false], [true, false], [false, true], [true, true]] {
            let [from, to] = prefer_0.map(|_| m.page(Rights::ReadWrite));
            assert_ne!(from / PAGE, to / PAGE);
            if !std::iter::zip(prefer_0, [from, to]).all(|(prefers_0, page)| !prefers_0 || m.prefer_0(page)) {
                break;
            }
            let mut call = |what, call| {
                let result = t.call(call);
                seen.push((format!("{what}, policies {prefer_0:?}"), result, [0; 2]));
                result
            };
            let requeue = |expected| {
                let entry = |address| Entry { value: expected, address, flags: FLAGS, reserved: 0 };
                m.requeue2(&[entry(from), entry(to)], 0, 1)
            };
            call("another value", requeue(1));
            call("nobody waits", requeue(0));
            let waiting = w.begin(wait(m, from, 0, FLAGS));
            call("one waits", requeue(0));
            let woken = call("from", wake(m, from, FLAGS)) + call("to", wake(m, to, FLAGS));
            assert_eq!((woken, waiting.finish()), (1, 0));
        }
        seen
    });
}
