//! Wakers and guest memory, in waits, wakes and requeues.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ufutex::{Access, Compare, Error, Fault, Guest, Modify, Timeout, UserMemory, Wait, WaitOptions, WakeOp, Width};

use crate::bomb::{Bomb, panics};
use crate::guest::{Embedder, Memory, Told};

type Waits = Pin<Box<Wait<'static, Guest<'static, Memory>>>>;

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

fn is_ready(wait: &mut Waits) -> bool {
    poll(wait, Waker::noop()) == Poll::Ready(Ok(()))
}

/// Tasks that wait for word `number`, and what their wakers have been told.
fn waiters(it: &Embedder, number: usize, count: usize) -> (Vec<Waits>, Vec<Arc<Told>>) {
    let one = |_| {
        let (told, waker) = Told::new();
        let mut wait = Box::pin(it.domain.wait_async(it.memory.target(number), 0, WaitOptions::new()));
        assert_eq!(poll(&mut wait, &waker), Poll::Pending);
        (wait, told)
    };
    (0..count).map(one).unzip()
}

fn assert_all_woken(waits: &mut [Waits], told: &[Arc<Told>]) {
    for (wait, told) in std::iter::zip(waits, told) {
        assert!(is_ready(wait), "a wake was lost");
        assert_eq!(told.times(), 1, "a waker was not told, or twice");
    }
}

fn wake_of_one(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, told) = waiters(&it, 0, 1);
    bomb.during(|| it.domain.wake(it.memory.target(0), 1));
    assert_all_woken(&mut waits, &told);
    let counters = it.domain.counters();
    assert_eq!((counters.wakes, counters.woken), (1, 1));
    it.assert_free();
}

/// More than a wake has room for without memory of its own.
fn wake_of_many(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, told) = waiters(&it, 0, 40);
    bomb.during(|| it.domain.wake(it.memory.target(0), usize::MAX));
    assert_all_woken(&mut waits, &told);
    let counters = it.domain.counters();
    assert_eq!((counters.wakes, counters.woken), (1, 40));
    it.assert_free();
}

fn requeue(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, told) = waiters(&it, 0, 6);
    it.memory.vanish();
    let requeued = bomb.during(|| it.domain.cmp_requeue(it.memory.target(0), 0, it.memory.target(16), 3, 3));
    let before = it.domain.counters();
    let done = told.iter().any(|told| told.times() != 0);
    assert!(done || requeued.is_none(), "it says that it has woken");
    if !done {
        // The word could not be compared: nothing has happened.
        assert_eq!((before.requeues, before.woken, before.requeued), (0, 0, 0));
        it.memory.word(0).store(0, SeqCst);
        assert!(it.domain.cmp_requeue(it.memory.target(0), 0, it.memory.target(16), 3, 3).is_ok());
    }
    let counters = it.domain.counters();
    assert_eq!((counters.requeues, counters.woken, counters.requeued), (1, 3, 3));
    assert_eq!(it.domain.wake(it.memory.target(16), usize::MAX), 3);
    assert_all_woken(&mut waits, &told);
    it.assert_free();
}

fn wake_op(bomb: &mut Bomb) {
    let it = Embedder::new();
    let [(mut first, told_first), (mut second, told_second)] = [0, 16].map(|number| waiters(&it, number, 3));
    let op = WakeOp { modify: Modify::Add(1), compare: Compare::Eq(0) };
    it.memory.vanish();
    let run = || it.domain.wake_op(it.memory.target(0), 9, it.memory.target(16), op, 9);
    bomb.during(run);
    if it.memory.word(16).load(SeqCst) == 0 {
        // The word could not be changed: nothing has happened.
        assert_eq!((it.domain.counters().woken, it.domain.waiting()), (0, 6));
        assert_eq!(run(), Ok(6));
    }
    assert_all_woken(&mut first, &told_first);
    assert_all_woken(&mut second, &told_second);
    assert_eq!((it.domain.counters().wakes, it.domain.counters().woken), (1, 6));
    it.assert_free();
}

