//! Who is woken by a requeue, who is moved, and what order they have then.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Error, Guest, ObjectId, Queued, Requeued, Shared, Target, WaitOptions, Width};

use crate::common::domains::{domain, on_every_scheme};
use crate::common::waiters::{bits, idle, nonzero, queue, queue_with};
use crate::memory::Memory;
use crate::places::{pairs, words};

type Rest<'w, 'd, S, L> = Vec<Queued<'w, 'd, S, L>>;

/// Which of them have been woken.
fn woken<S: Scheme<L>, L: Layout>(queued: &[Queued<'_, '_, S, L>]) -> Vec<usize> {
    (0..queued.len()).filter(|&i| queued[i].is_woken()).collect()
}

/// The numbers of waiters in the order in which single wakes of `word` take them.
fn order<S: Scheme<L>, L: Layout, T: Target + Copy>(
    domain: &ufutex::Domain<S, L>,
    word: T,
    queued: &Rest<'_, '_, S, L>,
) -> Vec<usize> {
    let mut order = Vec::new();
    while domain.wake(word, 1) == 1 {
        let next = woken(queued).into_iter().find(|i| !order.contains(i));
        order.push(next.expect("a wake that counts has woken somebody"));
    }
    order
}

fn requeue_wakes_the_first_and_moves_those_behind_them<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    for [from, to] in pairs() {
        for waiting in [0, 1, 2, 16, 17, 40] {
            for wake in [0, 1, 15, 16, 17, 33, usize::MAX] {
                for requeue in [0, 1, 3, 20, usize::MAX] {
                    let mut waiters = idle(waiting);
                    let queued: Rest<'_, '_, S, L> = waiters.iter_mut().map(|w| queue(&domain, w, from)).collect();
                    let first = wake.min(waiting);
                    let moved = requeue.min(waiting - first);
                    let expected = Requeued { woken: first, requeued: moved };
                    let case = format!("wake {wake} and move {requeue} of {waiting}");
                    assert_eq!(domain.requeue(from, to, wake, requeue), Ok(expected), "{case}");
                    assert_eq!(woken(&queued), (0..first).collect::<Vec<_>>(), "{case}");
                    assert_eq!(domain.wake(to, usize::MAX), moved, "{case}");
                    assert_eq!(woken(&queued), (0..first + moved).collect::<Vec<_>>(), "{case}");
                    assert_eq!(domain.wake(from, usize::MAX), waiting - first - moved, "{case}");
                    assert!(queued.into_iter().all(|queued| !queued.cancel()), "{case}");
                }
            }
        }
    }
}

fn moved_waiters_stand_by_priority_and_then_behind_those_who_were_there<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    for [from, to] in pairs() {
        let there = [0, 10, 5];
        let moved = [0, 10, 5, 99, 10, 0];
        let mut waiters = idle(there.len() + moved.len());
        let places = there.map(|p| (to, p)).into_iter().chain(moved.map(|p| (from, p)));
        let queued: Rest<'_, '_, S, L> = std::iter::zip(&mut waiters, places)
            .map(|(waiter, (word, priority))| {
                queue_with(&domain, waiter, word, WaitOptions::new().realtime_priority(priority))
            })
            .collect();
        assert_eq!(domain.requeue(from, to, 0, usize::MAX), Ok(Requeued { woken: 0, requeued: 6 }));
        // 99; the 10s and the 5s, those who were there first; those without a priority.
        assert_eq!(order(&domain, to, &queued), [6, 1, 4, 7, 2, 5, 0, 3, 8]);
    }
}

fn requeue_takes_waiters_by_priority<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    for [from, to] in pairs() {
        let mut waiters = idle(5);
        let queued: Rest<'_, '_, S, L> = std::iter::zip(&mut waiters, [0, 1, 50, 1, 99])
            .map(|(waiter, priority)| queue_with(&domain, waiter, from, WaitOptions::new().realtime_priority(priority)))
            .collect();
        assert_eq!(domain.requeue(from, to, 1, 2), Ok(Requeued { woken: 1, requeued: 2 }));
        assert_eq!(woken(&queued), [4]);
        assert_eq!(domain.wake(to, usize::MAX), 2);
        assert_eq!(woken(&queued), [1, 2, 4]);
        assert_eq!(domain.wake(from, usize::MAX), 2);
    }
}

fn bitsets_do_not_matter_to_a_requeue_and_are_kept<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    for [from, to] in pairs() {
        let mut waiters = idle(4);
        let queued: Rest<'_, '_, S, L> = std::iter::zip(&mut waiters, [0b1, 0b10, 0b100, 0b10])
            .map(|(waiter, bitset)| queue_with(&domain, waiter, from, bits(bitset)))
            .collect();
        assert_eq!(domain.cmp_requeue(from, 0, to, 1, 3), Ok(Requeued { woken: 1, requeued: 3 }));
        assert_eq!(domain.wake_bitset(to, usize::MAX, nonzero(0b1)), 0);
        assert_eq!(domain.wake_bitset(to, usize::MAX, nonzero(0b10)), 2);
        assert_eq!(woken(&queued), [0, 1, 3]);
        assert_eq!(domain.wake_bitset(to, usize::MAX, nonzero(0b100)), 1);
    }
}

fn requeue_to_the_same_word_wakes_and_counts_and_keeps_the_order<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [word] = words();
    for (wake, requeue) in [(0, 2), (1, 1), (1, usize::MAX), (2, 0)] {
        let mut waiters = idle(4);
        let mut queued: Rest<'_, '_, S, L> = waiters.iter_mut().map(|w| queue(&domain, w, word)).collect();
        let expected = Requeued { woken: wake, requeued: requeue.min(4 - wake) };
        assert_eq!(domain.requeue(word, word, wake, requeue), Ok(expected));
        assert_eq!(woken(&queued), (0..wake).collect::<Vec<_>>());
        // Received, or they would be passed on.
        assert!(queued.drain(..wake).all(|queued| !queued.cancel()));
        assert_eq!(order(&domain, word, &queued), (0..4 - wake).collect::<Vec<_>>());
    }
}

