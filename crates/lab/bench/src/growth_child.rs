//! One repeat of `growth`, in a new process. It prints its report as one line of JSON.

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use lab_measure::machine::{self, OwnLine};
use lab_measure::stats::Tail;
use lab_targets::{Layout, Name, Policy};
use lab_targets::{Shape, Subject, Waited};
use lab_terminal::stdout;
use lab_values as values;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Instant;

/// Parameters of one repeat of `growth`.
#[derive(Clone, Args)]
pub struct Child {
    /// The target.
    #[arg(long, value_parser = values::one_of::<Name>())]
    target: Name,
    /// Number of threads, which park one after another.
    #[arg(long)]
    threads: usize,
    /// Bucket layout of the engine's table.
    #[arg(long, value_parser = values::one_of::<Layout>())]
    layout: Layout,
    /// Size policy of the engine's table.
    #[arg(long, value_parser = values::policies())]
    policy: Policy,
}

/// Stack of a parked thread. Small, because there are over a thousand.
const STACK_BYTES: usize = 128 * 1024;
/// Part of the stack that is touched before the wait, so that its page faults are not measured.
const STACK_TOUCHED_BYTES: usize = 32 * 1024;

/// The report that the parent reads.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// First waits of all threads in this repeat.
    pub first_wait_us: Tail,
    /// Number of buckets when all threads are parked.
    pub buckets: Option<usize>,
}

/// Shared by one thread and the main thread.
#[derive(Default)]
struct Seat {
    /// The thread waits on this word while it is 0.
    word: AtomicU32,
    /// The main thread sets it to 1 when the thread may begin.
    released: AtomicU32,
    /// Time from the call of the first wait until the thread sleeps, in ns. 0 means that it does not sleep yet.
    first_wait_ns: AtomicU64,
}

type Sitter = JoinHandle<Option<Waited>>;

/// Parks the threads, prints the report and wakes all threads.
pub fn run(args: &Child) -> Result<()> {
    let shape = Shape::new(args.layout, args.policy);
    let subject = lab_targets::build(args.target, &shape)?;
    let seats: Arc<Vec<OwnLine<Seat>>> = Arc::new((0..args.threads).map(|_| OwnLine::default()).collect());
    let threads = (0..args.threads).map(|number| spawn(&subject, &seats, number)).collect::<Result<Vec<_>>>()?;
    for (number, thread) in threads.iter().enumerate() {
        subject.note_threads(number + 1);
        release(&seats[number].0, thread)?;
    }
    // [Lc], as in `release`.
    let times: Vec<_> = seats.iter().map(|seat| seat.0.first_wait_ns.load(Ordering::Acquire) as f64 / 1000.0).collect();
    let report = Report { first_wait_us: Tail::of(&times), buckets: subject.buckets() };
    wake_all(&*subject, &seats, threads)?;
    stdout::print(&serde_json::to_string(&report)?)
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

/// Runs in each thread: waits to be released, then times its first wait until it sleeps.
fn sit(subject: &dyn Subject, seat: &Seat, main: &Thread) -> Option<Waited> {
    touch_stack();
    // [Lc]
    while seat.released.load(Ordering::Acquire) == 0 {
        std::thread::park();
    }
    let start = Instant::now();
    subject.wait_announced(&seat.word, 0, &mut || {
        let first_wait = start.elapsed();
        seat.first_wait_ns.store((first_wait.as_nanos() as u64).max(1), Ordering::Release); // [Lc]
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

/// Releases one thread and sleeps until it is parked, so that no two threads run at once.
fn release(seat: &Seat, thread: &Sitter) -> Result<()> {
    seat.released.store(1, Ordering::Release); // [Lc]
    thread.thread().unpark();
    // [Lc]
    while seat.first_wait_ns.load(Ordering::Acquire) == 0 {
        std::thread::park();
        ensure!(!thread.is_finished(), "a thread ended without waiting");
    }
    Ok(())
}

/// Wakes each thread by its own word. This also checks that all of them are parked.
fn wake_all(subject: &dyn Subject, seats: &[OwnLine<Seat>], threads: Vec<Sitter>) -> Result<()> {
    for (number, seat) in seats.iter().enumerate() {
        seat.0.word.store(1, Ordering::SeqCst); // [Lf]
        let woken = subject.wake(&seat.0.word);
        ensure!(woken == 1, "the wake of thread {number} woke {woken} threads");
    }
    for thread in threads {
        let waited = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
        ensure!(waited == Some(Waited::Woken), "a thread's wait ended with {waited:?}");
    }
    Ok(())
}
