//! Look-ups, which take no lock, against timers that are made, deleted and made again in the same memory, and against a
//! table that grows: [Q], [R], [S].
//!
//! The interleavings looked for: a look-up stands on a timer that is taken out of its chain, or comes to a chain that is
//! being moved, and misses a timer that is there all the time; or it finds a timer that by the time it has locked it
//! is another one. And whatever is found without a lock must be seen as it was made.
//!
//! In a model two timers are made at a time, a group is one slot, and one group is moved at a time: of five timers the
//! first group of two has been moved and the second has not.

use loom::thread::JoinHandle;
use std::sync::Arc;
use ufutex_loom::Error;
use ufutex_loom::timer::Setting;

use crate::support::{catches, check_pair};
use crate::timers::{Process, setting, spawn};

/// Told from all others by its interval.
const SET: u64 = 1000;

fn spawn_turnover(process: &Arc<Process>, gone: i32, made: i32) -> JoinHandle<()> {
    spawn(process, move |process| {
        process.timers.delete(gone).expect("the timer was there");
        process.create(made).expect("the ID is free");
        process.arm(made, SET, SET).expect("the timer is there");
    })
}

/// What is in front of it in the chain goes and comes.
fn found_all_the_time() {
    let process = Process::with(&[0, 1]);
    let other = spawn(&process, |process| {
        process.timers.delete(1).expect("the timer was there");
        process.create(2).expect("the ID is free");
    });
    assert_eq!(process.timers.getoverrun(0), Ok(0));
    assert_eq!(process.timers.gettime(0), Ok(Setting::default()));
    other.join().unwrap();
}

/// A timer whose memory becomes another one's.
fn never_another() {
    let process = Process::with(&[0]);
    let other = spawn_turnover(&process, 0, 1);
    match process.timers.gettime(0) {
        Ok(found) => assert_eq!(found, Setting::default(), "this is timer 1"),
        Err(error) => assert_eq!(error, Error::Invalid),
    }
    other.join().unwrap();
    assert_eq!(process.timers.gettime(0), Err(Error::Invalid));
    assert_eq!(process.timers.gettime(1), Ok(setting(SET, SET)));
}

/// A timer that is deleted and made again, with the same ID and in the same memory: before or after, nothing between.
fn gone_and_back() {
    let process = Process::with(&[0]);
    let other = spawn_turnover(&process, 0, 0);
    match process.timers.gettime(0) {
        Ok(found) => assert!(found == Setting::default() || found == setting(SET, SET)),
        Err(error) => assert_eq!(error, Error::Invalid),
    }
    other.join().unwrap();
    assert_eq!(process.timers.gettime(0), Ok(setting(SET, SET)));
}

fn found_when_made() {
    let process = Process::with(&[]);
    let other = spawn(&process, |process| process.create(0).expect("the ID is free"));
    match process.timers.gettime(0) {
        Ok(found) => assert_eq!(found, Setting::default()),
        Err(error) => assert_eq!(error, Error::Invalid),
    }
    other.join().unwrap();
    assert_eq!(process.timers.getoverrun(0), Ok(0));
}

