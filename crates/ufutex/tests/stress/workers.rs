//! Threads that work until they are told to stop, and are watched meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Domain, Error};

use crate::common::PATIENCE;
use crate::random::Random;

/// What one worker shows of itself.
pub struct Desk {
    running: Arc<AtomicBool>,
    /// The word it waits on; `IDLE` for none.
    waits_on: Arc<AtomicUsize>,
}

const IDLE: usize = usize::MAX;

impl Desk {
    /// Whether to go on.
    pub fn is_running(&self) -> bool {
        self.running.load(Relaxed)
    }

    /// Runs `wait`, a wait on the word with this number.
    pub fn waiting_on<R>(&self, word: usize, wait: impl FnOnce() -> R) -> R {
        self.waits_on.store(word, Relaxed);
        let result = wait();
        self.waits_on.store(IDLE, Relaxed);
        result
    }
}

struct Worker {
    name: &'static str,
    handle: JoinHandle<()>,
    waits_on: Arc<AtomicUsize>,
}

/// Workers on something that they share. They are not joined before they have ended, so that a worker which hangs
/// fails its test and no more.
pub struct Workers<T> {
    shared: Arc<T>,
    running: Arc<AtomicBool>,
    workers: Vec<Worker>,
}

impl<T: Send + Sync + 'static> Workers<T> {
    pub fn new(shared: Arc<T>) -> Self {
        Self { shared, running: Arc::new(AtomicBool::new(true)), workers: Vec::new() }
    }

    /// Has a thread do `work`.
    pub fn add(&mut self, name: &'static str, work: fn(&T, &Desk, Random)) {
        let shared = self.shared.clone();
        let waits_on = Arc::new(AtomicUsize::new(IDLE));
        let desk = Desk { running: self.running.clone(), waits_on: waits_on.clone() };
        let random = Random::new(self.workers.len() as u64 + 1);
        let handle = std::thread::spawn(move || {
            // Or the kernel adds 50 us to each timeout.
            // SAFETY: sets the timer slack of this thread, and touches no memory.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64, 0u64, 0u64, 0u64) };
            work(&shared, &desk, random);
        });
        self.workers.push(Worker { name, handle, waits_on });
    }

    /// Lets them work for `length`.
    pub fn run(&self, length: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < length && !self.workers.iter().any(|w| w.handle.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tells them to stop and calls `drain` until they have. Fails, saying who waits for what, if one never does.
    pub fn stop(mut self, mut drain: impl FnMut(&T)) {
        self.running.store(false, Relaxed);
        let begin = Instant::now();
        while !self.workers.is_empty() {
            drain(&self.shared);
            for ended in self.workers.extract_if(.., |w| w.handle.is_finished()) {
                if let Err(panic) = ended.handle.join() {
                    std::panic::resume_unwind(panic);
                }
            }
            assert!(begin.elapsed() < PATIENCE, "a wake was lost: {}", self.who_waits());
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn who_waits(&self) -> String {
        let one = |worker: &Worker| match worker.waits_on.load(Relaxed) {
            IDLE => format!("{} runs", worker.name),
            word => format!("{} waits on word {word}", worker.name),
        };
        self.workers.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// Has the table go up and down, to the global one and back. Schemes that have to wait for a moment without operations
/// may find none.
pub fn resize<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>, random: &mut Random) {
    let slots = random.of(&[0, 2, 2, 4, 4, 16, 64, 1024]);
    let begin = Instant::now();
    let result = domain.set_slots_while(slots, || begin.elapsed() < Duration::from_millis(5));
    let may_fail = S::NAME != "live";
    assert!(result == Ok(()) || may_fail && result == Err(Error::TimedOut), "{slots} slots: {result:?}");
    if random.one_in(16) {
        std::thread::sleep(Duration::from_micros(random.below(300) as u64));
    }
}
