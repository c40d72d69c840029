//! Futures that are woken, polled with other wakers, requeued, and dropped while another thread wakes them.

use std::sync::atomic::{AtomicU32, Ordering};

use ufutex::{Domain, System, WaitOptions};

use crate::clocks::both;
use crate::polls::{pending, poll_with};
use crate::waker::{Notified, block_on};

#[test]
fn wait_is_woken_by_another_thread() {
    let domain: Domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    both(
        || {
            word.store(1, Ordering::SeqCst);
            domain.wake(&word, 1);
        },
        || {
            // The wait is woken or finds that the word has changed.
            _ = block_on(domain.wait_async(&word, 0, &WaitOptions::new()));
        },
    );
    assert_eq!(domain.waiting(), 0);
}

#[test]
fn wait_is_polled_with_other_wakers_while_it_is_woken() {
    let domain: Domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    let mut wait = pending(domain.wait_async(&word, 0, &WaitOptions::new()));
    both(
        || assert_eq!(domain.wake(&word, 1), 1),
        || {
            while poll_with(&mut wait, &Notified::new().1).is_pending() {
                std::thread::yield_now();
            }
        },
    );
}

#[test]
fn waits_are_dropped_while_they_are_woken() {
    let domain: Domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    let waits = [(); 3].map(|()| pending(domain.wait_async(&word, 0, &WaitOptions::new())));
    let last = pending(domain.wait_async(&word, 0, &WaitOptions::new()));
    both(|| assert_eq!(domain.wake(&word, 1), 1), || drop(waits));
    // A future that was woken and then dropped has passed its wake on to `last`.
    drop(last);
    assert_eq!(domain.waiting(), 0);
}

#[test]
fn neighbours_in_a_queue_come_and_go() {
    let domain: Domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    let stays = pending(domain.wait_async(&word, 0, &WaitOptions::new()));
    let come_and_go = || (0..3).for_each(|_| drop(pending(domain.wait_async(&word, 0, &WaitOptions::new()))));
    both(come_and_go, come_and_go);
    drop(stays);
    assert_eq!(domain.waiting(), 0);
}

#[test]
fn queues_move_to_another_table_while_their_waiters_leave() {
    let domain: Domain = Domain::new(&System::new());
    let words = [const { AtomicU32::new(0) }; 3];
    let waits: Vec<_> = words.iter().map(|word| pending(domain.wait_async(word, 0, &WaitOptions::new()))).collect();
    both(
        || {
            for slots in [4, 2, 0] {
                domain.set_slots(slots).expect("there is memory");
            }
        },
        || drop(waits),
    );
    assert_eq!(domain.waiting(), 0);
}
