//! Threads that sleep on one word, and wakes of one of them or of all.
//!
//! The interleaving looked for: a waiter checks its signal before the wake stores `WOKEN`, and falls asleep after the
//! wake's call. The word that it sleeps on has changed meanwhile, so it does not ([Y]).
//!
//! Promise: sleep in a group

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ufutex_loom::model::Grouped;

use crate::support::{PAIR, catches, check, check_pair};

/// Data that a wake's caller writes before it, and that the woken thread reads.
struct Data(UnsafeCell<u32>);

// SAFETY: what the model is about. Loom reports accesses that nothing orders.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

impl Data {
    fn write(&self) {
        // SAFETY: as above.
        self.0.with_mut(|data| unsafe { *data = 1 });
    }
    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|data| unsafe { *data })
    }
}

fn one_sleeps() {
    let (group, data) = (Arc::new(Grouped::<1>::new()), Arc::new(Data(UnsafeCell::new(0))));
    let waker = {
        let (group, data) = (group.clone(), data.clone());
        thread::spawn(move || {
            data.write();
            group.wake(&[0]);
        })
    };
    assert_eq!(group.sleep(0), Some(true));
    assert_eq!(data.read(), 1);
    waker.join().unwrap();
}

/// The wake comes before the member spins, while it spins, or when it sleeps.
fn one_spins() {
    let group = Arc::new(Grouped::<1>::new());
    let waker = {
        let group = group.clone();
        thread::spawn(move || group.wake(&[0]))
    };
    assert_eq!(group.spin_and_sleep(0), Some(true));
    waker.join().unwrap();
}

/// One call wakes both.
fn both_sleep() {
    let group = Arc::new(Grouped::<2>::new());
    let other = {
        let group = group.clone();
        thread::spawn(move || assert_eq!(group.sleep(1), Some(true)))
    };
    let waker = {
        let group = group.clone();
        thread::spawn(move || group.wake(&[0, 1]))
    };
    assert_eq!(group.sleep(0), Some(true));
    other.join().unwrap();
    waker.join().unwrap();
}

/// A wake of another member comes between a waiter's look at its signal and its sleep, and one of its own.
fn another_is_woken() {
    let group = Arc::new(Grouped::<2>::new());
    let wakers = [0, 1].map(|i| {
        let group = group.clone();
        thread::spawn(move || group.wake(&[i]))
    });
    assert_eq!(group.sleep(0), Some(true));
    assert_eq!(group.sleep(1), Some(true));
    wakers.into_iter().for_each(|waker| waker.join().unwrap());
}

#[test]
fn a_member_that_sleeps_is_woken() {
    check_pair(one_sleeps);
}

#[test]
fn a_member_that_spins_is_woken() {
    check_pair(one_spins);
}

#[test]
fn one_call_wakes_both_members() {
    check(both_sleep);
}

#[test]
fn wake_of_another_member_loses_no_wake() {
    check(another_is_woken);
}

catches!(group_catches_member_wake_looks_first, MemberWakeLooksFirst, PAIR, one_spins);
catches!(group_catches_loaded_late, GroupLoadedLate, PAIR, one_sleeps);
catches!(group_catches_woken_early, GroupWokenEarly, PAIR, one_sleeps);
catches!(group_catches_count_relaxed, GroupCountRelaxed, PAIR, one_sleeps);
