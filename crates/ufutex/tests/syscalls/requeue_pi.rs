//! `FUTEX_WAIT_REQUEUE_PI` and `FUTEX_CMP_REQUEUE_PI`.

use std::time::Duration;

use crate::calls::{ALL, OWNER_DIED, WAITERS, begin_all};
use crate::common::arena::Rights;
use crate::common::errno::{EAGAIN, EDEADLK, EFAULT, EINVAL, ENOSYS, ESRCH, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Interruption, Machine, Thread};
use crate::memory::Word;
use crate::on_every_machine;

fn free_lock_is_given_to_the_first_waiter_at_once(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(lock.get(), w.tid(), "no other waiter is left to requeue: no flag");
    assert_eq!(waiting.finish(), 0);
    assert_eq!(w.call(m.unlock_pi(lock)), 0);
    assert_eq!(lock.get(), 0);
}

fn flag_is_set_when_more_could_be_requeued(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 1);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(lock.get(), w.tid() | WAITERS);
    assert_eq!(w.call(m.unlock_pi(lock)), 0);
    assert_eq!(lock.get(), 0);
}

fn free_lock_keeps_owner_died(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    lock.set(OWNER_DIED | WAITERS);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(lock.get(), w.tid() | OWNER_DIED);
}

fn others_are_requeued_and_get_the_lock_in_turn(m: &Machine) {
    let (t, [from, lock]) = (m.thread(), m.words(0));
    let threads: [Thread; 4] = m.threads();
    let waiting = begin_all(&threads, |_| m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 4);
    for (thread, waiting) in std::iter::zip(&threads, waiting) {
        assert_eq!(waiting.finish(), 0);
        assert_eq!(lock.get(), thread.tid() | WAITERS);
        assert_eq!(thread.call(m.unlock_pi(lock)), 0);
    }
    assert_eq!(lock.get(), 0);
    assert_eq!(t.call(m.wake(from, ALL)), 0);
}

fn requeue_to_a_held_lock_moves_count_plus_one_waiters(m: &Machine) {
    let ([owner, t], [from, lock]) = (m.threads(), m.words(0));
    let threads: [Thread; 4] = m.threads();
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = begin_all(&threads, |_| m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), 2);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 1);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 0);
    assert_eq!(lock.get(), owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    for (thread, waiting) in std::iter::zip(&threads, waiting) {
        assert_eq!(waiting.finish(), 0);
        assert_eq!(thread.call(m.unlock_pi(lock)), 0);
    }
}

fn requeued_waiters_get_the_lock_by_priority(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, a, b, c, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    b.set_priority(10);
    c.set_priority(20);
    let first = a.begin(m.wait_requeue_pi(from, 0, lock));
    let second = b.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1, "the one with the priority");
    assert_eq!(owner.priority(), 10);
    let third = c.begin(m.lock_pi(lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 1);
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    for (thread, waiting) in [(&c, third), (&b, second), (&a, first)] {
        assert_eq!(waiting.finish(), 0);
        assert_eq!(thread.call(m.unlock_pi(lock)), 0);
    }
}

fn requeue_without_waiters_returns_0_and_leaves_the_lock_unchanged(m: &Machine) {
    let (t, [from, lock]) = (m.thread(), m.words(0));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 0);
    assert_eq!(lock.get(), 0);
    // Without waiters the invalid owner is not noticed.
    lock.set(m.dead_tid());
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 0);
}

fn differing_word_is_eagain(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(w.call(m.wait_requeue_pi(from, 1, lock)), EAGAIN);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 1, lock, 0)), EAGAIN);
    waiting.stays_asleep();
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn same_address_is_einval(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait_requeue_pi(word, 0, word)), EINVAL);
    assert_eq!(t.call(m.wait_requeue_pi(word, 1, word)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(word, 0, word, 1)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(word, 1, word, 1)), EINVAL);
}

