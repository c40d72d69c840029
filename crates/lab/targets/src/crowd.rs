//! Crowds: many waiters that are no threads, and what it takes to wake one of them.
//!
//! Timed is `Domain::wake(word, 1)` and nothing else: the look-up, the lock, the queue, and telling the waker. What the
//! lab itself does is kept out of it or made small:
//!
//! - A batch of wakes has two time stamps, over which their cost spreads.
//! - The addresses of a batch are gathered before it; a wake reads nothing through them.
//! - The waker counts, and has no memory of its own that could be missing from a cache.
//! - The waiters of a batch are queued again after it.
//!
//! What stays in is what a crowd costs everybody: the lines of the bucket and of the waiter, which come from far when
//! there are many. So words are woken in random order, each one before any comes again, and no prefetcher knows the next.
//! A round that does not count goes before each sample: measured is a crowd that the caches know as well as they can, not
//! what the rows before have left in them.
//!
//! A hundred waiters fit into any cache, a hundred thousand into few. What of the difference is the caches' shows in a
//! third crowd: as many waiters in all, in domains of a hundred each. It has as much memory, and no domain with many.

use super::Words;
use lab_measure::clock;
use std::array;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};
use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Domain, Error, WaitOptions, Waiter};

/// The most wakes between two time stamps.
pub const BATCH_MAX: usize = 16;

/// The round before a sample is cut off after so long, where chains are long.
const LEAD_IN_MAX: Duration = Duration::from_millis(100);

/// What waits, where it is no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Domain::wait_async`.
    Future,
    /// `Domain::prepare_with`.
    Custom,
}

impl Kind {
    /// As it is printed.
    pub fn text(self) -> &'static str {
        match self {
            Kind::Future => "future",
            Kind::Custom => "custom",
        }
    }
}

/// Who waits where, and who is woken when. Words go by their numbers, and hold 0.
pub struct Crowd {
    /// What they are.
    pub kind: Kind,
    /// All words.
    pub words: Arc<Words>,
    /// The word of each waiter that is woken now and then, in the order in which they queue.
    pub places: Vec<u32>,
    /// The same waiters in the order in which they are woken, again and again. Those of one word come in the order of
    /// `places`, as the queue has them.
    pub order: Vec<u32>,
    /// How many wakes make a batch: fewer than there are waiters, so that nearly all of them wait at any time.
    pub batch: usize,
    /// Waiters that are never woken: how many, and for which word. They queue last, in the first domain.
    pub bystanders: (usize, u32),
    /// Over how many domains `places` are dealt out, in equal shares, the first ones to the first.
    pub domains: usize,
}

impl Crowd {
    fn domain_of(&self, waiter: usize) -> usize {
        waiter / self.places.len().div_ceil(self.domains)
    }
}

/// How the thread that hosts a crowd is told to go on, and how it answers. It ends when nobody can tell it any more.
pub struct Stage {
    /// Measure for so long.
    pub turns: Receiver<Duration>,
    /// An answer when all are queued, and one for each turn.
    pub beats: Sender<Result<Beat, String>>,
}

/// What one turn has found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beat {
    /// Wakes that were timed.
    pub wakes: u64,
    /// Their time together.
    pub ticks: u64,
    /// How long the sample was, with all that is not timed …
    pub elapsed: Duration,
    /// … and for how much of that the thread had a CPU.
    pub on_cpu: Duration,
}

/// Queues the crowd, then wakes and times, turn by turn. There are as many domains as the crowd needs.
pub fn host<S: Scheme<L>, L: Layout>(domains: &[&Domain<S, L>], crowd: &Crowd, stage: &Stage) {
    match crowd.kind {
        Kind::Future => serve(domains, crowd, stage, wait_as_future),
        Kind::Custom => serve(domains, crowd, stage, wait_as_custom),
    }
}

/// Waits again whenever it is polled after a wake; ends with a mistake only.
async fn wait_as_future<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>, word: &AtomicU32) -> Error {
    loop {
        if let Err(error) = domain.wait_async(word, 0, WaitOptions::new()).await {
            return error;
        }
    }
}

/// As [`wait_as_future`]. What the compiler makes of this function stands for a thread of an embedder: memory that stays
/// in place, with a waiter in it.
async fn wait_as_custom<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>, word: &AtomicU32) -> Error {
    let mut waiter = pin!(Waiter::new());
    loop {
        match domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), counting_waker()) {
            Ok(queued) => {
                poll_fn(|_| if queued.is_woken() { Poll::Ready(()) } else { Poll::Pending }).await;
                if queued.try_finish().is_err() {
                    return Error::Busy;
                }
            }
            Err(error) => return error,
        }
    }
}

