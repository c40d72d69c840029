//! How a contender for a bucket sleeps. The unlock may miss it, so it sleeps for a bounded time and looks again.

use std::cell::Cell;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ufutex::platform::{Clock, Deadline, Host, Platform};
use ufutex::{Domain, DomainOptions, Error, System, SystemConfig};

use crate::common::PATIENCE;
use crate::common::asleep::{thread_id, until};
use crate::common::guest_memory::GuestMemory;
use crate::common::patient::within_patience;
use crate::common::skipped::skip;

// What a contender expects in the word that it sleeps on, as in `lock/state.rs`.
const ASLEEP: u32 = 0b1;
/// A contender is starving.
const STARVING: u32 = 0b11;
/// The lock is granted to a contender that was starving.
const GRANTED: u32 = 0b111;

/// A bucket's lock, and a thread that holds it: it waits on word 0, and loads the word with the bucket locked.
struct Held {
    domain: Arc<Domain>,
    words: Arc<GuestMemory>,
    holder: JoinHandle<Result<(), Error>>,
    release: Sender<()>,
}

impl Held {
    fn new(system: &System) -> Self {
        let domain = Arc::new(Domain::with_options(system, DomainOptions::new().early_return(false)));
        let words = Arc::new(GuestMemory::new());
        let (send, is_held) = channel();
        let (release, released) = channel();
        let released = Mutex::new(released);
        let memory = GuestMemory::of_words(&words, move |_, _| {
            send.send(()).expect("the test waits for it");
            _ = released.lock().expect("not poisoned").recv();
            Ok(())
        });
        let its_domain = domain.clone();
        let holder = std::thread::spawn(move || its_domain.wait(memory.target(0), 1));
        is_held.recv_timeout(PATIENCE).expect("the word is loaded");
        Self { domain, words, holder, release }
    }

    /// A thread that calls `begin`, and then contends for the lock.
    fn contender(&self, begin: impl FnOnce() + Send + 'static) -> JoinHandle<Result<(), Error>> {
        let (domain, words) = (self.domain.clone(), self.words.clone());
        std::thread::spawn(move || {
            begin();
            domain.wait(words.target(0), 1)
        })
    }

    /// Lets the holder unlock, and checks that it and `contenders` end.
    fn release(self, contenders: impl IntoIterator<Item = JoinHandle<Result<(), Error>>>) {
        drop(self.release);
        let waiters: Vec<_> = iter::once(self.holder).chain(contenders).collect();
        within_patience("a wait", || {
            for waiter in waiters {
                assert_eq!(waiter.join().expect("no panic"), Err(Error::Again));
            }
        });
    }
}

/// Runs `meanwhile` while one thread holds a bucket's lock and another one, whose number it gets, contends for it. Then
/// the lock is released, and both threads have to end.
fn while_one_contends(system: &System, meanwhile: impl FnOnce(i32)) {
    let held = Held::new(system);
    let (send, thread) = channel();
    let contender = held.contender(move || send.send(thread_id()).expect("the test waits for it"));
    meanwhile(thread.recv_timeout(PATIENCE).expect("the contender begins"));
    held.release([contender]);
}

fn system_on<P: Platform>() -> System {
    System::with_config(SystemConfig::new().platform::<P>()).expect("the memory is there")
}

/// A platform that loses every wake. Its first sleeps end at once, and move its clock to their deadlines. Later the
/// clock stands still, and `park` only yields.
struct Deaf;

/// The time on `Deaf`'s clock, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);
/// Of the first sleeps by `Deaf`: the value that was expected, and how long the sleep was.
static SLEEPS: Mutex<Vec<(u32, Duration)>> = Mutex::new(Vec::new());
const FIRST_SLEEPS: usize = 12;

impl Platform for Deaf {
    fn park(_word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let Deadline { at, .. } = deadline.expect("nobody sleeps for ever where no wake comes");
        let mut sleeps = SLEEPS.lock().expect("not poisoned");
        if sleeps.len() < FIRST_SLEEPS {
            sleeps.push((expected, at.saturating_sub(Self::now(Clock::Monotonic))));
            NOW.store(at.as_nanos() as u64, SeqCst);
        }
        drop(sleeps);
        Host::yield_now();
    }
    fn unpark(_word: *const AtomicU32, _count: usize) -> usize {
        0
    }
    fn now(_clock: Clock) -> Duration {
        Duration::from_nanos(NOW.load(SeqCst))
    }
}

/// It expects `ASLEEP` each time: it does not become starving, since no other thread has taken the lock.
#[test]
fn contender_that_is_not_woken_sleeps_twice_as_long_each_time() {
    let first_sleeps = || SLEEPS.lock().expect("not poisoned").clone();
    while_one_contends(&system_on::<Deaf>(), |_| {
        until("the contender has slept", || first_sleeps().len() == FIRST_SLEEPS);
    });
    let expected: Vec<_> = (0..FIRST_SLEEPS).map(|i| (ASLEEP, Duration::from_millis(1 << i))).collect();
    assert_eq!(first_sleeps(), expected);
}

/// The host's platform without deadlines: a thread sleeps until it is woken.
struct Patient;

/// How many sleeps by `Patient` have begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);

impl Platform for Patient {
    fn park(word: &AtomicU32, expected: u32, _deadline: Option<Deadline>) {
        BEGUN.fetch_add(1, SeqCst);
        Host::park(word, expected, None);
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        Host::unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        Host::now(clock)
    }
}

