//! Where the words lie: a few pages of each kind that futex(2) tells apart, at addresses of the kernel's choice.

use crate::program::{Rights, WORKERS};

pub const PAGE: u64 = 4096;

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Anonymous, private to this process.
    Anonymous,
    /// A page of a shared object, by its number in that object.
    Object(u64),
}

/// The pages with words, in the order of their addresses, with the rights that each has at first.
pub const PAGES: [(Kind, Rights); 8] = [
    (Kind::Anonymous, Rights::ReadWrite),
    (Kind::Anonymous, Rights::ReadWrite),
    (Kind::Object(0), Rights::ReadWrite),
    (Kind::Object(1), Rights::ReadWrite),
    // The first page of the object once more, at another address.
    (Kind::Object(0), Rights::ReadWrite),
    (Kind::Anonymous, Rights::Nothing),
    (Kind::Anonymous, Rights::Read),
    (Kind::Object(2), Rights::Read),
];

/// The pages that programs change the rights of.
pub const PROTECTED: [usize; 4] = [1, 2, 3, 4];

/// Where each word lies: page and offset.
pub const WORDS: [(usize, u64); 9] = [(0, 0), (0, 8), (1, 8), (2, 0), (3, 16), (4, 0), (5, 0), (6, 0), (7, 0)];

/// A page for each worker follows, where its calls find their times and vectors. The pages of robust lists come last:
/// the entry for a word lies so many pages after it, whatever may be done with the word.
pub const ALL_PAGES: usize = LINKS + PAGES.len();
const LINKS: usize = PAGES.len() + WORKERS;

/// Where in a worker's page a time lies, and where a vector.
pub const TIME_OFFSET: u64 = 0;
pub const VECTOR_OFFSET: u64 = 64;
/// And where the head of its robust list lies.
pub const ROBUST_OFFSET: u64 = 3584;

/// From an entry of a robust list to its word.
pub const FUTEX_OFFSET: i64 = -(LINKS as i64 * PAGE as i64);

/// Addresses.
#[derive(Clone, Copy)]
pub struct Layout {
    pub base: u64,
}

impl Layout {
    pub fn page(self, page: usize) -> u64 {
        self.base + page as u64 * PAGE
    }

    pub fn word(self, word: usize) -> u64 {
        let (page, offset) = WORDS[word];
        self.page(page) + offset
    }

    pub fn scratch(self, worker: usize) -> u64 {
        self.page(PAGES.len() + worker)
    }

    /// The address of the entry for a word in a robust list.
    pub fn link(self, word: usize) -> u64 {
        self.word(word).wrapping_add_signed(-FUTEX_OFFSET)
    }

    /// The page of `address` and the offset in it.
    pub fn find(self, address: u64) -> Option<(usize, u64)> {
        let offset = address.checked_sub(self.base)?;
        let page = (offset / PAGE) as usize;
        (page < ALL_PAGES).then_some((page, offset % PAGE))
    }
}
