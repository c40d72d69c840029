//! The driver's thread does not inherit the policy, nice value and CPUs of the thread that arms the first timer.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ufutex::timer::{Cpus, Driver, DriverThread, Expiry, Setting, TimerClock, TimerOptions, Timers};

use crate::common::PATIENCE;
use crate::common::asleep::thread_id;
use crate::common::kernel::{pointer, succeeded, syscall};
use crate::common::skipped::skip;

/// Held by a test that starts a driver's thread, so that there is one such thread at a time.
static ONE: Mutex<()> = Mutex::new(());

fn mask_of(thread: i32) -> Vec<u8> {
    let mut mask = vec![0u8; 1024];
    let args = [thread as u64, mask.len() as u64, pointer(mask.as_mut_ptr()), 0, 0, 0];
    // SAFETY: writes to the mask.
    succeeded("sched_getaffinity", unsafe { syscall(libc::SYS_sched_getaffinity, args) });
    mask
}

fn cpus_of(mask: &[u8]) -> Vec<u32> {
    (0..8 * mask.len() as u32).filter(|cpu| mask[*cpu as usize / 8] >> (cpu % 8) & 1 != 0).collect()
}

fn bind(thread: i32, mask: &[u8]) {
    let args = [thread as u64, mask.len() as u64, pointer(mask.as_ptr()), 0, 0, 0];
    // SAFETY: reads the mask.
    succeeded("sched_setaffinity", unsafe { syscall(libc::SYS_sched_setaffinity, args) });
}

pub fn bind_to(thread: i32, cpu: u32) {
    let mut mask = vec![0u8; 1024];
    mask[cpu as usize / 8] |= 1 << (cpu % 8);
    bind(thread, &mask);
}

pub fn set_policy(policy: i32, priority: i32) -> bool {
    // SAFETY: a `sched_param` begins with the priority.
    unsafe { syscall(libc::SYS_sched_setscheduler, [0, policy as u64, pointer(&raw const priority), 0, 0, 0]) == 0 }
}

/// Whether a thread of this user may do this. It is tried: besides root's rights, limits decide (`RLIMIT_NICE`,
/// `RLIMIT_RTPRIO`), and root may have no rights, as in a container.
fn may(try_it: impl FnOnce() -> bool + Send) -> bool {
    std::thread::scope(|scope| scope.spawn(try_it).join().expect("it does not panic"))
}

fn may_be_realtime() -> bool {
    may(|| set_policy(libc::SCHED_FIFO, 99))
}

fn may_leave_idle() -> bool {
    may(|| set_policy(libc::SCHED_IDLE, 0) && set_policy(libc::SCHED_OTHER, 0))
}

fn may_be_less_nice() -> bool {
    may(|| set_nice(15) && set_nice(0))
}

/// A CPU of this process, if this user may have threads with a real-time priority.
pub fn one_cpu() -> Option<u32> {
    may_be_realtime().then(|| cpus_of(&mask_of(0))[0])
}

fn set_nice(nice: i32) -> bool {
    // SAFETY: changes this thread's nice value.
    unsafe { syscall(libc::SYS_setpriority, [libc::PRIO_PROCESS.into(), 0, nice as u64, 0, 0, 0]) == 0 }
}

#[derive(PartialEq, Eq, Debug)]
struct Scheduled {
    policy: i32,
    priority: i32,
    nice: i32,
    cpus: Vec<u32>,
}

impl Scheduled {
    fn of(thread: i32) -> Option<Self> {
        let mut priority = 0i32;
        // SAFETY: numbers, and room for one.
        unsafe {
            let policy = syscall(libc::SYS_sched_getscheduler, [thread as u64, 0, 0, 0, 0, 0]) as i32;
            syscall(libc::SYS_sched_getparam, [thread as u64, pointer(&raw mut priority), 0, 0, 0, 0]);
            // The system call returns 20 minus the nice value, because negative results are errors.
            let args = [libc::PRIO_PROCESS.into(), thread as u64, 0, 0, 0, 0];
            let nice = 20 - syscall(libc::SYS_getpriority, args) as i32;
            (policy >= 0).then(|| Self { policy, priority, nice, cpus: cpus_of(&mask_of(thread)) })
        }
    }
}

fn drivers_threads() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").expect("there are threads");
    let is_drivers = |tid: &i32| {
        let name = fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        name.is_ok_and(|name| name.trim() == "ufutex-timers")
    };
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).filter(is_drivers).collect()
}