/// The unlock has to wake the contender, whose sleep does not end by itself here. It sees `contended`, which was raised
/// long before.
#[test]
fn unlock_wakes_a_contender_that_sleeps() {
    while_one_contends(&system_on::<Patient>(), |_| until("the contender sleeps", || BEGUN.load(SeqCst) != 0));
}

/// A platform that loses every wake, and on which the thread that has called [`Stalled::stall`] gets no CPU once it is
/// starving. The sleeps of others end at once, and move its clock to their deadlines. Only sleep number `BEFORE_GRANT` ends
/// when `unpark` is called: then the lock has been granted.
struct Stalled;

/// The time on `Stalled`'s clock, in nanoseconds.
static STALLED_NOW: AtomicU64 = AtomicU64::new(0);
/// The sleeps of the threads that are not stalled: the value that was expected, and how long the sleep was.
static OTHERS_SLEEPS: Mutex<Vec<(u32, Duration)>> = Mutex::new(Vec::new());
/// How many sleeps of others begin before the lock is granted. The last of them ends at the grant.
const BEFORE_GRANT: usize = 3;
static IS_STARVING: AtomicBool = AtomicBool::new(false);
static IS_GRANTED: AtomicBool = AtomicBool::new(false);
static HAS_CPU_AGAIN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_STALLED: Cell<bool> = const { Cell::new(false) };
}

impl Stalled {
    fn stall() {
        IS_STALLED.set(true);
    }
}

/// Returns when `flag` is set. A test that fails leaves it unset, so it must not use up a CPU.
fn sleep_until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Platform for Stalled {
    fn park(_word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        if IS_STALLED.get() {
            if expected == STARVING {
                IS_STARVING.store(true, SeqCst);
                sleep_until(&HAS_CPU_AGAIN);
            }
            // Longer than a contender's patience, and shorter than its first sleep.
            STALLED_NOW.fetch_add(600_000, SeqCst);
            return;
        }
        let Deadline { at, .. } = deadline.expect("nobody sleeps for ever where no wake comes");
        let mut sleeps = OTHERS_SLEEPS.lock().expect("not poisoned");
        sleeps.push((expected, at.saturating_sub(Self::now(Clock::Monotonic))));
        let ends_at_grant = sleeps.len() == BEFORE_GRANT;
        drop(sleeps);
        if ends_at_grant {
            sleep_until(&IS_GRANTED);
        }
        STALLED_NOW.fetch_max(at.as_nanos() as u64, SeqCst);
    }
    fn unpark(_word: *const AtomicU32, _count: usize) -> usize {
        IS_GRANTED.store(true, SeqCst);
        0
    }
    fn now(_clock: Clock) -> Duration {
        Duration::from_nanos(STALLED_NOW.load(SeqCst))
    }
}

/// A contender that has slept for long looks again soon once the lock is granted to another one, and claims it when it
/// is starving itself.
#[test]
fn lock_that_is_granted_to_a_thread_without_a_cpu_is_taken_by_the_next() {
    let others_sleeps = || OTHERS_SLEEPS.lock().expect("not poisoned").clone();
    let held = Held::new(&system_on::<Stalled>());
    let other = held.contender(|| ());
    until("the contender has slept", || others_sleeps().len() == BEFORE_GRANT);
    let stalled = held.contender(Stalled::stall);
    until("the other contender is starving", || IS_STARVING.load(SeqCst));
    held.release([other]);
    HAS_CPU_AGAIN.store(true, SeqCst);
    assert_eq!(within_patience("a wait", || stalled.join().expect("no panic")), Err(Error::Again));
    let expected = [(ASLEEP, 1), (ASLEEP, 2), (ASLEEP, 4), (GRANTED, 1)];
    assert_eq!(others_sleeps(), expected.map(|(value, ms)| (value, Duration::from_millis(ms))));
}

#[cfg(target_os = "linux")]
mod on_the_host {
    use std::io;

    use super::*;
    use crate::common::asleep::sleeps_in;
    use crate::common::domains::system;

    /// `None` if the thread does not sleep as a contender for a bucket; otherwise whether its sleep has a timeout.
    fn contention(thread: i32) -> Option<bool> {
        let (number, [_, _, expected, timeout, ..]) = sleeps_in(thread)?;
        (number == libc::SYS_futex && [ASLEEP, STARVING].map(u64::from).contains(&expected)).then_some(timeout != 0)
    }

    #[test]
    fn contender_sleeps_for_a_bounded_time() {
        while_one_contends(&system(), |thread| {
            let mut is_bounded = None;
            until("the contender sleeps", || {
                is_bounded = contention(thread);
                is_bounded.is_some()
            });
            assert_eq!(is_bounded, Some(true));
        });
    }

    /// The error of membarrier(2)'s command for a barrier: `EPERM` in a process that has not registered. `None` if it
    /// succeeds.
    fn barrier() -> Option<i32> {
        // SAFETY: membarrier(2) reads and writes no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) };
        if result == 0 { None } else { io::Error::last_os_error().raw_os_error() }
    }

    /// Registering for membarrier(2) waits for a grace period of RCU: for seconds at worst, if all CPUs are busy.
    #[test]
    fn contender_does_not_register_for_membarrier() {
        match barrier() {
            Some(libc::EPERM) => {}
            Some(error) => return skip(format_args!("membarrier(2): {}", io::Error::from_raw_os_error(error))),
            None => return skip("the process has registered, as some C libraries do"),
        }
        while_one_contends(&system(), |thread| until("the contender sleeps", || contention(thread).is_some()));
        assert_eq!(barrier(), Some(libc::EPERM), "the process has registered");
    }
}
