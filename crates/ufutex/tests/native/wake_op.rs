//! `wake_op`, which changes one word and wakes waiters of two.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::task::Poll;

use ufutex::{Access, At, Compare, Domain, Error, Fault, Key, Modify, Requeue, Target, WakeOp};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{pending_with, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{Word, pairs, words};
use crate::common::waiters::{queue, waiter_on, waiters_on};
use crate::common::waker::Notified;

const NOTHING: WakeOp = WakeOp { modify: Modify::Add(0), compare: Compare::Eq(i32::MIN) };
const BOTH: WakeOp = WakeOp { modify: Modify::Add(0), compare: Compare::Ne(i32::MIN) };

fn each_word_has_a_count_of_its_own() {
    let domain = domain();
    for [first, second] in pairs() {
        for counts in [[0, 0], [1, 0], [0, 17], [17, 0], [2, 3], [16, 17], [20, 20], [40, 1], [usize::MAX, 16]] {
            for op in [BOTH, NOTHING] {
                let queued = [first, second].map(|word| waiters_on(&domain, word, 30));
                let expected = [counts[0].min(30), if op == BOTH { counts[1].min(30) } else { 0 }];
                let woken = domain.wake_op(first, counts[0], second, op, counts[1]);
                assert_eq!(woken, Ok(expected[0] + expected[1]), "{counts:?}");
                for (queued, woken) in std::iter::zip(&queued, expected) {
                    assert!((0..30).all(|i| queued[i].is_woken() == (i < woken)), "{counts:?}");
                }
                assert_eq!([first, second].map(|word| domain.wake(word, usize::MAX)), expected.map(|woken| 30 - woken));
            }
        }
    }
}

fn private_and_shared_words_do_not_mix() {
    let domain = domain();
    for [first, second] in pairs() {
        let shared = At::address_space(second);
        let of_first = waiter_on(&domain, first);
        let (of_second, of_shared) = (waiter_on(&domain, second), waiter_on(&domain, shared));
        assert_eq!(domain.wake_op(first, 1, shared, BOTH, 1), Ok(2));
        assert!(of_first.is_woken() && of_shared.is_woken() && !of_second.is_woken());
        assert_eq!(domain.wake_op(shared, 1, second, BOTH, 1), Ok(1));
        assert!(of_second.is_woken());
    }
}

fn futures_of_both_words_are_woken_and_pass_their_wakes_on() {
    let domain = domain();
    for [first, second] in pairs() {
        let tolds = [(); 4].map(|()| Notified::new());
        let mut waits: Vec<_> = std::iter::zip(&tolds, [first, first, second, second])
            .map(|((_, waker), word)| Some(pending_with(domain.wait_async(word, 0, &Default::default()), waker)))
            .collect();
        assert_eq!(domain.wake_op(first, 1, second, BOTH, 1), Ok(2));
        assert_eq!(tolds.each_ref().map(|(notified, _)| notified.times()), [1, 0, 1, 0]);
        waits[2] = None;
        assert_eq!(tolds.each_ref().map(|(notified, _)| notified.times()), [1, 0, 1, 1]);
        waits[0] = None;
        assert_eq!(tolds.each_ref().map(|(notified, _)| notified.times()), [1, 1, 1, 1]);
        assert!(waits.iter_mut().flatten().all(|wait| poll(wait) == Poll::Ready(Ok(()))));
    }
}

fn faults_of_the_second_word_are_resolved_and_it_is_changed_once() {
    for (reads, writes) in [(0, 0), (1, 0), (0, 1), (3, 0), (2, 2), (0, 500)] {
        let (domain, memory) = (domain(), GuestMemory::new());
        let (first, second) = (memory.target(0), memory.target(256));
        let (a, b) = (waiter_on(&domain, first), waiter_on(&domain, second));
        memory.fault_next_loads(reads);
        memory.fault_next_exchanges(writes);
        let op = WakeOp { modify: Modify::Add(3), compare: Compare::Eq(0) };
        assert_eq!(domain.wake_op(first, 1, second, op, 1), Ok(2), "{reads} reads and {writes} writes fault");
        assert!(a.is_woken() && b.is_woken());
        assert_eq!(memory.word(256).load(Relaxed), 3);
        assert_eq!(memory.faulted_in(), vec![(memory.at(256), Access::Write); reads + writes]);
    }
}

fn unwritable_second_word_is_a_fault_and_wakes_no_waiter() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let (first, second) = (memory.target(0), memory.target(256));
    let (a, b) = (waiter_on(&domain, first), waiter_on(&domain, second));
    memory.make_read_only(true);
    assert_eq!(domain.wake_op(first, 1, second, BOTH, 1), Err(Error::Fault));
    memory.make_read_only(false);
    memory.lose();
    assert_eq!(domain.wake_op(first, 1, second, BOTH, 1), Err(Error::Fault));
    memory.restore();
    memory.fault_next_exchanges(usize::MAX);
    assert_eq!(domain.wake_op(first, 1, second, BOTH, 1), Err(Error::Fault), "cured a thousand times in vain");
    assert!(!a.is_woken() && !b.is_woken());
    // The memory of the first word is not accessed.
    let [elsewhere] = words();
    memory.lose();
    assert_eq!(domain.wake_op(first, 1, elsewhere, BOTH, 1), Ok(1));
}

