//! Waits by a scheduler of the embedder's own: `Domain::prepare_with` queues, and the scheduler puts the task to sleep.
//!
//! A timer that makes the task ready exchanges `ASLEEP` for `RUNNING` first, and uses the run queue only if that succeeds. As soon as a
//! task is `ASLEEP`, another CPU may put it into the run queue: make the exchange to `ASLEEP`, and the move out of the running tasks,
//! with the run queue's lock held. (Here a thread that is unparked before it parks does not sleep.) A scheduler that waits for a
//! condition waits for `|| queued.is_woken()`, then calls `cancel`, which says whether a wake has come, and drops the `Queued`.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::task::{Wake, Waker};
use ufutex::{Domain, Error, System, Target, WaitOptions, Waiter};

/// A task of the embedder; here a thread stands for it.
struct Task {
    state: AtomicU32,
    thread: std::thread::Thread,
}

const RUNNING: u32 = 0;
const ASLEEP: u32 = 1;
const WOKEN: u32 = 2;

impl Wake for Task {
    /// Called by the engine on the waking thread, with nothing locked. A task that is not asleep yet is not made ready.
    fn wake(self: Arc<Self>) {
        if self.state.swap(WOKEN, AcqRel) == ASLEEP {
            self.thread.unpark(); // your run queue
        }
    }
}

impl Task {
    /// Gives the processor to other tasks, unless a wake has come since the wait was prepared.
    fn sleep(&self) {
        if self.state.compare_exchange(RUNNING, ASLEEP, AcqRel, Acquire).is_ok() {
            while self.state.load(Acquire) == ASLEEP {
                std::thread::park(); // your scheduler
            }
        }
        self.state.store(RUNNING, Relaxed);
    }
}

fn wait<T: Target>(
    domain: &Domain,
    task: &Arc<Task>,
    word: T,
    expected: T::Value,
    is_over: impl Fn() -> bool,
) -> Result<(), Error> {
    let mut waiter = pin!(Waiter::new());
    task.state.store(RUNNING, Relaxed); // an earlier wake may have come before the task slept
    let waker = Waker::from(task.clone()); // counts up: a wait allocates nothing
    let mut queued = domain.prepare_with(waiter.as_mut(), word, expected, &WaitOptions::new(), waker)?;
    loop {
        if queued.is_woken() {
            return queued.finish();
        }
        // The time is up, or the task is to end.
        if is_over() {
            // A lock that your waker takes may be held here, but none that `Platform::park` or `unpark` takes.
            let in_time = queued.cancel();
            // Neither kind of lock may be held here: it waits until the waker has returned.
            drop(queued);
            return if in_time { Err(Error::Interrupted) } else { Ok(()) };
        }
        task.sleep();
    }
}

fn main() {
    let (domain, word) = (Domain::new(&System::new()), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| while domain.wake(&word, 1) == 0 {});
        let task = Arc::new(Task { state: AtomicU32::new(RUNNING), thread: std::thread::current() });
        assert_eq!(wait(&domain, &task, &word, 0, || false), Ok(()));
    });
}
