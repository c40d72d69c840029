//! Worker threads that run until they are stopped. A worker that hangs is reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ufutex::Domain;

use crate::common::PATIENCE;
use crate::common::domains::{assert_resized, set_slots};
use crate::common::kernel::timeouts_without_slack;
use crate::common::random::Random;

/// The state of one worker, as seen from outside.
pub struct Desk {
    running: Arc<AtomicBool>,
    /// The number of the word on which the worker waits. `IDLE` means none.
    waits_on: Arc<AtomicUsize>,
}

const IDLE: usize = usize::MAX;

impl Desk {
    /// Whether the worker should continue.
    pub fn is_running(&self) -> bool {
        self.running.load(Relaxed)
    }

    /// Runs `wait` and records meanwhile that the worker waits on the word with this number.
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

/// Workers with shared state. A worker is joined only after it has ended, so that a worker that hangs fails its test
/// instead of blocking it.
pub struct Workers<T> {
    shared: Arc<T>,
    running: Arc<AtomicBool>,
    workers: Vec<Worker>,
}

impl<T: Send + Sync + 'static> Workers<T> {
    pub fn new(shared: Arc<T>) -> Self {
        Self { shared, running: Arc::new(AtomicBool::new(true)), workers: Vec::new() }
    }

    /// Starts a thread that runs `work`.
    pub fn add(&mut self, name: &'static str, work: fn(&T, &Desk, Random)) {
        let shared = self.shared.clone();
        let waits_on = Arc::new(AtomicUsize::new(IDLE));
        let desk = Desk { running: self.running.clone(), waits_on: waits_on.clone() };
        let random = Random::new(self.workers.len() as u64 + 1);
        let handle = std::thread::spawn(move || {
            // The default timer slack would add 50 us to each timeout.
            timeouts_without_slack();
            work(&shared, &desk, random);
        });
        self.workers.push(Worker { name, handle, waits_on });
    }

    /// Lets the workers run for `length`.
    pub fn run(&self, length: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < length && !self.workers.iter().any(|w| w.handle.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the workers and calls `drain` until all have ended. If one does not, fails and names the workers that
    /// still wait and their words.
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

/// Resizes the table up and down, to the global one and back. Some schemes have to wait for a moment without operations
/// and may not find one.
pub fn resize(domain: &Domain, random: &mut Random) {
    let slots = random.of(&[0, 2, 2, 4, 4, 16, 64, 1024]);
    assert_resized(set_slots(domain, slots));
    if random.one_in(16) {
        std::thread::sleep(Duration::from_micros(random.below(300) as u64));
    }
}
