//! The states in which a locker can find a PI futex, by the kind of the first waiter in the queue, the owner in the
//! kernel's state, and the word. They are numbered as in the table of [kernel-futex] (`pi.c`):
//!
//! | | first waiter | owner in the state | TID in the word | `OWNER_DIED` | |
//! |---|---|---|---|---|---|
//! | 1 | none | | 0 | any | taken |
//! | 2 | none | | a thread's | any | waited for |
//! | 3 | not for a lock | | any | any | `EINVAL` |
//! | 4 | for the lock | died | 0 | set | waited for |
//! | 5 | for the lock | died | not 0 | set | `EINVAL` |
//! | 6 | for the lock | a thread | 0 | set | waited for |
//! | 7 | for the lock | died | any | not set | `EINVAL` |
//! | 8 | for the lock | a thread | its own | any | waited for |
//! | 9 | for the lock | a thread | 0 | not set | `EINVAL` |
//! | 10 | for the lock | a thread | another's | any | `EINVAL` |
//!
//! States 4, 5 and 7 last from the death of an owner until the next one has run, so a test cannot hold them. How they
//! end is tested in `owner_death`.

use crate::calls::{OWNER_DIED, WAITERS};
use crate::common::errno::EINVAL;
use crate::machine::{Machine, Pending, Thread};
use crate::memory::Word;
use crate::on_every_machine;

fn state_1_no_waiter_and_no_owner(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for (before, after) in [(0, 0), (WAITERS, 0), (OWNER_DIED, OWNER_DIED), (OWNER_DIED | WAITERS, OWNER_DIED)] {
        for call in [m.lock_pi(word), m.lock_pi2(word), m.trylock_pi(word)] {
            word.set(before);
            assert_eq!(t.call(call), 0);
            assert_eq!(word.get(), t.tid() | after, "from {before:#x}");
        }
    }
}

fn state_2_no_waiter_and_an_owner(m: &Machine) {
    let owner = m.thread();
    for flags in [0, WAITERS, OWNER_DIED, OWNER_DIED | WAITERS] {
        let (t, word) = (m.thread(), m.word(owner.tid() | flags));
        let waiting = t.begin(m.lock_pi(word));
        assert_eq!(word.get(), owner.tid() | flags | WAITERS);
        assert_eq!(owner.call(m.unlock_pi(word)), 0);
        assert_eq!(waiting.finish(), 0);
        assert_eq!(word.get(), t.tid() | WAITERS);
    }
}

fn state_3_first_waiter_does_not_wait_for_a_lock(m: &Machine) {
    let ([plain, requeued, owner, t], [word, other, lock]) = (m.threads(), m.words(0));
    let plainly = plain.begin(m.wait(word, 0));
    let for_a_lock = requeued.begin(m.wait_requeue_pi(other, 0, lock));
    for word in [word, other] {
        for value in [0, owner.tid(), owner.tid() | WAITERS, OWNER_DIED, m.dead_tid()] {
            word.set(value);
            for call in [m.lock_pi(word), m.lock_pi2(word), m.trylock_pi(word)] {
                assert_eq!(t.call(call), EINVAL, "{value:#x}");
                assert_eq!(word.get(), value, "the word is left alone");
            }
        }
    }
    assert_eq!(t.call(m.wake(word, 1)), 1);
    assert_eq!(plainly.finish(), 0);
    assert_eq!(t.call(m.cmp_requeue_pi(other, other.get(), lock, 0)), 1);
    assert_eq!(for_a_lock.finish(), 0);
}

/// A lock that `owner` holds and `w` waits for.
fn contended<'t>(m: &Machine, owner: &Thread, w: &'t Thread) -> (Word, Pending<'t>) {
    let word = m.word(0);
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = w.begin(m.lock_pi(word));
    assert_eq!(word.get(), owner.tid() | WAITERS);
    (word, waiting)
}

/// Checks that a further locker waits if the word is `value` of the owner's TID, and gets the lock in its turn.
fn waits_when_the_word_is(m: &Machine, value: impl Fn(u32) -> u32) {
    let [owner, w, t] = m.threads();
    let (word, waiting) = contended(m, &owner, &w);
    word.set(value(owner.tid()));
    let further = t.begin(m.lock_pi(word));
    assert_eq!(word.get(), value(owner.tid()), "the word is left alone");
    assert_eq!(m.thread().call(m.trylock_pi(word)), crate::common::errno::EAGAIN);
    word.set(owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
    further.stays_asleep();
    assert_eq!(w.call(m.unlock_pi(word)), 0);
    assert_eq!(further.finish(), 0);
    assert_eq!(word.get(), t.tid() | WAITERS);
}

/// Checks that a further locker gets `EINVAL` if the word is `value` of the owner's TID, and that the first waiter
/// still gets the lock.
fn is_einval_when_the_word_is(m: &Machine, value: impl Fn(u32) -> u32) {
    let [owner, w, t] = m.threads();
    let (word, waiting) = contended(m, &owner, &w);
    word.set(value(owner.tid()));
    for call in [m.lock_pi(word), m.lock_pi2(word), m.trylock_pi(word)] {
        assert_eq!(t.call(call), EINVAL, "{:#x}", value(owner.tid()));
        assert_eq!(word.get(), value(owner.tid()), "the word is left alone");
    }
    waiting.stays_asleep();
    word.set(owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn state_6_owner_lives_and_the_word_has_owner_died(m: &Machine) {
    waits_when_the_word_is(m, |_| OWNER_DIED | WAITERS);
    waits_when_the_word_is(m, |_| OWNER_DIED);
}

fn state_8_owner_and_word_agree(m: &Machine) {
    waits_when_the_word_is(m, |owner| owner | WAITERS);
    waits_when_the_word_is(m, |owner| owner | WAITERS | OWNER_DIED);
    // Without the flag the owner would unlock without a system call. A further waiter does not set the flag again.
    waits_when_the_word_is(m, |owner| owner);
}

fn state_9_owner_lives_and_the_word_has_no_tid(m: &Machine) {
    is_einval_when_the_word_is(m, |_| 0);
    is_einval_when_the_word_is(m, |_| WAITERS);
}

fn state_10_owner_and_word_differ(m: &Machine) {
    let other = m.thread();
    for flags in [0, WAITERS, OWNER_DIED, OWNER_DIED | WAITERS] {
        is_einval_when_the_word_is(m, |_| other.tid() | flags);
    }
    let dead = m.dead_tid();
    is_einval_when_the_word_is(m, |_| dead | WAITERS);
}

fn word_with_the_lockers_tid_is_edeadlk_in_every_state(m: &Machine) {
    let [owner, w, t] = m.threads();
    let (word, waiting) = contended(m, &owner, &w);
    word.set(t.tid() | WAITERS);
    assert_eq!(t.call(m.lock_pi(word)), crate::common::errno::EDEADLK);
    word.set(owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    state_1_no_waiter_and_no_owner,
    state_2_no_waiter_and_an_owner,
    state_3_first_waiter_does_not_wait_for_a_lock,
    state_6_owner_lives_and_the_word_has_owner_died,
    state_8_owner_and_word_agree,
    state_9_owner_lives_and_the_word_has_no_tid,
    state_10_owner_and_word_differ,
    word_with_the_lockers_tid_is_edeadlk_in_every_state,
];
