//! Eight threads make, set and delete timers, while two run turns of the driver and the table grows from one slot to
//! sixteen.
//!
//! Each timer has a number of its own, whatever its ID. A timer that is not changed expires once. A timer that is set
//! again before it has expired does not expire before its new time. A thread always finds its own timers.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use shuttle::sync::Arc;
use shuttle::thread;
use ufutex_shuttle::timer::{Base, Callback, Clocks, Driver, Expired, Expiry, Notify, Setting, TimerClock, Timers};

use crate::support::{catches, check};

const THREADS: u64 = 8;
const TIMERS: u64 = 4;
const DUE: u64 = 10;
const LATER: u64 = 20;

/// A clock that the model sets.
#[derive(Default)]
struct ModelClock(AtomicU64);

impl Clocks for ModelClock {
    fn now(&self, _: Base) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }
    fn changed(&self) {}
}

/// How often each number has expired.
type Expiries = Arc<Mutex<HashMap<u64, usize>>>;

struct Process {
    clock: std::sync::Arc<ModelClock>,
    driver: Driver,
    timers: Timers,
    expiries: Expiries,
    /// The IDs in use.
    ids: Mutex<HashSet<i32>>,
}

impl Process {
    fn new() -> Arc<Self> {
        let clock = std::sync::Arc::new(ModelClock::default());
        let driver = Driver::with_clocks(clock.clone()).expect("a driver can be made");
        let expiries = Expiries::default();
        let counts = expiries.clone();
        let count = move |_: &Timers, expired: Expired| {
            let Notify::Signal { value, .. } = expired.notify else { panic!("a signal was asked for") };
            *counts.lock().unwrap().entry(value).or_default() += 1;
        };
        let timers = Timers::new(&driver, std::sync::Arc::new(Callback(count))).expect("timers can be made");
        Arc::new(Self { clock, driver, timers, expiries, ids: Mutex::default() })
    }

    fn arm(&self, id: i32, at: u64) -> Setting {
        let once = Setting { value: Duration::from_nanos(at), interval: Duration::ZERO };
        self.timers.settime(id, Expiry::At(once.value), once.interval).expect("whoever has a timer finds it")
    }

    fn create(&self, number: u64) -> i32 {
        let notify = Notify::Signal { signal: 14, value: number };
        let id = self.timers.create(TimerClock::Monotonic, Some(notify)).expect("there is room");
        assert!(self.ids.lock().unwrap().insert(id), "timer {id} is somebody else's");
        id
    }

    fn delete(&self, id: i32) {
        self.ids.lock().unwrap().remove(&id);
        self.timers.delete(id).expect("whoever has a timer finds it");
    }

    fn turn_at(&self, time: u64) {
        self.clock.0.store(time, Relaxed);
        self.driver.turn();
    }

    fn expiries_of(&self, number: u64) -> usize {
        self.expiries.lock().unwrap().get(&number).copied().unwrap_or(0)
    }
}

/// What happened to a timer.
#[derive(Clone, Copy)]
enum Fate {
    Left,
    /// Set to [`LATER`] before it had expired.
    PutOff,
    /// Set or deleted: it may have expired once.
    Other,
}

fn work(process: &Process, thread: u64) -> Vec<(u64, i32, Fate)> {
    let mut left = Vec::new();
    for number in thread * TIMERS..(thread + 1) * TIMERS {
        let id = process.create(number);
        process.arm(id, DUE);
        assert_eq!(process.timers.getoverrun(id), Ok(0));
        match number % 3 {
            0 => left.push((number, id, Fate::Left)),
            1 => {
                let was_armed = !process.arm(id, LATER).value.is_zero();
                left.push((number, id, if was_armed { Fate::PutOff } else { Fate::Other }));
            }
            _ => process.delete(id),
        }
    }
    left
}

fn turnover() {
    let process = Process::new();
    let spawn = |thread| {
        let process = process.clone();
        thread::spawn(move || work(&process, thread))
    };
    let workers: Vec<_> = (0..THREADS).map(spawn).collect();
    let turners = [(); 2].map(|()| {
        let process = process.clone();
        thread::spawn(move || (0..4).for_each(|_| process.turn_at(DUE)))
    });
    let left: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    turners.into_iter().for_each(|turner| turner.join().unwrap());

    process.turn_at(DUE);
    for &(number, id, fate) in &left {
        assert_eq!(process.timers.getoverrun(id), Ok(0));
        match fate {
            Fate::Left => assert_eq!(process.expiries_of(number), 1),
            Fate::PutOff => assert_eq!(process.expiries_of(number), 0, "too early"),
            Fate::Other => assert!(process.expiries_of(number) <= 1),
        }
    }
    assert_eq!(process.timers.count(), left.len());

    let before: Vec<_> = left.iter().map(|&(number, ..)| process.expiries_of(number)).collect();
    process.turn_at(LATER);
    for (&(number, _, fate), before) in left.iter().zip(before) {
        let more = process.expiries_of(number) - before;
        assert_eq!(more, usize::from(!matches!(fate, Fate::Left)), "what is armed in the end expires in the end");
    }
    assert_eq!(process.driver.next(Base::Monotonic), None);
}

#[test]
fn every_timer_is_found_and_expires_when_it_should() {
    check(400, turnover);
}

catches!(timers_catches_expiry_skips_recheck, ExpirySkipsRecheck, 400, turnover);
catches!(timers_catches_look_up_trusts_miss, LookUpTrustsMiss, 400, turnover);
catches!(timers_catches_group_stays_live, GroupStaysLive, 400, turnover);
catches!(timers_catches_turn_forgets_rest, TurnForgetsRest, 400, turnover);
