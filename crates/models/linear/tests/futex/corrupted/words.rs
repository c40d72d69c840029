//! Words that threads change without a system call: plain stores, and locks in user space.

use super::*;

const fn owned_by(thread: usize) -> i64 {
    TIDS[thread] as i64
}

/// A plain store is visible at the end of the wake behind it, and at any time before.
#[test]
fn plain_store_is_visible_at_the_end_of_the_wake_behind_it() {
    let history = |begin, seen| {
        [(W, 1, 10, Op::Store(0, 1), 0), (W, 1, 10, wake(0, 1), 0), (A, begin, begin + 1, Op::Load(0), seen)]
    };
    accepted(&history(5, 0));
    accepted(&history(5, 1));
    accepted(&history(11, 1));
    refused(&history(11, 0));
    refused(&history(5, 2)); // a value that no thread has stored
}

#[test]
fn wake_behind_a_plain_store_finds_the_waiter_that_did_not_see_the_store() {
    let history = |[first, second]: [i64; 2]| {
        [
            (W, 1, 10, Op::Store(0, 1), 0),
            (W, 1, 10, wake(0, 1), first),
            (A, 2, 30, wait(0), 0),
            (W, 20, 21, wake(0, 1), second),
        ]
    };
    accepted(&history([1, 0]));
    refused(&history([0, 1])); // the first wake has missed it
}

#[test]
fn lock_in_user_space_is_taken_if_the_word_is_0_and_only_then() {
    let history =
        |found, then| [(A, 1, 2, Op::LockFast(0), 0), (B, 3, 4, Op::LockFast(0), found), (W, 5, 6, Op::Load(0), then)];
    accepted(&history(owned_by(A), owned_by(A)));
    refused(&history(0, owned_by(A))); // two owners
    refused(&history(0, owned_by(B)));
    refused(&history(owned_by(A), owned_by(B))); // it has taken a lock that was not free
    refused(&history(owned_by(A), 0)); // it has not written its owner
    // The lock calls see it.
    let beside = |result| [(A, 1, 2, Op::LockFast(0), 0), (B, 3, 4, Op::TryLock(0), result)];
    accepted(&beside(EAGAIN));
    refused(&beside(0));
}

#[test]
fn lock_in_user_space_is_left_by_its_owner_alone() {
    let history = |thread, found, then| {
        [(A, 1, 2, Op::LockFast(0), 0), (thread, 3, 4, Op::UnlockFast(0), found), (W, 5, 6, Op::Load(0), then)]
    };
    accepted(&history(A, owned_by(A), 0));
    refused(&history(A, owned_by(A), owned_by(A))); // it has left the owner in the word
    refused(&history(A, 0, 0)); // it was locked
    accepted(&history(B, owned_by(A), owned_by(A)));
    refused(&history(B, owned_by(A), 0)); // another thread's
    refused(&history(B, owned_by(B), 0));
}

/// B waits, and has set its bit. The owner unlocks in user space, which must fail, and then by the call.
#[test]
fn lock_with_a_waiter_is_not_left_in_user_space() {
    let waited = owned_by(A) | i64::from(WAITERS);
    let history = |found, unlocked| {
        [
            (A, 1, 2, Op::LockFast(0), 0),
            (B, 3, 30, lock(0), 0),
            (W, 5, 6, Op::Load(0), waited),
            (A, 7, 8, Op::UnlockFast(0), found),
            (A, 9, 10, Op::Unlock(0), unlocked),
        ]
    };
    accepted(&history(waited, 0));
    refused(&history(owned_by(A), EPERM)); // it has not seen the waiter
    refused(&history(waited, EPERM)); // and this has left the lock nevertheless
}
