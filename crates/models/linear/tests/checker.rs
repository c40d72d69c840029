//! The checker, on models that are small enough to know the answer.

use std::collections::VecDeque;
use std::fmt;

use ufutex_linear::{Call, History, Progress, Spec, Violation, check};

/// A call of a queue whose `pop` blocks while it is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Push(u32),
    Pop(u32),
    /// It gives up.
    PopNothing,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Clone, Default)]
struct Queue {
    items: VecDeque<u32>,
    /// The threads that wait, in order.
    waiters: Vec<usize>,
    results: [Option<Op>; 3],
}

impl Queue {
    fn hand_over(&mut self) {
        while !self.items.is_empty() && !self.waiters.is_empty() {
            self.results[self.waiters.remove(0)] = self.items.pop_front().map(Op::Pop);
        }
    }
}

impl Spec for Queue {
    type Op = Op;
    type Key = (VecDeque<u32>, Vec<usize>);

    fn key(&self) -> Self::Key {
        (self.items.clone(), self.waiters.clone())
    }

    fn begin(&mut self, thread: usize, call: &Call<Op>) -> bool {
        if let Op::Push(item) = call.op {
            self.items.push_back(item);
            self.results[thread] = Some(call.op);
        } else {
            self.waiters.push(thread);
            self.results[thread] = None;
        }
        self.hand_over();
        true
    }

    fn go_on(&self, thread: usize, call: &Call<Op>) -> Vec<Self> {
        if call.op != Op::PopNothing {
            return Vec::new();
        }
        let mut next = self.clone();
        next.waiters.retain(|waiter| *waiter != thread);
        next.results[thread] = Some(Op::PopNothing);
        vec![next]
    }

    fn progress(&self, thread: usize, call: &Call<Op>) -> Progress {
        match self.results[thread] {
            None => Progress::Open,
            Some(result) if result == call.op => Progress::Over,
            Some(_) => Progress::Wrong,
        }
    }
}

fn call(begin: u64, end: u64, op: Op) -> Call<Op> {
    Call::between(begin, end, op)
}

fn verdict<const N: usize>(threads: [&[Call<Op>]; N]) -> Result<(), Violation> {
    check(&History { threads: threads.map(<[_]>::to_vec).to_vec() }, Queue::default())
}

#[test]
fn calls_that_overlap_take_any_order_and_others_their_own() {
    let pushes = |first: [u64; 2], second: [u64; 2]| {
        let [a, b] = [call(first[0], first[1], Op::Push(1)), call(second[0], second[1], Op::Push(2))];
        verdict([&[a], &[b], &[call(20, 21, Op::Pop(2)), call(22, 23, Op::Pop(1))]])
    };
    assert_eq!(pushes([1, 10], [5, 15]), Ok(()));
    assert_eq!(pushes([5, 15], [1, 4]), Ok(()));
    assert!(pushes([1, 4], [5, 15]).is_err());
}

#[test]
fn call_that_blocks_begins_before_the_call_that_ends_it() {
    assert_eq!(verdict([&[call(1, 10, Op::Pop(7))], &[call(5, 6, Op::Push(7))]]), Ok(()));
    assert!(verdict([&[call(1, 4, Op::Pop(7))], &[call(5, 6, Op::Push(7))]]).is_err());
    assert!(verdict([&[call(1, 10, Op::Pop(7))], &[call(5, 6, Op::Push(8))]]).is_err());
}

#[test]
fn step_of_its_own_comes_not_before_its_time() {
    let gives_up = |goes_on| {
        let nothing = Call { goes_on, ..call(1, 9, Op::PopNothing) };
        verdict([&[nothing], &[call(2, 3, Op::Push(7))]])
    };
    assert_eq!(gives_up(1), Ok(()));
    assert_eq!(gives_up(3), Ok(()), "it may leave before the item comes");
    assert!(gives_up(4).is_err(), "it is there when the item comes");
}

#[test]
fn first_step_comes_not_after_its_time() {
    let waits = |begun| {
        let nothing = Call { begun, goes_on: 3, ..call(1, 9, Op::PopNothing) };
        verdict([&[nothing], &[call(2, 4, Op::Push(7))], &[call(5, 6, Op::Pop(7))]])
    };
    assert_eq!(waits(9), Ok(()), "it may begin after the item has gone");
    assert_eq!(waits(4), Ok(()), "it may leave at 3, before the item comes");
    let stays = |begun| {
        let nothing = Call { begun, goes_on: 5, ..call(1, 9, Op::PopNothing) };
        verdict([&[nothing], &[call(2, 4, Op::Push(7))], &[call(3, 6, Op::Pop(7))]])
    };
    assert_eq!(stays(9), Ok(()));
    assert!(stays(1).is_err(), "it is the first in the queue when the item comes");
}

#[test]
fn violation_says_how_far_the_longest_order_goes() {
    let threads = [vec![call(1, 2, Op::Push(1)), call(3, 4, Op::Push(2))], vec![call(5, 6, Op::Pop(2))]];
    let history = History { threads: threads.to_vec() };
    let violation = check(&history, Queue::default()).expect_err("the queue is first in, first out");
    assert_eq!(violation.longest, [2, 0]);
    let text = history.explain(&violation);
    assert!(text.contains("      5         6  ?   1: Pop(2)\n"), "{text}");
    assert!(text.contains("      3         4    0: Push(2)\n"), "{text}");
}

/// Without memory, the search would visit each of the 12! orders of the calls.
#[test]
fn states_are_visited_once() {
    let pushes = |_| (0..6).map(|_| call(1, 100, Op::Push(1))).collect();
    let mut threads: Vec<Vec<_>> = (0..2).map(pushes).collect();
    threads.push(vec![call(101, 102, Op::Pop(2))]);
    assert!(check(&History { threads }, Queue::default()).is_err());
}
