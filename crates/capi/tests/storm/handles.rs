//! Handles of all classes: alive, freed, of another kind, of another generation, and numbers that were never a handle.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use ufutex_capi::*;

use crate::random::Random;

/// The kind of a handle's object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    System,
    Domain,
    Task,
    Waiter,
    Timers,
}

pub const KINDS: [Kind; 5] = [Kind::System, Kind::Domain, Kind::Task, Kind::Waiter, Kind::Timers];

/// A handle has its slot's number in these low bits, the generation in the 32 bits above, and the kind above those.
const INDEX_BITS: u32 = 28;
/// Number of freed handles of each kind that are remembered.
const STALE: usize = 64;
/// The value of an entry that a thread has reserved, to make a handle for it or to free its handle.
const RESERVED: u64 = 1;

/// Holds a live handle that all threads use.
#[derive(Default)]
pub struct Entry {
    /// 0 means none.
    handle: AtomicU64,
    /// Whether the callback of the entry's waiter or timers may be called.
    pub is_armed: AtomicBool,
}

impl Entry {
    /// The handle. Another thread may be freeing it.
    pub fn get(&self) -> Option<u64> {
        Some(self.handle.load(SeqCst)).filter(|handle| *handle > RESERVED)
    }

    /// Reserves an empty entry for a new handle.
    pub fn reserve(&self) -> bool {
        self.handle.compare_exchange(0, RESERVED, SeqCst, SeqCst).is_ok()
    }

    /// Takes the handle in order to free it. Threads that have read it before continue to use it.
    pub fn take(&self) -> Option<u64> {
        let handle = self.get()?;
        self.handle.compare_exchange(handle, RESERVED, SeqCst, SeqCst).ok()
    }

    /// Stores a handle, or 0 for none. For a thread that reserved the entry, took its handle or ended its waiter.
    pub fn put(&self, handle: u64) {
        self.handle.store(handle, SeqCst);
    }
}

/// The entries of one kind, or of the waiters of one zone.
pub struct Pool(Vec<Entry>);

impl Pool {
    pub fn new(entries: usize) -> Self {
        Self((0..entries).map(|_| Entry::default()).collect())
    }

    pub fn any(&self, random: &mut Random) -> &Entry {
        &self.0[random.below(self.0.len())]
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.0.iter()
    }
}

/// The handles that the library has returned.
pub struct History {
    /// Freed handles, at random indices.
    stale: [[AtomicU64; STALE]; KINDS.len()],
    /// A handle of each kind that is not freed before the end.
    anchors: [AtomicU64; KINDS.len()],
    /// The highest number of a slot.
    highest: AtomicU64,
}

impl History {
    pub fn new() -> Self {
        Self {
            stale: [const { [const { AtomicU64::new(0) }; STALE] }; KINDS.len()],
            anchors: [const { AtomicU64::new(0) }; KINDS.len()],
            highest: AtomicU64::new(0),
        }
    }

    pub fn set_anchor(&self, kind: Kind, handle: u64) {
        self.made(handle);
        self.anchors[kind as usize].store(handle, SeqCst);
    }

    pub fn anchor(&self, kind: Kind) -> u64 {
        self.anchors[kind as usize].load(SeqCst)
    }

    /// Notes a new handle.
    pub fn made(&self, handle: u64) {
        self.highest.fetch_max(handle & ((1 << INDEX_BITS) - 1), SeqCst);
    }

    /// Notes a freed handle.
    pub fn freed(&self, kind: Kind, handle: u64, random: &mut Random) {
        self.stale[kind as usize][random.below(STALE)].store(handle, SeqCst);
    }

    /// Number of slots that the library has used.
    pub fn slots(&self) -> u64 {
        self.highest.load(SeqCst) + 1
    }

    /// A bad handle for this kind, and the error that the header promises for it.
    pub fn bad(&self, kind: Kind, random: &mut Random) -> (u64, c_int) {
        let own = self.anchor(kind);
        let of_another_kind = || KINDS.into_iter().filter(move |other| *other != kind);
        let handle = match random.below(9) {
            0 => 0,
            1..4 => self.stale[kind as usize][random.below(STALE)].load(SeqCst),
            4 => of_another_kind().nth(random.below(KINDS.len() - 1)).map_or(0, |other| self.anchor(other)),
            5 => of_another_kind()
                .nth(random.below(KINDS.len() - 1))
                .map_or(0, |other| self.stale[other as usize][random.below(STALE)].load(SeqCst)),
            // Not valid in any case: a generation that no slot reaches; the number of a slot that was never made; the
            // bit that marks a slot that is being freed, which no handle has.
            6 => own ^ 1 << (INDEX_BITS + 31),
            7 => own ^ random.of(&[1 << (INDEX_BITS - 1), 1 << 63]),
            _ => random.below(1u64 << 32) << 32 | random.below(1u64 << 32),
        };
        (handle, if handle == 0 { -libc::EINVAL } else { -libc::EBADF })
    }
}

/// Number of callbacks that ran before their waiter began or after it ended.
pub static LATE_CALLBACKS: AtomicU64 = AtomicU64::new(0);

/// The callback of all waiters. The context is the waiter's entry, which outlives all calls.
pub unsafe extern "C" fn callback(context: *mut c_void) {
    // Slow, so that other threads end this waiter meanwhile, and those whose callbacks come later.
    std::thread::yield_now();
    // SAFETY: the context is an entry that outlives all calls.
    if !unsafe { (*context.cast::<Entry>()).is_armed.load(SeqCst) } {
        LATE_CALLBACKS.fetch_add(1, SeqCst);
    }
}

/// The function of all timers that are delivered by calls. The context is the timers' entry, which outlives all calls.
pub unsafe extern "C" fn expired(context: *mut c_void, timers: *mut ufutex_timers, notice: *const ufutex_notice) {
    let mut taken = ufutex_expired::default();
    // SAFETY: the notice is valid during the call, and any number may be passed as a handle.
    let answer = unsafe { ufutex_timers_take(timers, notice, &mut taken) };
    assert!([0, 1, -libc::EBADF].contains(&answer), "taking a notice returned {answer}");
    // Slow, so that other threads free these timers meanwhile.
    std::thread::sleep(std::time::Duration::from_micros(20));
    // SAFETY: the context is an entry that outlives all calls.
    if !unsafe { (*context.cast::<Entry>()).is_armed.load(SeqCst) } {
        LATE_CALLBACKS.fetch_add(1, SeqCst);
    }
}
