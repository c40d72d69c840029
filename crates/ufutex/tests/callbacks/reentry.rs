//! Callbacks that call the engine, and waits after whose end the waker must not run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use ufutex::timer::{Deliver, Expiry, Notice, Setting, TimerClock, TimerOptions, Timers};
use ufutex::{
    Domain, Error, System, SystemConfig, Task, Timeout, Wait, WaitOptions,
    pi::{OWNER_DIED, Priority, Scheduler, WAITERS},
};

use crate::common::futures::{pending, pending_with, poll, poll_with};
use crate::common::patient::within_patience;
use crate::common::places::forever;
use crate::common::waker::{Calls, Notified};
use crate::guest::Embedder;

const MS: Duration = Duration::from_millis(1);

type Waits = Pin<Box<Wait<'static, &'static AtomicU32>>>;

fn waits(domain: &'static Domain, word: &'static AtomicU32, waker: &Waker) -> Waits {
    pending_with(domain.wait_async(word, 0, &WaitOptions::new()), waker)
}

/// A wake takes three futures. The waker of the first polls the second, drops the third, wakes a fourth and begins a
/// new wait.
#[test]
fn waker_polls_drops_and_wakes_others_of_its_wake() {
    within_patience("a waker that uses the others", || {
        let domain: &Domain = forever(Domain::new(&System::new()));
        let [word, other] = [(); 2].map(|()| forever(AtomicU32::new(0)));
        let all: &Mutex<Vec<Waits>> = forever(Mutex::new(Vec::new()));
        let calls = forever(AtomicUsize::new(0));
        let (elsewhere, waker) = Notified::new();
        let mut fourth = waits(domain, other, &waker);
        let first = Calls::waker(move || {
            if calls.fetch_add(1, SeqCst) != 0 {
                return;
            }
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            drop(all.remove(2));
            assert_eq!(poll(&mut all[1]), Poll::Ready(Ok(())));
            assert_eq!(domain.wake(other, 1), 1);
            let again = waits(domain, word, Waker::noop());
            all.push(again);
            assert_eq!(domain.set_slots(64), Ok(()));
        });
        for waker in [&first, Waker::noop(), Waker::noop()] {
            let wait = waits(domain, word, waker);
            all.lock().unwrap_or_else(PoisonError::into_inner).push(wait);
        }
        assert_eq!(domain.wake(word, usize::MAX), 3);
        assert_eq!((calls.load(SeqCst), elsewhere.times()), (1, 1));
        assert_eq!(poll(&mut fourth), Poll::Ready(Ok(())));
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(poll(&mut all[0]), Poll::Ready(Ok(())));
        assert_eq!(poll(&mut all[2]), Poll::Pending, "it waits anew: the wake was before");
        assert_eq!(domain.wake(word, 1), 1);
        all.clear();
        assert_eq!(domain.waiting(), 0);
    });
}

/// A waker whose drop wakes and waits.
#[test]
fn waker_whose_drop_uses_the_engine() {
    struct Drops(&'static Domain, &'static AtomicU32);
    impl std::task::Wake for Drops {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Drops {
        fn drop(&mut self) {
            assert_eq!(self.0.wake(self.1, 1), 1);
            assert_eq!(self.0.wait(self.1, 1), Err(Error::Again));
        }
    }
    within_patience("a waker whose drop uses the engine", || {
        let domain: &Domain = forever(Domain::new(&System::new()));
        let word = forever(AtomicU32::new(0));
        for is_replaced in [true, false] {
            let mut wait = waits(domain, word, &Arc::new(Drops(domain, word)).into());
            let (notified, waker) = Notified::new();
            let other = waits(domain, word, &waker);
            if is_replaced {
                // Replacing the waker drops it, and the drop wakes the first in the queue, which is this wait.
                _ = poll_with(&mut wait, &waker);
            }
            drop(wait);
            // If the waker was replaced, this wait was woken, and has passed the wake on when it was dropped.
            assert_eq!(notified.times(), if is_replaced { 2 } else { 1 });
            drop(other);
            assert_eq!(domain.waiting(), 0);
        }
    });
}

/// A scheduler that changes a priority again before it takes note of a change, and then perhaps panics. The last one that
/// it notes is right.
#[test]
fn scheduler_that_changes_what_it_is_told_is_told_again() {
    #[derive(Default)]
    struct Late {
        panics: bool,
        task: OnceLock<Task>,
        calls: AtomicUsize,
        noted: Mutex<Option<Priority>>,
    }
    impl Scheduler for Late {
        fn set_priority(&self, _: u32, priority: Priority) {
            let task = self.task.get().expect("it is there");
            let is_first = self.calls.fetch_add(1, SeqCst) == 0;
            if is_first {
                task.set_priority(Priority::realtime(9));
            }
            *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(priority);
            assert!(!(is_first && self.panics), "the scheduler's own message");
        }
    }
    let is_told_again = |panics| {
        let scheduler = Arc::new(Late { panics, ..Late::default() });
        let system = System::with_scheduler(SystemConfig::new(), scheduler.clone()).expect("there is memory");
        let domain: Domain = Domain::new(&system);
        let task = scheduler.task.get_or_init(|| domain.task(1).expect("it is free"));
        let changed = catch_unwind(AssertUnwindSafe(|| task.set_priority(Priority::realtime(5))));
        assert_eq!(changed.is_err(), panics);
        assert_eq!(task.priority(), Priority::realtime(9));
        assert_eq!(*scheduler.noted.lock().unwrap_or_else(PoisonError::into_inner), Some(task.priority()));
        std::mem::forget(domain); // the scheduler keeps the task, and so the system
    };
    within_patience("a scheduler that changes what it is told", move || [false, true].map(is_told_again));
}

/// A waker whose clone ends the task that it holds.
fn waker_whose_clone_ends(task: Task) -> Waker {
    type Held = Mutex<Option<Task>>;
    unsafe fn clone(held: *const ()) -> RawWaker {
        // SAFETY: a leaked `Held`.
        let task = unsafe { &*held.cast::<Held>() }.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(task);
        RawWaker::new(held, &TABLE)
    }
    unsafe fn nothing(_: *const ()) {}
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, nothing, nothing, nothing);
    let held: &Held = forever(Mutex::new(Some(task)));
    // SAFETY: `clone` may run on any thread at any time, and the others do nothing.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(held).cast(), &TABLE)) }
}

