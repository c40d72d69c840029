//! A child of fork(2) abandons its copies, and goes on with fresh ones, whatever other threads were doing.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

use ufutex::pi::{Priority, Scheduler, WAITERS};
use ufutex::timer::{Base, Clocks, Deliver, Driver, Expiry, Notice, TimerClock, Timers};
use ufutex::{
    Clock, Domain, DomainOptions, Error, PidNamespace, StaticDomain, System, SystemConfig, Timeout, WaitOptions, Waiter,
};

use crate::common::asleep::until;
use crate::common::emulated;
use crate::common::guest_memory::{Event, GuestMemory};
use crate::common::skipped::skip;

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
        let domain = Domain::with_options(&system, DomainOptions::new());
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
        let ended = FUTEXES.get().and_then(|domain| domain.wait_with(&WORD, 0, &soon));
        assert!(matches!(ended, Ok(()) | Err(Error::TimedOut)), "{ended:?}");
        FUTEXES.wake(&WORD, 1);
        ufutex::wait_timeout(&WORD, 0, SOON);
        ufutex::wake_one(&WORD);
        let task = self.domain.task(tid).expect("the TID is free");
        let lock = AtomicU32::new(0);
        self.domain.lock_pi(&lock, &task).expect("it is free");
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
#[cfg_attr(feature = "fixed", ignore = "the table is set once")]
fn child_abandons_its_copies_and_goes_on_with_fresh_ones() {
    if std::env::var_os(ALONE).is_some() {
        return round();
    }
    for _ in 0..40 {
        let output = emulated::test_alone(NAME, ALONE).output().expect("the test's program can be executed");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // So it is with qemu-user 7.2, in each round.
        if emulated::lacks_the_kernel().is_some() && said.contains("qemu_plugin_vcpu_init_hook: assertion failed") {
            return skip("the emulator fails an assertion of its own if a child of fork(2) starts a thread");
        }
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
        let mut wait = Box::pin(all.domain.wait_async(&other, 0, &far));
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
    let system = System::with_scheduler(SystemConfig::new(), Arc::new(Given)).expect("there is memory");
    let [driver, idle] = [(); 2].map(|()| Driver::with_clocks(Arc::new(Given)).expect("there is memory"));
    let timers = Timers::new(&driver, Arc::new(Given)).expect("there is memory");
    let namespace = PidNamespace::new(&system).expect("there is memory");
    let domain = Domain::in_namespace(&namespace, DomainOptions::new());
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

thread_local! {
    /// How many accesses of this thread pass the gate before one stops at it; negative: all.
    static PASSES: Cell<i32> = const { Cell::new(-1) };
}

/// Threads that have stopped at the gate.
static STOPPED: AtomicU32 = AtomicU32::new(0);
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Stops the calling thread until the gate is open, if it was told to stop.
fn gate() {
    let passes = PASSES.get();
    PASSES.set((passes - 1).max(-1));
    if passes == 0 {
        STOPPED.fetch_add(1, Ordering::SeqCst);
        while !IS_OPEN.load(Ordering::SeqCst) {
            std::thread::sleep(SOON);
        }
    }
}

/// Runs `call` on this thread, which stops at the gate after `passes` accesses.
fn stops<R>(passes: i32, call: impl FnOnce() -> R) -> R {
    PASSES.set(passes);
    let result = call();
    assert_eq!(PASSES.replace(-1), -1, "it has stopped");
    result
}

/// A clock that the test sets, with the gate before it.
struct Gated(AtomicU64);

impl Clocks for Gated {
    fn now(&self, base: Base) -> Duration {
        if base == Base::Realtime {
            gate();
        }
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
    fn changed(&self) {}
}

/// At the fork one thread is in the middle of a lock's operation, and has locked its bucket and the graph. Another
/// one is in the middle of the driver's turn, and has locked the queue of the timeouts. The child has neither thread. It
/// drops everything, which must not wait for these locks.
#[test]
fn child_waits_for_no_lock_that_another_thread_held() {
    let clocks = Arc::new(Gated(AtomicU64::new(1)));
    let system = System::with_config(SystemConfig::new().clocks(clocks.clone())).expect("a valid configuration");
    let domain = Domain::with_options(&system, DomainOptions::new());
    let memory = GuestMemory::with_hook(|event, _| {
        if event == Event::Load {
            gate();
        }
        Ok(())
    });
    let [owner, stopped, locker, requeued] = [1, 2, 3, 4].map(|tid| domain.task(tid).expect("it is free"));
    let [lock, from, other] = [0, 64, 128].map(|offset| memory.target(offset));
    domain.lock_pi(lock, &owner).expect("it is free");
    let all = (domain, system, owner, locker, requeued);
    std::thread::scope(|scope| {
        let (domain, system, _, locker, requeued) = &all;
        let mut context = Context::from_waker(Waker::noop());
        let mut locks = Box::pin(domain.lock_pi_async(lock, locker, &WaitOptions::new()));
        assert!(locks.as_mut().poll(&mut context).is_pending());
        let mut is_requeued = Box::pin(domain.wait_requeue_pi_async(from, 0, lock, requeued, &WaitOptions::new()));
        assert!(is_requeued.as_mut().poll(&mut context).is_pending());
        let before = |seconds| WaitOptions::new().timeout(Timeout::At(Clock::Realtime, Duration::from_secs(seconds)));
        let mut due = Box::pin(domain.wait_async(other, 0, &before(1000)));
        assert!(due.as_mut().poll(&mut context).is_pending());
        // In the bucket that is locked.
        let mut far = Box::pin(domain.wait_async(lock, u64::from(1 | WAITERS), &before(1_000_000)));
        assert!(far.as_mut().poll(&mut context).is_pending());
        clocks.0.store(2000, Ordering::SeqCst);
        let turns = scope.spawn(|| stops(1, || system.driver().turn()));
        let tries = scope.spawn(|| stops(0, || domain.try_lock_pi(lock, &stopped)));
        until("both threads have stopped", || STOPPED.load(Ordering::SeqCst) == 2);
        // SAFETY: the child starts no thread, and ends by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: a hanging child must not outlive the test.
            unsafe { libc::alarm(crate::common::PATIENCE.as_secs() as u32) };
            // SAFETY: the first thing in the child, and this thread is in no operation.
            unsafe { all.1.abandon_after_fork() };
            drop((far, due, is_requeued, locks));
            // SAFETY: the child's copy; the parent's is its own.
            let (domain, system, owner, locker, requeued) = unsafe { std::ptr::read(&raw const all) };
            drop((owner, locker, requeued));
            drop((domain, system));
            // SAFETY: has no conditions.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the status is written.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        IS_OPEN.store(true, Ordering::SeqCst);
        assert_eq!(turns.join().expect("it does not panic"), 1, "one deadline has passed");
        assert_eq!(tries.join().expect("it does not panic"), Err(Error::Again));
        assert_eq!(status, 0, "the child hung (a signal) or failed");
    });
}
