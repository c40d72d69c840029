//! Operations on more than 256 waiters in a global bucket, and moves of as many waiters. They are done in pieces. Each
//! waiter is woken once and in order, as in one step.
//!
//! Promise: short holds

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use ufutex::observe::WaitedWord;
use ufutex::platform::{Clock, Deadline, Host, Platform};
use ufutex::{
    At, Compare, Domain, DomainOptions, Error, Fault, Key, Modify, Policy, Queued, Requeue, Requeued, Scope, System,
    Target, WaitOptions, WakeOp,
};

use crate::common::domains::{config, on_domains, on_resizable_domains, system};
use crate::common::waiters::{bits, idle, nonzero, queue_with, waiter_on, waiter_with, waiters_on};

/// Enough waiters for four pieces of 256 of a wake or requeue, and for more of 64 of a move.
const CROWD: usize = 1000;

/// A domain whose private words are in the global table.
fn domain_in_global_table() -> Domain {
    Domain::with_options(&system(), DomainOptions::new().policy(Policy::Fixed(0)))
}

/// One domain whose private words are in the global table, and one whose words are in a table of its own.
fn domains_in_both_tables() -> [Domain; 2] {
    [domain_in_global_table(), Domain::with_options(&system(), DomainOptions::new().policy(Policy::Fixed(16)))]
}

/// Which of them have been woken.
fn woken(queued: &[Queued<'_, '_>]) -> Vec<usize> {
    (0..queued.len()).filter(|&i| queued[i].is_woken()).collect()
}

fn wake_of_many_goes_by_bitset_and_priority() {
    for domain in &domains_in_both_tables() {
        let word = AtomicU32::new(0);
        let target = At::address_space(&word);
        let options = |i: usize| if i < 500 { bits(1 << (i % 2)) } else { WaitOptions::new().realtime_priority(7) };
        let queued: Vec<_> = (0..CROWD).map(|i| waiter_with(domain, target, options(i))).collect();
        assert_eq!(domain.wake(target, 400), 400);
        assert_eq!(woken(&queued), Vec::from_iter(500..900), "real-time priorities first");
        assert_eq!(domain.wake_bitset(target, 1000, nonzero(2)), 350);
        assert!((0..500).all(|i| queued[i].is_woken() == (i % 2 == 1)));
        assert_eq!(domain.wake(target, usize::MAX), 250);
    }
}

fn requeue_of_many_wakes_the_first_and_moves_those_behind() {
    for domain in &domains_in_both_tables() {
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        let other = waiter_on(domain, &words[1]);
        let queued = waiters_on(domain, &words[0], CROWD);
        assert_eq!(domain.cmp_requeue(&words[0], 1, &words[1], Requeue { wake: 3, requeue: 600 }), Err(Error::Again));
        assert_eq!(
            domain.cmp_requeue(&words[0], 0, &words[1], Requeue { wake: 3, requeue: 600 }),
            Ok(Requeued { woken: 3, requeued: 600 })
        );
        assert_eq!(woken(&queued), [0, 1, 2]);
        assert_eq!(domain.wake(&words[1], 301), 301);
        assert!(other.is_woken());
        assert_eq!(woken(&queued), Vec::from_iter(0..303), "in order, behind the earlier waiters");
        assert_eq!(
            domain.requeue(&words[0], &words[1], Requeue { wake: 300, requeue: usize::MAX }),
            Ok(Requeued { woken: 300, requeued: 97 })
        );
        assert_eq!(woken(&queued), Vec::from_iter((0..303).chain(603..903)));
        assert_eq!((domain.wake(&words[0], usize::MAX), domain.wake(&words[1], usize::MAX)), (0, 397));
    }
}

/// A word that holds 0 for `loads_left` loads. Later loads return `then`.
struct Changing {
    word: AtomicU32,
    loads_left: Cell<usize>,
    then: Result<u32, Fault>,
}

impl Key for &Changing {
    fn address(&self) -> u64 {
        (&self.word).address()
    }
    fn scope(&self) -> Scope {
        Scope::AddressSpace
    }
}

