//! Histories that the model accepts, and the same with one fault, which it must refuse: one pair at least for each rule.

use ufutex_linear::{Call, History, check};

use crate::common::libc;
use crate::layout::Layout;
use crate::ops::{DROPPED, How, Made, Op};
use crate::program::{OWNER_DIED, WAITERS, WORKERS};
use crate::spec::Futexes;

mod futures;
mod words;

const EAGAIN: i64 = -(libc::EAGAIN as i64);
const ETIMEDOUT: i64 = -(libc::ETIMEDOUT as i64);
const EDEADLK: i64 = -(libc::EDEADLK as i64);
const EPERM: i64 = -(libc::EPERM as i64);

const TIDS: [u32; WORKERS] = [101, 102, 103, 104];

/// The threads of a history. The last one wakes.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const W: usize = 3;

/// Thread, begin, end, operation, result. Times are in microseconds.
type Row = (usize, u64, u64, Op, i64);

/// What is known of a call besides its row, in microseconds.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    /// A time after the wait was queued.
    queued: Option<u64>,
    /// A time before the future of the wait was dropped or ended.
    gives_up: Option<u64>,
}

fn is_accepted_knowing(priorities: [u8; WORKERS], rows: &[(Row, Known)]) -> bool {
    let mut threads = vec![Vec::new(); WORKERS];
    for &((thread, begin, end, op, result), Known { queued, gives_up }) in rows {
        let [begin, end] = [begin, end].map(|us| us * 1000);
        let begun = queued.map_or(end, |us| us * 1000);
        let goes_on = gives_up.map_or(begin + op.timeout().unwrap_or(0), |us| us * 1000);
        threads[thread].push(Call { begin, begun, goes_on, end, op: Made { op, result } });
    }
    check(&History { threads }, Futexes::new(Layout { base: 0x10000 }, TIDS, priorities)).is_ok()
}

fn is_accepted(priorities: [u8; WORKERS], rows: &[Row]) -> bool {
    let rows: Vec<_> = rows.iter().map(|row| (*row, Known::default())).collect();
    is_accepted_knowing(priorities, &rows)
}

#[track_caller]
fn accepted(rows: &[Row]) {
    assert!(is_accepted([0; WORKERS], rows), "refused: {rows:#?}");
}

#[track_caller]
fn refused(rows: &[Row]) {
    assert!(!is_accepted([0; WORKERS], rows), "accepted: {rows:#?}");
}

fn wait(word: usize) -> Op {
    wait_for(word, 0, u32::MAX)
}

fn wait_for(word: usize, expected: u32, bitset: u32) -> Op {
    Op::Wait { word, expected, bitset, timeout: None, how: How::Thread }
}

fn wait_at_most(word: usize, us: u32) -> Op {
    Op::Wait { word, expected: 0, bitset: u32::MAX, timeout: Some(us), how: How::Thread }
}

fn dropped(word: usize) -> Op {
    Op::Wait { word, expected: 0, bitset: u32::MAX, timeout: None, how: How::Dropped(0) }
}

fn wake(word: usize, count: i32) -> Op {
    Op::Wake { word, count, bitset: u32::MAX }
}

fn requeue(expected: Option<u32>, wake: i32, requeue: i32) -> Op {
    Op::Requeue { from: 0, to: 1, expected, wake, requeue }
}

fn lock(word: usize) -> Op {
    Op::Lock { word, timeout: None }
}

fn lock_at_most(word: usize, us: u32) -> Op {
    Op::Lock { word, timeout: Some(us) }
}

const ALL: i32 = i32::MAX;

#[test]
fn wake_returns_how_many_waits_it_ended() {
    let history = |woken| [(A, 1, 20, wait(0), 0), (W, 5, 6, wake(0, ALL), woken)];
    accepted(&history(1));
    refused(&history(2));
    refused(&history(0));
}

#[test]
fn wait_that_was_woken_does_not_time_out_and_one_that_was_not_does_not_return() {
    let history = |result, woken| [(A, 1, 20, wait_at_most(0, 10), result), (W, 5, 6, wake(0, 1), woken)];
    accepted(&history(0, 1));
    accepted(&history(ETIMEDOUT, 0)); // it queued after the wake
    refused(&history(ETIMEDOUT, 1)); // a lost wake
    refused(&history(0, 0)); // a spurious wakeup
}

