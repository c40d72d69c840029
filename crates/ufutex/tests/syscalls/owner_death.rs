//! The owner of a PI lock dies.

use crate::calls::{OWNER_DIED, WAITERS, begin_all};
use crate::common::asleep::until;
use crate::common::errno::{EDEADLK, EINVAL, ESRCH};
use crate::machine::{Machine, Thread};
use crate::memory::Word;
use crate::on_every_machine;
use crate::robust_list::{PI, RobustList};

fn lock_of_an_owner_without_a_list_passes_to_the_next(m: &Machine) {
    let ([owner, w], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = w.begin(m.lock_pi(word));
    owner.exit();
    assert_eq!(waiting.finish(), 0);
    assert_eq!(word.get(), w.tid() | WAITERS | OWNER_DIED);
    assert_eq!(w.call(m.lock_pi(word)), EDEADLK);
    assert_eq!(w.call(m.unlock_pi(word)), 0);
    assert_eq!(word.get(), 0);
}

fn lock_of_an_owner_with_a_list_passes_to_the_next(m: &Machine) {
    // The entry's PI mark does not matter, because the word has a PI waiter.
    for mark in [PI, 0] {
        let [owner, w] = m.threads();
        let list = RobustList::new(m, &owner);
        let lock = list.lock(0);
        list.link(&[(lock, mark)]);
        // The list's words are in private memory, so a machine with shared words makes private calls, too.
        assert_eq!(owner.call(m.lock_pi(lock.word).private()), 0);
        let waiting = w.begin(m.lock_pi(lock.word).private());
        owner.exit();
        assert_eq!(waiting.finish(), 0);
        assert_eq!(lock.word.get(), w.tid() | WAITERS | OWNER_DIED);
        assert_eq!(w.call(m.unlock_pi(lock.word).private()), 0);
        assert_eq!(lock.word.get(), 0);
    }
}

fn lock_without_waiters_on_a_list_becomes_owner_died(m: &Machine) {
    for (mark, flags) in [(PI, 0), (PI, WAITERS), (0, 0), (0, WAITERS)] {
        let [owner, t] = m.threads();
        let list = RobustList::new(m, &owner);
        let lock = list.lock(owner.tid() | flags);
        list.link(&[(lock, mark)]);
        owner.exit();
        assert_eq!(lock.word.get(), OWNER_DIED | flags);
        assert_eq!(t.call(m.lock_pi(lock.word).private()), 0);
        assert_eq!(lock.word.get(), t.tid() | OWNER_DIED);
    }
}

fn lock_without_waiters_and_list_keeps_the_dead_tid(m: &Machine) {
    let ([owner, t], word) = (m.threads(), m.word(0));
    let tid = owner.tid();
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    owner.exit();
    assert_eq!(word.get(), tid);
    assert_eq!(t.call(m.lock_pi(word)), ESRCH);
    assert_eq!(word.get(), tid | WAITERS);
}

fn every_lock_of_a_dead_owner_is_passed_on(m: &Machine) {
    let owner = m.thread();
    let (words, threads): ([Word; 3], [Thread; 3]) = (m.words(0), m.threads());
    for word in words {
        assert_eq!(owner.call(m.lock_pi(word)), 0);
    }
    let waiting = begin_all(&threads, |i| m.lock_pi(words[i]));
    owner.exit();
    for (i, waiting) in waiting.into_iter().enumerate() {
        assert_eq!(waiting.finish(), 0);
        assert_eq!(words[i].get(), threads[i].tid() | WAITERS | OWNER_DIED);
    }
}

fn waiters_of_a_dead_owner_get_the_lock_in_order_and_the_first_unlock_clears_the_flag(m: &Machine) {
    let ([owner, a, b, c], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = [a.begin(m.lock_pi(word)), b.begin(m.lock_pi(word)), c.begin(m.lock_pi(word))];
    owner.exit();
    let [first, second, third] = waiting;
    assert_eq!(first.finish(), 0);
    assert_eq!(word.get(), a.tid() | WAITERS | OWNER_DIED);
    second.stays_asleep();
    assert_eq!(a.call(m.unlock_pi(word)), 0);
    assert_eq!(second.finish(), 0);
    assert_eq!(word.get(), b.tid() | WAITERS);
    third.stays_asleep();
    assert_eq!(b.call(m.unlock_pi(word)), 0);
    assert_eq!(third.finish(), 0);
}

fn waiter_of_the_highest_priority_gets_the_dead_owners_lock(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([owner, a, b], word) = (m.threads(), m.word(0));
    b.set_priority(10);
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let (first, second) = (a.begin(m.lock_pi(word)), b.begin(m.lock_pi(word)));
    owner.exit();
    assert_eq!(second.finish(), 0);
    assert_eq!(word.get(), b.tid() | WAITERS | OWNER_DIED);
    first.stays_asleep();
    assert_eq!(b.call(m.unlock_pi(word)), 0);
    assert_eq!(first.finish(), 0);
}

fn requeued_waiter_gets_the_dead_owners_lock(m: &Machine) {
    let ([owner, w, t], [from, lock]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    owner.exit();
    assert_eq!(waiting.finish(), 0);
    assert_eq!(lock.get(), w.tid() | WAITERS | OWNER_DIED);
}

fn owner_died_stays_set_when_the_next_owner_dies(m: &Machine) {
    let ([owner, a, b], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let (first, second) = (a.begin(m.lock_pi(word)), b.begin(m.lock_pi(word)));
    owner.exit();
    assert_eq!(first.finish(), 0);
    a.exit();
    assert_eq!(second.finish(), 0);
    assert_eq!(word.get(), b.tid() | WAITERS | OWNER_DIED);
}

fn lockers_that_arrive_during_the_exit_all_get_the_lock(m: &Machine) {
    for _ in 0..20 {
        let ([owner, w], word) = (m.threads(), m.word(0));
        assert_eq!(owner.call(m.lock_pi(word)), 0);
        let waiting = w.begin(m.lock_pi(word));
        let threads: [Thread; 3] = m.threads();
        // The state is 4, 6 or 8, or 7 before the next owner has run. `EINVAL` is allowed in state 7.
        let later: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(move || owner.exit());
            threads.iter().map(|t| t.start(m.lock_pi(word))).collect()
        });
        assert_eq!(waiting.finish(), 0);
        assert_eq!(w.call(m.unlock_pi(word)), 0);
        let mut later: Vec<_> = std::iter::zip(&threads, later).collect();
        until("all have had their turn", || {
            later.retain(|(t, later)| match later.result() {
                None => true,
                Some(0) => t.call(m.unlock_pi(word)) != 0,
                Some(error) => error != EINVAL,
            });
            later.is_empty()
        });
        assert_eq!(word.get(), 0);
    }
}

on_every_machine![
    lock_of_an_owner_without_a_list_passes_to_the_next,
    lock_of_an_owner_with_a_list_passes_to_the_next,
    lock_without_waiters_on_a_list_becomes_owner_died,
    lock_without_waiters_and_list_keeps_the_dead_tid,
    every_lock_of_a_dead_owner_is_passed_on,
    waiters_of_a_dead_owner_get_the_lock_in_order_and_the_first_unlock_clears_the_flag,
    waiter_of_the_highest_priority_gets_the_dead_owners_lock,
    requeued_waiter_gets_the_dead_owners_lock,
    owner_died_stays_set_when_the_next_owner_dies,
    lockers_that_arrive_during_the_exit_all_get_the_lock,
];
