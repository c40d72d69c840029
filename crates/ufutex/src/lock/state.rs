//! The lock in a bucket's state word.
//!
//! The word holds the locked bit, the live bit and the number of waiters. Only the compare-and-swap that acquires the
//! lock and the lock's holder change it, so the holder unlocks with one plain store of the next state.
//!
//! Contenders raise a second word, `contended`, and sleep on it. The unlocking thread stores the state and then loads
//! `contended`, with no barrier of the CPU between the two ([D]): the new state may still be in its store buffer. A contender
//! that raises `contended` and reads the state in those nanoseconds ([C]) finds the lock held, and this unlock does not wake
//! it. So contenders sleep for a bounded time and check again.
//!
//! A thread that unlocks and finds `contended` raised resets it and wakes all sleepers, unless a contender is starving. One
//! that was about to sleep finds it reset and does not. One that raises it afterwards is seen by the next unlock, or checks
//! again. A bucket that is not live has no next unlock: a contender that finds it so, and has raised `contended`, does what an
//! unlock does.
//!
//! Any thread may take a free lock. So that a sleeper is not passed for ever, a contender that has waited for [`PATIENCE_NS`]
//! raises `contended` to [`STARVING`]. The thread that unlocks and finds that value locks again at once and raises `contended`
//! to [`GRANTED`]. The lock stays held, and belongs to the starving contender that lowers `contended` to `ASLEEP`. If another
//! thread takes the lock before it can be granted, that thread grants it when it unlocks.

use core::time::Duration;

use crate::sync::{AtomicU32, Ordering, fence, spin_loop};
use crate::sys::clock::Timeout;
use crate::sys::park::{ParkEnd, Parker};
use crate::sys::platform::PlatformRef;

pub const LOCKED: u32 = 1;
/// Operations look up the keys of this bucket here and nowhere else.
pub const LIVE: u32 = 2;
/// One waiter: the bits from here on count the waiters.
pub const ONE_WAITER: u32 = 4;

/// A few microseconds: longer than a thread holds a bucket unless it loses its CPU.
const SPINS: u32 = 100;

/// The length of a contender's first sleep, if no thread wakes it. Each sleep that ends by its deadline doubles the next one,
/// so that thousands of contenders do not disturb a long holder. A contender that raises `contended` from [`NOBODY`] begins at
/// this length again, because only then can an unlock miss it and those that raise the word just after it.
const UNSEEN_SLEEP: Duration = Duration::from_millis(1);

/// A contender that has failed for this many nanoseconds, and has slept meanwhile, is starving: a grant leaves the lock unused
/// for as long as a wake takes. The time begins anew if a sleep ends by its deadline while no grant stands.
const PATIENCE_NS: u64 = 500_000;

/// Without a clock: the number of failures after which a contender is starving.
const PATIENT_ROUNDS: u32 = 500;

// Values of `contended`. Each contains the bits of the lesser ones, so that an `or` cannot lower it.
/// No contender sleeps.
pub(super) const NOBODY: u32 = 0;
/// Contenders may sleep.
pub(super) const ASLEEP: u32 = 0b1;
/// A contender is starving, and will read the word again before it leaves.
pub(super) const STARVING: u32 = 0b11;
/// The lock is held, and belongs to the starving contender that lowers this to `ASLEEP`.
const GRANTED: u32 = 0b111;

/// The two words of a bucket's lock. Each call passes the platform, which is in the structure around them.
#[repr(C)]
pub struct StateLock {
    state: AtomicU32,
    pub(super) contended: Parker,
}

impl StateLock {
    pub fn new(state: u32) -> Self {
        Self { state: AtomicU32::new(state), contended: Parker::new(0) }
    }

    #[inline(always)]
    pub fn peek(&self, order: Ordering) -> u32 {
        self.state.load(order)
    }

    /// Locks if the state is "live, unlocked, no waiters", the most likely one, by this one instruction.
    #[inline(always)]
    pub fn lock_if_idle(&self, on: &PlatformRef) -> bool {
        on.enter();
        // [E]: this thread sees what the last holder did to the queue.
        if self.state.compare_exchange(LIVE, LIVE | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return true;
        }
        on.leave();
        false
    }

