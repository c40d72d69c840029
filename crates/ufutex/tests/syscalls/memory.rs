//! The memory that the calls are about: words, times, arrays.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use crate::common::arena::{Arena, PAGE, Rights};

/// A 32-bit word that both the kernel and the engine find at its address. The memory of tests is never given back, so a
/// thread that still sleeps when its test is over does no harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub u64);

impl Word {
    fn atomic(self) -> &'static AtomicU32 {
        assert!(self.0.is_multiple_of(4), "{:#x} is no word's address", self.0);
        // SAFETY: words are made of the addresses of arenas that live as long as the process, and are aligned.
        unsafe { &*std::ptr::with_exposed_provenance(self.0 as usize) }
    }

    pub fn get(self) -> u32 {
        self.atomic().load(SeqCst)
    }

    pub fn set(self, value: u32) {
        self.atomic().store(value, SeqCst);
    }
}

impl From<Word> for u64 {
    fn from(word: Word) -> Self {
        word.0
    }
}

const PAGES: u64 = 48;
const TWIN_PAGES: u64 = 2;
/// The pages at the end of the private ones that are handed out whole.
const WHOLE_PAGES: u64 = 12;
/// How far apart things lie that are handed out: in cache lines of their own.
const APART: u64 = 64;

/// Where the next thing of each kind goes.
pub struct Memory {
    arena: &'static Arena,
    private: AtomicU64,
    whole: AtomicU64,
    twin: AtomicU64,
}

impl Memory {
    pub fn new() -> Self {
        let arena = Arena::with_twins(PAGES as usize, TWIN_PAGES as usize, 77);
        Self {
            arena: Box::leak(Box::new(arena)),
            private: AtomicU64::new(0),
            whole: AtomicU64::new((PAGES - WHOLE_PAGES) * PAGE),
            twin: AtomicU64::new(PAGES * PAGE),
        }
    }

    pub fn arena(&self) -> &'static Arena {
        self.arena
    }

    /// Private anonymous memory.
    pub fn bytes(&self, length: u64) -> u64 {
        let offset = self.private.fetch_add(length.next_multiple_of(APART), SeqCst);
        assert!(offset + length <= (PAGES - WHOLE_PAGES) * PAGE, "the arena is full");
        self.arena.at(offset)
    }

    /// A word in private anonymous memory.
    pub fn private_word(&self, value: u32) -> Word {
        let word = Word(self.bytes(4));
        word.set(value);
        word
    }

    /// A word in an object that is mapped twice, under both of its addresses.
    pub fn twin_words(&self, value: u32) -> [Word; 2] {
        let offset = self.twin.fetch_add(APART, SeqCst);
        assert!(offset < (PAGES + TWIN_PAGES) * PAGE, "the object is full");
        let twins = [offset, offset + TWIN_PAGES * PAGE].map(|offset| Word(self.arena.at(offset)));
        twins[0].set(value);
        twins
    }

    /// The last page of the object under its first address, with these rights there.
    pub fn object_page(&self, rights: Rights) -> u64 {
        let offset = (PAGES + TWIN_PAGES - 1) * PAGE;
        self.arena.protect(offset, rights);
        self.arena.at(offset)
    }

    /// A private anonymous page of its own, touched once, with these rights. Full of zeroes.
    pub fn page(&self, rights: Rights) -> u64 {
        let offset = self.whole.fetch_add(PAGE, SeqCst);
        assert!(offset < PAGES * PAGE, "there are no more whole pages");
        self.arena.word(offset).store(0, SeqCst);
        self.arena.protect(offset, rights);
        self.arena.at(offset)
    }

    /// Changes the rights of the page at `address`.
    pub fn protect(&self, address: u64, rights: Rights) {
        self.arena.protect(address - self.arena.at(0), rights);
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.arena.write(address - self.arena.at(0), bytes);
    }

    pub fn put_u64(&self, address: u64, value: u64) {
        self.put(address, &value.to_ne_bytes());
    }

    pub fn get_u64(&self, address: u64) -> u64 {
        let [low, high] = [0, 4].map(|at| u64::from(Word(address + at).get()));
        low | high << 32
    }

    /// A `timespec` with these numbers, valid or not.
    pub fn raw_time(&self, seconds: i64, nanoseconds: i64) -> u64 {
        let at = self.bytes(16);
        self.put_u64(at, seconds as u64);
        self.put_u64(at + 8, nanoseconds as u64);
        at
    }

    /// A `timespec` that means a length of time.
    pub fn time(&self, length: Duration) -> u64 {
        self.raw_time(length.as_secs() as i64, length.subsec_nanos().into())
    }

    /// A `timespec` that means a time on `clock`, so long from now.
    pub fn time_from_now(&self, clock: libc::clockid_t, length: Duration) -> u64 {
        self.time(now(clock) + length)
    }
}

pub fn now(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is writable.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
