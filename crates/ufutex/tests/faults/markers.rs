//! What a wake in pieces leaves in the queue between the pieces is nobody to all others. Without memory its first wakers run
//! there: so a waker can look at it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use ufutex::{Domain, Options, Policy, Queued, Requeued, Task, Waiter};

use crate::allocator::{for_every_failure, stop};
use crate::common::domains::system;
use crate::common::waiters::{bits, nonzero};

/// More than three batches of those to be woken, and as many that are not.
const CROWD: usize = 100;

/// Runs once, in the first waker that is called.
type Look = Box<dyn FnOnce() + Send>;

struct Looks(Mutex<Option<Look>>);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let look = self.0.lock().expect("no look holds it").take();
        if let Some(look) = look {
            stop();
            look();
        }
    }
}

/// What the tests look at: a word in the global table, and another.
struct Guests {
    domain: Domain,
    words: [AtomicU32; 2],
}

impl Guests {
    /// Made to outlive its waiters, which wakers name.
    fn new() -> &'static Self {
        let domain = Domain::with_options(&system(), Options::new().policy(Policy::Fixed(0)));
        Box::leak(Box::new(Self { domain, words: [const { AtomicU32::new(0) }; 2] }))
    }

    fn waiting(&self) -> usize {
        self.domain.who_waits(9).iter().map(ufutex::WaitedWord::waiters).sum()
    }
}

/// Wakes every second waiter of a crowd, and runs `look` at the first waker that is called. Answers whether that was between
/// two pieces, and how many were woken in all if no waker panics.
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
fn marker_is_no_waiter_to_those_who_look() {
    wake_every_second(
        |guests| {
            let Guests { domain, words: [word, other] } = guests;
            let task: Task = domain.task(7).expect("there is memory");
            let waiting = guests.waiting();
            let is_between = is_between(guests);
            // Those that the wake has passed over stood before its marker: it is the first of the queue now.
            let passed_over = if is_between { 16 } else { CROWD / 2 };
            assert_eq!(domain.wake_bitset(word, passed_over, nonzero(1)), passed_over);
            assert_eq!(guests.waiting(), waiting - passed_over);
            assert_eq!(domain.requeue(word, word, 0, 500), Ok(Requeued { woken: 0, requeued: waiting - passed_over }));
            assert_eq!(domain.requeue(word, other, 1, 500).map(|done| done.woken), Ok(usize::from(is_between)));
            assert_eq!(domain.requeue(other, word, 0, 500).map(|done| done.woken), Ok(0));
            // It is the first again, and then alone.
            let left = guests.waiting();
            let one = usize::from(left > 0);
            assert_eq!((domain.wake(word, 1), domain.wake(word, usize::MAX)), (one, left - one));
            assert_eq!((guests.waiting(), domain.wake(word, 1), domain.wake(word, 500)), (0, 0, 0));
            assert_eq!(domain.cmp_requeue_pi(word, 0, other, 9), Ok(0));
            assert_eq!(domain.lock_pi(word, &task, None), Ok(()));
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
fn marker_goes_where_the_table_goes() {
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
