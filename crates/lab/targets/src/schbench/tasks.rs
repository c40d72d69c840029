//! How a worker rests: as a thread, in the target's own wait; as a task, in a future of the engine.

use super::executor;
use super::hall::{Desk, Hall};
use super::worker::work;
use crate::{Subject, Waited};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What a worker does where it has nothing to do.
pub trait Rest {
    /// Sleeps while the word has the value; may end early.
    fn wait(&self, word: &AtomicU32, expected: u32) -> impl Future<Output = ()>;
    /// Sleeps for so long.
    fn nap(&self, length: Duration) -> impl Future<Output = ()>;
}

/// A thread's: its futures block, and are done when they are polled.
struct Blocking<'a>(&'a dyn Subject);

impl Rest for Blocking<'_> {
    async fn wait(&self, word: &AtomicU32, expected: u32) {
        assert_ne!(self.0.wait(word, expected), Waited::Failed, "a worker's wait");
    }

    async fn nap(&self, length: Duration) {
        std::thread::sleep(length);
    }
}

/// Runs a worker on this thread.
pub fn as_thread(hall: &Hall, desk: &Desk, number: usize, subject: &dyn Subject) {
    // SAFETY: the call takes nothing and changes nothing.
    desk.workers[number].tid.store(unsafe { libc::gettid() } as u32, Ordering::Relaxed);
    let rest = Blocking(subject);
    let done = pin!(work(hall, desk, number, subject, &rest)).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(done, Poll::Ready(()), "nothing of a thread's rest is pending");
}

/// Runs one of `executors` equal shares of all workers on this thread, as tasks.
pub fn as_task<R: Rest>(hall: &Hall, executor: usize, executors: usize, subject: &dyn Subject, rest: &R) {
    let places = hall.desks.iter().flat_map(|desk| (0..desk.workers.len()).map(move |number| (desk, number)));
    let mine = places.skip(executor).step_by(executors);
    executor::run(mine.map(|(desk, number)| work(hall, desk, number, subject, rest)));
}
