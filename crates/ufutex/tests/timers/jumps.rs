//! The realtime clock is set while timers are armed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use ufutex::timer::{Base, Callback, Clocks, Driver, Expired, Expiry, Notify, Setting};
use ufutex::timer::{TimerClock, TimerOptions, Timers};

use crate::clock::{ManualClocks, Process};

const HOUR: Duration = Duration::from_secs(3600);
const SIGNAL: Option<Notify> = Some(Notify::Signal { signal: 10, value: 5 });

struct Bench {
    process: Process,
}

impl Bench {
    fn new() -> Self {
        Self { process: Process::new(TimerOptions::new()) }
    }

    /// Creates a timer that expires in an hour.
    fn armed(&self, clock: TimerClock, absolute: bool, notify: Option<Notify>) -> i32 {
        let process = &self.process;
        let id = process.timers.create(clock, notify).expect("there is room");
        let base = if clock == TimerClock::Tai { Base::Tai } else { Base::Realtime };
        let value = if absolute { process.clocks.now(base) + HOUR } else { HOUR };
        process
            .timers
            .settime(id, if absolute { Expiry::At(value) } else { Expiry::After(value) }, HOUR)
            .expect("it was made");
        id
    }

    /// Sets the realtime clock, and TAI with it. Returns the IDs of the timers that expire.
    fn jump(&self, by: i64) -> Vec<i32> {
        let process = &self.process;
        for base in [Base::Realtime, Base::Tai] {
            let now = process.clocks.now(base);
            let length = Duration::from_secs(by.unsigned_abs());
            process.clocks.set(base, if by < 0 { now - length } else { now + length });
        }
        process.driver.clock_was_set();
        process.driver.turn();
        process.notices.drain().iter().map(|notice| notice.id()).collect()
    }

    fn left(&self, id: i32) -> Duration {
        self.process.timers.gettime(id).expect("it is there").value
    }
}

#[test]
fn absolute_times_move_and_relative_ones_do_not() {
    for notify in [SIGNAL, Some(Notify::None)] {
        let bench = Bench::new();
        let point = bench.armed(TimerClock::Realtime, true, notify);
        let length = bench.armed(TimerClock::Realtime, false, notify);
        let monotonic = bench.armed(TimerClock::Monotonic, false, notify);
        assert!(bench.jump(600).is_empty());
        assert_eq!([point, length, monotonic].map(|id| bench.left(id)), [HOUR - HOUR / 6, HOUR, HOUR]);
        assert!(bench.jump(-1800).is_empty());
        assert_eq!([point, length, monotonic].map(|id| bench.left(id)), [HOUR + HOUR / 3, HOUR, HOUR]);
    }
}

/// As in the kernel, setting the realtime clock also sets TAI, and relative TAI timers are affected, too.
#[test]
fn tai_moves_with_realtime() {
    for absolute in [true, false] {
        let bench = Bench::new();
        let timer = bench.armed(TimerClock::Tai, absolute, SIGNAL);
        assert!(bench.jump(600).is_empty());
        assert_eq!(bench.left(timer), HOUR - HOUR / 6);
        assert_eq!(bench.jump(3600), [timer]);
    }
}

#[test]
fn jump_over_a_deadline_expires_it_at_once() {
    let bench = Bench::new();
    let point = bench.armed(TimerClock::Realtime, true, SIGNAL);
    bench.armed(TimerClock::Realtime, false, SIGNAL);
    assert_eq!(bench.jump(3600), [point]);
}

#[test]
fn jump_back_delays_a_deadline() {
    let bench = Bench::new();
    let point = bench.armed(TimerClock::Realtime, true, SIGNAL);
    let length = bench.armed(TimerClock::Realtime, false, SIGNAL);
    assert!(bench.jump(-900).is_empty());
    bench.process.clocks.advance(HOUR);
    assert_eq!(bench.jump(0), [length]);
    bench.process.clocks.advance(HOUR / 4);
    assert_eq!(bench.jump(0), [point]);
}

/// Many deadlines of different lengths, after the clock has advanced far.
#[test]
fn jump_back_keeps_all_deadlines() {
    let bench = Bench::new();
    let process = &bench.process;
    let begin = process.clocks.now(Base::Realtime);
    let at = |i: u64| begin + Duration::from_nanos(1 + i * i * 7_919_000);
    for i in 0..1000 {
        let id = process.timers.create(TimerClock::Realtime, SIGNAL).expect("there is room");
        let once = Setting { value: at(i), interval: Duration::ZERO };
        process.timers.settime(id, Expiry::At(once.value), once.interval).expect("it was made");
    }
    process.clocks.set(Base::Realtime, at(500) - Duration::from_nanos(1));
    process.driver.turn();
    assert_eq!(process.notices.drain().len(), 500);
    for back in [at(200), at(499), begin, Duration::from_secs(3)] {
        process.clocks.set(Base::Realtime, back);
        process.driver.clock_was_set();
        assert_eq!(process.driver.turn(), 0);
    }
    for i in 500..1000 {
        let next = process.driver.next(Base::Realtime).expect("there are more");
        assert!(next <= at(i), "{next:?}, but timer {i} is due at {:?}", at(i));
        process.clocks.set(Base::Realtime, at(i) - Duration::from_nanos(1));
        process.driver.turn();
        assert_eq!(process.notices.drain(), []);
        process.clocks.set(Base::Realtime, at(i));
        process.driver.turn();
        let ids: Vec<i32> = process.notices.drain().iter().map(|notice| notice.id()).collect();
        assert_eq!(ids, [i as i32]);
    }
}

