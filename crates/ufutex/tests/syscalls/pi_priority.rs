//! Real-time priorities: the order of a PI lock's waiters, and the priority that its owner inherits.

use crate::calls::{WAITERS, begin_all};
use crate::common::errno::{EDEADLK, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Machine, Thread};
use crate::on_every_machine;

fn lock_goes_to_the_highest_priority_and_then_by_arrival(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let (owner, word) = (m.thread(), m.word(0));
    let threads: [Thread; 6] = m.threads();
    for (thread, priority) in std::iter::zip(&threads, [0, 10, 0, 20, 10, 1]) {
        thread.set_priority(priority);
    }
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let mut waiting: Vec<_> = begin_all(&threads, |_| m.lock_pi(word)).into_iter().map(Some).collect();
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    for next in [3, 1, 4, 5, 0, 2] {
        assert_eq!(waiting[next].take().expect("once each").finish(), 0);
        assert_eq!(word.get(), threads[next].tid() | WAITERS);
        assert_eq!(threads[next].call(m.unlock_pi(word)), 0);
    }
}

fn owner_inherits_the_highest_priority_of_its_waiters(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, a, b, c], word) = (m.threads(), m.word(0));
    for (thread, priority) in [(&a, 10), (&b, 30), (&c, 20)] {
        thread.set_priority(priority);
    }
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    assert_eq!(owner.priority(), 0);
    let first = a.begin(m.lock_pi(word));
    assert_eq!(owner.priority(), 10);
    let second = b.begin(m.lock_pi(word));
    assert_eq!(owner.priority(), 30);
    let third = c.begin(m.lock_pi(word));
    assert_eq!(owner.priority(), 30);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    owner.until_priority_is(0);
    assert_eq!(second.finish(), 0);
    assert_eq!(b.priority(), 30, "its own is higher than what it is lent");
    assert_eq!(b.call(m.unlock_pi(word)), 0);
    assert_eq!(third.finish(), 0);
    assert_eq!(c.call(m.unlock_pi(word)), 0);
    assert_eq!(first.finish(), 0);
    assert_eq!([&a, &b, &c].map(Thread::priority), [10, 30, 20]);
}

fn higher_own_priority_of_the_owner_stays(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, w], word) = (m.threads(), m.word(0));
    owner.set_priority(40);
    w.set_priority(30);
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = w.begin(m.lock_pi(word));
    assert_eq!(owner.priority(), 40);
    owner.set_priority(5);
    assert_eq!(owner.priority(), 30, "what it gives up of its own it is lent");
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
    owner.until_priority_is(5);
}

fn owner_of_two_locks_inherits_the_highest_of_both(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, a, b], [first, second]) = (m.threads(), m.words(0));
    a.set_priority(10);
    b.set_priority(20);
    assert_eq!(owner.call(m.lock_pi(first)), 0);
    assert_eq!(owner.call(m.lock_pi(second)), 0);
    let for_first = a.begin(m.lock_pi(first));
    let for_second = b.begin(m.lock_pi(second));
    assert_eq!(owner.priority(), 20);
    assert_eq!(owner.call(m.unlock_pi(second)), 0);
    owner.until_priority_is(10);
    assert_eq!(owner.call(m.unlock_pi(first)), 0);
    owner.until_priority_is(0);
    assert_eq!((for_first.finish(), for_second.finish()), (0, 0));
}

fn priority_is_inherited_along_a_chain(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([a, b, c, t], [first, second, third]) = (m.threads(), m.words(0));
    for (thread, lock) in [(&a, first), (&b, second), (&c, third)] {
        assert_eq!(thread.call(m.lock_pi(lock)), 0);
    }
    let b_waits = b.begin(m.lock_pi(first));
    let c_waits = c.begin(m.lock_pi(second));
    t.set_priority(50);
    let t_waits = t.begin(m.lock_pi(third));
    assert_eq!([&a, &b, &c].map(Thread::priority), [50; 3]);
    // Each inherited priority ends when its thread unlocks the lock with the waiters.
    assert_eq!(a.call(m.unlock_pi(first)), 0);
    assert_eq!(b_waits.finish(), 0);
    a.until_priority_is(0);
    assert_eq!([&b, &c].map(Thread::priority), [50; 2]);
    assert_eq!(b.call(m.unlock_pi(second)), 0);
    assert_eq!(c_waits.finish(), 0);
    b.until_priority_is(0);
    assert_eq!(c.call(m.unlock_pi(third)), 0);
    assert_eq!(t_waits.finish(), 0);
    c.until_priority_is(0);
    assert_eq!(t.priority(), 50);
}

