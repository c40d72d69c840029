//! Threads use timers concurrently while other threads turn the driver. No expiry may be lost or delivered twice.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ufutex::Error;
use ufutex::timer::{
    Base, Callback, Clocks, CpuClock, Deliver, Driver, Expired, Expiry, Notice, Notify, Setting, TimerClock,
    TimerOptions, Timers,
};

use crate::common::libc;
use crate::common::patient::within_patience;
use crate::common::random::Random;

const MONOTONIC: TimerClock = TimerClock::Monotonic;
const THREADS: u64 = 4;

fn length() -> Duration {
    let seconds = std::env::var("UFUTEX_STRESS_SECONDS").ok().and_then(|value| value.parse().ok()).unwrap_or(0.5);
    Duration::from_secs_f64(seconds)
}

fn signal(value: u64) -> Option<Notify> {
    Some(Notify::Signal { signal: 1, value })
}

fn once(value: Duration) -> Setting {
    Setting { value, interval: Duration::ZERO }
}

/// Runs `f` on several threads. It gets the thread's index and a function that tells whether to continue.
fn on_threads(f: impl Fn(u64, &dyn Fn() -> bool) + Sync) {
    on_threads_numbered(THREADS, f);
}

fn on_threads_numbered(threads: u64, f: impl Fn(u64, &dyn Fn() -> bool) + Sync) {
    let begin = Instant::now();
    let goes_on = || begin.elapsed() < length();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let f = &f;
            scope.spawn(move || f(thread, &goes_on));
        }
    });
}

