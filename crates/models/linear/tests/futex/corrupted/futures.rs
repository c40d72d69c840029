//! Waits of which more is known than their begin and end: those that were queued when a call had returned, and
//! futures that were dropped or ended.

use super::*;

const EINTR: i64 = -(libc::EINTR as i64);

/// A call of which its row is all that is known.
fn plain(row: Row) -> (Row, Known) {
    (row, Known::default())
}

/// A wait that was queued before `us`.
fn queued(us: u64, row: Row) -> (Row, Known) {
    (row, Known { queued: Some(us), gives_up: None })
}

/// A wait that was queued before `queued`, and whose future was given up after `gives_up`.
fn given_up(queued: u64, gives_up: u64, row: Row) -> (Row, Known) {
    (row, Known { queued: Some(queued), gives_up: Some(gives_up) })
}

#[track_caller]
fn accepted(rows: &[(Row, Known)]) {
    assert!(is_accepted_knowing([0; WORKERS], rows), "refused: {rows:#?}");
}

#[track_caller]
fn refused(rows: &[(Row, Known)]) {
    assert!(!is_accepted_knowing([0; WORKERS], rows), "accepted: {rows:#?}");
}

fn wait_as(how: How, word: usize) -> Op {
    Op::Wait { word, expected: 0, bitset: u32::MAX, timeout: None, how }
}

#[test]
fn wait_that_is_known_to_be_queued_is_found_by_the_next_wake() {
    for how in [How::Prepared, How::Future(0)] {
        let history = |time: Option<u64>, [first, second]: [i64; 2]| {
            let row = (A, 1, 40, wait_as(how, 0), 0);
            let wait = time.map_or_else(|| plain(row), |time| queued(time, row));
            [wait, plain((W, 5, 6, wake(0, 1), first)), plain((W, 30, 31, wake(0, 1), second))]
        };
        accepted(&history(Some(3), [1, 0]));
        refused(&history(Some(3), [0, 1])); // a wake that has missed it
        // Without the time it may have queued between the wakes, and with a later one too.
        accepted(&history(None, [0, 1]));
        accepted(&history(Some(8), [0, 1]));
    }
}

/// The word differs before the wait is queued, or only behind that.
#[test]
fn wait_that_is_known_to_be_queued_compares_the_word_before_that() {
    let history = |begin, result, woken| {
        [
            queued(3, (A, 1, 20, wait_as(How::Prepared, 0), result)),
            plain((W, begin, begin + 1, Op::Swap(0, 1), 0)),
            plain((W, 10, 11, wake(0, 1), woken)),
        ]
    };
    accepted(&history(5, 0, 1));
    refused(&history(5, EAGAIN, 0));
    accepted(&history(2, EAGAIN, 0));
}

#[test]
fn ended_future_says_whether_it_was_woken() {
    let history = |result, woken| {
        [given_up(3, 10, (A, 1, 20, wait_as(How::Ended(0), 0), result)), plain((W, 5, 6, wake(0, 1), woken))]
    };
    accepted(&history(0, 1));
    refused(&history(EINTR, 1)); // a lost wake
    refused(&history(0, 0)); // a spurious wakeup
    refused(&history(EINTR, 0)); // it was queued at 3, and the wake has missed it
    // The wake comes after it has ended, or when it may have ended.
    let late = |begin, woken| {
        [given_up(3, 10, (A, 1, 20, wait_as(How::Ended(0), 0), EINTR)), plain((W, begin, begin + 1, wake(0, 1), woken))]
    };
    accepted(&late(22, 0));
    refused(&late(22, 1));
    accepted(&late(12, 0));
}

/// Until its future is given up, the wait is queued: an operation that begins and ends before that finds it.
#[test]
fn future_is_not_given_up_too_early() {
    for (how, result) in [(How::Ended(0), EINTR), (How::Dropped(0), DROPPED)] {
        let history = |gives_up, found| {
            [given_up(3, gives_up, (A, 1, 20, wait_as(how, 0), result)), plain((W, 4, 5, requeue(None, 0, 1), found))]
        };
        accepted(&history(10, 1));
        refused(&history(10, 0));
        accepted(&history(3, 0));
    }
}

/// A waits for `word`, and its future is dropped after 20. `calls`, of which one wakes A, begin at 10 at the earliest. `b` is
/// queued by them. Later, wakes of word 0 and of word 1 find the waiters that are `left`.
fn passes_on(word: usize, b: Row, calls: &[(u64, Op, i64)], left: [i64; 2]) -> Vec<(Row, Known)> {
    let b_is_queued = b.1 + 1;
    let mut rows = vec![given_up(2, 20, (A, 1, 25, dropped(word), DROPPED)), queued(b_is_queued, b)];
    rows.extend(calls.iter().map(|&(at, op, result)| plain((W, at, at + 1, op, result))));
    rows.push(plain((W, 40, 41, wake(0, ALL), left[0])));
    rows.push(plain((W, 42, 43, wake(1, ALL), left[1])));
    rows
}

