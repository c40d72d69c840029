//! What the lab measures: each target is a [`Futex`], each measured loop is generic over it and written once.

pub mod crowd;
mod floor;
mod kernel;
pub mod loops;
mod ours;
mod parking_lot;
pub mod pi;
mod policy;
pub mod requeue;
pub mod schbench;
pub mod timers;
pub mod wasm;
mod words;

pub use policy::Policy;
pub use words::Words;

use crowd::{Crowd, Stage};
use hdrhistogram::Histogram;
use lab_measure::pool::Gate;
use loops::{Court, Side, Tally, Timeline, WaitDiffers, WakeNobody, Window};
use requeue::{Move, Moved};
use schbench::Hall;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

pub use kernel::has_private_hash as kernel_has_private_hash;

/// A target's name on the command line and in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Name {
    /// Our default scheme.
    Live,
    /// Our scheme that never resizes.
    Fixed,
    /// Our scheme with one shared counter.
    Atomic,
    /// Our scheme with per-CPU counters.
    #[strum(serialize = "percpu")]
    PerCpu,
    /// Our table of the whole system.
    Global,
    /// futex(2).
    Kernel,
    /// parking_lot_core as it is published.
    #[strum(serialize = "parking_lot")]
    ParkingLot,
    /// A locked compare-and-swap and a store: what the processor allows (hash, wake).
    Floor,
}

impl Name {
    /// As it is printed.
    pub fn text(self) -> &'static str {
        self.into()
    }

    /// Whether the engine of this workspace serves it.
    pub fn is_ours(self) -> bool {
        !matches!(self, Name::Kernel | Name::ParkingLot | Name::Floor)
    }

    /// Whether it has locks that lend priorities.
    pub fn has_pi(self) -> bool {
        !matches!(self, Name::ParkingLot | Name::Floor)
    }

    /// Whether threads can sleep on it.
    pub fn can_sleep(self) -> bool {
        self != Name::Floor
    }

    /// Whether tasks can wait on it, and not only threads.
    pub fn has_futures(self) -> bool {
        self.is_ours()
    }

    /// Whether its table can be given another size while it is used.
    pub fn can_resize(self) -> bool {
        matches!(self, Name::Live | Name::Atomic | Name::PerCpu | Name::Kernel)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A bucket layout of our tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Layout {
    /// 64 bytes.
    Lean,
    /// 64 bytes, with a `priv` pointer that every operation reads.
    Packed,
    /// 128 bytes, the chain on a line of its own.
    Split,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It slept, and somebody woke it.
    Woken,
    /// The word had another value.
    Differs,
    /// Anything else: a mistake of the target or of the lab, which ends the run.
    Failed,
}

/// The operations, as the targets have them. What only some have ([`Name::has_pi`]) fails on the others.
pub trait Futex: Send + Sync + 'static {
    /// What a thread needs to own locks.
    type Task: Send + Sync;

    /// Sleeps while the word has the expected value; the comparison happens under the bucket's lock.
    fn wait(&self, word: &AtomicU32, expected: u32) -> Waited;

    /// Wakes at most one waiter, and says how many it woke.
    fn wake(&self, word: &AtomicU32) -> usize;

    /// Wakes up to `count` waiters at once.
    fn wake_many(&self, word: &AtomicU32, count: usize) -> usize;

    /// Has up to `count` waiters of `from`, which holds 0, wait for `to` instead, and wakes nobody.
    fn cmp_requeue(&self, from: &AtomicU32, to: &AtomicU32, count: usize) -> usize;

    /// The calling thread, as an owner of locks.
    fn task(&self) -> Self::Task;

    /// Locks; whether it did.
    fn lock_pi(&self, _lock: &AtomicU32, _task: &Self::Task) -> bool {
        false
    }

    /// Unlocks; whether it did.
    fn unlock_pi(&self, _lock: &AtomicU32, _task: &Self::Task) -> bool {
        false
    }

    /// Waits at `from`, which holds 0, to be moved to `lock`, and then for that; whether it has it.
    fn wait_requeue_pi(&self, _from: &AtomicU32, _lock: &AtomicU32, _task: &Self::Task) -> bool {
        false
    }

    /// Has up to `count` such waiters wait for `lock`, which the caller owns.
    fn cmp_requeue_pi(&self, _from: &AtomicU32, _lock: &AtomicU32, _count: usize) -> usize {
        0
    }

    /// Waits, and calls `queued` when the waiter is in the table and about to sleep.
    ///
    /// None where that moment cannot be seen from outside.
    fn wait_announced(&self, _word: &AtomicU32, _expected: u32, _queued: &mut dyn FnMut()) -> Option<Waited> {
        None
    }

    /// How many buckets the table has; none where this cannot be seen.
    fn buckets(&self) -> Option<usize>;

    /// Whether the new size is in effect: false when `keep_trying` said so first.
    fn set_slots(&self, _slots: usize, _keep_trying: &mut dyn FnMut() -> bool) -> Result<bool, String> {
        Err("its table cannot be resized".to_string())
    }

    /// Makes the table keep its size for good: perf 6.16's `-I`.
    fn set_immutable(&self) -> Result<(), String> {
        Err("its table cannot be made immutable".to_string())
    }

    /// Tells the size policy how many threads there are.
    fn note_threads(&self, _threads: usize) {}

    /// Brings state that targets share (the process has one kernel hash) to what this target measures.
    fn make_ready(&self) {}

    /// Has a crowd wait, and measures wakes as long as it is told to; at once back where only threads can wait.
    fn host(&self, _crowd: &Crowd, _stage: &Stage) {}

    /// Runs one of several equal shares of schbench's workers as tasks on this thread; at once back where only threads
    /// can wait ([`Name::has_futures`]).
    fn serve_tasks(&self, _hall: &Hall, _executor: usize, _executors: usize) {}
}

