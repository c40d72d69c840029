//! Any platform of the standard library: threads sleep on condition variables, which they find by the address of their word.

use core::cell::UnsafeCell;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub use std::thread::yield_now;

use super::super::clock::{Clock, Deadline};
use super::super::park::ParkEnd;
use super::clocks::time;
use crate::sys::platform::Platform;

/// A [`Platform`] that needs only the standard library. It is the host's own where that is neither Linux nor Windows. A sleeper
/// shares a condition variable with those of other words, so it wakes up more often than by a system call. `park` and `unpark`
/// lock a mutex, so signal handlers must not call them; on Apple's systems and NetBSD its first use allocates.
///
/// Its clocks are the host's:
///
/// | host | [`Clock::Monotonic`] | while the machine sleeps |
/// |---|---|---|
/// | Apple's | `CLOCK_UPTIME_RAW` | stands still |
/// | any other Unix, Linux among them | `CLOCK_MONOTONIC` | stands still on Linux, elsewhere as that system has it |
/// | Windows | QueryPerformanceCounter, since boot | goes on |
/// | any other | `std::time::Instant`, since the first use | not known |
///
/// [`Clock::Realtime`] is the time since 1970 everywhere.
#[derive(Clone, Copy, Debug)]
pub struct AnyStd;

/// Where the sleepers of some words wait. A sleeper compares its word with the mutex held, and a waker locks it after it has
/// changed the word. So the sleeper sees the new value, or is waiting by then.
struct ParkingRoom {
    mutex: Mutex<()>,
    woken: Condvar,
}

struct Rooms(UnsafeCell<[ParkingRoom; 64]>);

// SAFETY: the rooms are `Sync`, and are replaced while there is only one thread.
unsafe impl Sync for Rooms {}

static ROOMS: Rooms = Rooms(UnsafeCell::new(empty()));

const fn empty() -> [ParkingRoom; 64] {
    [const { ParkingRoom { mutex: Mutex::new(()), woken: Condvar::new() } }; 64]
}

fn room(word: *const AtomicU32) -> &'static ParkingRoom {
    let mixed = (word.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // SAFETY: the rooms are replaced only while no thread has a reference.
    let rooms = unsafe { &*ROOMS.0.get() };
    &rooms[(mixed >> 58) as usize]
}

/// In the child of fork(2): a thread that the child does not have may hold a mutex.
///
/// # Safety
/// There is one thread, and it neither sleeps nor wakes.
pub unsafe fn forget_sleepers() {
    // SAFETY: as for this function. The old rooms are not dropped.
    unsafe { ROOMS.0.get().write(empty()) };
}

impl ParkingRoom {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a thread may sleep at once before it reads the clock again. The realtime clock may be set meanwhile, and some
/// monotonic clocks go on while the machine sleeps, which sleeps do not count.
pub const fn longest(clock: Clock) -> Duration {
    match clock {
        Clock::Realtime => Duration::from_millis(100),
        Clock::Monotonic => Duration::from_secs(10),
    }
}

pub fn longest_sleep(deadline: &Deadline) -> Duration {
    deadline.at.saturating_sub(time(deadline.clock)).min(longest(deadline.clock))
}

pub fn has_passed(deadline: &Deadline) -> bool {
    time(deadline.clock) >= deadline.at
}

pub fn park(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>, _any_wake: NonZeroU32) -> ParkEnd {
    let room = room(word);
    let guard = room.lock();
    if word.load(Ordering::Relaxed) != expected {
        return ParkEnd::Awake; // The caller loads it again, with Acquire: the waker may not have locked the mutex yet.
    }
    let left = deadline.map(longest_sleep);
    if left.is_some_and(|left| left.is_zero()) {
        return ParkEnd::TimedOut;
    }
    match left {
        None => drop(room.woken.wait(guard)),
        Some(left) => drop(room.woken.wait_timeout(guard, left)),
    }
    if deadline.is_some_and(has_passed) { ParkEnd::TimedOut } else { ParkEnd::Awake }
}

/// Wakes all that sleep on words of the room, which does not know who sleeps on `word`. Returns 0: not known.
pub fn unpark(word: *const AtomicU32, _count: usize, _any: NonZeroU32) -> usize {
    let room = room(word);
    drop(room.lock()); // a sleeper that has seen the old value waits by now
    room.woken.notify_all();
    0
}

#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has its own"))]
pub fn sleep(length: Duration) -> bool {
    std::thread::sleep(length);
    true
}

#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has its own"))]
pub fn online() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Platform for AnyStd {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let _engine_looks_itself = park(word, expected, deadline.as_ref(), NonZeroU32::MAX);
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        unpark(word, count, NonZeroU32::MAX)
    }
    fn now(clock: Clock) -> Duration {
        time(clock)
    }
    fn yield_now() {
        yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_that_has_changed_before_the_sleep_ends_it() {
        let soon = Deadline { clock: Clock::Monotonic, at: time(Clock::Monotonic) + Duration::from_millis(10) };
        assert_eq!(park(&AtomicU32::new(1), 0, Some(&soon), NonZeroU32::MAX), ParkEnd::Awake);
    }

    #[test]
    fn sleep_ends_at_its_deadline_or_with_a_wake() {
        let word = AtomicU32::new(0);
        let soon = Deadline { clock: Clock::Monotonic, at: time(Clock::Monotonic) + Duration::from_millis(5) };
        assert!(!has_passed(&Deadline { at: Duration::MAX, ..soon }));
        while park(&word, 0, Some(&soon), NonZeroU32::MAX) == ParkEnd::Awake {}
        assert!(has_passed(&soon));
        let far = Deadline { at: soon.at + Duration::from_secs(3600), ..soon };
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let mut parked = ParkEnd::Awake;
                while word.load(Ordering::Relaxed) == 0 && parked == ParkEnd::Awake {
                    parked = park(&word, 0, Some(&far), NonZeroU32::MAX);
                }
                parked
            });
            std::thread::sleep(Duration::from_millis(5));
            word.store(1, Ordering::Relaxed);
            unpark(&raw const word, 1, NonZeroU32::MAX);
            assert_eq!(sleeper.join().expect("it does not panic"), ParkEnd::Awake);
        });
    }
}