impl Target for &Changing {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        let left = self.loads_left.get();
        self.loads_left.set(left.saturating_sub(1));
        if left == 0 { self.then } else { Ok(0) }
    }
}

fn requeue_of_many_ends_where_the_word_differs() {
    requeue_of_many_ends(Ok(1), Error::Again);
}

fn requeue_of_many_ends_where_the_word_cannot_be_read() {
    requeue_of_many_ends(Err(Fault), Error::Fault);
}

/// A load that returns `then` ends a requeue: with `error` before the first piece, and later with what was done.
fn requeue_of_many_ends(then: Result<u32, Fault>, error: Error) {
    let domain = domain_in_global_table();
    let from = Changing { word: AtomicU32::new(0), loads_left: Cell::new(0), then };
    let to = AtomicU32::new(0);
    let queued = waiters_on(&domain, At::address_space(&from.word), CROWD);
    let to = At::address_space(&to);
    for pieces in [2, 1] {
        from.loads_left.set(pieces);
        let done = domain.cmp_requeue(&from, 0, to, Requeue { wake: 0, requeue: usize::MAX });
        assert_eq!(done, Ok(Requeued { woken: 0, requeued: 256 * pieces }));
        assert_eq!(from.loads_left.get(), 0, "compared before each piece");
    }
    assert_eq!(domain.cmp_requeue(&from, 0, to, Requeue { wake: 0, requeue: usize::MAX }), Err(error));
    assert_eq!(domain.wake(to, usize::MAX), 768);
    assert_eq!(woken(&queued), Vec::from_iter(0..768));
}

fn crowd_moves_with_its_order() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let words = [const { AtomicU32::new(0) }; 3];
    let priority =
        |i: usize| if i.is_multiple_of(10) { WaitOptions::new().realtime_priority(5) } else { WaitOptions::new() };
    let queued =
        words.each_ref().map(|word| Vec::from_iter((0..CROWD).map(|i| waiter_with(&domain, word, priority(i)))));
    for slots in [0, 2, 0, 256, 0, 4] {
        assert_eq!(domain.set_slots(slots), Ok(()));
    }
    let order = (0..CROWD).filter(|i| i.is_multiple_of(10)).chain((0..CROWD).filter(|i| !i.is_multiple_of(10)));
    for i in order {
        for (word, queued) in words.iter().zip(&queued) {
            assert_eq!(domain.wake(word, 1), 1);
            assert!(queued[i].is_woken(), "waiter {i} is not the next");
        }
    }
    assert_eq!(words.each_ref().map(|word| domain.wake(word, 1)), [0; 3]);
}

/// A requeue of a word to itself counts its waiters in pieces, and compares the word before each piece.
fn requeue_to_the_same_word_ends_where_the_word_differs() {
    let domain = domain_in_global_table();
    let word = Changing { word: AtomicU32::new(0), loads_left: Cell::new(usize::MAX), then: Ok(1) };
    let queued = waiters_on(&domain, At::address_space(&word.word), CROWD);
    for (loads, wake, done) in [
        (2, 0, Requeued { woken: 0, requeued: 512 }),
        (1, 300, Requeued { woken: 16, requeued: 0 }),
        (3, 1, Requeued { woken: 1, requeued: 768 }),
        (9, 0, Requeued { woken: 0, requeued: CROWD - 17 }),
    ] {
        word.loads_left.set(loads);
        assert_eq!(
            domain.cmp_requeue(&word, 0, &word, Requeue { wake, requeue: usize::MAX }),
            Ok(done),
            "{loads} loads"
        );
    }
    assert_eq!(woken(&queued), Vec::from_iter(0..17));
    assert_eq!(domain.wake(At::address_space(&word.word), usize::MAX), CROWD - 17);
}

/// Wakes whose bitset matches few waiters take these in order. The others keep their places.
fn wake_that_is_passed_on_passes_over_a_crowd_that_came_later() {
    for domain in domains_in_both_tables() {
        let word = AtomicU32::new(0);
        let dropped = waiter_on(&domain, &word);
        let before = waiters_on(&domain, &word, 2);
        assert_eq!(domain.wake(&word, 1), 1);
        // These stand in front, because they are more urgent.
        let urgent = || WaitOptions::new().realtime_priority(7);
        let late: Vec<_> = (2..CROWD).map(|_| waiter_with(&domain, &word, urgent())).collect();
        drop(dropped);
        assert_eq!((woken(&before), woken(&late)), (vec![0], vec![]));
        assert_eq!(domain.wake(&word, usize::MAX), CROWD - 1);
    }
}

