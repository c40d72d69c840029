//! Regression tests for defects that a review found: lost timers, memory leaks, and turns that did not end.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ufutex::Error;
use ufutex::timer::{
    Base, Callback, Clocks, CpuClock, Deliver, Driver, Expired, Expiry, Notice, TimerClock, TimerOptions, Timers,
};

use crate::clock::ManualClocks;
use crate::common::PATIENCE;

const MS: Duration = Duration::from_millis(1);

/// Timers whose expiries are counted.
fn counting(driver: &Driver) -> (Timers, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let its = count.clone();
    (calling(driver, move |_, _| _ = its.fetch_add(1, SeqCst)), count)
}

fn calling(driver: &Driver, call: impl Fn(&Timers, Expired) + Send + Sync + 'static) -> Timers {
    Timers::new(driver, Arc::new(Callback(call))).expect("there is memory")
}

fn armed(timers: &Timers, absolute: bool, value: Duration) -> i32 {
    let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
    timers
        .settime(id, if absolute { Expiry::At(value) } else { Expiry::After(value) }, Duration::ZERO)
        .expect("it was made");
    id
}

fn patiently(what: &str, mut has_come: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !has_come() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(MS);
    }
}

#[test]
fn memory_of_timers_deleted_by_other_threads_is_reused() {
    let driver = Driver::with_clocks(ManualClocks::at(MS)).expect("there is memory");
    let (timers, _) = counting(&driver);
    // A thread's shard is chosen by its stack address, so several threads use several shards.
    let deleters: Vec<_> = (0..8)
        .map(|_| {
            let (ids, given) = mpsc::channel::<Vec<i32>>();
            let (done, finished) = mpsc::channel();
            let timers = timers.clone();
            thread::spawn(move || {
                for ids in given {
                    ids.into_iter().for_each(|id| timers.delete(id).expect("it was made"));
                    _ = done.send(());
                }
            });
            (ids, finished)
        })
        .collect();
    for (ids, finished) in deleters.iter().cycle().take(400) {
        let made = (0..1000).map(|_| timers.create(TimerClock::Monotonic, None).expect("there is room")).collect();
        ids.send(made).expect("it is there");
        finished.recv().expect("it answers");
    }
    assert!(timers.bytes() < 2_000_000, "{} bytes", timers.bytes());
}

#[test]
fn timers_without_room_for_their_notices_are_not_made() {
    struct Full;
    impl Deliver for Full {
        fn expired(&self, _: &Timers, _: Notice) {}
        fn reserve(&self, _: usize) -> Result<(), ufutex::Error> {
            Err(ufutex::Error::NoMemory)
        }
    }
    let driver = Driver::with_clocks(ManualClocks::at(MS)).expect("there is memory");
    let timers = Timers::new(&driver, Arc::new(Full)).expect("there is memory");
    for _ in 0..200 {
        assert_eq!(timers.create(TimerClock::Monotonic, None), Err(ufutex::Error::Again));
    }
}

#[test]
fn timer_set_to_the_past_in_its_delivery_starves_no_other_timer() {
    let driver = Driver::host().expect("there is memory");
    let begun = Instant::now();
    let bad = calling(&driver, move |timers, expired| {
        if begun.elapsed() < PATIENCE {
            timers.settime(expired.id, Expiry::At(Duration::from_nanos(1)), Duration::ZERO).expect("it is there");
        }
    });
    armed(&bad, true, Duration::from_nanos(1));
    let (good, count) = counting(&driver);
    armed(&good, false, 10 * MS);
    let boottime = good.create(TimerClock::Boottime, None).expect("there is room");
    good.settime(boottime, Expiry::After(10 * MS), Duration::ZERO).expect("it was made");
    let starved = begun + PATIENCE / 2;
    while count.load(SeqCst) != 2 && Instant::now() < starved {
        thread::sleep(MS);
    }
    assert_eq!(count.load(SeqCst), 2);
    bad.clear();
}

#[test]
fn timer_set_to_the_past_during_a_turn_expires_in_the_next_turn() {
    let driver = Driver::with_clocks(ManualClocks::at(MS)).expect("there is memory");
    let left = AtomicUsize::new(1000);
    let timers = calling(&driver, move |timers, expired| {
        if left.fetch_sub(1, SeqCst) != 0 {
            timers.settime(expired.id, Expiry::At(Duration::from_nanos(1)), Duration::ZERO).expect("it is there");
        }
    });
    armed(&timers, true, Duration::from_nanos(1));
    for _ in 0..1000 {
        assert_eq!(driver.turn(), 1);
    }
}

