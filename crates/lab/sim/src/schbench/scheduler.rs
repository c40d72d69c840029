//! The memory of a thread that the scheduler touches on a wake, beside the futex. The sleeper wrote these lines last.
//!
//! The kernel's `try_to_wake_up` locks the task, sets its state and CPU, and puts it into that CPU's run queue. The
//! task's lines were last written where it slept, the run queue's by its CPU. The cost of everything else is `wake` in
//! the topology's `[thread]`.

use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::memory;
use ufutex_coherence::objects::{self, Field};

/// Lines of a task that a wake writes to (assumed): its lock, its state and its links in the run queue.
const LINES: usize = 3;
const LINE: usize = 64;

/// The tasks of all threads.
pub struct Tasks {
    lines: Vec<Line>,
}

#[repr(align(64))]
struct Line(AtomicU32);

impl Tasks {
    /// Makes the tasks of this many threads.
    pub fn new(threads: usize) -> Self {
        const FIELDS: &[Field] = &[Field { offset: 0, bytes: LINE, name: "state" }];
        let lines: Vec<_> = memory::by_line(|| (0..threads * LINES).map(|_| Line(AtomicU32::new(0))).collect());
        objects::name(lines.as_ptr().addr(), LINE, lines.len(), "task", FIELDS);
        Self { lines }
    }

    /// Call when the running thread goes to sleep.
    pub fn sleep(&self, thread: usize) {
        self.of(thread).iter().for_each(|line| line.0.store(0, Ordering::Relaxed));
    }

    /// Call when the running thread has woken `thread`.
    pub fn wake(&self, thread: usize) {
        self.of(thread).iter().for_each(|line| {
            line.0.swap(1, Ordering::AcqRel);
        });
    }

    fn of(&self, thread: usize) -> &[Line] {
        &self.lines[thread * LINES..][..LINES]
    }
}
