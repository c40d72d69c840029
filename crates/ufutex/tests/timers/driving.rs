//! One driver for several processes. The processes are isolated, no timer starves, and there are no needless wake-ups.

use std::sync::Arc;
use std::time::Duration;

use ufutex::Error;
use ufutex::timer::{Base, Clocks, CpuClock, Driver, Expiry, Notify, Setting, TimerClock, TimerOptions, Timers};

use crate::clock::{BASES, ManualClocks, Process};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const SIGNAL: Option<Notify> = Some(Notify::Signal { signal: 10, value: 5 });

fn process() -> Process {
    Process::new(TimerOptions::new())
}

fn beside(other: &Process) -> Process {
    Process::of(&other.clocks, &other.driver, TimerOptions::new())
}

fn armed(timers: &Timers, clock: TimerClock, absolute: bool, value: Duration, interval: Duration) -> i32 {
    let id = timers.create(clock, SIGNAL).expect("there is room");
    assert_eq!(
        timers.settime(id, if absolute { Expiry::At(value) } else { Expiry::After(value) }, interval),
        Ok(Setting::default())
    );
    id
}

fn once(process: &Process, value: Duration) -> i32 {
    armed(&process.timers, TimerClock::Monotonic, false, value, Duration::ZERO)
}

fn expired(process: &Process) -> Vec<i32> {
    process.notices.drain().iter().map(|notice| notice.id()).collect()
}

#[test]
fn two_processes_have_the_same_ids_and_different_timers() {
    let one = process();
    let other = beside(&one);
    assert_eq!((once(&one, 2 * MS), once(&other, MS)), (0, 0));
    assert_eq!(once(&one, 3 * MS), 1);
    one.clocks.advance(MS);
    assert_eq!(one.driver.turn(), 1);
    assert_eq!((expired(&one), expired(&other)), (vec![], vec![0]));
    assert_eq!(other.timers.delete(0), Ok(()));
    assert_eq!(one.timers.gettime(0).map(|setting| setting.value), Ok(MS));
    other.timers.clear();
    one.clocks.advance(2 * MS);
    one.driver.turn();
    assert_eq!(expired(&one), [0, 1]);
}

/// `changed` is not called for a deadline that is not the earliest of all processes.
#[test]
fn later_deadlines_of_other_processes_are_not_announced() {
    let one = process();
    let others = [(); 2].map(|()| beside(&one));
    once(&one, 10 * MS);
    let before = one.clocks.changes();
    once(&others[0], 100 * MS);
    once(&others[1], 50 * MS);
    assert_eq!(one.clocks.changes(), before);
}

/// A notice belongs to a timer of one process, even if another process has a timer with that ID.
#[test]
fn notice_of_another_process_is_invalid() {
    let one = process();
    let other = beside(&one);
    once(&one, MS);
    once(&other, MS);
    one.clocks.advance(MS);
    one.driver.turn();
    let notice = one.notices.drain()[0];
    assert_eq!(other.timers.take(notice), None);
    assert!(one.timers.take(notice).is_some());
    assert_eq!(one.timers.take(notice), None);
}

#[test]
fn dropping_a_process_removes_its_deadlines() {
    let one = process();
    let other = beside(&one);
    for _ in 0..100 {
        once(&other, MS);
    }
    let id = once(&one, 2 * MS);
    let Process { timers, notices, .. } = other;
    let clone = timers.clone();
    drop(timers);
    // A clone keeps the process alive.
    one.clocks.advance(MS);
    one.driver.turn();
    assert_eq!(notices.drain().len(), 100);
    for id in 0..100 {
        clone.settime(id, Expiry::After(MS), MS).expect("it is there");
    }
    drop(clone);
    one.clocks.advance(MS);
    assert_eq!(one.driver.turn(), 1);
    assert_eq!((expired(&one), notices.drain().len()), (vec![id], 0));
    assert_eq!(one.driver.next(Base::Monotonic), None);
}

#[test]
fn timers_outlive_the_handle_of_their_driver() {
    let Process { clocks, driver, notices, timers } = process();
    drop(driver);
    let id = armed(&timers, TimerClock::Monotonic, false, MS, Duration::ZERO);
    clocks.advance(MS);
    assert_eq!(timers.driver().turn(), 1);
    assert_eq!(notices.drain().len(), 1);
    assert_eq!(timers.delete(id), Ok(()));
}

