//! A future is polled with a new waker while a wake comes: the last waker must be called.
//!
//! The interleaving looked for: the wake takes the first waker, and the task that polled with the second is never
//! polled again. The wakers are swapped under the bucket's lock ([E]), which the wake needs to take the entry. A poll
//! that comes too late for that calls its own waker.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;
use ufutex_loom::{Scheme, WaitOptions};

use crate::support::{PAIR, World, catches, check_pair};

/// Counts its calls.
#[derive(Default)]
struct Told(AtomicUsize);

impl Wake for Told {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn new_waker_against_wake(scheme: Scheme) {
    let world = World::with_slots_of(scheme, 2);
    let mut future = pin!(world.domain.wait_async(&world.word, 0, &WaitOptions::new()));
    let first = Waker::from(StdArc::new(Told::default()));
    assert!(future.as_mut().poll(&mut Context::from_waker(&first)).is_pending());

    let waker = {
        let world = world.clone();
        thread::spawn(move || world.store_and_wake())
    };
    let last = StdArc::new(Told::default());
    let second = Waker::from(last.clone());
    let polled = future.as_mut().poll(&mut Context::from_waker(&second));
    assert_eq!(waker.join().unwrap(), 1);
    if polled == Poll::Pending {
        assert_eq!(last.0.load(Relaxed), 1, "the task that polled last is not polled again");
        assert_eq!(future.as_mut().poll(&mut Context::from_waker(&second)), Poll::Ready(Ok(())));
    }
}

#[test]
fn the_last_waker_is_told() {
    check_pair(|| new_waker_against_wake(Scheme::Live));
    check_pair(|| new_waker_against_wake(Scheme::PerCpu));
}

catches!(future_waker_catches_poll_keeps_waker, PollKeepsWaker, PAIR, || new_waker_against_wake(Scheme::Live));
catches!(future_waker_catches_late_poll_is_silent, LatePollIsSilent, PAIR, || new_waker_against_wake(Scheme::Live));
