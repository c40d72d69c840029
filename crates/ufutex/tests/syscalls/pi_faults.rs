//! The word of a PI lock is unmapped, protected or overwritten while there are waiters.

use crate::calls::{OWNER_DIED, WAITERS};
use crate::common::arena::Rights;
use crate::common::errno::{EFAULT, EINVAL, EPERM, ESRCH, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Machine, Pending, Thread};
use crate::memory::Word;
use crate::on_every_machine;

/// A lock on a private page of its own, which `owner` holds.
fn held(m: &Machine, owner: &Thread) -> Word {
    let word = Word(m.page(Rights::ReadWrite));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    word
}

fn waits<'t>(m: &Machine, word: Word, thread: &'t Thread) -> Pending<'t> {
    thread.begin(m.lock_pi(word))
}

fn unlock_of_an_unwritable_word_is_efault_and_can_be_repeated(m: &Machine) {
    let [owner, w] = m.threads();
    let word = held(m, &owner);
    let waiting = waits(m, word, &w);
    for rights in [Rights::Read, Rights::Nothing] {
        m.protect(word.0, rights);
        assert_eq!(owner.call(m.unlock_pi(word)), EFAULT);
        waiting.stays_asleep();
    }
    m.protect(word.0, Rights::ReadWrite);
    assert_eq!(word.get(), owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn timeout_needs_no_word(m: &Machine) {
    m.in_time(|length| {
        let [owner, w] = m.threads();
        let word = Word(m.private_word(0).0);
        assert_eq!(owner.call(m.lock_pi(word).private()), 0);
        let deadline = m.time_from_now(libc::CLOCK_MONOTONIC, length);
        let waiting = w.start(m.lock_pi2(word).private().timeout(deadline));
        waiting.until_asleep_or_over();
        let is_in_time = !waiting.is_over();
        word.set(0);
        assert_eq!(waiting.finish(), ETIMEDOUT);
        assert_eq!(word.get(), 0, "the word is left alone");
        is_in_time
    });
}

fn new_owner_after_a_death_gets_efault_if_the_word_is_unwritable(m: &Machine) {
    for rights in [Rights::Read, Rights::Nothing] {
        let [owner, w, t] = m.threads();
        let word = held(m, &owner);
        let dead = owner.tid();
        let waiting = waits(m, word, &w);
        m.protect(word.0, rights);
        owner.exit();
        assert_eq!(waiting.finish(), EFAULT);
        m.protect(word.0, Rights::ReadWrite);
        assert_eq!(word.get(), dead | WAITERS);
        assert_eq!(w.call(m.unlock_pi(word)), EPERM);
        assert_eq!(t.call(m.lock_pi(word)), ESRCH, "no waiter is left, and the owner is dead");
    }
}

fn waiters_behind_an_owner_that_got_efault_wait_for_its_exit(m: &Machine) {
    let [owner, a, b, t] = m.threads();
    let word = held(m, &owner);
    let (first, second) = (waits(m, word, &a), waits(m, word, &b));
    m.protect(word.0, Rights::Read);
    owner.exit();
    assert_eq!(first.finish(), EFAULT);
    m.protect(word.0, Rights::ReadWrite);
    second.stays_asleep();
    // The first waiter owns the lock, although the word does not hold its TID. It cannot unlock it.
    assert_eq!(a.call(m.unlock_pi(word)), EPERM);
    assert_eq!(t.call(m.lock_pi(word)), EINVAL);
    a.exit();
    assert_eq!(second.finish(), 0);
    assert_eq!(word.get(), b.tid() | WAITERS | OWNER_DIED);
}

fn lock_without_the_waiters_flag_is_still_handed_over(m: &Machine) {
    for flags in [0, OWNER_DIED, WAITERS | OWNER_DIED] {
        let [owner, w] = m.threads();
        let word = held(m, &owner);
        let waiting = waits(m, word, &w);
        word.set(owner.tid() | flags);
        assert_eq!(owner.call(m.unlock_pi(word)), 0);
        assert_eq!(word.get(), w.tid() | WAITERS, "{flags:#x}");
        assert_eq!(waiting.finish(), 0);
    }
}

fn overwritten_word_is_corrected_when_the_owner_dies(m: &Machine) {
    for value in [0, WAITERS, OWNER_DIED, 12345, u32::MAX] {
        let [owner, w] = m.threads();
        let word = held(m, &owner);
        let waiting = waits(m, word, &w);
        word.set(value);
        owner.exit();
        assert_eq!(waiting.finish(), 0);
        assert_eq!(word.get(), w.tid() | WAITERS | OWNER_DIED, "{value:#x}");
    }
}

fn lock_with_an_unmapped_word_is_efault_for_a_new_locker_and_keeps_its_waiters(m: &Machine) {
    let [owner, w, t] = m.threads();
    let word = held(m, &owner);
    let waiting = waits(m, word, &w);
    m.protect(word.0, Rights::Nothing);
    assert_eq!(t.call(m.lock_pi(word)), EFAULT);
    assert_eq!(t.call(m.trylock_pi(word)), EFAULT);
    waiting.stays_asleep();
    m.protect(word.0, Rights::ReadWrite);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn second_waiter_needs_read_access_only(m: &Machine) {
    if !m.is_private() {
        return; // the key of a shared word in private memory needs a writable page
    }
    let [owner, a, b] = m.threads();
    let word = held(m, &owner);
    let first = waits(m, word, &a);
    m.protect(word.0, Rights::Read);
    let second = waits(m, word, &b);
    m.protect(word.0, Rights::ReadWrite);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(first.finish(), 0);
    assert_eq!(a.call(m.unlock_pi(word)), 0);
    assert_eq!(second.finish(), 0);
}

on_every_machine![
    unlock_of_an_unwritable_word_is_efault_and_can_be_repeated,
    timeout_needs_no_word,
    new_owner_after_a_death_gets_efault_if_the_word_is_unwritable,
    waiters_behind_an_owner_that_got_efault_wait_for_its_exit,
    lock_without_the_waiters_flag_is_still_handed_over,
    overwritten_word_is_corrected_when_the_owner_dies,
    lock_with_an_unmapped_word_is_efault_for_a_new_locker_and_keeps_its_waiters,
    second_waiter_needs_read_access_only,
];
