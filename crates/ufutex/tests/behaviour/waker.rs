//! Wakers: which are called, how often, and that they are called, cloned and dropped with no lock held.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, RawWaker, RawWakerVTable, Wake, Waker};

use ufutex::{Compare, Domain, Error, Modify, Wait, WaitOptions, WakeOp};

use crate::common::asleep::until;
use crate::common::domains::{domain, on_domains};
use crate::common::futures::{Boxed, pending_with, poll_with};
use crate::common::sleeping::Sleeping;
use crate::common::waiters::waiter_on;
use crate::common::waker::{Calls, Notified};

type Waiting<'d, 'w> = Boxed<Wait<'d, &'w AtomicU32>>;

fn waiting<'d, 'w>(domain: &'d Domain, word: &'w AtomicU32, waker: &Waker) -> Waiting<'d, 'w> {
    pending_with(domain.wait_async(word, 0, &WaitOptions::new()), waker)
}

fn waker_of_the_last_poll_is_called_and_the_others_are_dropped() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let all: Vec<_> = (0..5).map(|_| Notified::new()).collect();
    let mut wait = waiting(&domain, &word, &all[0].1);
    for (_, waker) in &all {
        assert_eq!(poll_with(&mut wait, waker), Poll::Pending);
    }
    let kept: Vec<_> = all.iter().map(|(notified, _)| Arc::strong_count(notified) - 2).collect();
    assert_eq!(kept, [0, 0, 0, 0, 1]);
    assert_eq!(domain.wake(&word, 1), 1);
    let notified: Vec<_> = all.iter().map(|(notified, _)| notified.times()).collect();
    assert_eq!(notified, [0, 0, 0, 0, 1]);
    assert_eq!(poll_with(&mut wait, Waker::noop()), Poll::Ready(Ok(())));
}

/// Waits, cancels, wakes and resizes on `word`, which would deadlock if its bucket were locked.
fn use_the_bucket(domain: &Domain, word: &AtomicU32) {
    assert_eq!(domain.wait(word, 1), Err(Error::Again));
    let first = waiter_on(domain, word);
    let mut second = waiter_on(domain, word);
    assert!(second.cancel());
    assert!(domain.wake(word, 1) == 1 && first.is_woken());
    if crate::common::domains::can_resize() {
        let slots = if domain.slots() == 64 { 32 } else { 64 };
        assert_eq!(domain.set_slots(slots), Ok(()));
    }
}

/// Two words of one cache line, which share a bucket in every table of these tests.
fn neighbours() -> [&'static AtomicU32; 2] {
    #[repr(align(64))]
    struct Line([AtomicU32; 2]);
    let line: &'static Line = Box::leak(Box::new(Line([const { AtomicU32::new(0) }; 2])));
    [&line.0[0], &line.0[1]]
}

/// A defect of gVisor, folly and wasmtime ([peer-tables]): they wake with the bucket locked.
fn waker_is_called_with_no_lock_held() {
    let domain: &'static Domain = Box::leak(Box::new(domain()));
    let [word, neighbour] = neighbours();
    let waker = Calls::waker(move || use_the_bucket(domain, neighbour));
    let mut waits: Vec<_> = (0..3).map(|_| waiting(domain, word, &waker)).collect();
    assert_eq!(domain.wake(word, usize::MAX), 3);
    for wait in &mut waits {
        assert_eq!(poll_with(wait, &waker), Poll::Ready(Ok(())));
    }
    // The wake of a dropped future is also passed on with no lock held.
    let [dropped, _next] = [(); 2].map(|()| waiting(domain, word, &waker));
    assert_eq!(domain.wake(word, 1), 1);
    drop(dropped);
}

/// A waker whose clone and drop use the domain.
struct Meddler {
    domain: &'static Domain,
    word: &'static AtomicU32,
    meddled: AtomicUsize,
}

impl Meddler {
    const TABLE: RawWakerVTable = RawWakerVTable::new(Self::clone, Self::meddle, Self::meddle, Self::meddle);

