//! The memory of the tests: words, timeouts, arrays.

use std::collections::HashSet;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::arena::{Arena, PAGE, Rights};
use crate::common::kernel::now;
#[cfg(target_os = "linux")]
use crate::common::kernel::{pointer, syscall};
use crate::common::libc;
use crate::common::pages::host_address;
#[cfg(target_os = "linux")]
use crate::machine::is_possible;

/// A 32-bit word at the same address for the kernel and the engine. The memory of tests is leaked, so a thread that
/// still sleeps after its test does not use freed memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word(pub u64);

impl Word {
    fn atomic(self) -> &'static AtomicU32 {
        assert!(self.0.is_multiple_of(4), "{:#x} is no word's address", self.0);
        // SAFETY: the address is aligned and lies in an arena that lives as long as the process.
        unsafe { &*std::ptr::with_exposed_provenance(host_address(self.0)) }
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
/// Number of private pages that are handed out as whole pages.
const WHOLE_PAGES: u64 = 12;
/// Alignment of each piece of memory: a cache line of its own.
const APART: u64 = 64;

/// The test's memory, which is handed out piece by piece.
pub struct Memory {
    arena: &'static Arena,
    private: AtomicU64,
    whole: AtomicU64,
    twin: AtomicU64,
    /// The pages whose memory policy is to prefer node 0.
    preferring_0: Arc<Mutex<HashSet<u64>>>,
}

impl Memory {
    pub fn new() -> Self {
        let preferring_0 = Arc::new(Mutex::new(HashSet::new()));
        let pages = preferring_0.clone();
        let policy = move |at| pages.lock().expect("not poisoned").contains(&(at & !(PAGE - 1))).then_some(0);
        let arena = Arena::with_twins(PAGES as usize, TWIN_PAGES as usize, 77).with_policy(policy);
        Self {
            preferring_0,
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

    /// The last page of the object at its first address, with these rights.
    pub fn object_page(&self, rights: Rights) -> u64 {
        let offset = (PAGES + TWIN_PAGES - 1) * PAGE;
        self.arena.protect(offset, rights);
        self.arena.at(offset)
    }

    /// A private anonymous page with these rights. It is zero and has been faulted in.
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

    /// Sets the memory policy of the page at `address`, on the host too. Returns `false`, and prints why, where mbind(2) is
    /// not permitted.
    #[cfg(target_os = "linux")]
    pub fn prefer_0(&self, address: u64) -> bool {
        const MPOL_PREFERRED: u64 = 1;
        let nodes = 1u64;
        let args = [address, PAGE, MPOL_PREFERRED, pointer(&raw const nodes), 8, 0];
        // SAFETY: a mapping of our own, whose contents mbind(2) does not change.
        let result = unsafe { syscall(libc::SYS_mbind, args) };
        if result == 0 {
            self.preferring_0.lock().expect("not poisoned").insert(address);
        }
        is_possible((result != 0).then(|| format!("mbind(2) is not permitted here: errno {}", -result)))
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

    /// A `timespec` with these members, which may be invalid.
    pub fn raw_time(&self, seconds: i64, nanoseconds: i64) -> u64 {
        let at = self.bytes(16);
        self.put_u64(at, seconds as u64);
        self.put_u64(at + 8, nanoseconds as u64);
        at
    }

    /// A `timespec` with a relative time.
    pub fn time(&self, length: Duration) -> u64 {
        self.raw_time(length.as_secs() as i64, length.subsec_nanos().into())
    }

    /// A `timespec` with the absolute time on `clock` that is `length` from now.
    pub fn time_from_now(&self, clock: libc::clockid_t, length: Duration) -> u64 {
        self.time(now(clock) + length)
    }
}