fn waiters_go_from_private_words_to_shared_ones_and_not_back<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let id = ObjectId::new(3).expect("small enough");
    for [private, word] in pairs() {
        let object = Shared::object(word, id, 64);
        let shared = Shared::address_space(word);
        let mut waiters = idle(6);
        let queued: Rest<'_, '_, S, L> = waiters.iter_mut().map(|w| queue(&domain, w, private)).collect();
        assert_eq!(domain.requeue(private, object, 1, 4), Ok(Requeued { woken: 1, requeued: 4 }));
        assert_eq!(domain.wake(word, usize::MAX), 0, "not the private word at that address");
        assert_eq!(domain.requeue(object, shared, 1, 2), Ok(Requeued { woken: 1, requeued: 2 }));
        assert_eq!(woken(&queued), [0, 1]);
        // Whose waiters these are cannot be told any more: not into a domain's own table.
        assert_eq!(domain.cmp_requeue(shared, 0, private, 0, 2), Err(Error::Invalid));
        assert_eq!(domain.requeue(object, private, 0, 2), Err(Error::Invalid));
        assert_eq!(domain.requeue(shared, object, 0, 1), Ok(Requeued { woken: 0, requeued: 1 }));
        assert_eq!(domain.wake(shared, usize::MAX), 1);
        assert_eq!(woken(&queued), [0, 1, 3]);
        assert_eq!(domain.wake(object, usize::MAX), 2);
        assert_eq!(woken(&queued), [0, 1, 2, 3, 4]);
        assert_eq!(domain.wake(private, usize::MAX), 1);
    }
}

fn cmp_requeue_does_nothing_when_the_word_differs<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    for [from, to] in pairs() {
        let mut waiters = idle(2);
        let queued: Rest<'_, '_, S, L> = waiters.iter_mut().map(|w| queue(&domain, w, from)).collect();
        from.store(7, Relaxed);
        assert_eq!(domain.cmp_requeue(from, 0, to, 1, 1), Err(Error::Again));
        assert!(woken(&queued).is_empty());
        assert_eq!(domain.wake(to, usize::MAX), 0);
        assert_eq!(domain.cmp_requeue(from, 7, to, 1, 1), Ok(Requeued { woken: 1, requeued: 1 }));
        assert_eq!(domain.wake(to, usize::MAX), 1);
    }
}

fn words_of_other_widths_can_be_requeued<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let (narrow, wide) = (AtomicU8::new(0), AtomicU64::new(0));
    let mut waiters = idle(1);
    let [waiter] = &mut waiters[..] else { unreachable!() };
    let queued = queue(&domain, waiter, &narrow);
    assert_eq!(domain.cmp_requeue(&narrow, 1, &wide, 0, 1), Err(Error::Again));
    assert_eq!(domain.cmp_requeue(&narrow, 0, &wide, 0, 1), Ok(Requeued { woken: 0, requeued: 1 }));
    assert_eq!(domain.cmp_requeue(&wide, 1 << 32, &narrow, 0, 1), Err(Error::Again));
    assert_eq!(domain.cmp_requeue(&wide, 0, &narrow, 1, 0), Ok(Requeued { woken: 1, requeued: 0 }));
    assert!(queued.is_woken());
}

fn value_that_the_word_cannot_hold_is_invalid<S: Scheme<L>, L: Layout>() {
    let (domain, memory) = (domain::<S, L>(), Memory::new());
    let word = Guest::new(&memory, memory.at(0), Width::U32).expect("aligned");
    let [to] = words();
    assert_eq!(domain.cmp_requeue(word, 1 << 32, to, 1, 1), Err(Error::Invalid));
    assert_eq!(memory.faulted_in(), []);
}

fn only_the_word_that_is_compared_is_read<S: Scheme<L>, L: Layout>() {
    let (domain, memory) = (domain::<S, L>(), Memory::new());
    let [from, to] = [0, 64].map(|at| Guest::new(&memory, memory.at(at), Width::U32).expect("aligned"));
    let mut waiters = idle(3);
    let queued: Rest<'_, '_, S, L> = waiters.iter_mut().map(|w| queue(&domain, w, from)).collect();
    memory.lose();
    assert_eq!(domain.requeue(from, to, 1, 1), Ok(Requeued { woken: 1, requeued: 1 }));
    assert_eq!(domain.cmp_requeue(from, 0, to, 1, 1), Err(Error::Fault));
    assert_eq!(woken(&queued), [0]);
    memory.find();
    memory.fault_next_reads(3);
    assert_eq!(domain.cmp_requeue(from, 0, to, 0, 1), Ok(Requeued { woken: 0, requeued: 1 }));
    assert_eq!(domain.wake(to, usize::MAX), 2);
}

on_every_scheme![
    requeue_wakes_the_first_and_moves_those_behind_them,
    moved_waiters_stand_by_priority_and_then_behind_those_who_were_there,
    requeue_takes_waiters_by_priority,
    bitsets_do_not_matter_to_a_requeue_and_are_kept,
    requeue_to_the_same_word_wakes_and_counts_and_keeps_the_order,
    waiters_go_from_private_words_to_shared_ones_and_not_back,
    cmp_requeue_does_nothing_when_the_word_differs,
    words_of_other_widths_can_be_requeued,
    value_that_the_word_cannot_hold_is_invalid,
    only_the_word_that_is_compared_is_read,
];
