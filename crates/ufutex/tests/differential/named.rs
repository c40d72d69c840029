//! Programs that once showed a defect, and kernel behaviour that is easy to get wrong. Each runs on the kernel, on the
//! engine in all its variants, and on the model.
//!
//! The output of a failed test can be pasted here unchanged.

use crate::program::Arg::*;
use crate::program::Cmd::*;
use crate::program::Number::*;
use crate::program::Rights::*;
use crate::program::Step::*;
use crate::program::Time::*;
use crate::program::{Arg, OWNER_DIED, PRIVATE, Program, Step, WAITERS, entries, locks};
use crate::suite::check;

fn check_steps(steps: Vec<Step>) {
    check(&Program { priorities: [0; 4], steps });
}

/// A word's value as an argument.
fn value(bits: u32) -> Arg {
    Num(bits.into())
}

fn lock(worker: usize, word: usize) -> Step {
    Call(worker, Futex, [Word(word), Op(LockPi, PRIVATE), Num(0), Num(0), Num(0), Num(0)])
}

fn trylock(worker: usize, word: usize) -> Step {
    Call(worker, Futex, [Word(word), Op(TrylockPi, PRIVATE), Num(0), Num(0), Num(0), Num(0)])
}

fn unlock(worker: usize, word: usize) -> Step {
    Call(worker, Futex, [Word(word), Op(UnlockPi, PRIVATE), Num(0), Num(0), Num(0), Num(0)])
}

fn wait_requeue(worker: usize, word: usize, target: usize) -> Step {
    Call(worker, Futex, [Word(word), Op(WaitRequeuePi, PRIVATE), Same(word), Num(0), Word(target), Num(0)])
}

fn requeue_pi(worker: usize, word: usize, count: u64, target: usize) -> Step {
    Call(worker, Futex, [Word(word), Op(CmpRequeuePi, PRIVATE), Num(1), Num(count), Word(target), Same(word)])
}

#[test]
fn lock_pi_of_an_own_lock_with_owner_died_set_succeeds() {
    for word in [OWNER_DIED, OWNER_DIED | WAITERS] {
        check_steps(vec![lock(0, 0), lock(1, 0), Store(0, value(word)), lock(0, 0), unlock(0, 0)]);
    }
}

#[test]
fn trylock_pi_of_an_own_lock_with_owner_died_set_corrects_the_word() {
    for word in [OWNER_DIED, OWNER_DIED | WAITERS] {
        check_steps(vec![lock(0, 0), lock(1, 0), Store(0, value(word)), trylock(0, 0), unlock(0, 0)]);
    }
}

#[test]
fn trylock_pi_of_an_own_lock_cannot_correct_a_word_that_is_read_only() {
    let change = [Store(2, value(OWNER_DIED)), Protect(1, Read)];
    check_steps([lock(0, 2), lock(1, 2)].into_iter().chain(change).chain([trylock(0, 2)]).collect());
}

#[test]
fn cmp_requeue_pi_reads_its_target_without_waiters() {
    check_steps(vec![requeue_pi(0, 0, 1, 6), Protect(1, Nothing), requeue_pi(0, 0, 0, 2), requeue_pi(0, 0, 0, 7)]);
}

#[test]
fn new_owner_of_an_unwritable_word_gets_efault_and_the_next_waiter_keeps_waiting() {
    for rights in [Nothing, Read] {
        let waiting = [lock(3, 4), lock(2, 4), lock(1, 4)];
        let end = [Protect(3, rights), Exit(3, locks(&[]), None), Protect(3, ReadWrite), trylock(0, 4), unlock(2, 4)];
        check_steps(waiting.into_iter().chain(end).collect());
    }
}

#[test]
fn requeue_pi_stops_at_a_deadlock_and_keeps_earlier_waiters_requeued() {
    let waiting = [wait_requeue(0, 0, 1), wait_requeue(1, 0, 1), Store(1, Tid(1, 0))];
    check_steps(waiting.into_iter().chain([requeue_pi(2, 0, i32::MAX as u64, 1), Signal(1, false)]).collect());
}