/// The handler of the fault may use the same words.
fn no_lock_is_held_while_a_fault_is_resolved() {
    let domain = crate::common::places::lasting_domain();
    let memory = crate::common::places::forever(GuestMemory::new());
    let (first, second) = (memory.target(0), memory.target(4));
    memory.fault_next_exchanges(1);
    let mut late = Box::pin(ufutex::Waiter::new());
    memory.on_fault(move || {
        assert_eq!(domain.wake(first, 1) + domain.wake(second, 1), 0);
        assert_eq!(domain.wake_op(first, 1, second, WakeOp { modify: Modify::Set(8), ..BOTH }, 1), Ok(0));
        assert_eq!(domain.requeue(first, second, Requeue { wake: 1, requeue: 1 }), Ok(ufutex::Requeued::default()));
    });
    let op = WakeOp { modify: Modify::Add(1), compare: Compare::Eq(8) };
    let queued = queue(domain, &mut late, memory.target(8));
    assert_eq!(domain.wake_op(memory.target(8), 1, second, op, 0), Ok(1));
    assert!(queued.is_woken());
    assert_eq!(memory.word(4).load(Relaxed), 9, "compared and changed after the cure");
}

fn second_word_of_another_width_is_invalid() {
    fn refused(domain: &Domain, second: impl Target) {
        let [first] = words();
        let queued = waiter_on(domain, first);
        assert_eq!(domain.wake_op(first, 1, second, BOTH, 1), Err(Error::Invalid));
        assert!(!queued.is_woken());
    }
    let domain = domain();
    let (u8, u16, u64) = (AtomicU8::new(0), AtomicU16::new(0), AtomicU64::new(0));
    refused(&domain, &u8);
    refused(&domain, &u16);
    refused(&domain, &u64);
    refused(&domain, At::address_space(&u64));
    // The first word may have any width.
    let queued = waiter_on(&domain, &u64);
    assert_eq!(domain.wake_op(&u64, 1, &AtomicU32::new(0), BOTH, 1), Ok(1));
    assert!(queued.is_woken());
}

/// A word that changes before each exchange, until it is `settled`.
struct Changing<'a> {
    word: Word,
    attempts: &'a AtomicU32,
    settled: &'a AtomicBool,
}

impl Key for &Changing<'_> {
    fn address(&self) -> u64 {
        self.word.address()
    }
}

impl Target for &Changing<'_> {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        Ok(0)
    }
    fn compare_exchange(&self, current: u32, _new: u32) -> Result<Result<u32, u32>, Fault> {
        self.attempts.fetch_add(1, SeqCst);
        Ok(if self.settled.load(SeqCst) { Ok(current) } else { Err(current.wrapping_add(1)) })
    }
}

fn others_get_the_bucket_of_a_word_that_changes_all_the_time() {
    let domain = domain();
    let [first, second] = words();
    let (attempts, settled) = (AtomicU32::new(0), AtomicBool::new(false));
    let queued = waiter_on(&domain, second);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while attempts.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(domain.wake(second, 1), 1);
            settled.store(true, SeqCst);
        });
        let changing = Changing { word: second, attempts: &attempts, settled: &settled };
        assert_eq!(domain.wake_op(first, 1, &changing, BOTH, 1), Ok(0));
    });
    assert!(queued.is_woken() && attempts.load(SeqCst) > 1);
}

on_domains![
    each_word_has_a_count_of_its_own,
    private_and_shared_words_do_not_mix,
    futures_of_both_words_are_woken_and_pass_their_wakes_on,
    faults_of_the_second_word_are_resolved_and_it_is_changed_once,
    unwritable_second_word_is_a_fault_and_wakes_no_waiter,
    no_lock_is_held_while_a_fault_is_resolved,
    second_word_of_another_width_is_invalid,
    others_get_the_bucket_of_a_word_that_changes_all_the_time,
];
