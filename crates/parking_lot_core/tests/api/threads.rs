//! Threads that park when they are told to, and say how it ended.

use crate::lines::{Calls, Core, Parked};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread that is parked, or has been.
pub struct Parker {
    ended: Receiver<(Parked, Option<(usize, bool)>)>,
    thread: JoinHandle<()>,
}

/// An address that no other test uses, and those after it in the same cache line.
pub fn key() -> usize {
    // As of a box that is never given back.
    Box::leak(Box::new([0u64; 8])).as_ptr().addr()
}

/// Parks a new thread at `key`, and returns when it is in the queue.
pub fn park<C: Core>(key: usize, token: usize) -> Parker {
    park_until::<C>(key, token, None)
}

/// The same, with a timeout.
pub fn park_until<C: Core>(key: usize, token: usize, timeout: Option<Instant>) -> Parker {
    let (say_queued, queued) = mpsc::channel();
    let (say_ended, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut timed_out = None;
        let calls = Calls {
            validate: &mut || true,
            before_sleep: &mut || say_queued.send(()).expect("somebody waits for it"),
            timed_out: &mut |key, was_last| timed_out = Some((key, was_last)),
        };
        let parked = C::park(key, calls, token, timeout);
        _ = say_ended.send((parked, timed_out));
    });
    queued.recv_timeout(PATIENCE).expect("the thread parks");
    Parker { ended, thread }
}

impl Parker {
    /// How the park ended, which it does soon.
    pub fn ended(self) -> Parked {
        self.ended_with_callback().0
    }

    /// The same, with what `timed_out` was told.
    pub fn ended_with_callback(self) -> (Parked, Option<(usize, bool)>) {
        let ended = self.ended.recv_timeout(PATIENCE).expect("the thread is unparked");
        self.thread.join().expect("the thread does not panic");
        ended
    }

    /// Whether it is still parked, or only about to end.
    pub fn looks_parked(&self) -> bool {
        !self.thread.is_finished()
    }
}

/// Unparks one thread, and answers what the callback was told.
pub fn unpark_one<C: Core>(key: usize, token: usize) -> crate::lines::Unparked {
    let mut told = None;
    let answer = C::unpark_one(key, &mut |it| {
        assert!(told.replace(it).is_none(), "the callback runs once");
        token
    });
    assert_eq!(told, Some(answer), "the callback is told the answer");
    answer.plain()
}