/// A thread that turns the driver until it is dropped.
struct Turner {
    stop: Arc<AtomicBool>,
    /// Number of turns that have begun.
    turns: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Turner {
    fn start(driver: &Driver) -> Self {
        let (stop, driver) = (Arc::new(AtomicBool::new(false)), driver.clone());
        let turns = Arc::new(AtomicUsize::new(0));
        let (stopped, count) = (stop.clone(), turns.clone());
        let turn = move || {
            while !stopped.load(SeqCst) {
                count.fetch_add(1, SeqCst);
                driver.turn();
                std::thread::yield_now();
            }
        };
        Self { stop, turns, thread: Some(std::thread::spawn(turn)) }
    }

    /// Waits until the next turn begins.
    fn until_it_turns(&self) {
        let before = self.turns.load(SeqCst);
        let mut looks = 0;
        while self.turns.load(SeqCst) == before {
            looks += 1;
            if looks % 1000 == 0 {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for Turner {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let ended = self.thread.take().expect("it is there").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the turner has panicked");
    }
}

/// A clock that advances by a microsecond whenever it is read.
#[derive(Default)]
struct Steps(AtomicU64);

impl Clocks for Steps {
    fn now(&self, _: Base) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, SeqCst))
    }

    fn cpu_time(&self, _: CpuClock) -> Option<Duration> {
        None
    }

    fn changed(&self) {}
}

fn driver() -> Driver {
    Driver::with_clocks(Arc::new(Steps::default())).expect("the memory is there")
}

struct Ignore;

impl Deliver for Ignore {
    fn expired(&self, _: &Timers, _: Notice) {}
}

/// Timers in use always have different IDs, and an ID belongs to its timer from the creation to the deletion.
#[test]
fn an_id_belongs_to_one_timer_at_a_time() {
    within_patience("making timers", || {
        for max_id in [i32::MAX, 1023] {
            let options = TimerOptions::new().max_id(max_id);
            let timers = Timers::with_options(&driver(), Arc::new(Ignore), options).expect("the memory is there");
            let in_use = Mutex::new(BTreeSet::new());
            let left = AtomicUsize::new(0);
            on_threads(|thread, goes_on| {
                let mut rng = Random::of_program(1, thread);
                let mut own: Vec<(i32, Duration)> = Vec::new();
                let mut made = 0;
                while goes_on() {
                    made += 1;
                    let value = Duration::from_secs((made << 3 | thread) + (1 << 30));
                    let id = timers.create(MONOTONIC, Some(Notify::None)).expect("there are more than enough");
                    assert!(in_use.lock().unwrap().insert(id), "timer {id} is another's");
                    timers.settime(id, Expiry::At(value), Duration::ZERO).expect("it was made");
                    own.push((id, value));
                    let &(id, _) = &own[rng.below(own.len())];
                    assert_eq!(timers.getoverrun(id), Ok(0), "timer {id}");
                    if own.len() > 150 || rng.percent(40) {
                        let (id, value) = own.swap_remove(rng.below(own.len()));
                        let left = timers.gettime(id).expect("it is ours").value;
                        // No other timer has this setting.
                        assert!(left <= value && left + Duration::from_secs(1000) > value, "timer {id} is another's");
                        assert!(in_use.lock().unwrap().remove(&id));
                        assert_eq!(timers.delete(id), Ok(()));
                    }
                }
                left.fetch_add(own.len(), SeqCst);
            });
            assert_eq!(timers.count(), left.load(SeqCst));
            for &id in in_use.lock().unwrap().iter() {
                assert_eq!(timers.delete(id), Ok(()));
            }
            assert_eq!(timers.count(), 0);
        }
    });
}

/// There are few IDs, so that threads collide, but always a free one. A create must not fail.
#[test]
fn create_succeeds_while_an_id_is_free() {
    within_patience("making timers", || {
        for max_id in [3, 127, 1023] {
            let options = TimerOptions::new().max_id(max_id);
            let timers = Timers::with_options(&driver(), Arc::new(Ignore), options).expect("the memory is there");
            // A thread has at most this many IDs when it creates one more, so that one is always free.
            let most = (max_id as usize + 1) / THREADS as usize - 1;
            on_threads(|thread, goes_on| {
                let mut rng = Random::of_program(7, thread);
                let mut own: Vec<i32> = Vec::new();
                while goes_on() {
                    own.push(timers.create(MONOTONIC, Some(Notify::None)).expect("one is free"));
                    while own.len() > most || (rng.percent(5) && !own.is_empty()) {
                        assert_eq!(timers.delete(own.swap_remove(rng.below(own.len()))), Ok(()));
                    }
                }
                own.into_iter().for_each(|id| assert_eq!(timers.delete(id), Ok(())));
            });
            assert_eq!(timers.count(), 0);
        }
    });
}

/// All threads together have at least one timer fewer than the limit when one of them makes another. A create must not
/// fail.
#[test]
fn create_succeeds_below_the_limit() {
    within_patience("making timers", || {
        for each in [1, 3, 40] {
            let options = TimerOptions::new().max_timers(each * THREADS as usize);
            let timers = Timers::with_options(&driver(), Arc::new(Ignore), options).expect("the memory is there");
            on_threads(|thread, goes_on| {
                let mut rng = Random::of_program(8, thread);
                let mut own: Vec<i32> = Vec::new();
                while goes_on() {
                    while own.len() < each {
                        // Now and then IDs jump.
                        let made = if rng.below(8) > 0 {
                            timers.create(MONOTONIC, Some(Notify::None))
                        } else {
                            timers.create_as(rng.below(100_000), MONOTONIC, Some(Notify::None))
                        };
                        match made {
                            Ok(id) => own.push(id),
                            error => assert_eq!(error, Err(Error::Busy), "there is room"),
                        }
                    }
                    let left = rng.below(each);
                    own.drain(left..).for_each(|id| assert_eq!(timers.delete(id), Ok(())));
                }
                own.into_iter().for_each(|id| assert_eq!(timers.delete(id), Ok(())));
            });
            assert_eq!(timers.count(), 0);
        }
    });
}

/// Several threads restore the same IDs. One of them succeeds at a time.
#[test]
fn restored_id_is_busy_for_all_but_one() {
    within_patience("restoring timers", || {
        let timers = Timers::new(&driver(), Arc::new(Ignore)).expect("the memory is there");
        let held: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        let [won, lost] = [(); 2].map(|()| AtomicUsize::new(0));
        on_threads(|thread, goes_on| {
            let mut rng = Random::of_program(2, thread);
            while goes_on() {
                let id = rng.below(held.len()) as i32 * 3;
                match timers.create_as(id, MONOTONIC, Some(Notify::None)) {
                    Ok(made) => {
                        assert_eq!(made, id);
                        let holders = &held[id as usize / 3];
                        assert_eq!(holders.fetch_add(1, SeqCst), 0, "timer {id} is another's");
                        won.fetch_add(1, SeqCst);
                        assert_eq!(timers.getoverrun(id), Ok(0));
                        holders.fetch_sub(1, SeqCst);
                        assert_eq!(timers.delete(id), Ok(()));
                    }
                    Err(Error::Busy) => _ = lost.fetch_add(1, SeqCst),
                    Err(other) => panic!("{other}"),
                }
            }
        });
        assert_eq!(timers.count(), 0);
        assert!(won.load(SeqCst) > 0);
    });
}

/// Threads set and delete each other's timers. Each timer is deleted exactly once, and nothing is left afterwards.
#[test]
fn each_timer_is_deleted_by_one_thread() {
    within_patience("deleting timers", || {
        const IDS: usize = 2;
        let driver = driver();
        let timers = Timers::new(&driver, Arc::new(Ignore)).expect("the memory is there");
        let [made, deleted] = [(); 2].map(|()| AtomicUsize::new(0));
        let delete = |id| match timers.delete(id) {
            Ok(()) => _ = deleted.fetch_add(1, SeqCst),
            Err(error) => assert_eq!(error, Error::Invalid),
        };
        let far = Setting { value: Duration::from_secs(1 << 30), interval: Duration::from_secs(1) };
        on_threads(|thread, goes_on| {
            let mut rng = Random::of_program(6, thread);
            while goes_on() {
                let id = rng.below(IDS) as i32;
                match rng.below(4) {
                    0 => match timers.create_as(id, MONOTONIC, signal(0)) {
                        Ok(_) => _ = made.fetch_add(1, SeqCst),
                        Err(error) => assert_eq!(error, Error::Busy),
                    },
                    1 => delete(id),
                    2 => match timers.settime(id, Expiry::After(far.value), far.interval) {
                        Ok(old) => assert!(old == Setting::default() || old.interval == far.interval, "{old:?}"),
                        Err(error) => assert_eq!(error, Error::Invalid),
                    },
                    _ => assert!(matches!(timers.getoverrun(id), Ok(0) | Err(Error::Invalid))),
                }
            }
        });
        (0..IDS as i32).for_each(delete);
        assert!(made.load(SeqCst) > 0);
        assert_eq!((deleted.load(SeqCst), timers.count()), (made.load(SeqCst), 0));
        // No deleted timer is still armed.
        assert_eq!(driver.next(Base::Monotonic), None);
    });
}

/// Each one-shot timer expires exactly once while other threads create, set, query and delete timers.
#[test]
fn every_timer_expires_once() {
    within_patience("expiring timers", || {
        let counts: Arc<Mutex<Vec<u32>>> = Arc::default();
        let counted = counts.clone();
        let count = move |_: &Timers, expired: Expired| {
            if let Notify::Signal { value, .. } = expired.notify {
                counted.lock().unwrap()[value as usize] += 1;
            }
        };
        let driver = driver();
        let timers = Timers::new(&driver, Arc::new(Callback(count))).expect("the memory is there");
        let turners = [Turner::start(&driver), Turner::start(&driver)];
        let set = AtomicUsize::new(0);
        on_threads(|thread, goes_on| {
            let mut rng = Random::of_program(3, thread);
            while goes_on() {
                let value = {
                    let mut counts = counts.lock().unwrap();
                    counts.push(0);
                    counts.len() as u64 - 1
                };
                let id = timers.create(MONOTONIC, signal(value)).expect("there is room");
                // Half of the timers are set to a far deadline first. The near deadline is not changed any more.
                if rng.percent(50) {
                    timers
                        .settime(id, Expiry::After(Duration::from_secs(1 << 30)), Duration::ZERO)
                        .expect("it is ours");
                }
                timers
                    .settime(id, Expiry::After(Duration::from_micros(1 + rng.next() % 50)), Duration::ZERO)
                    .expect("it is ours");
                set.fetch_add(1, SeqCst);
                while timers.gettime(id).expect("it is ours") != Setting::default() {
                    std::thread::yield_now();
                }
                // The timer has expired, but its notice may not have been delivered yet.
                if rng.percent(50) {
                    while counts.lock().unwrap()[value as usize] == 0 {
                        std::thread::yield_now();
                    }
                }
                assert_eq!(timers.getoverrun(id), Ok(0));
                assert_eq!(timers.delete(id), Ok(()));
                // This timer never expires.
                let other = timers.create(MONOTONIC, signal(value)).expect("there is room");
                timers.settime(other, Expiry::After(Duration::from_secs(1 << 30)), Duration::ZERO).expect("it is ours");
                assert_eq!(timers.delete(other), Ok(()));
            }
        });
        drop(turners);
        let counts = counts.lock().unwrap();
        assert_eq!(counts.len(), set.load(SeqCst));
        assert!(counts.iter().all(|&count| count <= 1), "one has expired more than once");
        assert_eq!(timers.count(), 0);
        assert_eq!(driver.next(Base::Monotonic), None);
    });
}

/// A delivery that takes each notice and counts errors: a valid notice of a timer that had been disarmed before.
struct Taker {
    /// A counter for each thread's timer, and for one more. It is odd while the timer is disarmed.
    epochs: Vec<AtomicU32>,
    wrong: AtomicUsize,
    right: AtomicUsize,
}

impl Deliver for Taker {
    fn expired(&self, timers: &Timers, notice: Notice) {
        std::thread::yield_now();
        let Notify::Signal { value, .. } = notice.notify() else { return };
        let epoch = || self.epochs[value as usize].load(SeqCst);
        let before = epoch();
        if timers.take(notice).is_some() {
            let is_wrong = before % 2 == 1 && epoch() == before;
            let counter = if is_wrong { &self.wrong } else { &self.right };
            counter.fetch_add(1, SeqCst);
        }
    }
}

/// After a timer has been disarmed or deleted, its notice is invalid.
#[test]
fn no_notice_of_a_disarmed_timer_is_valid() {
    within_patience("disarming timers", || {
        let epochs = (0..=THREADS).map(|_| AtomicU32::new(1)).collect();
        let taker = Arc::new(Taker { epochs, wrong: AtomicUsize::new(0), right: AtomicUsize::new(0) });
        let driver = driver();
        let timers = Timers::new(&driver, taker.clone()).expect("the memory is there");
        // Each pair is a thread that sets timers and a thread that turns. More pairs than CPUs would rarely collide.
        let pairs = (std::thread::available_parallelism().map_or(2, usize::from) / 2).clamp(1, THREADS as usize);
        let turners: Vec<Turner> = (0..pairs).map(|_| Turner::start(&driver)).collect();
        on_threads_numbered(pairs as u64, |thread, goes_on| {
            let mut rng = Random::of_program(4, thread);
            let mut id = timers.create(MONOTONIC, signal(thread)).expect("there is room");
            while goes_on() {
                let next_epoch = || taker.epochs[thread as usize].fetch_add(1, SeqCst);
                let value = Duration::from_nanos(rng.next() % 5000 + 1);
                let interval = if rng.percent(50) { value } else { Duration::ZERO };
                next_epoch();
                timers.settime(id, Expiry::After(value), interval).expect("it is ours");
                turners[thread as usize].until_it_turns();
                (0..rng.below(100)).for_each(|_| std::hint::spin_loop());
                if rng.percent(70) {
                    let never = rng.of(&[Setting::default(), once(Duration::from_secs(1 << 30))]);
                    timers.settime(id, Expiry::After(never.value), never.interval).expect("it is ours");
                    next_epoch();
                } else {
                    timers.delete(id).expect("it is ours");
                    next_epoch();
                    id = timers.create(MONOTONIC, signal(thread)).expect("there is room");
                }
            }
        });
        println!("valid notices of timers that were about to be disarmed: {}", taker.right.load(SeqCst));
        // On a busy machine there may be none, because no turn came in time. There is one if the timer stays armed.
        taker.epochs[THREADS as usize].fetch_add(1, SeqCst);
        let id = timers.create(MONOTONIC, signal(THREADS)).expect("there is room");
        timers.settime(id, Expiry::After(Duration::from_nanos(1)), Duration::ZERO).expect("it was made");
        while taker.right.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        drop(turners);
        assert_eq!(taker.wrong.load(SeqCst), 0);
    });
}

/// Signals plus overruns of an interval timer equal the number of deadlines that have passed, while other threads query
/// it.
#[test]
fn no_deadline_of_an_interval_is_lost() {
    within_patience("counting deadlines", || {
        let driver = Driver::host().expect("the memory is there");
        let deadlines = Arc::new(AtomicU64::new(0));
        let counted = deadlines.clone();
        let count = move |_: &Timers, expired: Expired| {
            counted.fetch_add(1 + expired.overrun as u64, SeqCst);
        };
        let timers = Timers::new(&driver, Arc::new(Callback(count))).expect("the memory is there");
        let id = timers.create(MONOTONIC, signal(0)).expect("there is room");
        let interval = Duration::from_micros(70);
        let now = || crate::machine::now(libc::CLOCK_MONOTONIC);
        let first = now() + interval;
        timers.settime(id, Expiry::At(first), interval).expect("it was made");
        on_threads(|_, goes_on| {
            while goes_on() {
                let setting = timers.gettime(id).expect("it is there");
                assert!(setting.interval == interval && setting.value <= interval, "{setting:?}");
                assert!(timers.getoverrun(id).is_ok_and(|overrun| overrun >= 0));
            }
        });
        // After a notice has been taken later than `begin`, all deadlines before `begin` have been counted.
        let passed = |time: Duration| ((time - first).as_nanos() / interval.as_nanos()) as u64 + 1;
        let begin = now();
        while deadlines.load(SeqCst) < passed(begin) {
            std::thread::yield_now();
        }
        let counted = deadlines.load(SeqCst);
        assert!(counted <= passed(now()), "{counted} deadlines, more than have passed");
        timers.delete(id).expect("it is there");
    });
}

/// Processes are created and dropped while their timers expire.
#[test]
fn processes_end_while_their_timers_expire() {
    within_patience("ending processes", || {
        let driver = driver();
        let turners = [Turner::start(&driver), Turner::start(&driver)];
        let expired = Arc::new(AtomicUsize::new(0));
        on_threads(|thread, goes_on| {
            let mut rng = Random::of_program(5, thread);
            while goes_on() || expired.load(SeqCst) == 0 {
                let counted = expired.clone();
                let count = move |_: &Timers, _: Expired| _ = counted.fetch_add(1, SeqCst);
                let timers = Timers::new(&driver, Arc::new(Callback(count))).expect("the memory is there");
                for _ in 0..rng.below(100) {
                    let id = timers.create(MONOTONIC, signal(0)).expect("there is room");
                    let interval = Duration::from_micros(rng.next() % 3);
                    let value = Duration::from_micros(1 + rng.next() % 100);
                    timers.settime(id, Expiry::After(value), interval).expect("it was made");
                }
                if rng.percent(20) {
                    timers.clear();
                }
            }
        });
        drop(turners);
        driver.turn();
        assert_eq!(driver.next(Base::Monotonic), None);
    });
}
