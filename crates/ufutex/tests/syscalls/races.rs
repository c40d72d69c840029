//! Races between two operations. Whichever comes first, the results must be consistent: no wake is lost or counted
//! twice.

use std::time::Duration;

use crate::calls::{ALL, WAITERS};
use crate::common::errno::{EAGAIN, EINTR, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Interruption, Machine, Thread};
use crate::memory::Word;
use crate::on_every_machine;

const ROUNDS: u32 = 150;

/// A deadline close to the test's next step, in some rounds before it and in some after it.
fn about_now(m: &Machine, round: u32) -> u64 {
    m.time_from_now(libc::CLOCK_MONOTONIC, Duration::from_micros(u64::from(round) * 2))
}

fn wakes_and_timeouts(m: &Machine) {
    let ([v, w, t], word) = (m.threads(), m.word(0));
    for round in 0..ROUNDS {
        let waiting = [&v, &w].map(|thread| thread.start(m.wait_bitset(word, 0, 1).timeout(about_now(m, round))));
        let woken = [1; 3].map(|count| t.call(m.wake(word, count))).iter().sum::<isize>();
        let results = waiting.map(|waiting| waiting.finish());
        assert!(results.iter().all(|&result| [0, ETIMEDOUT].contains(&result)), "{results:?}");
        assert_eq!(results.iter().filter(|&&result| result == 0).count() as isize, woken);
    }
    m.assert_waiters(word, 0);
}

/// A wake that comes between a wait's comparison and its sleep is not lost.
fn change_of_the_word_with_a_wake_and_wait(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    for round in 0..2 * ROUNDS {
        let waiting = w.start(m.wait(word, round));
        // Delays the wake a little more in each round, so that it comes at each point before the sleep.
        (0..round % 64 * 16).for_each(|_| std::hint::spin_loop());
        word.set(round + 1);
        let woken = t.call(m.wake(word, 1));
        assert_eq!(waiting.finish(), if woken == 1 { 0 } else { EAGAIN });
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
        // The requeue may have moved the waiter between the two wakes, so that both missed it.
        let woken = woken + u.call(m.wake(to, ALL));
        assert_eq!(waiting.finish(), if woken == 1 { 0 } else { ETIMEDOUT }, "woken {woken}");
    }
    m.assert_waiters(from, 0);
    m.assert_waiters(to, 0);
}

/// Unlocks. The kernel returns `EAGAIN` if the word changes between its two reads of it.
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
                // The waiter left before the exit, or it was handed the lock and left.
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
        // The lock is free. A waiter that left before the unlock may have left the flag.
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
        // The waiter was not requeued before the signal. It waits again and may still be requeued.
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

fn two_threads_lock_each_others_lock(m: &Machine) {
    // Each thread has one lock and requests the other one. One of them gets EDEADLK. In the kernel, which follows the
    // chain without holding all locks, both may get it.
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
    wakes_and_timeouts,
    change_of_the_word_with_a_wake_and_wait,
    wake_and_signal,
    wakes_of_several_words_and_timeout,
    requeue_and_timeout_and_wake,
    unlock_and_timeout,
    unlock_and_signal,
    death_and_timeout,
    requeue_to_a_lock_and_timeout,
    requeue_to_a_held_lock_unlock_and_timeout,
    requeue_to_a_lock_and_signal,
    two_threads_lock_each_others_lock,
];