/// A wake takes the first and the last of 100,002 waiters. Between two of its pieces the last waiter can leave.
#[test]
fn a_waiter_leaves_while_a_wake_passes_over_a_crowd() {
    let (domain, word) = (domain_in_global_table(), AtomicU32::new(0));
    let target = At::address_space(&word);
    let (mut ends, mut waiters) = (idle(2), idle(100_000));
    let first_of_all = WaitOptions::new().realtime_priority(1).bitset(nonzero(2));
    let crowd: Vec<_> = waiters.iter_mut().map(|waiter| queue_with(&domain, waiter, target, bits(1))).collect();
    let [first, last] = &mut ends[..] else { unreachable!("there are two") };
    // If the wake were one step, the last waiter could never leave. Both threads have to run for that, hence several
    // tries.
    let has_left_between = (0..1_000).any(|_| {
        let first = queue_with(&domain, first, target, first_of_all);
        let mut last = queue_with(&domain, last, target, bits(2));
        std::thread::scope(|scope| {
            let waker = scope.spawn(|| domain.wake_bitset(target, 2, nonzero(2)));
            while !first.is_woken() {
                std::hint::spin_loop();
            }
            let has_left = last.cancel();
            assert_eq!(waker.join().expect("it wakes"), 2 - usize::from(has_left));
            has_left
        })
    });
    assert!(has_left_between, "no thread could lock the bucket during the wake");
    assert_eq!(domain.wake(target, usize::MAX), crowd.len());
}

/// A word that holds 0, whose load blocks until `is_free`. A wait on it keeps its bucket locked until then.
struct Slow {
    is_loaded: AtomicBool,
    is_free: AtomicBool,
}

impl Key for &Slow {
    fn address(&self) -> u64 {
        0
    }
}

impl Target for &Slow {
    type Value = u32;
    fn load(&self) -> Result<u32, Fault> {
        self.is_loaded.store(true, Release);
        while !self.is_free.load(Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(0)
    }
}

/// A word on a cache line of its own, and so with a bucket of its own.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU32);

/// Whether the two words share one of 16 buckets in the first domain of a system. Each system of the tests hashes alike.
fn share_bucket(slow: &Slow, word: &AtomicU32) -> bool {
    let domain = Domain::with_options(&system(), DomainOptions::new().policy(Policy::Fixed(16)));
    let _queued = (waiter_on(&domain, slow), waiter_on(&domain, word));
    domain.counters().longest_chain == 2
}

/// While a move waits for a locked bucket, operations on the words of other buckets do not wait.
fn words_are_used_while_a_move_waits_for_a_bucket(from: usize, to: usize) {
    let options = DomainOptions::new().policy(Policy::Fixed(from)).early_return(false);
    let domain = Domain::with_options(&system(), options);
    let slow = Slow { is_loaded: AtomicBool::new(false), is_free: AtomicBool::new(true) };
    let begins = AtomicBool::new(false);
    let lines: Vec<Line> = (0..100).map(|_| Line::default()).collect();
    let words: Vec<_> = lines.iter().map(|line| &line.0).filter(|word| !share_bucket(&slow, word)).collect();
    assert!(words.len() > 50, "{} of 100 words share a bucket of 16 with another", 100 - words.len());
    slow.is_free.store(false, Relaxed);
    slow.is_loaded.store(false, Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(waiter_on(&domain, &slow).cancel()));
        while !slow.is_loaded.load(Acquire) {
            std::thread::yield_now();
        }
        let moved = scope.spawn(|| {
            begins.store(true, Release);
            domain.set_slots(to)
        });
        let uses = scope.spawn(|| {
            while !begins.load(Acquire) {
                std::thread::yield_now();
            }
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(100) {
                for &word in &words {
                    let queued = waiter_on(&domain, word);
                    assert_eq!(domain.wake(word, 1), 1);
                    assert!(queued.is_woken() && queued.finish().is_ok());
                }
            }
        });
        let begin = Instant::now();
        while !uses.is_finished() && begin.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (were_used, has_moved) = (uses.is_finished(), moved.is_finished());
        slow.is_free.store(true, Release);
        assert_eq!((were_used, has_moved), (true, false), "used, moved");
        assert_eq!(moved.join().expect("it moves"), Ok(()));
    });
}

