//! The guest's memory: bytes and rights.

use crate::layout::{ALL_PAGES, Kind, Layout, PAGES, TIME_OFFSET, VECTOR_OFFSET};
use crate::program::{Rights, WORKERS};
use crate::resolve::Raw;

/// An access that is not allowed.
pub struct Fault;

/// Words lie in the first bytes of a page; the rest is zero and never written.
const USED: usize = 32;

pub struct Memory {
    layout: Layout,
    rights: [Rights; ALL_PAGES],
    /// What the pages hold, by `frame`.
    frames: [[u8; USED]; PAGES.len()],
    /// The workers' own pages, as far as they have been written.
    scratch: [Vec<u8>; WORKERS],
}

/// Pages of the same object hold the same.
fn frame(page: usize) -> usize {
    let same = |(kind, _): &(Kind, Rights)| *kind == PAGES[page].0 && *kind != Kind::Anonymous;
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

    /// Puts what the arguments of a worker's call point to into its page.
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
            // Robust lists are not read from here.
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

    /// Which bytes these are: the same for all addresses of one word.
    pub fn place(&self, address: u64) -> Option<(usize, u64)> {
        let (page, offset) = self.layout.find(address)?;
        Some((frame(page), offset))
    }

    /// What a word holds, whether it may be read or not.
    pub fn value(&self, address: u64) -> u32 {
        let (page, offset) = self.layout.find(address).expect("a word lies in a page");
        let at = offset as usize;
        u32::from_ne_bytes(self.frames[frame(page)][at..at + 4].try_into().expect("4 bytes"))
    }
}
