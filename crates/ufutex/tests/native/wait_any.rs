//! Waits on several words at once.

use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, Waker};
use std::time::Duration;

use ufutex::{Cause, Clock, Domain, DomainOptions, Error, System, SystemConfig, Timeout, WaitOptions};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{at_once, pending, pending_with, poll, poll_with};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{Word, forever, lasting_domain, neighbours, words};
use crate::common::waiters::{nonzero, waiter_on};
use crate::common::waker::{Notified, block_on};

const PLAINLY: WaitOptions = WaitOptions::new();

fn any<const N: usize>(words: [Word; N]) -> [(Word, u32); N] {
    words.map(|word| (word, 0))
}

/// Triples of words, in most likely different buckets and in one bucket.
fn triples() -> [[Word; 3]; 3] {
    [words(), words(), neighbours()]
}

/// As in the kernel, the result is the index of the last word that has been woken. The other wakes are consumed with
/// it.
fn last_of_the_woken_words_is_the_result() {
    let domain = domain();
    for words in triples() {
        for woken in 1u32..8 {
            let mut wait = pending(domain.wait_any_async(any(words), &PLAINLY));
            let mut next = words.map(|word| pending(domain.wait_async(word, 0, &PLAINLY)));
            for (i, word) in words.into_iter().enumerate() {
                assert_eq!(domain.wake(word, (woken >> i & 1) as usize), (woken >> i & 1) as usize);
            }
            assert_eq!(poll(&mut wait), Poll::Ready(Ok(woken.ilog2() as usize)));
            drop(wait);
            assert!(next.iter_mut().all(|next| poll(next).is_pending()), "received, so not passed on");
        }
    }
}

/// While the page of a later word is faulted in, a word that is already queued is woken. Its index is the result,
/// whatever the other words hold.
fn wake_before_all_words_are_queued_counts() {
    for (third_holds, is_lost) in [(0, false), (1, false), (0, true)] {
        for woken in [0, 1] {
            let domain = lasting_domain();
            let memory = forever(GuestMemory::new());
            let words = [0, 256, 512].map(|at| memory.target(at));
            memory.word(512).store(third_holds, Relaxed);
            memory.fault_loads_of(512);
            memory.on_fault(move || {
                assert_eq!(domain.wake(words[woken], 1), 1);
                memory.fault_loads_of_none();
                if is_lost {
                    memory.lose();
                }
            });
            let mut wait = Box::pin(domain.wait_any_async(words.map(|word| (word, 0)), &PLAINLY));
            let begun = poll(&mut wait);
            if third_holds == 0 && !is_lost {
                assert_eq!(begun, Poll::Pending, "all are queued; its waker has been notified already");
                assert_eq!(poll(&mut wait), Poll::Ready(Ok(woken)));
            } else {
                assert_eq!(begun, Poll::Ready(Ok(woken)));
            }
            assert_eq!(words.map(|word| domain.wake(word, usize::MAX)), [0; 3]);
        }
    }
}

fn fault_of_a_word_ends_the_wait() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [first] = words();
    let words = [memory.target(0), memory.target(256)].map(|word| (word, 0));
    memory.fault_next_loads(3);
    let wait = pending(domain.wait_any_async(words, &PLAINLY));
    drop(wait);
    memory.lose();
    assert_eq!(at_once(domain.wait_any_async(words, &PLAINLY)), Err(Error::Fault));
    assert_eq!(domain.wait_any(&words, &PLAINLY), Err(Error::Fault));
    let too_wide = [(memory.target(0), 1 << 32)];
    assert_eq!(at_once(domain.wait_any_async(too_wide, &PLAINLY)), Err(Error::Invalid));
    assert_eq!(domain.wake(first, 1), 0);
}

fn dropped_future_passes_each_of_its_wakes_on() {
    let domain = domain();
    for words in triples() {
        let wait = pending(domain.wait_any_async(any(words), &PLAINLY));
        let mut next = words.map(|word| [(); 2].map(|()| pending(domain.wait_async(word, 0, &PLAINLY))));
        assert_eq!((domain.wake(words[0], 1), domain.wake(words[2], 1)), (1, 1));
        drop(wait);
        let ready = next.each_mut().map(|waits| waits.each_mut().map(|wait| poll(wait).is_ready()));
        assert_eq!(ready, [[true, false], [false, false], [true, false]]);
    }
}

