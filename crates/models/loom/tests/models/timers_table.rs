//! Look-ups, which take no lock, against timers that are made, deleted and made again in the same memory, and against a
//! table that grows: [Q], [R], [S].
//!
//! The interleavings looked for: a look-up is at a timer that is removed from its chain, or in a chain that is being
//! moved, and misses a timer that exists all the time; or it finds a timer that has become another one by the time it
//! is locked. And what is found without a lock must be seen complete.
//!
//! In a model two timers are allocated at a time, a group has one slot, and one group is moved at a time. The first table
//! grows to two groups with the first timers: even IDs are in one chain, odd IDs in the other. Of three timers the first
//! group has been moved to the next table and the second has not.

use std::sync::Arc;
use ufutex_loom::Error;
use ufutex_loom::timer::{Setting, TimerClock};

use crate::support::{PAIR, TRIO, catches, check, check_crowd, check_pair};
use crate::timers::{Process, setting, spawn};

/// An interval that only one timer has.
const SET: u64 = 1000;

/// Runs `look` while the timers change. The first thread changes them, because of how loom explores: a thread that
/// loads a word and then stores it hides a race with another thread's load, but not the other way round.
fn look_during<R: 'static>(
    process: &Arc<Process>,
    change: impl FnOnce(&Process),
    look: impl FnOnce(&Process) -> R + 'static,
) -> R {
    let looks = spawn(process, look);
    change(process);
    looks.join().unwrap()
}

/// Deletes a timer, and makes and arms another one in its memory.
fn turn_over(process: &Process, gone: i32, made: i32) {
    process.timers.delete(gone).expect("the timer was there");
    process.create(made).expect("the ID is free");
    process.arm(made, SET, SET).expect("the timer is there");
}

/// The timer before this one in the chain is deleted and made again.
fn found_all_the_time() {
    let process = Process::with(&[0, 2]);
    let change = |process: &Process| turn_over(process, 2, 4);
    let found = look_during(&process, change, |process| (process.timers.getoverrun(0), process.timers.gettime(0)));
    assert_eq!(found, (Ok(0), Ok(Setting::default())));
}

/// A timer's memory becomes another timer's.
fn never_another() {
    let process = Process::with(&[0]);
    let found = look_during(&process, |process| turn_over(process, 0, 2), |process| process.timers.gettime(0));
    assert!(found == Ok(Setting::default()) || found == Err(Error::Invalid), "{found:?}");
    assert_eq!(process.timers.gettime(0), Err(Error::Invalid));
    assert_eq!(process.timers.gettime(2), Ok(setting(SET, SET)));
}

/// A timer is deleted and made again, with the same ID in the same memory. A look-up sees either timer, or none.
fn gone_and_back() {
    let process = Process::with(&[0]);
    let found = look_during(&process, |process| turn_over(process, 0, 0), |process| process.timers.gettime(0));
    let may_be = [Ok(Setting::default()), Ok(setting(SET, SET)), Err(Error::Invalid)];
    assert!(may_be.contains(&found), "{found:?}");
    assert_eq!(process.timers.gettime(0), Ok(setting(SET, SET)));
}

/// A timer is made during its look-up, in a process that had none.
fn found_when_made() {
    let process = Process::with(&[]);
    let make = |process: &Process| process.create(0).expect("the ID is free");
    let found = look_during(&process, make, |process| process.timers.gettime(0));
    assert!(found == Ok(Setting::default()) || found == Err(Error::Invalid), "{found:?}");
    assert_eq!(process.timers.getoverrun(0), Ok(0));
}

/// Makes the same call twice: one succeeds, the other fails with `error`, and `left` timers are left.
fn once(ids: &[i32], error: Error, left: usize, call: fn(&Process) -> Result<(), Error>) {
    let process = Process::with(ids);
    let other = spawn(&process, call);
    let results = [call(&process), other.join().unwrap()];
    assert!(results == [Ok(()), Err(error)] || results == [Err(error), Ok(())], "{results:?}");
    assert_eq!(process.timers.count(), left);
    // Memory that was freed twice would be given to two timers.
    (5..8).for_each(|id| process.create(id).expect("the ID is free"));
    assert!((5..8).all(|id| process.timers.getoverrun(id) == Ok(0)));
}

fn deleted_once() {
    once(&[0, 1], Error::Invalid, 1, |process| process.timers.delete(0));
}

fn created_once() {
    once(&[], Error::Busy, 1, |process| process.create(3));
}

fn created_once_while_it_grows() {
    once(&[0, 1], Error::Busy, 3, |process| process.create(3));
}