    fn waker(&'static self) -> Waker {
        // SAFETY: the functions of the table take a `&'static Self`, which this is, and may be called by any thread.
        unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(self).cast(), &Self::TABLE)) }
    }

    unsafe fn clone(this: *const ()) -> RawWaker {
        // SAFETY: as for `meddle`.
        unsafe { Self::meddle(this) };
        RawWaker::new(this, &Self::TABLE)
    }

    unsafe fn meddle(this: *const ()) {
        // SAFETY: `waker` has put a `&'static Self` there.
        let this = unsafe { &*this.cast::<Self>() };
        use_the_bucket(this.domain, this.word);
        this.meddled.fetch_add(1, Ordering::Relaxed);
    }
}

fn waker_is_cloned_and_dropped_with_no_lock_held() {
    let domain: &'static Domain = Box::leak(Box::new(domain()));
    let [word, other] = neighbours();
    let meddler: &'static Meddler = Box::leak(Box::new(Meddler { domain, word, meddled: 0.into() }));
    let waker = meddler.waker();
    let mut wait = pending_with(domain.wait_async(other, 0, &WaitOptions::new()), &waker); // clones
    assert_eq!(poll_with(&mut wait, &waker), Poll::Pending); // clones, and drops the one before
    drop(wait); // drops
    assert_eq!(meddler.meddled.load(Ordering::Relaxed), 4);
    let mut waiter = pin!(ufutex::Waiter::new());
    let result = domain.prepare_with(waiter.as_mut(), other, 1, &WaitOptions::new(), waker.clone());
    assert_eq!(result.err(), Some(Error::Again));
    let queued = domain.prepare_with(waiter.as_mut(), other, 0, &WaitOptions::new(), waker);
    assert!(queued.expect("the word is 0").cancel());
    assert_eq!(meddler.meddled.load(Ordering::Relaxed), 4 + 3);
}

/// Blocks until its condition holds.
struct Blocks(Box<dyn Fn() -> bool + Send + Sync>);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        until("the threads that were woken with the task go on", &self.0);
    }
}

/// One thread waits for the word, and one for several words, so that they sleep on words of two kinds. Both are behind
/// the task in the queue.
fn waker_may_wait_for_threads_that_were_woken_with_it() {
    let word: &AtomicU32 = Box::leak(Box::default());
    waker_waits_for_threads(word, word, |domain| assert_eq!(domain.wake(word, usize::MAX), 3));
}

/// As before, with threads that wait for the second word of a `wake_op`.
fn waker_may_wait_for_threads_of_the_second_word() {
    let words: &[AtomicU32; 2] = Box::leak(Box::default());
    let op = WakeOp { modify: Modify::Or(0), compare: Compare::Eq(0) };
    waker_waits_for_threads(&words[0], &words[1], |domain| {
        assert_eq!(domain.wake_op(&words[0], 1, &words[1], op, 2), Ok(3));
    });
}

fn waker_waits_for_threads(word: &'static AtomicU32, of_threads: &'static AtomicU32, wake: impl FnOnce(&Domain)) {
    let domain: &Domain = Box::leak(Box::new(domain()));
    let threads: Arc<Mutex<Vec<Sleeping<bool>>>> = Arc::default();
    let asked = threads.clone();
    let have_gone_on = move || asked.lock().expect("not poisoned").iter().all(Sleeping::has_ended);
    let waker = Waker::from(Arc::new(Blocks(Box::new(have_gone_on))));
    let mut wait = waiting(domain, word, &waker);
    let in_one = Sleeping::new(move || domain.wait(of_threads, 0).is_ok());
    let in_several = Sleeping::new(move || domain.wait_any(&[(of_threads, 0)], &WaitOptions::new()).is_ok());
    threads.lock().expect("not poisoned").extend([in_one, in_several]);
    wake(domain);
    assert_eq!(poll_with(&mut wait, Waker::noop()), Poll::Ready(Ok(())));
}

on_domains![
    waker_may_wait_for_threads_that_were_woken_with_it,
    waker_may_wait_for_threads_of_the_second_word,
    waker_of_the_last_poll_is_called_and_the_others_are_dropped,
    waker_is_called_with_no_lock_held,
    waker_is_cloned_and_dropped_with_no_lock_held,
];
