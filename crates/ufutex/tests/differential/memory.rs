//! The memory of the programs, which the kernel and the engine share at the same addresses.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::arena::Arena;
use crate::common::pages::host_address;

use crate::layout::{ALL_PAGES, Layout, PAGE, PAGES, Page, TIME_OFFSET, VECTOR_OFFSET, WORDS};
use crate::program::Rights;
use crate::resolve::{Raw, Robust};

pub struct Memory {
    pub layout: Layout,
    pub arena: Arena,
}

impl Memory {
    pub fn new() -> Self {
        let pages: [_; ALL_PAGES] =
            std::array::from_fn(|page| PAGES.get(page).map_or(Page::Anonymous, |(page, _)| *page));
        let arena = Arena::of(&pages, 1);
        let this = Self { layout: Layout { base: arena.at(0) }, arena };
        for (page, (_, rights)) in PAGES.iter().enumerate() {
            this.protect(page, *rights);
        }
        this
    }

    pub fn protect(&self, page: usize, rights: Rights) {
        self.arena.protect(page as u64 * PAGE, rights);
    }

    /// Sets all words to 0 and all pages to their initial access rights.
    pub fn reset(&self) {
        for (page, (_, rights)) in PAGES.iter().enumerate() {
            self.protect(page, *rights);
        }
        for word in 0..WORDS.len() {
            self.store(word, 0);
        }
    }

    fn offset(&self, word: usize) -> u64 {
        self.layout.word(word) - self.layout.base
    }

    /// The value of a word, `None` if its page is not readable.
    pub fn value(&self, word: usize) -> Option<u32> {
        let at = self.offset(word);
        self.arena.allows(at, Rights::Read).then(|| self.arena.word(at).load(Ordering::SeqCst))
    }

    /// Writes a word if its page is writable.
    pub fn store(&self, word: usize, value: u32) {
        let at = self.offset(word);
        if self.arena.allows(at, Rights::ReadWrite) {
            self.arena.word(at).store(value, Ordering::SeqCst);
        }
    }

    /// Writes the timeout and the vector that the arguments of a call point to into the worker's page.
    pub fn prepare(&self, worker: usize, raw: &Raw) {
        let words = |offset: u64, words: &[u64]| self.put(self.layout.scratch(worker) + offset, words);
        if let Some(time) = raw.time {
            words(TIME_OFFSET, &time.map(i64::cast_unsigned));
        }
        words(VECTOR_OFFSET, raw.vector.as_flattened());
        if !raw.vector.is_empty() && raw.vector.len() < 100 {
            // The call's length may exceed the vector. It must not find entries of an earlier call behind it.
            words(VECTOR_OFFSET + 24 * raw.vector.len() as u64, &[0; 24]);
        }
    }

    /// Writes the head and the entries of a robust list to their addresses.
    pub fn prepare_robust(&self, robust: &Robust) {
        self.put(robust.head, &robust.members);
        for [at, next] in &robust.links {
            self.put(*at, &[*next]);
        }
    }

    /// Writes to pages that are always writable.
    fn put(&self, address: u64, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            let at = std::ptr::with_exposed_provenance(host_address(address + 8 * i as u64));
            // SAFETY: the address lies in a worker's page, which has room for a vector of 129, or in a page of the
            // lists.
            let at: &AtomicU64 = unsafe { &*at };
            at.store(*word, Ordering::Relaxed);
        }
    }
}