/// The wait expects what the word held before the store: it queued before the store, or returned EAGAIN.
#[test]
fn wake_after_a_store_finds_the_waiter_that_did_not_see_the_store() {
    let history = |result, woken| {
        let end = if result == EAGAIN { 20 } else { 40 };
        [
            (A, 1, end, wait(0), result),
            (W, 5, 6, Op::Swap(0, 1), 0),
            (W, 7, 8, wake(0, 1), woken),
            (W, 30, 31, wake(0, 1), 0),
        ]
    };
    accepted(&history(0, 1));
    accepted(&history(EAGAIN, 0));
    let mut lost = history(0, 0);
    lost[3].4 = 1;
    refused(&lost); // the second wake finds it, and the first has not
}

#[test]
fn wait_is_eagain_if_the_word_differs_and_only_then() {
    let history = |value, result, woken| {
        [(W, 1, 2, Op::Swap(0, value), 0), (A, 3, 20, wait(0), result), (W, 10, 11, wake(0, 1), woken)]
    };
    accepted(&history(0, 0, 1));
    accepted(&history(1, EAGAIN, 0));
    refused(&history(0, EAGAIN, 0));
    refused(&history(1, 0, 1));
}

#[test]
fn timeout_does_not_end_a_wait_too_early() {
    accepted(&[(A, 1, 12, wait_at_most(0, 10), ETIMEDOUT)]);
    refused(&[(A, 1, 10, wait_at_most(0, 10), ETIMEDOUT)]);
    // It is still queued for the wake that begins and ends before its time.
    let history = |woken| {
        let swap = (W, 2, 3, Op::Swap(0, 1), 0);
        [(A, 1, 20, wait_at_most(0, 10), ETIMEDOUT), swap, (W, 4, 5, requeue(None, 0, 1), woken)]
    };
    accepted(&history(1));
    refused(&history(0));
    accepted(&[(A, 1, 20, lock_at_most(0, 10), 0)]);
    refused(&[(A, 1, 20, lock_at_most(0, 10), ETIMEDOUT)]); // no thread has the lock
}

/// A queues before the word is changed, B afterwards. The first wake ends the wait of `first`.
fn two_waiters(first: usize) -> [Row; 6] {
    let end = |thread| if thread == first { 12 } else { 30 };
    [
        (A, 1, end(A), wait(0), 0),
        (W, 3, 4, Op::Swap(0, 1), 0),
        (B, 5, end(B), wait_for(0, 1, u32::MAX), 0),
        (W, 7, 8, Op::Swap(0, 2), 1),
        (W, 10, 11, wake(0, 1), 1),
        (W, 20, 21, wake(0, 1), 1),
    ]
}

#[test]
fn waiters_are_woken_in_order_of_priority_and_then_in_the_order_in_which_they_came() {
    accepted(&two_waiters(A));
    refused(&two_waiters(B));
    let is_accepted_with = |rows: &[Row]| is_accepted([1, 2, 0, 0], rows);
    assert!(is_accepted_with(&two_waiters(B)) && !is_accepted_with(&two_waiters(A)));
}

#[test]
fn wake_takes_no_more_than_its_count_and_only_waiters_that_have_its_bit() {
    let history = |count, woken, left| {
        [
            (A, 1, 30, wait(0), 0),
            (B, 1, 30, wait(0), 0),
            (W, 5, 6, Op::Swap(0, 1), 0),
            (W, 7, 8, wake(0, count), woken),
            (W, 9, 10, wake(0, ALL), left),
        ]
    };
    accepted(&history(1, 1, 1));
    accepted(&history(2, 2, 0));
    refused(&history(1, 2, 0));
    refused(&history(2, 1, 1));
    let bits = |bitset, woken| {
        let wake_one = Op::Wake { word: 0, count: 1, bitset };
        [
            (A, 1, 30, wait_for(0, 0, 1), 0),
            (W, 5, 6, Op::Swap(0, 1), 0),
            (W, 7, 8, wake_one, woken),
            (W, 9, 10, wake(0, 1), 1 - woken),
        ]
    };
    accepted(&bits(3, 1));
    accepted(&bits(2, 0));
    refused(&bits(3, 0));
    refused(&bits(2, 1));
}

