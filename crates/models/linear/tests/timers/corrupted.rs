//! Histories that the model accepts, and the same with one fault, which it must refuse: one pair at least for each rule.

use ufutex_linear::{Call, History, check};

use crate::common::libc;
use crate::ops::Made;
use crate::spec::TimerTable;

/// Thread, begin, end, call. The driver turns in thread 0, and its deliveries are the calls of thread 2.
type Row = (usize, u64, u64, Made);

const NOW: u64 = 1000;
const MOST: usize = 2;

fn is_accepted(rows: &[Row]) -> bool {
    let mut threads = vec![Vec::new(); 3];
    for (thread, begin, end, op) in rows {
        threads[*thread].push(Call::between(*begin, *end, op.clone()));
    }
    check(&History { threads }, TimerTable::new(NOW, MOST)).is_ok()
}

/// Timers 0 and 1 are made, and then these calls.
fn with_timers(rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    [(0, 1, 2, Made::Create(Ok(0))), (0, 3, 4, Made::Create(Ok(1)))].into_iter().chain(rows).collect()
}

#[track_caller]
fn accepted(rows: impl IntoIterator<Item = Row>) {
    let rows = with_timers(rows);
    assert!(is_accepted(&rows), "refused: {rows:#?}");
}

#[track_caller]
fn refused(rows: impl IntoIterator<Item = Row>) {
    let rows = with_timers(rows);
    assert!(!is_accepted(&rows), "accepted: {rows:#?}");
}

/// Sets a timer to expire after `value`, and then each `interval`.
fn set(id: i32, value: u64, interval: u64) -> Made {
    Made::Set(id, false, (value, interval), Ok((0, 0)))
}

#[test]
fn no_two_timers_have_one_id_and_there_are_no_more_than_the_limit() {
    refused([(1, 10, 11, Made::Create(Ok(2)))]);
    accepted([(1, 10, 11, Made::Create(Err(libc::EAGAIN)))]);
    let again = |id| [(1, 10, 11, Made::Delete(0, Ok(()))), (1, 12, 13, Made::Create(id))];
    accepted(again(Ok(2)));
    accepted(again(Ok(0)));
    refused(again(Ok(1)));
    refused(again(Err(libc::EAGAIN)));
    // Until a deletion returns, the limit may count the timer. After that it does not.
    let during = |end| {
        [
            (1, 10, end, Made::Delete(0, Ok(()))),
            (0, 12, 13, Made::Get(0, Err(libc::EINVAL))),
            (0, 14, 15, Made::Create(Err(libc::EAGAIN))),
        ]
    };
    accepted(during(20));
    refused(during(13));
    // From its beginning on the limit may count a timer that is being made.
    let room = [(1, 10, 11, Made::Delete(0, Ok(()))), (1, 20, 30, Made::Create(Ok(2)))];
    let refusal = |at| [(0, at, at + 1, Made::Create(Err(libc::EAGAIN))), (0, 25, 26, Made::Get(2, Err(libc::EINVAL)))];
    accepted(room.clone().into_iter().chain(refusal(22)));
    refused(room.into_iter().chain(refusal(12)));
}

#[test]
fn timer_is_there_until_it_is_deleted() {
    let history = |found| [(1, 10, 11, Made::Delete(0, Ok(()))), (0, 12, 13, found)];
    accepted(history(Made::Get(0, Err(libc::EINVAL))));
    refused(history(Made::Get(0, Ok((0, 0)))));
    refused(history(Made::Overrun(0, Ok(0))));
    refused(history(Made::Delete(0, Ok(()))));
    refused([(1, 10, 11, Made::Get(0, Err(libc::EINVAL)))]);
    // Of two deletions at the same time one finds the timer.
    let both = |second| [(1, 10, 20, Made::Delete(0, Ok(()))), (0, 10, 20, Made::Delete(0, second))];
    accepted(both(Err(libc::EINVAL)));
    refused(both(Ok(())));
}

#[test]
fn setting_is_that_of_the_last_set_at_the_time_of_the_clock() {
    let history =
        |left| [(1, 10, 11, set(0, 50, 7)), (1, 12, 13, Made::Advance(20)), (0, 14, 15, Made::Get(0, Ok(left)))];
    accepted(history((30, 7)));
    refused(history((50, 7)));
    refused(history((30, 0)));
    // The clock is advanced between the two times at which a set reads it, or before or after.
    let beside = |old, left| {
        [
            (1, 10, 11, set(0, 50, 0)),
            (1, 12, 20, Made::Set(0, false, (90, 0), Ok((old, 0)))),
            (0, 12, 20, Made::Advance(20)),
            (0, 21, 22, Made::Get(0, Ok((left, 0)))),
        ]
    };
    accepted(beside(50, 70));
    accepted(beside(50, 90));
    accepted(beside(30, 90));
    refused(beside(30, 70));
    // The timer is locked between these times, so no call sees the advanced clock with the old setting.
    let between = |seen| {
        let mut rows = beside(50, 70).to_vec();
        rows.push((2, 12, 20, Made::Get(0, Ok((seen, 0)))));
        rows
    };
    accepted(between(50));
    accepted(between(70));
    refused(between(30));
}