/// A wait whose first poll panics waits for nothing, or waits: a second poll goes on from there.
fn first_poll(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (told, waker) = Told::new();
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_secs(1)));
    let mut wait = Box::pin(it.domain.wait_async(it.memory.target(0), 0, options));
    it.memory.vanish();
    let polled = bomb.during(|| poll(&mut wait, &waker));
    assert!(polled.is_none_or(|polled| polled == Poll::Pending));
    let waited = it.domain.waiting();
    assert!(waited <= 1);
    assert_eq!(poll(&mut wait, &waker), Poll::Pending);
    assert_eq!(it.domain.wake(it.memory.target(0), 1), 1);
    assert!(is_ready(&mut wait));
    drop(wait);
    assert!(told.times() >= 1);
    it.assert_free();
}

/// A later poll brings another waker, and the one before is dropped.
fn later_poll(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, told) = waiters(&it, 0, 1);
    let (later, waker) = Told::new();
    let polled = bomb.during(|| poll(&mut waits[0], &waker));
    assert!(polled.is_none_or(|polled| polled == Poll::Pending));
    assert_eq!(it.domain.wake(it.memory.target(0), 1), 1);
    assert_eq!(told[0].times() + later.times(), 1, "nobody was told");
    assert!(is_ready(&mut waits[0]));
    it.assert_free();
}

/// A dropped wait passes its wake on, to one whose waker panics.
fn dropped_after_its_wake(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, told) = waiters(&it, 0, 2);
    assert_eq!(it.domain.wake(it.memory.target(0), 1), 1);
    let first = waits.remove(0);
    bomb.during(|| drop(first));
    assert_all_woken(&mut waits, &told[1..]);
    it.assert_free();
}

/// As above, while the stack unwinds already: the second panic must not end the process.
fn dropped_in_a_panic(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (mut waits, told) = waiters(&it, 0, 2);
    let (mut elsewhere, told_elsewhere) = waiters(&it, 16, 2);
    assert_eq!(it.domain.wake(it.memory.target(0), 1), 1);
    let _held = (waits.remove(0), elsewhere.remove(0));
    let unwinding = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // Dropped by the panic below, which is nobody's callback.
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
    assert_all_woken(&mut waits, &told[1..]);
    assert_eq!(it.domain.wake(it.memory.target(16), 9), 1);
    assert_all_woken(&mut elsewhere, &told_elsewhere[1..]);
    it.assert_free();
}

fn wait_for_several(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (told, waker) = Told::new();
    let words = [0, 16, 32].map(|number| (it.memory.target(number), 0));
    let mut wait = Box::pin(it.domain.wait_any_async(words, WaitOptions::new()));
    it.memory.vanish();
    let polled = bomb.during(|| poll(&mut wait, &waker));
    if polled.is_none() {
        it.assert_free();
        assert_eq!(poll(&mut wait, &waker), Poll::Pending, "it begins anew");
        assert_eq!(it.domain.waiting(), 3);
    }
    assert_eq!(bomb.during(|| it.domain.wake(it.memory.target(16), 1)).unwrap_or(1), 1);
    assert_eq!(told.times(), 1);
    let ended = bomb.during(|| poll(&mut wait, Waker::noop()));
    assert!(ended.is_none_or(|ended| ended == Poll::Ready(Ok(1))));
    bomb.during(|| drop(wait));
    it.assert_free();
}

/// Memory with one page missing. `fault_in` runs `before_it_panics`, and panics.
struct Hole<F: Fn() + Sync> {
    memory: &'static Memory,
    address: u64,
    before_it_panics: F,
}

impl<F: Fn() + Sync> UserMemory for Hole<F> {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        if address == self.address { Err(Fault) } else { self.memory.load(address, width) }
    }
    fn compare_exchange(&self, _: u64, _: Width, _: u64, _: u64) -> Result<Result<u64, u64>, Fault> {
        Err(Fault)
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        (self.before_it_panics)();
        std::panic::resume_unwind(Box::new(()));
    }
}

