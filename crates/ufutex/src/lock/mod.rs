//! The engine's lock, which sleeps and hands over: as the state word of a bucket ([`StateLock`]), and around a value
//! ([`Lock`]).

mod state;

pub use state::{LIVE, LOCKED, ONE_WAITER, StateLock};

use crate::sync::UnsafeCell;
use crate::sys::platform::PlatformRef;

/// A value behind a [`StateLock`], for data that is locked rarely, such as the progress of a resize.
pub struct Lock<T> {
    lock: StateLock,
    on: PlatformRef,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `LockGuard`, of which there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: a lock owns its value, as any owner of a `T` does.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    pub fn new(on: PlatformRef, value: T) -> Self {
        Self { lock: StateLock::new(LIVE), on, value: UnsafeCell::new(value) }
    }

    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        self.lock.lock_live(&self.on);
        LockGuard(self)
    }

    /// Locks if no thread holds the lock.
    #[inline]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        // The lock is always live, and its word counts no waiters.
        self.lock.lock_if_idle(&self.on).then(|| LockGuard(self))
    }
}

pub struct LockGuard<'a, T>(&'a Lock<T>);

impl<T> LockGuard<'_, T> {
    pub fn with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this guard holds the lock, and `&mut self` rules out a second reference.
        self.0.value.with_mut(|v| f(unsafe { &mut *v }))
    }
}

impl<T> Drop for LockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // No yield after it, unlike for a bucket: the lock's holder may hold a bucket too.
        self.0.lock.unlock(&self.0.on, LIVE);
    }
}

#[cfg(test)]
mod tests {
    //! Promise: lock handed over

    use super::state::{ASLEEP, NOBODY, STARVING};
    use super::*;
    use crate::sync::{Ordering, spin_loop};
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::{Duration, Instant};

    const HOST: PlatformRef = PlatformRef::HOST;

    #[derive(Default)]
    struct Passes {
        /// Acquisitions by other threads since a contender has been starving.
        now: u32,
        most: u32,
        starved: u32,
    }

    /// Locks, counts a pass if a contender is starving, and holds the lock for longer than a contender takes to check again.
    fn hammer(lock: &Lock<Passes>, done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) {
            let mut guard = lock.lock();
            let until = Instant::now() + Duration::from_micros(50);
            let starves = || lock.lock.contended.load(Ordering::Relaxed) >= STARVING;
            let starved = starves();
            while Instant::now() < until {
                spin_loop();
            }
            guard.with(|passes| {
                passes.now = if starved { passes.now + 1 } else { 0 };
                passes.most = passes.most.max(passes.now);
                passes.starved += u32::from(starved);
            });
        }
    }

    /// Each unlock after `STARVING` was raised grants the lock, unless another thread takes it in the few instructions between,
    /// which does not happen many times in a row.
    #[test]
    fn a_starving_contender_is_passed_a_few_times_at_most() {
        const PASSES: u32 = 16;
        const PATIENCE: Duration = Duration::from_secs(60);
        let begun = Instant::now();
        let lock = Lock::new(HOST, Passes::default());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| hammer(&lock, &done));
            }
            let mut starved = 0;
            for turn in 0.. {
                starved = lock.lock().with(|passes| {
                    passes.now = 0;
                    passes.starved
                });
                if turn >= 50 && starved > 0 || begun.elapsed() > PATIENCE {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
            assert!(starved > 0, "no contender has starved in {PATIENCE:?}");
        });
        let most = lock.lock().with(|passes| passes.most);
        assert!(most <= PASSES, "a starving contender was passed {most} times");
    }

    #[test]
    fn a_grant_is_claimed_once() {
        let lock = Lock::new(HOST, ());
        let guard = lock.lock();
        lock.lock.contended.store(STARVING, Ordering::Relaxed);
        drop(guard);
        assert!(lock.try_lock().is_none(), "it is held for the contender that starves");
        assert_eq!(lock.lock.claim(&HOST, ASLEEP), None, "which this one does not");
        assert_eq!(lock.lock.claim(&HOST, STARVING), Some(LIVE));
        assert_eq!(lock.lock.claim(&HOST, STARVING), None);
        drop(LockGuard(&lock));
        assert!(lock.try_lock().is_some());
        assert_eq!(lock.lock.contended.load(Ordering::Relaxed), NOBODY);
    }

    #[test]
    fn a_contender_that_locks_by_itself_takes_its_mark_along() {
        let lock = Lock::new(HOST, ());
        lock.lock.contended.store(STARVING, Ordering::Relaxed);
        assert_eq!(lock.lock.attempt(&HOST, STARVING), Some(Some(LIVE)));
        drop(LockGuard(&lock));
        assert!(lock.try_lock().is_some(), "nobody is left to grant it to");
    }
}