#[test]
fn requeue_wakes_and_moves_what_it_says() {
    let history = |operation, done, [first, second]: [i64; 2]| {
        [
            (A, 1, 30, wait(0), 0),
            (B, 1, 30, wait(0), 0),
            (W, 5, 6, Op::Swap(0, 1), 0),
            (W, 7, 8, operation, done),
            (W, 9, 10, wake(0, ALL), first),
            (W, 11, 12, wake(1, ALL), second),
        ]
    };
    accepted(&history(requeue(None, 1, 1), 2, [0, 1]));
    accepted(&history(requeue(Some(1), 0, 1), 1, [1, 1]));
    accepted(&history(requeue(Some(0), 0, 1), EAGAIN, [2, 0]));
    refused(&history(requeue(Some(0), 0, 1), 1, [1, 1])); // the word differed
    refused(&history(requeue(Some(1), 0, 1), EAGAIN, [2, 0])); // it did not
    refused(&history(requeue(None, 1, 1), 1, [0, 1]));
    refused(&history(requeue(None, 0, 1), 1, [2, 0])); // it moved none
    refused(&history(requeue(None, 0, 1), 1, [0, 2])); // it moved both
}

#[test]
fn requeue_keeps_the_order_of_waiters() {
    let history = |first| {
        let end = |thread| if thread == first { 14 } else { 30 };
        [
            (A, 1, end(A), wait(0), 0),
            (W, 3, 4, Op::Swap(0, 1), 0),
            (B, 5, end(B), wait_for(0, 1, u32::MAX), 0),
            (W, 7, 8, Op::Swap(0, 2), 1),
            (W, 9, 10, requeue(None, 0, 2), 2),
            (W, 12, 13, wake(1, 1), 1),
            (W, 20, 21, wake(1, 1), 1),
        ]
    };
    accepted(&history(A));
    refused(&history(B));
}

#[test]
fn wake_op_changes_a_word_and_wakes_waiters_of_both() {
    let history = |old, woken, left| {
        let both = Op::WakeOp { words: [0, 1], counts: [1, 1], value: 1, old };
        [
            (A, 1, 30, wait(0), 0),
            (B, 1, 30, wait(1), 0),
            (W, 5, 6, Op::Swap(0, 1), 0),
            (W, 7, 8, both, woken),
            (W, 9, 10, Op::Load(1), 1),
            (W, 11, 12, wake(1, ALL), left),
        ]
    };
    accepted(&history(0, 2, 0));
    accepted(&history(1, 1, 1));
    refused(&history(0, 1, 1));
    refused(&history(1, 2, 0));
    // Each word has a count of its own.
    let counts = |counts, woken, left| {
        let both = Op::WakeOp { words: [1, 0], counts, value: 1, old: 0 };
        [(A, 1, 30, wait(0), 0), (B, 1, 30, wait(0), 0), (W, 7, 8, both, woken), (W, 9, 10, wake(0, ALL), left)]
    };
    accepted(&counts([2, 1], 1, 1));
    accepted(&counts([1, 2], 2, 0));
    refused(&counts([2, 1], 2, 0));
    refused(&counts([1, 2], 1, 1));
    let mut unchanged = history(0, 2, 0);
    unchanged[4].4 = 0;
    refused(&unchanged);
}

#[test]
fn dropped_wait_passes_its_wake_on_unless_it_was_for_all() {
    // B queues after A, and before the wake unless `is_late`.
    let history = |count, result, is_late: bool| {
        let (queued, woken) = if is_late { ((10, 40), (7, 8)) } else { ((4, 40), (7, 8)) };
        let b = Op::Wait { word: 0, expected: 1, bitset: u32::MAX, timeout: Some(20), how: How::Thread };
        [
            (A, 1, 12, dropped(0), DROPPED),
            (W, 2, 3, Op::Swap(0, 1), 0),
            (B, queued.0, queued.1, b, result),
            (W, 5, 6, Op::Swap(0, if is_late { 1 } else { 2 }), 1),
            (W, woken.0, woken.1, wake(0, count), if count == ALL && !is_late { 2 } else { 1 }),
        ]
    };
    accepted(&history(1, 0, false));
    refused(&history(1, ETIMEDOUT, false)); // the wake is lost with the future
    accepted(&history(1, 0, true));
    accepted(&history(1, ETIMEDOUT, true));
    accepted(&history(ALL, 0, false));
    accepted(&history(ALL, ETIMEDOUT, true));
    refused(&history(ALL, 0, true));
    // A wait that was dropped is not there any more.
    let late = |woken| [(A, 1, 5, dropped(0), DROPPED), (W, 6, 7, wake(0, 1), woken)];
    accepted(&late(0));
    refused(&late(1));
}

