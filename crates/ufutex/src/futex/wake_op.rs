//! `wake_op`: changes a second word and wakes waiters of a first one.

use core::num::NonZeroU32;

use super::domain::Domain;
use super::entry::{AT_ONCE, Moment, PIECE, PendingWakes, Room};
use super::key::{Key, Target};
use super::place::Place;
use super::wake::{InPieces, Noted, Woken};
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults, Width};

/// The change that [`Domain::wake_op`] makes to the second word, and the condition on which it wakes that word's waiters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeOp {
    /// How the second word is changed.
    pub modify: Modify,
    /// Compares what the second word held before, as a signed number. If it holds, waiters of the second word are woken.
    pub compare: Compare,
}

/// A change of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Modify {
    /// Sets it to this value.
    Set(u32),
    /// Adds this value, wrapping.
    Add(u32),
    /// Sets these bits.
    Or(u32),
    /// Clears these bits.
    AndNot(u32),
    /// Inverts these bits.
    Xor(u32),
}

impl Modify {
    /// The value that `value` is changed to.
    #[must_use]
    pub const fn apply(self, value: u32) -> u32 {
        match self {
            Self::Set(arg) => arg,
            Self::Add(arg) => value.wrapping_add(arg),
            Self::Or(arg) => value | arg,
            Self::AndNot(arg) => value & !arg,
            Self::Xor(arg) => value ^ arg,
        }
    }
}

/// A comparison of signed numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Compare {
    /// Equal to this.
    Eq(i32),
    /// Not equal to this.
    Ne(i32),
    /// Less than this.
    Lt(i32),
    /// Less than or equal to this.
    Le(i32),
    /// Greater than this.
    Gt(i32),
    /// Greater than or equal to this.
    Ge(i32),
}

impl Compare {
    /// Whether it holds for `value`.
    #[must_use]
    pub const fn holds(self, value: u32) -> bool {
        let value = value.cast_signed();
        match self {
            Self::Eq(arg) => value == arg,
            Self::Ne(arg) => value != arg,
            Self::Lt(arg) => value < arg,
            Self::Le(arg) => value <= arg,
            Self::Gt(arg) => value > arg,
            Self::Ge(arg) => value >= arg,
        }
    }
}