/// A poll brings a new waker. While the poll clones it, the lock's owner ends, and the waiter inherits the lock. The old
/// waker was woken for that, so the new one would never be.
#[test]
fn owner_that_ends_while_the_waker_is_cloned_leaves_its_lock_to_that_poll() {
    within_patience("a waker whose clone ends a task", || {
        let domain: &Domain = forever(Domain::new(&System::new()));
        let word = forever(AtomicU32::new(0));
        let [owner, heir] = [1, 2].map(|tid| domain.task(tid).expect("it is free"));
        assert_eq!(domain.lock_pi(word, &owner), Ok(()));
        let mut lock = Box::pin(domain.lock_pi_async(word, &heir, &WaitOptions::new()));
        let (notified, waker) = Notified::new();
        assert_eq!(poll_with(&mut lock, &waker), Poll::Pending);
        assert_eq!(poll_with(&mut lock, &waker_whose_clone_ends(owner)), Poll::Ready(Ok(())));
        assert_eq!((notified.times(), word.load(SeqCst)), (1, OWNER_DIED | WAITERS | 2));
    });
}

/// A scheduler that locks and unlocks with a task of its own, and reads and sets that task's priority.
#[test]
fn scheduler_calls_into_the_domain() {
    #[derive(Default)]
    struct Calling {
        it: OnceLock<(&'static Domain, Task)>,
        calls: AtomicUsize,
    }
    impl Scheduler for Calling {
        fn set_priority(&self, tid: u32, _: Priority) {
            let Some((domain, task)) = self.it.get() else { return };
            if self.calls.fetch_add(1, SeqCst) > 20 || tid == task.tid() {
                return;
            }
            let word = AtomicU32::new(0);
            // This works because one thread calls the scheduler: two calls could not use the task at the same time.
            assert_eq!(domain.lock_pi(&word, task), Ok(()));
            assert_eq!(domain.unlock_pi(&word, task), Ok(()));
            task.set_priority(Priority::realtime(7));
            assert_eq!(task.priority(), Priority::realtime(7));
            assert_eq!(domain.wake(&word, 1), 0);
        }
    }
    within_patience("a scheduler that uses the engine", || {
        let scheduler = Arc::new(Calling::default());
        let system = System::with_scheduler(SystemConfig::new(), scheduler.clone()).expect("there is memory");
        let domain: &Domain = forever(Domain::new(&system));
        assert!(scheduler.it.set((domain, domain.task(100).expect("the TID is free"))).is_ok());
        let [owner, waiter] = [1, 2].map(|tid| domain.task(tid).expect("the TID is free"));
        waiter.set_priority(Priority::realtime(10));
        let word = AtomicU32::new(0);
        assert_eq!(domain.lock_pi(&word, &owner), Ok(()));
        let mut lock = pending(domain.lock_pi_async(&word, &waiter, &WaitOptions::new()));
        assert_eq!(domain.unlock_pi(&word, &owner), Ok(()));
        assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
        assert_eq!(domain.unlock_pi(&word, &waiter), Ok(()));
        assert!(scheduler.calls.load(SeqCst) >= 3);
    });
}

/// A delivery deletes its timer, sets another one, makes one, and turns the driver.
#[test]
fn delivery_deletes_sets_and_makes_timers() {
    #[derive(Default)]
    struct Calling(AtomicUsize);
    impl Deliver for Calling {
        fn expired(&self, timers: &Timers, notice: Notice) {
            assert!(timers.take(notice).is_some());
            let once = Setting { value: MS, ..Setting::default() };
            match self.0.fetch_add(1, SeqCst) {
                0 => {
                    assert_eq!(timers.delete(notice.id()), Ok(()));
                    let new = timers.create(TimerClock::Monotonic, None).expect("there is room");
                    assert!(timers.settime(new, Expiry::After(once.value), once.interval).is_ok());
                }
                1 => assert!(timers.settime(notice.id(), Expiry::After(once.value), once.interval).is_ok()),
                // Delivers the other timers of this turn from inside the turn.
                2 => _ = timers.driver().turn(),
                _ => {}
            }
        }
    }
    within_patience("a delivery that uses the engine", || {
        let it = Embedder::new();
        let calling = Arc::new(Calling::default());
        let timers = Timers::with_options(it.driver(), calling.clone(), TimerOptions::new()).expect("there is memory");
        for _ in 0..5 {
            let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
            timers.settime(id, Expiry::After(MS), Duration::ZERO).expect("it is there");
        }
        for _ in 0..5 {
            it.time.advance(2 * MS);
            it.driver().turn();
        }
        // The five timers, and those that the first two deliveries set.
        assert_eq!((calling.0.load(SeqCst), timers.count()), (7, 5));
    });
}

/// A wait ends by a drop or a timeout. No wake calls its waker afterwards, and the engine keeps no clone of the waker.
#[test]
fn waker_of_a_wait_that_has_ended_never_runs() {
    within_patience("ended waits", || {
        let it = Embedder::new();
        let domain = it.domain;
        let word: &AtomicU32 = forever(AtomicU32::new(0));
        let lock: &AtomicU32 = forever(AtomicU32::new(0));
        let owner = forever(domain.task(1).expect("the TID is free"));
        let waiter = forever(domain.task(2).expect("the TID is free"));
        assert_eq!(domain.lock_pi(lock, owner), Ok(()));
        let makes = [0, 1, 2].map(|kind| {
            move |options: WaitOptions, timeout: Duration| -> Pin<Box<dyn Future<Output = Result<usize, Error>>>> {
                match kind {
                    0 => Box::pin(async move { domain.wait_async(word, 0, &options).await.map(|()| 0) }),
                    1 => Box::pin(domain.wait_any_async([(word, 0), (forever(AtomicU32::new(0)), 0)], &options)),
                    _ => {
                        let lock =
                            domain.lock_pi_async(lock, waiter, &WaitOptions::new().timeout(Timeout::After(timeout)));
                        Box::pin(async move { lock.await.map(|()| 0) })
                    }
                }
            }
        });
        for make in makes {
            for times_out in [false, true] {
                let (notified, waker) = Notified::new();
                let timeout = if times_out { MS } else { Duration::MAX };
                let mut operation = make(WaitOptions::new().timeout(Timeout::After(timeout)), timeout);
                assert_eq!(poll_with(&mut operation, &waker), Poll::Pending);
                let mut expected = 0;
                if times_out {
                    it.time.advance(2 * MS);
                    it.driver().turn();
                    // The timeout has called the waker.
                    expected = 1;
                    assert_eq!(notified.times(), expected);
                    assert_eq!(poll_with(&mut operation, &waker), Poll::Ready(Err(Error::TimedOut)));
                }
                drop(operation);
                drop(waker);
                assert_eq!(Arc::strong_count(&notified), 1, "a waker is kept that is of no use");
                assert_eq!(domain.wake(word, usize::MAX), 0);
                it.time.advance(10 * MS);
                it.driver().turn();
                assert_eq!(domain.set_slots(if domain.slots() == 16 { 64 } else { 16 }), Ok(()));
                assert_eq!(notified.times(), expected, "it was notified after its end");
            }
        }
        assert_eq!(domain.unlock_pi(lock, owner), Ok(()));
    });
}

/// A wake races with the end of the wait. The waker is called at most once.
#[test]
fn waker_runs_once_at_most_however_its_wait_ends() {
    within_patience("waits that end while they are woken", || {
        let domain: &Domain = forever(Domain::new(&System::new()));
        let word = forever(AtomicU32::new(0));
        for round in 0..2000 {
            let (notified, waker) = Notified::new();
            let mut wait = waits(domain, word, &waker);
            let start = std::sync::Barrier::new(2);
            let woken = std::thread::scope(|scope| {
                let wakes = scope.spawn(|| {
                    start.wait();
                    domain.wake(word, 1)
                });
                start.wait();
                if round % 2 == 0 {
                    drop(wait)
                } else {
                    _ = poll(&mut wait)
                }
                wakes.join().expect("it does not panic")
            });
            assert!(notified.times() <= woken, "it was notified without a wake, or twice");
            // After the wake has returned, the engine has no clone of the waker.
            drop(waker);
            let kept = Arc::strong_count(&notified);
            assert_eq!(kept, 1);
        }
        assert_eq!(domain.waiting(), 0);
    });
}
