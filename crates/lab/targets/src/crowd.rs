//! Crowds: many waiters that are not threads, and the time to wake one of them.
//!
//! Only `Domain::wake(word, 1)` is timed: the look-up, the lock, the queue and the call of the waker. The lab's own
//! work is kept out of the time or made small:
//!
//! - A batch of wakes has two time stamps, so their cost is divided by the batch.
//! - The addresses of a batch are collected before it. A wake reads nothing through them.
//! - The waker counts, and has no memory of its own that might miss the cache.
//! - The waiters of a batch are queued again after it.
//!
//! The cache misses of a large crowd remain in the time: those on the lines of the bucket and of the waiter. So that no
//! prefetcher can hide them, the words are woken in random order, each once before any is woken again. A round before
//! each sample is not timed. It replaces what the rows before have left in the caches.
//!
//! A hundred waiters fit into any cache, a hundred thousand into few. A third crowd shows how much of the difference is
//! due to the caches: it has as many waiters, but in domains of a hundred each.

use super::Words;
use lab_measure::clock;
use std::array;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

/// The most wakes in a batch.
pub const BATCH_MAX: usize = 16;

/// The untimed round before a sample ends after this time at the latest. Long queues make it slow.
const LEAD_IN_MAX: Duration = Duration::from_millis(100);

/// The kind of the waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Domain::wait_async`.
    Future,
    /// `Domain::prepare_with`.
    Custom,
}

impl Kind {
    /// The printed name.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Future => "future",
            Kind::Custom => "custom",
        }
    }
}

/// The waiters of a crowd, their words, and the order of the wakes. Words are named by number. All hold 0.
pub struct Crowd {
    /// The kind of the waiters.
    pub kind: Kind,
    /// The words.
    pub words: Arc<Words>,
    /// The word of each waiter that is woken, in the order in which the waiters queue.
    pub places: Vec<u32>,
    /// The same waiters in the order in which they are woken, again and again. Waiters of one word are in the order of
    /// `places`, as in the queue.
    pub order: Vec<u32>,
    /// Number of wakes in a batch, at most [`BATCH_MAX`]. Fewer than the waiters, so that nearly all wait at any time.
    pub batch: usize,
    /// Number of waiters that are never woken, and their word. They queue last, in the first domain.
    pub bystanders: (usize, u32),
    /// Number of domains that `places` is divided into: equal shares, in order.
    pub domains: usize,
}

impl Crowd {
    fn domain_of(&self, waiter: usize) -> usize {
        waiter / self.places.len().div_ceil(self.domains)
    }
}

/// The channels to the thread that runs a crowd. The thread ends when the sender of `requests` is dropped.
pub struct Channels {
    /// Each value requests a sample of this length.
    pub requests: Receiver<Duration>,
    /// The first value comes when all waiters are queued. Then there is one for each request.
    pub samples: Sender<Result<Sample, String>>,
}

/// The result of one sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Wakes that were timed.
    pub wakes: u64,
    /// The time of all these wakes, in ticks.
    pub ticks: u64,
    /// The length of the sample, with all that is not timed.
    pub elapsed: Duration,
    /// The thread's CPU time in `elapsed`.
    pub on_cpu: Duration,
}

/// What a crowd needs of a domain. The waits return only an error, as text.
pub trait Domain {
    /// Wakes one waiter.
    fn wake(&self, word: &AtomicU32) -> usize;
    /// `Domain::wait_async`, which waits again each time it is polled after a wake.
    fn wait_as_future(&self, word: &AtomicU32) -> impl Future<Output = String>;
    /// `Domain::prepare_with` with [`counting_waker`], likewise. The compiled coroutine stands for an embedder's
    /// thread: pinned memory with a waiter.
    fn wait_as_custom(&self, word: &AtomicU32) -> impl Future<Output = String>;
}

/// Queues the crowd, then takes a sample for each request. `domains` has `crowd.domains` elements.
pub fn host<D: Domain>(domains: &[&D], crowd: &Crowd, channels: &Channels) {
    match crowd.kind {
        Kind::Future => serve(domains, crowd, channels, D::wait_as_future),
        Kind::Custom => serve(domains, crowd, channels, D::wait_as_custom),
    }
}

