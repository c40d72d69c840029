//! Which waiters a requeue wakes, which it moves, and their order afterwards.

use std::sync::atomic::{AtomicU8, AtomicU64};

use ufutex::{At, Error, GuestWord, ObjectId, Queued, Requeue, Requeued, Target, WaitOptions, Width};

use crate::common::domains::{domain, on_domains};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{pairs, words};
use crate::common::waiters::{idle, queue_with, waiter_on, waiters_on};

type Rest<'w, 'd> = Vec<Queued<'w, 'd>>;

/// The indices of the waiters that have been woken.
fn woken(queued: &[Queued<'_, '_>]) -> Vec<usize> {
    (0..queued.len()).filter(|&i| queued[i].is_woken()).collect()
}

/// Wakes the waiters of `word` one by one. Returns their indices in the order in which they were woken.
fn order<T: Target + Copy>(domain: &ufutex::Domain, word: T, queued: &Rest<'_, '_>) -> Vec<usize> {
    let mut order = Vec::new();
    while domain.wake(word, 1) == 1 {
        let next = woken(queued).into_iter().find(|i| !order.contains(i));
        order.push(next.expect("a counted wake has woken a waiter"));
    }
    order
}

fn requeue_wakes_the_first_waiters_and_moves_the_next() {
    let domain = domain();
    for [from, to] in pairs() {
        for waiting in [0, 1, 2, 16, 17, 40] {
            for wake in [0, 1, 15, 16, 17, 33, usize::MAX] {
                for requeue in [0, 1, 3, 20, usize::MAX] {
                    let queued = waiters_on(&domain, from, waiting);
                    let first = wake.min(waiting);
                    let moved = requeue.min(waiting - first);
                    let expected = Requeued { woken: first, requeued: moved };
                    let case = format!("wake {wake} and move {requeue} of {waiting}");
                    assert_eq!(domain.requeue(from, to, Requeue { wake, requeue }), Ok(expected), "{case}");
                    assert_eq!(woken(&queued), (0..first).collect::<Vec<_>>(), "{case}");
                    assert_eq!(domain.wake(to, usize::MAX), moved, "{case}");
                    assert_eq!(woken(&queued), (0..first + moved).collect::<Vec<_>>(), "{case}");
                    assert_eq!(domain.wake(from, usize::MAX), waiting - first - moved, "{case}");
                    assert!(queued.into_iter().all(|mut queued| !queued.cancel()), "{case}");
                }
            }
        }
    }
}

fn moved_waiters_are_queued_by_priority_behind_earlier_waiters() {
    let domain = domain();
    for [from, to] in pairs() {
        let there = [0, 10, 5];
        let moved = [0, 10, 5, 99, 10, 0];
        let mut waiters = idle(there.len() + moved.len());
        let places = there.map(|p| (to, p)).into_iter().chain(moved.map(|p| (from, p)));
        let queued: Rest<'_, '_> = std::iter::zip(&mut waiters, places)
            .map(|(waiter, (word, priority))| {
                queue_with(&domain, waiter, word, WaitOptions::new().realtime_priority(priority))
            })
            .collect();
        assert_eq!(
            domain.requeue(from, to, Requeue { wake: 0, requeue: usize::MAX }),
            Ok(Requeued { woken: 0, requeued: 6 })
        );
        // Priority 99, then 10 and 5, each with the earlier waiters of `to` first, then those without a priority.
        assert_eq!(order(&domain, to, &queued), [6, 1, 4, 7, 2, 5, 0, 3, 8]);
    }
}