#[test]
fn panic_of_a_delivery_loses_no_timer() {
    let clocks = ManualClocks::at(MS);
    let driver = Driver::with_clocks(clocks.clone()).expect("there is memory");
    let count = Arc::new(AtomicUsize::new(0));
    let its = count.clone();
    let timers = calling(&driver, move |_, _| assert_ne!(its.fetch_add(1, SeqCst), 0, "the first one panics"));
    [2, 2, 3].into_iter().for_each(|at| _ = armed(&timers, true, at * MS));
    clocks.advance(MS);
    let turned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.turn()));
    assert!(turned.is_err());
    clocks.advance(MS);
    assert_eq!((driver.turn(), count.load(SeqCst)), (2, 3));
    armed(&timers, true, 9 * MS);
    assert_eq!(driver.next(Base::Monotonic), Some(9 * MS));
}

#[test]
fn panic_of_a_delivery_does_not_end_the_drivers_thread() {
    let driver = Driver::host().expect("there is memory");
    let count = Arc::new(AtomicUsize::new(0));
    let its = count.clone();
    let timers = calling(&driver, move |_, _| assert_ne!(its.fetch_add(1, SeqCst), 0, "the first one panics"));
    (0..3).for_each(|_| _ = armed(&timers, false, MS));
    patiently("the thread is gone", || count.load(SeqCst) == 3);
}

#[test]
fn next_is_not_later_than_the_earliest_when_the_clock_was_set_back() {
    let clocks = ManualClocks::at(Duration::from_secs(1000));
    let driver = Driver::with_clocks(clocks.clone()).expect("there is memory");
    let all: Vec<_> = (0..30)
        .map(|_| Timers::channel(&driver, TimerOptions::new()).expect("there is memory").0)
        .map(|timers| (timers.create(TimerClock::Realtime, None).expect("there is room"), timers))
        .collect();
    let set = |index: usize, at: Duration| {
        all[index].1.settime(all[index].0, Expiry::At(at), Duration::ZERO).expect("it was made")
    };
    set(0, Duration::from_secs(2000));
    driver.turn();
    clocks.set(Base::Realtime, MS);
    driver.clock_was_set();
    for index in (1..30).rev() {
        let at = Duration::from_secs(index as u64);
        set(index, at);
        let next = driver.next(Base::Realtime);
        assert!(next.is_some_and(|next| next <= at), "{next:?} after {at:?}");
    }
}

#[cfg(target_os = "linux")] // which has fork(2) and eventfds
mod of_linux {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::sync::atomic::AtomicU64;

    use ufutex::timer::{Clocks, EventFd};

    use super::*;

    #[test]
    fn forked_child_that_drops_its_handles_does_not_affect_the_parent() {
        let driver = Driver::host().expect("there is memory");
        let (timers, count) = counting(&driver);
        armed(&timers, false, 200 * MS);
        // By now the driver's thread sleeps, or holds its locks.
        thread::sleep(50 * MS);
        // SAFETY: the child only drops its handles and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(timers);
            // SAFETY: exits the child.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: a null status pointer is allowed.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        patiently("the parent's timer never expires", || count.load(SeqCst) == 1);
    }

    /// The clock is set back between the turn's last read of it and the delivery's.
    #[test]
    fn overrun_below_zero_is_one_expiry_and_ends_the_turn() {
        /// The deadline has passed in this many more readings.
        struct SetBack(AtomicU64);
        impl Clocks for SetBack {
            fn now(&self, base: Base) -> Duration {
                if base != Base::Realtime {
                    return MS;
                }
                let has_passed = self.0.fetch_update(SeqCst, SeqCst, |readings| readings.checked_sub(1)).is_ok();
                Duration::from_nanos(if has_passed { 1500 } else { 500 })
            }
            fn changed(&self) {}
        }
        let clocks = Arc::new(SetBack(AtomicU64::new(0)));
        let driver = Driver::with_clocks(clocks.clone()).expect("there is memory");
        // SAFETY: a new descriptor that is not owned elsewhere.
        let file = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) };
        let fd = file.as_raw_fd();
        let timers = Timers::new(&driver, Arc::new(EventFd::new(file))).expect("there is memory");
        let id = timers.create(TimerClock::Realtime, None).expect("there is room");
        timers.settime(id, Expiry::At(Duration::from_nanos(1000)), MS).expect("it was made");
        // The turn reads the clock when it begins, and when it takes the timer off its queue.
        clocks.0.store(2, SeqCst);
        driver.turn();
        let mut count = 0u64;
        // SAFETY: the buffer has eight bytes.
        unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
        assert_eq!(count, 1);
    }
}

