//! In place of `live.rs`: its functions, by the domain's scheme.

use core::ops::{Deref, DerefMut};

use super::bucket::{Bucket, Guard};
use super::by_live;
use super::tables::Tables;
use crate::error::Error;
use crate::schemes::chosen::Pin;
use crate::schemes::{Scheme, lock_current, try_current};

#[cfg(feature = "parking")]
pub use by_live::has_whole_queue;

/// A live bucket, locked, and what keeps its table in place. Dropping it unlocks the bucket first.
pub struct Locked<'t> {
    guard: Guard<'t>,
    _pin: Option<Pin<'t>>,
}

/// As that of `live.rs`.
pub enum Second<'t> {
    Locked(Locked<'t>),
    Same,
    Busy,
}

impl Locked<'_> {
    pub fn unlock_and_stay(self) -> bool {
        let Self { guard, _pin } = self;
        guard.unlock_and_stay()
    }
}

impl<'t> From<Guard<'t>> for Locked<'t> {
    #[inline(always)]
    fn from(guard: Guard<'t>) -> Self {
        Self { guard, _pin: None }
    }
}

impl<'t> Deref for Locked<'t> {
    type Target = Guard<'t>;
    #[inline(always)]
    fn deref(&self) -> &Guard<'t> {
        &self.guard
    }
}

impl DerefMut for Locked<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.guard
    }
}

impl<'t> Second<'t> {
    pub fn of(bucket: &'t Bucket, first: Option<&Bucket>) -> Self {
        by_live::Second::of(bucket, first).into()
    }
}

impl<'t> From<by_live::Second<'t>> for Second<'t> {
    fn from(second: by_live::Second<'t>) -> Self {
        match second {
            by_live::Second::Locked(guard) => Self::Locked(guard.into()),
            by_live::Second::Same => Self::Same,
            by_live::Second::Busy => Self::Busy,
        }
    }
}

#[inline(always)]
pub fn lock(tables: &Tables, hash: u32) -> Option<Locked<'_>> {
    let scheme = &tables.scheme;
    if scheme.is_live() {
        return by_live::lock(tables, hash).map(Locked::from);
    }
    scheme.look_up(tables, hash);
    let pin = scheme.pin();
    Some(Locked { guard: lock_current(tables, hash)?, _pin: Some(pin) })
}

pub fn try_lock<'t>(tables: &'t Tables, hash: u32, first: Option<&Bucket>) -> Second<'t> {
    let scheme = &tables.scheme;
    if scheme.is_live() {
        return by_live::try_lock(tables, hash, first).into();
    }
    let Some(pin) = scheme.try_pin() else { return Second::Busy };
    match try_current(tables, hash, first) {
        by_live::Second::Locked(guard) => Second::Locked(Locked { guard, _pin: Some(pin) }),
        second => second.into(),
    }
}

#[inline(always)]
pub fn proves_empty(tables: &Tables, hash: u32) -> bool {
    if tables.scheme.is_live() { by_live::proves_empty(tables, hash) } else { tables.scheme.proves_empty(tables, hash) }
}

pub fn resize(tables: &Tables, slots_log2: Option<u32>) -> Result<(), Error> {
    resize_while(tables, slots_log2, &mut || true)
}

/// As `resize`, but gives up when `keep_trying` returns `false`.
pub fn resize_while(
    tables: &Tables,
    slots_log2: Option<u32>,
    keep_trying: &mut dyn FnMut() -> bool,
) -> Result<(), Error> {
    if tables.scheme.is_live() {
        by_live::resize(tables, slots_log2)
    } else {
        tables.scheme.resize(tables, slots_log2, keep_trying)
    }
}

/// A scheme that has to wait for a moment without operations gives up if that does not come soon.
pub fn grow(tables: &Tables, slots_log2: u32, is_wanted: &dyn Fn() -> bool) -> bool {
    if tables.scheme.is_live() {
        return by_live::grow(tables, slots_log2, is_wanted);
    }
    let mut tries_left = 100;
    if (1..1 << slots_log2).contains(&tables.slots()) && is_wanted() {
        let _ = resize_while(tables, Some(slots_log2), &mut || {
            tries_left -= 1;
            tries_left > 0
        });
    }
    true
}

#[inline(always)]
pub fn help(tables: &Tables) {
    if tables.scheme.is_live() {
        by_live::help(tables);
    }
}
