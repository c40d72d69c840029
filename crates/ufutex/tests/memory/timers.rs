//! Timers and their driver.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ufutex::timer::{
    Callback, CpuClock, CpuSet, Cpus, Driver, DriverThread, Expired, Expiry, TimerClock, TimerOptions, Timers,
};
use ufutex::{Callbacks, Domain, Error};

use crate::allocator::for_every_failure;
use crate::works::{at_last, system, system_with_clocks, works};

const SECOND: Duration = Duration::from_secs(1);

/// A timer that is set expires, and is received.
fn expires(timers: &Timers, expiries: &ufutex::timer::Expiries, turn: impl Fn()) {
    let id = timers.create(TimerClock::Monotonic, None).expect("there is memory");
    timers.settime(id, Expiry::After(Duration::from_nanos(1)), Duration::ZERO).expect("there is memory");
    turn();
    assert_eq!(expiries.recv().id, id);
    timers.delete(id).expect("it is there");
}

pub fn tables() -> usize {
    for_every_failure(|memory| {
        let (system, time) = system_with_clocks();
        let deliver = || Callbacks::try_new(Callback(|_: &Timers, _: Expired| ()));
        let called = at_last(memory, || Timers::new(system.driver(), deliver()?));
        let (timers, expiries) = at_last(memory, || Timers::channel(system.driver(), TimerOptions::new()));
        let driver = at_last(memory, || Driver::with_clocks(time.clone()));
        drop((called, driver));
        expires(&timers, &expiries, || {
            time.0.fetch_add(2_000_000_000, Relaxed);
            system.driver().turn();
        });
    })
}

/// Makes, sets, reads and deletes timers, some of them twice.
pub fn lives() -> usize {
    for_every_failure(|memory| {
        let (system, _) = system_with_clocks();
        let (timers, _expiries) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
        for round in 1..4 {
            let id = at_last(memory, || timers.create(TimerClock::Realtime, None));
            at_last(memory, || timers.settime(id, Expiry::At(SECOND * round), SECOND));
            assert_eq!(memory.during(|| timers.gettime(id)).map(|setting| setting.interval), Ok(SECOND));
            assert_eq!(memory.during(|| timers.getoverrun(id)), Ok(0));
            assert_eq!(memory.during(|| timers.delete(id)), Ok(()));
            assert_eq!(memory.during(|| timers.delete(id)), Err(Error::Invalid));
        }
        works(&Domain::new(&system));
    })
}

/// More timers than a chunk of memory and the first table of IDs hold.
pub fn many() -> usize {
    for_every_failure(|memory| {
        let (system, time) = system_with_clocks();
        let (timers, expiries) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
        let ids: Vec<_> = (0..600).map(|_| at_last(memory, || timers.create(TimerClock::Boottime, None))).collect();
        for &id in &ids {
            at_last(memory, || timers.settime(id, Expiry::After(SECOND), Duration::ZERO));
        }
        time.0.store(3_000_000_000, Relaxed);
        let failed = memory.has_failed();
        assert_eq!(memory.during(|| system.driver().turn()), 600);
        assert_eq!(memory.during(|| std::iter::from_fn(|| expiries.try_recv()).count()), 600);
        memory.during(|| timers.clear());
        assert_eq!((timers.count(), memory.has_failed()), (0, failed), "only making timers needs memory");
    })
}

/// A timer whose memory was refused does not count against the limit.
pub fn limit() -> usize {
    for_every_failure(|memory| {
        let (system, _) = system_with_clocks();
        let options = TimerOptions::new().max_timers(3);
        let (timers, _expiries) = Timers::channel(system.driver(), options).expect("there is memory");
        for _ in 0..3 {
            at_last(memory, || timers.create(TimerClock::Monotonic, None));
        }
        assert_eq!(timers.create(TimerClock::Monotonic, None), Err(Error::Again));
    })
}

pub fn given_ids() -> usize {
    for_every_failure(|memory| {
        let (system, _) = system_with_clocks();
        let (timers, _expiries) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
        for id in [0, 1, 63, 64, 5000, 1 << 20, i32::MAX] {
            assert_eq!(at_last(memory, || timers.create_as(id, TimerClock::Monotonic, None)), id);
            assert_eq!(memory.during(|| timers.create_as(id, TimerClock::Monotonic, None)), Err(Error::Busy));
        }
        at_last(memory, || timers.create(TimerClock::Monotonic, None));
        assert_eq!(timers.count(), 8);
    })
}

pub fn clocks_of_cpu_time() -> usize {
    for_every_failure(|memory| {
        let driver = at_last(memory, Driver::host);
        let (timers, _expiries) = at_last(memory, || Timers::channel(&driver, TimerOptions::new()));
        let clock = TimerClock::Cpu(CpuClock::Process(0));
        let id = at_last(memory, || timers.create(clock, None));
        at_last(memory, || timers.settime(id, Expiry::After(1000 * SECOND), Duration::ZERO));
        assert_eq!(memory.during(|| timers.delete(id)), Ok(()));
    })
}

pub fn expiry_and_channel() -> usize {
    for_every_failure(|memory| {
        let (system, time) = system_with_clocks();
        let (timers, expiries) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
        let id = at_last(memory, || timers.create(TimerClock::Tai, None));
        // Each setting makes the notice before it void.
        for round in 1..200 {
            at_last(memory, || timers.settime(id, Expiry::After(SECOND), SECOND));
            time.0.store(5_000_000_000 * round, Relaxed);
            memory.during(|| system.driver().turn());
        }
        assert_eq!(memory.during(|| expiries.try_recv()).map(|expired| expired.id), Some(id));
        assert_eq!(memory.during(|| expiries.try_recv()), None);
    })
}

/// The calls that start the driver's thread.
pub fn thread_of_the_driver() -> usize {
    for_every_failure(|memory| {
        let cpus = Cpus::Only(at_last(memory, || CpuSet::try_new([0, 8191, 8192])));
        let driver = at_last(memory, || Driver::host_with(DriverThread::new().cpus(cpus.clone())));
        at_last(memory, || driver.start());
        let system = system();
        let (timers, expiries) = at_last(memory, || Timers::channel(system.driver(), TimerOptions::new()));
        let id = at_last(memory, || timers.create(TimerClock::Monotonic, None));
        at_last(memory, || timers.settime(id, Expiry::After(Duration::from_nanos(1)), Duration::ZERO));
        assert_eq!(expiries.recv().id, id);
        expires(&timers, &expiries, || ());
        works(&Domain::new(&system));
    })
}

/// Timers are set and expire without an allocation, by the caller's thread and the driver's.
pub fn thread_of_the_driver_delivers() -> usize {
    for_every_failure(|memory| {
        let system = system();
        let (timers, expiries) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
        let ids: Vec<_> =
            (0..100).map(|_| timers.create(TimerClock::Monotonic, None).expect("there is memory")).collect();
        let mut received = Vec::with_capacity(ids.len());
        memory.during(|| {
            for &id in &ids {
                let set = timers.settime(id, Expiry::After(Duration::from_micros(1)), Duration::ZERO);
                set.expect("it needs no memory");
            }
            received.extend(ids.iter().map(|_| expiries.recv().id));
        });
        assert!(!memory.has_just_failed());
        received.sort_unstable();
        assert!(received.is_sorted_by(|a, b| a < b));
    })
}