fn timeout_ends_the_inheritance_along_the_chain(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    m.in_time(|length| {
        let ([a, b, c, t], [first, second]) = (m.threads(), m.words(0));
        c.set_priority(10);
        t.set_priority(50);
        assert_eq!(a.call(m.lock_pi(first)), 0);
        assert_eq!(b.call(m.lock_pi(second)), 0);
        let b_waits = b.begin(m.lock_pi(first));
        let c_waits = c.begin(m.lock_pi(second));
        assert_eq!([&a, &b].map(Thread::priority), [10; 2]);
        let deadline = m.time_from_now(libc::CLOCK_MONOTONIC, length);
        let t_waits = t.start(m.lock_pi2(second).timeout(deadline));
        t_waits.until_asleep_or_over();
        let is_in_time = [&b, &a].map(Thread::priority) == [50; 2];
        assert_eq!(t_waits.finish(), ETIMEDOUT);
        assert_eq!([&a, &b].map(Thread::priority), [10; 2]);
        assert_eq!(a.call(m.unlock_pi(first)), 0);
        assert_eq!(b_waits.finish(), 0);
        assert_eq!(b.call(m.unlock_pi(second)), 0);
        assert_eq!(c_waits.finish(), 0);
        is_in_time
    });
}

fn new_priority_of_a_waiter_is_inherited(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([a, b, t], [first, second]) = (m.threads(), m.words(0));
    assert_eq!(a.call(m.lock_pi(first)), 0);
    assert_eq!(b.call(m.lock_pi(second)), 0);
    let b_waits = b.begin(m.lock_pi(first));
    let t_waits = t.begin(m.lock_pi(second));
    t.set_priority(15);
    assert_eq!([&a, &b].map(Thread::priority), [15; 2]);
    t.set_priority(25);
    assert_eq!([&a, &b].map(Thread::priority), [25; 2]);
    t.set_priority(0);
    assert_eq!([&a, &b].map(Thread::priority), [0; 2]);
    assert_eq!(a.call(m.unlock_pi(first)), 0);
    assert_eq!(b_waits.finish(), 0);
    assert_eq!(b.call(m.unlock_pi(second)), 0);
    assert_eq!(t_waits.finish(), 0);
}

fn waiter_with_a_raised_priority_comes_first(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, a, b], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let first = a.begin(m.lock_pi(word));
    let second = b.begin(m.lock_pi(word));
    b.set_priority(10);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(second.finish(), 0);
    first.stays_asleep();
    assert_eq!(b.call(m.unlock_pi(word)), 0);
    assert_eq!(first.finish(), 0);
}

fn waiter_comes_first_by_its_inherited_priority(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, a, b, t], [word, other]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    assert_eq!(b.call(m.lock_pi(other)), 0);
    a.set_priority(10);
    let first = a.begin(m.lock_pi(word));
    let second = b.begin(m.lock_pi(word));
    t.set_priority(20);
    let t_waits = t.begin(m.lock_pi(other));
    assert_eq!(owner.priority(), 20);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(second.finish(), 0);
    first.stays_asleep();
    assert_eq!(b.call(m.unlock_pi(word)), 0);
    assert_eq!(first.finish(), 0);
    assert_eq!(b.call(m.unlock_pi(other)), 0);
    assert_eq!(t_waits.finish(), 0);
}

fn locker_refused_with_edeadlk_boosts_no_owner(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([a, b], [first, second]) = (m.threads(), m.words(0));
    assert_eq!(a.call(m.lock_pi(first)), 0);
    assert_eq!(b.call(m.lock_pi(second)), 0);
    let waiting = a.begin(m.lock_pi(second));
    b.set_priority(30);
    assert_eq!(b.call(m.lock_pi(first)), EDEADLK);
    assert_eq!(a.priority(), 0);
    assert_eq!(b.call(m.unlock_pi(second)), 0);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(a.priority(), 0);
}

fn plain_waiters_boost_no_owner(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, w, t], [word, lock]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    w.set_priority(30);
    let waiting = w.begin(m.wait_requeue_pi(word, 0, lock));
    assert_eq!(owner.priority(), 0, "not yet requeued");
    assert_eq!(t.call(m.cmp_requeue_pi(word, 0, lock, 0)), 1);
    assert_eq!(owner.priority(), 30, "requeued");
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    assert_eq!(waiting.finish(), 0);
    owner.until_priority_is(0);
}

on_every_machine![
    lock_goes_to_the_highest_priority_and_then_by_arrival,
    owner_inherits_the_highest_priority_of_its_waiters,
    higher_own_priority_of_the_owner_stays,
    owner_of_two_locks_inherits_the_highest_of_both,
    priority_is_inherited_along_a_chain,
    timeout_ends_the_inheritance_along_the_chain,
    new_priority_of_a_waiter_is_inherited,
    waiter_with_a_raised_priority_comes_first,
    waiter_comes_first_by_its_inherited_priority,
    locker_refused_with_edeadlk_boosts_no_owner,
    plain_waiters_boost_no_owner,
];