/// A turn without due timers notices that the clock has been set back. Timers that many processes arm then expire in
/// order.
#[test]
fn jump_back_is_noticed_by_a_turn_without_due_timers() {
    let bench = Bench::new();
    let Process { clocks, driver, .. } = &bench.process;
    let begin = clocks.now(Base::Realtime);
    let all: Vec<_> = (0..30).map(|_| Process::of(clocks, driver, TimerOptions::new())).collect();
    let arm = |process: &Process, at: Duration| {
        let id = process.timers.create(TimerClock::Realtime, SIGNAL).expect("there is room");
        let once = Setting { value: at, interval: Duration::ZERO };
        process.timers.settime(id, Expiry::At(once.value), once.interval).expect("it was made");
    };
    // Enough timers at a time for the wheel to advance.
    all.iter().for_each(|process| arm(process, begin + HOUR));
    arm(&bench.process, begin + 2 * HOUR);
    clocks.set(Base::Realtime, begin + HOUR);
    assert_eq!(driver.turn(), 30);
    clocks.set(Base::Realtime, begin);
    assert_eq!(driver.turn(), 0);
    let at = |i: u32| begin + i * Duration::from_millis(1);
    (1..=30).rev().for_each(|i| arm(&all[i as usize - 1], at(i)));
    for i in 1..=30 {
        clocks.set(Base::Realtime, at(i));
        assert_eq!(driver.turn(), 1, "timer {i}");
    }
}

/// As in the kernel: the deadline had passed at the expiry, but is in the future again when the notice is taken.
#[test]
fn clock_set_back_before_the_notice_is_taken_gives_an_overrun_of_minus_1() {
    let bench = Bench::new();
    let point = bench.armed(TimerClock::Realtime, true, SIGNAL);
    let process = &bench.process;
    process.clocks.set(Base::Realtime, process.clocks.now(Base::Realtime) + 2 * HOUR);
    process.driver.turn();
    let notice = process.notices.drain()[0];
    process.clocks.set(Base::Realtime, process.clocks.now(Base::Realtime) - 2 * HOUR);
    assert_eq!(process.timers.take(notice).map(|expired| expired.overrun), Some(-1));
    assert_eq!(process.timers.getoverrun(point), Ok(-1));
    assert_eq!(bench.left(point), HOUR);
    process.clocks.advance(HOUR);
    assert_eq!(bench.jump(0), [point]);
}

#[test]
fn jump_asks_for_a_turn() {
    let bench = Bench::new();
    bench.armed(TimerClock::Realtime, true, SIGNAL);
    let before = bench.process.clocks.changes();
    bench.process.clocks.set(Base::Realtime, Duration::from_secs(1 << 30));
    bench.process.driver.clock_was_set();
    assert!(bench.process.clocks.changes() > before);
}

/// A timer is armed while a turn goes on, after the clock has been set back. By the turn's earlier reading it would be due.
#[test]
fn timer_armed_after_a_jump_back_is_not_due_by_an_earlier_reading_of_the_clock() {
    let seconds = Duration::from_secs;
    for (clock, base) in [(TimerClock::Realtime, Base::Realtime), (TimerClock::Tai, Base::Tai)] {
        let clocks = ManualClocks::at(seconds(5));
        let driver = Driver::with_clocks(clocks.clone()).expect("there is memory");
        let set = |timers: &Timers, at: u64| {
            let id = timers.create(clock, SIGNAL).expect("there is room");
            timers.settime(id, Expiry::At(seconds(at)), Duration::ZERO).expect("it was made");
        };
        // The turn reads the clock again before it serves the second process: it reads 100.
        let forth = clocks.clone();
        let first = Callback(move |_: &Timers, _: Expired| forth.set(base, seconds(100)));
        let first = Timers::new(&driver, Arc::new(first)).expect("there is memory");
        let (back, expired) = (clocks.clone(), Arc::new(AtomicUsize::new(0)));
        let count = expired.clone();
        let second = Callback(move |timers: &Timers, _: Expired| {
            if count.fetch_add(1, SeqCst) == 0 {
                back.set(base, seconds(20));
                let id = timers.create(clock, SIGNAL).expect("there is room");
                timers.settime(id, Expiry::At(seconds(50)), Duration::ZERO).expect("it was made");
            }
        });
        let second = Timers::new(&driver, Arc::new(second)).expect("there is memory");
        [&first, &second].iter().for_each(|timers| set(timers, 10));
        clocks.set(base, seconds(10));
        assert_eq!((driver.turn(), expired.load(SeqCst)), (2, 1), "{clock:?}");
        assert_eq!(driver.next(base).map(|next| next <= seconds(50)), Some(true), "{clock:?}");
        clocks.set(base, seconds(49));
        assert_eq!((driver.turn(), expired.load(SeqCst)), (0, 1), "{clock:?}");
        clocks.set(base, seconds(50));
        assert_eq!((driver.turn(), expired.load(SeqCst)), (1, 2), "{clock:?}");
    }
}