/// Which operation a worker repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `hash`: wait on a word that differs.
    WaitDiffers,
    /// `wake`: nobody waits.
    WakeNobody,
}

/// A target as the workloads hold it: one dynamic call a sample, none inside it.
pub trait Subject: Send + Sync {
    /// Repeats an operation over the words until the gate says stop.
    fn hammer(&self, operation: Operation, words: &Words, gate: &Gate) -> Tally;
    /// Repeats waits on differing words, and keeps the time of each one that overlaps the window, in ticks.
    fn hammer_timed(&self, words: &Words, gate: &Gate, window: &Window) -> Histogram<u64>;
    /// Repeats waits on differing words, and counts them in each step of the timeline.
    fn hammer_timeline(&self, words: &Words, gate: &Gate, timeline: Timeline) -> Vec<u64>;
    /// One player of ping-pong; the first player's result counts.
    fn play(&self, court: &Court, side: Side, gate: &Gate) -> Tally;
    /// Locks and unlocks until the gate says stop; each time it sleeps for `hold` with the lock held.
    fn hammer_pi(&self, lock: &AtomicU32, hold: Option<Duration>, gate: &Gate) -> Tally;
    /// Moves waiters.
    fn requeue(&self, it: Move<'_>) -> Moved;
    /// Moves waiters to a lock, which this thread owns meanwhile.
    fn requeue_pi(&self, it: Move<'_>) -> Option<Moved>;
    /// The same, to a lock that the first waiter takes: nobody owns it before. Each call takes one waiter besides.
    fn requeue_to_free_lock(&self, it: Move<'_>) -> Moved;
    /// Waits to be moved to a lock, and unlocks it when it has it; whether all of that went well.
    fn wait_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32) -> bool;
    /// See [`Futex::wait`].
    fn wait(&self, word: &AtomicU32, expected: u32) -> Waited;
    /// See [`Futex::wake_many`].
    fn wake_many(&self, word: &AtomicU32, count: usize) -> usize;
    /// See [`Futex::wait_announced`].
    fn wait_announced(&self, word: &AtomicU32, expected: u32, queued: &mut dyn FnMut()) -> Option<Waited>;
    /// See [`Futex::wake`].
    fn wake(&self, word: &AtomicU32) -> usize;
    /// See [`Futex::buckets`].
    fn buckets(&self) -> Option<usize>;
    /// See [`Futex::set_slots`].
    fn set_slots(&self, slots: usize, keep_trying: &mut dyn FnMut() -> bool) -> Result<bool, String>;
    /// See [`Futex::set_immutable`].
    fn set_immutable(&self) -> Result<(), String>;
    /// See [`Futex::note_threads`].
    fn note_threads(&self, threads: usize);
    /// See [`Futex::make_ready`].
    fn make_ready(&self);
    /// See [`Futex::host`].
    fn host(&self, crowd: &Crowd, stage: &Stage);
    /// See [`Futex::serve_tasks`].
    fn serve_tasks(&self, hall: &Hall, executor: usize, executors: usize);
}

impl<F: Futex> Subject for F {
    fn hammer(&self, operation: Operation, words: &Words, gate: &Gate) -> Tally {
        match operation {
            Operation::WaitDiffers => loops::hammer::<F, WaitDiffers>(self, words, gate),
            Operation::WakeNobody => loops::hammer::<F, WakeNobody>(self, words, gate),
        }
    }

    fn hammer_timed(&self, words: &Words, gate: &Gate, window: &Window) -> Histogram<u64> {
        loops::hammer_timed(self, words, gate, window)
    }

    fn hammer_timeline(&self, words: &Words, gate: &Gate, timeline: Timeline) -> Vec<u64> {
        loops::hammer_timeline(self, words, gate, timeline)
    }

    fn play(&self, court: &Court, side: Side, gate: &Gate) -> Tally {
        loops::play(self, court, side, gate)
    }

    fn hammer_pi(&self, lock: &AtomicU32, hold: Option<Duration>, gate: &Gate) -> Tally {
        pi::hammer(self, lock, hold, gate)
    }

    fn requeue(&self, it: Move<'_>) -> Moved {
        requeue::requeue(self, it)
    }

    fn requeue_pi(&self, it: Move<'_>) -> Option<Moved> {
        let task = self.task();
        self.lock_pi(it.to, &task).then_some(())?;
        let moved = requeue::requeue_pi(self, it);
        self.unlock_pi(it.to, &task).then_some(moved)
    }

    fn requeue_to_free_lock(&self, it: Move<'_>) -> Moved {
        requeue::requeue_pi(self, it)
    }

    fn wait_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32) -> bool {
        let task = self.task();
        Futex::wait_requeue_pi(self, from, lock, &task) && self.unlock_pi(lock, &task)
    }

    fn wait(&self, word: &AtomicU32, expected: u32) -> Waited {
        Futex::wait(self, word, expected)
    }

    fn wake_many(&self, word: &AtomicU32, count: usize) -> usize {
        Futex::wake_many(self, word, count)
    }

    fn wait_announced(&self, word: &AtomicU32, expected: u32, queued: &mut dyn FnMut()) -> Option<Waited> {
        Futex::wait_announced(self, word, expected, queued)
    }

    fn wake(&self, word: &AtomicU32) -> usize {
        Futex::wake(self, word)
    }

    fn buckets(&self) -> Option<usize> {
        Futex::buckets(self)
    }

    fn set_slots(&self, slots: usize, keep_trying: &mut dyn FnMut() -> bool) -> Result<bool, String> {
        Futex::set_slots(self, slots, keep_trying)
    }

    fn set_immutable(&self) -> Result<(), String> {
        Futex::set_immutable(self)
    }

    fn note_threads(&self, threads: usize) {
        Futex::note_threads(self, threads);
    }

    fn make_ready(&self) {
        Futex::make_ready(self);
    }

    fn host(&self, crowd: &Crowd, stage: &Stage) {
        Futex::host(self, crowd, stage);
    }

    fn serve_tasks(&self, hall: &Hall, executor: usize, executors: usize) {
        Futex::serve_tasks(self, hall, executor, executors);
    }
}

/// How a target is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of our tables.
    pub layout: Layout,
    /// The size of our tables; a fixed one also sets the kernel's.
    pub policy: Policy,
    /// Shared futexes in place of private ones.
    pub shared: bool,
    /// Whether our wait looks at the word before any lock.
    pub early_return: bool,
}

/// Makes several of our targets as processes of one system: each has a table of its own, and all share the global one.
pub fn build_processes(name: Name, shape: &Shape, processes: usize) -> anyhow::Result<Vec<Arc<dyn Subject>>> {
    ours::build(name, shape, processes)
}

/// Makes a target of its own, with an empty table where it is ours.
pub fn build(name: Name, shape: &Shape) -> anyhow::Result<Arc<dyn Subject>> {
    Ok(match name {
        Name::Kernel => Arc::new(kernel::Kernel::new(shape)),
        Name::ParkingLot => Arc::new(parking_lot::ParkingLot),
        Name::Floor => Arc::new(floor::Floor::new(match shape.policy {
            Policy::Fixed(slots) => slots,
            Policy::Threads | Policy::Load => 0,
        })),
        ours => ours::build(ours, shape, 1)?.remove(0),
    })
}
