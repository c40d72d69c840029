//! Wheels beside a plain model, and the order and the batches of their work.

use super::*;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn due(wheel: &mut Wheel, now: u64) -> (Vec<(u64, u32)>, Option<u64>) {
    let mut due = Vec::new();
    loop {
        match wheel.next(now) {
            // SAFETY: the node is in a box that outlives the wheel.
            Next::Due(node) => due.push(unsafe { ((*node).deadline, (*node).tag) }),
            Next::Working => {}
            Next::Later => return (due, wheel.peek_in_turn()),
        }
    }
}

#[test]
fn what_is_due_comes_in_order_whatever_is_put_in_and_taken_out() {
    let mut state = 0x1234_5678_9abc_def1;
    for spread_log2 in [4, 10, 20, 34, 63] {
        let mut nodes: Vec<_> = (0..3000).map(|_| Box::new(WheelNode::new())).collect();
        let mut wheel = Wheel::new();
        let mut model: BTreeMap<(u64, u32), usize> = BTreeMap::new();
        let mut now = random(&mut state) >> 10;
        let mut number = 0;
        for _ in 0..200 {
            for _ in 0..random(&mut state) % 100 {
                let index = (random(&mut state) % 3000) as usize;
                let node: *mut WheelNode = &raw mut *nodes[index];
                // SAFETY: a node of `nodes`, which outlive the wheel.
                unsafe {
                    if wheel.remove(node) {
                        model.remove(&((*node).deadline, (*node).tag)).expect("the model has it too");
                    }
                    let deadline = now.saturating_add(random(&mut state) >> (64 - spread_log2));
                    (*node).tag = number;
                    wheel.insert(node, deadline, now);
                    model.insert((deadline, number), index);
                    number += 1;
                }
            }
            now = now.saturating_add(random(&mut state) >> (64 - spread_log2) >> 3);
            let (due, next) = due(&mut wheel, now);
            let mut expected = Vec::new();
            while let Some(entry) = model.first_entry()
                && entry.key().0 <= now
            {
                expected.push(*entry.key());
                entry.remove();
            }
            assert_eq!(due, expected);
            match (next, model.keys().next()) {
                (None, None) => {}
                (Some(time), Some(earliest)) => assert!(time > now && time <= earliest.0),
                (next, earliest) => panic!("{next:?} but {earliest:?}"),
            }
        }
    }
}

#[test]
fn a_lone_deadline_is_returned_exactly() {
    let mut wheel = Wheel::new();
    let mut node = WheelNode::new();
    // SAFETY: `node` outlives the wheel.
    unsafe { wheel.insert(&raw mut node, 1_000_000_007, 5) };
    assert_eq!((wheel.next(5), wheel.peek()), (Next::Later, Some(1_000_000_007)));
    assert_eq!((wheel.next(1_000_000_006), wheel.peek()), (Next::Later, Some(1_000_000_007)));
    assert!(matches!(wheel.next(1_000_000_007), Next::Due(_)));
    assert_eq!((wheel.next(u64::MAX), wheel.peek()), (Next::Later, None));
}

#[test]
fn many_at_one_time_come_as_they_were_put_in() {
    let mut wheel = Wheel::new();
    let mut nodes: Vec<_> = (0..1000).map(|_| Box::new(WheelNode::new())).collect();
    for (tag, node) in nodes.iter_mut().enumerate() {
        node.tag = tag as u32;
        // SAFETY: `nodes` outlive the wheel.
        unsafe { wheel.insert(&raw mut **node, 1 << 40, 7) };
    }
    let (due, next) = due(&mut wheel, 1 << 40);
    assert!(due.iter().map(|(_, tag)| *tag).eq(0..1000));
    assert_eq!(next, None);
}

/// The number of calls of `next` until no batch is left to be sorted, and the nodes that became due in these calls.
fn asked(wheel: &mut Wheel, now: u64) -> (usize, Vec<u32>) {
    let (mut times, mut due) = (0, Vec::new());
    loop {
        times += 1;
        match wheel.next(now) {
            // SAFETY: the node is in a box that outlives the wheel.
            Next::Due(node) => due.push(unsafe { (*node).tag }),
            Next::Working => {}
            Next::Later => return (times, due),
        }
    }
}

#[test]
fn nodes_are_placed_anew_a_batch_at_a_time() {
    const NODES: usize = 100 * BATCH;
    let mut wheel = Wheel::new();
    let mut nodes: Vec<_> = (0..NODES).map(|_| Box::new(WheelNode::new())).collect();
    for (tag, node) in nodes.iter_mut().enumerate() {
        node.tag = tag as u32;
        // SAFETY: `nodes` outlive the wheel.
        unsafe { wheel.insert(&raw mut **node, 1000 + tag as u64 * 1000, 500_000) };
    }
    wheel.set_back(999);
    assert_eq!(wheel.peek(), Some(0), "there is something to do at once");
    let (times, due_early) = asked(&mut wheel, 999);
    assert!(times >= 2 * NODES / BATCH, "{times} batches");
    assert_eq!((due_early, wheel.peek().is_some_and(|at| at <= 1000)), (Vec::new(), true));
    let (_, due) = asked(&mut wheel, u64::MAX >> 1);
    assert!(due.into_iter().eq(0..NODES as u32), "in order of their deadlines");
}