fn same_word_at_another_address_is_einval(m: &Machine) {
    let (t, [here, there]) = (m.thread(), m.twin_words(0));
    assert_eq!(t.call(m.wait_requeue_pi(here, 0, there).shared()), EINVAL);
    assert_eq!(t.call(m.wait_requeue_pi(here, 1, there).shared()), EAGAIN, "after the value");
    assert_eq!(t.call(m.cmp_requeue_pi(here, 0, there, 1).shared()), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(here, 1, there, 1).shared()), EINVAL, "before the value");
}

fn wake_count_must_be_1(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    for count in [0, 2, -1, i32::MAX] {
        assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1).value(count as u32)), EINVAL, "{count}");
        assert_eq!(t.call(m.cmp_requeue_pi(from, 1, lock, 1).value(count as u32)), EINVAL, "{count}");
    }
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, -1)), EINVAL);
    waiting.stays_asleep();
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn lock_must_be_the_one_that_the_waiter_waits_for(m: &Machine) {
    let ([w, t], [from, lock, other]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, other, 1)), EINVAL);
    assert_eq!(other.get(), 0);
    waiting.stays_asleep();
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn waiter_for_another_lock_behind_the_first_is_einval_after_the_first_got_the_lock(m: &Machine) {
    let ([a, b, t], [from, lock, other]) = (m.threads(), m.words(0));
    let first = a.begin(m.wait_requeue_pi(from, 0, lock));
    let second = b.begin(m.wait_requeue_pi(from, 0, other));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), EINVAL);
    assert_eq!(first.finish(), 0);
    assert_eq!(lock.get(), a.tid() | WAITERS);
    second.stays_asleep();
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, other, ALL)), 1);
    assert_eq!(second.finish(), 0);
}

fn plain_waiter_is_einval(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait(from, 0));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), EINVAL);
    assert_eq!(lock.get(), 0);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake(from, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn plain_waiter_behind_the_first_is_einval_after_the_first_got_the_lock(m: &Machine) {
    let ([a, b, t], [from, lock]) = (m.threads(), m.words(0));
    let first = a.begin(m.wait_requeue_pi(from, 0, lock));
    let plain = b.begin(m.wait(from, 0));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), EINVAL);
    assert_eq!(first.finish(), 0);
    plain.stays_asleep();
    assert_eq!(t.call(m.wake(from, 1)), 1);
    assert_eq!(plain.finish(), 0);
}

fn waiter_for_a_pi_lock_cannot_be_requeued(m: &Machine) {
    let ([owner, w, t], [lock, other]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.lock_pi(lock));
    assert_eq!(t.call(m.cmp_requeue_pi(lock, lock.get(), other, 1)), EINVAL);
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn plain_waiter_on_the_lock_is_einval(m: &Machine) {
    let ([a, w, t], [from, lock]) = (m.threads(), m.words(0));
    let plain = a.begin(m.wait(lock, 0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), EINVAL);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake(lock, 1)), 1);
    assert_eq!(plain.finish(), 0);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn lock_that_the_waiter_owns_already_is_edeadlk(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(w.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), EDEADLK);
    assert_eq!(lock.get(), w.tid());
    waiting.stays_asleep();
    lock.set(0);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn requeue_that_would_close_a_cycle_is_edeadlk(m: &Machine) {
    let ([w, owner, t], [from, lock, own]) = (m.threads(), m.words(0));
    assert_eq!(w.call(m.lock_pi(own)), 0);
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    let owner_waits = owner.begin(m.lock_pi(own));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), EDEADLK);
    assert_eq!(lock.get(), owner.tid() | WAITERS);
    waiting.stays_asleep();
    owner_waits.stays_asleep();
    // The waiter is still on its first word and can be requeued after the lock has become free.
    lock.set(0);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(w.call(m.unlock_pi(own)), 0);
    assert_eq!(owner_waits.finish(), 0);
}

