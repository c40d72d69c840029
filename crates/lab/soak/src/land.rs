//! The memory of a guest with its locks: robust lists lie in it, and the engine walks them when a task dies.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use ufutex::{Access, At, Fault, GuestWord, Key, Target, UserMemory, Width};

/// The address of the first byte.
const BASE: u64 = 0x10_0000;
/// Locks of each kind.
pub const LOCKS: usize = 2;
/// A list's head: first entry, offset from an entry to its word, entry of a pending operation.
const HEAD: u64 = 64;
/// An entry: the next entry, and behind it the lock's word. Each is on a line of its own.
const ENTRY: u64 = 64;
const OFFSET: u64 = 8;

/// Which kind of lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A lock of `lock_pi`.
    Pi,
    /// A lock of the program's own, which is on robust lists.
    Robust,
}

/// A lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    pub kind: Kind,
    pub index: usize,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Pi => "lock with priority inheritance",
            Kind::Robust => "robust lock",
        };
        write!(f, "{kind} {}", self.index)
    }
}

/// What a lock guards: the TID of the task inside (0: none), and the number of critical sections. `sections` is changed by
/// a load and a store, so two tasks that are inside at once lose a count.
#[derive(Default)]
pub struct Guarded {
    pub inside: AtomicU64,
    pub sections: AtomicU64,
}

/// See the top of this file.
pub struct Land {
    words: Vec<AtomicU64>,
    guarded: Vec<Guarded>,
    lockers: usize,
}

impl Land {
    pub fn new(lockers: usize) -> Self {
        let bytes = HEAD * lockers as u64 + ENTRY * 2 * LOCKS as u64 + 64;
        let words: Vec<_> = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        let land = Self { words, guarded: (0..2 * LOCKS).map(|_| Guarded::default()).collect(), lockers };
        for locker in 0..lockers {
            let head = land.head(locker);
            land.set(head, head);
            land.set(head + 8, OFFSET);
        }
        land
    }

    /// All locks.
    pub fn locks() -> impl Iterator<Item = Lock> {
        [Kind::Pi, Kind::Robust].into_iter().flat_map(|kind| (0..LOCKS).map(move |index| Lock { kind, index }))
    }

    /// The address of a locker's list.
    pub fn head(&self, locker: usize) -> u64 {
        BASE + HEAD * locker as u64
    }

    fn number(lock: Lock) -> usize {
        lock.index + if lock.kind == Kind::Pi { 0 } else { LOCKS }
    }

    fn entry(&self, lock: Lock) -> u64 {
        BASE + HEAD * self.lockers as u64 + ENTRY * Self::number(lock) as u64
    }

    /// A lock's word, as `lock_pi` names it.
    pub fn pi_word(&self, lock: Lock) -> GuestWord<'_, Self> {
        GuestWord::new(self, self.entry(lock) + OFFSET, Width::U32).expect("it is aligned")
    }

    /// A lock's word, as the kernel names it when it walks a robust list: without `FUTEX_PRIVATE_FLAG`.
    pub fn robust_word(&self, lock: Lock) -> At<GuestWord<'_, Self>> {
        At::address_space(self.pi_word(lock))
    }

    /// The value of a lock's word.
    pub fn value(&self, lock: Lock) -> u32 {
        self.pi_word(lock).load().unwrap_or_default() as u32
    }

    /// Changes a lock's word from `current`. Returns whether it was that.
    pub fn exchange(&self, lock: Lock, current: u32, new: u32) -> bool {
        matches!(self.pi_word(lock).compare_exchange(current.into(), new.into()), Ok(Ok(_)))
    }

    /// The address of a lock's word.
    pub fn address(&self, lock: Lock) -> u64 {
        self.pi_word(lock).address()
    }

    pub fn guarded(&self, lock: Lock) -> &Guarded {
        &self.guarded[Self::number(lock)]
    }

    /// Writes down in a locker's robust list which locks it holds.
    pub fn list(&self, locker: usize, held: &[Lock]) {
        let head = self.head(locker);
        let mut next = head;
        for lock in held {
            let entry = self.entry(*lock);
            self.set(entry, next);
            next = entry | u64::from(lock.kind == Kind::Pi);
        }
        self.set(head, next);
    }

    fn set(&self, address: u64, value: u64) {
        self.words[(address - BASE) as usize / 8].store(value, Ordering::Relaxed);
    }

    fn at(&self, address: u64) -> Result<&AtomicU64, Fault> {
        let index = address.checked_sub(BASE).ok_or(Fault)? / 8;
        self.words.get(index as usize).ok_or(Fault)
    }
}

/// How far the word at `address` is shifted within its 64 bits, and its mask there.
fn part(address: u64, width: Width) -> (u32, u64) {
    let bits = 8 * width.bytes() as u32;
    (8 * (address % 8) as u32, u64::MAX >> (64 - bits))
}

impl UserMemory for Land {
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
        let (shift, mask) = part(address, width);
        Ok(self.at(address)?.load(Ordering::SeqCst) >> shift & mask) // [Lm]
    }

    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let (shift, mask) = part(address, width);
        let word = self.at(address)?;
        let mut whole = word.load(Ordering::SeqCst); // [Lm]
        loop {
            let value = whole >> shift & mask;
            if value != current {
                return Ok(Err(value));
            }
            let changed = whole & !(mask << shift) | (new & mask) << shift;
            match word.compare_exchange(whole, changed, Ordering::SeqCst, Ordering::SeqCst) {
                // [Lm]
                Ok(_) => return Ok(Ok(value)),
                Err(now) => whole = now,
            }
        }
    }

    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}
