//! Threads that park on request and report how the park ended.

use crate::lines::{Calls, Core, Parked};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than any step of a test takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread that `park` has started.
pub struct Parker {
    ended: Receiver<(Parked, Option<(usize, bool)>)>,
    thread: JoinHandle<()>,
}

/// The address of a new cache line. No other test uses an address in it.
pub fn key() -> usize {
    // The box is never freed, so the address is not used again.
    Box::leak(Box::new([0u64; 8])).as_ptr().addr()
}

/// Parks a new thread at `key`. Returns when the thread is queued.
pub fn park<C: Core>(key: usize, token: usize) -> Parker {
    park_until::<C>(key, token, None)
}

/// Like `park`, with a timeout.
pub fn park_until<C: Core>(key: usize, token: usize, timeout: Option<Instant>) -> Parker {
    let (say_queued, queued) = mpsc::channel();
    let (say_ended, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut timed_out = None;
        let calls = Calls {
            validate: &mut || true,
            before_sleep: &mut || say_queued.send(()).expect("the receiver waits for it"),
            timed_out: &mut |key, was_last| timed_out = Some((key, was_last)),
        };
        let parked = C::park(key, calls, token, timeout);
        _ = say_ended.send((parked, timed_out));
    });
    queued.recv_timeout(PATIENCE).expect("the thread parks");
    Parker { ended, thread }
}

impl Parker {
    /// Waits for the end of the park, and returns how it ended.
    pub fn ended(self) -> Parked {
        self.ended_with_callback().0
    }

    /// Like `ended`, with the arguments of the callback `timed_out` if it ran.
    pub fn ended_with_callback(self) -> (Parked, Option<(usize, bool)>) {
        let ended = self.ended.recv_timeout(PATIENCE).expect("the thread is unparked");
        self.thread.join().expect("the thread does not panic");
        ended
    }

    /// `true` while the thread runs: it is parked, or about to end.
    pub fn looks_parked(&self) -> bool {
        !self.thread.is_finished()
    }
}

/// Unparks one thread and returns the result, which must equal the callback's argument.
pub fn unpark_one<C: Core>(key: usize, token: usize) -> crate::lines::Unparked {
    let mut told = None;
    let answer = C::unpark_one(key, &mut |it| {
        assert!(told.replace(it).is_none(), "the callback runs once");
        token
    });
    assert_eq!(told, Some(answer), "the callback is told the answer");
    answer.plain()
}
