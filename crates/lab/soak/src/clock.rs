//! The clocks of the second world: the host's, but its CLOCK_REALTIME jumps.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use ufutex::platform::{Clock, Deadline, Host, Platform};
use ufutex::timer::{Base, Clocks};

/// How far CLOCK_REALTIME is ahead of the host's, in nanoseconds. A platform has no `self`, so this is a static.
static AHEAD_NS: AtomicI64 = AtomicI64::new(0);
/// A sequence number: odd while the clock is being set, and two higher after each setting.
static SETTINGS: AtomicU64 = AtomicU64::new(0);

/// A thread that sleeps until a point of CLOCK_REALTIME checks that clock at this interval, because it may jump.
const CHECK_EVERY: Duration = Duration::from_millis(5);
const TAI_AHEAD: Duration = Duration::from_secs(37);
const BOOTTIME_AHEAD: Duration = Duration::from_secs(3600);

/// Sets CLOCK_REALTIME. Only one thread may call it.
pub fn jump_to(ahead_ns: i64) {
    SETTINGS.fetch_add(1, Ordering::SeqCst); // [Ln]
    AHEAD_NS.store(ahead_ns, Ordering::SeqCst); // [Ln]
    SETTINGS.fetch_add(1, Ordering::SeqCst); // [Ln]
}

/// The sequence number of the clock. If it is equal before and after an operation, the clock was not set meanwhile. `None`
/// while it is being set.
pub fn setting() -> Option<u64> {
    let setting = SETTINGS.load(Ordering::SeqCst); // [Ln]
    setting.is_multiple_of(2).then_some(setting)
}

/// The platform: the host's, with the clock that jumps.
pub struct Jumping;

impl Platform for Jumping {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let deadline = deadline.map(|deadline| match deadline.clock {
            Clock::Monotonic => deadline,
            Clock::Realtime => {
                let left = deadline.at.saturating_sub(Self::now(Clock::Realtime)).min(CHECK_EVERY);
                Deadline { clock: Clock::Monotonic, at: Host::now(Clock::Monotonic) + left }
            }
        });
        Host::park(word, expected, deadline);
    }

    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        Host::unpark(word, count)
    }

    fn now(clock: Clock) -> Duration {
        let now = Host::now(clock);
        match clock {
            Clock::Monotonic => now,
            Clock::Realtime => {
                let ahead = AHEAD_NS.load(Ordering::SeqCst); // [Ln]
                let by = Duration::from_nanos(ahead.unsigned_abs());
                if ahead < 0 { now.saturating_sub(by) } else { now + by }
            }
        }
    }
}

/// The clocks of timers and of futures' timeouts, which show the same times.
#[derive(Default)]
pub struct JumpingClocks {
    changed: Mutex<bool>,
    bell: Condvar,
}

impl JumpingClocks {
    /// Sleeps for `length`, or until the driver's next turn may have become earlier.
    pub fn sleep(&self, length: Duration) {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.bell.wait_timeout_while(changed, length, |changed| !*changed);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl Clocks for JumpingClocks {
    fn now(&self, base: Base) -> Duration {
        match base {
            Base::Monotonic => Jumping::now(Clock::Monotonic),
            Base::Boottime => Jumping::now(Clock::Monotonic) + BOOTTIME_AHEAD,
            Base::Realtime => Jumping::now(Clock::Realtime),
            Base::Tai => Jumping::now(Clock::Realtime) + TAI_AHEAD,
        }
    }

    fn changed(&self) {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_one();
    }
}
