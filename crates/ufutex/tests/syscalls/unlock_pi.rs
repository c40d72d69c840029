//! `FUTEX_UNLOCK_PI`.

use crate::calls::{OWNER_DIED, WAITERS};
use crate::common::arena::Rights;
use crate::common::errno::{EFAULT, EINVAL, EPERM};
use crate::machine::Machine;
use crate::memory::Word;
use crate::on_every_machine;

fn lock_without_waiters_becomes_0_whatever_its_flags(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for flags in [0, WAITERS, OWNER_DIED, WAITERS | OWNER_DIED] {
        word.set(t.tid() | flags);
        assert_eq!(t.call(m.unlock_pi(word)), 0);
        assert_eq!(word.get(), 0);
    }
}

fn unlock_by_another_thread_is_eperm(m: &Machine) {
    let ([owner, w, t], word) = (m.threads(), m.word(0));
    for value in [0, WAITERS, OWNER_DIED, owner.tid(), owner.tid() | WAITERS] {
        word.set(value);
        assert_eq!(t.call(m.unlock_pi(word)), EPERM, "{value:#x}");
        assert_eq!(word.get(), value);
    }
    word.set(owner.tid());
    let waiting = w.begin(m.lock_pi(word));
    assert_eq!(t.call(m.unlock_pi(word)), EPERM);
    waiting.stays_asleep();
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn word_with_another_tid_in_the_callers_own_queue_is_eperm(m: &Machine) {
    let ([owner, w, t], word) = (m.threads(), m.word(0));
    word.set(owner.tid());
    let waiting = w.begin(m.lock_pi(word));
    word.set(t.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), EPERM);
    word.set(owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn word_with_the_callers_tid_in_another_owners_queue_is_einval(m: &Machine) {
    let ([owner, w, t], word) = (m.threads(), m.word(0));
    word.set(owner.tid());
    let waiting = w.begin(m.lock_pi(word));
    word.set(t.tid() | WAITERS);
    assert_eq!(t.call(m.unlock_pi(word)), EINVAL);
    assert_eq!(word.get(), t.tid() | WAITERS);
    waiting.stays_asleep();
    word.set(owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn lock_on_which_a_plain_waiter_waits_is_einval(m: &Machine) {
    let ([t, w, x], [word, lock]) = (m.threads(), m.words(0));
    word.set(t.tid());
    let waiting = w.begin(m.wait(word, t.tid()));
    assert_eq!(t.call(m.unlock_pi(word)), EINVAL);
    assert_eq!(word.get(), t.tid());
    assert_eq!(t.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
    let waiting = x.begin(m.wait_requeue_pi(word, t.tid(), lock));
    assert_eq!(t.call(m.unlock_pi(word)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(word, t.tid(), lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(t.call(m.unlock_pi(word)), 0);
}

fn plain_waiter_behind_a_pi_waiter_is_ignored(m: &Machine) {
    let ([owner, w, plain], word) = (m.threads(), m.word(0));
    word.set(owner.tid());
    let waiting = w.begin(m.lock_pi(word));
    let plainly = plain.begin(m.wait(word, owner.tid() | WAITERS));
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(word.get(), w.tid() | WAITERS);
    plainly.stays_asleep();
    assert_eq!(w.call(m.unlock_pi(word)), EINVAL, "now it is the first");
    assert_eq!(w.call(m.wake(word, 1)), 1);
    assert_eq!(plainly.finish(), 0);
    assert_eq!(w.call(m.unlock_pi(word)), 0);
}

fn word_is_read_before_its_address_is_checked(m: &Machine) {
    let (t, page) = (m.thread(), m.page(Rights::ReadWrite));
    assert_eq!(t.call(m.unlock_pi(0u64)), EFAULT);
    assert_eq!(t.call(m.unlock_pi(1u64)), EFAULT);
    assert_eq!(t.call(m.unlock_pi(1u64 << 63)), EFAULT);
    assert_eq!(t.call(m.unlock_pi((1u64 << 63) + 1)), EFAULT);
    m.put(page + 1, &(t.tid() + 1).to_ne_bytes());
    assert_eq!(t.call(m.unlock_pi(page + 1)), EPERM);
    m.put(page + 1, &t.tid().to_ne_bytes());
    assert_eq!(t.call(m.unlock_pi(page + 1)), EINVAL);
}

fn lock_must_be_writable(m: &Machine) {
    let (t, page) = (m.thread(), m.page(Rights::ReadWrite));
    Word(page).set(t.tid());
    m.protect(page, Rights::Read);
    assert_eq!(t.call(m.unlock_pi(page)), EFAULT);
    m.protect(page, Rights::Nothing);
    assert_eq!(t.call(m.unlock_pi(page)), EFAULT);
    assert_eq!(t.call(m.lock_pi(page)), EFAULT);
    m.protect(page, Rights::Read);
    // The word is checked before it is written. The key of a shared word needs a writable page.
    let own = if m.is_private() { crate::common::errno::EDEADLK } else { EFAULT };
    assert_eq!(t.call(m.lock_pi(page)), own);
    assert_eq!(m.thread().call(m.lock_pi(page)), EFAULT);
    assert_eq!(m.thread().call(m.unlock_pi(page)), EPERM);
}

on_every_machine![
    lock_without_waiters_becomes_0_whatever_its_flags,
    unlock_by_another_thread_is_eperm,
    word_with_another_tid_in_the_callers_own_queue_is_eperm,
    word_with_the_callers_tid_in_another_owners_queue_is_einval,
    lock_on_which_a_plain_waiter_waits_is_einval,
    plain_waiter_behind_a_pi_waiter_is_ignored,
    word_is_read_before_its_address_is_checked,
    lock_must_be_writable,
];
