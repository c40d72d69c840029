//! What the neighbour does: one operation, again and again, each one timed.

use super::guest;
use anyhow::{Context as _, Result, bail, ensure};
use hdrhistogram::Histogram;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex::{Domain, Error, ObjectId, Shared, System, Target, Timeout, WaitOptions, Waiter};

/// The shared object that the neighbour's words lie in; the attackers' objects have greater numbers.
const OBJECT: u64 = 1;
/// How many shared words the neighbour uses in turn: some lie in any bucket that an attacker has filled.
const WORDS: u64 = 64;
/// From a word to the next: a cache line.
const STRIDE: u64 = 64;
/// The timeout whose lateness is measured.
const TIMEOUT: Duration = Duration::from_micros(200);
/// The neighbour's two tasks.
const TIDS: [u32; 2] = [1, 2];
/// The longest time that is told from longer ones, in nanoseconds: some eighteen minutes.
const LONGEST: u64 = 1 << 40;

/// An operation of the neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Operation {
    /// Wait and wake on a private word
    Private,
    /// Wait and wake on a word in a shared object
    Shared,
    /// Wait for a lock with priority inheritance, and have it handed over
    Pi,
    /// How late the end of a 200 us timeout is, of a future
    Timeout,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "private",
            Self::Shared => "shared",
            Self::Pi => "pi",
            Self::Timeout => "timeout",
        })
    }
}

/// What one sample has found.
pub struct Found {
    /// The times of all operations, in nanoseconds.
    pub times: Histogram<u32>,
    /// How long the sample was.
    pub elapsed: Duration,
}

impl Operation {
    /// Does it for `length`, as a new guest.
    pub fn measure(self, system: &System, length: Duration) -> Result<Found> {
        let domain = guest(system)?;
        let word = AtomicU32::new(0);
        match self {
            Self::Private => sample(length, |_| wait_and_wake(&domain, &word)),
            Self::Shared => {
                let id = ObjectId::new(OBJECT).context("an object's number is not 0")?;
                sample(length, |round| wait_and_wake(&domain, Shared::object(&word, id, round % WORDS * STRIDE)))
            }
            Self::Pi => {
                let [owner, heir] = [domain.task(TIDS[0])?, domain.task(TIDS[1])?];
                sample(length, |_| hand_over(&domain, &word, &owner, &heir))
            }
            Self::Timeout => sample(length, |_| lateness(&domain, &word)),
        }
    }
}

fn sample(length: Duration, mut operation: impl FnMut(u64) -> Result<Duration>) -> Result<Found> {
    let mut times = Histogram::new_with_bounds(1, LONGEST, 3)?;
    let (begin, mut round) = (Instant::now(), 0);
    while begin.elapsed() < length {
        let time = operation(round)?;
        times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST));
        round += 1;
    }
    Ok(Found { times, elapsed: begin.elapsed() })
}

/// Queues a waiter that is no thread, and wakes it.
fn wait_and_wake<T: Target<Value = u32> + Copy>(domain: &Domain, word: T) -> Result<Duration> {
    let mut waiter = pin!(Waiter::new());
    let begin = Instant::now();
    let queued = domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), Waker::noop().clone())?;
    let woken = domain.wake(word, 1);
    let time = begin.elapsed();
    ensure!(woken == 1 && queued.is_woken(), "a wake of one waiter woke {woken}");
    Ok(time)
}

/// Has `heir` wait for a lock of `owner`, who unlocks it.
fn hand_over(domain: &Domain, word: &AtomicU32, owner: &ufutex::Task, heir: &ufutex::Task) -> Result<Duration> {
    domain.try_lock_pi(word, owner)?;
    let mut waiter = pin!(domain.lock_pi_async(word, heir));
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

/// Notes when it is rung, and has the thread look.
struct Bell {
    begin: Instant,
    /// Nanoseconds after `begin`; 0: not yet.
    rung: AtomicU64,
    thread: Thread,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let since = self.begin.elapsed().as_nanos() as u64;
        self.rung.store(since.max(1), Ordering::Release);
        self.thread.unpark();
    }
}

/// How long after its end a timeout wakes its task.
fn lateness(domain: &Domain, word: &AtomicU32) -> Result<Duration> {
    let bell = Arc::new(Bell { begin: Instant::now(), rung: AtomicU64::new(0), thread: std::thread::current() });
    let waker = bell.clone().into();
    let options = WaitOptions::new().timeout(Timeout::After(TIMEOUT));
    let mut wait = pin!(domain.wait_async(word, 0, options));
    let begin = Instant::now();
    match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Pending => {}
        // This thread lost its processor on the way, for longer than the timeout: nobody had to be told of its end.
        Poll::Ready(Err(Error::TimedOut)) => return Ok(begin.elapsed().saturating_sub(TIMEOUT)),
        Poll::Ready(other) => bail!("a wait for {TIMEOUT:?} that nobody wakes ended with {other:?}"),
    }
    let due = (begin - bell.begin + TIMEOUT).as_nanos() as u64;
    loop {
        let rung = bell.rung.load(Ordering::Acquire);
        if rung != 0 {
            return Ok(Duration::from_nanos(rung.saturating_sub(due)));
        }
        std::thread::park();
    }
}
