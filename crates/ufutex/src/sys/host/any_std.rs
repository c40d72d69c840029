//! Any platform of the standard library: threads sleep on condition variables, which they find by the address of their
//! word.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::super::clock::{Clock, Deadline};
use super::super::park::Parked;
use crate::sys::platform::Platform;

/// A [`Platform`] that needs only the standard library. (The rest of the crate compiles with `std` on Linux alone so
/// far.) A sleeping thread waits for a condition variable that it shares with the sleepers of other words, so it wakes up more
/// often than by an operating system's own call.
///
/// Its monotonic clock is `CLOCK_MONOTONIC` on Unix. Elsewhere its epoch is the first use.
#[derive(Clone, Copy, Debug)]
pub struct AnyStd;

/// A mutex and a condition variable for the sleepers of some words. A sleeper compares its word with the mutex held. A
/// waker changes the word, and then locks the mutex in `unpark`. If the waker has the mutex first, the sleeper sees the
/// new value. Otherwise the waker finds the sleeper waiting.
struct Room {
    sleepers: Mutex<usize>,
    woken: Condvar,
}

static ROOMS: [Room; 64] = [const { Room { sleepers: Mutex::new(0), woken: Condvar::new() } }; 64];

fn room(word: *const AtomicU32) -> &'static Room {
    let mixed = (word.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &ROOMS[(mixed >> 58) as usize]
}

impl Room {
    /// Nothing panics with the mutex held, so the number is right even if the standard library says otherwise.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The longest sleep with a deadline on the realtime clock, which may be set meanwhile. `park` may return early, and
/// the caller then looks at the clock again.
const LONGEST: Duration = Duration::from_millis(100);

/// Sleeps while `word` is `expected`, until `deadline` at the latest.
pub fn park(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> Parked {
    let room = room(word);
    let mut sleepers = room.lock();
    if word.load(Ordering::Relaxed) != expected {
        return Parked::Awake; // The mutex orders what the waker has done before; see `Room`.
    }
    let left = deadline.map(|deadline| deadline.at.saturating_sub(time(deadline.clock)));
    if left.is_some_and(|left| left.is_zero()) {
        return Parked::TimedOut;
    }
    *sleepers += 1;
    sleepers = match left {
        None => room.woken.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
        Some(left) => {
            let left = if deadline.is_some_and(|by| by.clock == Clock::Realtime) { left.min(LONGEST) } else { left };
            room.woken.wait_timeout(sleepers, left).unwrap_or_else(PoisonError::into_inner).0
        }
    };
    *sleepers -= 1;
    drop(sleepers);
    let is_over = deadline.is_some_and(|deadline| time(deadline.clock) >= deadline.at);
    if is_over { Parked::TimedOut } else { Parked::Awake }
}

/// Wakes all threads that sleep on words of the same room, because a room does not know which of them sleep on `word`.
/// Returns 0: the number of threads woken is not known.
pub fn unpark(word: *const AtomicU32, _count: usize) -> usize {
    let room = room(word);
    let sleepers = room.lock();
    if *sleepers != 0 {
        room.woken.notify_all();
    }
    0
}

/// The time of `clock` since its epoch.
pub fn now(clock: Clock) -> Option<Duration> {
    Some(time(clock))
}

#[cfg(unix)]
fn time(clock: Clock) -> Duration {
    let id = match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Realtime => libc::CLOCK_REALTIME,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write, and both clocks exist on every Unix.
    unsafe { libc::clock_gettime(id, &mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
fn time(clock: Clock) -> Duration {
    use std::sync::OnceLock;
    use std::time::{Instant, SystemTime};
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    match clock {
        Clock::Monotonic => EPOCH.get_or_init(Instant::now).elapsed(),
        Clock::Realtime => SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

/// Gives up the CPU to another thread.
pub fn yield_now() {
    std::thread::yield_now();
}

/// Sleeps for `length`.
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has its own"))]
pub fn sleep(length: Duration) -> bool {
    std::thread::sleep(length);
    true
}

impl Platform for AnyStd {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let _engine_looks_itself = park(word, expected, deadline.as_ref());
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        time(clock)
    }
    fn yield_now() {
        yield_now();
    }
}
