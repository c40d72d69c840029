//! The lock in a bucket's state word.
//!
//! The word holds the locked bit, the live bit and the number of waiters. It is changed only by the compare-and-swap
//! that acquires and by the holder, so the holder unlocks with one plain store of the next state: an operation that
//! ends at once (a wait on a word that differs) costs one locked instruction.
//!
//! Contenders leave their mark in a second word, `contended`, and sleep on it. The unlocking side stores the state and
//! then loads `contended`, with no barrier between the two; a contender stores `contended` and then loads the state.
//! Each could miss the other. So the contender, who has lost its time anyway, pays for both ([C] with [D] in
//! `sys::barrier`). Where the platform cannot do that, it sleeps for a bounded time and looks again.
//!
//! Whoever unlocks and finds `contended` raised takes it down and wakes all sleepers. One that was about to sleep and
//! raised it before finds it down and does not sleep; one that raises it later is seen by the next to unlock. Of a bucket
//! that is not live any more there is no next: whoever raised it and finds that out does the same as an unlock.

use core::time::Duration;

use crate::sync::{AtomicU32, MODEL, Mutant, Ordering, UnsafeCell, mutant, relaxed_in, spin_loop};
use crate::sys::barrier;
use crate::sys::clock::{Clock, Deadline, monotonic_ns};
use crate::sys::park::{Parker, yield_now};

/// Somebody holds the lock.
pub const LOCKED: u32 = 1;
/// The keys of this bucket are looked up here and nowhere else.
pub const LIVE: u32 = 2;
/// The rest of the word counts waiters in units of this.
pub const ONE_WAITER: u32 = 4;

/// A few microseconds: longer than anybody holds a bucket without losing its CPU.
const SPINS: u32 = if MODEL { 0 } else { 100 };

/// How long a contender sleeps where nothing guarantees that it is seen.
const UNSEEN_SLEEP: Duration = Duration::from_millis(1);

/// A bucket's two words.
#[repr(C)]
pub struct StateLock {
    state: AtomicU32,
    contended: Parker,
}

impl StateLock {
    pub fn new(state: u32) -> Self {
        Self { state: AtomicU32::new(state), contended: Parker::new(0) }
    }

    /// The state without the lock, for the empty check and for movers.
    #[inline(always)]
    pub fn peek(&self, order: Ordering) -> u32 {
        self.state.load(order)
    }

