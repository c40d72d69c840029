//! Timers with a simulated clock: created, set, taken, deleted and dropped with their process while another thread
//! turns the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ufutex::PidNamespace;
use ufutex::timer::{Callback, Expired, Expiry, TimerClock, Timers};

use crate::clocks::{driver, system, while_it_turns};

const US: Duration = Duration::from_micros(1);

#[test]
fn timers_are_set_and_deleted_while_they_expire() {
    let driver = driver();
    let expired = Arc::new(AtomicUsize::new(0));
    let counted = expired.clone();
    let count = move |_: &Timers, _: Expired| _ = counted.fetch_add(1, Ordering::Relaxed);
    let timers = Timers::new(&driver, Arc::new(Callback(count))).expect("there is memory");
    while_it_turns(&driver, || {
        for round in 0..4 {
            let ids = [0, 7].map(|interval| {
                let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
                timers.settime(id, Expiry::After((1 + round) * US), interval * US).expect("it is there");
                id
            });
            assert!(timers.getoverrun(ids[0]).is_ok() && timers.gettime(ids[1]).is_ok());
            ids.iter().for_each(|&id| timers.delete(id).expect("it is there"));
        }
    });
    assert_eq!(timers.count(), 0);
}

#[test]
fn processes_are_dropped_while_the_driver_turns() {
    let driver = driver();
    while_it_turns(&driver, || {
        for round in 0..4 {
            let (timers, expiries) = Timers::channel(&driver, Default::default()).expect("there is memory");
            let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
            timers.settime(id, Expiry::After((1 + round) * US), US).expect("it is there");
            _ = expiries.try_recv();
        }
    });
}

/// Processes of two guests that share a driver: while one stands in line, others of its guest wait behind it.
#[test]
fn processes_are_dropped_while_they_are_in_line() {
    let system = system();
    let guests = [(); 2].map(|()| PidNamespace::new(&system).expect("there is memory"));
    while_it_turns(system.driver(), || {
        for round in 0..3 {
            let processes: Vec<_> = (0..6)
                .map(|number| {
                    let driver = guests[number % 2].driver();
                    let (timers, expiries) = Timers::channel(driver, Default::default()).expect("there is memory");
                    let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
                    timers.settime(id, Expiry::After((1 + round) * US), US).expect("it is there");
                    (timers, expiries)
                })
                .collect();
            processes.into_iter().rev().for_each(|(_, expiries)| _ = expiries.try_recv());
        }
    });
}

#[test]
fn two_threads_turn_and_two_make_timers() {
    let driver = driver();
    let (timers, expiries) = Timers::channel(&driver, Default::default()).expect("there is memory");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..3).map(|_| driver.turn()).sum::<usize>());
            scope.spawn(|| {
                let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
                timers.settime(id, Expiry::After(2 * US), Duration::ZERO).expect("it is there");
                timers.delete(id).expect("it is there");
            });
        }
    });
    _ = expiries.try_recv();
    assert_eq!(timers.count(), 0);
}