fn words_are_used_while_a_move_to_more_slots_waits() {
    words_are_used_while_a_move_waits_for_a_bucket(16, 64);
}

fn words_are_used_while_a_move_to_fewer_slots_waits() {
    words_are_used_while_a_move_waits_for_a_bucket(64, 16);
}

fn words_are_used_while_a_move_to_the_global_table_waits() {
    words_are_used_while_a_move_waits_for_a_bucket(16, 0);
}

fn words_are_used_while_a_move_from_the_global_table_waits() {
    words_are_used_while_a_move_waits_for_a_bucket(0, 16);
}

on_domains![
    wake_of_many_goes_by_bitset_and_priority,
    requeue_of_many_wakes_the_first_and_moves_those_behind,
    requeue_to_the_same_word_ends_where_the_word_differs,
    wake_that_is_passed_on_passes_over_a_crowd_that_came_later,
    a_step_of_a_wake_takes_all_or_256,
    a_step_of_a_wake_by_bitset_passes_over_all_or_256,
    a_step_of_a_requeue_takes_all_or_256,
    a_step_of_a_wake_op_takes_all_or_256,
    requeue_of_many_ends_where_the_word_differs,
    requeue_of_many_ends_where_the_word_cannot_be_read,
];
on_resizable_domains![
    crowd_moves_with_its_order,
    words_are_used_while_a_move_to_more_slots_waits,
    words_are_used_while_a_move_to_fewer_slots_waits,
    words_are_used_while_a_move_to_the_global_table_waits,
    words_are_used_while_a_move_from_the_global_table_waits,
];

/// The host's platform. It tells the test when a thread sleeps, and when a wake wakes its first thread.
struct Told;

/// What the test is told by.
struct Ears {
    sleeps: Arc<AtomicBool>,
    wakes: Option<Box<dyn FnOnce()>>,
}

thread_local! {
    static EARS: RefCell<Ears> = RefCell::new(Ears { sleeps: Arc::default(), wakes: None });
}

impl Platform for Told {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        EARS.with_borrow(|ears| ears.sleeps.store(true, Release));
        Host::park(word, expected, deadline);
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        if let Some(wakes) = EARS.with_borrow_mut(|ears| ears.wakes.take()) {
            wakes();
        }
        Host::unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        Host::now(clock)
    }
}

/// The number of waiters that are left when an operation wakes its first thread, and the operation's result. The thread
/// is the first of `CROWD` waiters of the first word. As many wait on the second one. `bitsets` are those of the first.
fn left_at_the_first_notification<R>(
    policy: Policy,
    bitsets: impl Fn(usize) -> u32,
    operation: impl FnOnce(&Domain, &[AtomicU32; 2]) -> R,
) -> (usize, R) {
    let system = System::with_config(config().platform::<Told>()).expect("there is memory");
    let domain = Arc::new(Domain::with_options(&system, DomainOptions::new().policy(policy)));
    let words = [AtomicU32::new(0), AtomicU32::new(0)];
    let sleeps = Arc::new(AtomicBool::new(false));
    let left = Rc::new(Cell::new(None));
    let first = bits(bitsets(0));
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            EARS.with_borrow_mut(|ears| ears.sleeps = sleeps.clone());
            domain.wait_with(&words[0], 0, &first)
        });
        while !sleeps.load(Acquire) {
            std::thread::yield_now();
        }
        let queued: Vec<_> = (1..CROWD).map(|i| waiter_with(&domain, &words[0], bits(bitsets(i)))).collect();
        let others = waiters_on(&domain, &words[1], CROWD);
        let (looks, notes) = (domain.clone(), left.clone());
        let wakes = move || notes.set(Some(looks.who_waits(4).iter().map(WaitedWord::waiters).sum()));
        EARS.with_borrow_mut(|ears| ears.wakes = Some(Box::new(wakes)));
        let result = operation(&domain, &words);
        drop((queued, others));
        assert_eq!(thread.join().expect("it waits"), Ok(()));
        result
    });
    (left.get().expect("the thread was woken"), result)
}