fn dropped_future_that_was_not_woken_leaves_nothing_behind() {
    let domain = domain();
    for words in triples() {
        let mut before = pending(domain.wait_any_async(any(words), &PLAINLY));
        let wait = pending(domain.wait_any_async(any(words), &PLAINLY));
        let mut after = pending(domain.wait_any_async(any(words), &PLAINLY));
        drop(wait);
        assert_eq!(domain.wake(words[1], 2), 2);
        assert_eq!((poll(&mut before), poll(&mut after)), (Poll::Ready(Ok(1)), Poll::Ready(Ok(1))));
        assert_eq!(words.map(|word| domain.wake(word, usize::MAX)), [0; 3]);
    }
}

fn system_limits_the_number_of_words() {
    let system = System::with_config(SystemConfig::new().max_waitv(2)).expect("the memory is there");
    let domain = Domain::with_options(&system, DomainOptions::new());
    let [a, b, c] = words();
    assert_eq!(at_once(domain.wait_any_async(any([a, b, c]), &PLAINLY)), Err(Error::Invalid));
    let mut two = pending(domain.wait_any_async(any([a, b]), &PLAINLY));
    assert_eq!(domain.wake(b, 1), 1);
    assert_eq!(poll(&mut two), Poll::Ready(Ok(1)));
}

fn timeout_of_a_future_ends_it() {
    let domain = domain();
    let [word] = words();
    for timeout in [Timeout::After(Duration::from_millis(2)), Timeout::At(Clock::Realtime, Duration::from_secs(1))] {
        let options = PLAINLY.timeout(timeout);
        assert_eq!(block_on(domain.wait_any_async(any([word]), &options)), Err(Error::TimedOut));
    }
    assert_eq!(domain.wake(word, 1), 0);
    let mut wait =
        pending(domain.wait_any_async(any([word]), &PLAINLY.timeout(Timeout::After(Duration::from_secs(100)))));
    assert_eq!(domain.wake(word, 1), 1);
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(0)), "a wake that comes before counts");
}

fn end_returns_its_cause_unless_a_word_was_woken() {
    let domain = domain();
    for words in triples() {
        for (cause, error) in [(Cause::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted)] {
            let mut wait = pending(domain.wait_any_async(any(words), &PLAINLY));
            assert_eq!(wait.as_mut().end(cause), Err(error));
            drop(wait);
            let mut unpolled = Box::pin(domain.wait_any_async(any(words), &PLAINLY));
            assert_eq!(unpolled.as_mut().end(cause), Err(error));
            assert_eq!(words.map(|word| domain.wake(word, usize::MAX)), [0; 3]);
            let mut wait = pending(domain.wait_any_async(any(words), &PLAINLY));
            assert_eq!((domain.wake(words[0], 1), domain.wake(words[1], 1)), (1, 1));
            assert_eq!(wait.as_mut().end(cause), Ok(1));
        }
    }
}

fn waker_of_the_last_poll_is_woken_by_every_word() {
    let domain = domain();
    for words in triples() {
        for word in words {
            let [(old, old_waker), (new, new_waker)] = [(); 2].map(|()| Notified::new());
            let mut wait = pending_with(domain.wait_any_async(any(words), &PLAINLY), &old_waker);
            assert_eq!(poll_with(&mut wait, &new_waker), Poll::Pending);
            assert_eq!(domain.wake(word, 1), 1);
            assert_eq!((old.times(), new.times()), (0, 1));
            assert_eq!(std::sync::Arc::strong_count(&old), 2, "the old one is let go");
            assert!(poll_with(&mut wait, Waker::noop()).is_ready());
        }
    }
}

fn bitset_and_priority_hold_for_every_word() {
    let domain = domain();
    let [a, b] = words();
    let (of_a, of_b) = (waiter_on(&domain, a), waiter_on(&domain, b));
    let options = PLAINLY.bitset(nonzero(0b10)).realtime_priority(1);
    let mut wait = pending(domain.wait_any_async(any([a, b]), &options));
    assert_eq!(domain.wake_bitset(b, 1, nonzero(0b01)), 1);
    assert!(of_b.is_woken() && poll(&mut wait).is_pending());
    assert_eq!(domain.wake(a, 1), 1);
    assert!(!of_a.is_woken(), "the other one has the priority");
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(0)));
}

on_domains![
    last_of_the_woken_words_is_the_result,
    wake_before_all_words_are_queued_counts,
    fault_of_a_word_ends_the_wait,
    dropped_future_passes_each_of_its_wakes_on,
    dropped_future_that_was_not_woken_leaves_nothing_behind,
    system_limits_the_number_of_words,
    timeout_of_a_future_ends_it,
    end_returns_its_cause_unless_a_word_was_woken,
    waker_of_the_last_poll_is_woken_by_every_word,
    bitset_and_priority_hold_for_every_word,
];