/// A wake that a wait for several words gets before its first poll panics goes to the next waiter, at once.
#[test]
fn wake_of_a_wait_that_panics_before_it_has_begun_is_passed_on() {
    let it = Embedder::new();
    let (domain, memory) = (it.domain, it.memory);
    let next = Mutex::new(Box::pin(domain.wait_async(memory.target(0), 0, WaitOptions::new())));
    let (told, waker) = Told::new();
    let wakes = || {
        assert_eq!(poll(&mut next.lock().expect("nobody panics with it"), &waker), Poll::Pending);
        assert_eq!(domain.wake(memory.target(0), 1), 1);
        assert_eq!(told.times(), 0, "the other came first");
    };
    let hole = Hole { memory, address: 0x1000 + 4 * 32, before_it_panics: wakes };
    let target = |number: u64| Guest::new(&hole, 0x1000 + 4 * number, Width::U32).expect("aligned");
    let mut wait = Box::pin(domain.wait_any_async([0, 16, 32].map(|number| (target(number), 0)), WaitOptions::new()));
    let mut first_poll = || poll(&mut wait, Waker::noop());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut first_poll)).is_err());
    assert_eq!((told.times(), domain.waiting()), (1, 1), "a wake was lost");
    assert!(is_ready(&mut next.lock().expect("nobody panics with it")));
    it.assert_free();
}

/// A task's timeout ends its wait, and others' with it.
fn timeouts_of_several(bomb: &mut Bomb) {
    let it = Embedder::new();
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(1)));
    let mut all: Vec<_> = (0..3)
        .map(|_| {
            let (told, waker) = Told::new();
            let mut wait = Box::pin(it.domain.wait_async(it.memory.target(0), 0, options));
            assert_eq!(poll(&mut wait, &waker), Poll::Pending);
            (wait, told)
        })
        .collect();
    it.time.advance(Duration::from_millis(2));
    // Each turn ends with the first panic; the next one goes on.
    for _ in 0..4 {
        bomb.during(|| it.driver().turn());
    }
    it.driver().turn();
    for (wait, told) in &mut all {
        assert_eq!(told.times(), 1, "a timeout was lost");
        assert_eq!(poll(wait, Waker::noop()), Poll::Ready(Err(Error::TimedOut)));
    }
    it.assert_free();
}

/// The first wait makes the table.
fn first_table(bomb: &mut Bomb) {
    let it = Embedder::new();
    let (told, waker) = Told::new();
    let mut wait = Box::pin(it.domain.wait_async(it.memory.target(0), 0, WaitOptions::new()));
    if bomb.during(|| poll(&mut wait, &waker)).is_none() {
        assert_eq!(poll(&mut wait, &waker), Poll::Pending);
    }
    assert_eq!(it.domain.wake(it.memory.target(0), 1), 1);
    assert_eq!(told.times(), 1);
    assert!(is_ready(&mut wait));
    it.assert_free();
}

mod tests {
    super::panics! {
        wake_of_one: WakerWake 1;
        wake_of_many: WakerWake 40;
        requeue: Load 2, FaultIn 1, WakerWake 3;
        wake_op: Load 1, FaultIn 1, Exchange 1, WakerWake 6;
        first_poll: Load 2, FaultIn 1, WakerClone 2, Now 2, Changed 1;
        later_poll: WakerClone 1, WakerDrop 1;
        dropped_after_its_wake: WakerWake 1;
        dropped_in_a_panic: WakerWake 1, WakerDrop 1;
        wait_for_several: Load 3, FaultIn 1, WakerClone 3, WakerWake 1, WakerDrop 2;
        timeouts_of_several: WakerWake 3, Now 1;
        first_table: CurrentNode 1, Allocate 1;
    }
}
