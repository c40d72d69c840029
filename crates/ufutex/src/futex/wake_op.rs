//! `wake_op`: changes a second word and wakes waiters of a first one. Depending on the second word's old value, it also
//! wakes waiters of the second.

use core::num::NonZeroU32;

use super::domain::Domain;
use super::entry::{AT_ONCE, Moment, PIECE, PendingWakes, Room, Way};
use super::key::{Key, Target};
use super::pair::Pair;
use super::place::Place;
use super::wake::{InPieces, Woken};
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults, Width};
use crate::table::hash::TableKey;
use crate::table::list::Taken;

/// The change that [`Domain::wake_op`] makes to the second word, and the condition on which it wakes that word's
/// waiters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeOp {
    /// How the second word is changed.
    pub modify: Modify,
    /// Compares what the second word held before, as a signed number. If it holds, waiters of the second word are
    /// woken.
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
    /// Changes the word `second` and wakes up to `count` waiters of `first`. If `op.compare` holds for the value that
    /// `second` had before, it also wakes up to `second_count` waiters of `second`: `FUTEX_WAKE_OP`. Returns how many
    /// were woken in all.
    ///
    /// The change, the comparison and the choice of the waiters are one step: a waiter that comes later is not woken.
    /// If other domains lock a word's bucket too, more than 256 waiters are taken in several steps, as by
    /// [`wake`](Self::wake).
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
    /// [`Error::Fault`] if `second` cannot be read and written; [`Error::Invalid`] if it is not a 32-bit word, or if a
    /// waiter of a lock is found in a queue. What was done before stays done. If a waiter of a lock is found in the
    /// queue of `first`, no waiter of `second` is woken.
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
        let wanted = Wanted { places: [self.place(&first), self.place(&second)], counts: [count, second_count] };
        let (mut faults, mut room) = (Faults::default(), Room::default());
        let noted = loop {
            let mut pair = self.lock_pair(&wanted.places[0], &wanted.places[1]);
            let (wants, is_long) = self.wants(&mut pair, &wanted);
            let way = room.way(wants.iter().sum(), is_long);
            if let Way::NeedsRoom = way {
                drop(pair);
                room.make(wants.iter().sum());
                continue;
            }
            match update(&second, |value| op.modify.apply(value)) {
                Ok(Some(before)) => {
                    let mut noted = NotedWakeOp { domain: self, wanted: &wanted, results: [Woken::NOBODY; 2] };
                    let both = op.compare.holds(before);
                    if let Way::AtOnce = way {
                        self.wake_at_once(pair, &wanted, wants, both, room, &mut noted.results);
                    } else {
                        let began = self.begin_in_pieces();
                        drop(pair);
                        self.wake_both_in_pieces(&wanted, began, both, &mut noted.results);
                    }
                    break noted;
                }
                // Other threads changed the word before each exchange. Unlock and start again, so that threads that
                // wait for the buckets get them.
                Ok(None) => drop(pair),
                Err(Fault) => {
                    drop(pair);
                    faults.resolve(|| second.fault_in(Access::Write))?;
                }
            }
        };
        noted.into_result()
    }

    /// How many waiters of each word are taken at most, and whether they are too many for one step. Both buckets are
    /// locked. In a bucket that other domains lock too, it counts one waiter more than a step may take, at most.
    fn wants(&self, pair: &mut Pair<'_>, wanted: &Wanted) -> ([usize; 2], bool) {
        let Wanted { places, counts } = wanted;
        let keys = wanted.keys(self);
        let is_global = self.is_any_global(pair, &places[0], &places[1]);
        let most = counts.map(|count| if is_global { count.min(PIECE + 1) } else { count });
        // For so few there is room.
        let wants = if most[0].saturating_add(most[1]) <= AT_ONCE {
            most
        } else {
            [
                pair.first().count(keys[0], places[0].hash, most[0]),
                pair.second().count(keys[1], places[1].hash, most[1]),
            ]
        };
        (wants, is_global && wants.iter().sum::<usize>() > PIECE)
    }

    /// Wakes waiters of the first word and, if `both`, of the second.
    fn wake_at_once(
        &self,
        mut pair: Pair<'_>,
        wanted: &Wanted,
        wants: [usize; 2],
        both: bool,
        room: Room,
        results: &mut [Woken; 2],
    ) {
        let Wanted { places, counts } = wanted;
        let keys = wanted.keys(self);
        let first = pair.first().take(keys[0], places[0].hash, wants[0], self.pick(NonZeroU32::MAX, counts[0], None));
        let second = if both && !first.was_stopped {
            pair.second().take(keys[1], places[1].hash, wants[1], self.pick(NonZeroU32::MAX, counts[1], None))
        } else {
            Taken::default()
        };
        results[0].add(&first, || None);
        results[1].add(&second, || None);
        // Until the waiters are notified: see `notify_taken`.
        let section = self.platform().section();
        drop(pair);
        let mut pending = PendingWakes::with(room);
        pending.notify(first);
        pending.notify(second);
        drop(section);
    }

    /// As [`wake_at_once`](Self::wake_at_once), but a piece at a time, with nothing locked in between. Wakes waiters
    /// that were queued when the operation `began`.
    fn wake_both_in_pieces(&self, wanted: &Wanted, began: Moment, both: bool, results: &mut [Woken; 2]) {
        let mut then = ThenSecond { domain: self, wanted, began, both, results, pending: PendingWakes::none() };
        let [first, _] = &mut *then.results;
        self.wake_in_pieces(None, &mut then.pending, &mut wanted.in_pieces(0, began, first));
    }
}

