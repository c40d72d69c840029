//! The driver with its own thread, which sleeps while no timer is due.

use std::sync::Arc;
use std::time::Duration;

use ufutex::timer::{Callback, Driver, Expired, Expiry, Notify, TimerCall, TimerClock, Timers};

use crate::common::libc;

const MS: Duration = Duration::from_millis(1);
const SIGNAL: Option<Notify> = Some(Notify::Signal { signal: 10, value: 5 });

#[test]
fn timers_of_every_clock_expire_without_turns_by_the_test() {
    let (send, expired) = std::sync::mpsc::channel();
    let tell = move |_: &Timers, expired: Expired| _ = send.send(expired.id);
    let timers =
        Timers::new(&Driver::host().expect("the memory is there"), Arc::new(Callback(tell))).expect("likewise");
    for clock in [TimerClock::Monotonic, TimerClock::Realtime, TimerClock::Boottime, TimerClock::Tai] {
        let id = timers.create(clock, SIGNAL).expect("there is room");
        timers.settime(id, Expiry::After(MS), Duration::ZERO).expect("it is there");
        assert_eq!(expired.recv_timeout(crate::common::PATIENCE), Ok(id));
    }
}

#[test]
fn numbers_of_the_calls_are_the_kernels() {
    let calls = [
        (libc::SYS_timer_create, TimerCall::Create),
        (libc::SYS_timer_settime, TimerCall::Settime),
        (libc::SYS_timer_gettime, TimerCall::Gettime),
        (libc::SYS_timer_getoverrun, TimerCall::Getoverrun),
        (libc::SYS_timer_delete, TimerCall::Delete),
        (libc::SYS_prctl, TimerCall::Prctl),
    ];
    for (number, call) in calls {
        let found = if cfg!(target_arch = "x86_64") { TimerCall::x86_64 } else { TimerCall::generic }(number as u64);
        assert_eq!(found, Some(call));
    }
    for number in [0, 202, 221, 227, 283, 286, u64::MAX] {
        assert_eq!(TimerCall::x86_64(number), None, "{number}");
    }
}

#[cfg(target_os = "linux")] // by /proc
mod of_linux {
    use crate::alone::alone;
    use crate::clock::Notices;
    use crate::common::asleep::until;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// The total number of voluntary context switches of the other threads of this process, and the number of these
    /// threads.
    fn sleeps_of_others() -> (u64, usize) {
        let this = crate::common::asleep::thread_id().to_string();
        let tasks = std::fs::read_dir("/proc/self/task").expect("a process has threads");
        let others = tasks.filter_map(|task| task.ok()).filter(|task| task.file_name() != *this);
        let statuses: Vec<String> =
            others.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok()).collect();
        let sleeps = |status: &String| {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        };
        (statuses.iter().filter_map(sleeps).sum(), statuses.len())
    }

    /// Checks that, after all work in progress has ended, no other thread wakes up for a while.
    #[track_caller]
    fn assert_no_thread_wakes(when: &str) {
        let is_quiet = || {
            let before = sleeps_of_others();
            std::thread::sleep(60 * MS);
            sleeps_of_others() == before
        };
        assert!((0..10).any(|_| is_quiet()), "{when}");
    }

    #[test]
    fn no_thread_wakes_up_needlessly() {
        alone("host::of_linux::no_thread_wakes_up_needlessly", || {
            let threads = sleeps_of_others().1;
            let notices = Arc::new(Notices::default());
            let driver = Driver::host().expect("the memory is there");
            let timers = Timers::new(&driver, notices.clone()).expect("the memory is there");
            assert_eq!(sleeps_of_others().1, threads, "a thread before there is a timer");
            let ids: Vec<i32> =
                (0..100).map(|_| timers.create(TimerClock::Monotonic, SIGNAL).expect("there is room")).collect();
            assert!(sleeps_of_others().1 <= threads + 1);
            assert_no_thread_wakes("nothing is armed");
            ids.iter().for_each(|&id| _ = timers.settime(id, Expiry::After(HOUR), HOUR).expect("it is there"));
            assert_no_thread_wakes("all are far away");
            let soon = Expiry::After(30 * MS);
            for &id in &ids {
                timers.settime(id, soon, MS).expect("it is there");
                timers.settime(id, Expiry::Never, Duration::ZERO).expect("it is there");
            }
            assert_no_thread_wakes("all were disarmed");
            timers.settime(ids[0], soon, MS).expect("it is there");
            timers.delete(ids[0]).expect("it is there");
            assert_no_thread_wakes("deleted");
            // An interval timer whose notice is not taken does not expire again.
            timers.settime(ids[1], Expiry::After(MS), MS).expect("it is there");
            until("it expires", || !notices.drain().is_empty());
            assert_no_thread_wakes("its notice is out");
            drop((timers, driver));
            until("the thread ends", || sleeps_of_others().1 <= threads);
        });
    }
}
