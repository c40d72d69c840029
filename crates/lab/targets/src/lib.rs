//! The measured targets. Each is a [`Futex`]. Each measured loop is written once, generic over it.

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

pub use ours::table;
pub use policy::Policy;
pub use words::Words;

use crowd::{Channels, Crowd};
use lab_measure::pool::Gate;
use loops::{Hammered, PingPong, Tally, Timeline, WaitDiffers, WakeNoWaiter, Window};
use requeue::{Move, Moved};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};

pub use kernel::has_private_hash as kernel_has_private_hash;

/// A target's name on the command line and in the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Name {
    /// The engine's default scheme, which resizes under load.
    Live,
    /// The engine's scheme that never resizes.
    Fixed,
    /// The engine's scheme with one shared counter.
    Atomic,
    /// The engine's scheme with per-CPU counters.
    #[strum(serialize = "percpu")]
    PerCpu,
    /// The engine's global table.
    Global,
    /// futex(2).
    Kernel,
    /// The published parking_lot_core.
    #[strum(serialize = "parking_lot")]
    ParkingLot,
    /// Lower bound: one compare-and-swap and one store on a bucket (hash, wake).
    Floor,
}

impl Name {
    /// The printed name.
    pub fn text(self) -> &'static str {
        self.into()
    }

    /// Whether the target is the engine of this workspace.
    pub fn is_ours(self) -> bool {
        !matches!(self, Name::Kernel | Name::ParkingLot | Name::Floor)
    }

    /// Whether the target can be measured with this layout. One that is not the engine of this workspace has none.
    pub fn has_layout(self, layout: Layout) -> bool {
        layout == Layout::Lean || !matches!(self, Name::Fixed | Name::Atomic | Name::PerCpu)
    }

    /// Whether the target has locks with priority inheritance.
    pub fn has_pi(self) -> bool {
        !matches!(self, Name::ParkingLot | Name::Floor)
    }

    /// Whether threads can sleep on the target.
    pub fn can_sleep(self) -> bool {
        self != Name::Floor
    }

    /// Whether the target's table can be resized while it is used.
    pub fn can_resize(self) -> bool {
        match self {
            Name::Live | Name::Atomic | Name::PerCpu | Name::Kernel => true,
            Name::Fixed | Name::Global | Name::ParkingLot | Name::Floor => false,
        }
    }
}

/// A bucket layout of our tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Layout {
    /// 64 bytes.
    Lean,
    /// 64 bytes with a pointer to the table, which every operation reads.
    Packed,
    /// 128 bytes, with the chain on its own cache line.
    Split,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The thread slept, and another thread woke it.
    Woken,
    /// The word had another value.
    Differs,
    /// Any other result: a defect of the target or of the lab. It ends the run.
    Failed,
}

/// The operations of a target. Operations that only some targets have ([`Name::has_pi`]) fail on the others.
pub trait Target: Send + Sync + 'static {
    /// Sleeps if the word has the expected value. The comparison is made under the bucket's lock.
    fn wait(&self, word: &AtomicU32, expected: u32) -> Waited;

    /// Wakes at most one waiter. Returns the number of woken waiters.
    fn wake(&self, word: &AtomicU32) -> usize;

    /// Wakes up to `count` waiters at once.
    fn wake_many(&self, word: &AtomicU32, count: usize) -> usize;

    /// Requeues up to `count` waiters from `from` to `to` without waking any. `from` must hold 0.
    fn cmp_requeue(&self, from: &AtomicU32, to: &AtomicU32, count: usize) -> usize;

    /// Requeues up to `count` such waiters to `lock`, which the caller owns.
    fn cmp_requeue_pi(&self, _from: &AtomicU32, _lock: &AtomicU32, _count: usize) -> usize {
        0
    }

    /// Waits, and calls `queued` when the waiter is in the table and about to sleep.
    ///
    /// `None` if the target does not show that moment.
    fn wait_announced(&self, _word: &AtomicU32, _expected: u32, _queued: &mut dyn FnMut()) -> Option<Waited> {
        None
    }

    /// Number of buckets of the table. `None` if the target does not show it.
    fn buckets(&self) -> Option<usize>;

    /// Resizes the table. `true` when the new size is in effect, `false` if `keep_trying` returned `false` first.
    fn set_slots(&self, _slots: usize, _keep_trying: &mut dyn FnMut() -> bool) -> Result<bool, String> {
        Err("its table cannot be resized".to_string())
    }

    /// Whether a table of `slots` buckets is in use. Always `false` for targets where asking costs as much as an operation.
    fn is_in_use(&self, _slots: usize) -> bool {
        false
    }

    /// Passes the number of threads to the size policy.
    fn note_threads(&self, _threads: usize) {}

    /// Sets state that targets share, such as the kernel's one hash of the process, to what this target measures.
    fn make_ready(&self) {}

    /// Queues a crowd and measures wakes on request. Returns at once if only threads can wait on the target.
    fn host(&self, _crowd: &Crowd, _channels: &Channels) {}
}

