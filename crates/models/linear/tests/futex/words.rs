//! The words of a program, at the addresses that the model computes with.

use std::sync::atomic::AtomicU32;

use crate::layout::{Layout, PAGE, WORDS};

/// Number of words. The first two are in one cache line.
pub const COUNT: usize = 3;

const PER_PAGE: usize = PAGE as usize / size_of::<AtomicU32>();

/// Zero at first.
#[repr(align(4096))]
pub struct Words([AtomicU32; 2 * PER_PAGE]);

impl Words {
    pub fn new() -> Box<Self> {
        Box::new(Self([const { AtomicU32::new(0) }; 2 * PER_PAGE]))
    }

    pub fn layout(&self) -> Layout {
        Layout { base: self.0.as_ptr().expose_provenance() as u64 }
    }

    pub fn word(&self, word: usize) -> &AtomicU32 {
        let (page, offset) = WORDS[word];
        &self.0[page * PER_PAGE + offset as usize / size_of::<AtomicU32>()]
    }

    pub fn clear(&self) {
        for word in 0..COUNT {
            self.word(word).store(0, std::sync::atomic::Ordering::SeqCst);
        }
    }
}
