//! Runs random programs on threads, and checks what they recorded.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::Error;
use ufutex::timer::{Base, Clocks, Deliver, Driver, Expiry, Notice, TimerClock, TimerOptions, Timers};
use ufutex_linear::{Call, History, Rounds, Stopwatch, check};

use crate::common::random::Random;
use crate::ops::{Made, Setting};
use crate::spec::{NOTIFY, TimerTable};

/// The threads that make calls. The first one turns the driver. Its deliveries are the calls of one more thread.
const THREADS: usize = 3;

/// The time at the beginning of a program, in nanoseconds.
const START: u64 = 1_000_000;

/// A clock that threads advance.
struct Clock(AtomicU64);

impl Clocks for Clock {
    fn now(&self, _: Base) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }

    fn changed(&self) {}
}

/// The deliveries of the turns, and the notices that have not been dropped.
struct Deliveries {
    watch: Stopwatch,
    /// A time before the next delivery.
    before: AtomicU64,
    calls: Mutex<Vec<Call<Made>>>,
    notices: Mutex<Vec<(usize, Notice)>>,
}

impl Deliver for Deliveries {
    fn expired(&self, _: &Timers, notice: Notice) {
        let end = self.watch.after();
        let begin = self.before.swap(end, SeqCst);
        let mut calls = self.calls.lock().expect("not poisoned");
        let number = calls.len();
        calls.push(Call::between(begin, end, Made::Expire(number, notice.id())));
        drop(calls);
        self.notices.lock().expect("not poisoned").push((number, notice));
    }
}

struct Run {
    clock: Arc<Clock>,
    deliveries: Arc<Deliveries>,
    timers: Timers,
    watch: Stopwatch,
    /// How many threads are not ready yet.
    missing: AtomicUsize,
}

fn errno<T>(result: Result<T, Error>) -> Result<T, i32> {
    result.map_err(Error::errno)
}

fn setting(of: ufutex::timer::Setting) -> Setting {
    (of.value.as_nanos() as u64, of.interval.as_nanos() as u64)
}

impl Run {
    fn new(max_timers: usize) -> Self {
        let watch = Stopwatch::start();
        let clock = Arc::new(Clock(AtomicU64::new(START)));
        let (calls, notices) = (Mutex::default(), Mutex::default());
        let deliveries = Arc::new(Deliveries { watch, before: AtomicU64::new(0), calls, notices });
        let driver = Driver::with_clocks(clock.clone()).expect("there is memory");
        let options = TimerOptions::new().max_timers(max_timers);
        let timers = Timers::with_options(&driver, deliveries.clone(), options).expect("there is memory");
        Self { clock, deliveries, timers, watch, missing: AtomicUsize::new(THREADS) }
    }

    fn calls(&self, thread: usize, mut rng: Random) -> Vec<Call<Made>> {
        let length = 3 + rng.below(7);
        let mut log = Log { run: self, rng, calls: Vec::with_capacity(length) };
        self.missing.fetch_sub(1, SeqCst);
        while self.missing.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        for _ in 0..length {
            let pause = log.rng.of(&[0, 0, 10, 100]);
            (0..pause).for_each(|_| std::hint::spin_loop());
            log.call(thread);
        }
        log.calls
    }
}

/// The calls of a thread.
struct Log<'r> {
    run: &'r Run,
    rng: Random,
    calls: Vec<Call<Made>>,
}