#[test]
fn lock_has_one_owner_and_is_handed_to_the_first_waiter() {
    accepted(&[(A, 1, 2, lock(0), 0), (A, 3, 4, Op::Unlock(0), 0), (B, 5, 6, lock(0), 0)]);
    refused(&[(A, 1, 2, lock(0), 0), (B, 5, 6, lock(0), 0)]);
    accepted(&[(A, 1, 2, lock(0), 0), (B, 5, 6, Op::TryLock(0), EAGAIN)]);
    refused(&[(A, 1, 2, lock(0), 0), (B, 5, 6, Op::TryLock(0), 0)]);
    accepted(&[(A, 1, 2, lock(0), 0), (A, 3, 4, Op::Unlock(0), 0), (B, 5, 6, Op::TryLock(0), 0)]);
    refused(&[(A, 1, 2, lock(0), 0), (A, 3, 4, Op::Unlock(0), 0), (B, 5, 6, Op::TryLock(0), EAGAIN)]);
    refused(&[(A, 1, 2, lock(0), 0), (B, 5, 6, Op::Unlock(0), 0)]);
    accepted(&[(A, 1, 2, lock(0), 0), (B, 5, 6, Op::Unlock(0), EPERM)]);
    accepted(&[(A, 1, 2, lock(0), 0), (B, 5, 20, lock_at_most(0, 10), ETIMEDOUT)]);
    // B waits before C, since C sees its bit in the word.
    let handed = |first, word: u32| {
        let end = |thread| if thread == first { 14 } else { 30 };
        let own = TIDS[first] | WAITERS;
        vec![
            (A, 1, 2, lock(0), 0),
            (B, 3, end(B), lock(0), 0),
            (W, 4, 5, Op::Load(0), i64::from(TIDS[A] | WAITERS)),
            (C, 6, end(C), lock(0), 0),
            (A, 10, 11, Op::Unlock(0), 0),
            (W, 12, 13, Op::Load(0), i64::from(own | word)),
            (first, 15, 16, Op::Unlock(0), 0),
        ]
    };
    accepted(&handed(B, 0));
    refused(&handed(B, OWNER_DIED));
    refused(&handed(C, 0));
}

#[test]
fn deadlock_is_reported_where_there_is_one() {
    let circle = |result| {
        let mut rows = vec![
            (A, 1, 2, lock(0), 0),
            (B, 1, 2, lock(1), 0),
            (A, 3, 30, lock(1), 0),
            (W, 4, 5, Op::Load(1), i64::from(TIDS[B] | WAITERS)),
            (B, 6, 20, lock(0), result),
            (B, 21, 22, Op::Unlock(1), 0),
        ];
        if result == 0 {
            rows.retain(|row| row.0 != W);
        }
        rows
    };
    accepted(&circle(EDEADLK));
    refused(&circle(0));
    accepted(&[(A, 1, 2, lock(0), 0), (A, 3, 4, lock(0), EDEADLK)]);
    refused(&[(A, 1, 2, lock(0), 0), (B, 3, 4, lock(0), EDEADLK)]);
}

#[test]
fn words_are_part_of_the_history() {
    accepted(&[(A, 1, 2, Op::Swap(0, 1), 0), (B, 3, 4, Op::Load(0), 1)]);
    refused(&[(A, 1, 2, Op::Swap(0, 1), 0), (B, 3, 4, Op::Load(0), 0)]);
    accepted(&[(A, 1, 4, Op::Swap(0, 1), 0), (B, 3, 4, Op::Load(0), 0)]); // they overlap
    accepted(&[(A, 1, 4, Op::Swap(0, 1), 0), (B, 1, 4, Op::Swap(0, 2), 1)]);
    refused(&[(A, 1, 4, Op::Swap(0, 1), 0), (B, 1, 4, Op::Swap(0, 2), 0)]);
}