    /// Tries once. `None`: another thread holds the lock. `Some(None)`: not live. `Some(Some(state))`: this call has locked.
    pub fn try_lock(&self, on: &PlatformRef) -> Option<Option<u32>> {
        on.enter();
        let mut seen = self.state.load(Ordering::Relaxed);
        let failed = loop {
            if seen & LIVE == 0 {
                break Some(None);
            }
            if seen & LOCKED != 0 {
                break None;
            }
            // [E]
            match self.state.compare_exchange_weak(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed) {
                Ok(state) => return Some(Some(state)),
                Err(now) => seen = now,
            }
        };
        on.leave();
        failed
    }

    /// Locks, and returns the state from before. `None` if the bucket is not live, or is not when its holder unlocks it.
    #[inline]
    pub fn lock(&self, on: &PlatformRef) -> Option<u32> {
        self.try_lock(on).unwrap_or_else(|| self.lock_after(on, Patience::default()))
    }

    #[inline]
    pub fn lock_live(&self, on: &PlatformRef) {
        if !self.lock_if_idle(on) {
            self.lock_live_after(on);
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_live_after(&self, on: &PlatformRef) {
        while self.lock(on).is_none() {}
    }

    /// Locks after a first try has failed, and sleeps if that takes long.
    #[cold]
    fn lock_after(&self, on: &PlatformRef, mut patience: Patience) -> Option<u32> {
        let mut mark = NOBODY;
        let mut sleep = UNSEEN_SLEEP;
        loop {
            if let Some(state) = self.claim(on, mark) {
                return Some(state);
            }
            if let Some(done) = self.spin(on, mark) {
                return done;
            }
            if on.holders_keep_cpu() {
                // The holder runs on another CPU, and this may be an interrupt handler, which cannot sleep.
                continue;
            }
            mark |= patience.mark(on);
            let before = self.contended.raise_to(mark, Ordering::Relaxed);
            heavy_barrier(); // [C] pairs with [D]
            // By the end of these spins a new state has almost always left its store buffer.
            if let Some(done) = self.attempt(on, mark).or_else(|| self.spin(on, mark)) {
                return done;
            }
            let raised = before | mark;
            // Look again soon: an unlock may just have missed `contended`; or the contender that was granted the lock may have
            // no CPU, and this one may starve and claim it.
            if before == NOBODY || raised == GRANTED {
                sleep = UNSEEN_SLEEP;
            }
            let deadline = on.begin(Timeout::After(sleep));
            let parked = self.contended.park(*on, raised, Some(&deadline));
            if parked == ParkEnd::TimedOut && raised != GRANTED {
                // No unlock has come: probably one thread had the lock throughout. A starving contender keeps its mark.
                patience = Patience::default();
                sleep = sleep.saturating_mul(2);
            }
        }
    }

    /// Tries for a while. A contender that is not starving stops if another one is.
    #[allow(clippy::reversed_empty_ranges, reason = "nobody spins in a model")]
    #[inline(never)]
    fn spin(&self, on: &PlatformRef, mark: u32) -> Option<Option<u32>> {
        for _ in 0..SPINS {
            if let Some(done) = self.attempt(on, mark) {
                return Some(done);
            }
            if mark != STARVING && self.contended.load(Ordering::Relaxed) >= STARVING {
                break;
            }
            spin_loop();
        }
        None
    }

    /// Takes the lock, or claims it if it has been granted, for a contender that has raised `contended` to `mark`.
    /// `None`: not yet. `Some(None)`: the bucket is not live.
    pub(super) fn attempt(&self, on: &PlatformRef, mark: u32) -> Option<Option<u32>> {
        match self.try_lock(on) {
            Some(Some(state)) => {
                if mark == STARVING {
                    // Or an unlock could grant the lock to a contender that has left. Others that starve raise it again.
                    let _others = self.contended.compare_exchange(STARVING, ASLEEP, Ordering::Relaxed);
                }
                Some(Some(state))
            }
            Some(None) => Some(self.leave_retired(on, mark)),
            None => self.claim(on, mark).map(Some),
        }
    }

    #[inline(never)]
    pub(super) fn claim(&self, on: &PlatformRef, mark: u32) -> Option<u32> {
        if mark != STARVING || self.contended.load(Ordering::Relaxed) != GRANTED {
            return None;
        }
        on.enter();
        // Other contenders may sleep: our own unlock wakes them. [V]
        if self.contended.compare_exchange(GRANTED, ASLEEP, Ordering::Acquire).is_ok() {
            return Some(self.held_state());
        }
        on.leave();
        None
    }

    /// Leaves a bucket that is not live, after it has reset `contended`, which it had raised to `mark`: others may sleep that
    /// missed the last wake. If it is live again and the lock granted, perhaps to this contender alone, takes the lock.
    fn leave_retired(&self, on: &PlatformRef, mark: u32) -> Option<u32> {
        if mark == NOBODY {
            return None;
        }
        loop {
            let seen = self.contended.load(Ordering::Relaxed);
            if seen == GRANTED && mark == STARVING {
                if let Some(state) = self.claim(on, mark) {
                    return Some(state);
                }
            } else if seen == GRANTED || self.take_down(on, seen).is_some() {
                return None;
            }
        }
    }

    /// Unlocks with `next` as the new state, for the holder. Returns whether contenders slept.
    #[inline(always)]
    pub fn unlock(&self, on: &PlatformRef, next: u32) -> bool {
        debug_assert_eq!(next & LOCKED, 0);
        self.state.store(next, Ordering::Release); // [E]
        light_barrier(); // [D] pairs with [C]
        let slept = self.contended.load(Ordering::Relaxed) != 0 && self.wake_contenders(on);
        on.leave();
        slept
    }

    /// Stores `next` in the word while the lock stays held.
    pub fn hold_state(&self, next: u32) {
        self.state.store(next | LOCKED, Ordering::Relaxed);
    }

    pub fn held_state(&self) -> u32 {
        self.state.load(Ordering::Relaxed) & !LOCKED
    }

    /// The caller holds the locks of all buckets where the keys have been, or no other thread has the new table yet.
    pub fn make_live(&self) {
        // [E]
        self.state.store(self.held_state() | LIVE, Ordering::Release);
    }

    /// After an unlock: wakes the contenders, or grants the lock to a starving one. Returns whether there were any.
    #[cold]
    fn wake_contenders(&self, on: &PlatformRef) -> bool {
        loop {
            let seen = self.contended.load(Ordering::Relaxed);
            let done = match seen {
                STARVING => self.grant(on),
                GRANTED => Some(true),
                _ => self.take_down(on, seen),
            };
            if let Some(slept) = done {
                return slept;
            }
        }
    }

    /// Resets `contended` and wakes all sleepers. Returns whether there were any; `None` if `contended` is no longer `seen`.
    ///
    /// All, because a chain in which each woken contender wakes the next would stop at the first that waits for a CPU.
    fn take_down(&self, on: &PlatformRef, seen: u32) -> Option<bool> {
        if seen != NOBODY {
            self.contended.compare_exchange(seen, NOBODY, Ordering::Relaxed).ok()?;
        }
        Some(seen != NOBODY && self.contended.wake_all(*on) != 0)
    }

    /// Locks again for a starving contender after an unlock, and wakes it. `None` if no contender is starving any more.
    fn grant(&self, on: &PlatformRef) -> Option<bool> {
        // `HOST` has no `enter`. This thread has not called `leave` yet, and the contender calls `enter` when it claims.
        let state = match self.try_lock(&PlatformRef::HOST) {
            Some(Some(state)) => state,
            // The bucket is not live: a granted lock would stay held for ever.
            Some(None) => return self.take_down(on, STARVING),
            // Another thread has taken the lock, and sees `STARVING` when it unlocks, unless it misses the mark.
            None => return Some(true),
        };
        // [V]
        if self.contended.compare_exchange(STARVING, GRANTED, Ordering::Release).is_err() {
            self.state.store(state, Ordering::Release); // [E]
            light_barrier(); // [D] pairs with [C]
            return None;
        }
        self.contended.wake_all(*on);
        Some(true)
    }
}

/// **[D]** Of the thread that unlocks: a barrier for the compiler alone, because every operation unlocks. Full in a model.
#[inline(always)]
fn light_barrier() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// **[C]** Of the contender: a full barrier.
fn heavy_barrier() {
    fence(Ordering::SeqCst); // [C]
}

#[derive(Default)]
struct Patience {
    since: Option<u64>,
    rounds: u32,
}

impl Patience {
    /// Counts a round. Returns what the contender has to raise `contended` to.
    fn mark(&mut self, on: &PlatformRef) -> u32 {
        self.rounds = self.rounds.saturating_add(1);
        let is_over = match on.monotonic_ns() {
            Some(now) => now.saturating_sub(*self.since.get_or_insert(now)) >= PATIENCE_NS,
            None => self.rounds > PATIENT_ROUNDS,
        };
        if is_over { STARVING } else { ASLEEP }
    }
}