fn lock_of_a_dead_owner_is_esrch(m: &Machine) {
    let ([w, t], from) = (m.threads(), m.word(0));
    let dead = m.dead_tid();
    let lock = m.word(dead);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), ESRCH);
    assert_eq!(lock.get(), dead | WAITERS);
    waiting.stays_asleep();
    lock.set(0);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn timeout_before_the_requeue_leaves_no_waiter(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(w.call(m.wait_requeue_pi(from, 0, lock).timeout(m.past())), ETIMEDOUT);
    let soon = m.time_from_now(libc::CLOCK_MONOTONIC, Duration::from_millis(10));
    assert_eq!(w.call(m.wait_requeue_pi(from, 0, lock).timeout(soon)), ETIMEDOUT);
    let soon = m.time_from_now(libc::CLOCK_REALTIME, Duration::from_millis(10));
    assert_eq!(w.call(m.wait_requeue_pi(from, 0, lock).realtime().timeout(soon)), ETIMEDOUT);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 0);
    assert_eq!(lock.get(), 0);
}

fn timeout_after_the_requeue_leaves_no_waiter(m: &Machine) {
    m.in_time(|length| {
        let ([owner, w, t], [from, lock]) = (m.threads(), m.words(0));
        assert_eq!(owner.call(m.lock_pi(lock)), 0);
        let deadline = m.time_from_now(libc::CLOCK_MONOTONIC, length);
        let waiting = w.start(m.wait_requeue_pi(from, 0, lock).timeout(deadline));
        waiting.until_asleep_or_over();
        let is_in_time = t.call(m.cmp_requeue_pi(from, 0, lock, ALL)) == 1;
        assert_eq!(waiting.finish(), ETIMEDOUT);
        assert_eq!(lock.get(), owner.tid() | if is_in_time { WAITERS } else { 0 });
        assert_eq!(owner.call(m.unlock_pi(lock)), 0);
        assert_eq!(lock.get(), 0);
        assert_eq!(t.call(m.wake(from, ALL)) + t.call(m.wake(lock, ALL)), 0);
        is_in_time
    });
}

fn requeued_waiter_with_a_timeout_gets_the_lock(m: &Machine) {
    let ([owner, w, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock).timeout(m.far(libc::CLOCK_MONOTONIC)));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, ALL)), 1);
    waiting.stays_asleep();
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(lock.get(), w.tid() | WAITERS);
}

fn signal_before_the_requeue_restarts_the_wait(m: &Machine) {
    for how in [Interruption::Handler, Interruption::RestartingHandler] {
        let ([w, t], [from, lock]) = (m.threads(), m.words(0));
        let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
        w.interrupt(how);
        waiting.until_asleep();
        assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
        assert_eq!(waiting.finish(), 0);
    }
}

fn signal_before_the_requeue_is_eagain_when_the_word_has_changed(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    from.set(1);
    w.interrupt(Interruption::Handler);
    assert_eq!(waiting.finish(), EAGAIN);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 1, lock, ALL)), 0);
}

fn signal_after_the_requeue_is_eagain(m: &Machine) {
    for how in [Interruption::Handler, Interruption::RestartingHandler] {
        let ([owner, w, t], [from, lock]) = (m.threads(), m.words(0));
        assert_eq!(owner.call(m.lock_pi(lock)), 0);
        let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
        assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
        w.interrupt(how);
        assert_eq!(waiting.finish(), EAGAIN);
        assert_eq!(lock.get(), owner.tid() | WAITERS);
        assert_eq!(owner.call(m.unlock_pi(lock)), 0);
        assert_eq!(lock.get(), 0);
    }
}

