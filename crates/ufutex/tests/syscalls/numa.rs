//! `FUTEX2_NUMA` and `FUTEX2_MPOL`, as far as they can be tested on one node.

use crate::call::Call;
use crate::calls::{ALL, ANY, Entry, MPOL, NUMA};
use crate::common::arena::Rights;
use crate::common::errno::{EAGAIN, EFAULT, EINVAL};
use crate::machine::Machine;
use crate::memory::Word;
use crate::on_every_machine;

const EVERY: u64 = ANY as u64;
/// `FUTEX_NO_NODE`
const NO_NODE: u32 = u32::MAX;

/// A futex word and the word after it, which holds the node.
fn with_node(m: &Machine, node: u32) -> [Word; 2] {
    let word = m.word(0);
    let at = Word(word.0 + 4);
    at.set(node);
    [word, at]
}

fn wait(m: &Machine, word: impl Into<u64>, expected: u64, flags: u32) -> Call {
    m.wait2(word, expected, EVERY).argument(3, (m.flags() | flags).into())
}

fn wake(m: &Machine, word: impl Into<u64>, flags: u32) -> Call {
    m.wake2(word, EVERY, ALL).argument(3, (m.flags() | flags).into())
}

fn wake_finds_a_waiter_on_its_node(m: &Machine) {
    let ([w, t], [word, node]) = (m.threads(), with_node(m, 0));
    let waiting = w.begin(wait(m, word, 0, NUMA));
    assert_eq!(node.get(), 0);
    assert_eq!(t.call(wake(m, word, NUMA)), 1);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(t.call(wake(m, word, NUMA)), 0);
}

fn no_node_is_replaced_by_the_chosen_node(m: &Machine) {
    let ([w, t], [word, node]) = (m.threads(), with_node(m, NO_NODE));
    let waiting = w.begin(wait(m, word, 0, NUMA));
    let taken = node.get();
    assert!(taken < 1024, "node {taken:#x}");
    assert_eq!(t.call(wake(m, word, NUMA)), 1);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(node.get(), taken);
    assert_eq!(word.get(), 0);
}

fn every_call_replaces_it(m: &Machine) {
    let t = m.thread();
    let [word, node] = with_node(m, NO_NODE);
    assert_eq!(t.call(wake(m, word, NUMA)), 0);
    assert_ne!(node.get(), NO_NODE);
    let [word, node] = with_node(m, NO_NODE);
    assert_eq!(t.call(wait(m, word, 1, NUMA)), EAGAIN);
    assert_ne!(node.get(), NO_NODE);
    let ([from, its_node], [to, others_node]) = (with_node(m, NO_NODE), with_node(m, NO_NODE));
    let flags = m.flags() | NUMA;
    let pair = [Entry { flags, ..m.entry(from, 1) }, Entry { flags, ..m.entry(to, 0) }];
    assert_eq!(t.call(m.requeue2(&pair, 1, 1)), EAGAIN);
    assert_ne!(its_node.get(), NO_NODE);
    assert_ne!(others_node.get(), NO_NODE);
    let [word, node] = with_node(m, NO_NODE);
    assert_eq!(t.call(m.waitv(&[Entry { flags, ..m.entry(word, 1) }])), EAGAIN);
    assert_ne!(node.get(), NO_NODE);
}

fn impossible_node_is_einval(m: &Machine) {
    let t = m.thread();
    for bad in [1024, 4096, 1 << 31, NO_NODE - 1] {
        let [word, node] = with_node(m, bad);
        assert_eq!(t.call(wake(m, word, NUMA)), EINVAL, "{bad:#x}");
        assert_eq!(t.call(wait(m, word, 0, NUMA)), EINVAL, "{bad:#x}");
        assert_eq!(t.call(wait(m, word, 0, NUMA | MPOL)), EINVAL, "{bad:#x}");
        assert_eq!(node.get(), bad);
        // Without the flag the word after it is ignored.
        assert_eq!(t.call(wake(m, word, 0)), 0);
    }
}

