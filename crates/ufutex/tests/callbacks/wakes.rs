//! Waits, wakes and requeues whose wakers and guest memory panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use ufutex::{Compare, Error, Fault, GuestWord, Modify, Requeue, Timeout, Wait, WaitOptions, WakeOp};

use crate::bomb::{Bomb, panics};
use crate::common::futures::{pending_with, poll, poll_with};
use crate::common::guest_memory::{Event, GuestMemory};
use crate::guest::{Embedder, Memory, Notified};

type Waits = Pin<Box<Wait<'static, GuestWord<'static, Memory>>>>;

fn is_ready(wait: &mut Waits) -> bool {
    poll(wait) == Poll::Ready(Ok(()))
}

/// Futures that wait on word `number`, and counters of the calls of their wakers.
fn waiters(it: &Embedder, number: usize, count: usize) -> (Vec<Waits>, Vec<Arc<Notified>>) {
    let one = |_| {
        let (notified, waker) = Notified::new();
        let wait = pending_with(it.domain.wait_async(it.target(number), 0, &WaitOptions::new()), &waker);
        (wait, notified)
    };
    (0..count).map(one).unzip()
}

fn assert_all_woken(waits: &mut [Waits], notified: &[Arc<Notified>]) {
    for (wait, notified) in std::iter::zip(waits, notified) {
        assert!(is_ready(wait), "a wake was lost");
        assert_eq!(notified.times(), 1, "a waker was not notified, or twice");
    }
}

fn wake_of_one(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, notified) = waiters(&it, 0, 1);
    bomb.during(|| it.domain.wake(it.target(0), 1));
    assert_all_woken(&mut waits, &notified);
    let counters = it.domain.counters();
    assert_eq!((counters.wakes, counters.woken), (1, 1));
    it.assert_free();
}

/// A wake of this many waiters allocates.
fn wake_of_many(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, notified) = waiters(&it, 0, 40);
    bomb.during(|| it.domain.wake(it.target(0), usize::MAX));
    assert_all_woken(&mut waits, &notified);
    let counters = it.domain.counters();
    assert_eq!((counters.wakes, counters.woken), (1, 40));
    it.assert_free();
}

fn requeue(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, notified) = waiters(&it, 0, 6);
    it.memory.page_out();
    let requeued =
        bomb.during(|| it.domain.cmp_requeue(it.target(0), 0, it.target(16), Requeue { wake: 3, requeue: 3 }));
    let before = it.domain.counters();
    let done = notified.iter().any(|notified| notified.times() != 0);
    assert!(done || requeued.is_none(), "it says that it has woken");
    if !done {
        // The load panicked, so the word was not compared and no waiter was moved.
        assert_eq!((before.requeues, before.woken, before.requeued), (0, 0, 0));
        it.word(0).store(0, SeqCst);
        assert!(it.domain.cmp_requeue(it.target(0), 0, it.target(16), Requeue { wake: 3, requeue: 3 }).is_ok());
    }
    let counters = it.domain.counters();
    assert_eq!((counters.requeues, counters.woken, counters.requeued), (1, 3, 3));
    assert_eq!(it.domain.wake(it.target(16), usize::MAX), 3);
    assert_all_woken(&mut waits, &notified);
    it.assert_free();
}

fn wake_op(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [(mut first, told_first), (mut second, told_second)] = [0, 16].map(|number| waiters(&it, number, 3));
    let op = WakeOp { modify: Modify::Add(1), compare: Compare::Eq(0) };
    it.memory.page_out();
    let run = || it.domain.wake_op(it.target(0), 9, it.target(16), op, 9);
    bomb.during(run);
    if it.word(16).load(SeqCst) == 0 {
        // The exchange panicked, so the word was not changed and no waiter was woken.
        assert_eq!((it.domain.counters().woken, it.domain.waiting()), (0, 6));
        assert_eq!(run(), Ok(6));
    }
    assert_all_woken(&mut first, &told_first);
    assert_all_woken(&mut second, &told_second);
    assert_eq!((it.domain.counters().wakes, it.domain.counters().woken), (1, 6));
    it.assert_free();
}

