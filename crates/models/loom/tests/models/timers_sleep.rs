//! A future's timeout against the driver's turn, a wake, other polls and the future's end: [T].
//!
//! The interleavings looked for: the deadline passes while the future is polled with a new waker, and the old waker or
//! none is called; a future that a turn has woken is still pending when it is polled; use of a dropped sleep's memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use ufutex_loom::timer::{Base, Driver};
use ufutex_loom::{Clock, Domain, DomainOptions, Error, System, SystemConfig, Timeout, WaitOptions};

use crate::support::{PAIR, TRIO, Word, catches, check, check_pair};
use crate::timers::{DUE, ModelClock};

fn until_due() -> WaitOptions {
    WaitOptions::new().timeout(Timeout::At(Clock::Monotonic, Duration::from_nanos(DUE)))
}

struct World {
    clock: Arc<ModelClock>,
    driver: Driver,
    domain: Domain,
    word: Word,
}

type Wait<'w> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'w>>;

impl World {
    fn new() -> Arc<Self> {
        let clock = Arc::new(ModelClock::default());
        let config = SystemConfig::new().cpus(1).global_slots(2).hash_seed(1).default_slots(2).clocks(clock.clone());
        let system = System::with_config(config).expect("the models' configuration is valid");
        let domain = Domain::with_options(&system, DomainOptions::new().early_return(false));
        domain.set_slots(2).expect("a table can be made");
        Arc::new(Self { clock, driver: system.driver().clone(), domain, word: Word::at(0x1000) })
    }

    fn wait(&self) -> Wait<'_> {
        Box::pin(self.domain.wait_async(&self.word, 0, &until_due()))
    }

    /// Starts a thread that sets the clock to `DUE` and runs a turn.
    fn spawn_turn(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || {
            world.clock.set(DUE);
            world.driver.turn();
        })
    }
}

/// A task's waker, which counts its calls.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Task {
    fn poll(self: &Arc<Self>, wait: &mut Wait<'_>) -> Poll<Result<(), Error>> {
        wait.as_mut().poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }

    fn is_woken(&self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

/// The future is polled by another task while its deadline passes.
fn polled_by_another() {
    let world = World::new();
    let (first, second) = (Arc::new(Task::default()), Arc::new(Task::default()));
    let mut wait = world.wait();
    assert!(first.poll(&mut wait).is_pending());
    let turn = world.spawn_turn();
    let polled = second.poll(&mut wait);
    turn.join().unwrap();
    if polled.is_pending() {
        assert!(second.is_woken(), "whoever waits is woken");
        assert_eq!(second.poll(&mut wait), Poll::Ready(Err(Error::TimedOut)));
    } else {
        assert_eq!(polled, Poll::Ready(Err(Error::TimedOut)));
    }
}

/// The future is polled for the first time while its deadline passes.
fn begun_when_due() {
    let world = World::new();
    let task = Arc::new(Task::default());
    let mut wait = world.wait();
    let turn = world.spawn_turn();
    let polled = task.poll(&mut wait);
    turn.join().unwrap();
    if polled.is_pending() {
        if !task.is_woken() {
            // The turn came first. The embedder has been notified that another turn is due.
            assert_eq!(world.driver.next(Base::Monotonic), Some(Duration::from_nanos(DUE)));
            assert_eq!(world.clock.changed(), 1);
            assert_eq!(world.driver.turn(), 1);
        }
        assert!(task.is_woken());
        assert_eq!(task.poll(&mut wait), Poll::Ready(Err(Error::TimedOut)));
    } else {
        assert_eq!(polled, Poll::Ready(Err(Error::TimedOut)));
    }
}

/// A wake and the deadline: the task gets one of them, and it gets the wake if that was counted.
fn woken_when_due() {
    let world = World::new();
    let task = Arc::new(Task::default());
    let mut wait = world.wait();
    assert!(task.poll(&mut wait).is_pending());
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.domain.wake(&world.word, 1))
    };
    let turn = world.spawn_turn();
    let mut polled = task.poll(&mut wait);
    turn.join().unwrap();
    let woken = waker.join().unwrap();
    if polled.is_pending() {
        assert!(task.is_woken());
        polled = task.poll(&mut wait);
    }
    match polled {
        Poll::Ready(Ok(())) => assert_eq!(woken, 1),
        Poll::Ready(Err(error)) => assert_eq!((error, woken), (Error::TimedOut, 0)),
        Poll::Pending => panic!("neither woken nor over"),
    }
    drop(wait);
    // A dropped sleep is disarmed, though the driver may check it once more.
    world.driver.turn();
    assert_eq!(world.driver.next(Base::Monotonic), None);
}