impl Domain {
    /// Changes the word `second` and wakes up to `count` waiters of `first`. If `op.compare` holds for the value that `second`
    /// had before, it also wakes up to `second_count` waiters of `second`: `FUTEX_WAKE_OP`. Returns how many were woken in all.
    ///
    /// The change, the comparison and the choice of the waiters are one step: a waiter that comes later is not woken. If other
    /// domains lock a word's bucket too, more than 256 waiters are taken in several steps, as by [`wake`](Self::wake).
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// # use ufutex::{Compare, Domain, Modify, System, WakeOp};
    /// let domain = Domain::new(&System::new());
    /// let (condition, lock) = (AtomicU32::new(1), AtomicU32::new(2));
    /// let unlock = WakeOp { modify: Modify::Set(0), compare: Compare::Gt(1) };
    /// assert_eq!(domain.wake_op(&condition, 1, &lock, unlock, 1), Ok(0)); // nobody waits
    /// assert_eq!(lock.load(Relaxed), 0);
    /// ```
    ///
    /// # Errors
    /// [`Error::Fault`] if `second` cannot be read and written; [`Error::Invalid`] if it is not a 32-bit word, or if a waiter
    /// of a lock is found in a queue: what was done before stays done, and if it is at `first`, no waiter of `second` is woken.
    pub fn wake_op<K: Key, T: Target>(
        &self,
        first: K,
        count: usize,
        second: T,
        op: WakeOp,
        second_count: usize,
    ) -> Result<usize, Error> {
        if second.width() != Width::U32 {
            return Err(Error::Invalid);
        }
        let places = [self.place(&first), self.place(&second)];
        let (keys, counts) = (places.each_ref().map(|place| self.key(place)), [count, second_count]);
        let (mut faults, mut room) = (Faults::default(), Room::default());
        loop {
            let mut wants = counts;
            let lock = || Ok::<_, Error>(self.lock_pair(&places[0], &places[1]));
            let (mut pair, at_once) = room.lock(None, lock, |pair| {
                let is_global = self.is_any_global(pair, &places[0], &places[1]);
                // In a bucket that other domains lock too, count one waiter more than a step may take, at most.
                wants = counts.map(|count| if is_global { count.min(PIECE + 1) } else { count });
                if wants[0].saturating_add(wants[1]) > AT_ONCE {
                    wants[0] = pair.first().count(keys[0], places[0].hash, wants[0]);
                    wants[1] = pair.second().count(keys[1], places[1].hash, wants[1]);
                }
                let wanted = wants[0] + wants[1];
                (!is_global || wanted <= PIECE).then_some(wanted)
            })?;
            let before = match update(&second, |value| op.modify.apply(value)) {
                Ok(Some(before)) => before,
                // Unlock and start again, so that threads that wait for the buckets get them.
                Ok(None) => continue,
                Err(Fault) => {
                    drop(pair);
                    faults.resolve(|| second.fault_in(Access::Write))?;
                    continue;
                }
            };
            let both = op.compare.holds(before);
            let mut noted = Noted { domain: self, place: &places[0], woken: Woken::NOBODY };
            if at_once.is_some() {
                let pick = |count| self.pick(NonZeroU32::MAX, count, None);
                let first = pair.first().take(keys[0], places[0].hash, wants[0], pick(count));
                noted.woken.add(&first, || None);
                let limit = if both && !first.was_stopped { wants[1] } else { 0 };
                let second = pair.second().take(keys[1], places[1].hash, limit, pick(second_count));
                noted.woken.add(&second, || None);
                let section = self.platform().section();
                drop(pair);
                let mut pending = PendingWakes::with(room);
                pending.notify(first);
                pending.notify(second);
                drop(section);
            } else {
                let began = self.system.begin_in_pieces();
                drop(pair);
                let (woken, pending) = (&mut noted.woken, PendingWakes::none());
                let mut then = ThenSecond { domain: self, places: &places, counts, began, both, woken, pending };
                then.wake(0);
            }
            return noted.woken.into_result();
        }
    }
}

/// A `wake_op` in pieces, with nothing locked between them. Its drop wakes the second word's waiters, also after a panic.
struct ThenSecond<'a> {
    domain: &'a Domain,
    places: &'a [Place; 2],
    counts: [usize; 2],
    began: Moment,
    both: bool,
    woken: &'a mut Woken,
    /// Dropped after the second word's waiters have been notified.
    pending: PendingWakes,
}

impl ThenSecond<'_> {
    fn wake(&mut self, word: usize) {
        let (place, bitset, began) = (&self.places[word], NonZeroU32::MAX, Some(self.began));
        // `woken` counts both words' waiters, so the second word's limit includes those of the first.
        let count = self.counts[word].saturating_add(self.woken.count);
        let mut wake = InPieces { place, count, bitset, began, woken: self.woken };
        self.domain.wake_in_pieces(None, &mut self.pending, &mut wake);
    }
}

impl Drop for ThenSecond<'_> {
    fn drop(&mut self) {
        // As in the kernel, a waiter of a lock in the first word's queue ends the operation.
        if self.both && !self.woken.met_lock_waiter {
            self.wake(1);
        }
    }
}

const ATTEMPTS: u32 = 128;

/// Changes a 32-bit word by `change`. Returns what it held, or `None` if it was changed before each of `ATTEMPTS` exchanges.
fn update<T: Target>(word: &T, change: impl Fn(u32) -> u32) -> Result<Option<u32>, Fault> {
    let mut current = word.load32()?;
    for _ in 0..ATTEMPTS {
        match word.compare_exchange32(current, change(current))? {
            Ok(before) => return Ok(Some(before)),
            Err(now) => current = now,
        }
    }
    Ok(None)
}