fn serve<'a, D: Domain, F: Future<Output = String>>(
    domains: &'a [&'a D],
    crowd: &'a Crowd,
    channels: &Channels,
    sleep: impl Fn(&'a D, &'a AtomicU32) -> F,
) {
    // Each waiter has an allocation of its own, as in an executor.
    let sleeper = |domain: usize, word: u32| Box::pin(sleep(domains[domain], crowd.words.word(word as usize)));
    let places = crowd.places.iter().enumerate();
    let mut sleepers: Vec<_> = places.map(|(waiter, word)| sleeper(crowd.domain_of(waiter), *word)).collect();
    let (count, word) = crowd.bystanders;
    let mut bystanders: Vec<_> = (0..count).map(|_| sleeper(0, word)).collect();
    let queued = sleepers.iter_mut().chain(&mut bystanders).try_for_each(queue);
    let _ = channels.samples.send(queued.map(|()| Sample::default()));
    let mut host = Host { domains, crowd, sleepers, next: 0 };
    while let Ok(length) = channels.requests.recv() {
        let _ = channels.samples.send(host.sample(length));
    }
}

struct Host<'a, D, F> {
    domains: &'a [&'a D],
    crowd: &'a Crowd,
    sleepers: Vec<Pin<Box<F>>>,
    /// Index in the crowd's order at which the next batch begins.
    next: usize,
}

impl<'a, D: Domain, F: Future<Output = String>> Host<'a, D, F> {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let (round, start) = (self.crowd.order.len().div_ceil(self.crowd.batch), Instant::now());
        for _ in 0..round {
            self.batch()?;
            if start.elapsed() > LEAD_IN_MAX {
                break;
            }
        }
        let (mut sample, start, on_cpu) = (Sample::default(), Instant::now(), clock::thread_cpu_time());
        while sample.wakes == 0 || start.elapsed() < length {
            sample.ticks += self.batch()?;
            sample.wakes += self.crowd.batch as u64;
        }
        Ok(Sample { on_cpu: clock::thread_cpu_time() - on_cpu, elapsed: start.elapsed(), ..sample })
    }

    /// Wakes one batch of waiters and queues them again. Returns the ticks that the wakes took.
    fn batch(&mut self) -> Result<u64, String> {
        let (crowd, count) = (self.crowd, self.crowd.batch);
        let order = &crowd.order;
        let numbers: [usize; BATCH_MAX] = array::from_fn(|i| order[(self.next + i) % order.len()] as usize);
        let calls = numbers.map(|number| {
            let word = crowd.words.word(crowd.places[number] as usize);
            (self.domains[crowd.domain_of(number)], word)
        });
        let called = WAKER_CALLS.load(Ordering::Relaxed);
        let start = clock::ticks();
        let woken = wake(black_box(&calls[..count]));
        let ticks = clock::ticks().wrapping_sub(start);
        let called = WAKER_CALLS.load(Ordering::Relaxed) - called;
        if woken != count || called != count as u64 {
            return Err(format!("{count} wakes woke {woken} waiters and called {called} wakers"));
        }
        for number in &numbers[..count] {
            queue(&mut self.sleepers[*number])?;
        }
        self.next = (self.next + count) % order.len();
        Ok(ticks)
    }
}

/// The timed part. A function of its own, so that the surrounding code does not change its register allocation.
#[inline(never)]
fn wake<D: Domain>(calls: &[(&D, &AtomicU32)]) -> usize {
    calls.iter().map(|(domain, word)| domain.wake(word)).sum()
}

/// Queues a waiter, for the first time or after a wake.
fn queue<F: Future<Output = String>>(sleeper: &mut Pin<Box<F>>) -> Result<(), String> {
    match sleeper.as_mut().poll(&mut Context::from_waker(&counting_waker())) {
        Poll::Pending => Ok(()),
        Poll::Ready(error) => Err(format!("a waiter of the crowd: {error}")),
    }
}

/// Number of calls of the waker. Only one crowd is measured at a time, by one thread.
static WAKER_CALLS: AtomicU64 = AtomicU64::new(0);

/// A waker with as little work as possible: it counts its calls.
pub fn counting_waker() -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(|_| RAW, |_| count(), |_| count(), |_| {});
    const RAW: RawWaker = RawWaker::new(std::ptr::null(), &TABLE);
    fn count() {
        // No atomic read-modify-write is needed, because only one thread counts.
        WAKER_CALLS.store(WAKER_CALLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    // SAFETY: the table's functions read no data, may be called from any thread, and have nothing to free.
    unsafe { Waker::from_raw(RAW) }
}