/// B waits from `begin` until it is woken.
fn b_from(begin: u64, word: usize) -> Row {
    (B, begin, 60, wait(word), 0)
}

#[test]
fn wake_is_passed_on_at_the_word_to_which_the_dropped_wait_was_requeued() {
    let calls = [(10, requeue(None, 0, 1), 1), (14, wake(1, 1), 1)];
    let history = |b, left| passes_on(0, b_from(12, b), &calls, left);
    accepted(&history(1, [0, 0]));
    refused(&history(1, [0, 1])); // the wake is lost with the future
    accepted(&history(0, [1, 0]));
    refused(&history(0, [0, 0])); // it was not for a waiter of the first word
}

#[test]
fn wake_does_not_follow_a_waiter_that_is_requeued_behind_it() {
    let calls = [(10, wake(0, 1), 1), (12, requeue(None, 0, 1), 1)];
    let history = |left| passes_on(0, b_from(4, 0), &calls, left);
    accepted(&history([0, 1]));
    refused(&history([0, 0])); // B waits for the second word now
    refused(&history([1, 0])); // and not for the first one
}

/// `operation` wakes A alone, of A and B.
fn wakes_a(operation: Op, done: i64, word: usize, left: [i64; 2]) -> Vec<(Row, Known)> {
    passes_on(word, b_from(4, word), &[(10, operation, done)], left)
}

/// B comes later, so a wake of all is not for it.
fn wakes_all(operation: Op, left: [i64; 2]) -> Vec<(Row, Known)> {
    passes_on(0, b_from(12, 0), &[(10, operation, 1)], left)
}

#[test]
fn wake_op_is_passed_on_at_the_word_of_the_waiter_unless_it_was_for_all() {
    let operation = |count| Op::WakeOp { words: [0, 1], counts: [count; 2], value: 1, old: 0 };
    accepted(&wakes_a(operation(1), 1, 0, [0, 0]));
    refused(&wakes_a(operation(1), 1, 0, [1, 0])); // the wake is lost
    accepted(&wakes_a(operation(1), 1, 1, [0, 0]));
    refused(&wakes_a(operation(1), 1, 1, [0, 1]));
    accepted(&wakes_all(operation(1), [0, 0]));
    accepted(&wakes_all(operation(ALL), [1, 0]));
    refused(&wakes_all(operation(ALL), [0, 0]));
}

#[test]
fn wake_of_a_requeue_is_passed_on_unless_it_was_for_all() {
    accepted(&wakes_a(requeue(None, 1, 0), 1, 0, [0, 0]));
    refused(&wakes_a(requeue(None, 1, 0), 1, 0, [1, 0])); // the wake is lost
    // It moves B, which is no waiter of the first word from then on.
    accepted(&wakes_a(requeue(None, 1, 1), 2, 0, [0, 1]));
    refused(&wakes_a(requeue(None, 1, 1), 2, 0, [0, 0]));
    accepted(&wakes_all(requeue(None, 1, 0), [0, 0]));
    accepted(&wakes_all(requeue(None, ALL, 0), [1, 0]));
    refused(&wakes_all(requeue(None, ALL, 0), [0, 0]));
}

#[test]
fn wake_is_passed_on_with_its_bits() {
    let history = |bitset, left| {
        let b = (B, 4, 60, wait_for(0, 0, bitset), 0);
        passes_on(0, b, &[(10, Op::Wake { word: 0, count: 1, bitset: 1 }, 1)], left)
    };
    accepted(&history(3, [0, 0]));
    refused(&history(3, [1, 0])); // the wake is lost
    accepted(&history(2, [1, 0]));
    refused(&history(2, [0, 0])); // it was not for B
}

#[test]
fn wake_that_was_passed_on_to_a_dropped_wait_is_passed_on_again() {
    let history = |woken, left| {
        let b = (B, 4, 30, dropped(0), DROPPED);
        let mut rows = passes_on(0, b, &[(10, wake(0, woken), 1)], left);
        rows[1] = given_up(5, 22, b);
        rows.push(queued(7, (C, 6, 60, wait(0), 0)));
        rows
    };
    accepted(&history(1, [0, 0]));
    refused(&history(1, [1, 0]));
}