fn serve<'a, S, L, F>(
    domains: &'a [&'a Domain<S, L>],
    crowd: &'a Crowd,
    stage: &Stage,
    sleep: impl Fn(&'a Domain<S, L>, &'a AtomicU32) -> F,
) where
    S: Scheme<L>,
    L: Layout,
    F: Future<Output = Error>,
{
    // Each one in an allocation of its own, as executors keep their tasks.
    let sleeper = |domain: usize, word: u32| Box::pin(sleep(domains[domain], crowd.words.word(word as usize)));
    let places = crowd.places.iter().enumerate();
    let mut sleepers: Vec<_> = places.map(|(waiter, word)| sleeper(crowd.domain_of(waiter), *word)).collect();
    let (count, word) = crowd.bystanders;
    let mut bystanders: Vec<_> = (0..count).map(|_| sleeper(0, word)).collect();
    let queued = sleepers.iter_mut().chain(&mut bystanders).try_for_each(queue);
    let _ = stage.beats.send(queued.map(|()| Beat::default()));
    let mut host = Host { domains, crowd, sleepers, next: 0 };
    while let Ok(length) = stage.turns.recv() {
        let _ = stage.beats.send(host.turn(length));
    }
}

struct Host<'a, S: Scheme<L>, L: Layout, F> {
    domains: &'a [&'a Domain<S, L>],
    crowd: &'a Crowd,
    sleepers: Vec<Pin<Box<F>>>,
    /// Where in the crowd's order the next batch begins.
    next: usize,
}

impl<'a, S: Scheme<L>, L: Layout, F: Future<Output = Error>> Host<'a, S, L, F> {
    fn turn(&mut self, length: Duration) -> Result<Beat, String> {
        let (round, start) = (self.crowd.order.len().div_ceil(self.crowd.batch), Instant::now());
        for _ in 0..round {
            self.batch()?;
            if start.elapsed() > LEAD_IN_MAX {
                break;
            }
        }
        let (mut beat, start, on_cpu) = (Beat::default(), Instant::now(), clock::thread_cpu_time());
        while beat.wakes == 0 || start.elapsed() < length {
            beat.ticks += self.batch()?;
            beat.wakes += self.crowd.batch as u64;
        }
        Ok(Beat { on_cpu: clock::thread_cpu_time() - on_cpu, elapsed: start.elapsed(), ..beat })
    }

    /// Wakes as many waiters as make a batch, queues them again, and answers what the wakes took.
    fn batch(&mut self) -> Result<u64, String> {
        let (crowd, count) = (self.crowd, self.crowd.batch);
        let order = &crowd.order;
        let numbers: [usize; BATCH_MAX] = array::from_fn(|i| order[(self.next + i) % order.len()] as usize);
        let calls = numbers.map(|number| {
            let word = crowd.words.word(crowd.places[number] as usize);
            (self.domains[crowd.domain_of(number)], word)
        });
        let told = TOLD.load(Ordering::Relaxed);
        let start = clock::ticks();
        let woken = wake(black_box(&calls[..count]));
        let ticks = clock::ticks().wrapping_sub(start);
        let told = TOLD.load(Ordering::Relaxed) - told;
        if woken != count || told != count as u64 {
            return Err(format!("{count} wakes woke {woken} waiters and told {told} of them"));
        }
        for number in &numbers[..count] {
            queue(&mut self.sleepers[*number])?;
        }
        self.next = (self.next + count) % order.len();
        Ok(ticks)
    }
}

/// The timed part. Apart, so that it does not share its registers with what is around it.
#[inline(never)]
fn wake<S: Scheme<L>, L: Layout>(calls: &[(&Domain<S, L>, &AtomicU32)]) -> usize {
    calls.iter().map(|(domain, word)| domain.wake(*word, 1)).sum()
}

/// Queues a sleeper, for the first time or after a wake.
fn queue<F: Future<Output = Error>>(sleeper: &mut Pin<Box<F>>) -> Result<(), String> {
    match sleeper.as_mut().poll(&mut Context::from_waker(&counting_waker())) {
        Poll::Pending => Ok(()),
        Poll::Ready(error) => Err(format!("a waiter of the crowd: {error}")),
    }
}

/// How many wakers have been told. One crowd is measured at a time, by one thread.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// The waker that does the least that shows: it counts.
fn counting_waker() -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(|_| RAW, |_| count(), |_| count(), |_| {});
    const RAW: RawWaker = RawWaker::new(std::ptr::null(), &TABLE);
    fn count() {
        // No locked instruction: nobody else counts.
        TOLD.store(TOLD.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    // SAFETY: the functions of the table look at no data, may be called from any thread, and there is nothing to free.
    unsafe { Waker::from_raw(RAW) }
}