/// A thread makes a timer with an ID that another thread deletes: it comes too early and fails, or makes the timer.
fn made_when_deleted() {
    let process = Process::with(&[0]);
    let other = spawn(&process, |process| process.timers.delete(0));
    let made = process.create(0);
    assert_eq!(other.join().unwrap(), Ok(()));
    match made {
        Err(error) => assert_eq!((error, process.timers.count()), (Error::Busy, 0)),
        Ok(()) => assert_eq!((process.timers.getoverrun(0), process.timers.count()), (Ok(0), 1)),
    }
}

/// A deleted timer is free for the next one that is made. Of two threads that want it, one gets it.
fn free_for_one() {
    let process = Process::with(&[0, 1]);
    process.timers.delete(0).expect("the timer was there");
    let other = spawn(&process, |process| process.create(2));
    assert_eq!((process.create(3), other.join().unwrap()), (Ok(()), Ok(())));
    assert!([1, 2, 3].into_iter().all(|id| process.timers.getoverrun(id) == Ok(0)));
    assert_eq!(process.timers.count(), 3);
}

/// Two threads delete timers, and the shard that these go to passes from the lock of one group to that of another.
fn freed_by_two() {
    let process = Process::with(&[0, 1, 2, 3]);
    let other = spawn(&process, |process| process.timers.delete(2));
    assert_eq!([3, 1].map(|id| process.timers.delete(id)), [Ok(()), Ok(())]);
    assert_eq!(other.join().unwrap(), Ok(()));
    // Memory that was freed twice would be given to two timers.
    (5..9).for_each(|id| process.create(id).expect("the ID is free"));
    assert!([0, 5, 6, 7, 8].into_iter().all(|id| process.timers.getoverrun(id) == Ok(0)));
    assert_eq!(process.timers.count(), 5);
}

fn next_id(process: &Process) -> i32 {
    process.timers.create(TimerClock::Monotonic, None).expect("IDs are left")
}

/// An ID is not given out again before all others have been, whether its timer still exists or not.
fn ids_follow_one_another() {
    let process = Process::with(&[0]);
    let other = spawn(&process, |process| [next_id(process), next_id(process)]);
    let first = next_id(&process);
    process.timers.delete(first).expect("the timer is there");
    let mut ids = vec![first, next_id(&process)];
    ids.extend(other.join().unwrap());
    ids.push(next_id(&process));
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() == 5 && ids[0] > 0, "{ids:?}");
}

/// The next IDs come after one that the caller chose, even if other threads make timers.
fn ids_follow_on_one_that_was_named() {
    let process = Process::with(&[0]);
    let other = spawn(&process, |process| [next_id(process), next_id(process)]);
    process.create(8).expect("the ID is free");
    let ids = [next_id(&process), next_id(&process)];
    let others = other.join().unwrap();
    // A thread that loses an ID gets a block, and the block that was given out first need not be used first.
    assert!(ids[0] > 8 && ids[1] > 8, "{ids:?}");
    assert!(ids[0] != ids[1] && !ids.iter().any(|id| others.contains(id)), "{ids:?} {others:?}");
}

/// Runs `look` while a timer is made for which there is no memory, so that the table grows by a step.
fn look_while_it_grows<R: 'static>(ids: &[i32], made: i32, look: fn(&Process) -> R) -> R {
    let process = Process::with(ids);
    let result = look_during(&process, |process| process.create(made).expect("the ID is free"), look);
    ids.iter().for_each(|&id| assert_eq!(process.timers.getoverrun(id), Ok(0), "timer {id}"));
    assert_eq!(process.timers.getoverrun(made), Ok(0));
    result
}

fn found_while_it_grows() {
    let both = |process: &Process| (process.timers.getoverrun(0), process.timers.gettime(1));
    assert_eq!(look_while_it_grows(&[0, 1], 2, both), (Ok(0), Ok(Setting::default())));
}

fn found_half_way() {
    let both = |process: &Process| (process.timers.getoverrun(3), process.timers.gettime(2));
    assert_eq!(look_while_it_grows(&[1, 2, 3, 4], 0, both), (Ok(0), Ok(Setting::default())));
}

fn absent_while_it_grows() {
    assert_eq!(look_while_it_grows(&[0, 1], 2, |process| process.timers.getoverrun(4)), Err(Error::Invalid));
}

fn deleted_while_it_grows() {
    let process = Process::with(&[0, 1]);
    let grow = |process: &Process| process.create(2).expect("the ID is free");
    let deleted = look_during(&process, grow, |process| [(); 2].map(|()| process.timers.delete(0)));
    assert_eq!(deleted, [Ok(()), Err(Error::Invalid)]);
    assert_eq!([0, 1, 2].map(|id| process.timers.getoverrun(id).is_ok()), [false, true, true]);
    assert_eq!(process.create(0), Ok(()));
}

