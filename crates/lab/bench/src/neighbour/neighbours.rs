//! The neighbour's operations. Each one is timed.

use super::guest;
use anyhow::{Context as _, Result, bail, ensure};
use hdrhistogram::Histogram;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex::timer::{Expiries, Expiry, TimerClock, TimerOptions, Timers};
use ufutex::{At, Domain, Error, ObjectId, System, Target, Timeout, WaitOptions, Waiter};

/// Number of the neighbour's shared object. The attackers' objects have greater numbers.
const OBJECT: u64 = 1;
/// Number of shared words that the neighbour uses in turn. With this many, most buckets of its global table are used.
const WORDS: u64 = 1024;
/// Distance between two words, in bytes: a cache line.
const STRIDE: u64 = 64;
/// The timeout whose lateness is measured.
const TIMEOUT: Duration = Duration::from_micros(200);
/// TIDs of the neighbour's two tasks.
const TIDS: [u32; 2] = [1, 2];
/// Largest time that the histogram can hold, in ns: about 18 minutes.
const LONGEST: u64 = 1 << 40;

/// An operation of the neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Operation {
    /// Wait and wake on a private word
    Private,
    /// Wait and wake on a word in a shared object
    Shared,
    /// Wait for a lock with priority inheritance until it is handed over
    Pi,
    /// Lateness of a future's timeout of 200 us
    Timeout,
    /// Lateness of a timer of 200 us
    Timer,
    /// Poll and drop a future of the attacker, as an executor does that serves both guests
    Executor,
}

/// Results of one sample.
pub struct Found {
    /// Times of all operations, in ns.
    pub times: Histogram<u32>,
    /// Length of the sample.
    pub elapsed: Duration,
    /// How long the neighbour's thread was ready to run and had no CPU. 0 if the kernel does not say.
    pub ready: Duration,
}

impl Operation {
    /// Repeats the operation for `length`, in a new domain. `other` is the domain of another guest, for an executor of
    /// both.
    pub fn measure(self, system: &System, other: &Domain, length: Duration) -> Result<Found> {
        let domain = guest(system)?;
        let word = AtomicU32::new(0);
        match self {
            Self::Private => sample(length, |_| wait_and_wake(&domain, &word)),
            Self::Shared => {
                let id = ObjectId::new(OBJECT).context("an object's number is not 0")?;
                sample(length, |round| wait_and_wake(&domain, At::object(&word, id, round % WORDS * STRIDE)))
            }
            Self::Pi => {
                let [owner, heir] = [domain.task(TIDS[0])?, domain.task(TIDS[1])?];
                sample(length, |_| hand_over(&domain, &word, &owner, &heir))
            }
            Self::Timeout => sample(length, |_| lateness(&domain, &word)),
            Self::Timer => {
                let (timers, expiries) = Timers::channel(domain.pid_namespace().driver(), TimerOptions::new())?;
                let id = timers.create(TimerClock::Monotonic, None)?;
                sample(length, |_| lateness_of_timer(&timers, id, &expiries))
            }
            Self::Executor => sample(length, |_| Ok(poll_and_drop(other, &word))),
        }
    }
}

fn sample(length: Duration, mut operation: impl FnMut(u64) -> Result<Duration>) -> Result<Found> {
    let mut times = Histogram::new_with_bounds(1, LONGEST, 3)?;
    let (begin, ready, mut round) = (Instant::now(), ready(), 0);
    while begin.elapsed() < length {
        let time = operation(round)?;
        times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST));
        round += 1;
    }
    Ok(Found { times, elapsed: begin.elapsed(), ready: self::ready().saturating_sub(ready) })
}

