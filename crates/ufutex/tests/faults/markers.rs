//! The marker that a wake leaves in the queue when it unlocks the bucket between two batches. Other operations must not
//! treat it as a waiter. When the wake has no memory for its wakers, it runs the first wakers between two batches, so
//! these tests run other operations inside a waker.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use ufutex::{Domain, DomainOptions, Policy, Queued, Requeue, Requeued, Task, Waiter};

use crate::allocator::{for_every_failure, stop};
use crate::common::domains::system;
use crate::common::waiters::{bits, nonzero};

/// Number of waiters. Every second one is woken, which takes more than three batches.
const CROWD: usize = 100;

/// A function that runs once, in the first waker that is called.
type Look = Box<dyn FnOnce() + Send>;

struct Looks(Mutex<Option<Look>>);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let look = self.0.lock().expect("not poisoned").take();
        if let Some(look) = look {
            stop();
            look();
        }
    }
}

/// A domain that uses the global table, and two words.
struct Guests {
    domain: Domain,
    words: [AtomicU32; 2],
}

impl Guests {
    /// Leaked, because the waiters' wakers refer to it.
    fn new() -> &'static Self {
        let domain = Domain::with_options(&system(), DomainOptions::new().policy(Policy::Fixed(0)));
        Box::leak(Box::new(Self { domain, words: [const { AtomicU32::new(0) }; 2] }))
    }

    fn waiting(&self) -> usize {
        self.domain.who_waits(9).iter().map(ufutex::observe::WaitedWord::waiters).sum()
    }
}

/// Wakes every second of `CROWD` waiters, for every possible failure of memory. `look` runs in the first waker that is
/// called. Then `check` gets the number of woken waiters, `None` if a waker has panicked.
fn wake_every_second(
    look: impl Fn(&'static Guests) + Copy + Send + 'static,
    check: impl Fn(&Guests, &[Queued], Option<usize>),
) {
    let failures = for_every_failure(|memory| {
        let guests = Guests::new();
        let looks = Arc::new(Looks(Mutex::new(Some(Box::new(move || look(guests))))));
        let mut waiters: Vec<_> = (0..CROWD).map(|_| Box::pin(Waiter::new())).collect();
        let queued: Vec<_> = waiters
            .iter_mut()
            .enumerate()
            .map(|(i, waiter)| {
                let waker = if i % 2 == 1 { Waker::from(looks.clone()) } else { Waker::noop().clone() };
                let options = bits(1 << (i % 2));
                guests.domain.prepare_with(waiter.as_mut(), &guests.words[0], 0, &options, waker).expect("it holds 0")
            })
            .collect();
        let wake = || guests.domain.wake_bitset(&guests.words[0], usize::MAX, nonzero(2));
        let woken = memory.during(|| catch_unwind(AssertUnwindSafe(wake)).ok());
        check(guests, &queued, woken);
        drop(queued);
        assert_eq!((guests.waiting(), guests.domain.waiting()), (0, 0));
    });
    assert!(failures > 0, "room for the wakers is memory");
}

fn is_between(guests: &Guests) -> bool {
    guests.waiting() > CROWD / 2
}

#[test]
fn marker_is_not_a_waiter_for_other_operations() {
    wake_every_second(
        |guests| {
            let Guests { domain, words: [word, other] } = guests;
            let task: Task = domain.task(7).expect("there is memory");
            let waiting = guests.waiting();
            let is_between = is_between(guests);
            // Wakes the waiters that the wake has passed over, which were queued before its marker. The marker is now
            // first.
            let passed_over = if is_between { 16 } else { CROWD / 2 };
            assert_eq!(domain.wake_bitset(word, passed_over, nonzero(1)), passed_over);
            assert_eq!(guests.waiting(), waiting - passed_over);
            assert_eq!(
                domain.requeue(word, word, Requeue { wake: 0, requeue: 500 }),
                Ok(Requeued { woken: 0, requeued: waiting - passed_over })
            );
            assert_eq!(
                domain.requeue(word, other, Requeue { wake: 1, requeue: 500 }).map(|done| done.woken),
                Ok(usize::from(is_between))
            );
            assert_eq!(domain.requeue(other, word, Requeue { wake: 0, requeue: 500 }).map(|done| done.woken), Ok(0));
            // The marker is first in the queue again, and then alone.
            let left = guests.waiting();
            let one = usize::from(left > 0);
            assert_eq!((domain.wake(word, 1), domain.wake(word, usize::MAX)), (one, left - one));
            assert_eq!((guests.waiting(), domain.wake(word, 1), domain.wake(word, 500)), (0, 0, 0));
            assert_eq!(domain.cmp_requeue_pi(word, 0, other, 9), Ok(0));
            assert_eq!(domain.lock_pi(word, &task), Ok(()));
            assert_eq!(domain.unlock_pi(word, &task), Ok(()));
            assert_eq!(domain.try_lock_pi(word, &task), Ok(()));
            assert_eq!(domain.unlock_pi(word, &task), Ok(()));
            word.store(0, Relaxed);
        },
        |_, queued, woken| {
            assert!(woken.is_some_and(|woken| (16..=CROWD / 2).contains(&woken)), "{woken:?}");
            assert!(queued.iter().all(Queued::is_woken));
        },
    );
}

#[test]
#[cfg_attr(feature = "fixed", ignore = "the table is set once")]
fn marker_moves_with_the_table() {
    wake_every_second(
        |guests| {
            for slots in [2, 0, 16] {
                assert_eq!(guests.domain.set_slots(slots), Ok(()));
            }
        },
        |_, queued, woken| {
            assert_eq!(woken, Some(CROWD / 2));
            assert!((0..CROWD).all(|i| queued[i].is_woken() == (i % 2 == 1)));
        },
    );
}

#[test]
fn waker_that_panics_leaves_no_marker() {
    wake_every_second(
        |_| std::panic::panic_any("a waker that panics"),
        |guests, queued, woken| {
            assert_eq!(woken, None);
            assert!((0..CROWD).all(|i| queued[i].is_woken() == (i % 2 == 1)));
            assert_eq!(guests.domain.wake(&guests.words[0], 1), 1);
            assert!(queued[0].is_woken());
        },
    );
}
