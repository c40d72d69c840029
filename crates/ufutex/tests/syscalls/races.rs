//! Two things happen at about the same time. Whichever comes first, their results must fit together: nothing is lost,
//! nothing is counted twice.

use std::time::Duration;

use crate::calls::{ALL, WAITERS};
use crate::common::errno::{EAGAIN, EINTR, ETIMEDOUT};
use crate::machine::{Interruption, Machine, Thread};
use crate::memory::Word;
use crate::on_every_machine;

const ROUNDS: u32 = 150;

/// A deadline that comes at about the time at which the test goes on, sometimes before and sometimes after.
fn about_now(m: &Machine, round: u32) -> u64 {
    m.time_from_now(libc::CLOCK_MONOTONIC, Duration::from_micros(u64::from(round) * 2))
}

fn wake_and_timeout(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    for round in 0..ROUNDS {
        let waiting = w.start(m.wait_bitset(word, 0, 1).timeout(about_now(m, round)));
        let woken = t.call(m.wake(word, ALL));
        assert_eq!(waiting.finish(), if woken == 1 { 0 } else { ETIMEDOUT });
    }
    m.assert_waiters(word, 0);
}

fn wake_and_signal(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    for _ in 0..ROUNDS {
        let waiting = w.begin(m.wait(word, 0));
        let wake = t.start(m.wake(word, ALL));
        w.interrupt(Interruption::Handler);
        let woken = wake.finish();
        assert_eq!(waiting.finish(), if woken == 1 { 0 } else { EINTR });
    }
    m.assert_waiters(word, 0);
}

fn wakes_of_several_words_and_timeout(m: &Machine) {
    let ([w, t, u], [a, b]) = (m.threads(), m.words(0));
    for round in 0..ROUNDS {
        let waiting = w.start(m.waitv(&[m.entry(a, 0), m.entry(b, 0)]).timeout(about_now(m, round)));
        let wakes = [t.start(m.wake(a, ALL)), u.start(m.wake(b, ALL))].map(|wake| wake.finish());
        let result = waiting.finish();
        let expected: &[isize] = match wakes {
            [0, 0] => &[ETIMEDOUT],
            [1, 0] => &[0],
            [0, 1] => &[1],
            [1, 1] => &[0, 1],
            _ => panic!("{wakes:?}"),
        };
        assert!(expected.contains(&result), "{result} after {wakes:?}");
    }
    m.assert_waiters(a, 0);
    m.assert_waiters(b, 0);
}

fn requeue_and_timeout_and_wake(m: &Machine) {
    let ([w, t, u], [from, to]) = (m.threads(), m.words(0));
    for round in 0..ROUNDS {
        let waiting = w.start(m.wait_bitset(from, 0, 1).timeout(about_now(m, round)));
        let requeue = t.start(m.requeue(from, to, 0, 1));
        let woken = u.call(m.wake(to, ALL)) + u.call(m.wake(from, ALL));
        requeue.finish();
        // Between the two wakes it may have been moved past both.
        let woken = woken + u.call(m.wake(to, ALL));
        assert_eq!(waiting.finish(), if woken == 1 { 0 } else { ETIMEDOUT }, "woken {woken}");
    }
    m.assert_waiters(from, 0);
    m.assert_waiters(to, 0);
}

/// Unlocks. The kernel says `EAGAIN` if somebody has come, set the flag, and gone between its two looks at the word.
#[track_caller]
fn unlock(m: &Machine, owner: &Thread, word: Word) {
    loop {
        match owner.call(m.unlock_pi(word)) {
            EAGAIN => assert_eq!(word.get(), owner.tid() | WAITERS),
            result => return assert_eq!(result, 0),
        }
    }
}

fn unlock_and_timeout(m: &Machine) {
    let ([owner, w], word) = (m.threads(), m.word(0));
    for round in 0..ROUNDS {
        assert_eq!(owner.call(m.lock_pi(word)), 0);
        let waiting = w.start(m.lock_pi2(word).timeout(about_now(m, round)));
        unlock(m, &owner, word);
        match waiting.finish() {
            0 => {
                assert_eq!(word.get() & !WAITERS, w.tid());
                assert_eq!(w.call(m.unlock_pi(word)), 0);
            }
            error => assert_eq!(error, ETIMEDOUT),
        }
        assert_eq!(word.get(), 0);
    }
}

fn unlock_and_signal(m: &Machine) {
    let ([owner, w], word) = (m.threads(), m.word(0));
    for _ in 0..ROUNDS {
        assert_eq!(owner.call(m.lock_pi(word)), 0);
        let waiting = w.begin(m.lock_pi(word));
        let unlock = owner.start(m.unlock_pi(word));
        w.interrupt(Interruption::Handler);
        assert_eq!(unlock.finish(), 0);
        assert_eq!(waiting.finish(), 0, "it is restarted until it has the lock");
        assert_eq!(word.get() & !WAITERS, w.tid());
        assert_eq!(w.call(m.unlock_pi(word)), 0);
        assert_eq!(word.get(), 0);
    }
}