fn word_and_node_must_be_aligned_together(m: &Machine) {
    let (t, [word, node]) = (m.thread(), with_node(m, 0));
    Word(node.0 + 4).set(0);
    assert_eq!(t.call(wake(m, node, NUMA)), EINVAL);
    assert_eq!(t.call(wait(m, node, 1, NUMA)), EINVAL);
    assert_eq!(t.call(wake(m, word.0 + 2, NUMA)), EINVAL);
    assert_eq!(t.call(wake(m, node, 0)), 0);
    assert_eq!(t.call(wake(m, node, MPOL)), 0, "a policy needs no room");
}

fn node_is_read_even_of_private_words(m: &Machine) {
    let (t, page) = (m.thread(), m.page(Rights::Nothing));
    assert_eq!(t.call(wake(m, page, NUMA)), EFAULT);
    assert_eq!(t.call(wait(m, page, 0, NUMA)), EFAULT);
    assert_eq!(t.call(wake(m, 0u64, NUMA)), EFAULT);
    assert_eq!(t.call(wake(m, 1u64 << 63, NUMA)), EFAULT);
}

fn node_is_written_only_in_place_of_no_node(m: &Machine) {
    let (t, page) = (m.thread(), m.page(Rights::ReadWrite));
    let shared = if m.is_private() { 0 } else { EFAULT };
    m.protect(page, Rights::Read);
    assert_eq!(t.call(wake(m, page, NUMA)), shared);
    m.protect(page, Rights::ReadWrite);
    Word(page + 4).set(NO_NODE);
    m.protect(page, Rights::Read);
    assert_eq!(t.call(wake(m, page, NUMA)), EFAULT);
    assert_eq!(Word(page + 4).get(), NO_NODE);
}

fn requeue_between_nodes(m: &Machine) {
    let ([w, t], [from, _], [to, _]) = (m.threads(), with_node(m, 0), with_node(m, NO_NODE));
    let flags = m.flags() | NUMA;
    let waiting = w.begin(wait(m, from, 0, NUMA));
    let pair = [Entry { flags, ..m.entry(from, 0) }, Entry { flags, ..m.entry(to, 0) }];
    assert_eq!(t.call(m.requeue2(&pair, 0, 1)), 1);
    assert_eq!(t.call(wake(m, from, NUMA)), 0);
    waiting.stays_asleep();
    assert_eq!(t.call(wake(m, to, NUMA)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn words_with_and_without_a_node_can_be_waited_for_together(m: &Machine) {
    let ([w, t], [a, _], b) = (m.threads(), with_node(m, 0), m.word(0));
    let entries = [Entry { flags: m.flags() | NUMA, ..m.entry(a, 0) }, m.entry(b, 0)];
    let waiting = w.begin(m.waitv(&entries));
    assert_eq!(t.call(wake(m, b, 0)), 1);
    assert_eq!(waiting.finish(), 1);
    let waiting = w.begin(m.waitv(&entries));
    assert_eq!(t.call(wake(m, a, NUMA)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn memory_without_a_policy_has_no_node_of_its_own(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    let waiting = w.begin(wait(m, word, 0, MPOL));
    assert_eq!(t.call(wake(m, word, MPOL)), 1);
    assert_eq!(waiting.finish(), 0);
    let [word, node] = with_node(m, NO_NODE);
    let waiting = w.begin(wait(m, word, 0, NUMA | MPOL));
    assert_ne!(node.get(), NO_NODE);
    assert_eq!(t.call(wake(m, word, NUMA | MPOL)), 1);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    wake_finds_a_waiter_on_its_node,
    no_node_is_replaced_by_the_chosen_node,
    every_call_replaces_it,
    impossible_node_is_einval,
    word_and_node_must_be_aligned_together,
    node_is_read_even_of_private_words,
    node_is_written_only_in_place_of_no_node,
    requeue_between_nodes,
    words_with_and_without_a_node_can_be_waited_for_together,
    memory_without_a_policy_has_no_node_of_its_own,
];
