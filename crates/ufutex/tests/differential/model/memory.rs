//! The memory in the model: bytes and access rights.

use crate::layout::{ALL_PAGES, Layout, PAGES, Page, TIME_OFFSET, VECTOR_OFFSET};
use crate::program::{Rights, WORKERS};
use crate::resolve::Raw;

/// An access that the page's rights do not allow.
pub struct Fault;

/// All words lie in the first `USED` bytes of a page. The bytes after them are zero and never written.
const USED: usize = 32;

#[derive(Clone)]
pub struct Memory {
    layout: Layout,
    rights: [Rights; ALL_PAGES],
    /// The contents of the pages, indexed by `frame`.
    frames: [[u8; USED]; PAGES.len()],
    /// The workers' own pages, up to the last byte written.
    scratch: [Vec<u8>; WORKERS],
}

/// The frame of a page. Two mappings of one object page have the same frame.
fn frame(page: usize) -> usize {
    let same = |(kind, _): &(Page, Rights)| *kind == PAGES[page].0 && *kind != Page::Anonymous;
    PAGES.iter().position(same).unwrap_or(page)
}

impl Memory {
    pub fn new(layout: Layout) -> Self {
        let rights = std::array::from_fn(|page| PAGES.get(page).map_or(Rights::ReadWrite, |(_, rights)| *rights));
        Self { layout, rights, frames: [[0; USED]; PAGES.len()], scratch: [const { Vec::new() }; WORKERS] }
    }

    pub fn rights(&self, page: usize) -> Rights {
        self.rights[page]
    }

    pub fn protect(&mut self, page: usize, rights: Rights) {
        self.rights[page] = rights;
    }

    /// Writes the timeout and the vector that the arguments of a call point to into the worker's page.
    pub fn prepare(&mut self, worker: usize, raw: &Raw) {
        let scratch = &mut self.scratch[worker];
        scratch.clear();
        scratch.resize(VECTOR_OFFSET as usize, 0);
        let time = raw.time.unwrap_or_default();
        for (i, word) in time.iter().enumerate() {
            let at = TIME_OFFSET as usize + 8 * i;
            scratch[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        scratch.extend(raw.vector.as_flattened().iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn byte(&self, address: u64) -> Result<u8, Fault> {
        let (page, offset) = self.layout.find(address).ok_or(Fault)?;
        if self.rights[page] < Rights::Read {
            return Err(Fault);
        }
        let bytes = match page.checked_sub(PAGES.len()) {
            // The model does not read robust lists from its memory.
            Some(worker) => self.scratch.get(worker).map_or(&[][..], |scratch| &scratch[..]),
            None => &self.frames[frame(page)][..],
        };
        Ok(bytes.get(offset as usize).copied().unwrap_or(0))
    }

    /// Reads `N` bytes, aligned or not.
    pub fn read<const N: usize>(&self, address: u64) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(address.wrapping_add(i as u64))?;
        }
        Ok(bytes)
    }

    pub fn load(&self, address: u64) -> Result<u32, Fault> {
        self.read(address).map(u32::from_ne_bytes)
    }

    pub fn store(&mut self, address: u64, value: u32) -> Result<(), Fault> {
        let (page, offset) = self.layout.find(address).ok_or(Fault)?;
        if self.rights[page] < Rights::ReadWrite {
            return Err(Fault);
        }
        let at = offset as usize;
        self.frames[frame(page)][at..at + 4].copy_from_slice(&value.to_ne_bytes());
        Ok(())
    }

    /// The frame and the offset of `address`, equal for all mappings of one word.
    pub fn place(&self, address: u64) -> Option<(usize, u64)> {
        let (page, offset) = self.layout.find(address)?;
        Some((frame(page), offset))
    }

    /// The value of a word, regardless of its page's rights.
    pub fn value(&self, address: u64) -> u32 {
        let (page, offset) = self.layout.find(address).expect("a word lies in a page");
        let at = offset as usize;
        u32::from_ne_bytes(self.frames[frame(page)][at..at + 4].try_into().expect("4 bytes"))
    }
}