/// Clocks of a thread that ends when its CPU time has been read `reads` more times.
struct Ending {
    others: Arc<ManualClocks>,
    reads: AtomicUsize,
}

impl Clocks for Ending {
    fn now(&self, base: Base) -> Duration {
        self.others.now(base)
    }
    fn cpu_time(&self, _: CpuClock) -> Option<Duration> {
        self.reads.fetch_update(SeqCst, SeqCst, |reads| reads.checked_sub(1)).is_ok().then_some(MS)
    }
    fn cpus(&self) -> usize {
        2
    }
    fn changed(&self) {}
}

/// A thread ends while a timer of its CPU time is set. The timer is out of the driver's queues then, and can be deleted.
#[test]
fn timer_of_a_thread_that_ends_while_it_is_set_waits_for_nothing() {
    let mut failures = 0;
    for reads in 0..6 {
        let clocks = Arc::new(Ending { others: ManualClocks::at(MS), reads: AtomicUsize::new(usize::MAX) });
        let driver = Driver::with_clocks(clocks.clone()).expect("there is memory");
        let (timers, count) = counting(&driver);
        let id = timers.create(TimerClock::Cpu(CpuClock::Thread(7)), None).expect("there is room");
        timers.settime(id, Expiry::After(MS), Duration::ZERO).expect("the thread is there");
        assert!(driver.next(Base::Monotonic).is_some());
        clocks.reads.store(reads, SeqCst);
        let set = timers.settime(id, Expiry::After(2 * MS), Duration::ZERO);
        failures += usize::from(set == Err(Error::NoTask));
        timers.delete(id).expect("it was made");
        assert_eq!(driver.next(Base::Monotonic), None, "after {reads} readings: {set:?}");
        let ids: Vec<_> = (0..40).map(|_| armed(&timers, false, MS)).collect();
        clocks.others.advance(MS);
        driver.turn();
        assert_eq!(count.load(SeqCst), ids.len());
    }
    assert!(failures > 1, "it failed at {failures} of the readings");
}

/// Clocks that count how often the CPU time of a process is read.
struct Read {
    others: Arc<ManualClocks>,
    cpu_ns: AtomicUsize,
    count: AtomicUsize,
}

impl Clocks for Read {
    fn now(&self, base: Base) -> Duration {
        self.others.now(base)
    }
    fn cpu_time(&self, _: CpuClock) -> Option<Duration> {
        self.count.fetch_add(1, SeqCst);
        Some(Duration::from_nanos(self.cpu_ns.load(SeqCst) as u64))
    }
    fn cpus(&self) -> usize {
        2
    }
    fn changed(&self) {}
}

/// A process with many timers of its CPU time sleeps. The driver looks at the clock for all of them together 125,000 times
/// a second. When the process runs, each timer expires.
#[test]
fn many_timers_of_cpu_time_are_looked_at_in_turns() {
    const TIMERS: usize = 10_000;
    const LATE: u32 = 80;
    let (cpu_ns, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let clocks = Arc::new(Read { others: ManualClocks::at(MS), cpu_ns, count });
    let driver = Driver::with_clocks(clocks.clone()).expect("there is memory");
    let (timers, expired) = counting(&driver);
    for round in 1..=2 {
        let ids: Vec<_> = (0..TIMERS)
            .map(|_| {
                let id = timers.create(TimerClock::Cpu(CpuClock::Process(1)), None).expect("there is room");
                timers.settime(id, Expiry::After(MS / 2), Duration::ZERO).expect("the process is there");
                id
            })
            .collect();
        clocks.count.store(0, SeqCst);
        for _ in 0..1000 {
            clocks.others.advance(MS);
            driver.turn();
        }
        let reads = clocks.count.load(SeqCst);
        assert!((TIMERS..=125_000 + TIMERS).contains(&reads), "{reads} readings in a second");
        clocks.cpu_ns.fetch_add(MS.as_nanos() as usize, SeqCst);
        for _ in 0..=LATE {
            clocks.others.advance(MS);
            driver.turn();
        }
        assert_eq!(expired.load(SeqCst), round * TIMERS);
        ids.into_iter().for_each(|id| timers.delete(id).expect("it was made"));
    }
    // Those that were deleted do not count.
    let id = timers.create(TimerClock::Cpu(CpuClock::Process(1)), None).expect("there is room");
    timers.settime(id, Expiry::After(MS / 2), Duration::ZERO).expect("the process is there");
    clocks.count.store(0, SeqCst);
    for _ in 0..1000 {
        clocks.others.advance(MS);
        driver.turn();
    }
    assert!((100..200).contains(&clocks.count.load(SeqCst)));
}
