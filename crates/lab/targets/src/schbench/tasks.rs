//! How a worker sleeps: a thread in the target's own wait, a task in a future of the engine.

use super::executor;
use super::shared::{MessageThread, SharedState};
use super::worker::work;
use crate::{Subject, Waited};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How a worker sleeps.
pub trait Rest {
    /// Sleeps if the word has the expected value. May return early.
    fn wait(&self, word: &AtomicU32, expected: u32) -> impl Future<Output = ()>;
    /// Sleeps for `length`.
    fn nap(&self, length: Duration) -> impl Future<Output = ()>;
}

/// The sleep of a thread. Its futures block inside `poll`, and are ready at once.
struct Blocking<'a>(&'a dyn Subject);

impl Rest for Blocking<'_> {
    async fn wait(&self, word: &AtomicU32, expected: u32) {
        assert_ne!(self.0.wait(word, expected), Waited::Failed, "a worker's wait");
    }

    async fn nap(&self, length: Duration) {
        std::thread::sleep(length);
    }
}

/// Runs a worker on the calling thread.
pub fn as_thread(shared: &SharedState, message_thread: &MessageThread, number: usize, subject: &dyn Subject) {
    // SAFETY: the call takes nothing and changes nothing.
    message_thread.workers[number].tid.store(unsafe { libc::gettid() } as u32, Ordering::Relaxed);
    let rest = Blocking(subject);
    let done = pin!(work(shared, message_thread, number, subject, &rest)).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(done, Poll::Ready(()), "nothing of a thread's rest is pending");
}

/// Runs share `executor` of `executors` equal shares of all workers, as tasks on the calling thread.
pub fn as_task<R: Rest>(shared: &SharedState, executor: usize, executors: usize, subject: &dyn Subject, rest: &R) {
    let places = shared
        .message_threads
        .iter()
        .flat_map(|message_thread| (0..message_thread.workers.len()).map(move |number| (message_thread, number)));
    let mine = places.skip(executor).step_by(executors);
    executor::run(mine.map(|(message_thread, number)| work(shared, message_thread, number, subject, rest)));
}
