//! Schemes: how an operation reaches the bucket of its key while the table may be replaced.
//!
//! Each scheme is one file behind [`Scheme`], and a type parameter of the domain, so that no scheme pays for another.
//! Those that only comparisons need are in a copy of the engine (`crates/models/counted`).

mod live;
pub(crate) mod tables;

pub use live::Live;
#[cfg(feature = "parking")]
pub(crate) use live::has_whole_queue;

use super::Table;
use super::bucket::{Bucket, Guard, Tried};
use crate::error::Error;
use tables::Tables;

pub(crate) mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// How operations reach their bucket. A type parameter of [`Domain`](crate::Domain).
pub trait Scheme: Sealed + Sized + Send + Sync + 'static {
    /// The scheme's name in the lab and in reports.
    const NAME: &'static str;

    /// Keeps the table in place between look-up and unlock.
    #[doc(hidden)]
    type Pin<'a>;

    #[doc(hidden)]
    fn new() -> Self;

    /// Locks the live bucket of `hash`; `None` if the domain has no table yet.
    #[doc(hidden)]
    fn lock<'a>(&'a self, tables: &'a Tables, hash: u32) -> Option<Locked<'a, Self>>;

    /// Tries to lock the live bucket of `hash` without waiting, because the bucket's holder may be waiting for a lock
    /// that the caller holds. If the caller holds a bucket's lock, `first` is that bucket's guard.
    #[doc(hidden)]
    fn try_lock<'a>(&'a self, tables: &'a Tables, hash: u32, first: Option<&Guard<'_>>) -> Second<'a, Self>;

    /// Whether a lock-free emptiness check proves that no waiter is queued for `hash`. The caller has executed [B].
    #[doc(hidden)]
    fn proves_empty(&self, tables: &Tables, hash: u32) -> bool;

    /// Moves all waiters to a table with `1 << slots_log2` buckets, or to the global table for `None`, and returns when
    /// they are there. If `keep_trying` returns `false` before the move has begun, nothing changes, and the result is
    /// `TimedOut`.
    #[doc(hidden)]
    fn resize(
        &self,
        tables: &Tables,
        slots_log2: Option<u32>,
        keep_trying: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error>;

    /// Whether the scheme can resize while operations go on, so that a policy may grow the table under load.
    #[doc(hidden)]
    const MOVES_UNDER_LOAD: bool;

    /// Moves to a table with `1 << slots_log2` buckets, if the table in use is smaller. A scheme that would have to
    /// wait long tries for a moment only. If there is no memory, the table in use stays in use. `is_wanted` is called
    /// under the lock that a requested resize takes too; if it returns `false`, nothing happens. Returns `false` if
    /// nothing was decided because another move is going on.
    #[doc(hidden)]
    fn grow(&self, tables: &Tables, slots_log2: u32, is_wanted: &dyn Fn() -> bool) -> bool;

    /// Takes some steps of a move that has begun.
    #[doc(hidden)]
    #[inline(always)]
    fn help(&self, _tables: &Tables) {}
}

/// A locked bucket and the pin that keeps its table in place. Dropping it unlocks the bucket first.
pub struct Locked<'a, S: Scheme> {
    #[doc(hidden)]
    pub guard: Guard<'a>,
    _pin: Option<S::Pin<'a>>,
}

impl<'a, S: Scheme> Locked<'a, S> {
    /// Wraps a bucket of the global table, which needs no pin.
    pub fn global(guard: Guard<'a>) -> Self {
        Self { guard, _pin: None }
    }

    /// Unlocks and keeps the CPU, for a caller that holds another bucket. Returns whether contenders slept.
    pub fn unlock_and_stay(self) -> bool {
        let Self { guard, _pin } = self;
        guard.unlock_and_stay()
    }
}

/// The result of trying to lock a bucket, perhaps while another one is locked.
#[doc(hidden)]
pub enum Second<'a, S: Scheme> {
    Locked(Locked<'a, S>),
    /// The bucket is the one that the caller has locked already.
    Same,
    /// Another thread holds the bucket, or the domain has no table yet, or the bucket is no longer live.
    Busy,
}

impl<'a, S: Scheme> Second<'a, S> {
    /// Tries to lock a bucket that needs no pin to keep its table in place.
    pub fn of(bucket: &'a Bucket, first: Option<&Guard<'_>>) -> Self {
        if first.is_some_and(|first| core::ptr::eq(bucket, first.bucket())) {
            return Self::Same;
        }
        match bucket.try_lock() {
            Tried::Locked(guard) => Self::Locked(Locked::global(guard)),
            Tried::Busy | Tried::NotLive => Self::Busy,
        }
    }
}

/// Locks the bucket of `hash` in `table`, one of `tables`, if it is live there.
#[inline(always)]
fn lock_in<'a>(tables: &Tables, table: Table, hash: u32) -> Option<Guard<'a>> {
    table.bucket(hash).lock(&tables.store)
}