/// Both threads make timers, so both may grow the table.
fn made_while_it_grows() {
    let make = |process: &Process| (process.create(0), process.create(3), process.timers.delete(3));
    assert_eq!(look_while_it_grows(&[0, 1], 2, make), (Err(Error::Busy), Ok(()), Ok(())));
}

/// A look-up finds a timer in memory that did not exist when it began, in a chain that did: timer 0 belongs to the half
/// of the table that was moved before.
fn fresh_in_an_old_chain() {
    let found = look_while_it_grows(&[1, 2, 3, 4], 0, |process| process.timers.getoverrun(0));
    assert!(found == Ok(0) || found == Err(Error::Invalid));
}

/// A look-up is at a timer that leaves its chain, and comes back in front of one that the look-up has not seen. The
/// thread that brings it back is ordered with that one only by the lock.
fn fresh_behind_an_old_one() {
    let process = Process::with(&[0]);
    let looks = spawn(&process, |process| process.timers.getoverrun(6));
    let turnover = spawn(&process, |process| {
        process.timers.delete(0).expect("the timer was there");
        process.create(4).expect("the ID is free");
    });
    // In time if the other thread has taken the memory of timer 0, and has not put it back.
    process.create(2).expect("the ID is free");
    turnover.join().unwrap();
    assert_eq!(looks.join().unwrap(), Err(Error::Invalid));
}

#[test]
fn a_timer_that_is_there_is_found() {
    check(found_all_the_time);
}

#[test]
fn a_look_up_never_answers_for_another_timer() {
    check(never_another);
    check(gone_and_back);
}

#[test]
fn a_timer_is_found_as_it_was_made() {
    check_pair(found_when_made);
    check(fresh_in_an_old_chain);
}

#[test]
fn a_timer_is_found_as_it_was_made_by_who_comes_from_another_chain() {
    check_crowd(fresh_behind_an_old_one);
}

#[test]
fn of_two_that_delete_one_does() {
    check_pair(deleted_once);
    check_pair(made_when_deleted);
}

#[test]
fn of_two_that_make_an_id_one_does() {
    check_pair(created_once);
}

#[test]
fn an_id_is_handed_out_once() {
    check(ids_follow_one_another);
    check(ids_follow_on_one_that_was_named);
}

#[test]
fn a_timer_that_is_free_becomes_one_other() {
    check(free_for_one);
    check(freed_by_two);
}

#[test]
fn growing_hides_no_timer() {
    check(found_while_it_grows);
    check(found_half_way);
    check_pair(absent_while_it_grows);
}

#[test]
fn growing_stands_in_nobodys_way() {
    check_pair(deleted_while_it_grows);
    check(made_while_it_grows);
}

#[test]
fn of_two_that_make_an_id_one_does_while_the_table_grows() {
    check_pair(created_once_while_it_grows);
}

catches!(timers_table_catches_look_up_trusts_miss, LookUpTrustsMiss, TRIO, found_all_the_time);
catches!(timers_table_catches_look_up_skips_recheck, LookUpSkipsRecheck, TRIO, never_another);
catches!(timers_table_catches_delete_leaves_valid, DeleteLeavesValid, PAIR, deleted_once);
catches!(timers_table_catches_insert_skips_check, InsertSkipsCheck, PAIR, created_once);
catches!(timers_table_catches_shard_trusts_peek, ShardTrustsPeek, TRIO, ids_follow_one_another);
catches!(timers_table_catches_shard_trusts_peek_in_a_delete, ShardTrustsPeek, TRIO, freed_by_two);
catches!(timers_table_catches_shard_relaxed, ShardRelaxed, TRIO, ids_follow_one_another);
catches!(timers_table_catches_jump_voids_first, JumpVoidsFirst, TRIO, ids_follow_on_one_that_was_named);
catches!(timers_table_catches_group_live_early, GroupLiveEarly, TRIO, found_while_it_grows);
catches!(timers_table_catches_group_stays_live, GroupStaysLive, TRIO, found_while_it_grows);
catches!(timers_table_catches_timer_relaxed, TimerRelaxed, PAIR, found_when_made);
catches!(timers_table_catches_head_relaxed, HeadRelaxed, TRIO, fresh_in_an_old_chain);
catches!(timers_table_catches_ids_relaxed, IdsRelaxed, TRIO, found_while_it_grows);