/// A `wake_op` in pieces that wakes waiters of the first word. Its drop wakes those of the second word, also if a waker
/// of the first word panics.
struct ThenSecond<'a> {
    domain: &'a Domain,
    wanted: &'a Wanted,
    began: Moment,
    both: bool,
    results: &'a mut [Woken; 2],
    /// Dropped after the second word's waiters have been notified.
    pending: PendingWakes,
}

impl Drop for ThenSecond<'_> {
    fn drop(&mut self) {
        let [first, second] = &mut *self.results;
        // As in the kernel, a waiter of a lock in the first word's queue ends the operation.
        if self.both && !first.met_lock_waiter {
            let mut wake = self.wanted.in_pieces(1, self.began, second);
            self.domain.wake_in_pieces(None, &mut self.pending, &mut wake);
        }
    }
}

/// A `wake_op` that has been done. Its drop counts it after the waiters have been woken, also if one of their wakers
/// panics.
struct NotedWakeOp<'d> {
    domain: &'d Domain,
    wanted: &'d Wanted,
    results: [Woken; 2],
}

impl NotedWakeOp<'_> {
    fn woken(&self) -> usize {
        self.results.iter().map(|woken| woken.count).sum()
    }

    fn into_result(self) -> Result<usize, Error> {
        let met_lock_waiter = self.results.iter().any(|woken| woken.met_lock_waiter);
        if met_lock_waiter { Err(Error::Invalid) } else { Ok(self.woken()) }
    }
}

impl Drop for NotedWakeOp<'_> {
    fn drop(&mut self) {
        self.domain.note_wake(self.wanted.places[0].address, self.woken());
    }
}

/// Which waiters a `wake_op` is to wake.
struct Wanted {
    places: [Place; 2],
    counts: [usize; 2],
}

impl Wanted {
    /// The wake in pieces of one of the two words.
    fn in_pieces<'a>(&'a self, i: usize, began: Moment, woken: &'a mut Woken) -> InPieces<'a> {
        let (place, count) = (&self.places[i], self.counts[i]);
        InPieces { place, count, bitset: NonZeroU32::MAX, began: Some(began), woken }
    }

    fn keys(&self, domain: &Domain) -> [TableKey; 2] {
        self.places.each_ref().map(|place| domain.key(place))
    }
}

/// The largest number of exchanges with the buckets locked.
const ATTEMPTS: u32 = 128;

/// Replaces what a word of 32 bits holds with what `change` makes of it. Returns what it held, or `None` if the word
/// has been changed before each of `ATTEMPTS` exchanges.
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
