//! The pages and words of a program: a few pages of each kind that futex(2) distinguishes, at addresses that mmap(2)
//! chose.

pub use crate::common::arena::{PAGE, Page};
use crate::program::{Rights, WORKERS};

/// The pages that contain words, in address order, with their initial access rights.
pub const PAGES: [(Page, Rights); 8] = [
    (Page::Anonymous, Rights::ReadWrite),
    (Page::Anonymous, Rights::ReadWrite),
    (Page::Object(0), Rights::ReadWrite),
    (Page::Object(1), Rights::ReadWrite),
    // The first page of the object again, mapped at a second address.
    (Page::Object(0), Rights::ReadWrite),
    (Page::Anonymous, Rights::Nothing),
    (Page::Anonymous, Rights::Read),
    (Page::Object(2), Rights::Read),
];

/// The pages whose access rights programs change.
pub const PROTECTED: [usize; 4] = [1, 2, 3, 4];

/// The page and the offset of each word.
pub const WORDS: [(usize, u64); 9] = [(0, 0), (0, 8), (1, 8), (2, 0), (3, 16), (4, 0), (5, 0), (6, 0), (7, 0)];

/// After `PAGES` comes one page for each worker, for the timeouts and vectors of its calls. The pages of robust lists
/// come last. The list entry for a word lies `LINKS` pages after the word and is always accessible, unlike the word.
pub const ALL_PAGES: usize = LINKS + PAGES.len();
const LINKS: usize = PAGES.len() + WORKERS;

/// The offset of a timeout in a worker's page.
pub const TIME_OFFSET: u64 = 0;
pub const VECTOR_OFFSET: u64 = 64;
/// The offset of the robust list's head in a worker's page.
pub const ROBUST_OFFSET: u64 = 3584;

/// `futex_offset` of the robust lists: the distance from an entry to its word.
pub const FUTEX_OFFSET: i64 = -(LINKS as i64 * PAGE as i64);

/// The addresses in this process.
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

    /// The address of the robust list entry for a word.
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
