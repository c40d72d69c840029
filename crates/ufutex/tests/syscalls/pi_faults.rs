//! The word of a PI lock is taken away, or overwritten, while others wait.

use crate::calls::{OWNER_DIED, WAITERS};
use crate::common::arena::Rights;
use crate::common::errno::{EFAULT, EINVAL, EPERM, ESRCH, ETIMEDOUT};
use crate::machine::{Machine, Pending, Thread};
use crate::memory::Word;
use crate::on_every_machine;

/// A lock on a page of its own, private, that `owner` holds.
fn held(m: &Machine, owner: &Thread) -> Word {
    let word = Word(m.page(Rights::ReadWrite));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    word
}

fn waits<'t>(m: &Machine, word: Word, thread: &'t Thread) -> Pending<'t> {
    thread.begin(m.lock_pi(word))
}

fn unlock_of_a_word_that_cannot_be_written_is_efault_and_can_be_made_again(m: &Machine) {
    let [owner, w] = m.threads();
    let word = held(m, &owner);
    let waiting = waits(m, word, &w);
    for rights in [Rights::Read, Rights::None] {
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
        let is_in_time = waiting.result().is_none();
        word.set(0);
        assert_eq!(waiting.finish(), ETIMEDOUT);
        assert_eq!(word.get(), 0, "the word is left alone");
        is_in_time
    });
}

fn waiter_of_the_dead_whose_word_cannot_be_written_gets_efault(m: &Machine) {
    for rights in [Rights::Read, Rights::None] {
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
        assert_eq!(t.call(m.lock_pi(word)), ESRCH, "nobody waits any more: it is the dead one's");
    }
}

fn waiters_behind_one_who_got_efault_wait_for_its_death(m: &Machine) {
    let [owner, a, b, t] = m.threads();
    let word = held(m, &owner);
    let (first, second) = (waits(m, word, &a), waits(m, word, &b));
    m.protect(word.0, Rights::Read);
    owner.exit();
    assert_eq!(first.finish(), EFAULT);
    m.protect(word.0, Rights::ReadWrite);
    second.stays_asleep();
    // The lock is the first one's, though the word does not say so and it cannot let go of it.
    assert_eq!(a.call(m.unlock_pi(word)), EPERM);
    assert_eq!(t.call(m.lock_pi(word)), EINVAL);
    a.exit();
    assert_eq!(second.finish(), 0);
    assert_eq!(word.get(), b.tid() | WAITERS | OWNER_DIED);
}

fn word_that_lost_its_flag_is_handed_on_all_the_same(m: &Machine) {
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

fn word_that_is_overwritten_is_mended_when_the_owner_dies(m: &Machine) {
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

fn lock_whose_word_has_gone_is_efault_for_the_next_and_its_waiters_stay(m: &Machine) {
    let [owner, w, t] = m.threads();
    let word = held(m, &owner);
    let waiting = waits(m, word, &w);
    m.protect(word.0, Rights::None);
    assert_eq!(t.call(m.lock_pi(word)), EFAULT);
    assert_eq!(t.call(m.trylock_pi(word)), EFAULT);
    waiting.stays_asleep();
    m.protect(word.0, Rights::ReadWrite);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn second_waiter_needs_to_read_the_word_only(m: &Machine) {
    if !m.is_private() {
        return; // a shared word in private memory must be writable to be found at all
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
    unlock_of_a_word_that_cannot_be_written_is_efault_and_can_be_made_again,
    timeout_needs_no_word,
    waiter_of_the_dead_whose_word_cannot_be_written_gets_efault,
    waiters_behind_one_who_got_efault_wait_for_its_death,
    word_that_lost_its_flag_is_handed_on_all_the_same,
    word_that_is_overwritten_is_mended_when_the_owner_dies,
    lock_whose_word_has_gone_is_efault_for_the_next_and_its_waiters_stay,
    second_waiter_needs_to_read_the_word_only,
];