fn requeued_waiters_and_lockers_share_one_queue(m: &Machine) {
    let ([owner, a, b, c, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let second = b.begin(m.wait_requeue_pi(from, 0, lock));
    let first = a.begin(m.lock_pi(lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    let third = c.begin(m.lock_pi(lock));
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    for (thread, waiting) in [(&a, first), (&b, second), (&c, third)] {
        assert_eq!(waiting.finish(), 0);
        assert_eq!(lock.get(), thread.tid() | WAITERS);
        assert_eq!(thread.call(m.unlock_pi(lock)), 0);
    }
    assert_eq!(lock.get(), 0);
}

fn requeued_waiter_cannot_be_woken_or_requeued(m: &Machine) {
    let ([owner, w, t], [from, lock, to]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(t.call(m.wake(from, ALL)), 0);
    assert_eq!(t.call(m.wake(lock, ALL)), EINVAL);
    assert_eq!(t.call(m.requeue(lock, to, 0, 1)), EINVAL);
    waiting.stays_asleep();
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn word_holds_the_new_owners_tid_when_unlock_returns(m: &Machine) {
    let ([owner, w, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    assert_eq!(lock.get(), w.tid() | WAITERS);
    assert_eq!(waiting.finish(), 0);
}

fn addresses_must_be_good(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let kernels = 1u64 << 63;
    assert_eq!(t.call(m.wait_requeue_pi(word, 0, word.0 + 1)), EINVAL);
    assert_eq!(t.call(m.wait_requeue_pi(word.0 + 1, 0, word)), EINVAL);
    assert_eq!(t.call(m.wait_requeue_pi(word, 0, kernels)), EFAULT);
    assert_eq!(t.call(m.wait_requeue_pi(word, 1, kernels)), EFAULT, "before the value");
    assert_eq!(t.call(m.wait_requeue_pi(0u64, 0, word)), EFAULT);
    assert_eq!(t.call(m.cmp_requeue_pi(word, 0, word.0 + 1, 0)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(word.0 + 1, 0, word, 0)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(word, 0, kernels, 0)), EFAULT);
    // The lock is read even if there are no waiters.
    assert_eq!(t.call(m.cmp_requeue_pi(word, 0, 0u64, 0)), EFAULT);
    let page = m.page(Rights::Nothing);
    assert_eq!(t.call(m.cmp_requeue_pi(word, 0, page, 0)), EFAULT);
    assert_eq!(t.call(m.cmp_requeue_pi(page, 0, word, 0)), EFAULT);
}

fn unwritable_lock_is_efault_and_the_waiter_stays(m: &Machine) {
    let ([w, t], from) = (m.threads(), m.word(0));
    let page = m.page(Rights::ReadWrite);
    let lock = Word(page);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    m.protect(page, Rights::Read);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), EFAULT);
    waiting.stays_asleep();
    m.protect(page, Rights::ReadWrite);
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn cmp_requeue_pi_takes_no_clock_and_wait_takes_no_bitset(m: &Machine) {
    let ([w, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0).realtime()), ENOSYS);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock).value3(0));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    free_lock_is_given_to_the_first_waiter_at_once,
    flag_is_set_when_more_could_be_requeued,
    free_lock_keeps_owner_died,
    others_are_requeued_and_get_the_lock_in_turn,
    requeue_to_a_held_lock_moves_count_plus_one_waiters,
    requeued_waiters_get_the_lock_by_priority,
    requeue_without_waiters_returns_0_and_leaves_the_lock_unchanged,
    differing_word_is_eagain,
    same_address_is_einval,
    same_word_at_another_address_is_einval,
    wake_count_must_be_1,
    lock_must_be_the_one_that_the_waiter_waits_for,
    waiter_for_another_lock_behind_the_first_is_einval_after_the_first_got_the_lock,
    plain_waiter_is_einval,
    plain_waiter_behind_the_first_is_einval_after_the_first_got_the_lock,
    waiter_for_a_pi_lock_cannot_be_requeued,
    plain_waiter_on_the_lock_is_einval,
    lock_that_the_waiter_owns_already_is_edeadlk,
    requeue_that_would_close_a_cycle_is_edeadlk,
    lock_of_a_dead_owner_is_esrch,
    timeout_before_the_requeue_leaves_no_waiter,
    timeout_after_the_requeue_leaves_no_waiter,
    requeued_waiter_with_a_timeout_gets_the_lock,
    signal_before_the_requeue_restarts_the_wait,
    signal_before_the_requeue_is_eagain_when_the_word_has_changed,
    signal_after_the_requeue_is_eagain,
    requeued_waiters_and_lockers_share_one_queue,
    requeued_waiter_cannot_be_woken_or_requeued,
    word_holds_the_new_owners_tid_when_unlock_returns,
    addresses_must_be_good,
    unwritable_lock_is_efault_and_the_waiter_stays,
    cmp_requeue_pi_takes_no_clock_and_wait_takes_no_bitset,
];