/// A process with thousands of due timers does not delay another process's only timer until all of them have expired.
#[test]
fn thousands_of_due_timers_do_not_starve_another_process() {
    use std::sync::{Arc, Mutex};
    use ufutex::timer::{Deliver, Notice};

    /// Records the order of expiries of both processes.
    struct Log(char, Arc<Mutex<String>>);

    impl Deliver for Log {
        fn expired(&self, _: &Timers, _: Notice) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    let crowd = process();
    let log = Arc::new(Mutex::new(String::new()));
    let new = |name| Timers::new(&crowd.driver, Arc::new(Log(name, log.clone()))).expect("the memory is there");
    let (many, one) = (new('m'), new('1'));
    const MANY: usize = 5000;
    for _ in 0..MANY {
        armed(&many, TimerClock::Monotonic, false, MS, Duration::ZERO);
    }
    armed(&one, TimerClock::Monotonic, false, 2 * MS, Duration::ZERO);
    crowd.clocks.advance(3 * MS);
    assert_eq!(crowd.driver.turn(), MANY + 1);
    let order = log.lock().unwrap().clone();
    assert_eq!(order.len(), MANY + 1);
    let before = order.find('1').expect("it has expired");
    assert!(before <= MANY / 10, "{before} others came first");
}

#[test]
fn thousands_at_one_time_all_expire_once() {
    let process = process();
    const MANY: i32 = 5000;
    for _ in 0..MANY {
        once(&process, MS);
    }
    process.clocks.advance(MS);
    assert_eq!(process.driver.turn(), MANY as usize);
    let mut ids = expired(&process);
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..MANY));
    assert_eq!(process.driver.turn(), 0);
}

/// Late turns do not move the deadlines of an interval timer.
#[test]
fn intervals_do_not_drift() {
    for clock in [TimerClock::Monotonic, TimerClock::Realtime, TimerClock::Boottime, TimerClock::Tai] {
        let process = process();
        let interval = Duration::from_nanos(1_000_003);
        let begin = process.clocks.now(Base::Monotonic);
        let id = armed(&process.timers, clock, false, interval, interval);
        let mut deadlines = 0;
        for round in 0..2000u64 {
            process.clocks.advance(Duration::from_nanos(300_000 + round * 7919 % 2_500_000));
            process.driver.turn();
            for notice in process.notices.drain() {
                // The notice is taken some time after the expiry.
                process.clocks.advance(Duration::from_nanos(round % 777));
                let expired = process.timers.take(notice).expect("it was not set again");
                deadlines += 1 + expired.overrun as u64;
                let now = process.clocks.now(Base::Monotonic);
                let passed = ((now - begin).as_nanos() / interval.as_nanos()) as u64;
                assert_eq!(deadlines, passed, "round {round}");
                let left = begin + interval * (passed as u32 + 1) - now;
                assert_eq!(process.timers.gettime(id), Ok(Setting { value: left, interval }));
            }
        }
        assert!(deadlines > 1000);
    }
}

