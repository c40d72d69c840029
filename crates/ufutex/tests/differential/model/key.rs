//! Keys of futexes. Operations with equal keys use the same futex.

use super::{Answer, Model, errno};
use crate::layout::{PAGES, Page};
use crate::program::Rights;

/// The identity of a futex. Keys of different kinds are never equal, even for one address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// A private operation: the address, whether or not it is mapped.
    Private(u64),
    /// A shared operation on private anonymous memory: the address.
    Anonymous(u64),
    /// A shared operation on an object: the number of the object's page and the offset in the page.
    Object(u64, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
}

/// The end of user space addresses on x86-64: 47 bits without the last page.
const END_OF_USER: u64 = (1 << 47) - 4096;

impl Model {
    /// The key of `address`. For private operations this does not access the memory.
    pub(super) fn key(&self, address: u64, is_private: bool, access: Access) -> Answer<Key> {
        if !address.is_multiple_of(4) {
            return errno(libc::EINVAL);
        }
        if address >= END_OF_USER {
            return errno(libc::EFAULT);
        }
        if is_private {
            return Ok(Key::Private(address));
        }
        let Some((page, offset)) = self.layout.find(address) else { return errno(libc::EFAULT) };
        let kind = PAGES.get(page).map_or(Page::Anonymous, |(page, _)| *page);
        let least = match (kind, access) {
            // The kernel faults anonymous pages in for writing, so a read-only page is EFAULT.
            (Page::Anonymous, _) | (_, Access::Write) => Rights::ReadWrite,
            (Page::Object(_), Access::Read) => Rights::Read,
        };
        if self.rights(page) < least {
            return errno(libc::EFAULT);
        }
        Ok(match kind {
            Page::Anonymous => Key::Anonymous(address),
            Page::Object(number) => Key::Object(number, offset),
        })
    }

    /// The word at `address`.
    pub(super) fn load(&self, address: u64) -> Answer<u32> {
        // Addresses beyond user space are in none of the program's pages.
        self.memory.load(address).or_else(|_| errno(libc::EFAULT))
    }

    pub(super) fn store(&mut self, address: u64, value: u32) -> Answer<()> {
        self.memory.store(address, value).or_else(|_| errno(libc::EFAULT))
    }
}
