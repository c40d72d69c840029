//! A future that has been woken and is then dropped must pass its wake on.
//!
//! Wakers release one permit at a time, and only threads take it. Futures wait on the same word, never take the permit
//! and are dropped at random. If a dropped future did not pass its wake on, the permit would stay free while all
//! threads sleep.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ufutex::{Domain, DomainOptions, Error, WaitOptions};

use crate::common::asleep::until;
use crate::common::domains::system;
use crate::common::random::Random;
use crate::share;
use crate::workers::{Desk, Workers, resize};

struct Permits {
    domain: Domain,
    /// `1` means that there is a permit.
    permit: AtomicU32,
    handed_out: AtomicUsize,
    taken: AtomicUsize,
    dropped: AtomicUsize,
    /// Set when no more permits are released.
    is_closing: AtomicBool,
    is_closed: AtomicBool,
}

fn take_permits(permits: &Permits, desk: &Desk, _: Random) {
    while desk.is_running() {
        if permits.permit.compare_exchange(1, 0, Acquire, Relaxed).is_ok() {
            permits.taken.fetch_add(1, AcqRel);
            continue;
        }
        match desk.waiting_on(0, || permits.domain.wait(&permits.permit, 0)) {
            Ok(()) | Err(Error::Again) => {}
            Err(error) => panic!("a wait ended with {error}"),
        }
    }
}

fn drop_futures(permits: &Permits, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        // Two thirds of the futures have a real-time priority, so they are ahead of the threads.
        let options = WaitOptions::new().realtime_priority(random.of(&[0, 1, 1]));
        let mut waits: Vec<_> = (0..1 + random.below(3))
            .map(|_| Box::pin(permits.domain.wait_async(&permits.permit, 0, &options)))
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        waits.retain_mut(|wait| wait.as_mut().poll(&mut context).is_pending());
        (0..random.below(200)).for_each(|_| std::hint::spin_loop());
        while !waits.is_empty() {
            let mut wait = waits.swap_remove(random.below(waits.len()));
            // A future that has returned its wake does not pass it on, so the worker has to.
            if random.one_in(3) && wait.as_mut().poll(&mut context) == Poll::Ready(Ok(())) {
                permits.domain.wake(&permits.permit, 1);
            }
        }
        permits.dropped.fetch_add(1, Relaxed);
    }
}

fn hand_out_permits(permits: &Permits, desk: &Desk, mut random: Random) {
    while !permits.is_closing.load(Relaxed) {
        let number = permits.handed_out.fetch_add(1, Relaxed) + 1;
        permits.permit.store(1, Release);
        permits.domain.wake(&permits.permit, 1);
        while permits.taken.load(Acquire) < number {
            if !desk.is_running() {
                return;
            }
            std::thread::yield_now();
        }
        (0..random.below(100)).for_each(|_| std::hint::spin_loop());
    }
    permits.is_closed.store(true, Release);
}

fn resize_it(permits: &Permits, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        resize(&permits.domain, &mut random);
    }
}

fn hand_out_in_futures(length: Duration) {
    let [handed_out, taken, dropped] = [(); 3].map(|()| AtomicUsize::new(0));
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let [is_closing, is_closed] = [(); 2].map(|()| AtomicBool::new(false));
    let permit = AtomicU32::new(0);
    let permits = Arc::new(Permits { domain, permit, handed_out, taken, dropped, is_closing, is_closed });
    let mut workers = Workers::new(permits.clone());
    workers.add("a taker", take_permits);
    workers.add("another taker", take_permits);
    workers.add("future dropper", drop_futures);
    workers.add("permit releaser", hand_out_permits);
    if crate::common::domains::can_resize() {
        workers.add("resizer", resize_it);
    }
    workers.run(length);
    permits.is_closing.store(true, Relaxed);
    until("the permit that is there is taken: or a wake was lost", || permits.is_closed.load(Acquire));
    workers.stop(|permits| _ = permits.domain.wake(&permits.permit, usize::MAX));
    assert_eq!(permits.taken.load(Relaxed), permits.handed_out.load(Relaxed));
    assert!(permits.dropped.load(Relaxed) > 0);
}

#[test]
fn no_wake_is_lost_in_a_future() {
    hand_out_in_futures(share(6));
}
