//! A delivery may call every function of the timers and the driver.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::Error;
use ufutex::timer::{Base, Clocks, Deliver, Driver, Expired, Expiry, Notice, Notify, Setting, TimerClock, Timers};

use crate::clock::ManualClocks;

const MS: Duration = Duration::from_millis(1);
const SIGNAL: Option<Notify> = Some(Notify::Signal { signal: 10, value: 5 });

type Handle = dyn Fn(&Timers, Notice) + Send + Sync;

/// A delivery that runs a test's function.
struct Handler(Box<Handle>);

impl Deliver for Handler {
    fn expired(&self, timers: &Timers, notice: Notice) {
        (self.0)(timers, notice);
    }
}

struct Bench {
    clocks: Arc<ManualClocks>,
    driver: Driver,
    timers: Timers,
}

impl Bench {
    fn new(handle: impl Fn(&Timers, Notice) + Send + Sync + 'static) -> Self {
        let clocks = ManualClocks::at(Duration::from_secs(1));
        let driver = Driver::with_clocks(clocks.clone()).expect("the memory is there");
        let timers = Timers::new(&driver, Arc::new(Handler(Box::new(handle)))).expect("the memory is there");
        Self { clocks, driver, timers }
    }

    fn armed(&self, value: Duration, interval: Duration) -> i32 {
        let id = self.timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room");
        assert_eq!(self.timers.settime(id, Expiry::After(value), interval), Ok(Setting::default()));
        id
    }

    fn pass(&self, length: Duration) -> usize {
        self.clocks.advance(length);
        self.driver.turn()
    }
}

/// A counter and a clone of it for a handler.
fn counter() -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let counter = Arc::new(AtomicUsize::new(0));
    (counter.clone(), counter)
}

#[test]
fn handler_takes_the_notice_and_the_interval_continues() {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let kept = taken.clone();
    let bench = Bench::new(move |timers, notice| kept.lock().unwrap().push(timers.take(notice)));
    let id = bench.armed(MS, MS);
    for _ in 0..3 {
        bench.pass(MS);
    }
    bench.pass(5 * MS);
    let expired = |overrun| Some(Expired { id, notify: SIGNAL.unwrap(), overrun });
    assert_eq!(*taken.lock().unwrap(), [expired(0), expired(0), expired(0), expired(4)]);
}

#[test]
fn handler_deletes_its_timer() {
    let (count, its_count) = counter();
    let bench = Bench::new(move |timers, notice| {
        its_count.fetch_add(1, SeqCst);
        assert_eq!(timers.delete(notice.id()), Ok(()));
        assert_eq!(timers.take(notice), None);
    });
    for interval in [Duration::ZERO, MS] {
        let id = bench.armed(MS, interval);
        bench.pass(MS);
        bench.pass(MS);
        assert_eq!(bench.timers.gettime(id), Err(Error::Invalid));
    }
    assert_eq!((count.load(SeqCst), bench.timers.count()), (2, 0));
    assert_eq!(bench.driver.next(Base::Monotonic), None);
}

#[test]
fn handler_deletes_all_the_others_that_are_due() {
    let (count, its_count) = counter();
    let bench = Bench::new(move |timers, notice| {
        its_count.fetch_add(1, SeqCst);
        (0..200).filter(|&id| id != notice.id()).for_each(|id| timers.delete(id).expect("it is there"));
    });
    (0..200).for_each(|id| assert_eq!(bench.armed(MS, MS), id));
    bench.pass(10 * MS);
    assert_eq!((count.load(SeqCst), bench.timers.count()), (1, 1));
}

