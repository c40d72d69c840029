//! Changing a second word and waking on both, depending on what it held.

use super::domain::Domain;
use super::entry::{Room, pick, tell};
use super::key::Target;
use super::wake::{Woken, wanted};
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults, Width};
use crate::sys::probe::probe;
use crate::table::layout::Layout;
use crate::table::list::Taken;
use crate::table::refs::Scheme;

/// What [`Domain::wake_op`] does to the second word, and what the word must have held for its waiters to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeOp {
    /// What becomes of the word.
    pub modify: Modify,
    /// The comparison of what the word held before, as a signed number.
    pub compare: Compare,
}

/// What becomes of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modify {
    /// This.
    Set(u32),
    /// Its sum with this; it wraps.
    Add(u32),
    /// Its bits and these.
    Or(u32),
    /// Its bits without these.
    AndNot(u32),
    /// Its bits, those of these turned over.
    Xor(u32),
}

impl Modify {
    /// What becomes of `value`.
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
pub enum Compare {
    /// Equal to this.
    Eq(i32),
    /// Anything else.
    Ne(i32),
    /// Less.
    Lt(i32),
    /// Less or equal.
    Le(i32),
    /// Greater.
    Gt(i32),
    /// Greater or equal.
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

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Changes the word `second`, wakes up to `count` waiters of `first`, and, if `op.compare` holds for what `second` held
    /// before, up to `second_count` of `second`: `FUTEX_WAKE_OP`. Answers how many were woken in all.
    ///
    /// The change, the comparison and the choice of the waiters are one step.
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
    /// [`Error::Fault`] when `second` cannot be read and written; [`Error::Invalid`] when it is not of 32 bits, or where a
    /// waiter of a lock stands in a queue: what was done before stays done.
    pub fn wake_op<T: Target, U: Target>(
        &self,
        first: T,
        count: usize,
        second: U,
        op: WakeOp,
        second_count: usize,
    ) -> Result<usize, Error> {
        if second.width() != Width::U32 {
            return Err(Error::Invalid);
        }
        let (at, modified) = (self.hashed(&first), self.hashed(&second));
        let keys = [self.key(at.address, at.shared_space), self.key(modified.address, modified.shared_space)];
        let (mut faults, mut rooms) = (Faults::default(), [Room::default(), Room::default()]);
        let (mut pair, wants, before) = loop {
            let mut pair = self.lock_pair(&at, &modified);
            let wants = [wanted(pair.first(), keys[0], count), wanted(pair.second(), keys[1], second_count)];
            if let Some(i) = (0..2).find(|&i| !rooms[i].holds(wants[i])) {
                drop(pair);
                rooms[i].make(wants[i]);
                continue;
            }
            match update(&second, |value| op.modify.apply(value)) {
                Ok(before) => break (pair, wants, before),
                Err(Fault) => {
                    drop(pair);
                    faults.resolve(|| second.fault_in(Access::Write))?;
                }
            }
        };
        let limits = [rooms[0].limit(), rooms[1].limit()];
        let taken = pair.first().take(keys[0], wants[0].min(limits[0]), pick(u32::MAX, count));
        let goes_on = !taken.was_stopped && op.compare.holds(before);
        let second_taken = if goes_on {
            pair.second().take(keys[1], wants[1].min(limits[1]), pick(u32::MAX, second_count))
        } else {
            Taken::default()
        };
        drop(pair);
        let mut results =
            [&taken, &second_taken].map(|taken| Woken { count: taken.len(), met_lock_waiter: taken.was_stopped });
        let [room, second_room] = rooms;
        // Both are told before any waker runs: see `tell`.
        drop((tell(taken, room), tell(second_taken, second_room)));
        for (i, hash, count) in [(0, at.hash, count), (1, modified.hash, second_count)] {
            if results[i].count == limits[i] {
                results[i] = self.wake_rest(keys[i], hash, wants[i] - limits[i], count, u32::MAX, results[i]);
            }
        }
        let woken = results[0].count + results[1].count;
        let met_lock_waiter = results[0].met_lock_waiter || results[1].met_lock_waiter;
        self.count_wake(woken);
        if woken > 0 {
            probe!(wake, at.address, woken);
        }
        if met_lock_waiter { Err(Error::Invalid) } else { Ok(woken) }
    }
}

/// Replaces what a word of 32 bits holds with what `change` makes of it. Answers what it held.
fn update<T: Target>(word: &T, change: impl Fn(u32) -> u32) -> Result<u32, Fault> {
    let mut current = word.load32()?;
    loop {
        match word.compare_exchange32(current, change(current))? {
            Ok(before) => return Ok(before),
            Err(now) => current = now,
        }
    }
}