fn dropped_when_due() {
    let world = World::new();
    let task = Arc::new(Task::default());
    let mut wait = world.wait();
    assert!(task.poll(&mut wait).is_pending());
    let turn = world.spawn_turn();
    drop(wait);
    turn.join().unwrap();
    world.driver.turn();
    assert_eq!(world.driver.next(Base::Monotonic), None);
    assert_eq!(Arc::strong_count(&task), 1, "the waker is gone");
    assert_eq!(world.domain.wake(&world.word, 1), 0);
}

/// Two tasks, one of which drops its wait.
fn one_of_two_dropped() {
    let world = World::new();
    let (first, second) = (Arc::new(Task::default()), Arc::new(Task::default()));
    let (mut leaves, mut stays) = (world.wait(), world.wait());
    assert!(first.poll(&mut leaves).is_pending() && second.poll(&mut stays).is_pending());
    let turn = world.spawn_turn();
    drop(leaves);
    turn.join().unwrap();
    assert!(second.is_woken());
    assert_eq!(second.poll(&mut stays), Poll::Ready(Err(Error::TimedOut)));
}

/// The first two timeouts of a domain, in two threads.
fn first_two() {
    let world = World::new();
    let begin = |world: &World| {
        let task = Arc::new(Task::default());
        let mut wait = world.wait();
        assert!(task.poll(&mut wait).is_pending());
        world.clock.set(DUE);
        // The deadline passes here, whether the other thread has run or not.
        world.driver.turn();
        assert!(task.is_woken());
    };
    let other = {
        let world = world.clone();
        thread::spawn(move || {
            let task = Arc::new(Task::default());
            let _ended_or_not = task.poll(&mut world.wait());
        })
    };
    begin(&world);
    other.join().unwrap();
}

#[test]
fn two_may_be_the_first_to_sleep() {
    check_pair(first_two);
}

#[test]
fn the_task_that_polled_last_is_woken() {
    check_pair(polled_by_another);
}

#[test]
fn a_timeout_that_passes_while_it_begins_is_noticed() {
    check_pair(begun_when_due);
}

#[test]
fn a_woken_task_sees_the_wake_or_the_timeout() {
    check(woken_when_due);
}

#[test]
fn a_dropped_timeout_leaves_nothing_behind() {
    check_pair(dropped_when_due);
    check_pair(one_of_two_dropped);
}

catches!(timers_sleep_catches_lazy_relaxed, LazyRelaxed, PAIR, first_two);
catches!(timers_sleep_catches_sleep_keeps_waker, SleepKeepsWaker, PAIR, polled_by_another);
catches!(timers_sleep_catches_sleep_looks_first, SleepLooksFirst, PAIR, polled_by_another);
catches!(timers_sleep_catches_sleep_fires_silently, SleepFiresSilently, PAIR, polled_by_another);
catches!(timers_sleep_catches_sleep_stays_armed, SleepStaysArmed, PAIR, dropped_when_due);
catches!(timers_sleep_catches_arm_notifies_nobody, ArmNotifiesNobody, PAIR, begun_when_due);
catches!(timers_sleep_catches_timeout_loses_wake, TimeoutLosesWake, TRIO, woken_when_due);