#[test]
fn signal_after_a_requeue_to_a_lock_is_eagain_and_before_it_restarts() {
    let steps = [lock(2, 1), wait_requeue(0, 0, 1), Signal(0, false), requeue_pi(3, 0, 0, 1), Signal(0, true)];
    check_steps(steps.to_vec());
}

#[test]
fn deadlock_along_three_owners_leaves_futex_waiters_set() {
    let locks = (0..3).map(|worker| lock(worker, worker));
    check_steps(locks.chain([lock(0, 1), lock(1, 2), lock(2, 0), unlock(2, 2)]).collect());
}

#[test]
fn owner_whose_inherited_priority_ends_moves_behind_equal_waiters() {
    // Worker 1 owns word 1 and waits ahead of worker 2 for word 0, which worker 0 owns. Worker 3 waits for word 1, so
    // worker 1 inherits its priority until worker 3 times out.
    let expired = Call(3, Futex, [Word(1), Op(LockPi, PRIVATE), Num(0), Time(Passed), Num(0), Num(0)]);
    let steps = vec![lock(0, 0), lock(1, 1), lock(1, 0), lock(2, 0), expired, unlock(0, 0)];
    check(&Program { priorities: [0, 0, 0, 1], steps });
}

#[test]
fn wake_that_reaches_a_pi_waiter_is_einval_but_wakes_earlier_waiters() {
    let wait = |worker| Call(worker, Futex, [Word(0), Op(Wait, PRIVATE), Same(0), Num(0), Num(0), Num(0)]);
    let wake = Call(3, Futex, [Word(0), Op(Wake, PRIVATE), Num(9), Num(0), Num(0), Num(0)]);
    check_steps(vec![wait(0), wait_requeue(1, 0, 1), wait(2), wake]);
}

#[test]
fn restart_syscall_after_a_handler_has_run_is_eintr() {
    let wait = Call(3, Futex, [Word(1), Op(Wait, PRIVATE), Num(0), Time(Far), Num(0), Num(0)]);
    let restart = Call(3, Restart, [const { Num(0) }; 6]);
    check_steps(vec![restart.clone(), wait, Signal(3, false), restart]);
}

#[test]
fn futex_requeue_with_different_flags_is_einval() {
    let entry = |word, flags| crate::program::Entry { value: Same(word), address: Word(word), flags, reserved: 0 };
    let both = |first, second| Vector(entries(&[entry(0, first), entry(1, second)]));
    let call = |vector| Call(0, Requeue2, [vector, Num(0), Num(1), Num(1), Num(0), Num(0)]);
    check_steps(vec![call(both(2, 2)), call(both(2, 2 | PRIVATE)), call(both(2 | PRIVATE, 2 | PRIVATE))]);
}

#[test]
fn unlock_pi_reads_the_word_before_it_checks_the_address() {
    let call = |address| Call(0, Futex, [address, Op(UnlockPi, PRIVATE), Num(0), Num(0), Num(0), Num(0)]);
    let kernel = 0xffff_8000_0000_0000;
    check_steps(vec![call(Past(0, 1)), call(Word(6)), call(Word(7)), call(Num(kernel)), call(Num(kernel + 1))]);
}

#[test]
fn two_mappings_of_one_page_are_one_shared_futex_and_two_private_ones() {
    let wait = |worker, flags| Call(worker, Futex, [Word(3), Op(Wait, flags), Num(0), Num(0), Num(0), Num(0)]);
    let wake = |flags| Call(3, Futex, [Word(5), Op(Wake, flags), Num(9), Num(0), Num(0), Num(0)]);
    let same = Call(3, Futex, [Word(3), Op(CmpRequeuePi, 0), Num(1), Num(0), Word(5), Num(0)]);
    check_steps(vec![wait(0, PRIVATE), wait(1, 0), wake(PRIVATE), wake(0), same]);
}
