//! Expiry and its notices against timers that are set, deleted, and made again in the same memory.
//!
//! The interleavings looked for: a due timer leaves its queue, and before it is locked it is set again, deleted, or
//! replaced by another one; a notice is taken after that. Queue and notice have the timer's *number* from then, and are
//! void if it has changed. Nothing is lost either: a timer that is armed in the end expires.

use ufutex_loom::timer::Setting;

use crate::support::{PAIR, catches, check, check_pair};
use crate::timers::{DUE, Process, spawn};

/// Later than `DUE`.
const LATER: u64 = 100;

/// A turn runs while the timer is set.
fn set_again(interval: u64) {
    let process = Process::with_one_due(&[0], interval);
    let turn = spawn(&process, |process| process.driver.turn());
    process.arm(0, LATER, 0).expect("the timer is there");
    turn.join().unwrap();
    // Its notices are void, whether the turn came first or not.
    assert!(process.notices.drain().into_iter().all(|notice| process.timers.take(notice).is_none()));
    assert!(process.next().is_some_and(|at| at <= LATER));
    assert_eq!(process.expired_at(LATER - 1), []);
    assert_eq!(process.expired_at(LATER), [0]);
    assert_eq!(process.next(), None);
}

fn one_shot_set_again() {
    set_again(0);
}

fn interval_set_again() {
    set_again(DUE);
}

/// A turn runs while the timer is set to another time in the past.
fn set_to_the_past() {
    let process = Process::with_one_due(&[0], 0);
    let turn = spawn(&process, |process| process.driver.turn());
    process.arm(0, DUE - 1, 0).expect("the timer is there");
    turn.join().unwrap();
    assert_eq!(process.expired_at(DUE), [0]);
    assert_eq!(process.next(), None);
}

fn disarmed() {
    let process = Process::with_one_due(&[0], DUE);
    let turn = spawn(&process, |process| process.driver.turn());
    process.disarm(0).expect("the timer is there");
    turn.join().unwrap();
    assert_eq!(process.expired_at(LATER), []);
    assert_eq!(process.timers.gettime(0), Ok(Setting::default()));
    assert_eq!(process.next(), None);
}

/// The timer is deleted, and another is made in the same memory, while a turn runs.
fn another(id: i32) {
    let process = Process::with_one_due(&[0], 0);
    let turn = spawn(&process, |process| process.driver.turn());
    process.timers.delete(0).expect("the timer was there");
    process.create(id).expect("the ID is free");
    process.arm(id, LATER, 0).expect("the timer is there");
    turn.join().unwrap();
    assert!(process.notices.drain().into_iter().all(|notice| process.timers.take(notice).is_none()));
    assert_eq!(process.expired_at(LATER - 1), []);
    assert_eq!(process.expired_at(LATER), [id]);
}

fn another_of_its_id() {
    another(0);
}

fn another_of_another_id() {
    another(1);
}

/// A timer is deleted while two threads run turns.
fn two_turns() {
    let process = Process::with_one_due(&[0, 1], 0);
    process.arm(1, DUE, 0).expect("the timer is there");
    let turns = [(); 2].map(|()| spawn(&process, |process| process.driver.turn()));
    process.timers.delete(0).expect("the timer was there");
    turns.into_iter().for_each(|turn| assert!(turn.join().unwrap() <= 2));
    assert_eq!(process.expired_at(DUE), [1]);
    assert_eq!(process.next(), None);
}

fn taken(interval: u64, against: fn(&Process)) -> (bool, std::sync::Arc<Process>) {
    let process = Process::with_one_due(&[0], interval);
    process.driver.turn();
    let [notice] = process.notices.drain()[..] else { panic!("one timer, one notice") };
    let taker = spawn(&process, move |process| process.timers.take(notice).is_some());
    against(&process);
    let is_taken = taker.join().unwrap();
    // By now the notice is void in any case.
    assert_eq!(process.timers.take(notice), None);
    (is_taken, process)
}

fn taken_against_set() {
    let (_, process) = taken(DUE, |process| assert!(process.arm(0, LATER, 0).is_ok()));
    assert_eq!(process.expired_at(LATER - 1), []);
    assert_eq!(process.expired_at(LATER), [0]);
}

fn taken_against_disarm() {
    let (_, process) = taken(DUE, |process| assert!(process.disarm(0).is_ok()));
    assert_eq!(process.timers.gettime(0), Ok(Setting::default()));
    assert_eq!(process.expired_at(LATER), []);
}

fn taken_against_delete() {
    let (_, process) = taken(0, |process| {
        process.timers.delete(0).expect("the timer was there");
        process.create(0).expect("the ID is free");
    });
    assert_eq!(process.expired_at(LATER), []);
}

/// Two threads take one notice.
fn taken_twice(interval: u64) {
    let process = Process::with_one_due(&[0], interval);
    process.driver.turn();
    let [notice] = process.notices.drain()[..] else { panic!("one timer, one notice") };
    let other = spawn(&process, move |process| process.timers.take(notice).is_some());
    let is_taken = process.timers.take(notice).is_some();
    assert_ne!(is_taken, other.join().unwrap());
    assert_eq!(process.expired_at(2 * DUE).len(), usize::from(interval != 0));
}

fn one_shot_taken_twice() {
    taken_twice(0);
}

#[test]
fn an_expiry_that_comes_too_late_does_nothing() {
    check_pair(one_shot_set_again);
    check_pair(interval_set_again);
    check_pair(disarmed);
}

#[test]
fn a_timer_that_is_set_to_the_past_meanwhile_expires() {
    check_pair(set_to_the_past);
}

#[test]
fn a_deleted_timer_does_not_expire_as_another() {
    check_pair(another_of_its_id);
    check_pair(another_of_another_id);
}

#[test]
fn two_turns_expire_each_timer_once() {
    check(two_turns);
}

#[test]
fn a_stale_notice_is_void() {
    check_pair(taken_against_set);
    check_pair(taken_against_disarm);
    check_pair(taken_against_delete);
}

#[test]
fn a_notice_is_taken_once() {
    check_pair(one_shot_taken_twice);
    check_pair(|| taken_twice(DUE));
}

catches!(timers_expiry_catches_expiry_skips_recheck, ExpirySkipsRecheck, PAIR, one_shot_set_again);
catches!(timers_expiry_catches_expiry_ignores_word, ExpiryIgnoresWord, PAIR, another_of_another_id);
catches!(timers_expiry_catches_disarm_keeps_number, DisarmKeepsNumber, PAIR, taken_against_delete);
catches!(timers_expiry_catches_take_keeps_number, TakeKeepsNumber, PAIR, one_shot_taken_twice);
catches!(timers_expiry_catches_turn_forgets_rest, TurnForgetsRest, PAIR, one_shot_set_again);
