//! Handles of all classes: alive, freed, of another kind, of another generation, and numbers that never were one.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::random::Random;

/// What a handle stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    System,
    Domain,
    Task,
    Waiter,
}

pub const KINDS: [Kind; 4] = [Kind::System, Kind::Domain, Kind::Task, Kind::Waiter];

/// The number of a slot is in these bits of a handle, its generation in the 32 above them, and the kind above those.
const INDEX_BITS: u32 = 28;
/// Freed handles of one kind that are remembered.
const STALE: usize = 64;
/// An entry that a thread works with: a handle is being made for it, or that of the entry is being freed.
const RESERVED: u64 = 1;

/// A place for one live handle that all threads use.
#[derive(Default)]
pub struct Entry {
    /// 0 for none.
    handle: AtomicU64,
    /// Of a waiter: whether its callback may be called.
    pub is_armed: AtomicBool,
}

impl Entry {
    /// The handle, which another thread may be freeing.
    pub fn get(&self) -> Option<u64> {
        Some(self.handle.load(SeqCst)).filter(|handle| *handle > RESERVED)
    }

    /// Takes an empty entry to put a handle there.
    pub fn reserve(&self) -> bool {
        self.handle.compare_exchange(0, RESERVED, SeqCst, SeqCst).is_ok()
    }

    /// Takes the handle, to free it. Other threads go on using it if they have looked before.
    pub fn take(&self) -> Option<u64> {
        let handle = self.get()?;
        self.handle.compare_exchange(handle, RESERVED, SeqCst, SeqCst).ok()
    }

    /// Puts a handle there, or none: 0. For a thread that has reserved or taken it, or has ended its waiter.
    pub fn put(&self, handle: u64) {
        self.handle.store(handle, SeqCst);
    }
}

/// The entries of one kind, or of waiters of one zone.
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

/// What is known of the handles that were given out.
pub struct History {
    /// Handles that were freed, at random places.
    stale: [[AtomicU64; STALE]; 4],
    /// A live handle of each kind that nobody frees before the end.
    anchors: [AtomicU64; 4],
    /// The largest number of a slot.
    highest: AtomicU64,
}

impl History {
    pub fn new() -> Self {
        Self {
            stale: [const { [const { AtomicU64::new(0) }; STALE] }; 4],
            anchors: [const { AtomicU64::new(0) }; 4],
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

    /// A handle has been made.
    pub fn made(&self, handle: u64) {
        self.highest.fetch_max(handle & ((1 << INDEX_BITS) - 1), SeqCst);
    }

    /// A handle has been freed.
    pub fn freed(&self, kind: Kind, handle: u64, random: &mut Random) {
        self.stale[kind as usize][random.below(STALE)].store(handle, SeqCst);
    }

    /// How many slots there have been.
    pub fn slots(&self) -> u64 {
        self.highest.load(SeqCst) + 1
    }

    /// A handle that is none of this kind, and what the header promises for it.
    pub fn bad(&self, kind: Kind, random: &mut Random) -> (u64, c_int) {
        let own = self.anchor(kind);
        let of_another_kind = || KINDS.into_iter().filter(move |other| *other != kind);
        let handle = match random.below(9) {
            0 => 0,
            1..4 => self.stale[kind as usize][random.below(STALE)].load(SeqCst),
            4 => of_another_kind().nth(random.below(3)).map_or(0, |other| self.anchor(other)),
            5 => of_another_kind()
                .nth(random.below(3))
                .map_or(0, |other| self.stale[other as usize][random.below(STALE)].load(SeqCst)),
            // Another generation, as far away as no slot comes; another slot, which was never made; the mark of one that is
            // being freed, which no handle has.
            6 => own ^ 1 << (INDEX_BITS + 31),
            7 => own ^ random.of(&[1 << (INDEX_BITS - 1), 1 << 63]),
            _ => (random.below(1 << 32) as u64) << 32 | random.below(1 << 32) as u64,
        };
        (handle, if handle == 0 { -libc::EINVAL } else { -libc::EBADF })
    }
}

/// How often a callback was called when its waiter had ended, or none had begun.
pub static LATE_CALLBACKS: AtomicU64 = AtomicU64::new(0);

/// The callback of all waiters. The context is the waiter's entry, which lives as long as the storm.
pub unsafe extern "C" fn callback(context: *mut c_void) {
    // Slow, so that other threads end this waiter meanwhile, and those whose turn comes after it.
    std::thread::yield_now();
    // SAFETY: see above.
    if !unsafe { (*context.cast::<Entry>()).is_armed.load(SeqCst) } {
        LATE_CALLBACKS.fetch_add(1, SeqCst);
    }
}