/// How long this thread has been ready to run without a CPU, the second number of `schedstat`.
fn ready() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Queues a waiter without a thread, and wakes it.
fn wait_and_wake<T: Target<Value = u32> + Copy>(domain: &Domain, word: T) -> Result<Duration> {
    let mut waiter = pin!(Waiter::new());
    let begin = Instant::now();
    let queued = domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), Waker::noop().clone())?;
    let woken = domain.wake(word, 1);
    let time = begin.elapsed();
    ensure!(woken == 1 && queued.is_woken(), "a wake of one waiter woke {woken}");
    Ok(time)
}

/// Has `heir` wait for a lock of `owner`, and `owner` unlock it.
fn hand_over(domain: &Domain, word: &AtomicU32, owner: &ufutex::Task, heir: &ufutex::Task) -> Result<Duration> {
    domain.try_lock_pi(word, owner)?;
    let mut waiter = pin!(domain.lock_pi_async(word, heir, &WaitOptions::new()));
    let mut context = Context::from_waker(Waker::noop());
    let begin = Instant::now();
    let before = waiter.as_mut().poll(&mut context);
    domain.unlock_pi(word, owner)?;
    let after = waiter.as_mut().poll(&mut context);
    let time = begin.elapsed();
    ensure!((before, after) == (Poll::Pending, Poll::Ready(Ok(()))), "the lock was not handed over");
    domain.unlock_pi(word, heir)?;
    Ok(time)
}

/// A waker that stores the time of its call and unparks the thread.
struct TimedWaker {
    begin: Instant,
    /// Nanoseconds after `begin`. 0 means that it was not called yet.
    called_ns: AtomicU64,
    thread: Thread,
}

impl Wake for TimedWaker {
    fn wake(self: Arc<Self>) {
        let since = self.begin.elapsed().as_nanos() as u64;
        self.called_ns.store(since.max(1), Ordering::Release); // [Lc]
        self.thread.unpark();
    }
}

/// Time from the end of a timeout until its waker is called.
fn lateness(domain: &Domain, word: &AtomicU32) -> Result<Duration> {
    let timed =
        Arc::new(TimedWaker { begin: Instant::now(), called_ns: AtomicU64::new(0), thread: std::thread::current() });
    let waker = timed.clone().into();
    let options = WaitOptions::new().timeout(Timeout::After(TIMEOUT));
    let mut wait = pin!(domain.wait_async(word, 0, &options));
    let begin = Instant::now();
    match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Pending => {}
        // This thread had no CPU for longer than the timeout, so the future ended at its first poll.
        Poll::Ready(Err(Error::TimedOut)) => return Ok(begin.elapsed().saturating_sub(TIMEOUT)),
        Poll::Ready(other) => bail!("a wait with a timeout of {TIMEOUT:?} and without a wake ended with {other:?}"),
    }
    let due = (begin - timed.begin + TIMEOUT).as_nanos() as u64;
    loop {
        let called_ns = timed.called_ns.load(Ordering::Acquire); // [Lc]
        if called_ns != 0 {
            return Ok(Duration::from_nanos(called_ns.saturating_sub(due)));
        }
        std::thread::park();
    }
}

/// Time from the end of a timer until this thread has received it.
fn lateness_of_timer(timers: &Timers, id: i32, expiries: &Expiries) -> Result<Duration> {
    let begin = Instant::now();
    timers.settime(id, Expiry::After(TIMEOUT), Duration::ZERO)?;
    let expired = expiries.recv();
    ensure!(expired.id == id, "another timer expired");
    Ok(begin.elapsed().saturating_sub(TIMEOUT))
}

/// Queues a waiter of the other guest, as its executor, gives it another waker, and gives it up. If the guest has reached
/// a limit, the wait is refused.
fn poll_and_drop(other: &Domain, word: &AtomicU32) -> Duration {
    struct Nothing;
    impl Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }
    let waker = Arc::new(Nothing).into();
    let begin = Instant::now();
    {
        let mut wait = pin!(other.wait_async(word, 0, &WaitOptions::new()));
        if wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            let _queued = wait.as_mut().poll(&mut Context::from_waker(&waker));
        }
    }
    begin.elapsed()
}
