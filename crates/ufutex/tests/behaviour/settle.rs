//! Wakers without an owner of their own: when the wait has ended, the waker has returned or is never called.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use ufutex::{Queued, WaitOptions, Waiter};

use crate::common::domains::{domain, on_domains};
use crate::common::waiters::{idle, queue, waiter_on};

/// What a waker on the stack points to.
struct OnStack<'a> {
    /// Runs in the waker's call.
    call: &'a (dyn Fn() + Sync),
    /// Set at the end of the call.
    returned: AtomicBool,
}

static TABLE: RawWakerVTable = RawWakerVTable::new(|_| unreachable!("it is not cloned"), wake, wake, |_| ());

fn wake(this: *const ()) {
    // SAFETY: `waker` has put it there, and its caller keeps it in place.
    let this = unsafe { &*this.cast::<OnStack<'_>>() };
    let _end = EndOfCall(&this.returned);
    (this.call)();
}

/// The end of a call, also by a panic.
struct EndOfCall<'a>(&'a AtomicBool);

impl Drop for EndOfCall<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<'a> OnStack<'a> {
    fn new(call: &'a (dyn Fn() + Sync)) -> Self {
        Self { call, returned: AtomicBool::new(false) }
    }

    /// # Safety
    /// `self` stays in place until the wait that gets the waker has ended.
    unsafe fn waker(&self) -> Waker {
        // SAFETY: the functions of the table use it as what it is, for as long as the caller promises.
        unsafe { Waker::from_raw(RawWaker::new((&raw const *self).cast(), &TABLE)) }
    }
}

/// How a wait whose waker is running may be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    CancelAndDrop,
    CancelAndFinish,
    Finish,
    Drop,
}

/// Wakes a waiter whose waker does not return before `let_return` is called. Ends the wait in the meantime, with a
/// second waiter behind it. Returns whether the second waiter has got the wake.
fn end_in_the_call(ending: Ending, panics: bool) -> bool {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let ((inside, is_inside), (let_return, may_return)) = (mpsc::channel(), mpsc::channel::<()>());
    let may_return = std::sync::Mutex::new(may_return);
    let call = || {
        inside.send(()).expect("the test waits for it");
        may_return.lock().expect("not poisoned").recv().expect("the test lets it return");
        if panics {
            std::panic::resume_unwind(Box::new("a waker's own panic"));
        }
    };
    let on_stack = OnStack::new(&call);
    let mut waiter = pin!(Waiter::new());
    // SAFETY: it is declared before the waiter, and is dropped after it.
    let waker = unsafe { on_stack.waker() };
    let mut queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker).expect("it is 0");
    let behind = waiter_on(&domain, &word);
    std::thread::scope(|scope| {
        let waker = scope.spawn(|| catch_unwind(AssertUnwindSafe(|| domain.wake(&word, 1))));
        is_inside.recv().expect("the waker is called");
        assert!(queued.is_woken());
        if matches!(ending, Ending::CancelAndDrop | Ending::CancelAndFinish) {
            // It returns, although the waker has not.
            assert!(!queued.cancel());
            assert!(!queued.cancel(), "no less the second time");
            assert!(!on_stack.returned.load(Ordering::Acquire));
        }
        scope.spawn(move || {
            std::thread::yield_now();
            let_return.send(()).expect("the waker waits for it");
        });
        match ending {
            Ending::CancelAndDrop | Ending::Drop => drop(queued),
            Ending::Finish | Ending::CancelAndFinish => queued.finish().expect("a wake has come"),
        }
        assert!(on_stack.returned.load(Ordering::Acquire), "{ending:?} has waited for the waker");
        assert_eq!(waker.join().expect("caught").is_err(), panics);
    });
    assert_eq!(domain.waiting(), 1, "the second waiter, which has not received a wake");
    behind.is_woken()
}

fn wait_ends_after_its_waker_has_returned() {
    for panics in [false, true] {
        for ending in [Ending::CancelAndDrop, Ending::CancelAndFinish, Ending::Finish] {
            assert!(!end_in_the_call(ending, panics), "{ending:?}: the wake counts as received");
        }
        assert!(end_in_the_call(Ending::Drop, panics), "the wake is passed on");
    }
}

/// One wake takes several waiters whose wakers are on the stack, of which one panics.
fn wake_of_many_gives_each_waiter_back() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let calls = AtomicU32::new(0);
    let counts = || _ = calls.fetch_add(1, Ordering::Relaxed);
    let panics = || {
        counts();
        std::panic::resume_unwind(Box::new("a waker's own panic"));
    };
    let on_stack: Vec<_> =
        (0..40).map(|i| if i == 3 { OnStack::new(&panics) } else { OnStack::new(&counts) }).collect();
    let mut waiters = idle(on_stack.len());
    let queued: Vec<_> = waiters
        .iter_mut()
        .zip(&on_stack)
        .map(|(waiter, on_stack)| {
            // SAFETY: as above.
            let waker = unsafe { on_stack.waker() };
            domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker).expect("it is 0")
        })
        .collect();
    let woken = catch_unwind(AssertUnwindSafe(|| domain.wake(&word, usize::MAX)));
    assert!(woken.is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 40);
    for mut queued in queued {
        assert!(queued.is_woken());
        assert!(!queued.cancel());
    }
    assert_eq!(domain.waiting(), 0);
}

/// What a scheduler does whose lock its waker takes: it cancels with that lock held, and drops the wait without it.
fn cancel_does_not_wait_for_a_waker_that_wants_the_callers_lock() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let run_queue = std::sync::Mutex::new(0);
    let call = || *run_queue.lock().expect("not poisoned") += 1;
    for _ in 0..100 {
        let on_stack = OnStack::new(&call);
        let mut waiter = pin!(Waiter::new());
        // SAFETY: as above.
        let waker = unsafe { on_stack.waker() };
        let mut queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker).expect("it is 0");
        std::thread::scope(|scope| {
            let woken = scope.spawn(|| domain.wake(&word, 1));
            let locked = run_queue.lock().expect("not poisoned");
            let has_left = queued.cancel();
            drop(locked);
            drop(queued);
            let was_called = on_stack.returned.load(Ordering::Acquire);
            assert_eq!(was_called, !has_left);
            assert_eq!(woken.join().expect("it does not panic"), usize::from(was_called));
        });
    }
}

/// Ends a wait. Returns whether a wake was received, if the caller is told.
type End = fn(Queued<'_, '_>) -> Option<bool>;

/// Whatever is called after `cancel` agrees with what it has returned, before and after the waker's call.
fn cancel_decides_what_comes_after_it() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut waiter = Box::pin(Waiter::new());
    for is_woken in [false, true] {
        let ends: [End; 2] = [
            |queued| Some(queued.finish() == Ok(())),
            |queued| {
                drop(queued);
                None
            },
        ];
        for end in ends {
            let mut queued = queue(&domain, &mut waiter, &word);
            assert_eq!(domain.wake(&word, usize::from(is_woken)), usize::from(is_woken));
            assert_eq!([queued.cancel(), queued.cancel(), queued.cancel()], [!is_woken; 3]);
            assert_eq!(queued.is_woken(), is_woken);
            assert!(end(queued).is_none_or(|ended| ended == is_woken));
        }
        assert_eq!(domain.waiting(), 0);
    }
}

on_domains![
    cancel_decides_what_comes_after_it,
    wait_ends_after_its_waker_has_returned,
    wake_of_many_gives_each_waiter_back,
    cancel_does_not_wait_for_a_waker_that_wants_the_callers_lock,
];