    /// Locks if the state is "live, unlocked, no waiters": the best guess, and then the whole cost is this one
    /// instruction.
    #[inline(always)]
    pub fn lock_if_idle(&self) -> bool {
        // [E]: Acquire pairs with the Release of `unlock`, so we see what the last holder did to the queue.
        self.state.compare_exchange(LIVE, LIVE | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Locks if live, and answers the state before; `None` when not live, now or once the holder is done.
    #[inline]
    pub fn lock(&self) -> Option<u32> {
        match self.try_lock() {
            Some(done) => done,
            None => self.lock_contended(),
        }
    }

    /// Locks what is always live.
    #[inline]
    pub fn lock_live(&self) {
        if !self.lock_if_idle() {
            while self.lock().is_none() {}
        }
    }

    #[cold]
    #[allow(clippy::reversed_empty_ranges, reason = "nobody spins in a model")]
    fn lock_contended(&self) -> Option<u32> {
        loop {
            for _ in 0..SPINS {
                if let Some(done) = self.try_lock() {
                    return done;
                }
                spin_loop();
            }
            self.contended.store(1, Ordering::Relaxed);
            let seen = barrier::heavy(); // [C] pairs with [D]
            if let Some(done) = self.try_lock() {
                return self.leave_contended(done);
            }
            let deadline = if seen { None } else { unseen_deadline() };
            self.contended.park(1, deadline.as_ref());
        }
    }

    /// Nobody will unlock a bucket that is not live: `contended`, which we have raised, may send somebody to sleep who
    /// missed the last wake, and is ours to take down.
    fn leave_contended(&self, done: Option<u32>) -> Option<u32> {
        if done.is_none() && !mutant(Mutant::LeaverForgetsSleepers) {
            self.wake_contenders();
        }
        done
    }

    /// `None`: locked by somebody. `Some(None)`: not live. `Some(Some(state))`: ours now.
    pub fn try_lock(&self) -> Option<Option<u32>> {
        // Loom keeps one last access of each object: a load here would hide from it that a glance of another thread
        // and the exchange below depend on each other.
        let mut seen = if MODEL { LIVE } else { self.state.load(Ordering::Relaxed) };
        loop {
            if seen & LIVE == 0 {
                return Some(None);
            }
            if seen & LOCKED != 0 {
                return None;
            }
            // [E] as above.
            match self.state.compare_exchange_weak(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
                Ok(state) => return Some(Some(state)),
                Err(now) => seen = now,
            }
        }
    }

    /// Unlocks with `next` as the new state, and lets contenders that slept have the CPU.
    ///
    /// Only the holder may call this, which only a guard does.
    #[inline(always)]
    pub fn unlock(&self, next: u32) {
        if self.unlock_and_stay(next) {
            // They have waited long enough to have lost their CPU, probably to us.
            yield_now();
        }
    }

    /// Unlocks as `unlock` does, for a mover, who holds other buckets and so keeps its CPU. Whether contenders slept.
    #[inline(always)]
    pub fn unlock_and_stay(&self, next: u32) -> bool {
        debug_assert_eq!(next & LOCKED, 0);
        self.state.store(next, relaxed_in(Mutant::UnlockRelaxed, Ordering::Release)); // [E]
        barrier::light(); // [D] pairs with [C]
        self.contended.load(Ordering::Relaxed) != 0 && self.wake_contenders()
    }

    /// Leaves `next` in the word while the lock stays held.
    pub fn hold_state(&self, next: u32) {
        self.state.store(next | LOCKED, Ordering::Relaxed);
    }

    /// What `hold_state` left.
    pub fn held_state(&self) -> u32 {
        self.state.load(Ordering::Relaxed) & !LOCKED
    }

    /// Counts waiters that a mover puts into a bucket that nobody else can lock yet.
    pub fn count_while_not_live(&self, waiters: u32) {
        let state = self.state.load(Ordering::Relaxed);
        self.state.store(state + waiters * ONE_WAITER, Ordering::Relaxed);
    }

    /// Makes a bucket that nobody could lock live.
    ///
    /// Only a mover calls this, and holds the locks of all buckets where its keys have been.
    pub fn make_live(&self) {
        let state = self.state.load(Ordering::Relaxed);
        // [E]: whoever locks the bucket next sees the queue that was moved here.
        self.state.store(state | LIVE, Ordering::Release);
    }

    /// Wakes them all, and says whether there were any: a baton passed from one to the next would stop at the first that waits for a CPU, while others
    /// lock and unlock the bucket a million times.
    #[cold]
    fn wake_contenders(&self) -> bool {
        if mutant(Mutant::UnlockSkipsSleepers) {
            return false;
        }
        self.contended.store(0, Ordering::Relaxed);
        self.contended.wake_all() != 0
    }
}

fn unseen_deadline() -> Option<Deadline> {
    let now = Duration::from_nanos(monotonic_ns()?);
    Some(Deadline { clock: Clock::Monotonic, at: now.saturating_add(UNSEEN_SLEEP) })
}

/// A value behind a [`StateLock`]: for what is locked rarely, such as the progress of a resize.
pub struct Lock<T> {
    lock: StateLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through `LockGuard`, one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: as for any owner of a `T`.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// An unlocked `value`.
    pub fn new(value: T) -> Self {
        Self { lock: StateLock::new(LIVE), value: UnsafeCell::new(value) }
    }

    /// Locks; waits for whoever holds it.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        self.lock.lock_live();
        LockGuard(self)
    }

    /// Locks if nobody holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        // It is live, and counts nobody.
        self.lock.lock_if_idle().then(|| LockGuard(self))
    }
}

/// The [`Lock`], held.
pub struct LockGuard<'a, T>(&'a Lock<T>);

impl<T> LockGuard<'_, T> {
    pub fn with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: we hold the lock, and `&mut self` keeps a second reference away.
        self.0.value.with_mut(|v| f(unsafe { &mut *v }))
    }
}

impl<T> Drop for LockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Its holder may hold a bucket too, and so keeps its CPU.
        self.0.lock.unlock_and_stay(LIVE);
    }
}
