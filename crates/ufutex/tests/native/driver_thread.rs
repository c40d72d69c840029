//! What becomes of futures and timers if the host refuses what the driver's thread takes.

#![cfg(target_os = "linux")]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ufutex::timer::{Expiry, TimerClock, TimerOptions, Timers};
use ufutex::{Domain, Error, System, WaitOptions};

use crate::common::emulated;
use crate::common::kernel::now;
use crate::common::refuse::refuse;
use crate::common::skipped::skip;

/// The first timeout of a future or the first timer starts the driver's thread. If the host refuses one of the system
/// calls that this takes, they say so, and the next ones try again.
#[test]
fn driver_whose_thread_is_refused_starts_later() {
    // glibc tries clone3(2) and then clone(2). It may have a stack left from another thread, or map one.
    let always: [&[_]; 4] = [
        &[(libc::SYS_timerfd_create, libc::EMFILE)],
        &[(libc::SYS_epoll_create1, libc::ENFILE)],
        &[(libc::SYS_epoll_ctl, libc::ENOSPC)],
        &[(libc::SYS_clone3, libc::ENOSYS), (libc::SYS_clone, libc::EAGAIN)],
    ];
    let stacks: [&[_]; 2] = [&[(libc::SYS_mmap, libc::ENOMEM)], &[(libc::SYS_mprotect, libc::ENOMEM)]];
    let is_sanitized = std::env::var_os("UFUTEX_SANITIZED").is_some();
    if is_sanitized {
        skip("a sanitizer ends the process if its own memory for a thread is refused");
    }
    let stacks = stacks.into_iter().filter(|_| !is_sanitized);
    for (calls, may_succeed) in always.map(|calls| (calls, false)).into_iter().chain(stacks.map(|calls| (calls, true)))
    {
        let by_future = (starts_by_future as fn(&System) -> _, Error::NoMemory);
        // timer_create(2) reports EAGAIN.
        for (starts, error) in [by_future, (starts_by_timer, Error::Again)] {
            let system = System::new();
            let refuses = || {
                calls.iter().try_for_each(|&(number, errno)| refuse(number, errno))?;
                Ok::<_, String>(starts(&system))
            };
            match std::thread::scope(|scope| scope.spawn(refuses).join().expect("no panic")) {
                Ok(Ok(())) => assert!(may_succeed, "{calls:?}"),
                Ok(refused) => assert_eq!(refused, Err(error), "{calls:?}"),
                Err(reason) => return skip(reason),
            }
            assert_eq!(starts(&system), Ok(()));
        }
    }
}

/// Polls a future whose timeout is far away.
fn starts_by_future(system: &System) -> Result<(), Error> {
    let domain: Domain = Domain::new(system);
    let word = AtomicU32::new(0);
    let far = WaitOptions::new().timeout(Duration::from_secs(3600));
    let wait = pin!(domain.wait_async(&word, 0, &far));
    match wait.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => Ok(()),
        Poll::Ready(result) => result.map(drop),
    }
}

/// Makes a timer and sets it.
fn starts_by_timer(system: &System) -> Result<(), Error> {
    let (timers, _expiries) = Timers::channel(system.driver(), TimerOptions::new())?;
    let id = timers.create(TimerClock::Monotonic, None)?;
    timers.settime(id, Expiry::After(Duration::from_secs(3600)), Duration::ZERO).map(drop)
}

/// Limits the process to the files that it has open, and `more`.
fn limit_files(more: usize) {
    // One of them is the open directory.
    let open = std::fs::read_dir("/proc/self/fd").expect("/proc is mounted").count() - 1;
    let limit = (open + more) as libc::rlim_t;
    let few = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: `few` outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few) }, 0);
}

/// Runs the calling test, `name`, again in a process of its own. `false` in that process.
fn has_run_alone(name: &str) -> bool {
    const ALONE: &str = "UFUTEX_FEW_FILES";
    if std::env::var_os(ALONE).is_some() {
        return false;
    }
    let output = emulated::test_alone(&format!("driver_thread::{name}"), ALONE).output();
    let output = output.expect("the test's program can be executed");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{}:\n{said}", output.status);
    true
}

/// The thread of a driver that has been dropped closes its files a moment later. The next driver waits for them if the
/// process may open no others.
#[test]
fn driver_waits_for_the_files_of_one_that_is_ending() {
    if has_run_alone("driver_waits_for_the_files_of_one_that_is_ending") {
        return;
    }
    limit_files(5);
    for round in 0..200 {
        let system = System::new();
        let (timers, expiries) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
        let id = timers.create(TimerClock::Monotonic, None).unwrap_or_else(|error| panic!("{error} in round {round}"));
        timers.settime(id, Expiry::After(Duration::from_nanos(1)), Duration::ZERO).expect("it is there");
        assert_eq!(expiries.recv().id, id);
    }
    let system = System::new();
    assert_eq!(system.driver().start(), Ok(()));
    assert_eq!(System::new().driver().start(), Err(Error::NoMemory), "the other one does not end");
}

/// A program may lower its limit of open files below the number that the thread waits for, as sandboxes do. The timers
/// go on, and the thread sleeps between them.
#[test]
fn driver_whose_files_are_above_the_limit_sleeps() {
    if has_run_alone("driver_whose_files_are_above_the_limit_sleeps") {
        return;
    }
    let system = System::new();
    let (timers, expiries) = Timers::channel(system.driver(), TimerOptions::new()).expect("there is memory");
    let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
    timers.settime(id, Expiry::After(Duration::from_millis(1)), Duration::ZERO).expect("it is there");
    assert_eq!(expiries.recv().id, id);
    let few = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    // SAFETY: `few` outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few) }, 0);
    timers.settime(id, Expiry::After(Duration::from_millis(1)), Duration::ZERO).expect("it is there");
    assert_eq!(expiries.recv().id, id);
    // Beside other work an endless loop may get little of a CPU in any short time. So it has to do with less than a
    // tenth.
    let (begun, used) = (Instant::now(), now(libc::CLOCK_PROCESS_CPUTIME_ID));
    std::thread::sleep(Duration::from_secs(1));
    let (passed, used) = (begun.elapsed(), now(libc::CLOCK_PROCESS_CPUTIME_ID) - used);
    assert!(used < passed / 10, "{used:?} of CPU time in {passed:?}");
}
