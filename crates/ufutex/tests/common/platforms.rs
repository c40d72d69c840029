//! Platforms that the suites run on besides the host's own.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ufutex::platform::{AnyStd, Clock, Deadline, Host, Platform};
use ufutex::{System, SystemConfig};

use super::asleep::{Call, thread_id};
use super::libc;

/// A platform whose sleepers can be seen from outside. By [`AnyStd`] their system calls name a condition variable and
/// not the word.
pub struct Watched<P = AnyStd>(std::marker::PhantomData<P>);

/// `config`, on the host's platform, with sleepers that can be seen from outside. Linux shows them by itself.
pub fn watched(config: SystemConfig) -> SystemConfig {
    if cfg!(target_os = "linux") { config } else { config.platform::<Watched<Host>>() }
}

/// The sleep of each thread that has slept by [`Watched`], by the thread's number: the value that the thread expects in
/// the word, plus 1. `0` means that the thread does not sleep.
static SLEEPING: Mutex<Option<HashMap<i32, &'static AtomicU64>>> = Mutex::new(None);

/// A thread's entry, which another thread may get with the number when this one has ended.
struct Own {
    thread: i32,
    sleep: &'static AtomicU64,
}

impl Drop for Own {
    fn drop(&mut self) {
        SLEEPING.lock().expect("not poisoned").get_or_insert_default().remove(&self.thread);
    }
}

thread_local! {
    static OWN: Own = {
        let own = Own { thread: thread_id(), sleep: Box::leak(Box::default()) };
        SLEEPING.lock().expect("not poisoned").get_or_insert_default().insert(own.thread, own.sleep);
        own
    };
}

/// The sleep of a thread by [`Watched`], as a call of futex(2). It may be about to begin or to end. `None` if the thread
/// has never slept by `Watched`, `Some(None)` if it does not sleep now.
pub fn watched_call(thread: i32) -> Option<Option<Call>> {
    let sleeping = SLEEPING.lock().expect("not poisoned");
    let sleep = sleeping.as_ref()?.get(&thread)?;
    let op = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG) as u64;
    Some(sleep.load(Ordering::SeqCst).checked_sub(1).map(|expected| Call { op, expected, bits: u32::MAX }))
}

/// Notes that the thread sleeps during `sleep`, as long as its word holds `expected`.
fn noting<R>(expected: u32, sleep: impl FnOnce() -> R) -> R {
    let own = OWN.with(|own| own.sleep);
    own.store(u64::from(expected) + 1, Ordering::SeqCst);
    let result = sleep();
    own.store(0, Ordering::SeqCst);
    result
}

/// [`std::thread::park`], seen from outside as Linux shows it.
pub fn park_thread() {
    if cfg!(target_os = "linux") { std::thread::park() } else { noting(u32::MAX, std::thread::park) }
}

impl<P: Platform> Platform for Watched<P> {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        noting(expected, || P::park(word, expected, deadline));
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        P::unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        P::now(clock)
    }
    fn yield_now() {
        P::yield_now();
    }
}
