//! Deadlock detection: chains of threads that each own a lock and wait for another one.

use crate::calls::WAITERS;
use crate::common::errno::{EAGAIN, EDEADLK, ETIMEDOUT};
use crate::common::skipped::skip;
use crate::machine::{Machine, Pending, Thread};
use crate::memory::Word;
use crate::on_every_machine;

/// Makes a chain. Each thread owns the lock with its index, and each but the last waits for the next lock.
fn chain<'t, const N: usize>(m: &Machine, threads: &'t [Thread; N]) -> ([Word; N], Vec<Pending<'t>>) {
    let locks: [Word; N] = m.words(0);
    for (thread, lock) in std::iter::zip(threads, locks) {
        assert_eq!(thread.call(m.lock_pi(lock)), 0);
    }
    let waiting = std::iter::zip(threads, &locks[1..]).map(|(thread, &next)| thread.begin(m.lock_pi(next))).collect();
    (locks, waiting)
}

/// Unlocks from the end of the chain. Each thread then gets the lock for which it waits.
fn unravel<const N: usize>(m: &Machine, threads: &[Thread; N], locks: [Word; N], waiting: Vec<Pending<'_>>) {
    assert_eq!(threads[N - 1].call(m.unlock_pi(locks[N - 1])), 0);
    for (i, waiting) in waiting.into_iter().enumerate().rev() {
        assert_eq!(waiting.finish(), 0);
        for lock in [locks[i + 1], locks[i]] {
            assert_eq!(threads[i].call(m.unlock_pi(lock)), 0);
        }
    }
}

fn deadlock_over<const N: usize>(m: &Machine) {
    let threads: [Thread; N] = m.threads();
    let (locks, waiting) = chain(m, &threads);
    let (first, last) = (threads[0].tid(), &threads[N - 1]);
    assert_eq!(last.call(m.lock_pi(locks[0])), EDEADLK);
    assert_eq!(locks[0].get(), first | WAITERS, "the flag stays");
    assert_eq!(last.call(m.lock_pi2(locks[0]).timeout(m.past())), EDEADLK);
    for waiting in &waiting {
        waiting.stays_asleep();
    }
    unravel(m, &threads, locks, waiting);
    assert_eq!(locks.map(Word::get), [0; N]);
}

fn deadlock_of_two_is_found(m: &Machine) {
    deadlock_over::<2>(m);
}

fn deadlock_of_three_is_found(m: &Machine) {
    deadlock_over::<3>(m);
}

fn deadlock_of_ten_is_found(m: &Machine) {
    deadlock_over::<10>(m);
}

/// The longest possible chain of waits if the sysctl `kernel.max_lock_depth` has its default, 1024. The engine has the
/// same default.
const LONGEST_CHAIN: usize = 1025;

/// The deadlock detection stops after this number of locks and returns EDEADLK.
fn chain_that_is_too_long_is_edeadlk(m: &Machine) {
    match std::fs::read_to_string("/proc/sys/kernel/max_lock_depth") {
        Ok(depth) if depth.trim() != "1024" => return skip(format_args!("kernel.max_lock_depth is {depth} here")),
        _ => {}
    }
    let threads: Vec<Thread> = (0..1100).map(|_| m.thread()).collect();
    // Private words, because the shared object is too small. The kind of word makes no difference here.
    let locks: Vec<Word> = threads.iter().map(|_| m.private_word(0)).collect();
    for (thread, lock) in std::iter::zip(&threads, &locks) {
        assert_eq!(thread.call(m.lock_pi(*lock).private()), 0);
    }
    let mut waiting = Vec::new();
    for (thread, &next) in std::iter::zip(&threads[1..], &locks) {
        let pending = thread.start(m.lock_pi(next).private());
        pending.until_asleep_or_over();
        match pending.result() {
            None => waiting.push(pending),
            Some(result) => {
                assert_eq!(result, EDEADLK);
                break;
            }
        }
    }
    assert_eq!(waiting.len(), LONGEST_CHAIN);
    assert_eq!(threads[0].call(m.unlock_pi(locks[0]).private()), 0);
    for (i, waiting) in waiting.into_iter().enumerate() {
        assert_eq!(waiting.finish(), 0);
        assert_eq!(threads[i + 1].call(m.unlock_pi(locks[i + 1]).private()), 0);
    }
}

fn trylock_that_would_deadlock_is_eagain(m: &Machine) {
    let threads: [Thread; 2] = m.threads();
    let (locks, waiting) = chain(m, &threads);
    assert_eq!(threads[1].call(m.trylock_pi(locks[0])), EAGAIN);
    unravel(m, &threads, locks, waiting);
}

fn long_chain_without_a_cycle_is_no_deadlock(m: &Machine) {
    let (threads, outside): ([Thread; 6], _) = (m.threads(), m.thread());
    let (locks, waiting) = chain(m, &threads);
    let further = outside.begin(m.lock_pi(locks[0]));
    unravel(m, &threads, locks, waiting);
    assert_eq!(further.finish(), 0);
    assert_eq!(outside.call(m.unlock_pi(locks[0])), 0);
}

fn chain_broken_by_a_timeout_is_no_deadlock(m: &Machine) {
    let ([a, b], [first, second]) = (m.threads(), m.words(0));
    assert_eq!(a.call(m.lock_pi(first)), 0);
    assert_eq!(b.call(m.lock_pi(second)), 0);
    assert_eq!(a.call(m.lock_pi(second).timeout(m.past())), ETIMEDOUT);
    let waiting = b.begin(m.lock_pi(first));
    assert_eq!(a.call(m.lock_pi(second).timeout(m.past())), EDEADLK);
    assert_eq!(a.call(m.unlock_pi(first)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn deadlock_over_a_requeued_waiter_is_found(m: &Machine) {
    let ([a, b, t], [from, lock, other]) = (m.threads(), m.words(0));
    // `a` owns `other` and waits on `from` to be requeued to `lock`. `b` owns `lock`.
    assert_eq!(a.call(m.lock_pi(other)), 0);
    assert_eq!(b.call(m.lock_pi(lock)), 0);
    let waiting = a.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(b.call(m.lock_pi(other)), EDEADLK);
    assert_eq!(b.call(m.unlock_pi(lock)), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(lock.get(), a.tid() | WAITERS);
}

on_every_machine![
    deadlock_of_two_is_found,
    deadlock_of_three_is_found,
    deadlock_of_ten_is_found,
    chain_that_is_too_long_is_edeadlk,
    trylock_that_would_deadlock_is_eagain,
    long_chain_without_a_cycle_is_no_deadlock,
    chain_broken_by_a_timeout_is_no_deadlock,
    deadlock_over_a_requeued_waiter_is_found,
];
