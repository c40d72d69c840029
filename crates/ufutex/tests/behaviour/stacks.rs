//! Callers on several stacks: stackful coroutines, at any depth of their stacks, continue waits that other coroutines
//! began. The engine picks shards of counters, lists and seats by the stack's address. Nothing else may depend on that
//! address.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::Poll;
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use ufutex::timer::{Base, Clocks, Deliver, Driver, Notice, Notify, TimerClock, TimerOptions, Timers};
use ufutex::{Domain, DomainOptions, System, WaitOptions};

use crate::common::futures::poll;
use crate::common::patient::within_patience;

/// Stack depths to test, in bytes: two of the 64 KiB units that `thread_hint` distinguishes.
const DEPTH: usize = 128 << 10;
/// Distance between two depths, smaller than the frames of an operation.
const STEP: usize = 1 << 10;
const COROUTINES: usize = 4;

/// Runs `f` about `bytes` bytes further down the stack.
#[inline(never)]
fn deeper<R>(bytes: usize, f: &mut dyn FnMut() -> R) -> R {
    if bytes < STEP {
        return f();
    }
    let room = black_box([0u8; STEP]);
    let result = deeper(bytes.saturating_sub(2 * STEP), f);
    black_box(&room);
    result
}

/// Runs `body` in `COROUTINES` coroutines, and resumes them in turn.
fn by_turns(body: impl Fn(usize, &Yielder<(), ()>) + Copy + 'static) {
    let mut coroutines: Vec<_> = (0..COROUTINES)
        .map(|number| {
            let stack = DefaultStack::new(4 * DEPTH).expect("there is memory");
            Coroutine::<(), (), (), _>::with_stack(stack, move |yielder, ()| body(number, yielder))
        })
        .collect();
    while !coroutines.is_empty() {
        coroutines.retain_mut(|coroutine| matches!(coroutine.resume(()), CoroutineResult::Yield(())));
    }
}

type Begun<'d> = Pin<Box<dyn Future<Output = Result<(), ufutex::Error>> + 'd>>;

/// A coroutine begins waits. Other coroutines poll them again, wake them, or drop them.
#[test]
fn waits_go_on_on_other_stacks() {
    let system = System::new();
    // Coroutines must be 'static, since they could be leaked.
    let domain: &'static Domain =
        Box::leak(Box::new(Domain::with_options(&system, DomainOptions::new().counters(true))));
    let word: &'static AtomicU32 = Box::leak(Box::default());
    let begun: &'static RefCell<VecDeque<Begun<'static>>> = Box::leak(Box::default());
    by_turns(move |number, yielder| {
        for depth in (0..DEPTH).step_by(STEP) {
            let mut wait: Begun<'_> = Box::pin(domain.wait_async(word, 0, &WaitOptions::new()));
            assert_eq!(deeper(depth, &mut || poll(&mut wait)), Poll::Pending);
            begun.borrow_mut().push_back(wait);
            yielder.suspend(());
            let mut begun = begun.borrow_mut();
            begun.rotate_left(1);
            for wait in begun.iter_mut() {
                assert_eq!(deeper(DEPTH - depth, &mut || poll(wait)), Poll::Pending);
            }
            assert_eq!(domain.waiting(), begun.len());
            match number {
                0 => _ = begun.pop_front(),
                1 => {
                    // The two woken waits have left the queue, and no others.
                    let woken = deeper(depth / 2, &mut || domain.wake(word, 2));
                    let before = begun.len();
                    begun.retain_mut(|wait| poll(wait).is_pending());
                    assert_eq!((woken, before - begun.len()), (2, 2));
                }
                _ => {}
            }
        }
    });
    let counters = domain.counters();
    assert_eq!(domain.waiting(), begun.borrow().len());
    begun.borrow_mut().clear();
    assert_eq!(domain.waiting(), 0);
    let steps = (DEPTH / STEP) as u64;
    assert_eq!((counters.waits, counters.wakes, counters.woken), (COROUTINES as u64 * steps, steps, 2 * steps));
}

struct NoTime;

impl Clocks for NoTime {
    fn now(&self, _: Base) -> Duration {
        Duration::ZERO
    }

    fn changed(&self) {}
}

struct Nobody;

impl Deliver for Nobody {
    fn expired(&self, _: &Timers, _: Notice) {}
}

/// Coroutines of several threads make and delete timers at every depth. So their calls use different shards of the ID
/// counter, and in some calls the frames lie on both sides of a boundary between two shards.
#[test]
fn timers_are_made_on_any_stack_at_any_depth() {
    within_patience("making timers", || {
        for max_id in [255, i32::MAX] {
            let driver = Driver::with_clocks(Arc::new(NoTime)).expect("there is memory");
            let options = TimerOptions::new().max_id(max_id);
            let timers = Timers::with_options(&driver, Arc::new(Nobody), options).expect("there is memory");
            let kept: &'static Timers = Box::leak(Box::new(timers));
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(move || {
                        by_turns(move |_, yielder| {
                            for depth in (0..DEPTH).step_by(STEP) {
                                let ids = [(); 10].map(|()| {
                                    deeper(depth, &mut || kept.create(TimerClock::Monotonic, Some(Notify::None)))
                                        .expect("no more than 120 are there")
                                });
                                yielder.suspend(());
                                ids.iter().for_each(|&id| assert_eq!(kept.delete(id), Ok(())));
                            }
                        });
                    });
                }
            });
            assert_eq!(kept.count(), 0);
        }
    });
}