/// Timer 0 is set to expire after 50, and the clock advanced by `time`. Then there is a turn.
fn turn(time: u64, delivered: impl IntoIterator<Item = Made>) -> Vec<Row> {
    let rows = [(1, 10, 11, set(0, 50, 0)), (1, 12, 13, Made::Advance(time)), (0, 20, 30, Made::Turn)];
    rows.into_iter().chain(delivered.into_iter().map(|made| (2, 21, 29, made))).collect()
}

#[test]
fn turn_expires_what_is_due_and_nothing_else() {
    accepted(turn(50, [Made::Expire(0, 0)]));
    refused(turn(50, [])); // it has forgotten a timer
    refused(turn(49, [Made::Expire(0, 0)])); // too early
    accepted(turn(49, []));
    refused(turn(50, [Made::Expire(0, 1)])); // a timer that is not set
    refused(turn(50, [Made::Expire(0, 0), Made::Expire(1, 0)])); // twice
    let mut after = turn(50, []);
    after.push((2, 31, 32, Made::Expire(0, 0)));
    refused(after); // there is no turn
}

#[test]
fn timer_that_was_set_again_or_deleted_does_not_expire() {
    let history = |call: Made, expires: bool| {
        let mut rows = turn(50, expires.then_some(Made::Expire(0, 0)));
        rows.insert(2, (1, 14, 15, call));
        rows
    };
    let again = || Made::Set(0, false, (10, 0), Ok((1, 0)));
    for call in [again(), Made::Delete(0, Ok(()))] {
        accepted(history(call.clone(), false));
        refused(history(call, true));
    }
    // If it is set during the turn, either may come first.
    for expires in [false, true] {
        let mut rows = turn(50, expires.then_some(Made::Expire(0, 0)));
        let old = if expires { 0 } else { 1 };
        rows.push((1, 20, 30, Made::Set(0, false, (10, 0), Ok((old, 0)))));
        accepted(rows);
    }
}

/// A timer that is set to a time that has passed, or whose notice is taken when the next time has passed, is due for a turn
/// that begins afterwards. A turn that overlaps with the call may leave it to the next turn.
#[test]
fn turn_owes_what_was_armed_before_it_began() {
    let history = |end, expires: bool| {
        let mut rows = vec![
            (1, 1, end, Made::Set(0, true, (50, 0), Ok((0, 0)))),
            (0, 20, 30, Made::Turn),
            (0, 40, 41, Made::Get(1, Ok((0, 0)))),
        ];
        rows.extend(expires.then_some((2, 21, 29, Made::Expire(0, 0))));
        rows
    };
    accepted(history(19, true));
    refused(history(19, false));
    accepted(history(25, true));
    accepted(history(25, false));
    let taken = |end, expires: bool| {
        let mut rows = vec![
            (1, 10, 11, set(0, 50, 20)),
            (1, 12, 13, Made::Advance(50)),
            (0, 20, 30, Made::Turn),
            (2, 21, 22, Made::Expire(0, 0)),
            (1, 31, end, Made::Take(0, 0, Some(0))),
            (2, 31, 32, Made::Advance(20)),
            (0, 40, 50, Made::Turn),
        ];
        rows.extend(expires.then_some((2, 41, 49, Made::Expire(1, 0))));
        rows
    };
    accepted(taken(39, true));
    refused(taken(39, false));
    accepted(taken(45, true));
    accepted(taken(45, false));
}

#[test]
fn turn_delivers_in_order_of_deadlines() {
    let history = |first, second| {
        [
            (1, 10, 11, set(0, 50, 0)),
            (1, 12, 13, set(1, 40, 0)),
            (1, 14, 15, Made::Advance(60)),
            (0, 20, 30, Made::Turn),
            (2, 21, 22, Made::Expire(0, first)),
            (2, 23, 24, Made::Expire(1, second)),
        ]
    };
    accepted(history(1, 0));
    refused(history(0, 1));
}

#[test]
fn notice_can_be_taken_once_and_arms_an_interval_timer_again() {
    let history = |overrun, second, published, left| {
        [
            (1, 10, 11, set(0, 50, 20)),
            (1, 12, 13, Made::Advance(95)),
            (0, 20, 30, Made::Turn),
            (2, 21, 22, Made::Expire(0, 0)),
            (1, 31, 32, Made::Take(0, 0, overrun)),
            (1, 33, 34, Made::Take(0, 0, second)),
            (1, 35, 36, Made::Overrun(0, Ok(published))),
            (1, 37, 38, Made::Get(0, Ok((left, 20)))),
        ]
    };
    accepted(history(Some(2), None, 2, 15));
    refused(history(Some(1), None, 1, 15));
    refused(history(Some(2), Some(0), 2, 15));
    refused(history(Some(2), None, 0, 15));
    refused(history(None, None, 0, 15));
    refused(history(Some(2), None, 2, 20));
}

#[test]
fn notice_of_a_timer_that_was_set_again_is_void() {
    let history = |overrun| {
        let mut rows = turn(50, [Made::Expire(0, 0)]);
        rows.push((1, 31, 32, set(0, 10, 0)));
        rows.push((1, 33, 34, Made::Take(0, 0, overrun)));
        rows
    };
    accepted(history(None));
    refused(history(Some(0)));
}