#[test]
fn no_turn_is_needed_without_armed_timers() {
    let process = process();
    let nothing = |when: &str| {
        for base in BASES {
            assert_eq!(process.driver.next(base), None, "{when}: {base:?}");
        }
    };
    nothing("at first");
    let timers: Vec<i32> =
        (0..10).map(|_| process.timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room")).collect();
    let silent = process.timers.create(TimerClock::Realtime, Some(Notify::None)).expect("there is room");
    nothing("made and not set");
    let far = Setting { value: HOUR, interval: HOUR };
    process.timers.settime(silent, Expiry::After(far.value), far.interval).expect("it is there");
    nothing("a SIGEV_NONE timer");
    assert_eq!(process.clocks.changes(), 0);
    for &id in &timers {
        process.timers.settime(id, Expiry::After(far.value), far.interval).expect("it is there");
    }
    assert!(process.driver.next(Base::Monotonic).is_some());
    for &id in &timers {
        process.timers.settime(id, Expiry::Never, Duration::ZERO).expect("it is there");
    }
    nothing("disarmed");
    for &id in &timers {
        process.timers.settime(id, Expiry::After(far.value), far.interval).expect("it is there");
        process.timers.delete(id).expect("it is there");
    }
    nothing("deleted");
    // An expired interval timer is armed again only when its notice is taken.
    armed(&process.timers, TimerClock::Monotonic, false, MS, MS);
    process.clocks.advance(MS);
    assert_eq!(process.driver.turn(), 1);
    nothing("expired");
    let notice = process.notices.drain()[0];
    assert!(process.timers.take(notice).is_some());
    assert!(process.driver.next(Base::Monotonic).is_some());
    process.timers.clear();
    nothing("cleared");
}

/// `Clocks::changed` is called for every new earliest deadline, and for no other.
#[test]
fn changed_is_called_when_the_earliest_deadline_becomes_earlier() {
    let process = process();
    let changes = || process.clocks.changes();
    let ids = [once(&process, HOUR), once(&process, 2 * HOUR)];
    let first = changes();
    assert!(first >= 1);
    assert_eq!(once(&process, 3 * HOUR), 2);
    assert_eq!(changes(), first);
    for length in [MS * 900, MS * 800, MS * 5, MS] {
        let before = changes();
        process.timers.settime(ids[1], Expiry::After(length), HOUR).expect("it is there");
        assert!(changes() > before, "{length:?}");
        let next = process.driver.next(Base::Monotonic).expect("it is armed");
        assert!(next <= process.clocks.now(Base::Monotonic) + length);
    }
    // Taking the notice of an interval timer arms its next deadline.
    process.timers.clear();
    once(&process, 2 * HOUR);
    armed(&process.timers, TimerClock::Monotonic, false, MS, MS);
    process.clocks.advance(MS);
    assert_eq!(process.driver.turn(), 1);
    let before = changes();
    assert!(process.timers.take(process.notices.drain()[0]).is_some());
    assert!(changes() > before);
    // The same holds for timers of another process.
    let before = changes();
    let other = beside(&process);
    once(&other, MS / 2);
    assert!(changes() > before);
}

/// A process disarms the earliest timer. A caller of `next` is then given the time of another process's timer, and
/// sleeps until then.
#[test]
fn changed_is_called_for_a_deadline_before_the_last_answer() {
    let process = process();
    let other = beside(&process);
    once(&other, HOUR);
    for length in [1, 2] {
        let id = once(&process, MS * length);
        let early = process.driver.next(Base::Monotonic).expect("it is armed");
        process.timers.settime(id, Expiry::Never, Duration::ZERO).expect("it is there");
        let before = process.clocks.changes();
        assert!(process.driver.next(Base::Monotonic).expect("the other is armed") > early + MS);
        once(&process, MS * 100);
        assert!(process.clocks.changes() > before);
        process.timers.clear();
    }
}

#[test]
fn next_is_exact_for_a_lone_deadline() {
    for (clock, base) in [
        (TimerClock::Monotonic, Base::Monotonic),
        (TimerClock::Realtime, Base::Realtime),
        (TimerClock::Boottime, Base::Boottime),
        (TimerClock::Tai, Base::Tai),
    ] {
        let process = process();
        let at = process.clocks.now(base) + Duration::from_nanos(123_456_789_012);
        armed(&process.timers, clock, true, at, Duration::ZERO);
        assert_eq!(process.driver.next(base), Some(at));
        process.clocks.advance(Duration::from_nanos(123_456_789_011));
        assert_eq!(process.driver.turn(), 0);
        process.clocks.advance(Duration::from_nanos(1));
        assert_eq!(process.driver.turn(), 1);
    }
}

/// If the embedder turns the driver exactly at the times that `next` returns, every timer expires on time.
#[test]
fn turning_at_the_times_of_next_is_enough() {
    let process = process();
    let begin = process.clocks.now(Base::Monotonic);
    let lengths: Vec<Duration> = (0..500u64).map(|i| Duration::from_nanos(1 + i * i * 37 % 1_000_000_007)).collect();
    for &length in &lengths {
        once(&process, length);
    }
    let mut count = 0;
    let mut turns = 0;
    while let Some(next) = process.driver.next(Base::Monotonic) {
        let now = process.clocks.now(Base::Monotonic);
        process.clocks.advance(next.saturating_sub(now));
        process.driver.turn();
        for id in expired(&process) {
            let at = begin + lengths[id as usize];
            assert_eq!(process.clocks.now(Base::Monotonic), at, "timer {id}");
            count += 1;
        }
        turns += 1;
        assert!(turns < 20_000, "turns lead to nothing");
    }
    assert_eq!(count, lengths.len());
}

const MICROSECOND: u64 = 1000;

/// As the kernel does: gettime shows that an armed timer is overdue, and settime shows its next interval.
#[test]
fn old_setting_of_an_overdue_timer_of_cpu_time_is_its_next_interval() {
    let process = process();
    let clock = CpuClock::Process(1);
    process.clocks.set_cpu_time(clock, Some(0));
    let (value, interval) = (Duration::from_micros(50), Duration::from_micros(300));
    let id = armed(&process.timers, TimerClock::Cpu(clock), false, value, interval);
    process.clocks.set_cpu_time(clock, Some(380 * MICROSECOND));
    let overdue = Setting { value: Duration::from_nanos(1), interval };
    assert_eq!(process.timers.gettime(id), Ok(overdue));
    let next = Setting { value: Duration::from_micros(270), interval };
    assert_eq!(process.timers.settime(id, Expiry::Never, Duration::ZERO), Ok(next));
    // Any other timer shows that it is overdue.
    let id = armed(&process.timers, TimerClock::Monotonic, false, value, interval);
    process.clocks.advance(Duration::from_micros(380));
    assert_eq!(process.timers.settime(id, Expiry::Never, Duration::ZERO), Ok(overdue));
}

/// A thread that ends leaves its timers without a clock, even if another gets its number.
#[test]
fn timers_of_an_ended_thread_do_not_count_the_time_of_another() {
    let clock = CpuClock::Thread(7);
    let find_out: [fn(&Process, i32); 3] = [
        |process, id| assert_eq!(process.timers.settime(id, Expiry::After(MS), MS), Err(Error::NoTask)),
        |process, id| assert_eq!(process.timers.gettime(id), Ok(Setting::default())),
        |process, _| {
            process.clocks.advance(HOUR);
            process.driver.turn();
        },
    ];
    for find_out in find_out {
        let process = process();
        process.clocks.set_cpu_time(clock, Some(5 * MICROSECOND));
        let id = armed(&process.timers, TimerClock::Cpu(clock), false, MS, MS);
        process.clocks.set_cpu_time(clock, None);
        find_out(&process, id);
        process.clocks.set_cpu_time(clock, Some(7 * MICROSECOND));
        assert_eq!(process.timers.gettime(id), Ok(Setting::default()));
        process.clocks.set_cpu_time(clock, Some(HOUR.as_nanos() as u64));
        process.clocks.advance(HOUR);
        process.driver.turn();
        assert!(expired(&process).is_empty());
        assert_eq!(process.driver.next(Base::Monotonic), None);
        assert_eq!(process.timers.gettime(id), Ok(Setting::default()));
        assert_eq!(process.timers.settime(id, Expiry::After(MS), MS), Err(Error::NoTask));
        // A new timer counts for the new thread.
        armed(&process.timers, TimerClock::Cpu(clock), false, MS, Duration::ZERO);
    }
}

/// Clocks of an embedder with this many CPUs.
struct OnCpus(Arc<ManualClocks>, usize);

impl Clocks for OnCpus {
    fn now(&self, base: Base) -> Duration {
        self.0.now(base)
    }
    fn cpu_time(&self, of: CpuClock) -> Option<Duration> {
        self.0.cpu_time(of)
    }
    fn cpus(&self) -> usize {
        self.1
    }
    fn changed(&self) {}
}

/// On n CPUs a process needs at least 80/n ms to use 80 ms of CPU time.
#[test]
fn timer_of_cpu_time_is_looked_at_when_all_cpus_can_have_used_it() {
    let clock = CpuClock::Process(1);
    for (cpus, first) in [(1, 80), (5, 16), (10, 8)] {
        let clocks = ManualClocks::at(MS);
        clocks.set_cpu_time(clock, Some(1000));
        let driver = Driver::with_clocks(Arc::new(OnCpus(clocks.clone(), cpus))).expect("the memory is there");
        let process = Process::of(&clocks, &driver, TimerOptions::new());
        armed(&process.timers, TimerClock::Cpu(clock), false, MS * 80, Duration::ZERO);
        assert_eq!(driver.next(Base::Monotonic), Some(MS + MS * first), "{cpus} CPUs");
    }
}

/// More CPUs than were there at first may run a process.
#[test]
fn timer_of_cpu_time_is_looked_at_every_tenth_of_a_second() {
    let process = process();
    let clock = CpuClock::Process(1);
    process.clocks.set_cpu_time(clock, Some(0));
    armed(&process.timers, TimerClock::Cpu(clock), false, HOUR, Duration::ZERO);
    for _ in 0..3 {
        let next = process.driver.next(Base::Monotonic).expect("it is armed");
        assert_eq!(next - process.clocks.now(Base::Monotonic), MS * 100);
        process.clocks.advance(MS * 100);
        assert_eq!(process.driver.turn(), 1);
        assert!(expired(&process).is_empty());
    }
    process.clocks.set_cpu_time(clock, Some(HOUR.as_nanos() as u64));
    process.clocks.advance(MS * 100);
    process.driver.turn();
    assert_eq!(expired(&process), [0]);
}
