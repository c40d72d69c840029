//! A signal that arrives during a wait.

use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::time::{Duration, Instant};

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Error, Timeout, WaitOptions};

use crate::common::asleep::{Call, futex_call, thread_id, until};
use crate::common::domains::{domain, on_every_domain};
use crate::futex::{PLAINLY, Sharing, word};
use crate::kernel::kernel;

static HANDLED: [AtomicUsize; 65536] = [const { AtomicUsize::new(0) }; 65536];

extern "C" fn handler(_signal: libc::c_int) {
    HANDLED[thread_id() as usize % HANDLED.len()].fetch_add(1, Relaxed);
}

/// Handles `SIGUSR1` without `SA_RESTART`.
fn handle_the_signal() {
    // SAFETY: zero is a valid sigaction: no flags, nothing blocked; the handler only adds to an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
}

/// A thread that runs `wait`, and its number.
struct Waiting<R> {
    thread: i32,
    handle: std::thread::JoinHandle<R>,
}

impl<R: Send + 'static> Waiting<R> {
    fn start(wait: impl FnOnce() -> R + Send + 'static) -> Self {
        let thread = Arc::new(AtomicU32::new(0));
        let its_thread = thread.clone();
        let handle = std::thread::spawn(move || {
            its_thread.store(thread_id() as u32, Relaxed);
            wait()
        });
        until("the thread runs", || thread.load(Relaxed) != 0);
        Self { thread: thread.load(Relaxed) as i32, handle }
    }

    fn until_asleep(&self, is_right: impl Fn(Call) -> bool) {
        until("the waiter sleeps", || futex_call(self.thread).is_some_and(&is_right));
    }

    /// Interrupts the thread and waits until it has handled that.
    fn interrupt(&self) {
        let handled = &HANDLED[self.thread as usize % HANDLED.len()];
        let before = handled.load(Relaxed);
        // SAFETY: the thread is not joined before it is dropped, so the handle is valid.
        assert_eq!(unsafe { libc::pthread_kill(self.handle.as_pthread_t(), libc::SIGUSR1) }, 0);
        until("the signal is handled", || handled.load(Relaxed) != before);
    }

    fn end(self) -> R {
        until("the wait ends", || self.handle.is_finished());
        self.handle.join().expect("a waiter does not panic")
    }
}

fn signal_does_not_end_a_wait<S: Scheme<L>, L: Layout>() {
    handle_the_signal();
    let domain = Arc::new(domain::<S, L>());
    let word = word(0);
    let its_domain = domain.clone();
    let waiting = Waiting::start(move || its_domain.wait(word, 0));
    for _ in 0..5 {
        waiting.until_asleep(Call::is_of_the_engine);
        waiting.interrupt();
    }
    waiting.until_asleep(Call::is_of_the_engine);
    assert_eq!(domain.wake(word, usize::MAX), 1);
    assert_eq!(waiting.end(), Ok(()));
}

fn signal_does_not_move_the_end_of_a_timeout<S: Scheme<L>, L: Layout>() {
    const LENGTH: Duration = Duration::from_millis(20);
    handle_the_signal();
    let domain = Arc::new(domain::<S, L>());
    let word = word(0);
    let its_domain = domain.clone();
    let begin = Instant::now();
    let options = WaitOptions::new().timeout(Timeout::After(LENGTH));
    let waiting = Waiting::start(move || {
        let result = its_domain.wait_with(word, 0, &options);
        (result, Instant::now())
    });
    while !waiting.handle.is_finished() && begin.elapsed() < LENGTH / 2 {
        waiting.interrupt();
    }
    let (result, end) = waiting.end();
    assert_eq!(result, Err(Error::TimedOut));
    assert!(end - begin >= LENGTH);
    assert_eq!(domain.wake(word, usize::MAX), 0);
}

on_every_domain![signal_does_not_end_a_wait, signal_does_not_move_the_end_of_a_timeout];

#[test]
fn signal_ends_a_wait_in_the_kernel_with_eintr() {
    handle_the_signal();
    for sharing in [Sharing::Private, Sharing::Shared] {
        let word = word(0);
        let waiting = Waiting::start(move || kernel(sharing).wait(word, 0, PLAINLY));
        waiting.until_asleep(|call| call.is_on(word));
        waiting.interrupt();
        assert_eq!(waiting.end(), Err(libc::EINTR));
    }
}