#[test]
fn handler_sets_its_timer_again() {
    let (count, its_count) = counter();
    let bench = Bench::new(move |timers, notice| {
        if its_count.fetch_add(1, SeqCst) < 5 {
            timers.settime(notice.id(), Expiry::After(2 * MS), Duration::ZERO).expect("it is there");
            // The notice belongs to the previous setting.
            assert_eq!(timers.take(notice), None);
        }
    });
    let id = bench.armed(MS, Duration::ZERO);
    for expected in [1, 1, 2, 2, 3] {
        bench.pass(MS);
        assert_eq!(count.load(SeqCst), expected);
    }
    bench.timers.delete(id).expect("it is there");
    bench.pass(10 * MS);
    assert_eq!(count.load(SeqCst), 3);
}

/// A timer that is set to the past during a turn does not expire in that turn, so the turn ends.
#[test]
fn handler_that_sets_its_timer_to_the_past_does_not_prolong_the_turn() {
    let (count, its_count) = counter();
    let bench = Bench::new(move |timers, notice| {
        let turn = its_count.fetch_add(1, SeqCst);
        assert!(turn < 100_000, "the turn does not end");
        if turn < 90_000 {
            timers.settime(notice.id(), Expiry::At(Duration::from_nanos(1)), Duration::ZERO).expect("it is there");
        }
    });
    bench.armed(MS, Duration::ZERO);
    bench.pass(MS);
    assert!(count.load(SeqCst) >= 1);
    for _ in 0..100_000 {
        if bench.driver.next(Base::Monotonic).is_none() {
            break;
        }
        bench.driver.turn();
    }
    assert_eq!(count.load(SeqCst), 90_001);
}

#[test]
fn handler_makes_timers() {
    let (count, its_count) = counter();
    let bench = Bench::new(move |timers, notice| {
        if its_count.fetch_add(1, SeqCst) < 1000 {
            let id = timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room");
            timers.settime(id, Expiry::After(MS), Duration::ZERO).expect("it was made");
        }
        timers.delete(notice.id()).expect("it is there");
    });
    bench.armed(MS, Duration::ZERO);
    for _ in 0..2000 {
        bench.pass(MS);
    }
    assert_eq!((count.load(SeqCst), bench.timers.count()), (1001, 0));
}

#[test]
fn handler_clears_all_timers() {
    let (count, its_count) = counter();
    let bench = Bench::new(move |timers, _| {
        its_count.fetch_add(1, SeqCst);
        timers.clear();
    });
    for _ in 0..100 {
        bench.armed(MS, MS);
    }
    bench.pass(5 * MS);
    assert_eq!((count.load(SeqCst), bench.timers.count()), (1, 0));
    assert_eq!(bench.driver.next(Base::Monotonic), None);
}

#[test]
fn handler_turns_the_driver() {
    let (count, its_count) = counter();
    let bench = Bench::new(move |timers, notice| {
        its_count.fetch_add(1, SeqCst);
        timers.driver().turn();
        assert!(timers.take(notice).is_some());
    });
    for _ in 0..20 {
        bench.armed(MS, Duration::ZERO);
    }
    bench.pass(MS);
    assert_eq!(count.load(SeqCst), 20);
}

/// The handle in a delivery may be the last one.
#[test]
fn handler_drops_the_last_handle_of_its_timers() {
    let place: Arc<Mutex<Option<Timers>>> = Arc::default();
    let (count, its_count) = counter();
    let its_place = place.clone();
    let bench = Bench::new(move |_, _| {
        its_count.fetch_add(1, SeqCst);
        drop(its_place.lock().unwrap().take());
    });
    for _ in 0..100 {
        bench.armed(MS, MS);
    }
    let Bench { clocks, driver, timers } = bench;
    *place.lock().unwrap() = Some(timers);
    clocks.advance(MS);
    driver.turn();
    assert!(count.load(SeqCst) >= 1);
    let after = count.load(SeqCst);
    clocks.advance(MS);
    assert_eq!(driver.turn(), 0);
    assert_eq!(count.load(SeqCst), after);
    assert_eq!(driver.next(Base::Monotonic), None);
    assert_eq!(clocks.now(Base::Monotonic), Duration::from_secs(1) + 2 * MS);
}
