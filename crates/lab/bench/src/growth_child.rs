//! One repeat of `growth`, in a fresh process: its report is one line of JSON on stdout.

use anyhow::{Context, Result, anyhow, ensure};
use lab_measure::machine::{self, OwnLine};
use lab_measure::stats::Tail;
use lab_targets::{Layout, Name, Policy};
use lab_targets::{Shape, Subject, Waited};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Instant;

/// What one repeat of `growth` needs to know.
#[derive(Clone)]
pub struct Child {
    /// Whose table grows.
    pub target: Name,
    /// Threads that park one after another.
    pub threads: usize,
    /// The layout of our tables.
    pub layout: Layout,
    /// The size policy of our table.
    pub policy: Policy,
}

/// Small: a thousand threads and more.
const STACK_BYTES: usize = 128 * 1024;
/// As much of it as a wait may use is touched before: page faults of a new stack are not the target's.
const STACK_TOUCHED_BYTES: usize = 32 * 1024;

/// What the parent reads.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// Over all threads of this repeat.
    pub first_wait_us: Tail,
    /// When all are parked.
    pub buckets: Option<usize>,
}

/// What one thread and the main thread share.
#[derive(Default)]
struct Seat {
    /// The thread's own word: it waits while this is 0.
    word: AtomicU32,
    /// Set by the main thread: go.
    released: AtomicU32,
    /// The first wait, from its call until it sleeps, in nanoseconds; 0 is not yet.
    first_wait_ns: AtomicU64,
}

type Sitter = JoinHandle<Option<Waited>>;

/// Parks the threads, prints the report, wakes them all.
pub fn run(args: &Child) -> Result<()> {
    let shape = Shape { layout: args.layout, policy: args.policy, shared: false, early_return: false };
    let subject = lab_targets::build(args.target, &shape)?;
    let seats: Arc<Vec<OwnLine<Seat>>> = Arc::new((0..args.threads).map(|_| OwnLine::default()).collect());
    let threads = (0..args.threads).map(|number| spawn(&subject, &seats, number)).collect::<Result<Vec<_>>>()?;
    for (number, thread) in threads.iter().enumerate() {
        subject.note_threads(number + 1);
        release(&seats[number].0, thread)?;
    }
    let times: Vec<_> = seats.iter().map(|seat| seat.0.first_wait_ns.load(Ordering::Acquire) as f64 / 1000.0).collect();
    let report = Report { first_wait_us: Tail::of(&times), buckets: subject.buckets() };
    wake_all(&*subject, &seats, threads)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

fn spawn(subject: &Arc<dyn Subject>, seats: &Arc<Vec<OwnLine<Seat>>>, number: usize) -> Result<Sitter> {
    let (subject, seats, main) = (subject.clone(), seats.clone(), std::thread::current());
    let cpus = machine::allowed_cpus();
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            machine::pin(cpus[number % cpus.len()]);
            sit(&*subject, &seats[number].0, &main)
        })
        .with_context(|| format!("cannot start thread {number}"))
}

/// A thread: waits to be released, then times its first wait up to the sleep.
fn sit(subject: &dyn Subject, seat: &Seat, main: &Thread) -> Option<Waited> {
    touch_stack();
    while seat.released.load(Ordering::Acquire) == 0 {
        std::thread::park();
    }
    let start = Instant::now();
    subject.wait_announced(&seat.word, 0, &mut || {
        let first_wait = start.elapsed();
        seat.first_wait_ns.store((first_wait.as_nanos() as u64).max(1), Ordering::Release);
        main.unpark();
    })
}

#[inline(never)]
fn touch_stack() {
    let mut bytes = [0u8; STACK_TOUCHED_BYTES];
    for page in bytes.iter_mut().step_by(4096) {
        *page = 1;
    }
    std::hint::black_box(&mut bytes);
}

/// Lets one thread go, and sleeps until it is in the table: nobody else runs meanwhile.
fn release(seat: &Seat, thread: &Sitter) -> Result<()> {
    seat.released.store(1, Ordering::Release);
    thread.thread().unpark();
    while seat.first_wait_ns.load(Ordering::Acquire) == 0 {
        std::thread::park();
        ensure!(!thread.is_finished(), "a thread ended without having waited");
    }
    Ok(())
}

/// Each thread must be found by its own word: this also proves that all have been parked.
fn wake_all(subject: &dyn Subject, seats: &[OwnLine<Seat>], threads: Vec<Sitter>) -> Result<()> {
    for (number, seat) in seats.iter().enumerate() {
        seat.0.word.store(1, Ordering::SeqCst);
        let woken = subject.wake(&seat.0.word);
        ensure!(woken == 1, "the wake of thread {number} woke {woken}");
    }
    for thread in threads {
        let waited = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
        ensure!(waited == Some(Waited::Woken), "a thread was not woken but {waited:?}");
    }
    Ok(())
}
