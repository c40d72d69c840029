//! `FUTEX_LOCK_PI`, `FUTEX_LOCK_PI2` and `FUTEX_TRYLOCK_PI`. The valid combinations of word and queue are tested in
//! `pi_states`.

use std::time::Duration;

use crate::call::Call;
use crate::calls::{OWNER_DIED, TID_MASK, WAITERS, begin_all};
use crate::common::errno::{EAGAIN, EDEADLK, EFAULT, EINVAL, ENOSYS, EPERM, ESRCH, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Machine, Thread};
use crate::memory::Word;
use crate::on_every_machine;

/// The three calls that take a lock.
fn ways(m: &Machine, word: Word) -> [Call; 3] {
    [m.lock_pi(word), m.lock_pi2(word), m.trylock_pi(word)]
}

fn free_lock_is_taken_at_once(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for call in ways(m, word) {
        assert_eq!(t.call(call), 0);
        assert_eq!(word.get(), t.tid());
        assert_eq!(t.call(m.unlock_pi(word)), 0);
        assert_eq!(word.get(), 0);
    }
}

fn value_argument_is_ignored(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.lock_pi(word).value(99).value3(99).address2(3u64)), 0);
    assert_eq!(t.call(m.unlock_pi(word).value(99).value3(99).address2(3u64).timeout(1)), 0);
}

fn own_lock_is_edeadlk(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for flags in [0, WAITERS, OWNER_DIED, WAITERS | OWNER_DIED] {
        for call in ways(m, word) {
            word.set(t.tid() | flags);
            assert_eq!(t.call(call), EDEADLK);
            assert_eq!(word.get(), t.tid() | flags, "the word is left alone");
        }
    }
}

fn lock_of_a_dead_thread_is_esrch_and_waiters_is_set(m: &Machine) {
    let (t, dead) = (m.thread(), m.dead_tid());
    for flags in [0, WAITERS, OWNER_DIED] {
        for call in [0, 1, 2] {
            let word = m.word(dead | flags);
            assert_eq!(t.call(ways(m, word)[call]), ESRCH);
            assert_eq!(word.get(), dead | flags | WAITERS);
        }
    }
}

fn lock_of_a_thread_that_never_was_is_esrch(m: &Machine) {
    let (t, word) = (m.thread(), m.word(TID_MASK));
    assert_eq!(t.call(m.lock_pi(word)), ESRCH);
    assert_eq!(word.get(), TID_MASK | WAITERS);
}

fn lock_of_a_kernel_thread_is_eperm_and_waiters_is_set(m: &Machine) {
    let Some(kernels) = m.kernel_thread() else {
        return;
    };
    let t = m.thread();
    for call in [0, 1, 2] {
        let word = m.word(kernels);
        assert_eq!(t.call(ways(m, word)[call]), EPERM);
        assert_eq!(word.get(), kernels | WAITERS);
    }
}

