//! A wait on two words against a waker of each, and an interruptible wait against a waker and an interrupt.
//!
//! The interleavings looked for: a waker counts the waiter, which reports neither word, or the other one; the sleeper
//! sees that it was notified before it can see for what, and sleeps for ever ([N]); it leaves its stack frame before
//! the waker has notified it.

use loom::thread;
use ufutex_loom::{Error, Interrupt, Requeue, Scheme, WaitOptions};

use crate::support::{PAIR, TRIO, Word, World, catches, check, check_pair, some_time};

const FOR_EVER: WaitOptions = WaitOptions::new();

/// Each waker changes its word first. The counts of the wakers must agree with what the waiter reports.
fn against_two_wakers(scheme: Scheme, options: WaitOptions) {
    let world = World::with_slots_of(scheme, 2);
    let first = {
        let world = world.clone();
        thread::spawn(move || world.store_and_wake())
    };
    let second = {
        let world = world.clone();
        thread::spawn(move || {
            world.other.store(1);
            world.domain.wake(&world.other, 1)
        })
    };
    let result = world.domain.wait_any(&[(&world.word, 0), (&world.other, 0)], &options);
    let woken = [first.join().unwrap(), second.join().unwrap()];
    match result {
        Ok(word) => {
            assert_eq!(woken[word], 1, "the word that is reported was woken");
            assert!(word == 1 || woken[1] == 0, "it is the last of those that were");
        }
        Err(error) => {
            assert_eq!(woken, [0, 0], "nobody has counted a wait that failed");
            assert!(error == Error::Again || (error == Error::TimedOut));
        }
    }
    assert_eq!((world.domain.wake(&world.word, 9), world.domain.wake(&world.other, 9)), (0, 0));
}

/// A wake may come first, later, or not at all, because the word does not change. An interrupt always comes.
fn against_waker_and_interrupt() {
    let world = World::with_slots(2);
    let interrupt = loom::sync::Arc::new(Interrupt::new());
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.domain.wake(&world.word, 1))
    };
    let signal = {
        let interrupt = interrupt.clone();
        thread::spawn(move || interrupt.raise())
    };
    let result = world.domain.wait_interruptible(&world.word, 0, &FOR_EVER, &interrupt);
    let woken = waker.join().unwrap();
    signal.join().unwrap();
    assert_eq!(result, if woken == 1 { Ok(()) } else { Err(Error::Interrupted) });
    assert!(interrupt.is_raised());
}

/// The interrupt is cleared as soon as it has been raised. If the wait is under way by then, which the requeue shows, it
/// ends; and otherwise it is woken, or finds another value.
fn against_a_cleared_interrupt() {
    let world = World::with_slots(2);
    let interrupt = loom::sync::Arc::new(Interrupt::new());
    let signal = {
        let (world, interrupt) = (world.clone(), interrupt.clone());
        thread::spawn(move || {
            let one = Requeue { wake: 0, requeue: 1 };
            let is_under_way = world.domain.requeue(&world.word, &world.other, one).unwrap().requeued == 1;
            interrupt.raise();
            interrupt.clear();
            if !is_under_way {
                world.store_and_wake();
            }
            is_under_way
        })
    };
    let result = world.domain.wait_interruptible(&world.word, 0, &FOR_EVER, &interrupt);
    let is_under_way = signal.join().unwrap();
    assert!(result == Err(Error::Interrupted) || (!is_under_way && matches!(result, Ok(()) | Err(Error::Again))));
    assert!(!interrupt.is_raised());
    // It ended that wait alone: the next one has no thread that could wake it.
    assert_eq!(world.domain.wait_interruptible(&world.other, 0, &some_time(), &interrupt), Err(Error::TimedOut));
}

/// A thread that finds the interrupt raised sees what was stored before it was raised: [N].
fn stored_before_the_interrupt() {
    let shared = loom::sync::Arc::new((Interrupt::new(), Word::at(0x1000)));
    let signal = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.1.store(1);
            shared.0.raise();
        })
    };
    if shared.0.is_raised() {
        assert_eq!(shared.1.value(), 1);
    }
    signal.join().unwrap();
}

/// A thread clears the interrupt, and then looks what it was for. Either it sees what was stored before, or the
/// interrupt is raised after that: [N].
fn stored_before_the_interrupt_is_cleared() {
    let shared = loom::sync::Arc::new((Interrupt::new(), Word::at(0x1000)));
    let signal = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.1.store(1);
            shared.0.raise();
        })
    };
    shared.0.clear();
    let seen = shared.1.value();
    signal.join().unwrap();
    assert!(seen == 1 || shared.0.is_raised());
}

/// One waker, one of two words: only the pair of [N], with more preemptions.
fn against_one_waker() {
    let world = World::with_slots(2);
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.store_and_wake())
    };
    let result = world.domain.wait_any(&[(&world.word, 0), (&world.other, 0)], &FOR_EVER);
    let expected = if waker.join().unwrap() == 1 { Ok(0) } else { Err(Error::Again) };
    assert_eq!(result, expected);
    assert_eq!(world.domain.wake(&world.other, 1), 0);
}

/// One thread makes both wakes, so that they come soon after each other.
fn against_one_waker_of_both() {
    let world = World::with_slots(2);
    let waker = {
        let world = world.clone();
        thread::spawn(move || [world.domain.wake(&world.word, 1), world.domain.wake(&world.other, 1)])
    };
    let result = world.domain.wait_any(&[(&world.word, 0), (&world.other, 0)], &some_time());
    let expected = match waker.join().unwrap() {
        [_, 1] => Ok(1),
        [1, _] => Ok(0),
        _ => Err(Error::TimedOut),
    };
    assert_eq!(result, expected);
}

fn two_wakers() {
    against_two_wakers(Scheme::Live, FOR_EVER);
}

#[test]
fn a_wait_on_two_words_hears_of_both_wakers() {
    check(two_wakers);
    check(|| against_two_wakers(Scheme::Atomic, FOR_EVER));
}

#[test]
fn a_wait_on_two_words_hears_of_both_wakers_or_times_out() {
    check(|| against_two_wakers(Scheme::Live, some_time()));
}

#[test]
fn a_wait_on_two_words_reports_the_one_that_was_woken() {
    check_pair(against_one_waker);
    check_pair(against_one_waker_of_both);
}

#[test]
fn a_wait_is_interrupted_or_woken() {
    check(against_waker_and_interrupt);
}

#[test]
fn an_interrupt_that_is_cleared_ends_the_wait_that_is_under_way() {
    check_pair(against_a_cleared_interrupt);
}

#[test]
fn an_interrupt_that_is_found_shows_what_was_stored_before() {
    check_pair(stored_before_the_interrupt);
    check_pair(stored_before_the_interrupt_is_cleared);
}

catches!(wait_any_catches_no_wait_barrier, NoWaitBarrier, PAIR, against_one_waker);
catches!(wait_any_catches_wait_any_forgets_wake, WaitAnyForgetsWake, TRIO, two_wakers);
catches!(wait_any_catches_sleeper_forgets, SleeperForgets, PAIR, against_one_waker);
catches!(wait_any_catches_notifies_too_late, NotifiesTooLate, PAIR, against_one_waker_of_both);
catches!(wait_any_catches_drop_skips_handover, DropSkipsHandover, PAIR, against_one_waker_of_both);
catches!(interrupt_catches_timeout_loses_wake, TimeoutLosesWake, TRIO, against_waker_and_interrupt);
catches!(interrupt_catches_clear_forgets_wait, ClearForgetsWait, PAIR, against_a_cleared_interrupt);