/// A target's operations of threads as owners of locks.
pub trait Futex: Target {
    /// A thread's handle as an owner of locks.
    type Task: Send + Sync;

    /// Makes the calling thread an owner of locks.
    fn task(&self) -> Self::Task;

    /// Locks. Returns whether that succeeded.
    fn lock_pi(&self, _lock: &AtomicU32, _task: &Self::Task) -> bool {
        false
    }

    /// Unlocks. Returns whether that succeeded.
    fn unlock_pi(&self, _lock: &AtomicU32, _task: &Self::Task) -> bool {
        false
    }

    /// Waits at `from`, which must hold 0, to be requeued to `lock`, and to own it. Returns whether the thread owns it.
    fn wait_requeue_pi(&self, _from: &AtomicU32, _lock: &AtomicU32, _task: &Self::Task) -> bool {
        false
    }
}

/// The operation that a worker repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `hash`: waits on a word with another value.
    WaitDiffers,
    /// `wake`: wakes a word without waiters.
    WakeNoWaiter,
}

/// A target behind dynamic dispatch. Each sample is one dynamic call. The loop inside is compiled for the target.
pub trait Subject: Target {
    /// Repeats an operation over the words until the gate is stopped.
    fn hammer(&self, operation: Operation, words: &Words, gate: &Gate) -> Tally;
    /// Repeats waits on words with another value, and times those that overlap the window of a resize to `slots`.
    fn hammer_timed(&self, words: &Words, gate: &Gate, window: &Window, slots: usize) -> Hammered;
    /// Repeats waits on words with another value. Counts them in each step of the timeline.
    fn hammer_timeline(&self, words: &Words, gate: &Gate, timeline: Timeline) -> Vec<u64>;
    /// Runs one player of ping-pong. Only the first player's result is used.
    fn ping_pong(&self, ping_pong: &PingPong, player: usize, gate: &Gate) -> Tally;
    /// Locks and unlocks until the gate is stopped. Sleeps for `hold` with the lock held.
    fn hammer_pi(&self, lock: &AtomicU32, hold: Option<Duration>, gate: &Gate) -> Tally;
    /// Requeues waiters.
    fn requeue(&self, it: Move<'_>) -> Moved;
    /// Requeues waiters to a lock that this thread owns meanwhile.
    fn requeue_pi(&self, it: Move<'_>) -> Option<Moved>;
    /// Waits to be requeued to a lock, and unlocks it when this thread owns it. Returns whether both succeeded.
    fn wait_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32) -> bool;
}

impl<F: Futex> Subject for F {
    fn hammer(&self, operation: Operation, words: &Words, gate: &Gate) -> Tally {
        match operation {
            Operation::WaitDiffers => loops::hammer::<F, WaitDiffers>(self, words, gate),
            Operation::WakeNoWaiter => loops::hammer::<F, WakeNoWaiter>(self, words, gate),
        }
    }

    fn hammer_timed(&self, words: &Words, gate: &Gate, window: &Window, slots: usize) -> Hammered {
        loops::hammer_timed(self, words, gate, window, slots)
    }

    fn hammer_timeline(&self, words: &Words, gate: &Gate, timeline: Timeline) -> Vec<u64> {
        loops::hammer_timeline(self, words, gate, timeline)
    }

    fn ping_pong(&self, ping_pong: &PingPong, player: usize, gate: &Gate) -> Tally {
        loops::ping_pong(self, ping_pong, player, gate)
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

    fn wait_requeue_pi(&self, from: &AtomicU32, lock: &AtomicU32) -> bool {
        let task = self.task();
        Futex::wait_requeue_pi(self, from, lock, &task) && self.unlock_pi(lock, &task)
    }
}

/// The parameters of a target.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The bucket layout of our tables.
    pub layout: Layout,
    /// The size policy of our tables. A fixed size also sets the kernel's.
    pub policy: Policy,
    /// Whether the futexes are shared, not private.
    pub shared: bool,
    /// Whether our wait compares the word before it locks anything.
    pub early_return: bool,
    /// How long our waiting threads spin at most before they sleep.
    pub spin: Duration,
}

impl Shape {
    /// Private futexes, whose waits lock before they compare, and whose threads sleep at once.
    pub fn new(layout: Layout, policy: Policy) -> Self {
        Self { layout, policy, shared: false, early_return: false, spin: Duration::ZERO }
    }
}

/// Makes a target. Ours has a new, empty table.
pub fn build(name: Name, shape: &Shape) -> anyhow::Result<Arc<dyn Subject>> {
    Ok(match name {
        Name::Kernel => Arc::new(kernel::Kernel::new(shape)),
        Name::ParkingLot => Arc::new(parking_lot::ParkingLot),
        Name::Floor => Arc::new(floor::Floor::new(match shape.policy {
            Policy::Fixed(slots) => slots,
            Policy::Threads | Policy::Load => 0,
        })),
        ours => ours::build(ours, shape)?,
    })
}
