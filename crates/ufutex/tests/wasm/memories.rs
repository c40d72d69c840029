//! Linear memories as runtimes implement them.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{RwLock, RwLockReadGuard};

use ufutex::wasm::LinearMemory;
use ufutex::{Fault, ObjectId};

pub const PAGE: u64 = 65536;

type Words = Box<[AtomicU64]>;

fn zeroes(bytes: u64) -> Words {
    (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
}

/// The shift of a 32-bit value within its 64-bit word.
fn shift(address: u64) -> u64 {
    address % 8 * 8
}

fn exchange32(word: &AtomicU64, address: u64, new: impl Fn(u32) -> u32) -> u32 {
    let shift = shift(address);
    let changed = |old: u64| old & !(0xffff_ffff << shift) | u64::from(new((old >> shift) as u32)) << shift;
    (word.fetch_update(SeqCst, SeqCst, |old| Some(changed(old))).expect("it always changes") >> shift) as u32
}

/// The guest's other operations on its memory.
pub trait GuestMemory: LinearMemory + Send + Sync + 'static {
    fn with_pages(pages: u64, maximum: u64) -> Self;
    fn grow(&self, pages: u64) -> bool;
    fn with_word<R>(&self, address: u64, f: impl FnOnce(&AtomicU64) -> R) -> R;

    fn store32(&self, address: u64, value: u32) {
        self.with_word(address, |word| exchange32(word, address, |_| value));
    }
    fn store64(&self, address: u64, value: u64) {
        self.with_word(address, |word| word.store(value, SeqCst));
    }
    fn compare_exchange32(&self, address: u64, current: u32, new: u32) -> u32 {
        self.with_word(address, |word| exchange32(word, address, |old| if old == current { new } else { old }))
    }
}

/// A memory whose maximum size is reserved at the beginning. It never moves; only its length changes.
pub struct Reserved {
    words: Words,
    bytes: AtomicU64,
    is_shared: bool,
    id: Option<ObjectId>,
}

impl Reserved {
    /// Gives the memory a number.
    pub fn numbered(self, id: u64) -> Self {
        Self { id: ObjectId::new(id), ..self }
    }

    /// Makes the memory not `shared`.
    pub fn unshared(self) -> Self {
        Self { is_shared: false, ..self }
    }
}

impl GuestMemory for Reserved {
    fn with_pages(pages: u64, maximum: u64) -> Self {
        let words = zeroes(maximum * PAGE);
        Self { words, bytes: AtomicU64::new(pages * PAGE), is_shared: true, id: None }
    }
    fn grow(&self, pages: u64) -> bool {
        let fits = |bytes| Some(bytes + pages * PAGE).filter(|bytes| *bytes <= self.words.len() as u64 * 8);
        self.bytes.fetch_update(SeqCst, SeqCst, fits).is_ok()
    }
    fn with_word<R>(&self, address: u64, f: impl FnOnce(&AtomicU64) -> R) -> R {
        f(&self.words[address as usize / 8])
    }
}

impl LinearMemory for Reserved {
    fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }
    fn load32(&self, address: u64) -> Result<u32, Fault> {
        Ok((self.load64(address & !7)? >> shift(address)) as u32)
    }
    fn load64(&self, address: u64) -> Result<u64, Fault> {
        assert!(address.is_multiple_of(8) && address < self.bytes(), "{address:#x} was not checked");
        Ok(self.words[address as usize / 8].load(SeqCst))
    }
    fn is_shared(&self) -> bool {
        self.is_shared
    }
    fn id(&self) -> Option<ObjectId> {
        self.id
    }
}

/// A memory that moves at each growth. An access locks it, so that it does not move meanwhile.
pub struct Movable {
    words: RwLock<Words>,
    maximum: u64,
    /// The memory is being moved. Every access faults until a fault has been resolved.
    pub is_away: AtomicBool,
    /// No fault will be resolved.
    pub is_lost: AtomicBool,
    pub faults: AtomicU64,
}

impl Movable {
    fn read(&self) -> RwLockReadGuard<'_, Words> {
        self.words.read().expect("not poisoned")
    }
}

impl GuestMemory for Movable {
    fn with_pages(pages: u64, maximum: u64) -> Self {
        Self {
            words: RwLock::new(zeroes(pages * PAGE)),
            maximum: maximum * PAGE,
            is_away: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            faults: AtomicU64::new(0),
        }
    }
    fn grow(&self, pages: u64) -> bool {
        let mut words = self.words.write().expect("not poisoned");
        let bytes = words.len() as u64 * 8 + pages * PAGE;
        if bytes > self.maximum {
            return false;
        }
        let longer = zeroes(bytes);
        for (new, old) in longer.iter().zip(&*words) {
            new.store(old.load(SeqCst), SeqCst);
        }
        assert_ne!(longer.as_ptr(), words.as_ptr(), "it moves");
        *words = longer;
        true
    }
    fn with_word<R>(&self, address: u64, f: impl FnOnce(&AtomicU64) -> R) -> R {
        f(&self.read()[address as usize / 8])
    }
}

impl LinearMemory for Movable {
    fn bytes(&self) -> u64 {
        self.read().len() as u64 * 8
    }
    fn load32(&self, address: u64) -> Result<u32, Fault> {
        Ok((self.load64(address & !7)? >> shift(address)) as u32)
    }
    fn load64(&self, address: u64) -> Result<u64, Fault> {
        if self.is_away.load(SeqCst) {
            return Err(Fault);
        }
        let words = self.words.try_read().map_err(|_| Fault)?; // a bucket lock is held, so do not wait for the move
        Ok(words[address as usize / 8].load(SeqCst))
    }
    fn fault_in(&self, _address: u64) -> Result<(), Fault> {
        self.faults.fetch_add(1, SeqCst);
        drop(self.read());
        let is_lost = self.is_lost.load(SeqCst);
        self.is_away.store(is_lost, SeqCst);
        if is_lost { Err(Fault) } else { Ok(()) }
    }
}
