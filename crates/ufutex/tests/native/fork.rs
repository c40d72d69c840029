//! A child of fork(2) abandons its copies, and goes on with fresh ones, whatever other threads were doing.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

use ufutex::pi::{Priority, Scheduler};
use ufutex::timer::{Base, Clocks, Deliver, Driver, Expiry, Notice, TimerClock, Timers};
use ufutex::{Config, Domain, Error, Options, PidNamespace, StaticDomain, System, WaitOptions, Waiter};

use crate::common::emulated;

const SOON: Duration = Duration::from_micros(50);

static FUTEXES: StaticDomain = StaticDomain::new();
static WORD: AtomicU32 = AtomicU32::new(0);

/// Everything that a program may have of a system.
struct All {
    system: System,
    domain: Domain,
    timers: Timers,
}

impl All {
    fn new() -> Self {
        let system = System::new();
        let domain = Domain::with_options(&system, Options::new());
        let (timers, expiries) = Timers::channel(system.driver(), Default::default()).expect("there is memory");
        // The driver's thread has started when a timer has expired. A thread that is starting holds a lock of the
        // standard library at times. If the process forked then, the child could start no threads.
        let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
        timers.settime(id, Expiry::After(SOON), Duration::ZERO).expect("it is there");
        assert_eq!(expiries.recv().id, id);
        Self { system, domain, timers }
    }

    /// Uses all of it for a moment, and the domains that are shared by the process.
    fn use_briefly(&self, word: &AtomicU32, tid: u32) {
        let soon = WaitOptions::new().timeout(SOON);
        let ended = self.domain.wait_with(word, 0, &soon);
        assert!(matches!(ended, Ok(()) | Err(Error::TimedOut)), "{ended:?}");
        self.domain.wake(word, 1);
        let ended = FUTEXES.wait_with(&WORD, 0, &soon);
        assert!(matches!(ended, Ok(()) | Err(Error::TimedOut)), "{ended:?}");
        FUTEXES.wake(&WORD, 1);
        ufutex::wait_timeout(&WORD, 0, SOON);
        ufutex::wake_one(&WORD);
        let task = self.domain.task(tid).expect("the TID is free");
        let lock = AtomicU32::new(0);
        self.domain.lock_pi(&lock, &task, None).expect("it is free");
        self.domain.unlock_pi(&lock, &task).expect("it is ours");
        let id = self.timers.create(TimerClock::Monotonic, None).expect("there is room");
        self.timers.settime(id, Expiry::After(SOON), SOON).expect("it is there");
        self.timers.delete(id).expect("it is there");
        self.domain.set_slots(if tid.is_multiple_of(2) { 64 } else { 16 }).expect("there is memory");
    }
}

/// What the child does. Returns its exit status.
fn child(all: All, word: &AtomicU32) -> i32 {
    // SAFETY: the first thing in the child, and this thread is in no operation.
    unsafe {
        all.system.abandon_after_fork();
        FUTEXES.abandon_after_fork();
        ufutex::abandon_after_fork();
    }
    drop(all);
    let fresh = Arc::new(All::new());
    let other = std::thread::spawn({
        let fresh = fresh.clone();
        move || (0..10).for_each(|_| fresh.use_briefly(&WORD, 2))
    });
    (0..10).for_each(|_| fresh.use_briefly(word, 1));
    i32::from(other.join().is_err())
}

const NAME: &str = "fork::child_abandons_its_copies_and_goes_on_with_fresh_ones";
/// Set in a process that makes one round of the test.
const ALONE: &str = "UFUTEX_FORK_ALONE";