/// The latest nodes go down first. Until the others have followed, nobody may sleep until those.
#[test]
fn slot_that_is_being_emptied_is_work_to_be_done_at_once() {
    const NODES: u64 = 3 * BATCH as u64;
    let (first, last) = (1 << 20, (1 << 20) + NODES - 1);
    let mut wheel = Wheel::new();
    let mut nodes: Vec<_> = (0..NODES).map(|_| Box::new(WheelNode::new())).collect();
    for (node, deadline) in nodes.iter_mut().zip((first..=last).rev()) {
        // SAFETY: `nodes` outlive the wheel.
        unsafe { wheel.insert(&raw mut **node, deadline, 0) };
    }
    assert!(wheel.peek().is_some_and(|at| at <= first));
    let mut batches = 0;
    while wheel.next(first) == Next::Working {
        batches += 1;
        assert!(wheel.peek().is_some_and(|at| at <= first), "batch {batches}: {:?}", wheel.peek());
    }
    assert!(batches >= 2, "{batches} batches");
    let (due, next) = due(&mut wheel, last);
    assert!(due.into_iter().map(|(deadline, _)| deadline).eq(first + 1..=last) && next.is_none());
}

#[test]
fn what_a_turn_has_held_back_is_for_the_next_and_is_placed_a_batch_at_a_time() {
    const NODES: usize = 100 * BATCH;
    let mut wheel = Wheel::new();
    let mut nodes: Vec<_> = (0..NODES).map(|_| Box::new(WheelNode::new())).collect();
    wheel.hold_back(100);
    for (tag, node) in nodes.iter_mut().enumerate() {
        node.tag = tag as u32;
        // SAFETY: `nodes` outlive the wheel.
        unsafe { wheel.insert(&raw mut **node, 100, 100) };
    }
    assert_eq!(wheel.next(1000), Next::Later);
    assert_eq!((wheel.peek(), wheel.peek_in_turn()), (Some(0), None));
    wheel.hold_back(101);
    let (times, due) = asked(&mut wheel, 1000);
    assert!(times >= NODES + NODES / BATCH, "{times} times");
    assert!(due.into_iter().eq(0..NODES as u32));
    assert!(wheel.is_empty());
}

#[test]
fn a_turn_that_begins_before_the_last_one_has_ended_holds_its_own_nodes_back() {
    let mut wheel = Wheel::new();
    let mut nodes: [_; 4] = core::array::from_fn(|_| Box::new(WheelNode::new()));
    let mut insert = |wheel: &mut Wheel, tag: u32, deadline| {
        let node = &mut nodes[tag as usize];
        node.tag = tag;
        // SAFETY: `nodes` outlive the wheel.
        unsafe { wheel.insert(&raw mut **node, deadline, 100) };
    };
    wheel.hold_back(100);
    insert(&mut wheel, 0, 100);
    wheel.hold_back(200);
    insert(&mut wheel, 1, 150);
    assert_eq!(due(&mut wheel, 1000).0, [(100, 0)]);
    wheel.set_back(50);
    insert(&mut wheel, 2, 300);
    assert!(!wheel.release(), "the node has to be placed");
    insert(&mut wheel, 3, 160);
    assert_eq!(due(&mut wheel, 1000).0, [(300, 2)]);
    assert!(wheel.release());
    assert_eq!(due(&mut wheel, 1000).0, [(150, 1), (160, 3)]);
}

#[test]
fn nodes_come_and_go_while_they_are_placed_anew() {
    let mut state = 0x9876_5432_1fed_cba1;
    let mut nodes: Vec<_> = (0..1000).map(|_| Box::new(WheelNode::new())).collect();
    let mut wheel = Wheel::new();
    let mut now = 1 << 40;
    for _ in 0..300 {
        for _ in 0..50 {
            let node: *mut WheelNode = &raw mut *nodes[(random(&mut state) % 1000) as usize];
            // SAFETY: a node of `nodes`, which outlive the wheel.
            unsafe {
                wheel.remove(node);
                if !random(&mut state).is_multiple_of(4) {
                    wheel.insert(node, now + (random(&mut state) >> 40), now);
                }
            }
        }
        now = if random(&mut state).is_multiple_of(3) { now - (random(&mut state) >> 42) } else { now + (1 << 14) };
        if wheel.is_ahead_of(now) {
            wheel.set_back(now);
        }
        for _ in 0..random(&mut state) % 5 {
            if let Next::Due(node) = wheel.next(now) {
                // SAFETY: a node of `nodes`, which outlive the wheel.
                assert!(unsafe { (*node).deadline } <= now);
            }
        }
    }
    while !wheel.settle() {}
    let mut left: Vec<u64> = nodes.iter().filter(|node| node.is_linked()).map(|node| node.deadline).collect();
    left.sort_unstable();
    let (due, _) = due(&mut wheel, u64::MAX >> 1);
    assert!(due.into_iter().map(|(deadline, _)| deadline).eq(left));
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_due() {
    let mut wheel = Wheel::new();
    let mut nodes: Vec<_> = (0..100).map(|_| Box::new(WheelNode::new())).collect();
    for (tag, node) in nodes.iter_mut().enumerate() {
        node.tag = tag as u32;
        // SAFETY: `nodes` outlive the wheel.
        unsafe { wheel.insert(&raw mut **node, 1000 + tag as u64, 0) };
    }
    assert_eq!(due(&mut wheel, 1049).0.len(), 50);
    assert!(wheel.is_ahead_of(100));
    wheel.set_back(100);
    assert!(!wheel.is_ahead_of(100));
    assert_eq!(due(&mut wheel, 1049), (Vec::new(), Some(1050)));
    assert_eq!(due(&mut wheel, 2000).0.len(), 50);
}