/// In a table of its own a domain takes all waiters of an operation in one step: none is left when the first one is
/// notified, and so can call the engine. In the global table at most 256 are taken, or passed over, before.
fn a_step_takes_all_or_256(
    bitsets: impl Fn(usize) -> u32 + Copy,
    taken: usize,
    operation: impl Fn(&Domain, &[AtomicU32; 2]) -> usize,
) {
    let (left, woken) = left_at_the_first_notification(Policy::Fixed(16), bitsets, &operation);
    assert_eq!((left, woken), (2 * CROWD - taken, taken), "a table of its own");
    let (left, woken) = left_at_the_first_notification(Policy::Fixed(0), bitsets, &operation);
    assert_eq!(woken, taken);
    assert!((2 * CROWD - taken.min(256)..2 * CROWD).contains(&left), "{left} are left");
}

fn a_step_of_a_wake_takes_all_or_256() {
    a_step_takes_all_or_256(|_| 1, CROWD, |domain, words| domain.wake(&words[0], usize::MAX));
}

/// A bitset matches the first and the last waiters alone.
fn a_step_of_a_wake_by_bitset_passes_over_all_or_256() {
    for (ends, most) in [(1, 2), (100, 200)] {
        let (bitsets, few) = (move |i| if (ends..CROWD - ends).contains(&i) { 1 } else { 2 }, nonzero(2));
        a_step_takes_all_or_256(bitsets, most, |domain, words| domain.wake_bitset(&words[0], most, few));
        let global = left_at_the_first_notification::<_>(Policy::Fixed(0), bitsets, |domain, words| {
            domain.wake_bitset(&words[0], most, few)
        });
        assert!(global.0 >= 2 * CROWD - ends, "it has passed over a crowd in one step: {global:?}");
    }
}

fn a_step_of_a_requeue_takes_all_or_256() {
    let all = Requeue { wake: usize::MAX, requeue: 0 };
    let requeue = |domain: &Domain, words: &[AtomicU32; 2]| domain.requeue(&words[0], &words[1], all);
    a_step_takes_all_or_256(|_| 1, CROWD, |domain, words| requeue(domain, words).expect("it can").woken);
}

fn a_step_of_a_wake_op_takes_all_or_256() {
    let op = WakeOp { modify: Modify::Set(1), compare: Compare::Eq(0) };
    a_step_takes_all_or_256(
        |_| 1,
        2 * CROWD,
        |domain, words| domain.wake_op(&words[0], usize::MAX, &words[1], op, usize::MAX).expect("it can"),
    );
}

/// A waker that records the number of waiters of its word at the time of its call.
struct Notes {
    domain: Domain,
    word: AtomicU32,
    saw_waiters: AtomicU32,
}

impl Wake for Notes {
    fn wake(self: Arc<Self>) {
        let waiting: usize = self.domain.who_waits(1).iter().map(WaitedWord::waiters).sum();
        self.saw_waiters.fetch_max(waiting as u32, Relaxed);
    }
}

#[test]
fn all_waiters_are_notified_before_the_first_waker_runs() {
    let domain = domain_in_global_table();
    let notes = Arc::new(Notes { domain, word: AtomicU32::new(0), saw_waiters: AtomicU32::new(0) });
    let Notes { domain, word, .. } = &*notes;
    let mut waiters = idle(CROWD);
    let queued: Vec<_> = waiters
        .iter_mut()
        .map(|waiter| {
            let waker = Waker::from(notes.clone());
            domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), waker).expect("the word is 0")
        })
        .collect();
    assert_eq!(domain.wake(word, usize::MAX), CROWD);
    assert_eq!(woken(&queued).len(), CROWD);
    assert_eq!(notes.saw_waiters.load(Relaxed), 0, "a waker ran while others were still queued");
}