/// Twice the same call: one succeeds, the other fails with `error`, and so many timers are left.
fn once(ids: &[i32], error: Error, left: usize, call: fn(&Process) -> Result<(), Error>) {
    let process = Process::with(ids);
    let other = spawn(&process, call);
    let results = [call(&process), other.join().unwrap()];
    assert!(results == [Ok(()), Err(error)] || results == [Err(error), Ok(())], "{results:?}");
    assert_eq!(process.timers.count(), left);
    // One more of each memory that is free: whatever is free twice is a timer twice.
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

/// Who makes an ID that somebody deletes either comes too early or makes it.
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

/// One more timer than there is memory for: the table grows by a step.
fn grows(ids: &'static [i32], made: i32, look: fn(&Process)) {
    let process = Process::with(ids);
    let other = spawn(&process, move |process| process.create(made).expect("the ID is free"));
    look(&process);
    other.join().unwrap();
    ids.iter().for_each(|&id| assert_eq!(process.timers.getoverrun(id), Ok(0), "timer {id}"));
    assert_eq!(process.timers.getoverrun(made), Ok(0));
}

fn found_while_it_grows() {
    grows(&[0, 1], 2, |process| {
        assert_eq!(process.timers.getoverrun(0), Ok(0));
        assert_eq!(process.timers.gettime(1), Ok(Setting::default()));
    });
}

fn found_half_way() {
    grows(&[0, 1, 2, 3, 4, 5], 6, |process| {
        assert_eq!(process.timers.gettime(0), Ok(Setting::default()));
        assert_eq!(process.timers.getoverrun(5), Ok(0));
    });
}

fn absent_while_it_grows() {
    grows(&[0, 1], 2, |process| assert_eq!(process.timers.getoverrun(7), Err(Error::Invalid)));
}

fn deleted_while_it_grows() {
    let process = Process::with(&[0, 1]);
    let other = spawn(&process, |process| process.create(2).expect("the ID is free"));
    assert_eq!(process.timers.delete(1), Ok(()));
    assert_eq!(process.timers.delete(1), Err(Error::Invalid));
    other.join().unwrap();
    assert_eq!([0, 1, 2].map(|id| process.timers.getoverrun(id).is_ok()), [true, false, true]);
    assert_eq!(process.create(1), Ok(()));
}

/// Both make more timers, and so may both grow the table.
fn made_while_it_grows() {
    grows(&[0, 1], 2, |process| {
        assert_eq!(process.create(0), Err(Error::Busy));
        process.create(3).expect("the ID is free");
        process.timers.delete(3).expect("the timer was there");
    });
}

/// A look-up meets a timer in memory that was not there when it began, in a chain that was.
fn fresh_in_an_old_chain() {
    let process = Process::with(&[1, 2, 3, 4, 5, 6]);
    let other = spawn(&process, |process| process.create(0).expect("the ID is free"));
    let found = process.timers.getoverrun(0);
    assert!(found == Ok(0) || found == Err(Error::Invalid));
    other.join().unwrap();
}

/// A look-up stands on a timer that leaves its chain and comes before a fresh one in another.
fn fresh_behind_an_old_one() {
    let process = Process::with(&[0, 1]);
    let other = spawn(&process, |process| {
        process.create(2).expect("the ID is free");
        process.timers.delete(0).expect("the timer was there");
        process.create(4).expect("the ID is free");
    });
    assert_eq!(process.timers.getoverrun(9), Err(Error::Invalid));
    other.join().unwrap();
}

#[test]
fn a_timer_that_is_there_is_found() {
    check_pair(found_all_the_time);
}

#[test]
fn a_look_up_never_answers_for_another_timer() {
    check_pair(never_another);
    check_pair(gone_and_back);
}

#[test]
fn a_timer_is_found_as_it_was_made() {
    check_pair(found_when_made);
    check_pair(fresh_in_an_old_chain);
    check_pair(fresh_behind_an_old_one);
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
fn growing_hides_no_timer() {
    check_pair(found_while_it_grows);
    check_pair(found_half_way);
    check_pair(absent_while_it_grows);
}

#[test]
fn growing_stands_in_nobodys_way() {
    check_pair(deleted_while_it_grows);
    check_pair(made_while_it_grows);
}

#[test]
fn of_two_that_make_an_id_one_does_while_the_table_grows() {
    check_pair(created_once_while_it_grows);
}

catches!(timers_table_catches_look_up_trusts_miss, LookUpTrustsMiss, found_all_the_time);
catches!(timers_table_catches_look_up_skips_recheck, LookUpSkipsRecheck, never_another);
catches!(timers_table_catches_delete_leaves_valid, DeleteLeavesValid, deleted_once);
catches!(timers_table_catches_insert_skips_check, InsertSkipsCheck, created_once);
catches!(timers_table_catches_group_live_early, GroupLiveEarly, found_while_it_grows);
catches!(timers_table_catches_group_stays_live, GroupStaysLive, found_while_it_grows);
catches!(timers_table_catches_timer_relaxed, TimerRelaxed, found_when_made);
catches!(timers_table_catches_head_relaxed, HeadRelaxed, fresh_in_an_old_chain);
catches!(timers_table_catches_successor_relaxed, SuccessorRelaxed, fresh_behind_an_old_one);
catches!(timers_table_catches_ids_relaxed, IdsRelaxed, found_while_it_grows);
