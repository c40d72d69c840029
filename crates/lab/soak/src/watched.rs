//! A clock that stands still while the watch does not run: the process is stopped, or its machine paused. What must come
//! within some time is given that time by this clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static NS: AtomicU64 = AtomicU64::new(0);
/// The clock advances by at most this much from one look of the watch to the next.
const MOST: Duration = Duration::from_secs(1);

/// The time on the clock.
pub fn now() -> Duration {
    Duration::from_nanos(NS.load(Ordering::Relaxed))
}

/// What advances the clock. There is one.
pub struct Watch(Instant);

impl Watch {
    pub fn new() -> Self {
        Self(Instant::now())
    }

    /// Advances the clock by the time since the last look.
    pub fn look(&mut self) {
        let passed = self.0.elapsed().min(MOST);
        self.0 = Instant::now();
        NS.fetch_add(passed.as_nanos() as u64, Ordering::Relaxed);
    }
}