fn death_and_timeout(m: &Machine) {
    let w = m.thread();
    for round in 0..ROUNDS / 3 {
        let (owner, word) = (m.thread(), m.private_word(0));
        assert_eq!(owner.call(m.lock_pi(word).private()), 0);
        let waiting = w.start(m.lock_pi2(word).private().timeout(about_now(m, round * 3)));
        waiting.until_asleep_or_over();
        let dead = owner.tid();
        owner.exit();
        match waiting.finish() {
            0 => {
                assert_eq!(word.get(), w.tid() | WAITERS | crate::calls::OWNER_DIED);
                assert_eq!(w.call(m.unlock_pi(word).private()), 0);
                assert_eq!(word.get(), 0);
            }
            error => {
                assert_eq!(error, ETIMEDOUT);
                // The waiter may have been handed the lock and have left all the same; or it was gone by then.
                assert_eq!(word.get() & !WAITERS, dead);
            }
        }
    }
}

fn requeue_to_a_lock_and_timeout(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    for round in 0..ROUNDS {
        let waiting = w.start(m.wait_requeue_pi(from, 0, lock).timeout(about_now(m, round)));
        let requeued = t.call(m.cmp_requeue_pi(from, 0, lock, 0));
        assert_eq!(waiting.finish(), if requeued == 1 { 0 } else { ETIMEDOUT });
        assert_eq!(lock.get(), if requeued == 1 { w.tid() } else { 0 });
        if requeued == 1 {
            assert_eq!(w.call(m.unlock_pi(lock)), 0);
        }
    }
}

fn requeue_to_a_held_lock_unlock_and_timeout(m: &Machine) {
    let ([owner, w, t], [from, lock]) = (m.threads(), m.words(0));
    for round in 0..ROUNDS {
        assert_eq!(owner.call(m.lock_pi(lock)), 0);
        let waiting = w.start(m.wait_requeue_pi(from, 0, lock).timeout(about_now(m, round)));
        let requeue = t.start(m.cmp_requeue_pi(from, 0, lock, 0));
        unlock(m, &owner, lock);
        let requeued = requeue.finish();
        match waiting.finish() {
            0 => {
                assert_eq!(requeued, 1);
                assert_eq!(lock.get() & !WAITERS, w.tid());
                assert_eq!(w.call(m.unlock_pi(lock)), 0);
            }
            error => assert_eq!(error, ETIMEDOUT),
        }
        // Nobody holds it; a flag may be left by one who found it held and was gone before the unlock.
        assert_eq!(t.call(m.lock_pi(lock)), 0);
        assert_eq!(t.call(m.unlock_pi(lock)), 0);
        assert_eq!(lock.get(), 0);
    }
}

fn requeue_to_a_lock_and_signal(m: &Machine) {
    let ([owner, w, t], [from, lock]) = (m.threads(), m.words(0));
    for _ in 0..ROUNDS {
        assert_eq!(owner.call(m.lock_pi(lock)), 0);
        let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
        let requeue = t.start(m.cmp_requeue_pi(from, 0, lock, 0));
        w.interrupt(Interruption::Handler);
        // Not requeued when the signal came: it waits again, and may be requeued still.
        if requeue.finish() == 0 {
            waiting.until_asleep();
            assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
        }
        assert_eq!(owner.call(m.unlock_pi(lock)), 0);
        match waiting.finish() {
            0 => {
                assert_eq!(lock.get() & !WAITERS, w.tid());
                assert_eq!(w.call(m.unlock_pi(lock)), 0);
            }
            error => assert_eq!(error, EAGAIN),
        }
        assert_eq!(lock.get(), 0);
    }
}

fn lock_and_lock_each_others(m: &Machine) {
    // Each has one lock and wants the other's: one of them is told that this cannot be. The kernel, which looks along a
    // chain step by step, may tell both.
    let ([a, b], [first, second]) = (m.threads(), m.words(0));
    for _ in 0..ROUNDS {
        assert_eq!(a.call(m.lock_pi(first)), 0);
        assert_eq!(b.call(m.lock_pi(second)), 0);
        let (for_second, for_first) = (a.start(m.lock_pi(second)), b.start(m.lock_pi(first)));
        for_second.until_asleep_or_over();
        for_first.until_asleep_or_over();
        let a_is_refused = match (for_second.result(), for_first.result()) {
            (Some(crate::common::errno::EDEADLK), None) => true,
            (None, Some(crate::common::errno::EDEADLK)) => false,
            (Some(crate::common::errno::EDEADLK), Some(crate::common::errno::EDEADLK)) => {
                assert_eq!((a.call(m.unlock_pi(first)), b.call(m.unlock_pi(second))), (0, 0));
                continue;
            }
            results => panic!("{results:?}"),
        };
        if a_is_refused {
            assert_eq!(a.call(m.unlock_pi(first)), 0);
            assert_eq!(for_first.finish(), 0);
            assert_eq!(b.call(m.unlock_pi(first)), 0);
            assert_eq!(b.call(m.unlock_pi(second)), 0);
        } else {
            assert_eq!(b.call(m.unlock_pi(second)), 0);
            assert_eq!(for_second.finish(), 0);
            assert_eq!(a.call(m.unlock_pi(second)), 0);
            assert_eq!(a.call(m.unlock_pi(first)), 0);
        }
        assert_eq!((first.get(), second.get()), (0, 0));
    }
}

on_every_machine![
    wake_and_timeout,
    wake_and_signal,
    wakes_of_several_words_and_timeout,
    requeue_and_timeout_and_wake,
    unlock_and_timeout,
    unlock_and_signal,
    death_and_timeout,
    requeue_to_a_lock_and_timeout,
    requeue_to_a_held_lock_unlock_and_timeout,
    requeue_to_a_lock_and_signal,
    lock_and_lock_each_others,
];