/// Each round has a process of its own. A thread that starts or ends holds a lock of the standard library for a moment.
/// If the thread of another test did, or one of the round before, when the process forked, the child could start no
/// thread.
#[test]
fn child_abandons_its_copies_and_goes_on_with_fresh_ones() {
    if std::env::var_os(ALONE).is_some() {
        return round();
    }
    for _ in 0..40 {
        let mut again = emulated::command(std::env::current_exe().expect("a test is a program"));
        again.args(["--exact", NAME, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
        let output = again.output().expect("the test's program can be executed");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{}:\n{said}", output.status);
    }
}

fn round() {
    let all = All::new();
    let (word, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let have_started = Barrier::new(4);
    std::thread::scope(|scope| {
        for tid in 1..=3 {
            let (all, word, is_over, have_started) = (&all, &word, &is_over, &have_started);
            scope.spawn(move || {
                have_started.wait();
                while !is_over.load(Ordering::Relaxed) {
                    all.use_briefly(word, tid);
                }
            });
        }
        have_started.wait();
        // What this thread has, and drops in the child.
        let task = all.domain.task(99).expect("it is free");
        let other = AtomicU32::new(0);
        let mut waiter = pin!(Waiter::new());
        let queued = all.domain.prepare_with(waiter.as_mut(), &other, 0, &WaitOptions::new(), Waker::noop().clone());
        let far = WaitOptions::new().timeout(Duration::from_secs(3600));
        let mut wait = Box::pin(all.domain.wait_async(&other, 0, far));
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::thread::sleep(SOON);
        // SAFETY: the child starts threads, as glibc allows, and ends by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: a hanging child must not outlive the test.
            unsafe { libc::alarm(crate::common::PATIENCE.as_secs() as u32) };
            // SAFETY: the child's copy; the parent's is its own.
            let mine = unsafe { std::ptr::read(&raw const all) };
            // SAFETY: as in `child`; before the drops.
            unsafe { mine.system.abandon_after_fork() };
            drop((queued, wait, task));
            let status = child(mine, &word);
            // SAFETY: has no conditions.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: the status is written.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(status, 0, "the child hung (a signal) or failed");
    });
}

/// What a program gives to a system or to timers. It counts its drops.
struct Given;

static DROPPED: AtomicU32 = AtomicU32::new(0);

impl Drop for Given {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Scheduler for Given {
    fn set_priority(&self, _tid: u32, _priority: Priority) {}
}

impl Deliver for Given {
    fn expired(&self, _timers: &Timers, _notice: Notice) {}
}

impl Clocks for Given {
    fn now(&self, _base: Base) -> Duration {
        Duration::ZERO
    }
    fn changed(&self) {}
}

/// A thread that the child does not have may have been in the middle of a change of anything that it shared: of the line
/// of expired timers, which it was moving to a larger piece of memory, or of the lists of a system. The child must not
/// free these, even when it drops their last handle.
#[test]
fn child_frees_nothing_that_another_thread_may_have_been_changing() {
    let system = System::with_scheduler(Config::new(), Arc::new(Given)).expect("there is memory");
    let [driver, idle] = [(); 2].map(|()| Driver::with_clocks(Arc::new(Given)).expect("there is memory"));
    let timers = Timers::new(&driver, Arc::new(Given)).expect("there is memory");
    let namespace = PidNamespace::new(&system).expect("there is memory");
    let domain = Domain::in_namespace(&namespace, Options::new());
    let task = domain.task(1).expect("the TID is free");
    let all = (task, domain, namespace, timers, driver, idle, system);
    // SAFETY: the child starts no thread, and ends by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        // SAFETY: the first thing in the child, and this thread is in no operation.
        unsafe {
            all.4.abandon_after_fork();
            all.5.abandon_after_fork();
            all.6.abandon_after_fork();
        }
        drop(all);
        // SAFETY: has no conditions.
        unsafe { libc::_exit(DROPPED.load(Ordering::Relaxed) as i32) };
    }
    let mut status = 0;
    // SAFETY: the status is written.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status >> 8, 0, "drops in the child");
    drop(all);
    assert_eq!(DROPPED.load(Ordering::Relaxed), 4, "the parent drops them");
}