/// The first poll of a wait without a timeout panics. A second poll continues it.
fn first_poll_without_timeout(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notified, waker) = Notified::new();
    let mut wait = Box::pin(it.domain.wait_async(it.target(0), 0, &WaitOptions::new()));
    it.memory.page_out();
    bomb.during(|| poll_with(&mut wait, &waker));
    assert_eq!(poll_with(&mut wait, &waker), Poll::Pending);
    assert_eq!(it.domain.wake(it.target(0), 1), 1);
    assert!(is_ready(&mut wait));
    assert_eq!(notified.times(), 1);
    drop(wait);
    it.assert_free();
}

/// The first poll of a wait with a timeout panics: the wait has ended. Otherwise nothing would watch its timeout.
fn first_poll(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notified, waker) = Notified::new();
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_secs(1)));
    let mut wait = Box::pin(it.domain.wait_async(it.target(0), 0, &options));
    it.memory.page_out();
    let polled = bomb.during(|| poll_with(&mut wait, &waker));
    assert!(polled.is_none_or(|polled| polled == Poll::Pending));
    assert_eq!(it.domain.waiting(), usize::from(polled.is_some()), "a wait that nothing watches is not queued");
    let again = catch_unwind(AssertUnwindSafe(|| poll_with(&mut wait, &waker)));
    assert_eq!(again.is_ok(), polled.is_some());
    if polled.is_some() {
        assert_eq!(it.domain.wake(it.target(0), 1), 1);
        assert!(is_ready(&mut wait));
        assert!(notified.times() >= 1);
    }
    drop(wait);
    it.assert_free();
}

/// A later poll replaces the waker.
fn later_poll(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, notified) = waiters(&it, 0, 1);
    let (later, waker) = Notified::new();
    let polled = bomb.during(|| poll_with(&mut waits[0], &waker));
    assert!(polled.is_none_or(|polled| polled == Poll::Pending));
    assert_eq!(it.domain.wake(it.target(0), 1), 1);
    assert_eq!(notified[0].times() + later.times(), 1, "no waker was woken");
    assert!(is_ready(&mut waits[0]));
    it.assert_free();
}

/// A dropped wait passes its wake on to a wait whose waker panics.
fn dropped_after_its_wake(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, notified) = waiters(&it, 0, 2);
    assert_eq!(it.domain.wake(it.target(0), 1), 1);
    let first = waits.remove(0);
    bomb.during(|| drop(first));
    assert_all_woken(&mut waits, &notified[1..]);
    it.assert_free();
}

/// As `dropped_after_its_wake`, while the stack unwinds. The second panic must not abort the process.
fn dropped_in_a_panic(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, notified) = waiters(&it, 0, 2);
    let (mut elsewhere, told_elsewhere) = waiters(&it, 16, 2);
    assert_eq!(it.domain.wake(it.target(0), 1), 1);
    let _held = (waits.remove(0), elsewhere.remove(0));
    let unwinding = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // Dropped by the panic below, which does not come from a callback.
        struct InDrop<F: FnMut()>(F);
        impl<F: FnMut()> Drop for InDrop<F> {
            fn drop(&mut self) {
                (self.0)();
            }
        }
        let mut held = Some(_held);
        let _drops = InDrop(|| assert_eq!(bomb.during(|| drop(held.take())), Some(())));
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwinding.is_err());
    assert_all_woken(&mut waits, &notified[1..]);
    assert_eq!(it.domain.wake(it.target(16), 9), 1);
    assert_all_woken(&mut elsewhere, &told_elsewhere[1..]);
    it.assert_free();
}

fn wait_for_several(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notified, waker) = Notified::new();
    let words = [0, 16, 32].map(|number| (it.target(number), 0));
    let mut wait = Box::pin(it.domain.wait_any_async(words, &WaitOptions::new()));
    it.memory.page_out();
    let polled = bomb.during(|| poll_with(&mut wait, &waker));
    if polled.is_none() {
        it.assert_free();
        assert_eq!(poll_with(&mut wait, &waker), Poll::Pending, "it begins anew");
        assert_eq!(it.domain.waiting(), 3);
    }
    assert_eq!(bomb.during(|| it.domain.wake(it.target(16), 1)).unwrap_or(1), 1);
    assert_eq!(notified.times(), 1);
    let ended = bomb.during(|| poll(&mut wait));
    assert!(ended.is_none_or(|ended| ended == Poll::Ready(Ok(1))));
    bomb.during(|| drop(wait));
    it.assert_free();
}