impl Log<'_> {
    fn call(&mut self, thread: usize) {
        let kind = self.rng.below(100);
        match kind {
            0..50 if thread == 0 => self.turn(),
            0..10 => self.make(|timers| Made::Create(errno(timers.create(TimerClock::Monotonic, Some(NOTIFY))))),
            10..40 => self.set(),
            40..50 => {
                let id = self.id();
                self.make(|timers| Made::Get(id, errno(timers.gettime(id)).map(setting)));
            }
            50..60 => {
                let id = self.id();
                self.make(|timers| Made::Overrun(id, errno(timers.getoverrun(id))));
            }
            60..67 => {
                let id = self.id();
                self.make(|timers| Made::Delete(id, errno(timers.delete(id))));
            }
            67..85 => self.take(),
            _ => self.advance(),
        }
    }

    fn make(&mut self, call: impl FnOnce(&Timers) -> Made) {
        let begin = self.run.watch.before();
        let op = call(&self.run.timers);
        self.calls.push(Call::between(begin, self.run.watch.after(), op));
    }

    /// IDs are handed out from 0 on.
    fn id(&mut self) -> i32 {
        self.rng.weighted(&[(6, 0), (4, 1), (2, 2), (1, 3)])
    }

    fn length(&mut self) -> u64 {
        self.rng.of(&[0, 1, 5, 10, 20])
    }

    fn set(&mut self) {
        let (id, new) = (self.id(), (self.length(), self.length()));
        let is_absolute = self.rng.one_in(3);
        let value = if is_absolute && new.0 > 0 { START + new.0 } else { new.0 };
        let length = Duration::from_nanos(value);
        let first = if is_absolute { Expiry::At(length) } else { Expiry::After(length) };
        let interval = Duration::from_nanos(new.1);
        self.make(|timers| {
            Made::Set(id, is_absolute, (value, new.1), errno(timers.settime(id, first, interval)).map(setting))
        });
    }

    fn take(&mut self) {
        let mut notices = self.run.deliveries.notices.lock().expect("not poisoned");
        if notices.is_empty() {
            return;
        }
        let at = self.rng.below(notices.len());
        // A notice that has been taken is void. So some are taken twice.
        let (number, notice) = if self.rng.one_in(4) { notices[at] } else { notices.swap_remove(at) };
        drop(notices);
        self.make(|timers| Made::Take(number, notice.id(), timers.take(notice).map(|expired| expired.overrun)));
    }

    fn advance(&mut self) {
        let (by, clock) = (self.rng.of(&[1, 5, 10, 30]), &self.run.clock);
        self.make(|_| {
            clock.0.fetch_add(by, SeqCst);
            Made::Advance(by)
        });
    }

    fn turn(&mut self) {
        let deliveries = &self.run.deliveries;
        self.make(|timers| {
            deliveries.before.store(deliveries.watch.before(), SeqCst);
            timers.driver().turn();
            Made::Turn
        });
    }
}

/// Runs a program with this limit on the number of timers. Two timers are made first.
fn run(rng: &mut Random, max_timers: usize) -> History<Made> {
    let run = Run::new(max_timers);
    let mut first = Log { run: &run, rng: rng.clone(), calls: Vec::new() };
    for _ in 0..2 {
        first.make(|timers| Made::Create(errno(timers.create(TimerClock::Monotonic, Some(NOTIFY)))));
    }
    let mut threads = std::thread::scope(|scope| {
        let seeds: [u64; THREADS] = std::array::from_fn(|_| rng.next());
        let start = |(thread, seed)| {
            scope.spawn({
                let run = &run;
                move || run.calls(thread, Random::new(seed))
            })
        };
        let threads: Vec<_> = seeds.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect::<Vec<_>>()
    });
    threads[0].splice(0..0, first.calls);
    threads.push(std::mem::take(&mut *run.deliveries.calls.lock().expect("not poisoned")));
    History { threads }
}

#[test]
fn histories_of_timers_are_linearizable() {
    let mut rounds = Rounds::of("histories_of_timers", 1500);
    while let Some(index) = rounds.next() {
        let mut rng = Random::of_program(rounds.seed, index);
        let max_timers = rng.of(&[2, 3, 100]);
        let history = run(&mut rng, max_timers);
        if let Err(violation) = check(&history, TimerTable::new(START, max_timers)) {
            panic!(
                "a history that the model cannot have; again: {}\nat most {max_timers} timers, the clock is at {START}\n{}",
                rounds.again(index),
                history.explain(&violation)
            );
        }
    }
}