fn waiters_move_from_private_to_shared_words_only() {
    let domain = domain();
    let id = ObjectId::new(3).expect("small enough");
    for [private, word] in pairs() {
        let object = At::object(word, id, 64);
        let shared = At::address_space(word);
        let queued = waiters_on(&domain, private, 6);
        assert_eq!(
            domain.requeue(private, object, Requeue { wake: 1, requeue: 4 }),
            Ok(Requeued { woken: 1, requeued: 4 })
        );
        assert_eq!(domain.wake(word, usize::MAX), 0, "not the private word at that address");
        assert_eq!(
            domain.requeue(object, shared, Requeue { wake: 1, requeue: 2 }),
            Ok(Requeued { woken: 1, requeued: 2 })
        );
        assert_eq!(woken(&queued), [0, 1]);
        // Waiters of a shared word may belong to another domain, so they cannot move to a private word.
        assert_eq!(domain.cmp_requeue(shared, 0, private, Requeue { wake: 1, requeue: 2 }), Err(Error::Invalid));
        assert_eq!(domain.requeue(object, private, Requeue { wake: 1, requeue: 2 }), Err(Error::Invalid));
        assert_eq!(woken(&queued), [0, 1]);
        assert_eq!(domain.wake(object, usize::MAX), 1);
        assert_eq!(woken(&queued), [0, 1, 4]);
        assert_eq!(domain.wake(shared, usize::MAX), 2);
        assert_eq!(domain.wake(private, 1), 1);
        assert_eq!(woken(&queued), [0, 1, 2, 3, 4, 5]);
    }
}

fn words_of_other_widths_can_be_requeued() {
    let domain = domain();
    let (narrow, wide) = (AtomicU8::new(0), AtomicU64::new(0));
    let queued = waiter_on(&domain, &narrow);
    assert_eq!(domain.cmp_requeue(&narrow, 1, &wide, Requeue { wake: 0, requeue: 1 }), Err(Error::Again));
    assert_eq!(
        domain.cmp_requeue(&narrow, 0, &wide, Requeue { wake: 0, requeue: 1 }),
        Ok(Requeued { woken: 0, requeued: 1 })
    );
    assert_eq!(domain.cmp_requeue(&wide, 1 << 32, &narrow, Requeue { wake: 0, requeue: 1 }), Err(Error::Again));
    assert_eq!(
        domain.cmp_requeue(&wide, 0, &narrow, Requeue { wake: 1, requeue: 0 }),
        Ok(Requeued { woken: 1, requeued: 0 })
    );
    assert!(queued.is_woken());
}

fn value_that_the_word_cannot_hold_is_invalid() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let word = GuestWord::new(&memory, memory.at(0), Width::U32).expect("aligned");
    let [to] = words();
    assert_eq!(domain.cmp_requeue(word, 1 << 32, to, Requeue { wake: 1, requeue: 1 }), Err(Error::Invalid));
    assert_eq!(memory.faulted_in(), []);
}

fn only_the_word_that_is_compared_is_read() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [from, to] = [0, 64].map(|at| GuestWord::new(&memory, memory.at(at), Width::U32).expect("aligned"));
    let queued = waiters_on(&domain, from, 3);
    memory.lose();
    assert_eq!(domain.requeue(from, to, Requeue { wake: 1, requeue: 1 }), Ok(Requeued { woken: 1, requeued: 1 }));
    assert_eq!(domain.cmp_requeue(from, 0, to, Requeue { wake: 1, requeue: 1 }), Err(Error::Fault));
    assert_eq!(woken(&queued), [0]);
    memory.restore();
    memory.fault_next_loads(3);
    assert_eq!(
        domain.cmp_requeue(from, 0, to, Requeue { wake: 0, requeue: 1 }),
        Ok(Requeued { woken: 0, requeued: 1 })
    );
    assert_eq!(domain.wake(to, usize::MAX), 2);
}

on_domains![
    requeue_wakes_the_first_waiters_and_moves_the_next,
    moved_waiters_are_queued_by_priority_behind_earlier_waiters,
    waiters_move_from_private_to_shared_words_only,
    words_of_other_widths_can_be_requeued,
    value_that_the_word_cannot_hold_is_invalid,
    only_the_word_that_is_compared_is_read,
];