fn trylock_of_a_lock_that_is_held_is_eagain_and_waiters_is_set(m: &Machine) {
    let ([owner, t], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    assert_eq!(t.call(m.trylock_pi(word)), EAGAIN);
    assert_eq!(word.get(), owner.tid() | WAITERS);
    assert_eq!(t.call(m.trylock_pi(word)), EAGAIN);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(word.get(), 0);
    assert_eq!(t.call(m.trylock_pi(word)), 0);
}

fn trylock_with_a_waiter_queued_is_eagain(m: &Machine) {
    let ([owner, w, t], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = w.begin(m.lock_pi(word));
    assert_eq!(t.call(m.trylock_pi(word)), EAGAIN);
    waiting.stays_asleep();
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(word.get(), w.tid() | WAITERS);
    assert_eq!(t.call(m.trylock_pi(word)), EAGAIN);
}

fn trylock_has_no_timeout(m: &Machine) {
    let ([owner, t], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    for time in [m.raw_time(-1, 0), m.past(), 1] {
        assert_eq!(t.call(m.trylock_pi(word).timeout(time)), EAGAIN);
    }
}

fn lock_taken_in_user_space_is_waited_for(m: &Machine) {
    let ([owner, w], word) = (m.threads(), m.word(0));
    word.set(owner.tid());
    let waiting = w.begin(m.lock_pi(word));
    assert_eq!(word.get(), owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(word.get(), w.tid() | WAITERS);
    // No waiter is left, but the flag is cleared only by the next unlock.
    assert_eq!(w.call(m.unlock_pi(word)), 0);
    assert_eq!(word.get(), 0);
}

fn lock_is_handed_over_in_the_order_of_arrival(m: &Machine) {
    let (owner, word) = (m.thread(), m.word(0));
    let threads: [Thread; 4] = m.threads();
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = begin_all(&threads, |_| m.lock_pi(word));
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    for (thread, waiting) in std::iter::zip(&threads, waiting) {
        assert_eq!(word.get(), thread.tid() | WAITERS);
        assert_eq!(waiting.finish(), 0);
        assert_eq!(thread.call(m.unlock_pi(word)), 0);
    }
    assert_eq!(word.get(), 0);
}

fn timeout_of_lock_pi_is_absolute_and_of_the_realtime_clock(m: &Machine) {
    let ([owner, t], word) = (m.threads(), m.word(0));
    word.set(owner.tid());
    let soon = m.time_from_now(libc::CLOCK_REALTIME, Duration::from_millis(10));
    assert_eq!(t.call(m.lock_pi(word).timeout(soon)), ETIMEDOUT);
    // On the monotonic clock this time is far ahead, unless the host has been up for decades.
    assert_eq!(
        t.call(m.lock_pi(word).timeout(m.time_from_now(libc::CLOCK_MONOTONIC, Duration::from_secs(9999)))),
        ETIMEDOUT
    );
    assert_eq!(word.get(), owner.tid() | WAITERS, "the flag stays");
}

fn timeout_of_lock_pi2_is_of_the_clock_that_it_names(m: &Machine) {
    let ([owner, t], word) = (m.threads(), m.word(0));
    word.set(owner.tid());
    let soon = m.time_from_now(libc::CLOCK_MONOTONIC, Duration::from_millis(10));
    assert_eq!(t.call(m.lock_pi2(word).timeout(soon)), ETIMEDOUT);
    let soon = m.time_from_now(libc::CLOCK_REALTIME, Duration::from_millis(10));
    assert_eq!(t.call(m.lock_pi2(word).realtime().timeout(soon)), ETIMEDOUT);
    let waiting = t.begin(m.lock_pi2(word).timeout(m.time_from_now(libc::CLOCK_REALTIME, Duration::ZERO)));
    waiting.stays_asleep();
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn lock_pi_takes_no_clock_flag(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.lock_pi(word).realtime()), ENOSYS);
    assert_eq!(t.call(m.trylock_pi(word).realtime()), ENOSYS);
    assert_eq!(t.call(m.unlock_pi(word).realtime()), ENOSYS);
    assert_eq!(word.get(), 0);
}

fn free_lock_is_taken_after_the_deadline(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.lock_pi(word).timeout(m.past())), 0);
    assert_eq!(word.get(), t.tid());
}

fn waiter_that_timed_out_is_gone_and_its_flag_stays(m: &Machine) {
    let ([owner, a, b], word) = (m.threads(), m.word(0));
    word.set(owner.tid());
    assert_eq!(a.call(m.lock_pi(word).timeout(m.past())), ETIMEDOUT);
    assert_eq!(word.get(), owner.tid() | WAITERS);
    let waiting = b.begin(m.lock_pi(word));
    assert_eq!(a.call(m.lock_pi(word).timeout(m.past())), ETIMEDOUT);
    waiting.stays_asleep();
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(b.call(m.unlock_pi(word)), 0);
    assert_eq!(word.get(), 0);
}

fn lock_must_be_aligned_and_mapped(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for op in [libc::FUTEX_LOCK_PI, crate::calls::FUTEX_LOCK_PI2, libc::FUTEX_TRYLOCK_PI] {
        assert_eq!(t.call(m.futex(word.0 + 2, op, 0)), EINVAL);
        assert_eq!(t.call(m.futex(0u64, op, 0)), EFAULT);
        assert_eq!(t.call(m.futex(1u64 << 63, op, 0)), EFAULT);
    }
}

on_every_machine![
    free_lock_is_taken_at_once,
    value_argument_is_ignored,
    own_lock_is_edeadlk,
    lock_of_a_dead_thread_is_esrch_and_waiters_is_set,
    lock_of_a_thread_that_never_was_is_esrch,
    lock_of_a_kernel_thread_is_eperm_and_waiters_is_set,
    trylock_of_a_lock_that_is_held_is_eagain_and_waiters_is_set,
    trylock_with_a_waiter_queued_is_eagain,
    trylock_has_no_timeout,
    lock_taken_in_user_space_is_waited_for,
    lock_is_handed_over_in_the_order_of_arrival,
    timeout_of_lock_pi_is_absolute_and_of_the_realtime_clock,
    timeout_of_lock_pi2_is_of_the_clock_that_it_names,
    lock_pi_takes_no_clock_flag,
    free_lock_is_taken_after_the_deadline,
    waiter_that_timed_out_is_gone_and_its_flag_stays,
    lock_must_be_aligned_and_mapped,
];