/// The first poll of a wait for several words is woken at one word and then panics. The wake is passed on at once.
#[test]
fn wake_of_a_wait_that_panics_before_it_has_begun_is_passed_on() {
    let it = Embedder::new();
    let domain = it.domain;
    let next = Mutex::new(Box::pin(domain.wait_async(it.target(0), 0, &WaitOptions::new())));
    let (notified, waker) = Notified::new();
    let wakes = || {
        assert_eq!(poll_with(&mut next.lock().expect("not poisoned"), &waker), Poll::Pending);
        assert_eq!(domain.wake(it.target(0), 1), 1);
        assert_eq!(notified.times(), 0, "the other came first");
    };
    // The third word faults. `fault_in` wakes the first, and panics.
    let memory = GuestMemory::of_words(it.memory, |event, address| match event {
        Event::FaultIn(_) => {
            wakes();
            std::panic::resume_unwind(Box::new(()));
        }
        _ if address == it.memory.at(4 * 32) => Err(Fault),
        _ => Ok(()),
    });
    let words = [0, 16, 32].map(|number| (memory.target(4 * number), 0));
    let mut wait = Box::pin(domain.wait_any_async(words, &WaitOptions::new()));
    let mut first_poll = || poll(&mut wait);
    assert!(catch_unwind(AssertUnwindSafe(&mut first_poll)).is_err());
    assert_eq!((notified.times(), domain.waiting()), (1, 1), "a wake was lost");
    assert!(is_ready(&mut next.lock().expect("not poisoned")));
    it.assert_free();
}

/// One turn ends the waits of several tasks by their timeouts.
fn timeouts_of_several(bomb: &mut Bomb) {
    let it = Embedder::new();
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(1)));
    let mut all: Vec<_> = (0..3)
        .map(|_| {
            let (notified, waker) = Notified::new();
            let wait = pending_with(it.domain.wait_async(it.target(0), 0, &options), &waker);
            (wait, notified)
        })
        .collect();
    it.time.advance(Duration::from_millis(2));
    // A panic ends the turn. The next turn continues.
    for _ in 0..4 {
        bomb.during(|| it.driver().turn());
    }
    it.driver().turn();
    for (wait, notified) in &mut all {
        assert_eq!(notified.times(), 1, "a timeout was lost");
        assert_eq!(poll(wait), Poll::Ready(Err(Error::TimedOut)));
    }
    it.assert_free();
}

/// The first wait makes the table.
fn first_table(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (notified, waker) = Notified::new();
    let mut wait = Box::pin(it.domain.wait_async(it.target(0), 0, &WaitOptions::new()));
    if bomb.during(|| poll_with(&mut wait, &waker)).is_none() {
        assert_eq!(poll_with(&mut wait, &waker), Poll::Pending);
    }
    assert_eq!(it.domain.wake(it.target(0), 1), 1);
    assert_eq!(notified.times(), 1);
    assert!(is_ready(&mut wait));
    it.assert_free();
}

mod tests {
    super::panics! {
        wake_of_one: WakerWake 1;
        wake_of_many: WakerWake 40;
        requeue: Load 2, FaultIn 1, WakerWake 3;
        wake_op: Load 1, FaultIn 1, Exchange 1, WakerWake 6;
        first_poll_without_timeout: Load 2, FaultIn 1, WakerClone 1;
        first_poll: Load 2, FaultIn 1, WakerClone 2, Now 2, Changed 1;
        later_poll: WakerClone 1, WakerDrop 1;
        dropped_after_its_wake: WakerWake 1;
        dropped_in_a_panic: WakerWake 1, WakerDrop 1;
        wait_for_several: Load 3, FaultIn 1, WakerClone 3, WakerWake 1, WakerDrop 2;
        timeouts_of_several: WakerWake 3, Now 1;
        first_table: CurrentNode 1, Allocate 1;
    }
}
