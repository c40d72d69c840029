//! What a wake touches of the thread that it wakes, beside the futex: lines that the sleeper wrote when it went to sleep.
//!
//! The kernel's `try_to_wake_up` takes the lock in the task, sets its state, says on which CPU it runs, and puts it on that CPU's
//! queue. The task's lines were written last where it slept, the queue's by its CPU. What it does beside is `wake` of the
//! topology's `[thread]`.

use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::memory;
use ufutex_coherence::objects::{self, Field};

/// Lines of a task that a wake writes to (assumed): its lock, its state, and where it stands in a queue lie in three parts of it.
const LINES: usize = 3;
const LINE: usize = 64;

/// Of each thread.
pub struct Tasks {
    lines: Vec<Line>,
}

#[repr(align(64))]
struct Line(AtomicU32);

impl Tasks {
    /// Of so many threads.
    pub fn new(threads: usize) -> Self {
        const FIELDS: &[Field] = &[Field { offset: 0, bytes: LINE, name: "state" }];
        let lines: Vec<_> = memory::by_line(|| (0..threads * LINES).map(|_| Line(AtomicU32::new(0))).collect());
        objects::name(lines.as_ptr().addr(), LINE, lines.len(), "task", FIELDS);
        Self { lines }
    }

    /// The running thread goes to sleep.
    pub fn sleep(&self, thread: usize) {
        self.of(thread).iter().for_each(|line| line.0.store(0, Ordering::Relaxed));
    }

    /// The running thread has woken this one.
    pub fn wake(&self, thread: usize) {
        self.of(thread).iter().for_each(|line| {
            line.0.swap(1, Ordering::AcqRel);
        });
    }

    fn of(&self, thread: usize) -> &[Line] {
        &self.lines[thread * LINES..][..LINES]
    }
}
