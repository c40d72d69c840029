//! Concurrent requeues in both directions, resizes, and waiters that leave.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use ufutex::{Domain, Requeue, WaitOptions};

use crate::common::domains::{assert_resized, domain, on_domains, on_resizable_domains, set_slots};
use crate::common::places::{Word, lasting_domain, words};
use crate::common::waiters::{idle, queue};

/// Resizes while `running` is true. Some schemes have to wait for a moment without operations and may not find one.
fn resize(domain: &Domain, running: &AtomicBool) {
    for slots in [2, 64, 4, 0, 16, 256].into_iter().cycle().take_while(|_| running.load(SeqCst)) {
        assert_resized(set_slots(domain, slots));
    }
}

/// Requeues waiters from word to word, none to `most` at a time. `step` sets the direction. Returns the number of waiters that it has
/// woken.
fn move_around(domain: &Domain, words: &[Word], times: usize, step: usize, most: usize) -> usize {
    let mut woken = 0;
    for i in 0..times {
        let (from, to) = (words[i * step % words.len()], words[(i * step + step) % words.len()]);
        let (wake, requeue) = (usize::from(i % 8 == 0), if i % 7 == 6 { most } else { i % 7 });
        let done = domain.requeue(from, to, Requeue { wake, requeue }).expect("there is no PI waiter");
        assert!(done.woken <= wake && done.requeued <= requeue);
        woken += done.woken;
    }
    woken
}

fn no_waiter_is_lost_by_requeues_both_ways_and_resizes() {
    requeues_both_ways_and_resizes(60, 6, 40);
}

/// More waiters than are moved at once in a global table.
fn no_waiter_of_a_crowd_is_lost_by_requeues_both_ways_and_resizes() {
    requeues_both_ways_and_resizes(2000, usize::MAX, 4);
}

fn requeues_both_ways_and_resizes(crowd: usize, most: usize, rounds: usize) {
    let domain = domain();
    let words: [Word; 4] = words();
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| resize(&domain, &running));
        for _ in 0..rounds {
            let mut waiters = idle(crowd);
            let mut queued: Vec<_> =
                waiters.iter_mut().enumerate().map(|(i, w)| queue(&domain, w, words[i % 4])).collect();
            let woken = std::thread::scope(|movers| {
                let [forth, back] = [1, 3].map(|step| {
                    let (domain, words) = (&domain, &words);
                    movers.spawn(move || move_around(domain, words, 60, step, most))
                });
                forth.join().expect("it does not panic") + back.join().expect("it does not panic")
            });
            // Some waiters leave, from the word to which they have been moved by now.
            let cancelled = queued.drain(..20).map(|mut queued| queued.cancel()).filter(|&in_time| in_time).count();
            let taken: usize = words.iter().map(|word| domain.wake(*word, usize::MAX)).sum();
            assert_eq!(woken + cancelled + taken, crowd);
            assert!(queued.into_iter().all(|mut queued| !queued.cancel()));
        }
        running.store(false, SeqCst);
    });
}

/// Waiters leave while other threads requeue them. No entry may stay queued and no wake may be lost.
fn waiters_that_leave_while_they_are_moved_leave_no_entry() {
    let domain: &'static Domain = lasting_domain();
    let words: [Word; 3] = words();
    let running = AtomicBool::new(true);
    let [ended, woken] = [(); 2].map(|()| AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for step in [1, 2] {
            let (running, woken, words) = (&running, &woken, &words);
            scope.spawn(move || {
                while running.load(SeqCst) {
                    woken.fetch_add(move_around(domain, words, 20, step, 6), SeqCst);
                }
            });
        }
        let mut waits: Vec<_> = (0..12).map(|_| None::<Pin<Box<_>>>).collect();
        // The time limit is for hosts with few CPUs, where this thread runs every few milliseconds only.
        let begin = Instant::now();
        for i in (0..3000).take_while(|_| begin.elapsed() < Duration::from_secs(3)) {
            // Dropping a woken future would pass its wake on. `end` returns the wake instead, so that it is counted.
            if let Some(mut wait) = waits[i % 12].take() {
                let wait: &mut Pin<Box<ufutex::Wait<'_, Word>>> = &mut wait;
                if wait.as_mut().end(ufutex::Cause::TimedOut).is_ok() {
                    ended.fetch_add(1, SeqCst);
                }
            }
            waits[i % 12] =
                Some(crate::common::futures::pending(domain.wait_async(words[i % 3], 0, &WaitOptions::new())));
        }
        running.store(false, SeqCst);
        for mut wait in waits.into_iter().flatten() {
            if wait.as_mut().end(ufutex::Cause::TimedOut).is_ok() {
                ended.fetch_add(1, SeqCst);
            }
        }
    });
    assert_eq!(ended.into_inner(), woken.into_inner(), "each wake that was counted has ended one wait");
    assert_eq!(words.map(|word| domain.wake(word, usize::MAX)), [0; 3]);
}

on_resizable_domains![
    no_waiter_is_lost_by_requeues_both_ways_and_resizes,
    no_waiter_of_a_crowd_is_lost_by_requeues_both_ways_and_resizes
];
on_domains![waiters_that_leave_while_they_are_moved_leave_no_entry];