/// The scheduling of the thread of `driver`, after a thread that has called `becomes` armed the first timer.
fn when_armed_by(becomes: impl FnOnce() + Send, driver: &Driver, is_right: impl Fn(&Scheduled) -> bool) -> Scheduled {
    let before = drivers_threads();
    let (timers, expiries) = Timers::channel(driver, TimerOptions::new()).expect("there is memory");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            becomes();
            let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
            let value = Setting { value: Duration::from_millis(1), ..Setting::default() };
            timers.settime(id, Expiry::After(value.value), value.interval).expect("it is there");
        });
    });
    assert!(expiries.recv_timeout(ufutex::Timeout::After(PATIENCE)).is_some());
    let begun = Instant::now();
    loop {
        let found = drivers_threads().into_iter().find(|tid| !before.contains(tid)).and_then(Scheduled::of);
        if let Some(found) = found
            && (is_right(&found) || begun.elapsed() > PATIENCE / 2)
        {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// How long a thread has run, in nanoseconds, and how often it got a CPU. `None` if it has ended.
fn runs(thread: i32) -> Option<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    Some([numbers.next()?, numbers.nth(1)?])
}

/// A thread that spins in poll(2) is never asleep: it runs, or waits for a CPU.
fn is_asleep(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// The notice that a clock was set wakes the driver's thread once. It sleeps again then.
#[test]
fn thread_that_was_woken_because_a_clock_was_set_sleeps_again() {
    if cfg!(miri) || std::env::var_os("UFUTEX_EMULATED").is_some() {
        skip("/proc shows the emulator's threads");
        return;
    }
    if runs(thread_id()).is_none_or(|[_, slices]| slices == 0) {
        skip("/proc/self/task/TID/schedstat does not count here");
        return;
    }
    let _one = one();
    let driver = Driver::host().expect("there is memory");
    let timers = Timers::new(&driver, std::sync::Arc::new(ufutex::timer::Callback(|_: &Timers, _| {})))
        .expect("there is memory");
    let id = timers.create(TimerClock::Realtime, None).expect("there is room");
    timers.settime(id, Expiry::After(Duration::from_secs(3600)), Duration::ZERO).expect("it is there");
    let begun = Instant::now();
    let sleeps_after = |least: u64| loop {
        let mut seen = [None; 5];
        let thread = drivers_threads().first().copied();
        for one in &mut seen {
            *one = thread.filter(|&thread| is_asleep(thread)).and_then(runs);
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some([_, slices]) = seen[0]
            && slices >= least
            && seen.iter().all(|one| *one == seen[0])
        {
            return slices;
        }
        assert!(begun.elapsed() < PATIENCE, "the driver's thread is not asleep: {thread:?}, {seen:?}");
    };
    let before = sleeps_after(1);
    driver.clock_was_set();
    sleeps_after(before + 1);
}

/// The default scheduling of the driver's thread. Without privileges it keeps the nice value of the process, as after
/// `nice cargo test`.
fn process() -> Scheduled {
    let main = std::process::id() as i32;
    let nice = if may_be_less_nice() { 0 } else { nice_of_process() };
    Scheduled { policy: libc::SCHED_OTHER, priority: 0, nice, cpus: cpus_of(&mask_of(main)) }
}

fn nice_of_process() -> i32 {
    Scheduled::of(std::process::id() as i32).expect("it is there").nice
}

/// Locks `ONE`.
pub fn one() -> impl Drop {
    let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    wait_until_there_is_none();
    one
}

/// The driver's threads, as several reads of /proc together show them. A single read may leave out a thread while
/// others end.
fn several_reads() -> BTreeSet<i32> {
    let begun = Instant::now();
    let mut found = BTreeSet::new();
    while found.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "there is no thread");
        std::thread::yield_now();
        found.extend(drivers_threads());
    }
    for _ in 0..5 {
        found.extend(drivers_threads());
    }
    found
}

/// Waits until the threads of earlier drivers are gone. A driver that is dropped does not wait for its thread.
fn wait_until_there_is_none() {
    let begun = Instant::now();
    while !drivers_threads().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "a driver's thread outlives its driver");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn idle_thread_that_arms_first_does_not_make_the_driver_idle() {
    let _one = one();
    if !may_leave_idle() {
        skip("a thread that is idle may not make another one that is not, without CAP_SYS_NICE or RLIMIT_NICE");
        return;
    }
    let driver = Driver::host().expect("there is memory");
    let idle = || assert!(set_policy(libc::SCHED_IDLE, 0));
    assert_eq!(when_armed_by(idle, &driver, |found| *found == process()), process());
}

#[test]
fn niced_thread_that_arms_first_does_not_make_the_driver_nice() {
    let _one = one();
    if !may_be_less_nice() {
        skip("a thread that is niced may not make another one that is not, without CAP_SYS_NICE or RLIMIT_NICE");
        return;
    }
    let driver = Driver::host().expect("there is memory");
    let niced = || assert!(set_nice(15));
    assert_eq!(when_armed_by(niced, &driver, |found| *found == process()), process());
}

#[test]
fn realtime_thread_that_arms_first_does_not_make_the_driver_one() {
    let _one = one();
    let driver = Driver::host().expect("there is memory");
    let realtime = || {
        if !set_policy(libc::SCHED_RR, 7) {
            skip("this user may not have real-time threads (CAP_SYS_NICE or RLIMIT_RTPRIO)");
        }
    };
    assert_eq!(when_armed_by(realtime, &driver, |found| *found == process()), process());
}

#[test]
fn bound_thread_that_arms_first_does_not_bind_the_driver() {
    let _one = one();
    let expected = process();
    if expected.cpus.len() < 2 {
        skip("the process has one CPU, to which everything is bound");
        return;
    }
    let driver = Driver::host().expect("there is memory");
    let cpu = expected.cpus[1];
    assert_eq!(when_armed_by(|| bind_to(0, cpu), &driver, |found| found.cpus == expected.cpus), expected);
}

/// taskset(1) binds the process, and with it the driver.
#[test]
fn driver_stays_on_the_cpus_of_the_process() {
    let _one = one();
    let main = std::process::id() as i32;
    let before = mask_of(main);
    let last = *cpus_of(&before).last().expect("there is a CPU");
    bind_to(main, last);
    let driver = Driver::host().expect("there is memory");
    let found = when_armed_by(|| bind(0, &before), &driver, |found| found.cpus == [last]);
    bind(main, &before);
    assert_eq!(found.cpus, [last]);
}

#[test]
fn driver_is_scheduled_as_configured() {
    let _one = one();
    let first = process().cpus[0];
    let nice = process().nice.max(3) as i8;
    let settings = DriverThread::new().nice(nice).cpus(Cpus::Only([first].into()));
    let driver = Driver::host_with(settings).expect("there is memory");
    let expected = Scheduled { nice: nice.into(), cpus: vec![first], ..process() };
    assert_eq!(when_armed_by(|| {}, &driver, |found| *found == expected), expected);
    let driver = Driver::host_with(DriverThread::new().cpus(Cpus::Starter)).expect("there is memory");
    let bound = Scheduled { cpus: vec![first], ..process() };
    assert_eq!(when_armed_by(|| bind_to(0, first), &driver, |found| *found == bound), bound);
    if !may_be_realtime() || !may_leave_idle() {
        skip("this user may not have real-time threads (CAP_SYS_NICE or RLIMIT_RTPRIO)");
        return;
    }
    let config = ufutex::SystemConfig::new().driver_thread(DriverThread::new().realtime(5));
    let system = ufutex::System::with_config(config).expect("there is memory");
    let expected = Scheduled { policy: libc::SCHED_FIFO, priority: 5, ..process() };
    let idle = || assert!(set_policy(libc::SCHED_IDLE, 0));
    assert_eq!(when_armed_by(idle, system.driver(), |found| *found == expected), expected);
}

/// Settings that are not permitted are ignored. Here the thread gives up its rights, and the CPU does not exist.
#[test]
fn driver_runs_although_its_settings_are_not_permitted() {
    let _one = one();
    // SAFETY: the system call drops the privileges of this thread and of those that it starts later. It fails for a user
    // without privileges.
    let gives_up_its_rights = || unsafe { syscall(libc::SYS_setresuid, [65534, 65534, 65534, 0, 0, 0]) };
    let still = || {
        gives_up_its_rights();
        set_policy(libc::SCHED_FIFO, 99) || set_nice(-20)
    };
    if may(still) {
        return skip("this user's limits permit real-time threads (RLIMIT_RTPRIO, RLIMIT_NICE)");
    }
    let settings = DriverThread::new().nice(-20).realtime(99).cpus(Cpus::Only([8191].into()));
    let driver = Driver::host_with(settings).expect("there is memory");
    let nice = nice_of_process().max(5); // lowering it below that of the process takes privileges
    let unprivileged = || {
        gives_up_its_rights();
        assert!(set_nice(nice));
    };
    let found = when_armed_by(unprivileged, &driver, |found| found.policy == libc::SCHED_OTHER);
    assert_eq!((found.policy, found.nice), (libc::SCHED_OTHER, nice));
}

/// A driver's thread that was started explicitly has the default scheduling.
#[test]
fn driver_can_be_started_before_its_first_timer() {
    let _one = one();
    let driver = Driver::host().expect("there is memory");
    assert_eq!(driver.start(), Ok(()));
    let found = several_reads();
    assert_eq!(driver.start(), Ok(()));
    let idle = || assert!(set_policy(libc::SCHED_IDLE, 0));
    let (timers, expiries) = Timers::channel(&driver, TimerOptions::new()).expect("there is memory");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            idle();
            let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
            let value = Setting { value: Duration::from_millis(1), ..Setting::default() };
            timers.settime(id, Expiry::After(value.value), value.interval).expect("it is there");
        });
    });
    assert!(expiries.recv_timeout(ufutex::Timeout::After(PATIENCE)).is_some());
    assert_eq!(several_reads(), found, "one thread is enough");
    assert_eq!(found.iter().map(|tid| Scheduled::of(*tid)).collect::<Vec<_>>(), [Some(process())]);
}

/// Many threads start the driver at the same time. One driver's thread is started.
#[test]
fn driver_is_started_once() {
    let _one = one();
    for _ in 0..50 {
        wait_until_there_is_none();
        let driver = Driver::host().expect("there is memory");
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    assert_eq!(driver.start(), Ok(()));
                });
            }
        });
        assert_eq!(several_reads().len(), 1);
    }
}
